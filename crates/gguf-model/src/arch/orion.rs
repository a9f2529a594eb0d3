//! Orion: Llama with layer norms; the configuration names their epsilon `rms_norm_eps`.
//!
//! Rules: `load_arch_tensors` in `src/models/orion.cpp` of llama.cpp, `OrionModel` in `conversion/orion.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["orion"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BIASED_NORMS, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["OrionForCausalLM"],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "general.file_type" U32 = "@file_type";
    "tensor_data_layout" Str = "'Meta AI original pth'";
    "context_length" U32 = "max_sequence_length|max_position_embeddings|model_max_length";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "intermediate_size";
    "attention.head_count" U32 = "num_attention_heads";
    "attention.head_count_kv" U32 = "num_key_value_heads|num_attention_heads";
    "attention.layer_norm_epsilon" F32 = "rms_norm_eps";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always + Required <- "norm";
    "output.weight"      [Embd Vocab] Required Always <- "lm_head";
};
