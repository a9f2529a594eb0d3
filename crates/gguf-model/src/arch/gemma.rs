//! Gemma and Gemma 2: the embeddings are the output too; norms behind attention and the feed-forward part.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma.cpp` and `gemma2.cpp` of llama.cpp, `GemmaModel` and `Gemma2Model` in
//! `conversion/gemma.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma", "gemma2"],
    outside: &[OUTSIDE],
    block: &[BLOCK, ATTENTION, GATED_FFN],
    checkpoints: &[],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"          [Embd Vocab] Required Always;
    "output_norm.weight"         [Embd]       Required Always;
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]       Required Always;
    "post_attention_norm.weight" [Embd]       Optional Always;
    "ffn_norm.weight"            [Embd]       Required Always;
    "post_ffw_norm.weight"       [Embd]       Optional Always;
};
