//! Chameleon: the text part, Llama with query and key norms of each head.
//!
//! Rules: `load_arch_tensors` in `src/models/chameleon.cpp` of llama.cpp, `ChameleonModel` in `conversion/chameleon.py`, which takes the norm
//! of the first head for all heads.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["chameleon"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::SWIN_NORM],
    outside: &[EMBEDDINGS],
    block: &[NORMS, PERMUTED_EMBD_QKV, EMBD_OUTPUT, HEAD_NORMS, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["ChameleonForConditionalGeneration", "ChameleonForCausalLM"],
        names: &TensorNames { skip: &[("vqmodel*", "")], ..TensorNames::TEXT },
        keys: &[GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "swin_norm" Bool = "swin_norm|false";
};

const HEAD_NORMS: &[Row] = rows! {
    "attn_q_norm.weight" [HeadK Heads]   Required Always <- "self_attn.q_norm" : "r[0] (two i) -> h (i two)";
    "attn_q_norm.bias"   [HeadK Heads]   Optional Always <- "self_attn.q_norm.bias" : "r[0] (two i) -> h (i two)";
    "attn_k_norm.weight" [HeadK HeadsKv] Required Always <- "self_attn.k_norm" : "r[0] (two i) -> kv (i two)";
    "attn_k_norm.bias"   [HeadK HeadsKv] Optional Always <- "self_attn.k_norm.bias" : "r[0] (two i) -> kv (i two)";
};
