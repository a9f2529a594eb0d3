//! Gemma 3 and EmbeddingGemma: Gemma 2 with query and key norms, and different rotary frequencies in blocks with a
//! sliding window.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma3.cpp` and `gemma-embedding.cpp` of llama.cpp, `Gemma3Model` and
//! `EmbeddingGemma` in `conversion/gemma.py`. Embedding rows without a token are omitted.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW, keys::FINAL_LOGIT_SOFTCAPPING],
    outside: &[OUTSIDE],
    block: &[BLOCK, QKV, OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        keys: &[GENERIC, KEYS],
        refuse: &[SOFTCAP],
        ..GEMMA3
    }],
};

/// A sentence encoder.
pub(super) const EMBEDDING: Architecture = Architecture {
    names: &["gemma-embedding"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ATTENTION_SLIDING_WINDOW]],
    optional: &[
        keys::ATTENTION_SLIDING_WINDOW_PATTERN,
        keys::DENSE_FEAT_IN,
        keys::DENSE_FEAT_OUT,
        keys::ROPE_FREQ_BASE_SWA,
    ],
    outside: &[OUTSIDE, DENSE],
    checkpoints: &[Checkpoint {
        classes: &["Gemma3TextModel"],
        keys: &[GENERIC, KEYS, EMBEDDING_KEYS, POOLING],
        refuse: &[
            SOFTCAP,
            (
                "(@dense_2.in_features ?? hidden_size) != hidden_size",
                "a first dense module whose in_features is not hidden_size",
            ),
            (
                "(@dense_3.out_features ?? hidden_size) != hidden_size",
                "a last dense module whose out_features is not hidden_size",
            ),
        ],
        dense_modules: true,
        ..GEMMA3
    }],
    ..ARCHITECTURE
};

const GEMMA3: Checkpoint = Checkpoint {
    tokenizer: &Tokenizer {
        vocab: Vocab::SENTENCE_PIECE_OR_BPE,
        keys: &[SPACE],
        trims_embeddings: true,
        ..Tokenizer::BPE
    },
    ..Checkpoint::TEXT
};

const SOFTCAP: (&str, &str) = ("attn_logit_softcapping != null", "softcapping of attention (attn_logit_softcapping)");

pub(super) const SPACE: &[Key] = keys! {
    "tokenizer.ggml.add_space_prefix" Bool? = "false if @tokenizer_model == 'llama' else null";
};

pub(super) const KEYS: &[Key] = keys! {
    "context_length" U32 = "max_position_embeddings|131072";
    "attention.head_count" U32 = "num_attention_heads|8";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps|1e-6";
    "attention.key_length" U32 = "head_dim|256";
    "attention.value_length" U32 = "head_dim|256";
    "rope.freq_base" F32 = "rope.rope_theta|1000000.0";
    "final_logit_softcapping" F32? = "final_logit_softcapping or null";
    "attention.sliding_window" U32? = "required(sliding_window) if sliding_window_pattern != 1 else null";
    "attention.head_count_kv" U32 = "num_key_value_heads|4";
};

/// The window is the value in the file, before transformers halves it. The fields `dense_2` and `dense_3` are the
/// configurations of the layers after the pooling, if they are written.
const EMBEDDING_KEYS: &[Key] = keys! {
    "attention.sliding_window" U32 = "@config.sliding_window";
    "dense_2_feat_in" U32? = "@dense_2.in_features if @dense_2.out_features != null else null";
    "dense_2_feat_out" U32? = "@dense_2.out_features if @dense_2.in_features != null else null";
    "dense_3_feat_in" U32? = "@dense_3.in_features if @dense_3.out_features != null else null";
    "dense_3_feat_out" U32? = "@dense_3.out_features if @dense_3.in_features != null else null";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"          [Embd Vocab] Required Always <- "embed_tokens" : "t[:@vocab.rows] e -> t e";
    "output_norm.weight"         [Embd]       Required Always <- "norm", Map::Add(1.0);
    "output.weight"              [Embd Vocab] Optional Always <- "lm_head";
};

/// Layers after the pooling.
const DENSE: &[Row] = rows! {
    "dense_2.weight"             [Embd "dense_2_feat_out"] Optional Always <- "dense_2";
    "dense_3.weight"             ["dense_3_feat_in" Embd] Optional Always <- "dense_3";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]       Required Always <- "input_layernorm", Map::Add(1.0);
    "attn_q_norm.weight"         [HeadK]      Required Always <- "self_attn.q_norm", Map::Add(1.0);
    "attn_k_norm.weight"         [HeadK]      Required Always <- "self_attn.k_norm", Map::Add(1.0);
    "post_attention_norm.weight" [Embd]       Required Always <- "post_attention_layernorm", Map::Add(1.0);
    "ffn_norm.weight"            [Embd]       Required Always <- "pre_feedforward_layernorm", Map::Add(1.0);
    "post_ffw_norm.weight"       [Embd]       Required Always <- "post_feedforward_layernorm", Map::Add(1.0);
};
