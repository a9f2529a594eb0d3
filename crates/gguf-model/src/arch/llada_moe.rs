//! LLaDA MoE: a diffusion model with query and key norms, and experts in every block.
//!
//! Rules: `load_arch_tensors` in `src/models/llada-moe.cpp` of llama.cpp, `LLaDAMoEModel` in `conversion/llada.py`.
//! The id of the mask token defaults to the published model's.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["llada-moe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::EXPERT_FEED_FORWARD_LENGTH],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, EMBD_QKV, EMBD_OUTPUT, QK_NORMS, QWEN_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["LLaDAMoEModel", "LLaDAMoEModelLM"],
        keys: &[GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32? = "expert_intermediate_size";
    "tokenizer.ggml.mask_token_id" U32 = "156895";
    "attention.causal" Bool = "false";
    "diffusion.shift_logits" Bool = "false";
};
