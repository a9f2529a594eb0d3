#!/usr/bin/env python3
"""Records how the packages that define packed formats decode them.

  record.py AUTOAWQ GPTQMODEL OUT

AUTOAWQ and GPTQMODEL are the folders of the packages' sources (0.2.9 and 7.7.0), of which only the functions that decode are run;
bitsandbytes (0.50.2), torch and safetensors have to be installed. Writes OUT/CASE.safetensors with the packed tensors of a weight `w` and,
as `decoded`, its values.
"""
import ast, importlib.util, os, sys, types
import torch
from safetensors.torch import save_file

g = torch.Generator().manual_seed(16)


def functions(path, names, scope):
    """Functions of a module that cannot be imported on its own, wherever they are in it."""
    tree = ast.parse(open(path).read())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(ast.Module(body=[*ast.parse("from __future__ import annotations").body, *found], type_ignores=[]), path, "exec"), scope)
    return scope


def words(*shape):
    return torch.randint(-2**31, 2**31, shape, generator=g, dtype=torch.int64).to(torch.int32)


def halves(*shape):
    return (torch.rand(shape, generator=g) * 0.01 + 0.001).half()


def awq(source, k, n, group):
    spec = importlib.util.spec_from_file_location("packing_utils", f"{source}/awq/utils/packing_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    weight, zeros, scales = words(k, n // 8), words(k // group, n // 8), halves(k // group, n)
    decoded = module.dequantize_gemm(weight, zeros, scales, 4, group)
    return {"w.qweight": weight, "w.qzeros": zeros, "w.scales": scales, "decoded": decoded.T}


def gptq3(source, k, n, group, act_order):
    """With zeros as they are (`gptq_v2`)."""
    scope = {"t": torch, "torch": torch}
    names = ("_torch_right_shift", "_torch_left_shift", "_init_wf_unsqueeze_buffers", "dequantize_weight", "_dequantize_from_codes")
    functions(f"{source}/gptqmodel/nn_modules/qlinear/__init__.py", names, scope)
    index = torch.arange(k, dtype=torch.int32) // group
    if act_order:
        index = index[torch.randperm(k, generator=g)]
    wf = torch.tensor([[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0], [0, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
                       [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0]], dtype=torch.int32).reshape(1, 3, 12)
    layer = types.SimpleNamespace(planar=False, bits=3, maxq=7, in_features=k, qweight=words(k * 3 // 32, n), qzeros=words(k // group, n * 3 // 32),
                                  scales=halves(k // group, n), g_idx=index, wf_unsqueeze_zero=wf.unsqueeze(0), wf_unsqueeze_neg_one=wf.unsqueeze(-1),
                                  _init_wf_unsqueeze_buffers=lambda: None)
    layer._dequantize_from_codes = types.MethodType(scope["_dequantize_from_codes"], layer)
    decoded = scope["dequantize_weight"](layer)
    return {"w.qweight": layer.qweight, "w.qzeros": layer.qzeros, "w.scales": layer.scales, "w.g_idx": index, "decoded": decoded.T}


def bnb4(kind, nested, dtype, shape, block, storage=torch.uint8):
    import bitsandbytes.functional as F
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
    weight = ((torch.rand(shape, generator=g) - 0.5) * 0.2).to(dtype)
    codes, state = F.quantize_4bit(weight, quant_type=kind, compress_statistics=nested, blocksize=block, quant_storage=storage)
    packed = {f"w.weight.{name}": tensor for name, tensor in state.as_dict(packed=True).items()}
    # The rule itself; the kernel for CPUs takes other blocks where they are longer than rows.
    largest = state.absmax
    if nested:
        largest = F.dequantize_blockwise(state.absmax, state.state2) + state.offset
    decoded = _dequantize_4bit_compute(codes.view(torch.uint8).reshape(-1), largest, state.code, block, shape, dtype)
    if shape[1] % block == 0:
        assert torch.equal(decoded, F.dequantize_4bit(codes, state)), "the kernel for CPUs decodes otherwise"
    return {"w.weight": codes, **packed, "decoded": decoded}


def bnb8(shape):
    import bitsandbytes.functional as F
    weight = torch.randint(-127, 128, shape, generator=g, dtype=torch.int8)
    stats = torch.rand(shape[0], generator=g) * 0.2
    return {"w.weight": weight, "w.SCB": stats, "w.weight_format": torch.tensor(0, dtype=torch.uint8), "decoded": F.int8_vectorwise_dequant(weight, stats)}


def main():
    autoawq, gptqmodel, out = sys.argv[1:4]
    cases = {
        "awq": awq(autoawq, 64, 16, 32),
        "awq-one-group": awq(autoawq, 24, 24, 24),
        "gptq3": gptq3(gptqmodel, 64, 32, 32, False),
        "gptq3-order": gptq3(gptqmodel, 64, 32, 16, True),
        "nf4": bnb4("nf4", False, torch.bfloat16, (12, 40), 64),
        "nf4-nested": bnb4("nf4", True, torch.float16, (48, 30), 64),
        "nf4-stored-as-bf16": bnb4("nf4", True, torch.bfloat16, (16, 64), 128, torch.bfloat16),
        "fp4": bnb4("fp4", False, torch.float16, (12, 40), 64),
        "fp4-nested": bnb4("fp4", True, torch.float32, (16, 64), 64),
        "int8": bnb8((8, 24)),
    }
    for name, tensors in cases.items():
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, os.path.join(out, f"{name}.safetensors"))


if __name__ == "__main__":
    main()
