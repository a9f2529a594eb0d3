//! OLMo 2 and 3: norms after, not before, attention and the feed-forward part, and query and key norms over all heads.
//! OLMo 3 has a sliding window in some blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/olmo2.cpp` of llama.cpp, `Olmo2Model` in `conversion/olmo.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["olmo2"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[EMBD_QKV, EMBD_OUTPUT, BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
        keys: &[GENERIC, WINDOW],
        ..Checkpoint::TEXT
    }],
};

const WINDOW: &[Key] = keys! {
    "attention.sliding_window" U32? = "sliding_window";
    "attention.sliding_window_pattern" Bool? = "null if sliding_window == null
        else [(i + 1) % 4 != 0 for i] if layer_types == null
        else [t == 'sliding_attention' for t in layer_types]";
};

const BLOCK: &[Row] = rows! {
    "attn_q_norm.weight"         [Q]    Required Always <- "self_attn.q_norm";
    "attn_k_norm.weight"         [K]    Required Always <- "self_attn.k_norm";
    "post_attention_norm.weight" [Embd] Required Always <- "post_attention_layernorm";
    "post_ffw_norm.weight"       [Embd] Required Always <- "post_feedforward_layernorm";
};
