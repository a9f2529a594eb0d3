//! BLOOM: ALiBi instead of positions, a norm after the embeddings, biases everywhere.
//!
//! Rules: `load_arch_tensors` in `src/models/bloom.cpp` of llama.cpp, `BloomModel` in `conversion/bloom.py`. If the
//! configuration has no context length, the reference writes the embedding length; models support longer contexts.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["bloom"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["BloomForCausalLM", "BloomModel"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let width = "hidden_size|n_embed";
    let heads = "n_head|num_attention_heads";
    "context_length" U32 = "seq_length|width";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "4 * width";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "heads";
    "attention.head_count_kv" U32 = "heads";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      [Embd Vocab] Required Always <- "word_embeddings";
    "token_embd_norm.weight" [Embd]       Required Always + Required <- "word_embeddings_layernorm";
    "output_norm.weight"     [Embd]       Required Always + Required <- "ln_f";
    "output.weight"          [Embd Vocab] Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"       [Embd]       Required Always + Required <- "input_layernorm";
    "attn_qkv.weight"        [Embd EmbdQkv]   Required Always + Required <- "self_attention.query_key_value" : QKV_OF_HEADS;
    "attn_output.weight"     [Embd Embd]  Required Always + Required <- "self_attention.dense";
    "ffn_norm.weight"        [Embd]       Required Always + Required <- "post_attention_layernorm";
    "ffn_up.weight"          [Embd Ff]    Required Always + Required <- "mlp.dense_h_to_4h";
    "ffn_down.weight"        [Ff Embd]    Required Always + Required <- "mlp.dense_4h_to_h";
};
