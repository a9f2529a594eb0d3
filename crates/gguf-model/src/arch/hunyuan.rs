//! Hunyuan, dense, and the text model of HunyuanOCR: query and key norms; the base of rotary frequencies grows with
//! `alpha`.
//!
//! Rules: `load_arch_tensors` in `src/models/hunyuan-vl.cpp` of llama.cpp, which both share; `HunYuanModel` and
//! `HunyuanVLTextModel` in `conversion/hunyuan.py`, for checkpoints with a `tokenizer.json`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["hunyuan-dense", "hunyuan_vl"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ROPE_DIMENSION_SECTIONS],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV, OUTPUT, HEAD_NORMS, GATED_FFN],
    checkpoints: &[
        Checkpoint {
            classes: &["HunYuanDenseV1ForCausalLM"],
            refuse: &[(
                "rope_all.rope_type == 'dynamic' and ((rope_all.rope_theta|10000.0) != 10000.0
                    or not (max_position_embeddings in [32768, 262144]))",
                UNKNOWN_SCALING,
            )],
            ..CHECKPOINT
        },
        Checkpoint {
            classes: &["HunYuanVLForConditionalGeneration"],
            name: "hunyuan_vl",
            refuse: &[(
                "rope_all.rope_type == 'dynamic' and rope_all.mrope_section == null
                    and ((rope_all.rope_theta|10000.0) != 10000.0 or not (max_position_embeddings in [32768, 262144]))",
                UNKNOWN_SCALING,
            )],
            keys: &[PRESETS, NORMALIZED, GENERIC, KEYS, IN_SECTIONS],
            ..CHECKPOINT
        },
    ],
};

const UNKNOWN_SCALING: &str =
    "dynamic scaling with a rope_theta other than 10000 or a max_position_embeddings other than 32768 and 262144";

const CHECKPOINT: Checkpoint = Checkpoint {
    names: &TensorNames { skip: &[("lm_head.weight", "tie_word_embeddings")], ..TensorNames::TEXT },
    keys: &[PRESETS, GENERIC, KEYS],
    tokenizer: &Tokenizer { keys: &[TOKENIZER], ..Tokenizer::BPE },
    ..Checkpoint::TEXT
};

const HEAD_NORMS: &[Row] = rows! {
    "attn_q_norm.weight" [HeadK] Required Always <- "self_attn.query_layernorm";
    "attn_k_norm.weight" [HeadK] Required Always <- "self_attn.key_layernorm";
};

/// A number of experts in configurations of these classes is ignored.
const PRESETS: &[Key] = keys! {
    let num_experts = "null";
    let rope_type = "rope_all.rope_type";
};

/// Multi-section rotation is also written as dynamic scaling with sections.
const NORMALIZED: &[Key] = keys! {
    let sections = "rope_all.mrope_section if rope_type == 'dynamic' and rope_all.mrope_section != null
        else rope_all.xdrope_section";
    let rope_type = "'xdrope' if rope_type == 'dynamic' and rope_all.mrope_section != null else rope_type";
};

const KEYS: &[Key] = keys! {
    let by_alpha = "rope_type in ['dynamic', 'xdrope']";
    let is_dynamic = "rope_type == 'dynamic'";
    "rope.freq_base" F32? = "(rope_all.rope_theta|10000.0) * (rope_all.alpha|50) ** (head_dim / (head_dim - 2))
        if by_alpha else null";
    "rope.scaling.type" Str? = "'none' if by_alpha else null";
    "rope.scaling.factor" F32? = "1 if by_alpha else null";
    "rope.scaling.original_context_length" U32? = "262144 if is_dynamic else null";
    "context_length" U32? = "262144 if is_dynamic else null";
};

const IN_SECTIONS: &[Key] = keys! {
    let is_xd = "rope_type == 'xdrope'";
    "rope.freq_base" F32? = "float(rope_all.rope_theta) if is_xd else null";
    "rope.scaling.alpha" F32? = "float(rope_all.alpha) if is_xd else null";
    "rope.scaling.factor" F32? = "float(rope_all.factor|1) if is_xd else null";
    "rope.scaling.original_context_length" U32? = "max_position_embeddings if is_xd else null";
    "context_length" U32? = "max_position_embeddings if is_xd else null";
    "rope.dimension_sections" I32? = "sections if is_xd else null";
};

const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.eos_token_id" U32? = "eod_token_id";
    let ends = "@generation_config.eos_token_id";
    "tokenizer.ggml.eot_token_id" U32? = "ends[0] if is_list(ends ?? 0) and len(ends) > 1 else null";
};
