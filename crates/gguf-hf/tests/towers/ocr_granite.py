"""Cases: Kimi K2.5 and GLM-5V, DeepSeek's encoders, and IBM's and Liquid AI's encoders of speech and images."""

WIDE, FULL = 64, 128  # a width that 16 heads of four elements fill, and that of the feed-forward part
TEXT = {"num_hidden_layers": 6, "hidden_size": T}


def statistics(prefix, n):
    return {f"{prefix}.{i}.conv.batch_norm.{part}": (E,) for i in range(n) for part in ("weight", "bias", "running_mean", "running_var")}


def moon_3d(*linears):
    tower = {"norm0": (WIDE,), "norm1": (WIDE,), "wqkv": (3 * WIDE, WIDE), "wo": (WIDE, WIDE), "mlp.fc0": (FULL, WIDE), "mlp.fc1": (WIDE, FULL)}
    return {**both("vision_tower.patch_embed.proj", WIDE, 3, 14, 14), "vision_tower.patch_embed.pos_emb.weight": (4, 4, WIDE),
            **blocks("vision_tower.encoder.blocks.", 3, tower), **both("vision_tower.encoder.final_layernorm", WIDE), **both("mm_projector.pre_norm", WIDE),
            **both(f"mm_projector.{linears[0]}", 4 * WIDE, 4 * WIDE), **both(f"mm_projector.{linears[1]}", T, 4 * WIDE),
            "language_model.model.embed_tokens.weight": (8, T), "language_model.lm_head.weight": (8, T)}


MOON_3D = {"vt_hidden_size": WIDE, "vt_intermediate_size": FULL, "vt_num_hidden_layers": 3, "vt_num_attention_heads": 16, "patch_size": 14,
           "init_pos_emb_height": 4, "init_pos_emb_width": 4, "init_pos_emb_time": 4, "merge_kernel_size": [2, 2], "merge_type": "sd2_tpool",
           "mm_hidden_size": WIDE, "mm_projector_type": "patchmerger", "projector_hidden_act": "gelu", "projector_ln_eps": 1e-5,
           "pos_emb_type": "divided_fixed", "text_hidden_size": T, "video_attn_type": "spatial_temporal"}
MEDIA = {"media_proc_cfg": {**IMAGES, "in_patch_limit": 4096, "in_patch_limit_each_frame": 1024, "patch_size": 14, "merge_kernel_size": 2}}


def qformer(prefix, n, side):
    """A Q-Former with `n` blocks, of which the cross-attention reads an encoder of width `side`."""
    attend = {"attention.attention.query": (E, E), "attention.attention.key": (E, E), "attention.attention.value": (E, E), "attention.output.dense": (E, E),
              "attention.output.LayerNorm": (E,), "crossattention.attention.query": (E, E), "crossattention.attention.key": (E, side),
              "crossattention.attention.value": (E, side), "crossattention.output.dense": (E, E), "crossattention.output.LayerNorm": (E,)}
    return {**both(f"{prefix}.layernorm", E), **blocks(f"{prefix}.encoder.layer.", n, {**attend, "intermediate_query.dense": (F, E), "output_query.dense": (E, F), "output_query.LayerNorm": (E,)})}


def granite_speech(side):
    half = {"pre_norm": (E,), "up_proj": (64, E), "down_proj": (E, 64)}
    block = {**{f"ff{i}.{k}": v for i in (1, 2) for k, v in half.items()}, "attn.pre_norm": (E,), "attn.to_out": (E, E), "conv.norm": (E,),
             "conv.up_conv": (4 * E, E, 1), "conv.down_conv": (E, 2 * E, 1), "post_norm": (E,)}
    bare = {"attn.to_q": (E, E), "attn.to_kv": (2 * E, E), "attn.rel_pos_emb": (17, 8), "conv.depth_conv.conv": (2 * E, 1, 5)}
    return {**both("encoder.input_linear", E, 32), **blocks("encoder.layers.", 2, block), **blocks("encoder.layers.", 2, bare, False), **statistics("encoder.layers", 2),
            **{f"encoder.layers.{i}.conv.batch_norm.num_batches_tracked": () for i in range(2)}, **both("encoder.out", 10, E), **both("encoder.out_mid", E, 10),
            "projector.query": (1, 3, E), **qformer("projector.qformer", 2, side), **both("projector.linear", T, E),
            "language_model.model.embed_tokens.weight": (8, T), "language_model.model.norm.weight": (T,)}


GRANITE_SPEECH = {"encoder_config": {"model_type": "granite_speech_encoder", "context_size": 8, "conv_expansion_factor": 2, "conv_kernel_size": 5, "dim_head": 8,
                  "feedforward_mult": 4, "hidden_dim": E, "input_dim": 32, "max_pos_emb": 8, "num_heads": 2, "num_layers": 2, "output_dim": 10},
                  "projector_config": {"model_type": "blip_2_qformer", "num_attention_heads": 2, "num_hidden_layers": 2, "hidden_size": E, "encoder_hidden_size": E},
                  "downsample_rate": 5, "window_size": 15, "has_lora_adapter": True, "text_config": TEXT}
PLUS = {**GRANITE_SPEECH, "encoder_config": {**GRANITE_SPEECH["encoder_config"], "cat_hidden_layers": [0, 1]},
        "projector_config": {**GRANITE_SPEECH["projector_config"], "encoder_hidden_size": 3 * E}}


def window_projector(prefix):
    return {f"{prefix}.image_positions": (1, 4, E), f"{prefix}.query": (1, 1, E), **both(f"{prefix}.norm", E), **both(f"{prefix}.out_linear", T, E), **qformer(f"{prefix}.qformer", 1, E)}


def granite_vision(n_layerwise, n_spatial):
    root = "model.vision_tower.vision_model"
    out = {**both(f"{root}.embeddings.patch_embedding", E, 3, 14, 14), f"{root}.embeddings.position_embedding.weight": (16, E), **blocks(f"{root}.encoder.layers.", 5, SIGLIP),
           **both(f"{root}.post_layernorm", E), **both(f"{root}.head.layernorm", E), f"{root}.head.probe": (1, 1, E), "model.image_newline": (T,),
           "model.language_model.norm.weight": (T,), "model.language_model.embed_tokens.weight": (8, T), "lm_head.weight": (8, T)}
    for kind, n in (("layerwise", n_layerwise), ("spatial", n_spatial)):
        for i in range(n):
            out.update(window_projector(f"model.{kind}_projectors.{i}"))
    return out


CONFORMER = {"feed_forward1.linear1": (64, E), "feed_forward1.linear2": (E, 64), "feed_forward2.linear1": (64, E), "feed_forward2.linear2": (E, 64), "norm_feed_forward1": (E,),
             "norm_feed_forward2": (E,), "norm_self_att": (E,), "norm_out": (E,), "norm_conv": (E,), "self_attn.linear_q": (E, E), "self_attn.linear_k": (E, E),
             "self_attn.linear_v": (E, E), "self_attn.linear_out": (E, E), "conv.depthwise_conv": (E, 1, 9), "conv.pointwise_conv1": (2 * E, E, 1), "conv.pointwise_conv2": (E, E, 1)}
LFM2_AUDIO = {"codebooks": 8, "tie_audio_embeddings": False, "semantic_codebook_factor": 100, "lfm": {"hidden_size": T, "num_hidden_layers": 2},
              "depthformer": {"layers": 2, "dim": E}, "preprocessor": {"sample_rate": 16000, "features": 128, "n_fft": 512},
              "encoder": {"feat_in": 128, "feat_out": -1, "n_layers": 7, "d_model": E, "subsampling": "dw_striding", "subsampling_factor": 8, "subsampling_conv_channels": 8,
                          "ff_expansion_factor": 4, "self_attention_model": "rel_pos", "n_heads": 2, "conv_kernel_size": 9, "conv_norm_type": "batch_norm"}}
SAM = {"norm1": (E,), "norm2": (E,), "attn.qkv": (3 * E, E), "attn.proj": (E, E), "mlp.lin1": (F, E), "mlp.lin2": (E, F)}
CLIP = {"self_attn.qkv_proj": (3 * E, E), "self_attn.out_proj": (E, E), "layer_norm1": (E,), "layer_norm2": (E,), "mlp.fc1": (64, E), "mlp.fc2": (E, 64)}
SAM_CONFIG = {"downsample_channels": [8, 12], "global_attn_indexes": [1], "heads": 2, "layers": 4, "width": E}


def sam():
    root = "model.sam_model"
    return {f"{root}.pos_embed": (1, 4, 4, E), **both(f"{root}.patch_embed.proj", E, 3, 16, 16), **blocks(f"{root}.blocks.", 4, SAM),
            **{f"{root}.blocks.{i}.attn.rel_pos_{axis}": (7, 32) for i in range(4) for axis in "hw"}, f"{root}.neck.0.weight": (8, E, 1, 1), **both(f"{root}.neck.1", 8),
            f"{root}.neck.2.weight": (8, 8, 3, 3), **both(f"{root}.neck.3", 8), f"{root}.net_2.weight": (8, 8, 3, 3), f"{root}.net_3.weight": (12, 8, 3, 3)}


def deepseek_text():
    return {"model.embed_tokens.weight": (8, T), "model.layers.0.self_attn.q_proj.weight": (T, T), "model.norm.weight": (T,), "lm_head.weight": (8, T)}


def deepseek_ocr():
    root = "model.vision_model"
    return {**sam(), f"{root}.embeddings.class_embedding": (E,), f"{root}.embeddings.patch_embedding.weight": (E, 3, 14, 14), f"{root}.embeddings.position_embedding.weight": (17, E),
            **both(f"{root}.pre_layrnorm", E), **blocks(f"{root}.transformer.layers.", 5, CLIP), **both("model.projector.layers", T, 2 * E), "model.image_newline": (T,),
            "model.view_seperator": (T,), **deepseek_text()}


DEEPSEEK_OCR = {"language_config": TEXT, "hidden_size": T, "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362, "model_name": "deeplip_b_l", "model_type": "vision",
                "width": {"clip-l-14-224": {"heads": 2, "image_size": 224, "layers": 5, "patch_size": 14, "width": E}, "sam_vit_b": SAM_CONFIG}}}
QWEN2 = {"self_attn.q_proj": (E, E), "self_attn.k_proj": (8, E), "self_attn.v_proj": (8, E)}
QWEN2_BARE = {"self_attn.o_proj": (E, E), "mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F), "input_layernorm": (E,), "post_attention_layernorm": (E,)}
DEEPSEEK_V4 = {"attn.wqkv": (3 * E, E), "attn.wo": (E, E), "norm1": (E,), "norm2": (E,), "mlp.w1": (2 * F, E), "mlp.w2": (E, F)}

CASES = {
    "kimi-k2.5": ("KimiK25ForConditionalGeneration", {"text_config": TEXT, "vision_config": MOON_3D}, MEDIA, moon_3d("proj.0", "proj.2")),
    "glm-5v": ("Glm5vForConditionalGeneration", {"text_config": TEXT, "vision_config": {**MOON_3D, "num_attention_heads": 8, "projector_ln_eps": 1e-6}}, MEDIA, moon_3d("linear_1", "linear_2")),
    "deepseek-v4-vision": ("DeepseekV4ForCausalLM", {"hidden_size": T, "vision_n_layers": 3, "vision_dim": E, "vision_n_heads": 2, "vision_inter_dim": F, "vision_patch_size": 14,
        "vision_downsample_ratio": 3, "vision_min_pixels": 3136, "vision_max_n_token": 384, "vision_max_wh_ratio": 8, "vision_rope_theta": 10000.0}, {}, {
        "vision.patch_embed.proj.weight": (E, 588), "vision.patch_embed.proj.bias": (E,), **blocks("vision.blocks.", 3, DEEPSEEK_V4, False), "vision.norm.weight": (E,),
        **both("aligner.w1", F, 9 * E), **both("aligner.w2", T, F), "image_newline": (T,), "image_start": (T,), "image_end": (T,), "image_pad": (T,),
        "embed.weight": (8, T), "layers.0.attn_norm.weight": (T,), "norm.weight": (T,), "head.weight": (8, T)}),
    "deepseek-ocr": ("DeepseekOCRForCausalLM", DEEPSEEK_OCR, IMAGES, deepseek_ocr()),
    "unlimited-ocr": ("UnlimitedOCRForCausalLM", DEEPSEEK_OCR, {**IMAGES, "image_seq_length": 16}, deepseek_ocr()),
    "deepseek-ocr-2": ("DeepseekOCR2ForCausalLM", {"language_config": TEXT, "hidden_size": T, "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362, "model_type": "vision",
        "layers": 5, "intermediate_size": F, "width": {"qwen2-0-5b": {"dim": E}, "sam_vit_b": SAM_CONFIG}}}, IMAGES, {
        **sam(), **blocks("model.qwen2_model.model.model.layers.", 5, QWEN2), **blocks("model.qwen2_model.model.model.layers.", 5, QWEN2_BARE, False),
        "model.qwen2_model.model.model.norm.weight": (E,), "model.qwen2_model.query_768.weight": (144, E), "model.qwen2_model.query_1024.weight": (256, E),
        **both("model.projector.layers", T, E), "model.view_seperator": (T,), **deepseek_text()}),
    "lfm2-audio": ("Lfm2AudioForConditionalGeneration", LFM2_AUDIO, {}, {
        **{k: v for i, shape in ((0, (8, 1, 3, 3)), (2, (8, 1, 3, 3)), (3, (8, 8, 1, 1)), (5, (8, 1, 3, 3)), (6, (8, 8, 1, 1))) for k, v in both(f"conformer.pre_encode.conv.{i}", *shape).items()},
        **both("conformer.pre_encode.out", E, 64), **blocks("conformer.layers.", 7, CONFORMER), **blocks("conformer.layers.", 7, {"self_attn.linear_pos": (E, E)}, False),
        **{f"conformer.layers.{i}.self_attn.pos_bias_{n}": (2, 8) for i in range(7) for n in "uv"}, **statistics("conformer.layers", 7),
        **{f"conformer.layers.{i}.conv.batch_norm.num_batches_tracked": () for i in range(7)}, **both("audio_adapter.model.0", E), **both("audio_adapter.model.1", F, E),
        **both("audio_adapter.model.3", T, F), "audio_embedding.embedding.weight": (40, T), "audio_embedding.embedding_norm.weight": (T,), "audio_embedding.to_logits.weight": (40, T),
        "audio_loss_weights": (8,), "codebook_offsets": (8,), "depth_embeddings.0.embedding.weight": (8, E), "depth_linear.weight": (E, T), "depth_linear.bias": (E,),
        "depthformer.layers.0.operator.out_proj.weight": (E, E), "lfm.embed_tokens.weight": (8, T), "lfm.embedding_norm.weight": (T,)}),
    "granite-speech": ("GraniteSpeechForConditionalGeneration", GRANITE_SPEECH, {}, granite_speech(E)),
    "granite-speech-plus": ("GraniteSpeechPlusForConditionalGeneration", PLUS, {}, granite_speech(3 * E)),
    "granite-4-vision": ("Granite4VisionForConditionalGeneration", {"text_config": TEXT, "vision_config": {**VISION, "num_hidden_layers": 5, "model_type": "siglip_vision_model", "layer_norm_eps": 1e-6},
        "downsample_rate": "4/8", "deepstack_layer_map": [[-1, 5], [1, 0], [0, -4]], "spatial_target_layers": [3, 1], "spatial_vision_layer": -2, "use_spatial_sampling": True,
        "image_grid_pinpoints": [[384, 768], [768, 384], [384, 1152]]}, IMAGES, granite_vision(3, 2)),
}
