//! Qwen 2: Llama with biases of queries, keys and values.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen2.cpp` of llama.cpp, `Qwen2Model` in `conversion/qwen.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen2"],
    outside: &[OUTSIDE],
    block: &[BLOCK, ATTENTION, GATED_FFN],
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
        vocab: Vocab::SentencePieceOrBpe,
        ..Checkpoint::TEXT
    }],
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
