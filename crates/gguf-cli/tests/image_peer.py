#!/usr/bin/env python3
"""Checkpoints of image models: what ComfyUI-GGUF makes of them, and what the loaders of GGUF read.

  image_peer.py LOADERS make DIR       writes DIR/CASE.safetensors, and DIR/CASE.gguf by ComfyUI-GGUF's converter; prints the cases
  image_peer.py LOADERS check FILES    for each SOURCE=GGUF, loads GGUF with the loaders and compares it with the safetensors file SOURCE

LOADERS is a folder with the sources of ComfyUI-GGUF (its repository), diffusers and invokeai (the contents of their wheels). Needs torch,
gguf and safetensors. What the loaders import and do not need is replaced by empty modules.
"""
import contextlib, importlib, io, logging, os, sys, types, warnings
import importlib.metadata
from unittest import mock

loaders, mode, *args = sys.argv[1:]
sys.path[:0] = [loaders, os.path.join(loaders, "ComfyUI-GGUF", "tools")]
import gguf, numpy, torch
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

WIDE, SMALL = (256, 512), (64, 4)


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    made.__path__ = []
    sys.modules[name] = made
    return made


def case(names, extra=(), dtype=torch.bfloat16, prefix="", strangers=()):
    """A checkpoint with those tensors as matrices, and others of given shapes."""
    shapes = {name: WIDE if name.endswith("weight") else (256,) for name in names}
    shapes.update(extra)
    g = torch.Generator().manual_seed(5)
    tensors = {}
    for name, shape in {**{prefix + n: s for n, s in shapes.items()}, **dict(strangers)}.items():
        of = dtype
        if isinstance(shape, tuple) and shape and isinstance(shape[0], torch.dtype):
            of, shape = shape[0], shape[1]
        tensors[name] = ((torch.rand(shape, generator=g) - 0.5) * 0.7).to(of)
    return tensors


def cases():
    f16, f32, bf16 = torch.float16, torch.float32, torch.bfloat16
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    flux = ["double_blocks.0.img_attn.proj.weight", "double_blocks.0.img_attn.qkv.weight", "double_blocks.0.img_attn.qkv.bias", "img_in.weight"]
    common = [("double_blocks.0.img_attn.norm.query_norm.scale", (128,)), ("small.weight", (16, 16)), ("edge.weight", (32, 32)),
              ("over.weight", (25, 41)), ("conv.weight", (64, 8, 3, 3)), ("odd.weight", (33, 100))]
    long = "txt_in.individual_token_refiner.blocks.0.adaLN_modulation.1.weight"
    sdxl = ["input_blocks.3.0.op.weight", "input_blocks.6.0.op.weight", "output_blocks.2.2.conv.weight", "output_blocks.5.2.conv.weight"]
    convs = [(n, (64, 32, 3, 3)) for n in sdxl] + [("label_emb.0.0.weight", (64, 96)), ("time_embed.0.weight", (512, 256)),
             ("conv.tiny.weight", (8, 8, 2, 1)), ("conv.odd.weight", (5, 7, 11, 3)), ("a.bias", (320,))]
    wan = ["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "blocks.0.self_attn.v.weight", "blocks.0.ffn.2.weight"]
    modulation = [("head.modulation", (1, 2, 1024)), ("blocks.0.modulation", (1, 6, 512))]
    return {
        "flux": case(flux, common),
        # ComfyUI-GGUF writes tensors without dimensions, and does not load them.
        "scalar": case(flux, [("scalar", ())]),
        "flux-f16": case(flux, common, f16),
        "flux-f32": case(flux, common, f32),
        "flux-e4m3": case(flux, common, e4m3),
        "flux-e5m2": case(flux, common, e5m2),
        "flux-mixed": case(flux, [("a.weight", (f32, WIDE)), ("b.weight", (f16, WIDE)), ("c.weight", (f32, (128,))), ("d.weight", (f16, (128,)))]),
        "flux-prefix": case(flux, common, prefix="model.diffusion_model.", strangers=[("first_stage_model.a.weight", WIDE), ("cond.b", SMALL)]),
        "flux-net": case(flux, common, prefix="net."),
        "sd3": case(["joint_blocks.0.x_block.attn.qkv.weight"], [("pos_embed", (1, 64, 96))], f16),
        "aura": case(["double_layers.3.modX.1.weight"], [("positional_encoding", (1, 64, 96)), ("register_tokens", (1, 8, 256))]),
        "hidream": case(["caption_projection.0.linear.weight", "double_stream_blocks.0.block.ff_i.shared_experts.w3.weight"],
                        [("double_stream_blocks.0.block.ff_i.gate.weight", (4, 512)), ("img_emb.emb_pos", (1, 8, 256))]),
        "cosmos": case(["blocks.0.mlp.layer1.weight", "blocks.0.adaln_modulation_cross_attn.1.weight"],
                       [("pos_embedder.seq", (8, 512)), ("x._extra_state", (4,)), ("accum_iteration", (1,))]),
        "ltxv": case(["adaln_single.emb.timestep_embedder.linear_2.weight", "caption_projection.linear_2.weight"],
                     [("transformer_blocks.27.scale_shift_table", (6, 512))]),
        "hyvid": case(["double_blocks.0.img_attn_proj.weight", "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight", long]),
        "wan": case(wan, modulation),
        "sdxl": case(sdxl, convs, f16),
        "sdxl-f32": case(sdxl, convs, f32),
        "sd1": case(["down_blocks.0.downsamplers.0.conv.weight"], [("down.conv.weight", (64, 32, 3, 3))], f16),
        "lumina2": case(["cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight"]),
    }


def own_cases():
    """What ComfyUI-GGUF's converter leaves to other programs, or does not know."""
    wan = ["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "blocks.0.self_attn.v.weight"]
    patches = [("head.modulation", (1, 2, 1024)), ("patch_embedding.weight", (64, 16, 1, 2, 2)), ("patch_embedding.bias", (64,))]
    qwen = ["txt_norm.weight", "transformer_blocks.0.attn.norm_q.weight", "transformer_blocks.0.img_mlp.net.0.proj.weight",
            "transformer_blocks.0.attn.norm_added_k.weight", "transformer_blocks.0.attn.to_v.weight"]
    return {"wan-5d": case(wan, patches), "wan-5d-f16": case(wan, patches, torch.float16), "qwen_image": case(qwen)}


def make(folder):
    with mock.patch.object(sys, "argv", ["convert.py"]):
        import convert as comfy
    os.chdir(folder)
    for name, tensors in cases().items():
        save_file(tensors, f"{name}.safetensors")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            comfy.convert_file(f"{name}.safetensors", f"{name}.gguf", interact=False)
        print(name)
    for name, tensors in own_cases().items():
        save_file(tensors, f"{name}.safetensors")
        print(f"{name} own")


def comfy_loader():
    """`gguf_sd_loader` of ComfyUI-GGUF: names, shapes and values."""
    manual = types.SimpleNamespace(**{n: getattr(torch.nn, n) for n in ("Linear", "Conv2d", "Embedding", "LayerNorm", "GroupNorm")})
    comfy = module("comfy", model_management=mock.MagicMock(), lora=mock.MagicMock())
    comfy.ops = module("comfy.ops", manual_cast=type("manual_cast", (), vars(manual)), cast_bias_weight=None)
    sys.modules["comfy.lora"], sys.modules["comfy.model_management"] = comfy.lora, comfy.model_management
    package = module("comfy_gguf")
    package.__path__ = [os.path.join(loaders, "ComfyUI-GGUF")]
    loader = importlib.import_module("comfy_gguf.loader")
    dequant = importlib.import_module("comfy_gguf.dequant")

    def load(path):
        tensors, arch = loader.gguf_sd_loader(path, return_arch=True)
        return {n: (tuple(t.shape), dequant.dequantize_tensor(t, dtype=torch.float32)) for n, t in tensors.items()}
    return load


def invoke_loader():
    """`gguf_sd_loader` of InvokeAI."""
    module("invokeai.backend.util")
    logger = types.SimpleNamespace(get_logger=lambda: logging.getLogger("invokeai"))
    module("invokeai.backend.util.logging", InvokeAILogger=logger)
    for name in ("invokeai", "invokeai.backend"):
        module(name).__path__ = [os.path.join(loaders, *name.split("."))]
    load_file = importlib.import_module("invokeai.backend.quantization.gguf.loaders").gguf_sd_loader

    def load(path):
        tensors = load_file(path, torch.float32)
        return {n: (tuple(t.tensor_shape), t.get_dequantized_tensor()) for n, t in tensors.items()}
    return load


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of which only the names are needed."""
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "PIL" else None

    def create_module(self, spec):
        made = mock.MagicMock(__version__="11.0.0", __path__=[], __spec__=spec)
        return made

    def exec_module(self, made):
        pass


def diffusers_loader():
    """`load_gguf_checkpoint` of diffusers, which does not know the key of original shapes."""
    sys.modules.setdefault("importlib_metadata", importlib.metadata)
    sys.meta_path.append(Absent())
    from diffusers.models.model_loading_utils import load_gguf_checkpoint
    from diffusers.quantizers.gguf.utils import dequantize_gguf_tensor

    def load(path):
        tensors = load_gguf_checkpoint(path)
        values = {n: dequantize_gguf_tensor(t) if hasattr(t, "quant_type") else t for n, t in tensors.items()}
        return {n: (tuple(v.shape), v) for n, v in values.items()}
    return load


def check(pairs):
    problems, n = [], 0
    for name, make_loader in (("ComfyUI-GGUF", comfy_loader), ("InvokeAI", invoke_loader), ("diffusers", diffusers_loader)):
        load = make_loader()
        for pair in pairs:
            source, path = pair.split("=")
            expected = load_file(source)
            reader = gguf.GGUFReader(path)
            reshaped = {key.removeprefix("comfy.gguf.orig_shape.") for key in reader.fields if key.startswith("comfy.gguf.orig_shape.")}
            stored = {t.name: t for t in reader.tensors}
            loaded = load(path)
            if loaded.keys() != expected.keys():
                problems.append(f"{name}: {path}: other names: {loaded.keys() ^ expected.keys()}")
            for tensor, (shape, values) in loaded.items():
                t, wanted = stored[tensor], expected[tensor]
                if tuple(wanted.shape) != shape and not (name == "diffusers" and tensor in reshaped):
                    problems.append(f"{name}: {path}: {tensor} has the shape {shape}, expected {tuple(wanted.shape)}")
                    continue
                # What gguf-py decodes, and for floats the source itself.
                decoded = gguf.quants.dequantize(t.data, t.tensor_type).reshape(-1)
                found = values.float().numpy().reshape(-1)
                n += 1
                if not numpy.allclose(found, decoded, rtol=2e-3, atol=2e-3):
                    problems.append(f"{name}: {path}: {tensor} has other values")
                if t.tensor_type.name in ("F32", "BF16", "F16"):
                    exact = wanted.float().to({"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[t.tensor_type.name])
                    if not numpy.array_equal(decoded, exact.float().numpy().reshape(-1)):
                        problems.append(f"{name}: {path}: {tensor} is not the tensor of the checkpoint")
                elif numpy.abs(decoded - wanted.float().numpy().reshape(-1)).mean() > 0.05:
                    problems.append(f"{name}: {path}: {tensor} is far from the tensor of the checkpoint")
    print(n)
    sys.exit("\n".join(problems) or 0)


make(*args) if mode == "make" else check(args)
