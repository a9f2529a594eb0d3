#!/usr/bin/env python3
"""Checkpoints of DeepSeek 4, Kimi K3 and drafts in the forms that are published, and what llama.cpp's converter makes of them.

  made_peer.py CONVERTER DIR

CONVERTER is the folder of convert_hf_to_gguf.py. DIR has the folders deepseek4, kimi-k3 and gemma4 of checkpoints, whose tokenizers and
configurations are taken. Writes DIR/CASE for each case, and DIR/CASE-TYPE.gguf for each type; prints a line `CASE TYPE TARGET` for each
file, with `-` without a target. Needs torch and safetensors.
"""
import contextlib, io, json, os, shutil, sys
import torch
from safetensors.torch import save_file

HIDDEN, LORA, HEADS, HEAD, GROUPS, OUT_LORA, EXPERTS, FF, HYPER = 160, 160, 4, 64, 2, 80, 4, 96, 4
VOCAB = 32256


class Tensors(dict):
    def __init__(self):
        super().__init__()
        self.g = torch.Generator().manual_seed(11)

    def rand(self, *shape):
        return (torch.rand(*shape, generator=self.g) - 0.5) * 0.2

    def bf16(self, name, *shape):
        self[name] = self.rand(*shape).bfloat16()

    def f32(self, name, *shape):
        self[name] = self.rand(*shape)

    def bytes(self, *shape, low=0, high=256):
        return torch.randint(low, high, shape, generator=self.g, dtype=torch.uint8)

    def f8(self, name, rows, columns, as_bytes=False):
        """Floats of eight bits, with powers of two for blocks of 128 x 128."""
        self[f"{name}.weight"] = (self.rand(rows, columns) * 3000).to(torch.float8_e4m3fn)
        scale = self.bytes(-(-rows // 128), -(-columns // 128), low=100, high=130)
        self[f"{name}.scale"] = scale if as_bytes else scale.view(torch.float8_e8m0fnu)

    def mxfp4(self, weight, scale, rows, columns, dtype=torch.uint8):
        self[weight] = self.bytes(rows, columns // 2).view(dtype)
        self[scale] = self.bytes(rows, columns // 32, low=110, high=130)


def deepseek_block(t, p, ratio, as_bytes, hashed, vision):
    t.bf16(f"{p}attn_norm.weight", HIDDEN)
    t.bf16(f"{p}ffn_norm.weight", HIDDEN)
    t.f32(f"{p}attn.attn_sink", HEADS)
    t.f8(f"{p}attn.wq_a", LORA, HIDDEN, as_bytes)
    t.bf16(f"{p}attn.q_norm.weight", LORA)
    t.f8(f"{p}attn.wq_b", HEADS * HEAD, LORA, as_bytes)
    t.f8(f"{p}attn.wkv", HEAD, HIDDEN, as_bytes)
    t.bf16(f"{p}attn.kv_norm.weight", HEAD)
    t.f8(f"{p}attn.wo_a", GROUPS * OUT_LORA, HEADS * HEAD // GROUPS, as_bytes)
    t.f8(f"{p}attn.wo_b", HIDDEN, GROUPS * OUT_LORA, as_bytes)
    for part in ("attn", "ffn"):
        t.f32(f"{p}hc_{part}_fn", (2 + HYPER) * HYPER, HYPER * HIDDEN)
        t.f32(f"{p}hc_{part}_base", (2 + HYPER) * HYPER)
        t.f32(f"{p}hc_{part}_scale", 3)
    if ratio:
        wide = HEAD * (2 if ratio == 4 else 1)
        t.f32(f"{p}attn.compressor.ape", ratio, wide)
        t.bf16(f"{p}attn.compressor.wkv.weight", wide, HIDDEN)
        t.bf16(f"{p}attn.compressor.wgate.weight", wide, HIDDEN)
        t.bf16(f"{p}attn.compressor.norm.weight", HEAD)
    if ratio == 4:
        t.f8(f"{p}attn.indexer.wq_b", 4 * 32, LORA, as_bytes)
        t.bf16(f"{p}attn.indexer.weights_proj.weight", 4, HIDDEN)
        t.f32(f"{p}attn.indexer.compressor.ape", 4, 64)
        t.bf16(f"{p}attn.indexer.compressor.wkv.weight", 64, HIDDEN)
        t.bf16(f"{p}attn.indexer.compressor.wgate.weight", 64, HIDDEN)
        t.bf16(f"{p}attn.indexer.compressor.norm.weight", 32)
    t.bf16(f"{p}ffn.gate.weight", EXPERTS, HIDDEN)
    if hashed:
        t[f"{p}ffn.gate.tid2eid"] = torch.randint(0, EXPERTS, (VOCAB, 2), generator=t.g, dtype=torch.int64)
    if vision or not hashed:
        t.f32(f"{p}ffn.gate.bias", EXPERTS)
    if vision:
        t.f32(f"{p}ffn.gate.bias_vl", EXPERTS)
    t.f8(f"{p}ffn.shared_experts.w1", FF, HIDDEN, as_bytes)
    t.f8(f"{p}ffn.shared_experts.w2", HIDDEN, FF, as_bytes)
    t.f8(f"{p}ffn.shared_experts.w3", FF, HIDDEN, as_bytes)
    for x in range(EXPERTS):
        for name, rows, columns in (("w1", FF, HIDDEN), ("w2", HIDDEN, FF), ("w3", FF, HIDDEN)):
            t.mxfp4(f"{p}ffn.experts.{x}.{name}.weight", f"{p}ffn.experts.{x}.{name}.scale", rows, columns, torch.int8)


def hyper_head(t, p):
    t.f32(f"{p}hc_head_fn", HYPER, HYPER * HIDDEN)
    t.f32(f"{p}hc_head_base", HYPER)
    t.f32(f"{p}hc_head_scale", 1)


def deepseek4(config, as_bytes=False, vision=False, f16=False):
    config.update(hidden_size=HIDDEN, q_lora_rank=LORA, num_attention_heads=HEADS, head_dim=HEAD, o_groups=GROUPS, o_lora_rank=OUT_LORA,
                  n_routed_experts=EXPERTS, moe_intermediate_size=FF, hc_mult=HYPER, num_nextn_predict_layers=1,
                  dspark_block_size=5, dspark_noise_token_id=32000, dspark_target_layer_ids=[0, 1],
                  quantization_config={"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0",
                                       "weight_block_size": [128, 128]})
    t = Tensors()
    t.bf16("embed.weight", VOCAB, HIDDEN)
    t.bf16("norm.weight", HIDDEN)
    t.bf16("head.weight", VOCAB, HIDDEN)
    if f16:
        t["head.weight"] = t["head.weight"].half()
    hyper_head(t, "")
    for block, ratio in enumerate(config["compress_ratios"]):
        deepseek_block(t, f"layers.{block}.", ratio, as_bytes, block < config["num_hash_layers"], vision)
    if vision:
        t.bf16("vision.patch_embed.proj.weight", 8, 12)
        t.bf16("aligner.weight", 8, 8)
        t.bf16("image_newline", 8)
    for stage in range(2):
        deepseek_block(t, f"mtp.{stage}.", 0, as_bytes, False, vision)
    t.f8("mtp.0.main_proj", HIDDEN, 2 * HIDDEN)
    t.bf16("mtp.0.main_norm.weight", HIDDEN)
    t.bf16("mtp.1.norm.weight", HIDDEN)
    hyper_head(t, "mtp.1.")
    t.bf16("mtp.1.markov_head.markov_w1.weight", VOCAB, 32)
    t.bf16("mtp.1.markov_head.markov_w2.weight", VOCAB, 32)
    t.bf16("mtp.1.confidence_head.proj.weight", 1, HIDDEN + 32)
    return t


def kimi_k3(config):
    """The tensors of the checkpoint, with experts in MXFP4."""
    config["text_config"].update(routed_expert_hidden_size=32, quantization_config={
        "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "format": "mxfp4-pack-quantized",
                                      "weights": {"type": "float", "num_bits": 4, "group_size": 32, "strategy": "group"}}}})
    t = Tensors()
    from safetensors import safe_open
    with safe_open(os.path.join(DIR, "kimi-k3", "model.safetensors"), "pt") as stored:
        for name in stored.keys():
            if ".experts." in name and "shared" not in name:
                t.mxfp4(name + "_packed", name + "_scale", 32, 32)
            elif "routed_expert" in name:
                t.bf16(name, *[32 for _ in stored.get_tensor(name).shape])
            else:
                t[name] = stored.get_tensor(name)
    return t


def gemma4_draft(config, rope):
    for name in ("num_kv_shared_layers", "hidden_size_per_layer_input", "final_logit_softcapping"):
        config.pop(name)
    config.pop("rope_parameters")
    if rope:
        config["rope_parameters"] = rope
    config.update(architectures=["Gemma4DSparkModel"], num_hidden_layers=2, layer_types=["full_attention"] * 2, block_size=8,
                  tie_word_embeddings=False, dflash_config={"target_layer_ids": [0, 2], "mask_token_id": 5})
    t = Tensors()
    t.bf16("embed_tokens.weight", 768, 64)
    t.bf16("lm_head.weight", 768, 64)
    t.bf16("norm.weight", 64)
    t.bf16("fc.weight", 64, 128)
    t.bf16("hidden_norm.weight", 64)
    t.bf16("markov_head.markov_w1.weight", 768, 8)
    t.bf16("markov_head.markov_w2.weight", 768, 8)
    t.bf16("confidence_proj.weight", 1, 72)
    t.bf16("confidence_proj.bias", 1)
    for block in range(2):
        p = f"layers.{block}."
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            t.bf16(f"{p}{norm}.weight", 64)
        t.f32(f"{p}layer_scalar", 1)
        for name, rows, columns in (("self_attn.q_proj", 128, 64), ("self_attn.k_proj", 32, 64), ("self_attn.o_proj", 64, 128),
                                    ("mlp.gate_proj", 96, 64), ("mlp.up_proj", 96, 64), ("mlp.down_proj", 64, 96)):
            t.bf16(f"{p}{name}.weight", rows, columns)
        for norm in ("q_norm", "k_norm"):
            t.bf16(f"{p}self_attn.{norm}.weight", 32)
    return t


PROPORTIONAL = {"full_attention": {"rope_type": "proportional", "rope_theta": 500000.0, "partial_rotary_factor": 0.5}}
DEFAULT = {"rope_type": "default", "rope_theta": 500000.0}
# The checkpoint that the configuration is of, the tensors, the types, and the options of the converter and the target.
CASES = {
    "DeepSeek-V4-Flash": ("deepseek4", deepseek4, ["auto", "f16", "q8_0"], []),
    "DeepSeek-V4-Flash-0731": ("deepseek4", lambda c: deepseek4(c, as_bytes=True, vision=True, f16=True), ["f32", "q8_0"], []),
    "DeepSeek-V4-Flash-DSpark": ("deepseek4", deepseek4, ["bf16"], ["--dspark", "--target-model-dir", "deepseek4"]),
    "DeepSeek-V4-Vision-DSpark": ("deepseek4", lambda c: deepseek4(c, vision=True), ["q8_0"], ["--dspark", "--target-model-dir", "deepseek4"]),
    "Kimi-K3": ("kimi-k3", kimi_k3, ["auto", "f16", "q8_0"], []),
    "Gemma4-DSpark": ("gemma4", lambda c: gemma4_draft(c, PROPORTIONAL), ["bf16", "q8_0"], ["--target-model-dir", "gemma4"]),
    "Gemma4-DSpark-default": ("gemma4", lambda c: gemma4_draft(c, DEFAULT), ["f16"], ["--target-model-dir", "gemma4"]),
    "Gemma4-DSpark-no-rope": ("gemma4", lambda c: gemma4_draft(c, None), ["f32"], ["--target-model-dir", "gemma4"]),
}


def main():
    converter = sys.argv[1]
    sys.path[:0] = [converter, os.path.join(converter, "gguf-py")]
    os.chdir(converter)
    import convert_hf_to_gguf
    for case, (of, make, types, options) in CASES.items():
        folder, model = os.path.join(DIR, case), os.path.join(DIR, of)
        os.makedirs(folder)
        for name in os.listdir(model):
            if name.startswith(("tokenizer", "special_tokens")) and not options:
                shutil.copy(os.path.join(model, name), folder)
        if case == "Kimi-K3":  # without a template
            path = os.path.join(folder, "tokenizer_config.json")
            with open(path) as f:
                settings = json.load(f)
            settings.pop("chat_template", None)
            with open(path, "w") as f:
                json.dump(settings, f)
        with open(os.path.join(model, "config.json")) as f:
            config = json.load(f)
        tensors = make(config)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, os.path.join(folder, "model.safetensors"))
        target = options[-1] if options else "-"
        options = [os.path.join(DIR, option) if option == target else option for option in options]
        for ty in types:
            sys.argv = ["convert_hf_to_gguf.py", "--outtype", ty, *options, "--outfile", os.path.join(DIR, f"{case}-{ty}.gguf"), folder]
            with contextlib.redirect_stdout(io.StringIO()):
                convert_hf_to_gguf.main()
            print(case, ty, target, flush=True)


DIR = os.path.abspath(sys.argv[2])
main()
