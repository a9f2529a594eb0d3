//! Gemma: tied embeddings; checkpoints store norm weights minus 1.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma.cpp` of llama.cpp, `GemmaModel` in `conversion/gemma.py`. The
//! end-of-turn and fill-in-the-middle tokens are CodeGemma's; GGUF has a key only for the first.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[GEMMA_OUTSIDE],
    block: &[BLOCK, QKV, OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["GemmaForCausalLM"],
        names: &TensorNames { skip: &[("lm_head.weight", "")], ..TensorNames::TEXT },
        keys: &[GEMMA_KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, keys: &[END_OF_TURN, NO_SPACE_PREFIX], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"  [Embd] Required Always <- "input_layernorm", Map::Add(1.0);
    "ffn_norm.weight"   [Embd] Required Always <- "post_attention_layernorm", Map::Add(1.0);
};

const END_OF_TURN: &[Key] = keys! {
    "tokenizer.ggml.eot_token_id" U32 = "107";
};
