//! Qwen2-VL and its relatives: patches of two frames, with the convolution split per frame; patches are merged before
//! the projector. Qwen2.5-VL and EXAONE 4.5 have window attention, Qwen3-VL also outputs the states of intermediate
//! blocks, GLM-4V has a different projector, and Ling 3 VL has its projector outside the encoder.

use super::prelude::*;

pub(super) const QWEN2VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, QWEN2VL_PROJECTOR],
    block: &[SPLIT_ATTENTION, QWEN2VL_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Qwen2VLForConditionalGeneration", "Qwen2VLModel", "Sarashina2VisionForCausalLM"],
        when: "model_type == 'qwen2_vl' or architectures[0] == 'Sarashina2VisionForCausalLM'",
        names: &TensorNames { takes: TAKES, roots: ROOTS, layers: LAYERS, ..*TOWER.names },
        keys: &[SIZES, HEAD, VISION, QWEN2VL_KEYS],
        ..TOWER
    }],
};

pub(super) const QWEN25VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, QWEN2VL_PROJECTOR],
    block: &[SPLIT_ATTENTION, QWEN25VL_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Qwen2_5_VLForConditionalGeneration"],
        when: "model_type == 'qwen2_5_vl'",
        names: &TensorNames {
            takes: TAKES,
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        refuse: &[(
            "vision_config.fullatt_block_indexes and not all([vision_config.fullatt_block_indexes[i + 1] - vision_config.fullatt_block_indexes[i]
                == vision_config.fullatt_block_indexes[0] + 1 for i in range(len(vision_config.fullatt_block_indexes) - 1)])",
            OTHER_DISTANCES,
        )],
        keys: &[SIZES, HEAD, VISION, QWEN25VL_TYPE, QWEN25VL_KEYS],
        ..TOWER
    }],
};

pub(super) const EXAONE45: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, QWEN2VL_PROJECTOR],
    block: &[GATED_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Exaone4_5_ForConditionalGeneration"],
        names: &TensorNames {
            takes: TAKES,
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        refuse: &[(
            "vision_config.fullatt_block_indexes and not all([vision_config.fullatt_block_indexes[i + 1] - vision_config.fullatt_block_indexes[i]
                == vision_config.fullatt_block_indexes[0] + 1 for i in range(len(vision_config.fullatt_block_indexes) - 1)])",
            OTHER_DISTANCES,
        )],
        keys: &[SIZES, HEAD, VISION, EXAONE45_KEYS, PIXELS, EXAONE45_ATTENTION],
        ..TOWER
    }],
};

pub(super) const QWEN3VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, QWEN3VL_PROJECTOR],
    block: &[QWEN3VL_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &[
            "Qwen3VLForConditionalGeneration",
            "Qwen3VLMoeForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen4ExpForConditionalGeneration",
        ],
        names: &TensorNames {
            takes: TAKES,
            roots: ROOTS,
            layers: &["blocks.{}.", "deepstack_merger_list.{}."],
            renumbered: &[("deepstack_merger_list.", "vision_config.deepstack_visual_indexes")],
            ..*TOWER.names
        },
        keys: &[QWEN3VL_SIZES, SIZES, HEAD, VISION, DEEPSTACK, QWEN3VL_TYPE, QWEN3VL_KEYS, DEEPSTACK_BLOCKS],
        ..TOWER
    }],
};

pub(super) const LING3VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, LING3VL_PROJECTOR],
    block: &[QWEN3VL_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["BailingMoeV3VLForConditionalGeneration"],
        names: &TensorNames {
            takes: &["linear_proj*", "visual.*", "model.visual.*"],
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        refuse: &[
            (
                "vision_config.disable_merger_proj != true",
                "a projector inside the encoder (disable_merger_proj is not true)",
            ),
            ("vision_config.out_hidden_size == null", "an encoder whose configuration lacks out_hidden_size"),
        ],
        keys: &[QWEN3VL_SIZES, SIZES, HEAD, VISION, LING3VL_TYPE, QWEN3VL_KEYS],
        ..TOWER
    }],
};

pub(super) const GLM4V: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, GLM4V_PROJECTOR],
    block: &[GATED_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &[
            "Glm4vForConditionalGeneration",
            "Glm4vMoeForConditionalGeneration",
            "GlmOcrForConditionalGeneration",
        ],
        names: &TensorNames { takes: TAKES, roots: ROOTS, layers: LAYERS, ..*TOWER.names },
        keys: &[QWEN3VL_SIZES, SIZES, HEAD, VISION, GLM4V_TYPE, GLM4V_KEYS],
        ..TOWER
    }],
};

pub(super) const GLM5V: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, GLM4V_PROJECTOR],
    block: &[GATED_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Glm5NextForConditionalGeneration"],
        names: &TensorNames { takes: TAKES, roots: ROOTS, layers: LAYERS, ..*TOWER.names },
        keys: &[QWEN3VL_SIZES, SIZES, HEAD, VISION, GLM5V_TYPE, GLM4V_KEYS, GLM5V_KEYS],
        ..TOWER
    }],
};

pub(super) const OTHER_DISTANCES: &str = "full attention at other distances than the first";

const TAKES: &[&str] = &["visual.*", "model.visual.*"];

const ROOTS: &[&str] = &["model.visual.", "visual."];

const LAYERS: &[&str] = &["blocks.{}."];

/// In Qwen2-VL, `embed_dim` is the width of the encoder, and `hidden_size` the width of the language model.
pub(super) const SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', vision_config.image_size|560)";
    let vision_config = "with(with(vision_config, 'num_attention_heads', vision_config.num_heads), 'num_hidden_layers', vision_config.depth)";
    let vision_config = "with(with(vision_config, 'intermediate_size', vision_config.hidden_size), 'hidden_size', vision_config.embed_dim) \
                         if vision_config.embed_dim != null else vision_config";
};

pub(super) const QWEN3VL_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', vision_config.image_size|\
                         int((vision_config.num_position_embeddings|2304) ** 0.5 * (vision_config.patch_size|16)))";
};

const QWEN2VL_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'qwen2vl_merger'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "rms_norm_eps|1e-6";
};

const QWEN25VL_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'qwen2.5vl_merger'";
};

pub(super) const QWEN25VL_KEYS: &[Key] = keys! {
    "clip.use_silu" Bool = "true";
    "clip.vision.n_wa_pattern" U32 = "vision_config.fullatt_block_indexes[0] + 1";
    "clip.vision.attention.layer_norm_epsilon" F32 = "rms_norm_eps|1e-6";
};

/// Which blocks have outputs.
pub(super) const DEEPSTACK: &[Key] = keys! {
    let is_deepstack = "[i in (vision_config.deepstack_visual_indexes ?? []) for i]";
};

const QWEN3VL_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'qwen3vl_merger'";
};

const LING3VL_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'ling3vl'";
};

pub(super) const QWEN3VL_KEYS: &[Key] = keys! {
    "clip.use_gelu" Bool = "true";
    "clip.vision.spatial_merge_size" U32? = "vision_config.spatial_merge_size";
    "clip.vision.attention.layer_norm_epsilon" F32 = "text_config.rms_norm_eps|1e-6";
};

/// The blocks whose states are output, too.
pub(super) const DEEPSTACK_BLOCKS: &[Key] = keys! {
    "clip.vision.is_deepstack_layers" Bool = "is_deepstack";
};

const EXAONE45_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'exaone4_5'";
    "clip.use_silu" Bool = "true";
};

const EXAONE45_ATTENTION: &[Key] = keys! {
    "clip.vision.attention.head_count_kv" U32? = "vision_config.num_key_value_heads";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.rms_norm_eps|rms_norm_eps|1e-6";
    "clip.vision.window_size" U32? = "vision_config.window_size";
    "clip.vision.n_wa_pattern" U32? = "vision_config.fullatt_block_indexes[0] + 1 if vision_config.fullatt_block_indexes else null";
};

const GLM4V_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'glm4v'";
};

const GLM5V_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'glm5v'";
};

const GLM5V_KEYS: &[Key] = keys! {
    let pixels = "((@preprocessor.patch_size|14) * (@preprocessor.merge_size|2)) ** 2";
    "clip.vision.spatial_merge_size" U32 = "vision_config.spatial_merge_size|2";
    "clip.vision.swiglu_clamp" F32? = "vision_config.swiglu_limit";
    "clip.vision.image_min_pixels" U32? = "@preprocessor.min_image_tokens * pixels if @preprocessor.min_image_tokens != null else null";
    "clip.vision.image_max_pixels" U32? = "@preprocessor.max_image_tokens * pixels if @preprocessor.max_image_tokens != null else null";
};

const GLM4V_KEYS: &[Key] = keys! {
    "clip.use_gelu" Bool? = "true if vision_config.hidden_act == 'gelu' else null";
    "clip.use_silu" Bool? = "true if vision_config.hidden_act == 'silu' else null";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.rms_norm_eps|1e-5";
};

pub(super) const FRAMES: &[Row] = rows! {
    "v.patch_embd.weight"   []     Required Always <- "patch_embed.proj" : "o c two[0] y z -> o c y z";
    "v.patch_embd.weight.1" []     Required Always <- "patch_embed.proj" : "o c two[1] y z -> o c y z";
    "v.patch_embd.bias"     [Embd] Optional Always <- "patch_embed.proj.bias";
};

pub(super) const QWEN2VL_PROJECTOR: &[Row] = rows! {
    "v.post_ln.weight" [Embd] Required Always + Optional <- "merger.ln_q";
    "mm.0.weight"      []     Required Always + Required <- "merger.mlp.0";
    "mm.2.weight"      []     Required Always + Required <- "merger.mlp.2";
};

pub(super) const QWEN3VL_PROJECTOR: &[Row] = rows! {
    "mm.0.weight"            []     Required Always + Required <- "merger.linear_fc1";
    "mm.2.weight"            []     Required Always + Required <- "merger.linear_fc2";
    "v.post_ln.weight"       [Embd] Required Always + Required <- "merger.norm";
    "v.position_embd.weight" []     Required Always <- "pos_embed";
};

const LING3VL_PROJECTOR: &[Row] = rows! {
    "mm.0.weight"            []     Required Always + Required <- "linear_proj.0";
    "mm.2.weight"            []     Required Always + Required <- "linear_proj.2";
    "mm.input_norm.weight"   []     Required Always + Required <- "merger.norm";
    "v.position_embd.weight" []     Required Always <- "pos_embed";
};

const GLM4V_PROJECTOR: &[Row] = rows! {
    "mm.patch_merger.weight" []     Required Always + Required <- "downsample";
    "v.position_embd.weight" []     Optional Always <- "embeddings.position_embedding";
    "mm.down.weight"         []     Required Always <- "merger.down_proj";
    "mm.gate.weight"         []     Required Always <- "merger.gate_proj";
    "mm.post_norm.weight"    []     Required Always + Required <- "merger.post_projection_norm";
    "mm.model.fc.weight"     []     Required Always <- "merger.proj";
    "mm.up.weight"           []     Required Always <- "merger.up_proj";
    "v.norm_embd.weight"     [Embd] Optional Always <- "post_conv_layernorm";
    "v.post_ln.weight"       [Embd] Required Always <- "post_layernorm";
};

const SPLIT_ATTENTION: &[Row] = rows! {
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "attn.proj";
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Required <- "attn.qkv" : "(three[0] e) ... -> e ...";
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Required <- "attn.qkv" : "(three[1] e) ... -> e ...";
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Required <- "attn.qkv" : "(three[2] e) ... -> e ...";
};

// The key for the feed-forward width does not give the true width; it holds the width of the language model.
const QWEN2VL_BLOCK: &[Row] = rows! {
    "v.blk.{}.ffn_up.weight"   []     Required Always + Required <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" []     Required Always + Required <- "mlp.fc2";
    "v.blk.{}.ln1.weight"      [Embd] Required Always + Required <- "norm1";
    "v.blk.{}.ln2.weight"      [Embd] Required Always + Required <- "norm2";
};

pub(super) const QWEN25VL_BLOCK: &[Row] = rows! {
    "v.blk.{}.ffn_gate.weight" [Embd Ff] Required Always + Required <- "mlp.gate_proj";
    "v.blk.{}.ffn_up.weight"   [Embd Ff] Required Always + Required <- "mlp.up_proj";
    "v.blk.{}.ffn_down.weight" [Ff Embd] Required Always + Required <- "mlp.down_proj";
    "v.blk.{}.ln1.weight"      [Embd]    Required Always <- "norm1";
    "v.blk.{}.ln2.weight"      [Embd]    Required Always <- "norm2";
};

pub(super) const QWEN3VL_BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_out.weight"       [Embd Embd] Required Always + Required <- "attn.proj";
    "v.blk.{}.attn_qkv.weight"       []          Required Always + Required <- "attn.qkv";
    "v.blk.{}.ffn_up.weight"         [Embd Ff]   Required Always + Required <- "mlp.linear_fc1";
    "v.blk.{}.ffn_down.weight"       [Ff Embd]   Required Always + Required <- "mlp.linear_fc2";
    "v.blk.{}.ln1.weight"            [Embd]      Required Always + Required <- "norm1";
    "v.blk.{}.ln2.weight"            [Embd]      Required Always + Required <- "norm2";
    "v.deepstack.{}.fc1.weight"      []          Optional Always + Optional <- "linear_fc1";
    "v.deepstack.{}.fc2.weight"      []          Optional Always + Optional <- "linear_fc2";
    "v.deepstack.{}.norm.weight"     []          Optional Always + Optional <- "norm";
};
