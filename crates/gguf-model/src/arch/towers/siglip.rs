//! SigLIP encoders: norms with biases before attention and before the feed-forward part, learned positions.

use super::prelude::*;

pub(super) const GEMMA3: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    outside: &[EMBEDDINGS, GEMMA3_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Gemma3ForConditionalGeneration"],
        takes: TAKES,
        roots: ROOTS,
        layers: LAYERS,
        skip: &[("vision_model.head.*", "")],
        keys: &[HEAD, VISION, GEMMA3_KEYS],
        precise: PRECISE,
        half: &["mm.input_projection.weight"],
        ..TOWER
    }],
};

pub(super) const IDEFICS3: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    outside: &[EMBEDDINGS, IDEFICS3_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"],
        takes: &["*vision_tower*", "*vision_model*", "*model.connector*"],
        roots: ROOTS,
        layers: LAYERS,
        keys: &[HEAD, VISION, IDEFICS3_KEYS],
        precise: PRECISE,
        ..TOWER
    }],
};

pub(super) const JANUS: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    outside: &[EMBEDDINGS, JANUS_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["JanusForConditionalGeneration"],
        takes: &["model.vision_model.*", "vision_model.*", "model.aligner.*", "aligner.*"],
        roots: ROOTS,
        layers: LAYERS,
        keys: &[JANUS_SIZES, HEAD, VISION, JANUS_KEYS],
        ..TOWER
    }],
};

pub(super) const LFM2VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    outside: &[LFM2VL_EMBEDDINGS, LFM2VL_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Lfm2VlForConditionalGeneration"],
        takes: TAKES,
        roots: ROOTS,
        layers: LAYERS,
        keys: &[LFM2VL_SIZES, HEAD, VISION, LFM2VL_KEYS],
        ..TOWER
    }],
};

const TAKES: &[&str] = &[
    "multi_modal_projector.*",
    "vision_tower.*",
    "vision_model.*",
    "model.multi_modal_projector.*",
    "model.vision_tower.*",
];

const ROOTS: &[&str] = &["model.vision_tower.", "vision_tower.", "model."];

const LAYERS: &[&str] = &["vision_model.encoder.layers.{}."];

/// What the language model's first layers are sensitive to.
const PRECISE: &[&str] = &["v.patch_embd.weight", "v.position_embd.weight"];

const EMBEDDINGS: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always + Optional <- "vision_model.embeddings.patch_embedding";
    "v.position_embd.weight" []     Required Always <- "vision_model.embeddings.position_embedding";
    "v.post_ln.weight"       [Embd] Optional Always + Optional <- "vision_model.post_layernorm";
};

const LFM2VL_EMBEDDINGS: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always <- "vision_model.embeddings.patch_embedding" : "o (16 b three) -> o three 16 b";
    "v.patch_embd.bias"      [Embd] Optional Always <- "vision_model.embeddings.patch_embedding.bias";
    "v.position_embd.weight" []     Required Always <- "vision_model.embeddings.position_embedding";
    "v.post_ln.weight"       [Embd] Optional Always + Optional <- "vision_model.post_layernorm";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "layer_norm1";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "layer_norm2";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Optional <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Optional <- "mlp.fc2";
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Optional <- "self_attn.q_proj";
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Optional <- "self_attn.k_proj";
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Optional <- "self_attn.v_proj";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Optional <- "self_attn.out_proj | self_attn.projection_layer";
};

const GEMMA3_PROJECTOR: &[Row] = rows! {
    "mm.input_projection.weight" []     Required Always <- "multi_modal_projector.mm_input_projection_weight | multi_modal_projector.mm_input_projection";
    "mm.soft_emb_norm.weight"    [Embd] Required Always <- "multi_modal_projector.mm_soft_emb_norm" : "e -> e", Map::Add(1.0);
};

const IDEFICS3_PROJECTOR: &[Row] = rows! {
    "mm.model.fc.weight" [] Required Always + Optional <- "connector.modality_projection.proj";
};

const JANUS_PROJECTOR: &[Row] = rows! {
    "mm.0.weight" [] Required Always + Optional <- "aligner.fc1";
    "mm.1.weight" [] Required Always + Optional <- "aligner.hidden_layers.0";
    "mm.2.weight" [] Optional Always + Optional <- "aligner.hidden_layers.1";
    "mm.3.weight" [] Optional Always + Optional <- "aligner.hidden_layers.2";
};

const LFM2VL_PROJECTOR: &[Row] = rows! {
    "mm.input_norm.weight" [] Optional Always + Optional <- "multi_modal_projector.layer_norm";
    "mm.1.weight"          [] Required Always + Optional <- "multi_modal_projector.linear_1";
    "mm.2.weight"          [] Required Always + Optional <- "multi_modal_projector.linear_2";
};

const GEMMA3_KEYS: &[Key] = keys! {
    let scale_factor = "vision_config.image_size // vision_config.patch_size // int((preprocessor.image_seq_length|256) ** 0.5)";
    "clip.projector_type" Str = "'gemma3'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.use_gelu" Bool = "true";
    "clip.vision.projector.scale_factor" U32? = "scale_factor if scale_factor > 0 and scale_factor != 4 else null";
};

const IDEFICS3_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'idefics3'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-5";
    "clip.vision.projector.scale_factor" U32 = "scale_factor|2";
    "clip.use_gelu" Bool = "true";
    "clip.vision.preproc_image_size" U32 = "preprocessor.size.longest_edge|vision_config.image_size";
};

const JANUS_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'intermediate_size', vision_config.intermediate_size|\
                         int(round(vision_config.hidden_size * vision_config.mlp_ratio)))";
};

const JANUS_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'janus_pro'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.use_gelu" Bool? = "true if vision_config.hidden_act == 'gelu' else null";
    "clip.use_silu" Bool? = "true if vision_config.hidden_act == 'silu' else null";
};

/// Images of any size are cut into tiles of this one.
const LFM2VL_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', 256)";
};

const LFM2VL_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'lfm2'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps";
    "clip.vision.projector.scale_factor" U32 = "downsample_factor|2";
    "clip.use_gelu" Bool = "true";
    "clip.vision.block_count" U32 = "block_count + (vision_feature_layer ?? -1) + 1";
};
