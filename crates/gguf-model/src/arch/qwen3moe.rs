//! Qwen 3 MoE, and RND1, a diffusion model derived from it: query and key norms, experts in every block.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen3moe.cpp` and `rnd1.cpp` of llama.cpp, `Qwen3MoeModel` and
//! `RND1Model` in `conversion/qwen.py`. Blocks without experts (`mlp_only_layers`) are not supported by llama.cpp.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen3moe", "rnd1"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::EXPERT_FEED_FORWARD_LENGTH],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, QK_NORMS, QWEN_EXPERTS],
    checkpoints: &[
        Checkpoint { classes: &["Qwen3MoeForCausalLM"], keys: &[GENERIC, EXPERT_WIDTHS], ..Checkpoint::TEXT },
        Checkpoint { classes: &["RND1"], name: "rnd1", keys: &[GENERIC, EXPERT_WIDTHS, DIFFUSION], ..Checkpoint::TEXT },
    ],
};

const DIFFUSION: &[Key] = keys! {
    "attention.causal" Bool = "false";
    "tokenizer.ggml.mask_token_id" U32? = "mask_token_id";
};
