"""Encoders of Gemma and Qwen, with images, sound or both; and MERaLiON 2. The names of `towers_peer.py` are in scope."""


def rounded(function):
    """The function in double precision, rounded once. Torch's functions of single precision come from MKL where it is available, and their
    results are not always the nearest number; see `docs/projectors.md`."""
    def of(x):
        return function(x.double()).float() if x.dtype == torch.float32 else function(x)
    return of


for name in ("exp", "sin", "cos"):
    setattr(torch, name, rounded(getattr(torch, name)))
torch.nn.functional.softplus = rounded(torch.nn.functional.softplus)

SOUND_BLOCK = {"self_attn.q_proj": (E, E), "self_attn.k_proj": (E, E), "self_attn.v_proj": (E, E), "self_attn.out_proj": (E, E),
               "self_attn_layer_norm": (E,), "final_layer_norm": (E,), "fc1": (F, E), "fc2": (E, F)}
QWEN3_SOUND = {**SOUND, "encoder_layers": 4, "num_hidden_layers": 4, "downsample_hidden_size": 6, "output_dim": T, "n_window": 50}


def qwen3_sound(root):
    return {**both(f"{root}.conv2d1", 6, 1, 3, 3), **both(f"{root}.conv2d2", 6, 6, 3, 3), **both(f"{root}.conv2d3", 6, 6, 3, 3),
            f"{root}.conv_out.weight": (E, 12), **blocks(f"{root}.layers.", 4, SOUND_BLOCK), **both(f"{root}.ln_post", E),
            **both(f"{root}.proj1", E, E), **both(f"{root}.proj2", T, E)}


QWEN3_VISION = {"hidden_size": E, "intermediate_size": F, "depth": 3, "num_heads": 2, "patch_size": 14, "temporal_patch_size": 2,
                "spatial_merge_size": 2, "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 2], "out_hidden_size": T}
QWEN25_VISION = {"hidden_size": E, "intermediate_size": F, "depth": 4, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2,
                 "window_size": 112, "fullatt_block_indexes": [1, 3], "out_hidden_size": T}

CONFORMER = {"attention.attn.q_proj": (E, E), "attention.attn.k_proj": (E, E), "attention.attn.v_proj": (E, E), "attention.post": (E, E),
             "attention.attn.relative_position_embedding.pos_proj": (E, E), "attention.post_norm": (E,), "attention.pre_attn_norm": (E,),
             **{f"ffw_layer_{end}.{name}": shape for end in ("start", "end") for name, shape in {
                 "ffw_layer_1": (4 * E, E), "ffw_layer_2": (E, 4 * E), "pre_layer_norm": (E,), "post_layer_norm": (E,)}.items()},
             "lconv1d.depthwise_conv1d": (E, 1, 5), "lconv1d.linear_start": (2 * E, E), "lconv1d.linear_end": (E, E),
             "lconv1d.pre_layer_norm": (E,), "lconv1d.conv_norm": (E,), "norm": (E,)}
MOBILENET = {  # One block of each kind: stage, number, tensors.
    (0, 0): {"conv_exp.weight": (E, 8, 3, 3), "bn1.weight": (E,), "conv_pwl.weight": (8, E, 1, 1), "bn2.weight": (8,)},
    (1, 0): {"dw_start.conv.weight": (8, 1, 5, 5), "dw_start.bn.weight": (8,), "pw_exp.conv.weight": (32, 8, 1, 1), "pw_exp.bn.weight": (32,),
             "dw_mid.conv.weight": (32, 1, 3, 3), "dw_mid.bn.weight": (32,), "pw_proj.conv.weight": (E, 32, 1, 1), "pw_proj.bn.weight": (E,)},
    (1, 1): {"pw_exp.conv.weight": (32, E, 1, 1), "pw_exp.bn.weight": (32,), "pw_proj.conv.weight": (E, 32, 1, 1), "pw_proj.bn.weight": (E,),
             "layer_scale.gamma": (E,)},
    (2, 11): {"norm.weight": (E,), "attn.query.proj.weight": (E, E, 1, 1), "attn.key.down_conv.weight": (E, 1, 3, 3), "attn.key.norm.weight": (E,),
              "attn.key.proj.weight": (8, E, 1, 1), "attn.value.down_conv.weight": (E, 1, 3, 3), "attn.value.norm.weight": (E,),
              "attn.value.proj.weight": (8, E, 1, 1), "attn.output.proj.weight": (E, E, 1, 1), "layer_scale.gamma": (E,)},
}
SIDES = ("input_max", "input_min", "output_max", "output_min")


def clamped(prefix, names):
    return {k: v for name, shape in names.items() for k, v in {
        f"{prefix}.{name}.linear.weight": shape, **{f"{prefix}.{name}.{side}": () for side in SIDES}}.items()}


def gemma4_vision(sides):
    linears = {"self_attn.q_proj": (E, E), "self_attn.k_proj": (E, E), "self_attn.v_proj": (E, E), "self_attn.o_proj": (E, E),
               "mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F)}
    names = {k: v for i in range(3) for k, v in clamped(f"model.vision_tower.encoder.layers.{i}", linears).items()}
    return {"model.vision_tower.patch_embedder.input_proj.weight": (E, 3 * 196), "model.vision_tower.patch_embedder.position_embedding_table": (2, 10, E),
            **{k: v for k, v in names.items() if sides or k.endswith("weight")},
            **blocks("model.vision_tower.encoder.layers.", 3, {"self_attn.q_norm": (8,), "self_attn.k_norm": (8,), "input_layernorm": (E,), "post_attention_layernorm": (E,),
                "pre_feedforward_layernorm": (E,), "post_feedforward_layernorm": (E,)}, False),
            "model.embed_vision.embedding_projection.weight": (T, E), "model.language_model.norm.weight": (T,)}


GEMMA4_SOUND = {"self_attn.q_proj": (E, E), "self_attn.k_proj": (E, E), "self_attn.v_proj": (E, E), "self_attn.post": (E, E),
                "feed_forward1.ffw_layer_1": (4 * E, E), "feed_forward1.ffw_layer_2": (E, 4 * E), "feed_forward2.ffw_layer_1": (4 * E, E),
                "feed_forward2.ffw_layer_2": (E, 4 * E), "lconv1d.linear_start": (2 * E, E), "lconv1d.linear_end": (E, E)}
GEMMA4_NORMS = {"self_attn.relative_k_proj": (E, E), "norm_pre_attn": (E,), "norm_post_attn": (E,), "norm_out": (E,), "feed_forward1.pre_layer_norm": (E,),
                "feed_forward1.post_layer_norm": (E,), "feed_forward2.pre_layer_norm": (E,), "feed_forward2.post_layer_norm": (E,),
                "lconv1d.pre_layer_norm": (E,), "lconv1d.conv_norm": (E,), "lconv1d.depthwise_conv1d": (E, 1, 5)}
TEXT = {"text_config": {"hidden_size": T, "rms_norm_eps": 1e-5}}
CASES = {
    "qwen3-asr": ("Qwen3ASRForConditionalGeneration", {"thinker_config": {**TEXT, "audio_config": QWEN3_SOUND}}, {}, {
        **qwen3_sound("thinker.audio_tower"), "thinker.model.norm.weight": (T,), "thinker.lm_head.weight": (8, T)}),
    "meralion": ("MERaLiON2ForConditionalGeneration", {**TEXT, "speech_config": SOUND, "speech_mlp_scale_factor": 15}, {}, {
        **whisper("speech_encoder"), "speech_encoder.embed_positions.weight": (30, E), **both("ln_speech", E),
        **both("speech_audio_adapter.mlp_adapter.0", E, E * 15), **both("speech_audio_adapter.gate_proj", F, E),
        **both("speech_audio_adapter.pool_proj", F, E), **both("speech_audio_adapter.out_proj", T, F), "text_decoder.model.norm.weight": (T,)}),
    "gemma-3n": ("Gemma3nForConditionalGeneration", {**TEXT, "vision_config": {"hidden_size": E, "architecture": "mobilenetv5_300m_enc", "model_type": "gemma3n_vision", "rms_norm_eps": 1e-6},
        "audio_config": {"hidden_size": E, "conf_num_hidden_layers": 2, "conf_num_attention_heads": 2, "input_feat_size": 8, "vocab_size": 4, "rms_norm_eps": 1e-6}},
        {**IMAGES, "size": {"height": 512, "width": 512}, "image_seq_length": 256}, {
        **{f"model.vision_tower.timm_model.blocks.{stage}.{n}.{name}": shape for (stage, n), names in MOBILENET.items() for name, shape in names.items()},
        **both("model.vision_tower.timm_model.conv_stem.conv", 8, 3, 3, 3), "model.vision_tower.timm_model.conv_stem.bn.weight": (8,),
        "model.vision_tower.timm_model.msfa.ffn.pw_exp.conv.weight": (32, E, 1, 1), "model.vision_tower.timm_model.msfa.ffn.pw_exp.bn.weight": (32,),
        "model.vision_tower.timm_model.msfa.ffn.pw_proj.conv.weight": (E, 32, 1, 1), "model.vision_tower.timm_model.msfa.ffn.pw_proj.bn.weight": (E,),
        "model.vision_tower.timm_model.msfa.norm.weight": (E,),
        **{f"model.embed_{kind}.{name}.weight": shape for kind in ("vision", "audio") for name, shape in {
            "embedding": (4, E), "embedding_projection": (T, E), "hard_embedding_norm": (E,), "soft_embedding_norm": (E,)}.items()},
        **blocks("model.audio_tower.conformer.", 2, CONFORMER, False), **{f"model.audio_tower.conformer.{i}.attention.attn.per_dim_scale": (8,) for i in range(2)},
        "model.audio_tower.subsample_conv_projection.conv_0.conv.weight": (4, 1, 3, 3),
        "model.audio_tower.subsample_conv_projection.conv_1.conv.weight": (2, 4, 3, 3),
        "model.audio_tower.subsample_conv_projection.input_proj_linear.weight": (E, 4), "model.language_model.norm.weight": (T,)}),
    "gemma-4": ("Gemma4ForConditionalGeneration", {**TEXT, "vision_config": {**VISION, "pooling_kernel_size": 3, "rms_norm_eps": 1e-6},
        "audio_config": {"hidden_size": E, "num_hidden_layers": 2, "num_attention_heads": 2, "rms_norm_eps": 1e-6}}, IMAGES, {
        **gemma4_vision(True), **{k: v for i in range(2) for k, v in clamped(f"model.audio_tower.layers.{i}", GEMMA4_SOUND).items()},
        **blocks("model.audio_tower.layers.", 2, GEMMA4_NORMS, False), **{f"model.audio_tower.layers.{i}.self_attn.per_dim_scale": (8,) for i in range(2)},
        **{f"model.audio_tower.subsample_conv_projection.layer{i}.{name}.weight": shape for i, (conv, norm) in enumerate((((4, 1, 3, 3), (4,)), ((2, 4, 3, 3), (2,))))
           for name, shape in (("conv", conv), ("norm", norm))},
        "model.audio_tower.subsample_conv_projection.input_proj_linear.weight": (E, 4), **both("model.audio_tower.output_proj", E, E),
        "model.embed_audio.embedding_projection.weight": (T, E)}),
    "gemma-4-images": ("Gemma4ForConditionalGeneration", {**TEXT, "vision_config": {**VISION, "standardize": True}, "audio_config": None}, IMAGES, {
        **gemma4_vision(False), "model.vision_tower.std_bias": (E,), "model.vision_tower.std_scale": (E,)}),
    "gemma-4-unified": ("Gemma4UnifiedForConditionalGeneration", {**TEXT, "vision_config": {"mm_embed_dim": E, "patch_size": 4, "pooling_kernel_size": 2, "rms_norm_eps": 1e-6},
        "audio_config": {"audio_embed_dim": F, "rms_norm_eps": 1e-6}}, IMAGES, {
        **both("model.vision_embedder.patch_ln1", 192), **both("model.vision_embedder.patch_dense", E, 192), **both("model.vision_embedder.patch_ln2", E),
        "model.vision_embedder.pos_embedding": (10, 2, E), **both("model.vision_embedder.pos_norm", E),
        "model.embed_vision.embedding_projection.weight": (T, E), "model.embed_audio.embedding_projection.weight": (T, F), "model.language_model.norm.weight": (T,)}),
    "qwen2.5-omni": ("Qwen2_5OmniModel", {"model_type": "qwen2_5_omni", "enable_audio_output": True, "thinker_config": {"text_config": {"hidden_size": T, "num_attention_heads": 2, "num_key_value_heads": 2},
        "vision_config": QWEN25_VISION, "audio_config": SOUND}}, IMAGES, {
        "thinker.visual.patch_embed.proj.weight": (E, 3, 2, 14, 14), **blocks("thinker.visual.blocks.", 4, {"attn.q": (E, E), "attn.k": (E, E), "attn.v": (E, E),
            "attn.proj": (E, E), "mlp.gate_proj": (F, E), "mlp.up_proj": (F, E), "mlp.down_proj": (E, F)}),
        **{f"thinker.visual.blocks.{i}.norm{j}.weight": (E,) for i in range(4) for j in (1, 2)}, "thinker.visual.merger.ln_q.weight": (E,),
        **both("thinker.visual.merger.mlp.0", 4 * E, 4 * E), **both("thinker.visual.merger.mlp.2", T, 4 * E),
        **both("thinker.audio_tower.conv1", E, 8, 3), **both("thinker.audio_tower.conv2", E, E, 3), "thinker.audio_tower.audio_bos_eos_token.weight": (2, T),
        **blocks("thinker.audio_tower.layers.", 3, WHISPER), **{f"thinker.audio_tower.layers.{i}.self_attn.k_proj.weight": (E, E) for i in range(3)},
        **both("thinker.audio_tower.ln_post", E), **both("thinker.audio_tower.proj", T, E), "thinker.model.norm.weight": (T,), "talker.codec_head.weight": (8, T),
        "token2wav.code2wav_bigvgan_model.conv_pre.weight": (4, 4, 3)}),
    "qwen3-omni": ("Qwen3OmniMoeForConditionalGeneration", {"thinker_config": {**TEXT, "vision_config": QWEN3_VISION, "audio_config": QWEN3_SOUND}}, IMAGES, {
        **both("visual.patch_embed.proj", E, 3, 2, 14, 14), "visual.pos_embed.weight": (16, E),
        **blocks("visual.blocks.", 3, {"attn.qkv": (3 * E, E), "attn.proj": (E, E), "mlp.linear_fc1": (F, E), "mlp.linear_fc2": (E, F), "norm1": (E,), "norm2": (E,)}),
        **linear({f"visual.{merger}.{name}": shape for merger in ("merger", "merger_list.0", "merger_list.1")
            for name, shape in {"ln_q": (E if merger == "merger" else 4 * E,), "mlp.0": (4 * E, 4 * E), "mlp.2": (T, 4 * E)}.items()}),
        **qwen3_sound("thinker.audio_tower"), "thinker.model.norm.weight": (T,), "code2wav.decoder.0.conv.weight": (4, 4, 3)}),
}
