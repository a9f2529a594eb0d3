//! dots.llm1: query and key norms, routed and shared experts, dense blocks first.
//!
//! Rules: `load_arch_tensors` in `src/models/dots1.cpp` of llama.cpp, `Dots1Model` in `conversion/dots1.py` on top of
//! `Qwen2MoeModel` in `conversion/qwen.py`.

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
    outside: &[OUTSIDE],
    block: &[NORMS, ATTENTION, QK_NORMS, GATED_FFN, ROUTING, EXPERTS, SHARED_EXPERTS],
    checkpoints: &[Checkpoint { classes: &["Dots1ForCausalLM"], keys: &[PRESETS, GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always <- "norm";
    "output.weight"      [Embd Vocab] Required Always <- "lm_head";
};

/// As many heads of keys and values as of queries, all as long as keys.
const ATTENTION: &[Row] = rows! {
    "attn_qkv.weight"    [Embd ThriceQ] Optional    Always + Optional;
    "attn_q.weight"      [Embd Q]       UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd Q]       UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd Q]       UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Q Embd]       Required    Always <- "self_attn.o_proj";
};

const ROUTING: &[Row] = rows! {
    "exp_probs_b.bias"   [Experts]    Optional Experts <- "mlp.gate.e_score_correction.bias";
};

const PRESETS: &[Key] = keys! {
    let num_experts = "n_routed_experts";
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32? = "shared_expert_intermediate_size";
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "norm_topk_prob";
};
