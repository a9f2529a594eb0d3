//! ModernBERT: an encoder with sliding windows and fused gate and up projections; the first block has no norm before
//! the attention. A classifier is optional.
//!
//! Rules: `load_arch_tensors` in `src/models/modern-bert.cpp` of llama.cpp, `ModernBertModel` in `conversion/bert.py`.
//! The decoder of masked language models, which the reference rejects, is omitted: llama.cpp does not support it.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["modern-bert"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW, keys::HIDDEN_ACTIVATION],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification"],
        names: &TensorNames {
            rename_if: &[
                ("classifier.weight", "classifier.out_proj.weight", "labels"),
                ("classifier.bias", "classifier.out_proj.bias", "labels"),
            ],
            skip: &[("decoder.*", "")],
            ..TensorNames::TEXT
        },
        keys: &[GENERIC, NOT_CAUSAL, POOLING, KEYS, NO_ROPE_SCALING, VOCAB_SIZE, ACTIVATION],
        tokenizer: &Tokenizer { first_keys: &[TOKENIZER], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      [Embd Vocab]    Required Always <- "embeddings.tok_embeddings";
    "token_embd_norm.weight" [Embd]          Required Always <- "embeddings.norm";
    "output_norm.weight"     [Embd]          Required Always <- "final_norm";
    "cls.weight"             [Embd Embd]     Optional Always <- "head.dense | classifier";
    "cls.norm.weight"        [Embd]          Optional Always <- "head.norm";
    "cls.output.weight"      [Embd Classes]  Optional Always + Optional <- "classifier.out_proj";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"       [Embd]          Required NotFirst <- "attn_norm";
    "attn_norm.weight"       [Embd]          Optional Always;
    "attn_qkv.weight"        [Embd ThriceEmbd]      Required Always <- "attn.Wqkv";
    "attn_output.weight"     [Embd Embd]     Required Always <- "attn.Wo";
    "ffn_norm.weight"        [Embd]          Required Always <- "mlp_norm";
    "ffn_up.weight"          [Embd TwiceFf]  Required Always <- "mlp.Wi";
    "ffn_down.weight"        [Ff Embd]       Required Always <- "mlp.Wo";
};

const KEYS: &[Key] = keys! {
    let labels = "null if len(id2label ?? {}) == 2 and id2label['0'] == 'LABEL_0' else by_number(id2label ?? {})";
    "classifier.output_labels" Str? = "labels";
    "attention.sliding_window" U32 = "local_attention";
    "attention.sliding_window_pattern" U32? = "global_attn_every_n_layers";
};

const ACTIVATION: &[Key] = keys! {
    "hidden_activation" Str? = "hidden_activation";
};

const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.add_bos_token" Bool = "true";
    "tokenizer.ggml.add_eos_token" Bool = "true";
    "tokenizer.ggml.add_sep_token" Bool = "true";
};
