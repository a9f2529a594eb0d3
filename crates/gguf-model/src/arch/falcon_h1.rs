//! Falcon-H1: parallel attention and Mamba 2 in every block, with multipliers that conversion folds into the weights.
//!
//! Rules: `load_arch_tensors` in `src/models/falcon-h1.cpp` of llama.cpp, `FalconH1Model` in `conversion/falcon_h1.py`, which reads
//! `config.json` without the defaults of its class. The norm before the feed-forward part has no suffix.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["falcon-h1"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::SSM_CONV_KERNEL,
            keys::SSM_INNER_SIZE,
            keys::SSM_STATE_SIZE,
            keys::SSM_TIME_STEP_RANK,
            keys::SSM_GROUP_COUNT,
        ],
    ],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["FalconH1ForCausalLM"],
        refuse: &[
            ("(hidden_act ?? 'silu') != 'silu'", "a hidden_act other than silu"),
            (
                "(mamba_d_ssm|intermediate_size|d_inner) % (d_head|mamba_d_head or 1) != 0",
                "a state space that is not a multiple of mamba_d_head elements",
            ),
        ],
        keys: &[KEYS],
        is_raw: true,
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let inner = "mamba_d_ssm|intermediate_size|d_inner";
    "context_length" U32 = "max_position_embeddings|0";
    "embedding_length" U32 = "hidden_size|d_model|dim";
    "feed_forward_length" U32 = "intermediate_size";
    "attention.head_count" U32 = "num_attention_heads";
    "block_count" U32 = "block_count";
    "ssm.conv_kernel" U32 = "conv_kernel|d_conv|mamba_conv_kernel|mamba_d_conv or 4";
    "ssm.inner_size" U32 = "inner";
    "ssm.state_size" U32 = "state_size|d_state|mamba_state_size|mamba_d_state or 128";
    "ssm.time_step_rank" U32 = "inner // (mamba_d_head|head_dim or 64)";
    "ssm.group_count" U32 = "n_groups|mamba_n_groups or 1";
    "attention.layer_norm_rms_epsilon" F32 = "layer_norm_epsilon|rms_norm_eps or 1e-5";
    "general.file_type" U32 = "@file_type";
    "vocab_size" U32 = "vocab_size";
    "attention.head_count_kv" U32 = "num_key_value_heads";
    "attention.key_length" U32 = "head_dim";
    "attention.value_length" U32 = "head_dim";
    "rope.freq_base" F32 = "rope_all.rope_theta";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]         Required Always <- "embed_tokens", Map::ScaleBy("embedding_multiplier");
    "output_norm.weight" [Embd]               Required Always <- "final_layernorm";
    "output.weight"      [Embd Vocab]         Optional Always <- "lm_head", Map::ScaleBy("lm_head_multiplier");
};

/// Gate, values, input and output projections, and time steps have separate multipliers.
const PARTS: Map = Map::ScaleRowsBy(
    "[[mamba_d_ssm, ssm_multipliers[0]], [mamba_d_ssm, ssm_multipliers[1]],
      [mamba_n_groups * mamba_d_state, ssm_multipliers[2]], [mamba_n_groups * mamba_d_state, ssm_multipliers[3]],
      [mamba_n_heads, ssm_multipliers[4]]]",
);

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]               Required Always <- "input_layernorm";
    "attn_qkv.weight"    [Embd Qkv]           Optional Always + Optional;
    "attn_q.weight"      [Embd Q]             UnlessFused Always + Optional <- "self_attn.q_proj", Map::ScaleBy("attention_in_multiplier");
    "attn_k.weight"      [Embd K]             UnlessFused Always + Optional <- "self_attn.k_proj",
        Map::ScaleBy("key_multiplier"), Map::ScaleBy("attention_in_multiplier");
    "attn_v.weight"      [Embd V]             UnlessFused Always + Optional <- "self_attn.v_proj", Map::ScaleBy("attention_in_multiplier");
    "attn_output.weight" [Q Embd]             Required Always + Optional <- "self_attn.o_proj", Map::ScaleBy("attention_out_multiplier");
    "ssm_in.weight"      [Embd SsmIn]         Required Always <- "mamba.in_proj", Map::ScaleBy("ssm_in_multiplier"), PARTS;
    "ssm_conv1d.weight"  [SsmConv SsmConvIn]  Required Always <- "mamba.conv1d" : "c 1 k -> c k";
    "ssm_conv1d.bias"    [SsmConvIn]          Optional Always <- "mamba.conv1d.bias";
    "ssm_dt.bias"        [SsmRank]            Required Always <- "mamba.dt_bias";
    "ssm_a"              ["1" SsmRank]        Required Always <- "mamba.A_log" : "r -> r 1", Map::NegExp;
    "ssm_d"              ["1" SsmRank]        Required Always <- "mamba.D" : "r -> r 1";
    "ssm_norm.weight"    [SsmGroup SsmGroups] Optional Always <- "mamba.norm" : "(SsmGroups i) -> SsmGroups i";
    "ssm_out.weight"     [SsmInner Embd]      Required Always <- "mamba.out_proj", Map::ScaleBy("ssm_out_multiplier");
    "ffn_norm"           [Embd]               Required Always <- "pre_ff_layernorm";
    "ffn_gate.weight"    [Embd Ff]            Required Always + Optional <- "feed_forward.gate_proj", Map::ScaleBy("mlp_multipliers[0]");
    "ffn_up.weight"      [Embd Ff]            Required Always + Optional <- "feed_forward.up_proj";
    "ffn_down.weight"    [Ff Embd]            Required Always + Optional <- "feed_forward.down_proj", Map::ScaleBy("mlp_multipliers[1]");
};
