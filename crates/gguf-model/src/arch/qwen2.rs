//! Qwen 2 and the text part of Qwen 2 VL and 2.5 VL: Llama with biases of queries, keys and values.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen2.cpp` and `qwen2vl.cpp` of llama.cpp, `Qwen2Model` in `conversion/qwen.py`,
//! `Qwen2VLModel` in `conversion/qwenvl.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen2"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &[
            "Qwen2Model",
            "Qwen2ForCausalLM",
            "Qwen2AudioForConditionalGeneration",
            "KORMoForCausalLM",
            "AudioFlamingo3ForConditionalGeneration",
            "DotsOCRForCausalLM",
        ],
        keys: &[GENERIC, POOLING],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

/// The text part of the vision-language model.
pub(super) const WITH_VISION: Architecture = Architecture {
    names: &["qwen2vl"],
    required: &[TRANSFORMER_KEYS, FEED_FORWARD_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
    checkpoints: &[Checkpoint {
        classes: &[
            "Qwen2VLModel",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen2_5OmniModel",
        ],
        names: &TensorNames { rename: &[("thinker.", "")], ..TensorNames::TEXT },
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
    ..ARCHITECTURE
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]       Required Always <- "norm";
    "output.weight"        [Embd Vocab] Optional Always + Optional <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]       Required Always <- "input_layernorm | pre_attention_layernorm";
    "ffn_norm.weight"      [Embd]       Required Always <- "post_attention_layernorm | pre_mlp_layernorm";
};
