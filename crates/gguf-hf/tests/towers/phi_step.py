"""Phi-4 with vision, Step3-VL and Step 3.7, MiniMax M3, Ling 3 VL, Muse Glimmer, Nemotron Nano VL. Most rows are whole blocks of Q8_0."""
W, X = 32, 64  # widths of the encoder and of its feed-forward part


def vectors(prefix, n, names):
    return {f"{prefix}{i}.{name}": shape for i in range(n) for name, shape in names.items()}


# Sizes that the converter fixes: Step3-VL's blocks have other widths than the configuration, except for the norms.
STEP = {"vision_model.conv1.weight": (1536, 3, 14, 14), "vision_model.positional_embedding": (16, 1536), **both("vision_model.ln_pre", 1536),
        **blocks("vision_model.transformer.resblocks.", 47, {"attn.out_proj": (W, W), "ln_1": (1536,), "ln_2": (1536,), "mlp.c_fc": (X, W), "mlp.c_proj": (W, X)}),
        **vectors("vision_model.transformer.resblocks.", 47, {"attn.in_proj_weight": (3 * W, W), "attn.in_proj_bias": (3 * W,), "ls_1.gamma": (1536,), "ls_2.gamma": (1536,)}),
        "vision_model.vit_downsampler1.weight": (2 * W, W, 3, 3), "vision_model.vit_downsampler1.bias": (2 * W,), "vision_model.vit_downsampler2.weight": (4 * W, 2 * W, 3, 3),
        "vision_model.vit_downsampler2.bias": (4 * W,), "vit_large_projector.weight": (T, 4 * W),
        "model.embed_tokens.weight": (8, T), "model.layers.0.self_attn.q_proj.weight": (T, T), "model.norm.weight": (T,), "lm_head.weight": (8, T)}


def phi(tower, projector):
    return {**both(f"{tower}.embeddings.patch_embedding", W, 588), f"{tower}.embeddings.position_embedding.weight": (16, W), **both(f"{tower}.post_layernorm", W),
            **blocks(f"{tower}.encoder.layers.", 3, WIDE), f"{tower}.head.probe": (1, 1, W), **both(f"{tower}.head.layernorm", W),
            f"{tower}.head.attention.in_proj_weight": (3 * W, W), f"{tower}.head.attention.in_proj_bias": (3 * W,), **both(f"{tower}.head.mlp.fc1", X, W),
            **both(f"{projector}.0", X, W), **both(f"{projector}.2", T, X), "model.norm.weight": (T,), "model.layers.0.self_attn.qkv_proj.weight": (3 * T, T), "lm_head.weight": (8, T)}


WIDE = {"self_attn.q_proj": (W, W), "self_attn.k_proj": (W, W), "self_attn.v_proj": (W, W), "self_attn.out_proj": (W, W),
        "layer_norm1": (W,), "layer_norm2": (W,), "mlp.fc1": (X, W), "mlp.fc2": (W, X)}
SIGLIP2 = {"model_type": "siglip2_vision_model", "hidden_size": W, "intermediate_size": X, "num_hidden_layers": 3, "num_attention_heads": 2, "num_patches": 16}
PATCHES = {**IMAGES, "patch_size": 14, "min_num_patches": 4, "max_num_patches": 16}
H = 160  # two heads of 80 elements
QWEN = {"norm1": (W,), "norm2": (W,), "attn.qkv": (3 * W, W), "attn.proj": (W, W), "mlp.linear_fc1": (X, W), "mlp.linear_fc2": (W, X)}
RADIO = "vision_model.radio_model.model"


def radio(side):
    return {f"{RADIO}.patch_generator.embedder.weight": (1280, 768), f"{RADIO}.patch_generator.pos_embed": (1, side * side, 1280), f"{RADIO}.patch_generator.cls_token.token": (10, 1280),
            f"{RADIO}.patch_generator.video_embedder.weight": (W, X), **blocks(f"{RADIO}.blocks.", 32, {"attn.qkv": (3 * W, W), "attn.proj": (W, W), "norm1": (1280,), "norm2": (1280,), "mlp.fc1": (X, W), "mlp.fc2": (W, X)}),
            "vision_model.radio_model.input_conditioner.norm_mean": (3, 1, 1), "vision_model.radio_model.input_conditioner.norm_std": (3, 1, 1), "vision_model.radio_model.summary_idxs": (2,),
            "mlp1.0.weight": (4 * W,), "mlp1.1.weight": (X, 4 * W), "mlp1.3.weight": (T, X), "language_model.backbone.embeddings.weight": (8, T), "language_model.lm_head.weight": (8, T)}


CASES = {
    "phi-4-vision": ("Phi4ForCausalLMV", {"hidden_size": T, "mm_projector_type": "mlp2x_gelu", "vision_config": SIGLIP2}, PATCHES, phi("model.vision_tower.vision_tower.vision_model", "model.mm_projector")),
    "phi-4-vision-bare": ("Phi4ForCausalLMV", {"hidden_size": T, "min_num_patches": 2, "max_num_patches": 9, "vision_config": {**SIGLIP2, "layer_norm_eps": 1e-5}}, {**IMAGES, "patch_size": 14}, phi("vision_tower.vision_model", "mm_projector")),
    "step3-vl": ("StepVLForConditionalGeneration", {"text_config": {"hidden_size": T}, "understand_projector_stride": 2, "projector_bias": False, "vision_config": {
        "image_size": 728, "layers": 47, "heads": 16, "patch_size": 14, "width": 1536, "hidden_act": "quick_gelu", "mlp_ratio": 8960 / 1536, "ls_init_value": 0.1}}, {}, STEP),
    "step-3.7": ("Step3p7ForConditionalGeneration", {"text_config": {"hidden_size": T}, "understand_projector_stride": 2, "vision_config": {"image_size": 728, "num_hidden_layers": 47, "num_attention_heads": 16,
        "patch_size": 14, "hidden_size": 1536, "intermediate_size": X, "layer_norm_eps": 1e-6}}, IMAGES, STEP),
    "minimax-m3": ("MiniMaxM3SparseForConditionalGeneration", {"text_config": {"hidden_size": T}, "vision_config": {"hidden_size": H, "intermediate_size": X, "num_hidden_layers": 3, "num_attention_heads": 2,
        "patch_size": 14, "image_size": 2016, "projection_dim": 6144, "img_token_compression_config": {"image_token_compression_method": "patch_merge", "spatial_merge_size": 2, "temporal_patch_size": 2}}}, IMAGES, {
        "vision_tower.vision_model.embeddings.patch_embedding.weight": (H, 3, 2, 14, 14), **both("vision_tower.vision_model.pre_layrnorm", H),
        **blocks("vision_tower.vision_model.encoder.layers.", 3, {"self_attn.q_proj": (H, H), "self_attn.k_proj": (H, H), "self_attn.v_proj": (H, H), "self_attn.out_proj": (H, H),
            "layer_norm1": (H,), "layer_norm2": (H,), "mlp.fc1": (X, H), "mlp.fc2": (H, X)}),
        **both("multi_modal_projector.linear_1", W, H), **both("multi_modal_projector.linear_2", W, W), **both("patch_merge_mlp.linear_1", X, 4 * W), **both("patch_merge_mlp.linear_2", T, X),
        "language_model.model.embed_tokens.weight": (8, T), "language_model.model.layers.0.self_attn.index_q_proj.weight": (T, T), "language_model.lm_head.weight": (8, T)}),
    "ling-3-vl": ("BailingMoeV3VLForConditionalGeneration", {"text_config": {"hidden_size": T, "rms_norm_eps": 1e-5}, "vision_config": {"hidden_size": W, "intermediate_size": X, "depth": 3, "num_heads": 2,
        "patch_size": 16, "num_position_embeddings": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 4 * W, "disable_merger_proj": True, "deepstack_visual_indexes": []}}, IMAGES, {
        "model.visual.patch_embed.proj.weight": (W, 3, 2, 16, 16), "model.visual.pos_embed.weight": (16, W), **blocks("model.visual.blocks.", 3, QWEN), **both("model.visual.merger.norm", W),
        **both("linear_proj.0", T, 4 * W), **both("linear_proj.2", T, T), "model.word_embeddings.weight": (8, T), "model.norm.weight": (T,), "lm_head.weight": (8, T)}),
    "muse-glimmer": ("MuseGlimmerForConditionalGeneration", {"text_config": {"hidden_size": T}, "vision_config": {"hidden_size": W, "intermediate_size": X, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 14,
        "patch_temporal": 2, "pos_emb_height": 4, "pos_emb_width": 4, "merge_size": 2, "layer_norm_eps": 1e-5}}, IMAGES, {
        "model.vision_tower.patch_embedder.patch_embedding.weight": (W, 2 * 3 * 14 * 14), "model.vision_tower.patch_embedder.position_embedding_table.weight": (16, W), **both("model.vision_tower.ln_pre", W),
        **both("model.vision_tower.ln_post", W), **blocks("model.vision_tower.layers.", 3, {"attn.q_proj": (W, W), "attn.k_proj": (W, W), "attn.v_proj": (W, W), "attn.proj": (W, W), "norm1": (W,), "norm2": (W,),
            "mlp.fc1": (X, W), "mlp.fc2": (W, X)}), "model.vision_adapter.fc1.weight": (X, 4 * W), "model.vision_adapter.fc2.weight": (X, X), "model.vision_projection.weight": (T, X),
        "model.language_model.embed_tokens.weight": (8, T), "model.language_model.norm.weight": (T,), "lm_head.weight": (8, T)}),
    "nemotron-nano-vl": ("NemotronH_Nano_VL_V2", {"llm_config": {"hidden_size": T}, "force_image_size": 64, "downsample_ratio": 0.5, "vision_config": {"architectures": ["RADIOModel"], "patch_size": 16}},
        {"norm_mean": [0.48, 0.45, 0.4], "norm_std": [0.27, 0.26, 0.28]}, radio(7)),
    "nemotron-nano-vl-same-grid": ("NemotronH_Nano_VL_V2", {"llm_config": {"hidden_size": T}, "force_image_size": 64, "vision_config": {"patch_size": 16}}, IMAGES, radio(4)),
}
