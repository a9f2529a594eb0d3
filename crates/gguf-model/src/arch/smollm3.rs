//! SmolLM 3: Llama; in llama.cpp, every fourth block has no rotary positions.
//!
//! Rules: `load_arch_tensors` in `src/models/smollm3.cpp` of llama.cpp, `SmolLM3Model` in `conversion/llama.py`.

use super::llama::LLAMA;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["smollm3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS],
    block: &[NORMS, PERMUTED_QKV, OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint { classes: &["SmolLM3ForCausalLM"], ..LLAMA }],
};
