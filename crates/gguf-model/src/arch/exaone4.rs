//! EXAONE 4: norms after, not before, attention and feed-forward part; query and key norms; sliding windows in most
//! blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/exaone4.cpp` of llama.cpp, `Exaone4Model` in `conversion/exaone.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["exaone4"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[EMBEDDINGS, FREQS],
    block: &[BLOCK, QKV, EMBD_OUTPUT, QK_NORMS, GATED_FFN, MTP_OF_BLOCK],
    checkpoints: &[
        Checkpoint {
            classes: &["Exaone4ForCausalLM"],
            keys: &[GENERIC, VOCAB_SIZE, KEYS],
            computed: &[Computed::Llama3FreqsBy(16)],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["Exaone4_5_ForConditionalGeneration"],
            names: &TensorNames { appended: APPENDED, skip: WITHOUT_MTP, ..TensorNames::TEXT },
            keys: &[MTP_FIELDS, GENERIC, VOCAB_SIZE, KEYS, MTP_OF_45],
            computed: &[Computed::Llama3FreqsBy(16)],
            ..Checkpoint::TEXT
        },
    ],
};

/// Names in MTP blocks.
pub(super) const APPENDED: &[(&str, &str)] = &[
    ("mtp.layers.{}.", "layers.{}."),
    ("mtp.fc.", "layers.{}.eh_proj."),
    ("mtp.pre_fc_norm_embedding.", "layers.{}.enorm."),
    ("mtp.pre_fc_norm_hidden.", "layers.{}.hnorm."),
    ("mtp.norm.", "layers.{}.shared_head.norm."),
];

/// Without MTP blocks in the configuration, their tensors are omitted.
const WITHOUT_MTP: &[(&str, &str)] = &[("^mtp.*", "not num_nextn_predict_layers")];

const MTP_OF_45: &[Key] = keys! {
    "nextn_predict_layers" U32? = "num_nextn_predict_layers or null";
};

const FREQS: &[Row] = rows! {
    "rope_freqs.weight"          [HalfRot] Optional Always;
};

const BLOCK: &[Row] = rows! {
    "post_attention_norm.weight" [Embd]    Required Always <- "post_attention_layernorm";
    "post_ffw_norm.weight"       [Embd]    Required Always <- "post_feedforward_layernorm";
};

/// As [`MTP`], without the embedding and the output matrix that llama.cpp does not load.
const MTP_OF_BLOCK: &[Row] = rows! {
    "nextn.eh_proj.weight"          [TwiceEmbd Embd] Required Mtp <- "eh_proj";
    "nextn.enorm.weight"            [Embd]           Required Mtp <- "enorm";
    "nextn.hnorm.weight"            [Embd]           Required Mtp <- "hnorm";
    "nextn.shared_head_norm.weight" [Embd]           Optional Mtp <- "shared_head.norm";
};

pub(super) const KEYS: &[Key] = keys! {
    "attention.sliding_window" U32? = "sliding_window";
    let pattern = "sliding_window_pattern";
    "attention.sliding_window_pattern" Bool? = "null if sliding_window == null
        else [t == 'sliding_attention' for t in layer_types] if layer_types != null
        else null if not pattern
        else [pattern[i % len(pattern)] == 'L' for i] if str(pattern) == pattern
        else [(i + 1) % pattern != 0 for i]";
};
