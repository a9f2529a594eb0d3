//! XVERSE: Llama's blocks, with a different kind of tokenizer.
//!
//! Rules: `load_arch_tensors` in `src/models/xverse.cpp` of llama.cpp, `XverseModel` in `conversion/xverse.py`. Where
//! there are fewer key-value heads than query heads, which no published model has, the reference permutes keys by the
//! quotient of the two numbers; this table permutes them by key-value heads, as in Llama.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["xverse"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[NORMS, PERMUTED_EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["XverseForCausalLM"],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::Entries]), ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always <- "norm";
    "output.weight"      [Embd Vocab] Required Always <- "lm_head";
};

const KEYS: &[Key] = keys! {
    "tensor_data_layout" Str = "'Meta AI original pth'";
    "rope.dimension_count" U32 = "hidden_size // num_attention_heads";
};
