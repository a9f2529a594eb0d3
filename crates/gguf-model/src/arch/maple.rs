//! Maple: experts with clamped gates and inputs in all blocks, a sliding window in some blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/maple.cpp` of llama.cpp, `MapleModel` in `conversion/maple.py`.
//! Configurations that llama.cpp does not implement are rejected.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["maple"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::ATTENTION_SLIDING_WINDOW,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::ATTENTION_SLIDING_WINDOW_PATTERN,
            keys::SWIGLU_CLAMP_EXP,
        ],
    ],
    optional: &[keys::ROPE_FREQ_BASE_SWA],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, QKV_OF_KEYS, OUTPUT, QK_NORMS, EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["MapleForCausalLM"],
        keys: &[GENERIC, VOCAB_SIZE, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let activation = "one_of(hidden_act, {'silu': 0})";
    let shared = "one_of(str(num_shared_experts|0), {'0': 0})";
    let weights = "one_of(str(norm_topk_prob|true), {'true': 0})";
    let global = "one_of(str(nope_on_global_attention), {'true': 0})";
    "rope.dimension_count" U32
        = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|1.0))";
    "attention.sliding_window" U32 = "sliding_window";
    "attention.sliding_window_pattern" Bool = "[t == 'sliding_attention' for t in required(layer_types)]";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "swiglu_clamp_exp" F32 = "[7.0 for i]";
};
