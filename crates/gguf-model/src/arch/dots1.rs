//! dots.llm1: query and key norms of each head, experts behind the first blocks, shared experts.
//!
//! Rules: `load_arch_tensors` in `src/models/dots1.cpp` of llama.cpp, `Dots1Model` in `conversion/dots1.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["dots1"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT]],
    optional: &[
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
    ],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, QKV_OF_QUERIES, OUTPUT, QK_NORMS, GATED_FFN, SELECTION_BIAS, EXPERTS, SHARED_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["Dots1ForCausalLM"],
        keys: &[EXPERT_NUMBER, GENERIC, EXPERT_WIDTHS, KEYS],
        ..Checkpoint::TEXT
    }],
};

/// Keys and values of all heads are as wide as the queries.
const QKV_OF_QUERIES: &[Row] = rows! {
    "attn_qkv.weight" [Embd ThriceQ] Optional Always + Optional;
    "attn_q.weight"   [Embd Q] UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"   [Embd Q] UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"   [Embd Q] UnlessFused Always + Optional <- "self_attn.v_proj";
};

/// `Dots1Model.__init__`.
const EXPERT_NUMBER: &[Key] = keys! {
    let num_experts = "required(n_routed_experts)";
};

const KEYS: &[Key] = keys! {
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "norm_topk_prob";
};
