//! The encoder of LFM2-Audio: a Conformer, whose batch normalizations are folded, and an adapter.

use super::prelude::*;
use super::whisper::AUDIO;

pub(super) const LFM2A: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Lfm2AudioForConditionalGeneration"],
        names: &TensorNames {
            takes: &["conformer.*", "audio_adapter.*", "audio_embedding.*"],
            skip: &[("*.num_batches_tracked", "")],
            roots: &["conformer."],
            layers: &["layers.{}."],
            ..*TOWER.names
        },
        sizes: "clip.audio",
        keys: &[SIZES, HEAD, AUDIO, KEYS],
        types: &StoredTypes { precise: &["a.conv1d.*", "a.blk.*.conv_*"], ..*TOWER.types },
        ..TOWER
    }],
};

const SIZES: &[Key] = keys! {
    let audio_config = "merge(encoder, {'hidden_size': encoder.d_model, 'intermediate_size': encoder.d_model, \
                        'num_attention_heads': encoder.n_heads})";
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'lfm2a'";
    "clip.audio.num_mel_bins" U32 = "encoder.feat_in";
    "clip.audio.attention.layer_norm_epsilon" F32 = "1e-5";
};

// The layers between the convolutions are activations.
const OUTSIDE: &[Row] = rows! {
    "a.conv1d.0.weight"       [] Required Always <- "pre_encode.conv.0";
    "a.conv1d.0.bias"         [] Required Always <- "pre_encode.conv.0.bias" : "e -> e 1 1";
    "a.conv1d.2.weight"       [] Required Always <- "pre_encode.conv.2";
    "a.conv1d.2.bias"         [] Required Always <- "pre_encode.conv.2.bias" : "e -> e 1 1";
    "a.conv1d.3.weight"       [] Required Always <- "pre_encode.conv.3";
    "a.conv1d.3.bias"         [] Required Always <- "pre_encode.conv.3.bias" : "e -> e 1 1";
    "a.conv1d.5.weight"       [] Required Always <- "pre_encode.conv.5";
    "a.conv1d.5.bias"         [] Required Always <- "pre_encode.conv.5.bias" : "e -> e 1 1";
    "a.conv1d.6.weight"       [] Required Always <- "pre_encode.conv.6";
    "a.conv1d.6.bias"         [] Required Always <- "pre_encode.conv.6.bias" : "e -> e 1 1";
    "a.pre_encode.out.weight" [] Required Always + Required <- "pre_encode.out";
    "mm.a.mlp.0.weight"       [] Required Always + Required <- "audio_adapter.model.0";
    "mm.a.mlp.1.weight"       [] Required Always + Required <- "audio_adapter.model.1";
    "mm.a.mlp.3.weight"       [] Required Always + Required <- "audio_adapter.model.3";
    "a.position_embd.weight"       [] Optional Always <- "audio_embedding.embedding";
    "a.position_embd_norm.weight"  [] Optional Always <- "audio_embedding.embedding_norm";
    "a.embd_to_logits.weight"      [] Optional Always <- "audio_embedding.to_logits";
};

// The width of the feed-forward part is not that of the key.
const BLOCK: &[Row] = rows! {
    "a.blk.{}.attn_q.weight"     [Embd Embd] Required Always + Required <- "self_attn.linear_q";
    "a.blk.{}.attn_k.weight"     [Embd Embd] Required Always + Required <- "self_attn.linear_k";
    "a.blk.{}.attn_v.weight"     [Embd Embd] Required Always + Required <- "self_attn.linear_v";
    "a.blk.{}.attn_out.weight"   [Embd Embd] Required Always + Required <- "self_attn.linear_out";
    "a.blk.{}.linear_pos.weight" [Embd Embd] Required Always <- "self_attn.linear_pos";
    "a.blk.{}.pos_bias_u"        []          Required Always <- "self_attn.pos_bias_u";
    "a.blk.{}.pos_bias_v"        []          Required Always <- "self_attn.pos_bias_v";
    "a.blk.{}.ln1.weight"        [Embd]      Required Always + Required <- "norm_self_att";
    "a.blk.{}.ln2.weight"        [Embd]      Required Always + Required <- "norm_out";
    "a.blk.{}.ffn_norm.weight"   [Embd]      Required Always + Required <- "norm_feed_forward1";
    "a.blk.{}.ffn_up.weight"     []          Required Always + Required <- "feed_forward1.linear1";
    "a.blk.{}.ffn_down.weight"   []          Required Always + Required <- "feed_forward1.linear2";
    "a.blk.{}.ffn_norm_1.weight" [Embd]      Required Always + Required <- "norm_feed_forward2";
    "a.blk.{}.ffn_up_1.weight"   []          Required Always + Required <- "feed_forward2.linear1";
    "a.blk.{}.ffn_down_1.weight" []          Required Always + Required <- "feed_forward2.linear2";
    "a.blk.{}.norm_conv.weight"  [Embd]      Required Always + Required <- "norm_conv";
    "a.blk.{}.conv_dw.weight"    []          Required Always <- "conv.depthwise_conv" : "c 1 k -> c k";
    "a.blk.{}.conv_dw.bias"      []          Required Always <- "conv.depthwise_conv.bias";
    "a.blk.{}.conv_pw1.weight"   []          Required Always <- "conv.pointwise_conv1" : "o i 1 -> o i";
    "a.blk.{}.conv_pw1.bias"     []          Required Always <- "conv.pointwise_conv1.bias";
    "a.blk.{}.conv_pw2.weight"   []          Required Always <- "conv.pointwise_conv2" : "o i 1 -> o i";
    "a.blk.{}.conv_pw2.bias"     []          Required Always <- "conv.pointwise_conv2.bias";
    "a.blk.{}.conv_norm.weight"  [Embd]      Required Always <- "conv.batch_norm, conv.batch_norm.running_var" : "" => RowOp::BatchNorm(1e-5);
    "a.blk.{}.conv_norm.bias"    [Embd]      Required Always
        <- "conv.batch_norm, conv.batch_norm.running_var, conv.batch_norm.bias, conv.batch_norm.running_mean" : "" => RowOp::BatchNorm(1e-5);
};
