//! StarCoder 1 and SantaCoder: GPT-2 with one key-value head.
//!
//! Rules: `load_arch_tensors` in `src/models/starcoder.cpp` of llama.cpp, `StarCoderModel` in
//! `conversion/starcoder.py`. Masks that older checkpoints have are omitted.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["starcoder"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[GPT2_EMBEDDINGS],
    block: &[GPT2_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["GPTBigCodeForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], skip: MASKS, ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "n_positions";
    "embedding_length" U32 = "n_embd";
    "feed_forward_length" U32 = "4 * n_embd";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "n_head";
    "attention.head_count_kv" U32 = "1";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};
