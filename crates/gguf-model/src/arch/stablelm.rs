//! StableLM: layer norms, rotary positions for part of each head; StableLM 2 12B has parallel attention and
//! feed-forward part, and query and key norms of each head.
//!
//! Rules: `load_arch_tensors` in `src/models/stablelm.cpp` of llama.cpp, `StableLMModel` in `conversion/stablelm.py`.
//! The norms of the heads are stacked, which the reference intends but fails to do.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["stablelm"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["StableLmForCausalLM", "StableLMEpochForCausalLM", "LlavaStableLMEpochForCausalLM"],
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "max_position_embeddings";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "intermediate_size";
    "rope.dimension_count" U32 = "int(rope_all.partial_rotary_factor * (hidden_size // num_attention_heads))";
    "attention.head_count" U32 = "num_attention_heads";
    "attention.head_count_kv" U32 = "num_key_value_heads";
    "use_parallel_residual" Bool = "use_parallel_residual|true";
    "attention.layer_norm_epsilon" F32 = "layer_norm_eps|norm_eps";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]    Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]          Required Always + Required <- "norm";
    "output.weight"      [Embd Vocab]    Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]          Required Always + Required <- "input_layernorm";
    "ffn_norm.weight"    [Embd]          Optional Always + Optional <- "post_attention_layernorm";
    "attn_q_norm.weight" [HeadK Heads]   Optional Always <- "self_attn.q_layernorm.norms.{h}";
    "attn_k_norm.weight" [HeadK HeadsKv] Optional Always <- "self_attn.k_layernorm.norms.{kv}";
};
