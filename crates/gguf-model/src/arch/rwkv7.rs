//! RWKV 7: time mixing with in-context learning rates, and channel mixing; and the same time mixing in the blocks of
//! Qwen 2 (ARWKV).
//!
//! Rules: `load_arch_tensors` in `src/models/rwkv7.cpp` and `arwkv7.cpp` of llama.cpp, `Rwkv7Model` and `ARwkv7Model`
//! in `conversion/rwkv.py`. Low-rank projections are plain matrices, or modules whose matrices are transposed. The
//! first block has no value residual; llama.cpp requires the tensors but ignores them, so they are copies of those of
//! the learning rate.

use super::prelude::*;

const RANKS: &[&str] = &[
    keys::WKV_HEAD_SIZE,
    keys::ATTENTION_DECAY_LORA_RANK,
    keys::ATTENTION_ICLR_LORA_RANK,
    keys::ATTENTION_VALUE_RESIDUAL_MIX_LORA_RANK,
];

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["rwkv7"],
    required: &[RECURRENT_KEYS, RANKS],
    optional: &[
        keys::ATTENTION_GATE_LORA_RANK,
        keys::ATTENTION_LAYER_NORM_EPSILON,
        keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
        keys::TOKEN_SHIFT_COUNT,
    ],
    outside: &[OUTSIDE],
    block: &[CHANNELS, TIME, GATE, TIME_NORM],
    checkpoints: &[Checkpoint {
        classes: &["Rwkv7ForCausalLM", "RWKV7ForCausalLM"],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::RWKV_WORLD, ..*CHECKPOINT.tokenizer },
        ..CHECKPOINT
    }],
};

pub(super) const WITH_QWEN: Architecture = Architecture {
    names: &["arwkv7"],
    required: &[RECURRENT_KEYS, FEED_FORWARD_KEYS, RANKS],
    optional: &[
        keys::ATTENTION_GATE_LORA_RANK,
        keys::ATTENTION_LAYER_NORM_EPSILON,
        keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
        keys::TOKEN_SHIFT_COUNT,
    ],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, TIME, OPTIONAL_GATE, OPTIONAL_TIME_NORM, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["RwkvHybridForCausalLM"],
        keys: &[QWEN_KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..*CHECKPOINT.tokenizer },
        ..CHECKPOINT
    }],
};

const CHECKPOINT: Checkpoint = Checkpoint {
    names: &TensorNames {
        rename: &[
            ("blocks", "layers"),
            ("ffn", "feed_forward"),
            ("self_attn", "attention"),
            ("attn", "attention"),
            ("time_mixer.", ""),
            ("feed_forward_norm", "ln2"),
            ("g_norm", "ln_x"),
        ],
        // Some checkpoints have an unused value residual in the first block.
        skip: &[
            ("layers.0.attention.v0", ""),
            ("layers.0.attention.v1", ""),
            ("layers.0.attention.v2", ""),
            ("layers.0.attention.v_lora.*", ""),
        ],
        ..TensorNames::TEXT
    },
    ..Checkpoint::TEXT
};

/// By default, ranks are computed from the width (`Rwkv7Model.calc_lora_rank`).
const KEYS: &[Key] = keys! {
    let by_root = "max(1, round(hidden_size ** 0.5 * 1.8 / 32)) * 32";
    "context_length" U32 = "1048576";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon|norm_eps";
    "wkv.head_size" U32 = "head_size|head_dim";
    "attention.decay_lora_rank" U32 = "(lora_rank_decay|decay_low_rank_dim) ?? by_root";
    "attention.iclr_lora_rank" U32 = "(lora_rank_iclr|a_low_rank_dim) ?? by_root";
    "attention.value_residual_mix_lora_rank" U32 = "(lora_rank_value_residual_mix|v_low_rank_dim)
        ?? max(1, round(hidden_size ** 0.5 * 1.3 / 32)) * 32";
    "attention.gate_lora_rank" U32 = "(lora_rank_gate|gate_low_rank_dim)
        ?? max(1, round(hidden_size ** 0.8 * 0.6 / 32)) * 32";
    "feed_forward_length" U32 = "intermediate_size ?? hidden_size * 4";
    "general.file_type" U32 = "@file_type";
    "attention.head_count" U32 = "0";
};

const QWEN_KEYS: &[Key] = keys! {
    let version = "one_of(str(wkv_version), {'7': 7})";
    "context_length" U32 = "1048576";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "wkv.head_size" U32 = "head_size";
    "attention.decay_lora_rank" U32 = "64";
    "attention.iclr_lora_rank" U32 = "64";
    "attention.value_residual_mix_lora_rank" U32 = "32";
    "attention.gate_lora_rank" U32 = "128 if required(wkv_has_gate) else 0";
    "feed_forward_length" U32 = "intermediate_size";
    "general.file_type" U32 = "@file_type";
    "token_shift_count" U32 = "1";
    "attention.head_count" U32 = "0";
};

/// Rank of the projection of the gate.
const GATE_LORA: Dim = dim!("attention.gate_lora_rank");

/// Models of RWKV with a gate.
const WITH_GATE: When = when!("not attention.gate_lora_rank == 0");

/// Rank of the projection of the learning rate in context.
const ICLR: Dim = dim!("attention.iclr_lora_rank");

/// Rank of the projection of the value residual.
const VALUE_MIX: Dim = dim!("attention.value_residual_mix_lora_rank");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"              [Embd Vocab]        Required Always <- "embeddings";
    "token_embd_norm.weight"         [Embd]              Required Always + Required <- "layers.0.pre_norm";
    "output_norm.weight"             [Embd]              Required Always + Required <- "norm";
    "output.weight"                  [Embd Vocab]        Required Always <- "lm_head";
};

const CHANNELS: &[Row] = rows! {
    "attn_norm.weight"               [Embd]              Required Always + Required <- "attention_norm";
    "attn_norm_2.weight"             [Embd]              Required Always + Required <- "ln2";
    "channel_mix_lerp_k.weight"      [Embd]              Required Always <- "feed_forward.x_k" : VECTOR;
    "channel_mix_key.weight"         [Embd Ff]           Required Always <- "feed_forward.key";
    "channel_mix_value.weight"       [Ff Embd]           Required Always <- "feed_forward.value";
};

/// A vector, which has additional dimensions of length 1 in checkpoints.
const VECTOR: &str = "1... e -> e";

/// A vector as one of several that are stacked.
const ONE_OF: &str = "1... e -> 1 1 1 e";

/// A transposed matrix.
const TRANSPOSED: &str = "i o -> o i";

const GATE: &[Row] = rows! {
    "time_mix_g1.weight"             [Embd GATE_LORA]     Required WITH_GATE <- "attention.g_lora.lora.0";
    "time_mix_g1.weight"             [Embd GATE_LORA]     Required WITH_GATE <- "attention.g1" : TRANSPOSED;
    "time_mix_g2.weight"             [GATE_LORA Embd]     Required WITH_GATE <- "attention.g_lora.lora.2";
    "time_mix_g2.weight"             [GATE_LORA Embd]     Required WITH_GATE <- "attention.g2" : TRANSPOSED;
};

const OPTIONAL_GATE: &[Row] = rows! {
    "time_mix_g1.weight"             [Embd GATE_LORA]     Optional WITH_GATE <- "attention.g_lora.lora.0";
    "time_mix_g1.weight"             [Embd GATE_LORA]     Optional WITH_GATE <- "attention.g1" : TRANSPOSED;
    "time_mix_g2.weight"             [GATE_LORA Embd]     Optional WITH_GATE <- "attention.g_lora.lora.2";
    "time_mix_g2.weight"             [GATE_LORA Embd]     Optional WITH_GATE <- "attention.g2" : TRANSPOSED;
};

const TIME: &[Row] = rows! {
    "time_mix_w0.weight"             [Embd]              Required Always
        <- "attention.w_lora.lora.2.bias | attention.w0" : VECTOR;
    "time_mix_w1.weight"             [Embd Decay]        Required Always <- "attention.w_lora.lora.0";
    "time_mix_w1.weight"             [Embd Decay]        Required Always <- "attention.w1" : TRANSPOSED;
    "time_mix_w2.weight"             [Decay Embd]        Required Always <- "attention.w_lora.lora.2";
    "time_mix_w2.weight"             [Decay Embd]        Required Always <- "attention.w2" : TRANSPOSED;
    "time_mix_v0.weight"             [Embd]              Required First
        <- "attention.a_lora.lora.2.bias | attention.a0" : VECTOR;
    "time_mix_v1.weight"             [Embd ICLR]         Required First <- "attention.a_lora.lora.0";
    "time_mix_v1.weight"             [Embd ICLR]         Required First <- "attention.a1" : TRANSPOSED;
    "time_mix_v2.weight"             [ICLR Embd]         Required First <- "attention.a_lora.lora.2";
    "time_mix_v2.weight"             [ICLR Embd]         Required First <- "attention.a2" : TRANSPOSED;
    "time_mix_v0.weight"             [Embd]              Required NotFirst
        <- "attention.v_lora.lora.2.bias | attention.v0" : VECTOR;
    "time_mix_v1.weight"             [Embd VALUE_MIX]     Required NotFirst <- "attention.v_lora.lora.0";
    "time_mix_v1.weight"             [Embd VALUE_MIX]     Required NotFirst <- "attention.v1" : TRANSPOSED;
    "time_mix_v2.weight"             [VALUE_MIX Embd]     Required NotFirst <- "attention.v_lora.lora.2";
    "time_mix_v2.weight"             [VALUE_MIX Embd]     Required NotFirst <- "attention.v2" : TRANSPOSED;
    "time_mix_a0.weight"             [Embd]              Required Always
        <- "attention.a_lora.lora.2.bias | attention.a0" : VECTOR;
    "time_mix_a1.weight"             [Embd ICLR]         Required Always <- "attention.a_lora.lora.0";
    "time_mix_a1.weight"             [Embd ICLR]         Required Always <- "attention.a1" : TRANSPOSED;
    "time_mix_a2.weight"             [ICLR Embd]         Required Always <- "attention.a_lora.lora.2";
    "time_mix_a2.weight"             [ICLR Embd]         Required Always <- "attention.a2" : TRANSPOSED;
    "time_mix_lerp_fused.weight"     [Embd "1" "1" "6"]  Required WITH_GATE
        <- "attention.x_r + attention.x_w + attention.x_k + attention.x_v + attention.x_a + attention.x_g" : ONE_OF;
    "time_mix_lerp_fused.weight"     [Embd "1" "1" "5"] Required "attention.gate_lora_rank == 0"
        <- "attention.x_r + attention.x_w + attention.x_k + attention.x_v + attention.x_a" : ONE_OF;
    "time_mix_lerp_fused.weight"     [Embd "1" "1" "6"]  Required WITH_GATE <- "attention.x_x" : "n 1... e -> n 1 1 e";
    "time_mix_lerp_fused.weight"     [Embd "1" "1" "5"] Required "attention.gate_lora_rank == 0" <- "attention.x_x" : "n 1... e -> n 1 1 e";
    "time_mix_k_k.weight"            [Embd]              Required Always <- "attention.k_k" : VECTOR;
    "time_mix_k_a.weight"            [Embd]              Required Always <- "attention.k_a" : VECTOR;
    "time_mix_r_k.weight"            [Embd]              Required Always <- "attention.r_k" : "1... a b -> (a b)";
    "time_mix_key.weight"            [Embd Embd]         Required Always <- "attention.k_proj | attention.key";
    "time_mix_value.weight"          [Embd Embd]         Required Always <- "attention.v_proj | attention.value";
    "time_mix_receptance.weight"     [Embd Embd]         Required Always <- "attention.r_proj | attention.receptance";
    "time_mix_output.weight"         [Embd Embd]         Required Always <- "attention.o_proj | attention.output";
};

const TIME_NORM: &[Row] = rows! {
    "time_mix_ln.weight"             [Embd]              Required Always + Required <- "attention.ln_x";
};

const OPTIONAL_TIME_NORM: &[Row] = rows! {
    "time_mix_ln.weight"             [Embd]              Optional Always + Optional <- "attention.ln_x";
};
