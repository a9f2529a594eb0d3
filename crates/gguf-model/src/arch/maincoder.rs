//! Maincoder: query and key norms, as in Qwen 3.
//!
//! Rules: `load_arch_tensors` in `src/models/maincoder.cpp` of llama.cpp, `MaincoderModel` in `conversion/maincoder.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["maincoder"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, QK_NORMS, GATED_FFN],
    checkpoints: &[Checkpoint { classes: &["MaincoderForCausalLM"], keys: &[GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32? = "head_dim";
};
