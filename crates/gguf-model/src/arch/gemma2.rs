//! Gemma 2: Gemma with additional norms after attention and the feed-forward part, logit soft-capping, and a sliding
//! window in every second block.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma2.cpp` of llama.cpp, `Gemma2Model` in `conversion/gemma.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma2"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[
        keys::ATTENTION_SLIDING_WINDOW,
        keys::ATTENTION_SLIDING_WINDOW_PATTERN,
        keys::ATTN_LOGIT_SOFTCAPPING,
        keys::FINAL_LOGIT_SOFTCAPPING,
        keys::ROPE_FREQ_BASE_SWA,
    ],
    outside: &[GEMMA_OUTSIDE],
    block: &[BLOCK, QKV, OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Gemma2ForCausalLM"],
        names: &TensorNames { skip: &[("lm_head.weight", "")], ..TensorNames::TEXT },
        keys: &[GEMMA_KEYS, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, keys: &[NO_SPACE_PREFIX], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "attn_logit_softcapping" F32 = "attn_logit_softcapping";
    "final_logit_softcapping" F32 = "final_logit_softcapping";
    "attention.sliding_window" U32 = "sliding_window";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd] Required Always <- "input_layernorm", Map::Add(1.0);
    "post_attention_norm.weight" [Embd] Required Always <- "post_attention_layernorm", Map::Add(1.0);
    "ffn_norm.weight"            [Embd] Required Always <- "pre_feedforward_layernorm", Map::Add(1.0);
    "post_ffw_norm.weight"       [Embd] Required Always <- "post_feedforward_layernorm", Map::Add(1.0);
};
