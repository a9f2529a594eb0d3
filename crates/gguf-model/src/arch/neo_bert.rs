//! NeoBERT: an encoder with rotary positions, RMS norms before the parts of a block, and fused gate and up
//! projections. A classifier is optional.
//!
//! Rules: `load_arch_tensors` in `src/models/neo-bert.cpp` of llama.cpp, `NeoBert` in `conversion/bert.py`.

use super::bert::{BERT, CLASSIFIER, TOKEN_TYPES};
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["neo-bert"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE, CLASSIFIER],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["NeoBERT", "NeoBERTLMHead", "NeoBERTForSequenceClassification"],
        names: &TensorNames {
            roots: &["model."],
            layers: &["transformer_encoder.{}."],
            skip: &[("decoder.*", ""), ("pooler.dense.*", "")],
            ..*BERT.names
        },
        keys: &[GENERIC, NOT_CAUSAL, POOLING, LABELS, KEYS],
        tokenizer: &Tokenizer { first_keys: &[TOKEN_TYPES], ..*BERT.tokenizer },
        ..BERT
    }],
};

/// The names of the classes. Unless they are the defaults of transformers, they are sorted as strings.
pub(super) const LABELS: &[Key] = keys! {
    let labels = "by_name(id2label ?? {})";
    "classifier.output_labels" Str? = "labels";
};

const KEYS: &[Key] = keys! {
    "feed_forward_length" U32 = "int(2 * intermediate_size / 3)";
    "rope.freq_base" F32 = "10000.0";
    "rope.scaling.type" Str = "'none'";
    "attention.layer_norm_rms_epsilon" F32 = "norm_eps|1e-6";
    "pooling_type" U32 = "2";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      [Embd Vocab]   Required Always <- "encoder";
    "enc.output_norm.weight" [Embd]         Required Always <- "layer_norm";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"       [Embd]         Required Always <- "attention_norm";
    "attn_qkv.weight"        [Embd EmbdQkv]     Required Always <- "qkv";
    "attn_output.weight"     [Embd Embd]    Required Always <- "wo";
    "ffn_norm.weight"        [Embd]         Required Always <- "ffn_norm";
    "ffn_up.weight"          [Embd TwiceFf] Required Always <- "ffn.w12";
    "ffn_down.weight"        [Ff Embd]      Required Always <- "ffn.w3";
};
