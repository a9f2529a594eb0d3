//! Qwen 1.5 MoE and Qwen 2 MoE: experts and a gated shared expert in every block.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen2moe.cpp` of llama.cpp, `Qwen2MoeModel` in `conversion/qwen.py`.
//! Blocks without experts (`mlp_only_layers`) are not supported by llama.cpp.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen2moe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_FEED_FORWARD_LENGTH],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, EMBD_QKV, EMBD_OUTPUT, QWEN_EXPERTS, QWEN_SHARED_EXPERT],
    checkpoints: &[Checkpoint {
        classes: &["Qwen2MoeForCausalLM"],
        keys: &[GENERIC, EXPERT_WIDTHS],
        ..Checkpoint::TEXT
    }],
};
