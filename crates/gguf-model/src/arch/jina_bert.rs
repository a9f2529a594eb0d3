//! Jina BERT 2: BERT with ALiBi instead of positions, and a gated feed-forward part. Gate and up projections may be
//! fused.
//!
//! Rules: `load_arch_tensors` in `src/models/jina-bert-v2.cpp` of llama.cpp, `JinaBertV2Model` in `conversion/bert.py`.

use super::bert::{BERT, LABELS};
use super::prelude::*;

pub(super) const V2: Architecture = Architecture {
    names: &["jina-bert-v2"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["JinaBertModel", "JinaBertForMaskedLM"],
        keys: &[GENERIC, NOT_CAUSAL, POOLING, LABELS],
        tokenizer: &Tokenizer {
            vocab: Vocab::read_by(&[Reader::JinaBert]),
            first_keys: &[PIECES],
            keys: &[OTHERS],
            ..*BERT.tokenizer
        },
        ..BERT
    }],
};

/// The number of token types.
const PIECES: &[Key] = keys! {
    "tokenizer.ggml.token_type_count" U32? = "(type_vocab_size|1) if @tokenizer_model == 'bert' else null";
};

const OTHERS: &[Key] = keys! {
    "tokenizer.ggml.token_type_count" U32? = "null if @tokenizer_model == 'bert' else 2";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"        [Embd Vocab]      Required Always <- "embeddings.word_embeddings";
    "token_types.weight"       [Embd TokenTypes] Required Always <- "embeddings.token_type_embeddings";
    "token_embd_norm.weight"   [Embd]            Required Always + Required <- "embeddings.LayerNorm";
    "cls.weight"               [Embd "1"]        Optional Always + Optional <- "classifier";
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"          [Embd EmbdQkv]        Optional    Always + Optional;
    "attn_q.weight"            [Embd Embd]          UnlessFused Always + Optional <- "attention.self.query";
    "attn_k.weight"            [Embd V]          UnlessFused Always + Optional <- "attention.self.key";
    "attn_v.weight"            [Embd V]          UnlessFused Always + Optional <- "attention.self.value";
    "attn_q_norm.weight"       [Embd]            Optional    Always + Optional <- "attention.self.layer_norm_q";
    "attn_k_norm.weight"       [Embd]            Optional    Always + Optional <- "attention.self.layer_norm_k";
    "attn_output.weight"       [Embd Embd]       Required    Always + Required <- "attention.output.dense";
    "attn_output_norm.weight"  [Embd]            Required    Always + Required <- "attention.output.LayerNorm";
    "attn_norm_2.weight"       [Embd]            Optional    Always + Optional <- "layer_norm_1";
    "ffn_gate.weight"          [Embd Ff]         Optional    Always <- "mlp.gated_layers_w";
    "ffn_up.weight"            [Embd "feed_forward_length, or 2 * feed_forward_length"]  Required    Always + Optional
        <- "mlp.gated_layers | mlp.up_gated_layer | mlp.gated_layers_v";
    "ffn_down.weight"          [Ff Embd]         Required    Always + Required <- "mlp.wo | mlp.down_layer";
    "layer_output_norm.weight" [Embd]            Required    Always + Required <- "mlp.layernorm | layer_norm_2";
};
