//! T5, mT5 and UMT5: an encoder and a decoder with learned biases of relative positions; and the encoder alone.
//!
//! Rules: `load_arch_tensors` in `src/models/t5.cpp` and `t5encoder.cpp` of llama.cpp, `T5Model` and `T5EncoderModel` in
//! `conversion/t5.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["t5"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ATTENTION_RELATIVE_BUCKETS_COUNT]],
    optional: &[keys::DECODER_BLOCK_COUNT, keys::DECODER_START_TOKEN_ID],
    outside: &[OUTSIDE, DECODER_NORM],
    block: &[ENCODER_BLOCK, DECODER_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &[
            "T5WithLMHeadModel",
            "T5ForConditionalGeneration",
            "MT5ForConditionalGeneration",
            "UMT5ForConditionalGeneration",
            "UMT5Model",
        ],
        keys: &[SIZES, DECODER_SIZES, WIDTHS, START, FILE_TYPE],
        ..CHECKPOINT
    }],
};

pub(super) const ENCODER: Architecture = Architecture {
    names: &["t5encoder"],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[ENCODER_BLOCK],
    checkpoints: &[Checkpoint { classes: &["T5EncoderModel"], keys: &[SIZES, WIDTHS, FILE_TYPE], ..CHECKPOINT }],
    ..ARCHITECTURE
};

const CHECKPOINT: Checkpoint = Checkpoint {
    names: &TensorNames {
        roots: &[],
        layers: &["encoder.block.{}.", "decoder.block.{}."],
        // Encoder and decoder share the embeddings; checkpoints have them under one or several of these names.
        first_of: &["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"],
        ..TensorNames::TEXT
    },
    tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::T5]), ..Tokenizer::BPE },
    ..Checkpoint::TEXT
};

const SIZES: &[Key] = keys! {
    "context_length" U32 = "n_positions ?? 512";
    "embedding_length" U32 = "d_model";
    "feed_forward_length" U32 = "d_ff";
    "block_count" U32 = "block_count";
};

const DECODER_SIZES: &[Key] = keys! {
    "decoder_block_count" U32? = "num_decoder_layers";
};

const WIDTHS: &[Key] = keys! {
    "attention.head_count" U32 = "num_heads";
    "attention.key_length" U32 = "d_kv";
    "attention.value_length" U32 = "d_kv";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "attention.relative_buckets_count" U32 = "relative_attention_num_buckets";
    "attention.layer_norm_rms_epsilon" F32 = "layer_norm_epsilon";
};

const START: &[Key] = keys! {
    "decoder_start_token_id" U32 = "decoder_start_token_id";
};

const FILE_TYPE: &[Key] = keys! {
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"      [Embd Vocab] Required Always <- "shared | encoder.embed_tokens | decoder.embed_tokens";
    "enc.output_norm.weight" [Embd]       Required Always <- "encoder.final_layer_norm";
    "output.weight"          [Embd Vocab] Optional Always <- "lm_head";
};

const DECODER_NORM: &[Row] = rows! {
    "dec.output_norm.weight" [Embd]       Required Always <- "decoder.final_layer_norm";
};

const ENCODER_BLOCK: &[Row] = rows! {
    "enc.blk.{}.attn_norm.weight"        [Embd]          Required Always <- "layer.0.layer_norm";
    "enc.blk.{}.attn_rel_b.weight"       [Heads "attention.relative_buckets_count"] Optional Always <- "layer.0.SelfAttention.relative_attention_bias";
    "enc.blk.{}.attn_q.weight"           [Embd Q]        Required Always <- "layer.0.SelfAttention.q";
    "enc.blk.{}.attn_k.weight"           [Embd K]        Required Always <- "layer.0.SelfAttention.k";
    "enc.blk.{}.attn_v.weight"           [Embd V]        Required Always <- "layer.0.SelfAttention.v";
    "enc.blk.{}.attn_o.weight"           [HeadsV Embd]   Required Always <- "layer.0.SelfAttention.o";
    "enc.blk.{}.ffn_norm.weight"         [Embd]          Required Always <- "layer.1.layer_norm";
    "enc.blk.{}.ffn_gate.weight"         [Embd Ff]       Optional Always <- "layer.1.DenseReluDense.wi_0";
    "enc.blk.{}.ffn_up.weight"           [Embd Ff]       Required Always
        <- "layer.1.DenseReluDense.wi | layer.1.DenseReluDense.wi_1";
    "enc.blk.{}.ffn_down.weight"         [Ff Embd]       Required Always <- "layer.1.DenseReluDense.wo";
};

const DECODER_BLOCK: &[Row] = rows! {
    "dec.blk.{}.attn_norm.weight"        [Embd]          Required Always <- "layer.0.layer_norm";
    "dec.blk.{}.attn_rel_b.weight"       [Heads "attention.relative_buckets_count"] Optional Always <- "layer.0.SelfAttention.relative_attention_bias";
    "dec.blk.{}.attn_q.weight"           [Embd Q]        Required Always <- "layer.0.SelfAttention.q";
    "dec.blk.{}.attn_k.weight"           [Embd K]        Required Always <- "layer.0.SelfAttention.k";
    "dec.blk.{}.attn_v.weight"           [Embd V]        Required Always <- "layer.0.SelfAttention.v";
    "dec.blk.{}.attn_o.weight"           [HeadsV Embd]   Required Always <- "layer.0.SelfAttention.o";
    "dec.blk.{}.cross_attn_norm.weight"  [Embd]          Required Always <- "layer.1.layer_norm";
    "dec.blk.{}.cross_attn_rel_b.weight" [Heads "attention.relative_buckets_count"] Optional Always <- "layer.1.EncDecAttention.relative_attention_bias";
    "dec.blk.{}.cross_attn_q.weight"     [Embd Q]        Required Always <- "layer.1.EncDecAttention.q";
    "dec.blk.{}.cross_attn_k.weight"     [Embd K]        Required Always <- "layer.1.EncDecAttention.k";
    "dec.blk.{}.cross_attn_v.weight"     [Embd V]        Required Always <- "layer.1.EncDecAttention.v";
    "dec.blk.{}.cross_attn_o.weight"     [HeadsV Embd]   Required Always <- "layer.1.EncDecAttention.o";
    "dec.blk.{}.ffn_norm.weight"         [Embd]          Required Always <- "layer.2.layer_norm";
    "dec.blk.{}.ffn_gate.weight"         [Embd Ff]       Optional Always <- "layer.2.DenseReluDense.wi_0";
    "dec.blk.{}.ffn_up.weight"           [Embd Ff]       Required Always
        <- "layer.2.DenseReluDense.wi | layer.2.DenseReluDense.wi_1";
    "dec.blk.{}.ffn_down.weight"         [Ff Embd]       Required Always <- "layer.2.DenseReluDense.wo";
};
