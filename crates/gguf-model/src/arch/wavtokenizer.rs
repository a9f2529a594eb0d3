//! WavTokenizer: the decoder from audio codes to spectral frames: a convolutional network with one attention block
//! (PosNet), then ConvNeXt blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/wavtokenizer-dec.cpp` of llama.cpp, `WavTokenizerDecModel` in
//! `conversion/wavtokenizer.py`. PosNet always has the same six blocks, so their tensors are listed outside the numbered blocks. The
//! embeddings have the width of the features; `embedding_length` is the width of the output (`load_hparams`).

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
    optional: &[],
    outside: &[OUTSIDE, POSNET],
    block: &[CONVNEXT],
    checkpoints: &[Checkpoint {
        classes: &["WavTokenizerDec"],
        names: &TensorNames {
            roots: &["backbone."],
            layers: &["convnext.{}."],
            skip: &[("*codebook.cluster_size", ""), ("*codebook.embed_avg", ""), ("*codebook.inited", "")],
            ..TensorNames::TEXT
        },
        refuse: &[
            ("posnet.n_layer != 6", "a number of PosNet blocks (posnet.n_layer) other than 6"),
            (
                "posnet.n_embd != convnext.n_embd",
                "different widths of PosNet (posnet.n_embd) and ConvNeXt (convnext.n_embd)",
            ),
            (
                "max(posnet.n_layer, convnext.n_layer) > block_count",
                "fewer blocks (n_layer) than PosNet or ConvNeXt has",
            ),
        ],
        types: &StoredTypes { precise: &["posnet.*.norm1.weight", "posnet.*.norm2.weight"], ..StoredTypes::ASKED },
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::NONE, ..Tokenizer::BPE },
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

/// Elements of a hidden state of PosNet.
const POS_NET: Dim = dim!("posnet.embedding_length");

/// Elements of a hidden state of the ConvNeXt blocks.
const CONV_NEXT: Dim = dim!("convnext.embedding_length");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      ["features_length" Vocab]          Required Always <- "embedding";
    "conv1d.weight"          ["7" "features_length" POS_NET]   Required Always <- "embed";
    "conv1d.bias"            ["1" POS_NET]              Required Always <- "embed.bias";
    "token_embd_norm.weight" [POS_NET]                  Required Always + Required <- "norm";
    "output_norm.weight"     [CONV_NEXT]                Required Always + Required <- "final_layer_norm";
    "output.weight"          [CONV_NEXT Embd]           Required Always + Required <- "head.out";
};

/// Two blocks of convolutions, one of attention, two of convolutions, and a norm.
const POSNET: &[Row] = rows! {
    "posnet.0.norm1.weight"       ["1" POS_NET]           Required Always <- "posnet.0.norm1";
    "posnet.0.norm1.bias"         ["1" POS_NET]           Required Always <- "posnet.0.norm1.bias";
    "posnet.0.conv1.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.0.conv1";
    "posnet.0.conv1.bias"         ["1" POS_NET]           Required Always <- "posnet.0.conv1.bias";
    "posnet.0.norm2.weight"       ["1" POS_NET]           Required Always <- "posnet.0.norm2";
    "posnet.0.norm2.bias"         ["1" POS_NET]           Required Always <- "posnet.0.norm2.bias";
    "posnet.0.conv2.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.0.conv2";
    "posnet.0.conv2.bias"         ["1" POS_NET]           Required Always <- "posnet.0.conv2.bias";
    "posnet.1.norm1.weight"       ["1" POS_NET]           Required Always <- "posnet.1.norm1";
    "posnet.1.norm1.bias"         ["1" POS_NET]           Required Always <- "posnet.1.norm1.bias";
    "posnet.1.conv1.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.1.conv1";
    "posnet.1.conv1.bias"         ["1" POS_NET]           Required Always <- "posnet.1.conv1.bias";
    "posnet.1.norm2.weight"       ["1" POS_NET]           Required Always <- "posnet.1.norm2";
    "posnet.1.norm2.bias"         ["1" POS_NET]           Required Always <- "posnet.1.norm2.bias";
    "posnet.1.conv2.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.1.conv2";
    "posnet.1.conv2.bias"         ["1" POS_NET]           Required Always <- "posnet.1.conv2.bias";
    "posnet.2.attn_norm.weight"   ["1" POS_NET]           Required Always <- "posnet.2.norm";
    "posnet.2.attn_norm.bias"     ["1" POS_NET]           Required Always <- "posnet.2.norm.bias";
    "posnet.2.attn_q.weight"      ["1" POS_NET POS_NET]    Required Always <- "posnet.2.q";
    "posnet.2.attn_q.bias"        ["1" POS_NET]           Required Always <- "posnet.2.q.bias";
    "posnet.2.attn_k.weight"      ["1" POS_NET POS_NET]    Required Always <- "posnet.2.k";
    "posnet.2.attn_k.bias"        ["1" POS_NET]           Required Always <- "posnet.2.k.bias";
    "posnet.2.attn_v.weight"      ["1" POS_NET POS_NET]    Required Always <- "posnet.2.v";
    "posnet.2.attn_v.bias"        ["1" POS_NET]           Required Always <- "posnet.2.v.bias";
    "posnet.2.attn_output.weight" ["1" POS_NET POS_NET]    Required Always <- "posnet.2.proj_out";
    "posnet.2.attn_output.bias"   ["1" POS_NET]           Required Always <- "posnet.2.proj_out.bias";
    "posnet.3.norm1.weight"       ["1" POS_NET]           Required Always <- "posnet.3.norm1";
    "posnet.3.norm1.bias"         ["1" POS_NET]           Required Always <- "posnet.3.norm1.bias";
    "posnet.3.conv1.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.3.conv1";
    "posnet.3.conv1.bias"         ["1" POS_NET]           Required Always <- "posnet.3.conv1.bias";
    "posnet.3.norm2.weight"       ["1" POS_NET]           Required Always <- "posnet.3.norm2";
    "posnet.3.norm2.bias"         ["1" POS_NET]           Required Always <- "posnet.3.norm2.bias";
    "posnet.3.conv2.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.3.conv2";
    "posnet.3.conv2.bias"         ["1" POS_NET]           Required Always <- "posnet.3.conv2.bias";
    "posnet.4.norm1.weight"       ["1" POS_NET]           Required Always <- "posnet.4.norm1";
    "posnet.4.norm1.bias"         ["1" POS_NET]           Required Always <- "posnet.4.norm1.bias";
    "posnet.4.conv1.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.4.conv1";
    "posnet.4.conv1.bias"         ["1" POS_NET]           Required Always <- "posnet.4.conv1.bias";
    "posnet.4.norm2.weight"       ["1" POS_NET]           Required Always <- "posnet.4.norm2";
    "posnet.4.norm2.bias"         ["1" POS_NET]           Required Always <- "posnet.4.norm2.bias";
    "posnet.4.conv2.weight"       ["3" POS_NET POS_NET]  Required Always <- "posnet.4.conv2";
    "posnet.4.conv2.bias"         ["1" POS_NET]           Required Always <- "posnet.4.conv2.bias";
    "posnet.5.attn_norm.weight"   ["1" POS_NET]           Required Always <- "posnet.5.norm";
    "posnet.5.attn_norm.bias"     ["1" POS_NET]           Required Always <- "posnet.5.norm.bias";
};

const CONVNEXT: &[Row] = rows! {
    "convnext.{}.dw.weight"       ["7" "1" CONV_NEXT]   Required Always <- "dwconv";
    "convnext.{}.dw.bias"         ["1" CONV_NEXT]         Required Always <- "dwconv.bias";
    "convnext.{}.norm.weight"     [CONV_NEXT]             Required Always + Required <- "norm";
    "convnext.{}.pw1.weight"      [CONV_NEXT Ff]          Required Always + Required <- "pwconv1";
    "convnext.{}.pw2.weight"      [Ff CONV_NEXT]          Required Always + Required <- "pwconv2";
    "convnext.{}.gamma.weight"    [CONV_NEXT]             Required Always <- "gamma";
};
