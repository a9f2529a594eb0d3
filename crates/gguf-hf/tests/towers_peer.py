"""Writes small checkpoints with encoders of images and sound, and what llama.cpp's converter makes of each. Arguments: the folder of
llama.cpp's sources, the folder to write to, and cases. Prints the case and the type of each file that was made."""
import glob, json, os, runpy, sys
import numpy as np
import torch
from safetensors.torch import save_file

E, F, T = 16, 24, 20  # widths: of the encoder, of its feed-forward part, of the language model
IMAGES = {"image_mean": [0.5, 0.25, 0.5], "image_std": [0.5, 0.5, 0.25]}
PIXELS = {**IMAGES, "min_pixels": 784, "max_pixels": 3136}


def both(name, *shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def linear(names, bias=True):
    out = {}
    for name, shape in names.items():
        out.update(both(name, *shape) if bias else {f"{name}.weight": shape})
    return out


def blocks(prefix, n, names, bias=True):
    return {k: v for i in range(n) for k, v in linear({f"{prefix}{i}.{name}": s for name, s in names.items()}, bias).items()}


WHISPER = {"self_attn.q_proj": (E, E), "self_attn.v_proj": (E, E), "self_attn.out_proj": (E, E), "self_attn_layer_norm": (E,),
           "final_layer_norm": (E,), "fc1": (F, E), "fc2": (E, F)}
SIGLIP = {"self_attn.q_proj": (E, E), "self_attn.k_proj": (E, E), "self_attn.v_proj": (E, E), "self_attn.out_proj": (E, E),
          "layer_norm1": (E,), "layer_norm2": (E,), "mlp.fc1": (F, E), "mlp.fc2": (E, F)}


def whisper(root):
    return {**both(f"{root}.conv1", E, 8, 3), **both(f"{root}.conv2", E, E, 3), **both(f"{root}.layer_norm", E),
            **blocks(f"{root}.layers.", 3, WHISPER), **{f"{root}.layers.{i}.self_attn.k_proj.weight": (E, E) for i in range(3)}}


SOUND = {"d_model": E, "encoder_ffn_dim": F, "encoder_attention_heads": 2, "encoder_layers": 3, "num_mel_bins": 8}
VISION = {"hidden_size": E, "intermediate_size": F, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 14, "image_size": 56}
MOON = {"norm0": (E,), "norm1": (E,), "wqkv": (3 * E, E), "wo": (E, E), "mlp.fc0": (F, E), "mlp.fc1": (E, F)}
PIXTRAL = {"attention.q_proj": (E, E), "attention.k_proj": (E, E), "attention.v_proj": (E, E), "attention.o_proj": (E, E),
           "attention_norm": (E,), "ffn_norm": (E,), "feed_forward.gate_proj": (F, E), "feed_forward.up_proj": (F, E),
           "feed_forward.down_proj": (E, F)}
GLM = {"norm1": (E,), "norm2": (E,), "attn.qkv": (3 * E, E), "attn.proj": (E, E), "mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F)}
CASES = {
    "ultravox": ("UltravoxModel", {"audio_config": SOUND, "text_config": {"hidden_size": T}, "stack_factor": 8}, {}, {
        **whisper("audio_tower"), "audio_tower.embed_positions.weight": (30, E), "multi_modal_projector.ln_pre.weight": (E * 8,),
        "multi_modal_projector.linear_1.weight": (F * 2, E * 8), "multi_modal_projector.linear_2.weight": (T, F),
        "multi_modal_projector.ln_mid.weight": (F,)}),
    "glm-asr": ("GlmasrModel", {"whisper_config": SOUND, "lm_config": {"hidden_size": T}, "merge_factor": 4, "hidden_size": T}, {}, {
        **whisper("audio_encoder.whisper"), "audio_encoder.whisper.embed_positions.weight": (30, E), **both("audio_encoder.layer_norm", E),
        **both("audio_encoder.adapting.0", F, E * 4), **both("audio_encoder.adapting.2", T, F), "audio_encoder.audio_bos_eos_token.weight": (2, T),
        "model.norm.weight": (T,), "lm_head.weight": (8, T)}),
    "kimi-vl": ("KimiVLForConditionalGeneration", {"text_config": {"hidden_size": T}, "vision_config": {k: v for k, v in VISION.items() if k != "image_size"}}, IMAGES, {
        **both("vision_tower.patch_embed.proj", E, 3, 14, 14), "vision_tower.patch_embed.pos_emb.weight": (8, 8, E),
        **both("vision_tower.encoder.final_layernorm", E), **blocks("vision_tower.encoder.blocks.", 3, MOON),
        **both("multi_modal_projector.pre_norm", E), **both("multi_modal_projector.linear_1", 4 * E, 4 * E),
        **both("multi_modal_projector.linear_2", T, 4 * E), "language_model.model.norm.weight": (T,)}),
    "lighton-ocr": ("LightOnOCRForConditionalGeneration", {"text_config": {"hidden_size": T}, "spatial_merge_size": 2, "vision_config": {**VISION, "model_type": "pixtral", "hidden_act": "silu"}}, IMAGES, {
        "model.vision_encoder.patch_conv.weight": (E, 3, 14, 14), "model.vision_encoder.ln_pre.weight": (E,),
        **blocks("model.vision_encoder.transformer.layers.", 3, PIXTRAL, False), "model.vision_projection.norm.weight": (E,),
        "model.vision_projection.patch_merger.merging_layer.weight": (E, 4 * E), "model.vision_projection.linear_1.weight": (T, E),
        "model.vision_projection.linear_2.weight": (T, T), "model.language_model.embed_tokens.weight": (8, T)}),
    "dots-ocr": ("DotsOCRForCausalLM", {"hidden_size": T, "vision_config": {**VISION, "embed_dim": E, "rms_norm_eps": 1e-5, "spatial_merge_size": 2}}, PIXELS, {
        **both("vision_tower.patch_embed.patchifier.proj", E, 3, 14, 14), "vision_tower.patch_embed.patchifier.norm.weight": (E,),
        **blocks("vision_tower.blocks.", 3, {"norm1": (E,), "norm2": (E,), "attn.qkv": (3 * E, E), "attn.proj": (E, E), "mlp.fc1": (F, E), "mlp.fc2": (E, F), "mlp.fc3": (F, E)}, False),
        "vision_tower.post_trunk_norm.weight": (E,), **both("vision_tower.merger.ln_q", E), **both("vision_tower.merger.mlp.0", 4 * E, 4 * E),
        **both("vision_tower.merger.mlp.2", T, 4 * E), "model.norm.weight": (T,)}),
    "minicpm-v": ("MiniCPMV4_6ForConditionalGeneration", {"text_config": {"hidden_size": T}, "insert_layer_id": 1, "vision_config": VISION}, {**IMAGES, "scale_resolution": 28}, {
        **both("model.vision_tower.embeddings.patch_embedding", E, 3, 14, 14), "model.vision_tower.embeddings.position_embedding.weight": (16, E),
        **blocks("model.vision_tower.encoder.layers.", 3, SIGLIP), **both("model.vision_tower.post_layernorm", E),
        **linear({f"model.vision_tower.vit_merger.{n}": s for n, s in {"layer_norm1": (E,), "self_attn.q_proj": (E, E), "self_attn.k_proj": (E, E),
            "self_attn.v_proj": (E, E), "self_attn.out_proj": (E, E), "pre_norm": (4 * E,), "linear_1": (F, 4 * E), "linear_2": (E, F)}.items()}),
        **linear({f"model.merger.mlp.0.{n}": s for n, s in {"pre_norm": (4 * E,), "linear_1": (F, 4 * E), "linear_2": (T, F)}.items()}),
        "model.language_model.norm.weight": (T,), "lm_head.weight": (8, T)}),
    "cogvlm": ("CogVLMForCausalLM", {"hidden_size": T, "vision_config": {k: v for k, v in VISION.items() if k != "num_attention_heads"} | {"num_heads": 2, "layer_norm_eps": 1e-5}}, IMAGES, {
        **both("model.vision.patch_embedding.proj", E, 3, 14, 14), "model.vision.patch_embedding.cls_embedding": (1, E),
        "model.vision.patch_embedding.position_embedding.weight": (17, E), **blocks("model.vision.transformer.layers.", 3, {
            "attention.query_key_value": (3 * E, E), "attention.dense": (E, E), "input_layernorm": (E,), "post_attention_layernorm": (E,), "mlp.fc1": (F, E), "mlp.fc2": (E, F)}),
        "model.vision.linear_proj.linear_proj.weight": (T, E), **both("model.vision.linear_proj.norm1", T), "model.vision.linear_proj.dense_h_to_4h.weight": (F, T),
        "model.vision.linear_proj.gate_proj.weight": (F, T), "model.vision.linear_proj.dense_4h_to_h.weight": (T, F),
        "model.vision.boi": (1, 1, T), "model.vision.eoi": (1, 1, T), "model.norm.weight": (T,)}),
    "paddle-ocr": ("PaddleOCRVisionModel", {"hidden_size": T, "vision_config": VISION}, PIXELS, {
        **both("visual.vision_model.embeddings.patch_embedding", E, 3, 14, 14), "visual.vision_model.embeddings.position_embedding.weight": (16, E),
        "visual.vision_model.embeddings.packing_position_embedding.weight": (16, E), **both("visual.vision_model.head.layernorm", E),
        **blocks("visual.vision_model.encoder.layers.", 3, SIGLIP), **both("visual.vision_model.post_layernorm", E), **both("mlp_AR.pre_norm", E),
        **both("mlp_AR.linear_1", 4 * E, 4 * E), **both("mlp_AR.linear_2", T, 4 * E), "model.norm.weight": (T,)}),
    "hunyuan-vl": ("HunYuanVLForConditionalGeneration", {"hidden_size": T, "vision_config": {**VISION, "rms_norm_eps": 1e-5, "spatial_merge_size": 2}}, PIXELS, {
        **both("vit.embeddings.patch_embedding", E, 3, 14, 14), "vit.embeddings.position_embedding.weight": (17, E), **blocks("vit.layers.", 3, {
            "self_attn.q_proj": (E, E), "self_attn.k_proj": (E, E), "self_attn.v_proj": (E, E), "self_attn.o_proj": (E, E), "input_layernorm": (E,),
            "post_attention_layernorm": (E,), "mlp.dense_h_to_4h": (F, E), "mlp.dense_4h_to_h": (E, F)}),
        **both("vit.perceive.proj.0", 2 * E, E, 2, 2), **both("vit.perceive.proj.2", 4 * E, 2 * E, 1, 1), **both("vit.perceive.mlp", T, 4 * E),
        "vit.perceive.before_rms.weight": (E,), "vit.perceive.after_rms.weight": (T,), "vit.perceive.image_begin": (T,), "vit.perceive.image_end": (T,),
        "vit.perceive.image_newline": (4 * E,), "vit.perceive.image_sep": (T,), "model.norm.weight": (T,)}),
    "youtu-vl": ("YoutuVLForConditionalGeneration", {"hidden_size": T, "vision_config": {**VISION, "hidden_act": "gelu_pytorch_tanh", "window_size": 112, "fullatt_block_indexes": [0]}}, IMAGES, {
        **both("siglip2.vision_model.embeddings.patch_embedding", E, 588), **blocks("siglip2.vision_model.encoder.layers.", 3, SIGLIP),
        **both("siglip2.vision_model.post_layernorm", E), "merger.ln_q.weight": (E,), **both("merger.mlp.0", 4 * E, 4 * E), **both("merger.mlp.2", T, 4 * E),
        "model.norm.weight": (T,), "lm_head.weight": (8, T)}),
    "exaone-4.5": ("Exaone4_5_ForConditionalGeneration", {"text_config": {"hidden_size": T}, "vision_config": {"hidden_size": E, "intermediate_size": F, "depth": 3, "num_heads": 2, "num_key_value_heads": 1,
        "patch_size": 14, "window_size": 112, "fullatt_block_indexes": [0, 1], "rms_norm_eps": 1e-5}}, PIXELS, {
        "model.visual.patch_embed.proj.weight": (E, 3, 2, 14, 14), **blocks("model.visual.blocks.", 3, {"attn.qkv": (2 * E, E), "attn.proj": (E, E), "mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F)}),
        **{f"model.visual.blocks.{i}.norm{j}.weight": (E,) for i in range(3) for j in (1, 2)}, "model.visual.merger.ln_q.weight": (E,),
        **both("model.visual.merger.mlp.0", 4 * E, 4 * E), **both("model.visual.merger.mlp.2", T, 4 * E), "model.language_model.norm.weight": (T,)}),
    "sarashina-vl": ("Sarashina2VisionForCausalLM", {"hidden_size": T, "text_config": {"hidden_size": T}, "vision_config": {"depth": 3, "embed_dim": E, "hidden_size": T, "num_heads": 2, "patch_size": 14}}, IMAGES, {
        "visual.patch_embed.proj.weight": (E, 3, 2, 14, 14), **blocks("visual.blocks.", 3, {"attn.qkv": (3 * E, E), "attn.proj": (E, E), "mlp.fc1": (F, E), "mlp.fc2": (E, F), "norm1": (E,), "norm2": (E,)}),
        **both("visual.merger.ln_q", E), **both("visual.merger.mlp.0", 4 * E, 4 * E), **both("visual.merger.mlp.2", T, 4 * E), "llm.model.norm.weight": (T,), **both("norm", T)}),
    "glm-5-next": ("Glm5NextForConditionalGeneration", {"text_config": {"hidden_size": T}, "vision_config": {"hidden_size": E, "intermediate_size": F, "depth": 3, "num_heads": 2, "patch_size": 14, "image_size": 56,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "swiglu_limit": 7.0}}, {**IMAGES, "min_image_tokens": 4, "max_image_tokens": 64}, {
        "model.visual.patch_embed.proj.weight": (E, 3, 2, 14, 14), "model.visual.patch_embed.proj.bias": (E,), **blocks("model.visual.blocks.", 3, GLM, False),
        **{f"model.visual.blocks.{i}.attn.{n}_norm.weight": (8,) for i in range(3) for n in "qk"}, "model.visual.post_layernorm.weight": (E,),
        **both("model.visual.downsample", T, E, 2, 2), "model.visual.merger.proj.weight": (T, T), "model.visual.merger.gate_proj.weight": (F, T), "model.visual.merger.up_proj.weight": (F, T),
        "model.visual.merger.down_proj.weight": (T, F), **both("model.visual.merger.post_projection_norm", T), "model.language_model.norm.weight": (T,)}),
}


# Cases of single families.
for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "towers", "*.py"))):
    CASES.update(runpy.run_path(path, globals())["CASES"])


def values(random, name, shape):
    """Random values of a tensor; variances are positive, counts are whole."""
    if name.endswith("num_batches_tracked"):
        return torch.tensor(7)
    numbers = torch.from_numpy(random.standard_normal(shape).astype(np.float32)).to(torch.bfloat16)
    return numbers.abs() if name.endswith("running_var") else numbers


def repair():
    """Removes two known differences: llama.cpp's table gives the folded batch normalization of Granite Speech a name that its loader does
    not know, and PyTorch's vectorized square root is not rounded correctly on all processors."""
    import gguf
    root = torch.sqrt
    torch.sqrt = lambda x: root(x.to(torch.float64)).to(torch.float32)
    names, norm = gguf.TensorNameMap.block_mappings_cfg, "encoder.layers.{bid}.conv.batch_norm"
    tensor = gguf.MODEL_TENSOR
    assert norm in names[tensor.A_ENC_CONV_NORM_VAR] and norm not in names[tensor.A_ENC_CONV_NORM]
    names[tensor.A_ENC_CONV_NORM_VAR] = tuple(name for name in names[tensor.A_ENC_CONV_NORM_VAR] if name != norm)
    names[tensor.A_ENC_CONV_NORM] += (norm,)


def main(llama, out, *names):
    sys.path.insert(0, llama)
    import convert_hf_to_gguf as converter
    repair()
    for name in names or CASES:
        architecture, config, preprocessor, tensors = CASES[name]
        folder = os.path.join(out, name)
        os.makedirs(folder)
        random = np.random.default_rng(len(name))
        data = {key: values(random, key, shape) for key, shape in tensors.items()}
        save_file(data, os.path.join(folder, "model.safetensors"))
        for file, document in (("config", {"architectures": [architecture], "model_type": "unheard", **config}), ("preprocessor_config", preprocessor)):
            with open(os.path.join(folder, file + ".json"), "w") as f:
                json.dump(document, f)
        for kind in os.environ.get("TOWER_TYPES", "f16 bf16 q8_0").split():
            file = os.path.join(out, f"{name}-{kind}.gguf")
            sys.argv[1:] = ["--mmproj", "--outtype", kind, "--outfile", file, folder]
            converter.main()
            print(name, kind, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
