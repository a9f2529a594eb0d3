//! Dream: a diffusion model with Qwen 2's blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/dream.cpp` of llama.cpp, `DreamModel` in `conversion/dream.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["dream"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[NORMS, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["DreamModel"],
        keys: &[GENERIC, POOLING, NOT_CAUSAL, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::MARKED_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always <- "norm";
    "output.weight"      [Embd Vocab] Optional Always + Optional <- "lm_head";
};

const KEYS: &[Key] = keys! {
    "tokenizer.ggml.mask_token_id" U32? = "mask_token_id";
};
