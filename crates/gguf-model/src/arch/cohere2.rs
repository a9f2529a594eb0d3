//! Command R7B: parallel attention and feed-forward part after one norm, sliding windows in most blocks, and tied
//! embeddings.
//!
//! Rules: `load_arch_tensors` in `src/models/cohere2.cpp` of llama.cpp, `Cohere2Model` in `conversion/command_r.py`.
//! The reference requires `rotary_pct`, which transformers does not have; here it is optional and defaults to whole
//! heads, as in transformers. The reference intends to omit zero biases, but fails on them in its lazy mode.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["cohere2"],
    required: &[
        TRANSFORMER_KEYS,
        LAYER_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::ATTENTION_SLIDING_WINDOW, keys::LOGIT_SCALE],
    ],
    optional: &[keys::ATTENTION_SLIDING_WINDOW_PATTERN, keys::ROPE_FREQ_BASE_SWA],
    outside: &[OUTSIDE],
    block: &[NORM, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Cohere2ForCausalLM"],
        keys: &[GENERIC, KEYS, NO_ROPE_SCALING],
        names: &TensorNames { zero: &["*.bias"], ..TensorNames::TEXT },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always <- "norm";
};

const NORM: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required Always <- "input_layernorm";
};

const KEYS: &[Key] = keys! {
    "logit_scale" F32 = "logit_scale";
    "attention.sliding_window" U32 = "sliding_window";
    "vocab_size" U32 = "vocab_size";
    "rope.dimension_count" U32 = "int((rotary_pct ?? 1.0) * (hidden_size // num_attention_heads))";
};
