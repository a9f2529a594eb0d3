//! Arcee: Llama with a feed-forward part that has no gate.
//!
//! Rules: `load_arch_tensors` in `src/models/arcee.cpp` of llama.cpp, `ArceeModel` in `conversion/llama.py`.

use super::llama::LLAMA;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["arcee"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS, ROPE_FREQS],
    block: &[NORMS, PERMUTED_QKV, OUTPUT, UNGATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["ArceeForCausalLM"],
        keys: &[PERMUTED_HEADS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD, POOLING],
        ..LLAMA
    }],
};
