//! OLMoE: experts in all blocks; query and key norms over all heads.
//!
//! Rules: `load_arch_tensors` in `src/models/olmoe.cpp` of llama.cpp, `OlmoeModel` in `conversion/olmo.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["olmoe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, EMBD_QKV, EMBD_OUTPUT, QK_NORMS_OF_ALL, EXPERTS],
    checkpoints: &[Checkpoint { classes: &["OlmoeForCausalLM"], keys: &[GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const KEYS: &[Key] = keys! {
    "attention.layer_norm_rms_epsilon" F32 = "1e-5";
};

const QK_NORMS_OF_ALL: &[Row] = rows! {
    "attn_q_norm.weight" [Q] Required Always <- "self_attn.q_norm";
    "attn_k_norm.weight" [K] Required Always <- "self_attn.k_norm";
};
