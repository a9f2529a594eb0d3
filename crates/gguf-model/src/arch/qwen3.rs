//! Qwen 3: norms of queries and keys.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen3.cpp` of llama.cpp, `Qwen3Model` in `conversion/qwen.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen3"],
    outside: &[EMBEDDINGS, CLASSIFIER],
    block: &[NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3ForCausalLM", "Qwen3Model"],
        keys: &[GENERIC, POOLING],
        vocab: Vocab::SentencePieceOrBpe,
        ..Checkpoint::TEXT
    }],
};

const CLASSIFIER: &[Row] = rows! {
    "cls.output.weight"    []           Optional Always;
};
