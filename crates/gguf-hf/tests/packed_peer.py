#!/usr/bin/env python3
"""Checkpoints with packed weights, and what llama.cpp's converter makes of them.

  packed_peer.py CONVERTER MODEL EXPERTS DIR

CONVERTER is the folder of convert_hf_to_gguf.py, MODEL a checkpoint of LlamaForCausalLM whose tokenizer and configuration are taken, and
EXPERTS one of DeepseekV3ForCausalLM whose experts are packed.
Writes DIR/CASE for each case and DIR/CASE.gguf, and prints the names of the cases. Needs torch and safetensors.
"""
import contextlib, io, json, os, shutil, sys
import torch
from safetensors.torch import load_file, save_file

HIDDEN, WIDE, HEADS, KV, VOCAB = 192, 320, 3, 1, 768


def base():
    g = torch.Generator().manual_seed(7)
    rand = lambda *shape: (torch.rand(*shape, generator=g) - 0.5) * 0.2
    kv = HIDDEN // HEADS * KV
    plain = {"model.embed_tokens.weight": rand(VOCAB, HIDDEN).bfloat16(), "model.norm.weight": rand(HIDDEN).bfloat16()}
    packed = {}
    for b in range(2):
        p = f"model.layers.{b}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            plain[f"{p}{norm}.weight"] = (rand(HIDDEN) + 1).bfloat16()
        for name, rows, columns in (("self_attn.q_proj", HIDDEN, HIDDEN), ("self_attn.k_proj", kv, HIDDEN), ("self_attn.v_proj", kv, HIDDEN),
                                    ("self_attn.o_proj", HIDDEN, HIDDEN), ("mlp.gate_proj", WIDE, HIDDEN), ("mlp.up_proj", WIDE, HIDDEN),
                                    ("mlp.down_proj", HIDDEN, WIDE)):
            packed[p + name] = rand(rows, columns)
    return plain, packed, g


def scaled(weight, store, scales, extra=()):
    """Weights in `store`, which makes them of floats, with the scales that `scales` makes of a shape, under a name in place of `.weight`."""
    def make(plain, packed, g):
        for name, w in packed.items():
            plain[f"{name}.weight"] = store(w, g)
            plain[f"{name}{weight}"] = scales(w.shape, g)
            for end in extra:
                plain[f"{name}{end}"] = torch.ones(1)
    return make


def uniform(dtype=torch.float32):
    return lambda *shape, g: (torch.rand(shape, generator=g) * 0.01 + 0.001).to(dtype)


def blocks(a, b, dtype=torch.float32):
    return lambda shape, g: uniform(dtype)(-(-shape[0] // a), -(-shape[1] // b), g=g)


def shaped(f, dtype=torch.float32):
    return lambda shape, g: uniform(dtype)(*f(shape), g=g)


e4m3 = lambda w, g: (w * 3000).clamp(-448, 448).to(torch.float8_e4m3fn)
e5m2 = lambda w, g: (w * 3000).to(torch.float8_e5m2)
int8 = lambda w, g: torch.randint(-128, 128, w.shape, generator=g, dtype=torch.int8)


def words(*shape, g):
    return torch.randint(-2**31, 2**31, shape, generator=g, dtype=torch.int64).to(torch.int32)


def gptq(bits, group, act_order=False):
    def make(plain, packed, g):
        for name, w in packed.items():
            n, k = w.shape
            groups = -(-k // group)
            index = torch.arange(k, dtype=torch.int32) // group
            plain[f"{name}.g_idx"] = index[torch.randperm(k, generator=g)] if act_order else index
            plain[f"{name}.qweight"] = words(k * bits // 32, n, g=g)
            plain[f"{name}.qzeros"] = words(groups, n * bits // 32, g=g)
            plain[f"{name}.scales"] = uniform(torch.float16)(groups, n, g=g)
    return make


def pack_quantized(bits, group, zeros):
    def make(plain, packed, g):
        per_word = 32 // bits
        for name, w in packed.items():
            n, k = w.shape
            plain[f"{name}.weight_packed"] = words(n, -(-k // per_word), g=g)
            plain[f"{name}.weight_shape"] = torch.tensor([n, k], dtype=torch.int64)
            plain[f"{name}.weight_scale"] = uniform(torch.bfloat16)(n, k // group, g=g)
            if zeros:
                plain[f"{name}.weight_zero_point"] = words(-(-n // per_word), k // group, g=g)
    return make


def bitnet(plain, packed, g):
    for name, w in packed.items():
        n, k = w.shape
        trits = torch.randint(0, 3, (4, n // 4, k), generator=g, dtype=torch.uint8)
        plain[f"{name}.weight"] = trits[0] | trits[1] << 2 | trits[2] << 4 | trits[3] << 6
        plain[f"{name}.weight_scale"] = uniform(torch.bfloat16)(1, g=g) + 1


def nvfp4(weight, scale, activations, is_fp8=lambda name: False, shape=()):
    """Codes and scales under ModelOpt's or compressed-tensors' names; weights that `is_fp8` picks are floats of 8 bits instead."""
    def make(plain, packed, g):
        for number, (name, w) in enumerate(packed.items()):
            one = lambda: torch.rand(shape, generator=g) + 0.01
            if is_fp8(name):
                plain[f"{name}.weight"] = e4m3(w, g)
                plain[f"{name}.weight_scale"], plain[f"{name}.input_scale"] = one(), one()
                continue
            codes = torch.randint(0, 256, (w.shape[0], w.shape[1] // 2), generator=g, dtype=torch.uint8)
            scales = torch.randint(0, 256, (w.shape[0], w.shape[1] // 16), generator=g, dtype=torch.uint8)
            plain[f"{name}{weight}"], plain[f"{name}.weight_scale"] = codes, scales.view(torch.float8_e4m3fn)
            # Scales that are 1, and that are missing.
            if number % 5 != 3:
                plain[f"{name}{scale}"] = torch.ones(shape) if number % 5 == 1 else one()
                plain[f"{name}{activations}"] = torch.ones(shape) if number % 5 == 2 else one()
            plain[f"{name}.k_scale"] = torch.ones(())
    return make


ATTENTION = lambda name: "self_attn" in name
MODELOPT = (".weight", ".weight_scale_2", ".input_scale")
GLOBAL = (".weight_packed", ".weight_global_scale", ".input_global_scale")


def layers(of):
    """`quantized_layers`: what `of` says about each module."""
    names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    return {f"model.layers.{b}.{name}": {"quant_algo": of(name)} for b in range(2) for name in names}


def compressed(format, **weights):
    return {"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"]}}}


FP8 = {"quant_method": "fp8", "weight_block_size": None}
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
CHANNEL = {"strategy": "channel", "group_size": None, "num_bits": 8}
INV = ".weight_scale_inv"
GPTQ = {"quant_method": "gptq", "group_size": 64}
CASES = {
    "fp8-blocks": (BLOCKS, scaled(INV, e4m3, blocks(128, 128))),
    "fp8-blocks-bf16": (BLOCKS, scaled(INV, e4m3, blocks(128, 128, torch.bfloat16), [".activation_scale"])),
    "fp8-blocks-e5m2": ({**BLOCKS, "weight_block_size": [64, 96]}, scaled(INV, e5m2, blocks(64, 96))),
    "fp8-tensor": (FP8, scaled(INV, e4m3, shaped(lambda s: ()), [".activation_scale"])),
    "fp8-tensor-of-one": (FP8, scaled(INV, e4m3, shaped(lambda s: (1,)))),
    "fp8-rows": (FP8, scaled(INV, e4m3, shaped(lambda s: (s[0], 1)))),
    "fp8-rows-flat": (FP8, scaled(INV, e5m2, shaped(lambda s: (s[0],)))),
    "fp8-columns": (FP8, scaled(INV, e4m3, shaped(lambda s: (1, s[1])))),
    "fp8-mistral": (FP8, scaled(".qscale_weight", e4m3, shaped(lambda s: ()), [".qscale_act"])),
    "fp8-every-byte": (FP8, scaled(INV, lambda w, g: (torch.arange(w.numel()) % 256).to(torch.uint8).reshape(w.shape).view(torch.float8_e4m3fn),
                                   shaped(lambda s: ()))),
    "compressed-float": (compressed("float-quantized", type="float", **CHANNEL), scaled(".weight_scale", e4m3, shaped(lambda s: (s[0], 1), torch.bfloat16))),
    "compressed-float-blocks": (compressed("float-quantized", type="float", **{**CHANNEL, "strategy": "block", "block_structure": [128, 128]}),
                                scaled(".weight_scale", e4m3, blocks(128, 128, torch.bfloat16))),
    "compressed-int8": (compressed("int-quantized", type="int", **CHANNEL), scaled(".weight_scale", int8, shaped(lambda s: (s[0], 1), torch.bfloat16))),
    "compressed-naive": (compressed("naive-quantized", type="int", **CHANNEL), scaled(".weight_scale", int8, shaped(lambda s: (s[0], 1)))),
    **{f"compressed-pack{bits}{'-zeros' if zeros else ''}": (compressed("pack-quantized", type="int", strategy="group", group_size=group, num_bits=bits),
                                                            pack_quantized(bits, group, zeros))
       for bits, group, zeros in ((4, 32, False), (4, 64, True), (8, 32, False), (8, 64, True), (2, 32, True), (3, 32, False), (5, 64, True), (6, 32, True), (7, 32, False), (1, 32, False))},
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "FP8"}, scaled(".weight_scale", e4m3, shaped(lambda s: ()), [".input_scale", ".k_scale"])),
    "modelopt-rows": ({"quant_method": "modelopt", "quant_algo": "FP8"}, scaled(".weight_scale", e4m3, shaped(lambda s: (s[0],)), [".v_scale"])),
    "nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, nvfp4(*MODELOPT)),
    "nvfp4-w4a16": ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, nvfp4(*MODELOPT)),
    "nvfp4-mixed": ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                     "quantized_layers": layers(lambda name: "FP8" if ATTENTION(name) else "NVFP4" if "up" in name else "W4A16_NVFP4")},
                    nvfp4(*MODELOPT, is_fp8=ATTENTION)),
    "nvfp4-compressed": (compressed("nvfp4-pack-quantized", type="float", num_bits=4, group_size=16), nvfp4(*GLOBAL, shape=(1,))),
    "bitnet": ({"quant_method": "bitnet"}, bitnet),
    **{f"gptq{bits}{'-order' if order else ''}": ({**GPTQ, "bits": bits}, gptq(bits, 64, order)) for bits in (2, 4, 8) for order in (False, True)},
    "gptq4-v2": ({**GPTQ, "bits": 4, "checkpoint_format": "gptq_v2"}, gptq(4, 32, True)),
    "gptq4-one-group": ({**GPTQ, "bits": 4, "group_size": -1}, gptq(4, WIDE)),
    "gptq8-v1": ({**GPTQ, "bits": 8, "checkpoint_format": "gptq"}, gptq(8, 32)),
}


def int4_experts(model, shape_dtype):
    """The tensors of a mixture of experts whose routed experts are int4 in groups of 32, as in Kimi K2 Thinking; the others are BF16."""
    g = torch.Generator().manual_seed(11)
    tensors = {}
    for name, w in load_file(os.path.join(model, "model.safetensors")).items():
        end = name.rsplit(".", 2)[-2]
        if "experts" in name:
            n, k = (w.shape[0], EXPERT) if end == "down_proj" else (EXPERT, w.shape[1])
            w = ((torch.rand(n, k, generator=g) - 0.5) * 0.2).bfloat16()
        if ".mlp.experts." in name:
            base = name.removesuffix(".weight")
            tensors[f"{base}.weight_packed"] = words(n, k // 8, g=g)
            tensors[f"{base}.weight_scale"] = uniform(torch.bfloat16)(n, k // 32, g=g)
            tensors[f"{base}.weight_shape"] = torch.tensor([n, k], dtype=shape_dtype)
        else:
            tensors[name] = w
    return tensors


# Values of a row of the experts' down projection: three groups.
EXPERT = 96
INT4_EXPERTS = {
    **compressed("pack-quantized", type="int", strategy="group", group_size=32, num_bits=4, symmetric=True, dynamic=False, actorder=None),
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    "kv_cache_scheme": None, "quantization_status": "compressed",
}


def kimi_k2(config, tensors):
    return {**config, "quantization_config": INT4_EXPERTS}, tensors


def kimi_k25(config, tensors):
    """The language model of a model that sees: its configuration is nested, and its tensors are renamed."""
    text = {**config, "model_type": "kimi_k2", "quantization_config": INT4_EXPERTS}
    config = {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "torch_dtype": "bfloat16", "text_config": text}
    sight = {"vision_tower.encoder.final_layernorm.weight": torch.ones(32).bfloat16(), "mm_projector.pre_norm.weight": torch.ones(32).bfloat16()}
    return config, {**{f"language_model.{name}": w for name, w in tensors.items()}, **sight}


EXPERTS = {"kimi-k2": (kimi_k2, torch.int32), "kimi-k2-shape64": (kimi_k2, torch.int64), "kimi-k25": (kimi_k25, torch.int32)}


def main():
    converter, model, experts, out = sys.argv[1:5]
    sys.path[:0] = [converter, os.path.join(converter, "gguf-py")]
    os.chdir(converter)
    with open(os.path.join(model, "config.json")) as f:
        config = json.load(f)
    config.pop("quantization_config", None)
    config.update(hidden_size=HIDDEN, intermediate_size=WIDE, num_attention_heads=HEADS, num_key_value_heads=KV, head_dim=HIDDEN // HEADS,
                  num_hidden_layers=2, vocab_size=VOCAB, tie_word_embeddings=True)
    for case, (quantization, make) in CASES.items():
        plain, packed, g = base()
        make(plain, packed, g)
        # Only one of the formats fails when tensors are read late, for a reason of its own.
        convert(out, case, model, {**config, "quantization_config": quantization}, plain, ["--no-lazy"] if case == "bitnet" else [])
    with open(os.path.join(experts, "config.json")) as f:
        config = {**json.load(f), "moe_intermediate_size": EXPERT}
    for case, (make, shape_dtype) in EXPERTS.items():
        convert(out, case, experts, *make(config, int4_experts(experts, shape_dtype)), [])


def convert(out, case, model, config, tensors, options):
    """Writes a checkpoint with the tokenizer of `model`, and converts it."""
    import convert_hf_to_gguf
    dir = os.path.join(out, case)
    os.makedirs(dir)
    for name in os.listdir(model):
        if name.startswith(("tokenizer", "special_tokens")):
            shutil.copy(os.path.join(model, name), dir)
    with open(os.path.join(dir, "config.json"), "w") as f:
        json.dump(config, f)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(dir, "model.safetensors"))
    sys.argv = ["convert_hf_to_gguf.py", *options, "--outfile", os.path.join(out, f"{case}.gguf"), dir]
    with contextlib.redirect_stdout(io.StringIO()):
        convert_hf_to_gguf.main()
    print(case, flush=True)


if __name__ == "__main__":
    main()
