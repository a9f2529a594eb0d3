//! BERT and its kin: encoders with learned positions and norms after the attention and the feed-forward part. RoBERTa
//! and XLM-RoBERTa do not use the first positions; a classifier is optional.
//!
//! Rules: `load_arch_tensors` in `src/models/bert.cpp` of llama.cpp; `BertModel`, `DistilBertModel`, `RobertaModel` and
//! `XLMRobertaModel` in `conversion/bert.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["bert"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE, CLASSIFIER],
    block: &[BLOCK],
    checkpoints: &[
        Checkpoint {
            classes: &["BertModel", "BertForMaskedLM", "CamembertModel", "BertForSequenceClassification"],
            keys: &[ALL_POSITIONS, GENERIC, NOT_CAUSAL, POOLING, LABELS],
            ..BERT
        },
        Checkpoint {
            classes: &["DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification"],
            names: &TensorNames {
                roots: &["distilbert."],
                layers: &["transformer.layer.{}."],
                skip: &[
                    ("vocab_*", ""),
                    ("embeddings.position_ids", ""),
                    ("pooler.dense.*", ""),
                    ("cls.predictions*", ""),
                    ("cls.seq_relationship*", ""),
                ],
                ..*BERT.names
            },
            keys: &[ALL_POSITIONS, DISTILLED, GENERIC, NOT_CAUSAL, POOLING, LABELS],
            ..BERT
        },
        Checkpoint {
            classes: &["RobertaModel", "RobertaForSequenceClassification"],
            names: &TensorNames { roots: &["roberta."], ..*BERT.names },
            keys: &[POSITIONS, GENERIC, NOT_CAUSAL, POOLING, LABELS],
            tokenizer: &Tokenizer { vocab: Vocab::BPE, first_keys: &[], keys: &[TOKEN_TYPES], ..*BERT.tokenizer },
            ..BERT
        },
        Checkpoint {
            classes: &["XLMRobertaModel", "XLMRobertaForSequenceClassification"],
            names: &TensorNames { roots: &["roberta."], ..*BERT.names },
            keys: &[POSITIONS, GENERIC, NOT_CAUSAL, POOLING, LABELS],
            tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::XlmRoberta]), first_keys: &[], ..*BERT.tokenizer },
            ..BERT
        },
    ],
};

/// Defaults of all classes.
pub(super) const BERT: Checkpoint = Checkpoint {
    names: &TensorNames {
        roots: &["bert."],
        layers: &["encoder.layer.{}."],
        // Norm parameters under the names of the first, TensorFlow checkpoints.
        rename: &[(".gamma", ".weight"), (".beta", ".bias")],
        rename_if: NAMED_CLASSIFIER,
        skip: &[
            ("embeddings.position_ids", ""),
            ("pooler.dense.*", ""),
            ("cls.predictions*", ""),
            ("cls.seq_relationship*", ""),
        ],
        ..TensorNames::TEXT
    },
    tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::WordPiece]), first_keys: &[TOKEN_TYPES], ..Tokenizer::BPE },
    ..Checkpoint::TEXT
};

/// A layer that yields the logits of named classes.
pub(super) const NAMED_CLASSIFIER: &[(&str, &str, &str)] = &[
    ("classifier.weight", "classifier.out_proj.weight", "labels"),
    ("classifier.bias", "classifier.out_proj.bias", "labels"),
];

/// The class names of a classifier. Two unnamed classes are a default of transformers.
pub(super) const LABELS: &[Key] = keys! {
    let labels = "null if len(id2label ?? {}) == 2 and id2label['0'] == 'LABEL_0' else by_number(id2label ?? {})";
    "classifier.output_labels" Str? = "labels";
};

/// The number of token types.
pub(super) const TOKEN_TYPES: &[Key] = keys! {
    "tokenizer.ggml.token_type_count" U32 = "type_vocab_size|1";
};

/// Positions start at 0.
pub(super) const ALL_POSITIONS: &[Key] = keys! {
    let position = "{'first': 0}";
};

/// Positions start after the id of the padding token.
pub(super) const POSITIONS: &[Key] = keys! {
    let position = "{'first': 1 + pad_token_id if pad_token_id != null else 0}";
    let max_position_embeddings
        = "max_position_embeddings - position.first if max_position_embeddings != null else null";
};

/// The default of transformers, which configurations of this class do not have.
const DISTILLED: &[Key] = keys! {
    "attention.layer_norm_epsilon" F32 = "1e-12";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"        [Embd Vocab]      Required Always <- "embeddings.word_embeddings";
    "token_types.weight"       [Embd TokenTypes] Optional Always <- "embeddings.token_type_embeddings";
    "position_embd.weight"     [Embd Context]    Required Always
        <- "embeddings.position_embeddings" : "p[position.first:] e -> p e";
    "token_embd_norm.weight"   [Embd]            Required Always + Required <- "embeddings.LayerNorm";
};

/// A classifier of one or two layers.
pub(super) const CLASSIFIER: &[Row] = rows! {
    "cls.weight"               [Embd Embd]       Optional Always + Optional
        <- "classifier.dense | pre_classifier | dense | classifier";
    "cls.output.weight"        [Embd Classes]    Optional Always + Optional <- "classifier.out_proj";
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"          [Embd EmbdQkv]        Optional    Always + Optional;
    "attn_q.weight"            [Embd Embd]          UnlessFused Always + Optional <- "attention.self.query | attention.q_lin";
    "attn_k.weight"            [Embd V]          UnlessFused Always + Optional <- "attention.self.key | attention.k_lin";
    "attn_v.weight"            [Embd V]          UnlessFused Always + Optional <- "attention.self.value | attention.v_lin";
    "attn_output.weight"       [Embd Embd]       Required    Always + Optional <- "attention.output.dense | attention.out_lin";
    "attn_output_norm.weight"  [Embd]            Required    Always + Required <- "attention.output.LayerNorm | sa_layer_norm";
    "ffn_up.weight"            [Embd Ff]         Required    Always + Optional <- "intermediate.dense | ffn.lin1";
    "ffn_down.weight"          [Ff Embd]         Required    Always + Optional <- "output.dense | ffn.lin2";
    "layer_output_norm.weight" [Embd]            Required    Always + Required <- "output.LayerNorm | output_layer_norm";
};
