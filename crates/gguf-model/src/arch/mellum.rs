//! Mellum 2: experts in all blocks, query and key norms, a sliding window in some blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/mellum.cpp` of llama.cpp, `MellumModel` in `conversion/mellum.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["mellum"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH]],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, QK_NORMS, EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["MellumForCausalLM"],
        keys: &[GENERIC, EXPERT_WIDTH, WINDOW],
        ..Checkpoint::TEXT
    }],
};

const WINDOW: &[Key] = keys! {
    let window = "sliding_window if use_sliding_window == null or use_sliding_window == true else null";
    "attention.sliding_window" U32? = "window";
    "attention.sliding_window_pattern" Bool?
        = "[t == 'sliding_attention' for t in required(layer_types)] if window != null else null";
};
