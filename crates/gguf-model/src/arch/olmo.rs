//! OLMo: norms without weights; queries, keys and values may be clamped.
//!
//! Rules: `load_arch_tensors` in `src/models/olmo.cpp` of llama.cpp, `OlmoModel` in `conversion/olmo.py`. That
//! converter permutes the rows of the query and key matrices, but not their biases; this table does the same.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["olmo"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_CLAMP_KQV],
    outside: &[OUTSIDE],
    block: &[FUSED_EMBD_QKV, BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["OlmoForCausalLM", "OLMoForCausalLM"],
        keys: &[GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "attention.layer_norm_epsilon" F32 = "1e-5";
    "attention.clamp_kqv" F32? = "clip_qkv";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output.weight"      [Embd Vocab] Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_q.weight"      [Embd Embd]     UnlessFused Always <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"      [Embd V]     UnlessFused Always <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_q.bias"        [Embd]          Optional    Always <- "self_attn.q_proj.bias";
    "attn_k.bias"        [V]          Optional    Always <- "self_attn.k_proj.bias";
    "attn_output.weight" [Embd Embd]    Required    Always <- "self_attn.o_proj";
};
