//! DeepSeek's encoders: those of DeepSeek-OCR, a SAM encoder whose output a second encoder compresses (CLIP, or in the
//! second version Qwen2 with learned queries), and that of DeepSeek 4.

use super::prelude::*;

/// DeepSeek-OCR and Unlimited-OCR, which differ in the number of tiles.
pub(super) const DEEPSEEKOCR: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[SAM, OCR_PROJECTOR, CLIP],
    block: &[SAM_BLOCK, CLIP_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekOCRForCausalLM", "UnlimitedOCRForCausalLM"],
        names: &TensorNames { layers: &["vision_model.transformer.layers.{}.", SAM_LAYERS], ..*OCR.names },
        keys: &[SAM_SIZES, CLIP_SIZES, HEAD, VISION, OCR_TYPE, OCR_KEYS],
        ..OCR
    }],
};

pub(super) const DEEPSEEKOCR2: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[SAM, OCR_PROJECTOR, QWEN2],
    block: &[SAM_BLOCK, QWEN2_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekOCR2ForCausalLM"],
        names: &TensorNames { layers: &["qwen2_model.model.model.layers.{}.", SAM_LAYERS], ..*OCR.names },
        keys: &[SAM_SIZES, QWEN2_SIZES, HEAD, VISION, OCR2_TYPE, OCR_KEYS, OCR2_KEYS],
        ..OCR
    }],
};

/// DeepSeek 4 with images. Its sizes are fields of the language model, and it has no preprocessor file.
pub(super) const DEEPSEEK4V: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[DEEPSEEK4V_OUTSIDE],
    block: &[DEEPSEEK4V_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekV4ForCausalLM"],
        names: &TensorNames {
            takes: &["vision.*", "aligner.*", "image_*"],
            roots: &["vision."],
            layers: &["blocks.{}."],
            ..*TOWER.names
        },
        refuse: &[(
            "(vision_n_layers|0) > 0 and not (vision_max_n_token == 384 and vision_max_wh_ratio == 8)",
            "another vision_max_n_token than 384 or vision_max_wh_ratio than 8",
        )],
        keys: &[DEEPSEEK4V_SIZES, HEAD, VISION, DEEPSEEK4V_KEYS],
        ..TOWER
    }],
};

const OCR: Checkpoint = Checkpoint {
    names: &TensorNames {
        takes: &[
            "model.sam_model.*",
            "model.vision_model.*",
            "model.qwen2_model.*",
            "model.projector.*",
            "model.image_newline",
            "model.view_seperator",
        ],
        roots: &["model."],
        ..*TOWER.names
    },
    types: &StoredTypes {
        precise: &[
            "v.patch_embd.weight",
            "v.sam.pos_embd.weight",
            "v.sam.blk.*.attn.pos_*",
            "v.sam.neck.*",
            "v.sam.net_*",
        ],
        convolutions: &["v.sam.patch_embd.weight"],
        ..*TOWER.types
    },
    ..TOWER
};

const SAM_LAYERS: &str = "sam_model.blocks.{}.";

/// The widths of both encoders are objects in the field of the width.
const SAM_SIZES: &[Key] = keys! {
    let sam = "vision_config.width.sam_vit_b";
    let @further_blocks = "sam.layers";
};

/// The width of the feed-forward part is not used.
const CLIP_SIZES: &[Key] = keys! {
    let vision_config = "merge(vision_config, vision_config.width['clip-l-14-224'] ?? {})";
    let vision_config = "merge(vision_config, {'hidden_size': vision_config.width, 'num_heads': vision_config.heads, \
                         'intermediate_size': 4 * vision_config.heads})";
};

/// The sizes of Qwen2's encoder are constants of the model's code.
const QWEN2_SIZES: &[Key] = keys! {
    let vision_config = "merge(vision_config, {'hidden_size': vision_config.width['qwen2-0-5b'].dim, \
                         'layers': vision_config.layers ?? 24, 'patch_size': vision_config.patch_size ?? 16, \
                         'intermediate_size': vision_config.intermediate_size ?? 4864, \
                         'num_attention_heads': vision_config.num_attention_heads ?? 14})";
};

const OCR_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'deepseekocr'";
    let max_tiles = "32 if architectures[0] == 'UnlimitedOCRForCausalLM' else 9";
};

const OCR2_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'deepseekocr2'";
    let max_tiles = "6";
};

const OCR_KEYS: &[Key] = keys! {
    let scale_factor = "vision_config.image_size // vision_config.patch_size // int((@preprocessor.image_seq_length|256) ** 0.5)";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.use_gelu" Bool = "true";
    "clip.vision.projector.scale_factor" U32? = "scale_factor if scale_factor > 0 and scale_factor != 4 else null";
    "clip.vision.window_size" U32 = "vision_config.window_size|14";
    "clip.vision.preproc_min_tiles" U32 = "2";
    "clip.vision.preproc_max_tiles" U32 = "max_tiles";
    "clip.vision.sam.block_count" U32 = "sam.layers";
    "clip.vision.sam.embedding_length" U32 = "sam.width";
    "clip.vision.sam.head_count" U32 = "sam.heads";
};

const OCR2_KEYS: &[Key] = keys! {
    "clip.vision.attention.head_count_kv" U32 = "2";
};

const DEEPSEEK4V_SIZES: &[Key] = keys! {
    let vision_config = "{'num_hidden_layers': vision_n_layers, 'hidden_size': vision_dim, 'num_attention_heads': vision_n_heads, \
                         'intermediate_size': vision_inter_dim, 'patch_size': vision_patch_size, \
                         'image_size': vision_patch_size * vision_downsample_ratio * 16}";
    let @preprocessor = "merge({'image_mean': [0.5, 0.5, 0.5], 'image_std': [0.5, 0.5, 0.5]}, @preprocessor)";
};

const DEEPSEEK4V_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'deepseek4v'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "1e-6";
    "clip.use_silu" Bool = "true";
    "clip.vision.projector.scale_factor" U32 = "vision_downsample_ratio";
    "clip.vision.image_min_pixels" U32 = "vision_min_pixels";
};

const SAM: &[Row] = rows! {
    "v.sam.pos_embd.weight"   [] Required Always <- "sam_model.pos_embed";
    "v.sam.patch_embd.weight" [] Required Always + Required <- "sam_model.patch_embed.proj";
    "v.sam.neck.0.weight"     [] Required Always <- "sam_model.neck.0";
    "v.sam.neck.1.weight"     [] Required Always + Required <- "sam_model.neck.1";
    "v.sam.neck.2.weight"     [] Required Always <- "sam_model.neck.2";
    "v.sam.neck.3.weight"     [] Required Always + Required <- "sam_model.neck.3";
    "v.sam.net_2.weight"      [] Required Always <- "sam_model.net_2";
    "v.sam.net_3.weight"      [] Required Always <- "sam_model.net_3";
};

const SAM_BLOCK: &[Row] = rows! {
    "v.sam.blk.{}.pre_ln.weight"     [] Required Always + Required <- "norm1";
    "v.sam.blk.{}.post_ln.weight"    [] Required Always + Required <- "norm2";
    "v.sam.blk.{}.attn.pos_h.weight" [] Required Always <- "attn.rel_pos_h";
    "v.sam.blk.{}.attn.pos_w.weight" [] Required Always <- "attn.rel_pos_w";
    "v.sam.blk.{}.attn.qkv.weight"   [] Required Always + Required <- "attn.qkv";
    "v.sam.blk.{}.attn.out.weight"   [] Required Always + Required <- "attn.proj";
    "v.sam.blk.{}.mlp.lin1.weight"   [] Required Always + Required <- "mlp.lin1";
    "v.sam.blk.{}.mlp.lin2.weight"   [] Required Always + Required <- "mlp.lin2";
};

const OCR_PROJECTOR: &[Row] = rows! {
    "mm.model.fc.weight" [] Required Always + Required <- "projector.layers";
    "v.image_newline"    [] Optional Always <- "image_newline";
    "v.view_seperator"   [] Required Always <- "view_seperator" : "e -> 1 e";
};

const CLIP: &[Row] = rows! {
    "v.class_embd"           [Embd] Required Always <- "vision_model.embeddings.class_embedding";
    "v.patch_embd.weight"    []     Required Always <- "vision_model.embeddings.patch_embedding";
    "v.position_embd.weight" []     Required Always <- "vision_model.embeddings.position_embedding";
    "v.pre_ln.weight"        [Embd] Required Always + Required <- "vision_model.pre_layrnorm";
};

const CLIP_BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_qkv.weight" []          Required Always + Required <- "self_attn.qkv_proj";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "self_attn.out_proj";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "layer_norm1";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "layer_norm2";
    "v.blk.{}.ffn_up.weight"   []          Required Always + Required <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" []          Required Always + Required <- "mlp.fc2";
};

// The queries are those of images of 768 and 1024 pixels.
const QWEN2: &[Row] = rows! {
    "v.post_ln.weight"             [Embd] Required Always <- "qwen2_model.model.model.norm";
    "v.resample_query_768.weight"  []     Optional Always <- "qwen2_model.query_768";
    "v.resample_query_1024.weight" []     Optional Always <- "qwen2_model.query_1024";
};

const QWEN2_BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_q.weight"   []     Required Always + Required <- "self_attn.q_proj";
    "v.blk.{}.attn_k.weight"   []     Required Always + Required <- "self_attn.k_proj";
    "v.blk.{}.attn_v.weight"   []     Required Always + Required <- "self_attn.v_proj";
    "v.blk.{}.attn_out.weight" []     Required Always <- "self_attn.o_proj";
    "v.blk.{}.ln1.weight"      [Embd] Required Always <- "input_layernorm";
    "v.blk.{}.ln2.weight"      [Embd] Required Always <- "post_attention_layernorm";
    "v.blk.{}.ffn_gate.weight" [Embd Ff] Required Always <- "mlp.gate_proj";
    "v.blk.{}.ffn_up.weight"   [Embd Ff] Required Always <- "mlp.up_proj";
    "v.blk.{}.ffn_down.weight" [Ff Embd] Required Always <- "mlp.down_proj";
};

// The patch embedding is a matrix over the pixels of a patch.
const DEEPSEEK4V_OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always <- "patch_embed.proj"
        : "o (three vision_config.patch_size b) -> o three vision_config.patch_size b";
    "v.patch_embd.bias"      [Embd] Optional Always <- "patch_embed.proj.bias";
    "v.post_ln.weight"       [Embd] Required Always + Optional <- "norm";
    "mm.1.weight"            []     Required Always + Required <- "aligner.w1";
    "mm.2.weight"            []     Required Always + Required <- "aligner.w2";
    "v.image_newline"        []     Required Always <- "image_newline";
    "v.token_embd.img_start" []     Required Always <- "image_start";
    "v.token_embd.img_end"   []     Required Always <- "image_end";
    "v.token_embd.img_pad"   []     Required Always <- "image_pad";
};

const DEEPSEEK4V_BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_qkv.weight" []          Required Always + Optional <- "attn.wqkv";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Optional <- "attn.wo";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Optional <- "norm1";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Optional <- "norm2";
    "v.blk.{}.ffn_gate.weight" [Embd Ff]   Required Always + Optional <- "mlp.w1" : "(two[0] f) ... -> f ...";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Optional <- "mlp.w1" : "(two[1] f) ... -> f ...";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Optional <- "mlp.w2";
};
