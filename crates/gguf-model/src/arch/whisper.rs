//! Whisper: an audio encoder with two convolutions at its input, and a decoder with cross-attention to the encoder's
//! output.
//!
//! Neither llama.cpp nor its converter supports it. Keys follow the GGUF specification, which has no key for the width
//! of the feed-forward parts; matrix shapes determine it. The specification does not name the tensors: encoder and
//! decoder use llama.cpp's names for T5, and the convolutions similar names. The output is tied to the embeddings.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["whisper"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[ENCODER, DECODER],
    checkpoints: &[Checkpoint {
        classes: &["WhisperForConditionalGeneration"],
        names: &TensorNames {
            layers: &["encoder.layers.{}.", "decoder.layers.{}."],
            skip: &[("proj_out.weight", "tie_word_embeddings|true")],
            ..TensorNames::TEXT
        },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "encoder.context_length" U32 = "max_source_positions";
    "encoder.embedding_length" U32 = "d_model";
    "encoder.block_count" U32 = "encoder_layers";
    "encoder.mels_count" U32 = "num_mel_bins";
    "encoder.attention.head_count" U32 = "encoder_attention_heads";
    "decoder.context_length" U32 = "max_target_positions";
    "decoder.embedding_length" U32 = "d_model";
    "decoder.block_count" U32 = "decoder_layers";
    "decoder.attention.head_count" U32 = "decoder_attention_heads";
    "attention.layer_norm_epsilon" F32 = "1e-5";
    "decoder_start_token_id" U32? = "decoder_start_token_id";
    "general.file_type" U32 = "@file_type";
};

/// Elements of a hidden state of the encoder.
const ENCODER_EMBD: Dim = dim!("encoder.embedding_length");

const OUTSIDE: &[Row] = rows! {
    "enc.conv1d.1.weight"               ["3" "encoder.mels_count" ENCODER_EMBD]        Required Always <- "encoder.conv1";
    "enc.conv1d.1.bias"                 [ENCODER_EMBD]                   Required Always <- "encoder.conv1.bias";
    "enc.conv1d.2.weight"               ["3" ENCODER_EMBD ENCODER_EMBD] Required Always <- "encoder.conv2";
    "enc.conv1d.2.bias"                 [ENCODER_EMBD]                   Required Always <- "encoder.conv2.bias";
    "enc.position_embd.weight"          [ENCODER_EMBD "encoder.context_length"]    Required Always <- "encoder.embed_positions";
    "enc.output_norm.weight"            [ENCODER_EMBD]                   Required Always + Required <- "encoder.layer_norm";
    "token_embd.weight"                 [Embd Vocab]                    Required Always <- "decoder.embed_tokens";
    "position_embd.weight"              [Embd Context]                  Required Always <- "decoder.embed_positions";
    "dec.output_norm.weight"            [Embd]                          Required Always + Required <- "decoder.layer_norm";
    "output.weight"                     [Embd Vocab]                    Optional Always <- "proj_out";
};

const ENCODER: &[Row] = rows! {
    "enc.blk.{}.attn_norm.weight"       [ENCODER_EMBD]             Required Always + Required <- "self_attn_layer_norm";
    "enc.blk.{}.attn_q.weight"          [ENCODER_EMBD ENCODER_EMBD] Required Always + Required <- "self_attn.q_proj";
    "enc.blk.{}.attn_k.weight"          [ENCODER_EMBD ENCODER_EMBD] Required Always <- "self_attn.k_proj";
    "enc.blk.{}.attn_v.weight"          [ENCODER_EMBD ENCODER_EMBD] Required Always + Required <- "self_attn.v_proj";
    "enc.blk.{}.attn_o.weight"          [ENCODER_EMBD ENCODER_EMBD] Required Always + Required <- "self_attn.out_proj";
    "enc.blk.{}.ffn_norm.weight"        [ENCODER_EMBD]             Required Always + Required <- "final_layer_norm";
    "enc.blk.{}.ffn_up.weight"          [ENCODER_EMBD Ff]   Required Always + Required <- "fc1";
    "enc.blk.{}.ffn_down.weight"        [Ff ENCODER_EMBD]   Required Always + Required <- "fc2";
};

const DECODER: &[Row] = rows! {
    "dec.blk.{}.attn_norm.weight"       [Embd]             Required Always + Required <- "self_attn_layer_norm";
    "dec.blk.{}.attn_q.weight"          [Embd Embd]        Required Always + Required <- "self_attn.q_proj";
    "dec.blk.{}.attn_k.weight"          [Embd Embd]        Required Always <- "self_attn.k_proj";
    "dec.blk.{}.attn_v.weight"          [Embd Embd]        Required Always + Required <- "self_attn.v_proj";
    "dec.blk.{}.attn_o.weight"          [Embd Embd]        Required Always + Required <- "self_attn.out_proj";
    "dec.blk.{}.cross_attn_norm.weight" [Embd]             Required Always + Required <- "encoder_attn_layer_norm";
    "dec.blk.{}.cross_attn_q.weight"    [Embd Embd]        Required Always + Required <- "encoder_attn.q_proj";
    "dec.blk.{}.cross_attn_k.weight"    [ENCODER_EMBD Embd] Required Always <- "encoder_attn.k_proj";
    "dec.blk.{}.cross_attn_v.weight"    [ENCODER_EMBD Embd] Required Always + Required <- "encoder_attn.v_proj";
    "dec.blk.{}.cross_attn_o.weight"    [Embd Embd]        Required Always + Required <- "encoder_attn.out_proj";
    "dec.blk.{}.ffn_norm.weight"        [Embd]             Required Always + Required <- "final_layer_norm";
    "dec.blk.{}.ffn_up.weight"          [Embd Ff]          Required Always + Required <- "fc1";
    "dec.blk.{}.ffn_down.weight"        [Ff Embd]          Required Always + Required <- "fc2";
};
