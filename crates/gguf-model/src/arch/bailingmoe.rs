//! Ling (Bailing), the first generation: Llama's attention with fused queries, keys and values, small experts, and
//! shared experts.
//!
//! Rules: `load_arch_tensors` in `src/models/bailingmoe.cpp` of llama.cpp, `BailingMoeModel` in `conversion/bailingmoe.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["bailingmoe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT]],
    optional: &[keys::EXPERT_WEIGHTS_NORM, keys::EXPERT_WEIGHTS_SCALE, keys::LEADING_DENSE_BLOCK_COUNT],
    outside: &[OUTSIDE],
    block: &[NORMS, QKV, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["BailingMoeForCausalLM"],
        refuse: &[("norm_head", "norm_head, an output matrix with columns of length 1")],
        keys: &[GENERIC, ROPE_WHOLE_HEAD, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "vocab_size" U32 = "vocab_size";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_weights_scale" F32 = "1.0";
    "expert_shared_count" U32 = "num_shared_experts";
    "expert_weights_norm" Bool = "norm_topk_prob";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "word_embeddings";
    "output_norm.weight" [Embd]       Required Always <- "norm";
    "output.weight"      [Embd Vocab] Required Always <- "lm_head";
};

const QKV: &[Row] = rows! {
    "attn_qkv.weight"    [Embd QkvRot] Optional Always + Optional;
    "attn_q.weight"      [Embd QRot]  UnlessFused Always + Optional <- "attention.query_key_value"
        : "(g two HalfHead) ... -> (g[:h] HalfHead two) ...";
    "attn_k.weight"      [Embd KRot]  UnlessFused Always + Optional <- "attention.query_key_value"
        : "(g two HalfHead) ... -> (g[h:h+kv] HalfHead two) ...";
    "attn_v.weight"      [Embd KRot]  UnlessFused Always + Optional <- "attention.query_key_value"
        : "(g two HalfHead) ... -> (g[h+kv:] two HalfHead) ...";
    "attn_output.weight" [QRot Embd]  Required Always <- "attention.dense";
};
