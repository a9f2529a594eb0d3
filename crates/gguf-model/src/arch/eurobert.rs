//! EuroBERT: an encoder with Llama's blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/eurobert.cpp` of llama.cpp, `EuroBertModel` in `conversion/bert.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["eurobert"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[NORMS, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["EuroBertModel", "JinaEmbeddingsV5Model"],
        keys: &[GENERIC, NOT_CAUSAL, NO_ROPE_SCALING, POOLING],
        tokenizer: &Tokenizer { first_keys: &[TOKENIZER], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always <- "norm";
};

const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.add_bos_token" Bool = "false";
};
