//! MiniCPM: Llama's tensors, with factors on embeddings, residuals and logits.
//!
//! Rules: `load_arch_tensors` in `src/models/minicpm.cpp` of llama.cpp, `MiniCPMModel` in `conversion/minicpm.py`. That converter
//! leaves the biases of queries and keys in the checkpoint's order, against that of the matrices; here they follow the matrices.

use super::llama::FFN;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["minicpm"],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[NORMS, PERMUTED_ATTENTION, FFN],
    checkpoints: &[Checkpoint {
        classes: &["MiniCPMForCausalLM"],
        keys: &[GENERIC, KEYS],
        vocab: Vocab::SentencePiece,
        computed: &[Computed::LongRopeFactors],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "embedding_scale" F32 = "float(scale_emb)";
    "residual_scale" F32 = "scale_depth / num_hidden_layers ** 0.5";
    "logit_scale" F32 = "hidden_size / dim_model_base";
};
