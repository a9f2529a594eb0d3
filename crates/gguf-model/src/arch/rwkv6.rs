//! RWKV 6: time mixing and channel mixing instead of attention and feed-forward part; and the same time mixing in the
//! blocks of Qwen 2.
//!
//! Rules: `load_arch_tensors` in `src/models/rwkv6.cpp` and `rwkv6qwen2.cpp` of llama.cpp, `Rwkv6Model` and `RWKV6Qwen2Model` in
//! `conversion/rwkv.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["rwkv6"],
    required: &[RECURRENT_KEYS, &[keys::WKV_HEAD_SIZE, keys::TIME_MIX_EXTRA_DIM, keys::TIME_DECAY_EXTRA_DIM]],
    optional: &[
        keys::ATTENTION_LAYER_NORM_EPSILON,
        keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
        keys::RESCALE_EVERY_N_LAYERS,
        keys::TOKEN_SHIFT_COUNT,
    ],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Rwkv6ForCausalLM"],
        names: &TensorNames { roots: &["rwkv."], layers: &["blocks.{}."], ..TensorNames::TEXT },
        rescaled: &["time_mix_output.weight", "channel_mix_value.weight"],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::RWKV_WORLD, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

pub(super) const WITH_QWEN: Architecture = Architecture {
    names: &["rwkv6qwen2"],
    required: &[
        RECURRENT_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::WKV_HEAD_SIZE, keys::TIME_MIX_EXTRA_DIM, keys::TIME_DECAY_EXTRA_DIM],
    ],
    optional: &[
        keys::ATTENTION_LAYER_NORM_EPSILON,
        keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
        keys::RESCALE_EVERY_N_LAYERS,
        keys::TOKEN_SHIFT_COUNT,
    ],
    outside: &[QWEN_OUTSIDE],
    block: &[NORMS, QWEN_BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["RWKV6Qwen2ForCausalLM"],
        keys: &[QWEN_KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let is_large = "hidden_size == 4096";
    "context_length" U32 = "1048576";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "rescale_every_n_layers" U32 = "rescale_every";
    "wkv.head_size" U32 = "head_size";
    "time_mix_extra_dim" U32 = "64 if is_large else 32";
    "time_decay_extra_dim" U32 = "128 if is_large else 64";
    "feed_forward_length" U32 = "intermediate_size ?? int(hidden_size * 3.5 // 32 * 32)";
    "general.file_type" U32 = "@file_type";
    "attention.head_count" U32 = "0";
};

const QWEN_KEYS: &[Key] = keys! {
    let is_large = "hidden_size >= 4096";
    "context_length" U32 = "1048576";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "wkv.head_size" U32 = "hidden_size // num_attention_heads";
    "time_mix_extra_dim" U32 = "lora_rank_tokenshift|64 if is_large else lora_rank_tokenshift|32";
    "time_decay_extra_dim" U32 = "lora_rank_decay|128 if is_large else lora_rank_decay|64";
    "feed_forward_length" U32 = "intermediate_size";
    "general.file_type" U32 = "@file_type";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "token_shift_count" U32 = "1";
    "attention.head_count_kv" U32 = "num_key_value_heads";
    "attention.head_count" U32 = "0";
};

/// Elements of keys or values of RWKV with Qwen's heads: `head_count_kv` heads, or all heads if that is 0.
const WKV_KV: Dim = dim!("attention.head_count_kv * wkv.head_size if attention.head_count_kv else embedding_length");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"              [Embd Vocab]         Required Always <- "embeddings";
    "token_embd_norm.weight"         [Embd]               Required Always + Required <- "blocks.0.pre_ln";
    "output_norm.weight"             [Embd]               Required Always + Required <- "ln_out";
    "output.weight"                  [Embd Vocab]         Required Always <- "head";
};

const QWEN_OUTSIDE: &[Row] = rows! {
    "token_embd.weight"              [Embd Vocab]         Required Always <- "embed_tokens";
    "output_norm.weight"             [Embd]               Required Always + Optional <- "norm";
    "output.weight"                  [Embd Vocab]         Required Always <- "lm_head";
};

/// A vector, which has additional dimensions of length 1 in checkpoints.
const VECTOR: &str = "1... e -> e";

/// A vector as one of several that are stacked.
const ONE_OF: &str = "1... e -> 1 1 1 e";

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"               [Embd]               Required Always + Required <- "ln1";
    "attn_norm_2.weight"             [Embd]               Required Always + Required <- "ln2";
    "time_mix_lerp_x.weight"         [Embd]               Required Always <- "attention.time_maa_x" : VECTOR;
    "time_mix_lerp_fused.weight"     [Embd "1" "1" "5"]  Required Always
        <- "attention.time_maa_w + attention.time_maa_k + attention.time_maa_v + attention.time_maa_r + attention.time_maa_g"
        : ONE_OF;
    "time_mix_w1.weight"             [Embd "5 * time_mix_extra_dim"]       Required Always <- "attention.time_maa_w1" : "i o -> o i";
    "time_mix_w2.weight"             ["time_mix_extra_dim" Embd "5"]      Required Always <- "attention.time_maa_w2" : "n i o -> n o i";
    "time_mix_first.weight"          ["wkv.head_size" "embedding_length / wkv.head_size"]   Required Always <- "attention.time_faaaa";
    "time_mix_decay.weight"          [Embd]               Required Always <- "attention.time_decay" : VECTOR;
    "time_mix_decay_w1.weight"       [Embd Decay]         Required Always <- "attention.time_decay_w1" : "i o -> o i";
    "time_mix_decay_w2.weight"       [Decay Embd]         Required Always <- "attention.time_decay_w2" : "i o -> o i";
    "time_mix_key.weight"            [Embd Embd]          Required Always <- "attention.key";
    "time_mix_value.weight"          [Embd Embd]          Required Always <- "attention.value";
    "time_mix_receptance.weight"     [Embd Embd]          Required Always <- "attention.receptance";
    "time_mix_gate.weight"           [Embd Embd]          Required Always <- "attention.gate";
    "time_mix_ln.weight"             [Embd]               Required Always + Required <- "attention.ln_x";
    "time_mix_output.weight"         [Embd Embd]          Required Always <- "attention.output";
    "channel_mix_lerp_k.weight"      [Embd]               Required Always <- "feed_forward.time_maa_k" : VECTOR;
    "channel_mix_lerp_r.weight"      [Embd]               Required Always <- "feed_forward.time_maa_r" : VECTOR;
    "channel_mix_key.weight"         [Embd Ff]            Required Always <- "feed_forward.key";
    "channel_mix_value.weight"       [Ff Embd]            Required Always <- "feed_forward.value";
    "channel_mix_receptance.weight"  [Embd Embd]          Required Always <- "feed_forward.receptance";
    // Separate tensors, as in older files.
    "time_mix_lerp_w.weight"         [Embd]               Optional Always;
    "time_mix_lerp_k.weight"         [Embd]               Optional Always;
    "time_mix_lerp_v.weight"         [Embd]               Optional Always;
    "time_mix_lerp_r.weight"         [Embd]               Optional Always;
    "time_mix_lerp_g.weight"         [Embd]               Optional Always;
};

/// The order of the five projections differs from RWKV 6: receptance, key, value, decay, gate.
const QWEN_BLOCK: &[Row] = rows! {
    "time_mix_lerp_x.weight"         [Embd]               Required Always <- "self_attn.time_maa_x" : VECTOR;
    "time_mix_lerp_fused.weight"     [Embd "1" "1" "5"]  Required Always
        <- "self_attn.time_maa_w + self_attn.time_maa_k + self_attn.time_maa_v + self_attn.time_maa_r + self_attn.time_maa_g"
        : ONE_OF;
    "time_mix_w1.weight"             [Embd "5 * time_mix_extra_dim"]       Required Always
        <- "self_attn.time_maa_w1" : "e (5 r) -> (5[3] r) e + (5[1] r) e + (5[2] r) e + (5[0] r) e + (5[4] r) e";
    "time_mix_w2.weight"             ["time_mix_extra_dim" Embd "5"]      Required Always
        <- "self_attn.time_maa_w2" : "5 r e -> 5[3] e r + 5[1] e r + 5[2] e r + 5[0] e r + 5[4] e r";
    "time_mix_first.weight"          ["wkv.head_size" "embedding_length / wkv.head_size"]   Optional Always <- "self_attn.time_faaaa";
    "time_mix_decay.weight"          [Embd]               Required Always <- "self_attn.time_decay" : VECTOR;
    "time_mix_decay_w1.weight"       [Embd Decay]         Required Always <- "self_attn.time_decay_w1" : "i o -> o i";
    "time_mix_decay_w2.weight"       [Decay Embd]         Required Always <- "self_attn.time_decay_w2" : "i o -> o i";
    "time_mix_key.weight"            [Embd WKV_KV]         Required Always + Optional <- "self_attn.k_proj";
    "time_mix_value.weight"          [Embd WKV_KV]         Required Always + Optional <- "self_attn.v_proj";
    "time_mix_receptance.weight"     [Embd Embd]          Required Always + Optional <- "self_attn.q_proj";
    "time_mix_gate.weight"           [Embd Embd]          Required Always <- "self_attn.gate";
    "time_mix_output.weight"         [Embd Embd]          Required Always <- "self_attn.o_proj";
};
