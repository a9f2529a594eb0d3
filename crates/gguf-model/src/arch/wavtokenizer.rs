//! WavTokenizer: the decoder from audio codes to spectral frames: a convolutional network with one attention block
//! (PosNet), then ConvNeXt blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/wavtokenizer-dec.cpp` of llama.cpp, `WavTokenizerDecModel` in
//! `conversion/wavtokenizer.py`. PosNet always has the same six blocks, so their tensors are listed outside the numbered blocks.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["wavtokenizer-dec"],
    required: &[
        RECURRENT_KEYS,
        LAYER_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[
            keys::ATTENTION_GROUP_NORM_EPSILON,
            keys::ATTENTION_GROUP_NORM_GROUPS,
            keys::FEATURES_LENGTH,
            keys::POSNET_EMBEDDING_LENGTH,
            keys::POSNET_BLOCK_COUNT,
            keys::CONVNEXT_EMBEDDING_LENGTH,
            keys::CONVNEXT_BLOCK_COUNT,
        ],
    ],
    outside: &[OUTSIDE, POSNET],
    block: &[CONVNEXT],
    checkpoints: &[Checkpoint {
        classes: &["WavTokenizerDec"],
        roots: &["backbone."],
        layers: &["convnext.{}."],
        skip: &[("*codebook.cluster_size", ""), ("*codebook.embed_avg", ""), ("*codebook.inited", "")],
        precise: &["posnet.*.norm1.weight", "posnet.*.norm2.weight"],
        keys: &[GENERIC, KEYS],
        vocab: Vocab::None,
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "features_length" U32 = "n_embd_features";
    "feed_forward_length" U32 = "n_ff";
    "attention.group_norm_epsilon" F32 = "group_norm_epsilon";
    "attention.group_norm_groups" U32 = "group_norm_groups";
    "posnet.embedding_length" U32 = "posnet.n_embd";
    "posnet.block_count" U32 = "posnet.n_layer";
    "convnext.embedding_length" U32 = "convnext.n_embd";
    "convnext.block_count" U32 = "convnext.n_layer";
    "attention.causal" Bool = "false";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      [Embd Vocab] Required Always <- "embedding";
    "conv1d.weight"          []           Required Always + Required <- "embed";
    "token_embd_norm.weight" []           Required Always + Required <- "norm";
    "output_norm.weight"     []           Required Always + Required <- "final_layer_norm";
    "output.weight"          []           Required Always + Required <- "head.out";
};

/// Two blocks of convolutions, one of attention, two of convolutions, and a norm.
const POSNET: &[Row] = rows! {
    "posnet.0.norm1.weight"       [] Required Always + Required <- "posnet.0.norm1";
    "posnet.0.conv1.weight"       [] Required Always + Required <- "posnet.0.conv1";
    "posnet.0.norm2.weight"       [] Required Always + Required <- "posnet.0.norm2";
    "posnet.0.conv2.weight"       [] Required Always + Required <- "posnet.0.conv2";
    "posnet.1.norm1.weight"       [] Required Always + Required <- "posnet.1.norm1";
    "posnet.1.conv1.weight"       [] Required Always + Required <- "posnet.1.conv1";
    "posnet.1.norm2.weight"       [] Required Always + Required <- "posnet.1.norm2";
    "posnet.1.conv2.weight"       [] Required Always + Required <- "posnet.1.conv2";
    "posnet.2.attn_norm.weight"   [] Required Always + Required <- "posnet.2.norm";
    "posnet.2.attn_q.weight"      [] Required Always + Required <- "posnet.2.q";
    "posnet.2.attn_k.weight"      [] Required Always + Required <- "posnet.2.k";
    "posnet.2.attn_v.weight"      [] Required Always + Required <- "posnet.2.v";
    "posnet.2.attn_output.weight" [] Required Always + Required <- "posnet.2.proj_out";
    "posnet.3.norm1.weight"       [] Required Always + Required <- "posnet.3.norm1";
    "posnet.3.conv1.weight"       [] Required Always + Required <- "posnet.3.conv1";
    "posnet.3.norm2.weight"       [] Required Always + Required <- "posnet.3.norm2";
    "posnet.3.conv2.weight"       [] Required Always + Required <- "posnet.3.conv2";
    "posnet.4.norm1.weight"       [] Required Always + Required <- "posnet.4.norm1";
    "posnet.4.conv1.weight"       [] Required Always + Required <- "posnet.4.conv1";
    "posnet.4.norm2.weight"       [] Required Always + Required <- "posnet.4.norm2";
    "posnet.4.conv2.weight"       [] Required Always + Required <- "posnet.4.conv2";
    "posnet.5.attn_norm.weight"   [] Required Always + Required <- "posnet.5.norm";
};

const CONVNEXT: &[Row] = rows! {
    "convnext.{}.dw.weight"       [] Required Always + Required <- "dwconv";
    "convnext.{}.norm.weight"     [] Required Always + Required <- "norm";
    "convnext.{}.pw1.weight"      [] Required Always + Required <- "pwconv1";
    "convnext.{}.pw2.weight"      [] Required Always + Required <- "pwconv2";
    "convnext.{}.gamma.weight"    [] Required Always <- "gamma";
};
