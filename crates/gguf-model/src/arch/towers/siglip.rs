//! SigLIP encoders: norms with biases before attention and before the feed-forward part, learned positions.

use super::prelude::*;

pub(super) const GEMMA3: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[EMBEDDINGS, GEMMA3_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Gemma3ForConditionalGeneration"],
        names: &TensorNames {
            takes: TAKES,
            roots: ROOTS,
            layers: LAYERS,
            skip: &[("vision_model.head.*", "")],
            ..*TOWER.names
        },
        keys: &[HEAD, VISION, GEMMA3_KEYS],
        types: &StoredTypes { precise: PRECISE, half: &["mm.input_projection.weight"], ..*TOWER.types },
        ..TOWER
    }],
};

pub(super) const IDEFICS3: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[EMBEDDINGS, IDEFICS3_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"],
        names: &TensorNames {
            takes: &["*vision_tower*", "*vision_model*", "*model.connector*"],
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        keys: &[HEAD, VISION, IDEFICS3_KEYS],
        types: &StoredTypes { precise: PRECISE, ..*TOWER.types },
        ..TOWER
    }],
};

pub(super) const JANUS: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[EMBEDDINGS, JANUS_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["JanusForConditionalGeneration"],
        names: &TensorNames {
            takes: &["model.vision_model.*", "vision_model.*", "model.aligner.*", "aligner.*"],
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        keys: &[JANUS_SIZES, HEAD, VISION, JANUS_KEYS],
        ..TOWER
    }],
};

pub(super) const LFM2VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[LFM2VL_EMBEDDINGS, LFM2VL_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Lfm2VlForConditionalGeneration"],
        names: &TensorNames { takes: TAKES, roots: ROOTS, layers: LAYERS, ..*TOWER.names },
        keys: &[LFM2VL_SIZES, HEAD, VISION, LFM2VL_KEYS],
        ..TOWER
    }],
};

/// MiniCPM-V 4.6, which merges patches between two blocks and after the last block.
pub(super) const MINICPMV: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[EMBEDDINGS, MINICPMV_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MiniCPMV4_6ForConditionalGeneration"],
        names: &TensorNames {
            takes: &["model.vision_tower.*", "model.merger.*"],
            rename: &[("model.vision_tower.", "vision_model.")],
            roots: ROOTS,
            layers: LAYERS,
            skip: &[("vision_model.vit_merger.*", "(@preprocessor.downsample_mode|'16x') == '4x'")],
            ..*TOWER.names
        },
        refuse: &[(
            "not ((@preprocessor.downsample_mode|'16x') in ['4x', '16x'])",
            "another downsample_mode than 4x and 16x",
        )],
        keys: &[MINICPMV_SIZES, HEAD, VISION, MINICPMV_KEYS],
        ..TOWER
    }],
};

pub(super) const PADDLEOCR: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[EMBEDDINGS, PADDLEOCR_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["PaddleOCRVisionModel"],
        names: &TensorNames {
            takes: &["*vision_model*", "*mlp_AR*"],
            rename: &[("visual.", "model.")],
            roots: ROOTS,
            layers: LAYERS,
            skip: &[("*packing_position_embedding*", ""), ("vision_model.head*", "")],
            ..*TOWER.names
        },
        keys: &[PADDLEOCR_SIZES, HEAD, VISION, PADDLEOCR_KEYS],
        ..TOWER
    }],
};

/// Phi-4 with vision, which uses the output of the last block but one.
pub(super) const PHI4: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[PHI4_OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Phi4ForCausalLMV"],
        names: &TensorNames {
            takes: &["vision_tower.*", "model.vision_tower.vision_tower.*", "model.mm_projector.*", "mm_projector.*"],
            rename: &[("model.vision_tower.vision_tower.", "vision_tower.")],
            roots: ROOTS,
            layers: LAYERS,
            skip: &[("vision_model.head.*", ""), ("vision_model.post_layernorm.*", "")],
            ..*TOWER.names
        },
        drops_further_blocks: true,
        facts: &TensorFacts {
            row_counts: &[("n_positions", "*vision_model.embeddings.position_embedding.weight")],
            ..*TOWER.facts
        },
        refuse: &[
            ("(vision_config.num_hidden_layers ?? 2) < 2", "an encoder of fewer than two blocks"),
            ("int(sqrt(@n_positions ?? 0)) ** 2 != (@n_positions ?? 0)", "a grid of positions that is not square"),
        ],
        keys: &[PHI4_SIZES, HEAD, VISION, PHI4_KEYS],
        ..TOWER
    }],
};

/// Youtu-VL, whose encoder has rotary positions and window attention.
pub(super) const YOUTUVL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[YOUTUVL_OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["YoutuVLForConditionalGeneration"],
        names: &TensorNames {
            takes: &["siglip2.*", "merger.*"],
            rename: &[("siglip2.", "")],
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        refuse: &[(
            "not (lower(vision_config.hidden_act|'gelu') in ['gelu', 'gelu_pytorch_tanh', 'gelu_fast', 'gelu_new', 'gelu_accurate', 'silu'])",
            "another activation than gelu and silu",
        )],
        keys: &[YOUTUVL_SIZES, HEAD, VISION, YOUTUVL_KEYS],
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

/// Tensors to which the first layers of the language model are sensitive.
const PRECISE: &[&str] = &["v.patch_embd.weight", "v.position_embd.weight"];

pub(super) const EMBEDDINGS: &[Row] = rows! {
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

pub(super) const BLOCK: &[Row] = rows! {
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
    let scale_factor = "vision_config.image_size // vision_config.patch_size // int((@preprocessor.image_seq_length|256) ** 0.5)";
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
    "clip.vision.preproc_image_size" U32 = "@preprocessor.size.longest_edge|vision_config.image_size";
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

/// Images of any size are cut into tiles of this size.
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

/// The size of image slices; the configuration has the size of the position grid.
const MINICPMV_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', int(@preprocessor.scale_resolution)) \
                         if @preprocessor.scale_resolution != null else vision_config";
};

const MINICPMV_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'minicpmv4_6'";
    "clip.vision.projector.scale_factor" U32 = "2 if @preprocessor.downsample_mode == '4x' else 4";
    "clip.vision.wa_layer_indexes" I32 = "[int(insert_layer_id|vision_config.insert_layer_id|6)]";
    "clip.use_gelu" Bool = "true";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
};

const PADDLEOCR_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', int(sqrt(@preprocessor.max_pixels)))";
};

const PADDLEOCR_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'paddleocr'";
    "clip.vision.image_max_pixels" U32 = "@preprocessor.max_pixels";
    "clip.vision.image_min_pixels" U32 = "@preprocessor.min_pixels";
    "clip.use_gelu" Bool = "true";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.rms_norm_eps|1e-6";
};

/// The size of the position grid; the configuration does not have the sizes of images and patches.
const PHI4_SIZES: &[Key] = keys! {
    let patch = "{'rows': required(@preprocessor.patch_size), 'columns': required(@preprocessor.patch_size)}";
    let vision_config = "with(with(vision_config, 'patch_size', patch.rows), 'image_size', int(sqrt(@n_positions)) * patch.rows)";
};

const PHI4_KEYS: &[Key] = keys! {
    let block_count = "block_count - 1";
    "clip.vision.block_count" U32 = "block_count";
    "clip.projector_type" Str = "'phi4'";
    "clip.vision.image_min_pixels" U32 = "int(@preprocessor.min_num_patches|min_num_patches) * patch.rows ** 2";
    "clip.vision.image_max_pixels" U32 = "int(@preprocessor.max_num_patches|max_num_patches) * patch.rows ** 2";
    "clip.use_gelu" Bool = "true";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
};

const YOUTUVL_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', vision_config.image_size|560)";
};

const YOUTUVL_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'youtuvl'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.use_gelu" Bool? = "true if lower(vision_config.hidden_act|'gelu') != 'silu' else null";
    "clip.use_silu" Bool? = "true if lower(vision_config.hidden_act|'gelu') == 'silu' else null";
    "clip.vision.spatial_merge_size" U32 = "vision_config.spatial_merge_size|2";
    "clip.vision.window_size" U32? = "vision_config.window_size";
    "clip.vision.wa_layer_indexes" I32 = "vision_config.fullatt_block_indexes";
};

const MINICPMV_PROJECTOR: &[Row] = rows! {
    "v.vit_merger.ln1.weight"         [Embd]      Optional Always + Optional <- "vision_model.vit_merger.layer_norm1";
    "v.vit_merger.attn_q.weight"      [Embd Embd] Optional Always + Optional <- "vision_model.vit_merger.self_attn.q_proj";
    "v.vit_merger.attn_k.weight"      [Embd Embd] Optional Always + Optional <- "vision_model.vit_merger.self_attn.k_proj";
    "v.vit_merger.attn_v.weight"      [Embd Embd] Optional Always + Optional <- "vision_model.vit_merger.self_attn.v_proj";
    "v.vit_merger.attn_out.weight"    [Embd Embd] Optional Always + Optional <- "vision_model.vit_merger.self_attn.out_proj";
    "v.vit_merger.ds_ln.weight"       []          Optional Always + Optional <- "vision_model.vit_merger.pre_norm";
    "v.vit_merger.ds_ffn_up.weight"   []          Optional Always + Optional <- "vision_model.vit_merger.linear_1";
    "v.vit_merger.ds_ffn_down.weight" []          Optional Always + Optional <- "vision_model.vit_merger.linear_2";
    "mm.input_norm.weight"            []          Required Always + Required <- "merger.mlp.0.pre_norm";
    "mm.up.weight"                    []          Required Always + Required <- "merger.mlp.0.linear_1";
    "mm.down.weight"                  []          Required Always + Required <- "merger.mlp.0.linear_2";
};

const PADDLEOCR_PROJECTOR: &[Row] = rows! {
    "mm.input_norm.weight" [] Required Always + Required <- "mlp_AR.pre_norm";
    "mm.1.weight"          [] Required Always + Required <- "mlp_AR.linear_1";
    "mm.2.weight"          [] Required Always + Required <- "mlp_AR.linear_2";
};

const PHI4_OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always <- "vision_model.embeddings.patch_embedding"
        : "o (patch.rows patch.columns c) -> o c patch.rows patch.columns";
    "v.patch_embd.bias"      [Embd] Optional Always <- "vision_model.embeddings.patch_embedding.bias";
    "v.position_embd.weight" []     Required Always <- "vision_model.embeddings.position_embedding";
    "mm.0.weight"            []     Required Always + Required <- "mm_projector.0";
    "mm.2.weight"            []     Required Always + Required <- "mm_projector.2";
};

// The patch embedding is a matrix; positions are rotary.
const YOUTUVL_OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"  []     Required Always + Required <- "vision_model.embeddings.patch_embedding";
    "v.post_ln.weight"     [Embd] Required Always + Required <- "vision_model.post_layernorm";
    "mm.input_norm.weight" []     Required Always <- "merger.ln_q";
    "mm.0.weight"          []     Required Always + Required <- "merger.mlp.0";
    "mm.2.weight"          []     Required Always + Required <- "merger.mlp.2";
};
