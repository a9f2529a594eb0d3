//! Nanbeige: Llama, whose blocks run several times one after another.
//!
//! Rules: `load_arch_tensors` in `src/models/nanbeige.cpp` of llama.cpp, `NanbeigeModel` in `conversion/nanbeige.py`.

use super::llama::LLAMA;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["nanbeige"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::NUM_LOOPS, keys::SKIP_LOOP_FINAL_NORM],
    outside: &[EMBEDDINGS, ROPE_FREQS],
    block: &[NORMS, PERMUTED_QKV, OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["NanbeigeForCausalLM"],
        keys: &[PERMUTED_HEADS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD, LOOPS],
        ..LLAMA
    }],
};

const LOOPS: &[Key] = keys! {
    "num_loops" U32 = "max(int(num_loops or 1), 1)";
    "skip_loop_final_norm" Bool = "true if skip_loop_final_norm else false";
};
