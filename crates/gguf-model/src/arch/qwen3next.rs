//! Qwen3-Next and Qwen 3.5: linear attention in three of four blocks, gated attention in the fourth, and an MTP block.
//!
//!
//! Rules: `load_arch_tensors` in `src/models/qwen3next.cpp`, `qwen35.cpp` and `qwen35moe.cpp` of llama.cpp,
//! `Qwen3NextModel` and `_LinearAttentionVReorderBase` in `conversion/qwen.py`. Checkpoints group value heads by their
//! key head; llama.cpp's Qwen 3.5 stores the first value head of every group first, then the second of every group.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen3next"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, LINEAR_KEYS],
    optional: &[
        keys::ATTENTION_RECURRENT_LAYERS,
        keys::EXPERT_FEED_FORWARD_LENGTH,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
    ],
    outside: &[OUTSIDE],
    block: &[NORMS_PLUS_ONE, BLOCK, ONE_MATRIX, QWEN_EXPERTS, QWEN_GATE_UP_EXPERTS, QWEN_SHARED_EXPERT, MTP_PLUS_ONE],
    checkpoints: &[Checkpoint { classes: &["Qwen3NextForCausalLM"], keys: KEYS_IN_ORDER, ..QWEN_NEXT }],
};

/// Qwen 3.5 without experts.
pub(super) const QWEN35: Architecture = Architecture {
    names: &["qwen35"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, LINEAR_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
    optional: &[keys::ATTENTION_RECURRENT_LAYERS],
    outside: &[OUTSIDE],
    block: &[NORMS_PLUS_ONE, BLOCK, APART, GATED_FFN, MTP_PLUS_ONE],
    checkpoints: &[
        Checkpoint {
            classes: &["Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"],
            keys: KEYS_IN_ORDER,
            ..QWEN_NEXT
        },
        Checkpoint {
            classes: &["MiniCPMV4_6ForConditionalGeneration"],
            names: &TensorNames { skip: &[("mtp.*", ""), ("merger.*", "")], appended: &[], ..*QWEN_NEXT.names },
            keys: &[GENERIC, EXPERT_WIDTHS, KEYS, SECTIONS],
            ..QWEN_NEXT
        },
    ],
};

/// Qwen 3.5 with experts.
pub(super) const QWEN35_MOE: Architecture = Architecture {
    names: &["qwen35moe"],
    optional: &[
        keys::ATTENTION_RECURRENT_LAYERS,
        keys::EXPERT_FEED_FORWARD_LENGTH,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
    ],
    block: &[NORMS_PLUS_ONE, BLOCK, APART, QWEN_EXPERTS, QWEN_GATE_UP_EXPERTS, QWEN_SHARED_EXPERT, MTP_PLUS_ONE],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"],
        keys: KEYS_IN_ORDER,
        ..QWEN_NEXT
    }],
    ..QWEN35
};

pub(super) const LINEAR_KEYS: &[&str] = &[
    keys::SSM_CONV_KERNEL,
    keys::SSM_INNER_SIZE,
    keys::SSM_STATE_SIZE,
    keys::SSM_TIME_STEP_RANK,
    keys::SSM_GROUP_COUNT,
];

const QWEN_NEXT: Checkpoint = Checkpoint {
    refuse: &[(
        "layer_types != null and len(layer_types) != num_hidden_layers",
        "layer_types of another length than num_hidden_layers",
    )],
    separates_mtp: true,
    names: &TensorNames {
        appended: &[
            ("mtp.layers.{}.", "layers.{}."),
            ("mtp.fc.", "layers.{}.eh_proj."),
            ("mtp.pre_fc_norm_embedding.", "layers.{}.enorm."),
            ("mtp.pre_fc_norm_hidden.", "layers.{}.hnorm."),
            ("mtp.norm.", "layers.{}.shared_head.norm."),
        ],
        ..TensorNames::TEXT
    },
    ..Checkpoint::TEXT
};

const KEYS_IN_ORDER: &[&[Key]] = &[FIELDS, GENERIC, EXPERT_WIDTHS, KEYS, SECTIONS];

/// If the configuration lacks the number of MTP blocks, it is derived from tensor names.
const FIELDS: &[Key] = keys! {
    let block_count = "num_hidden_layers + (0 if @mtp == 'left_out' else mtp_num_hidden_layers or @appended_blocks)";
};

pub(super) const KEYS: &[Key] = keys! {
    "nextn_predict_layers" U32? = "block_count - num_hidden_layers or null";
    "ssm.conv_kernel" U32 = "linear_conv_kernel_dim";
    "ssm.state_size" U32 = "linear_key_head_dim";
    "ssm.group_count" U32 = "linear_num_key_heads";
    "ssm.time_step_rank" U32 = "linear_num_value_heads";
    "ssm.inner_size" U32 = "linear_value_head_dim * linear_num_value_heads";
    "attention.recurrent_layers" Bool? = "null if layer_types == null
        else [t == 'linear_attention' for t in layer_types] + [false] * (block_count - num_hidden_layers)";
    "full_attention_interval" U32 = "full_attention_interval|4";
    "rope.dimension_count" U32
        = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.25))";
};

/// Qwen 3.5 has rotary sections even if the configuration does not list them.
pub(super) const SECTIONS: &[Key] = keys! {
    "rope.dimension_sections" I32? = "[11, 11, 10, 0] if linear_num_value_heads and rope_all.mrope_section == null
        and model_type != 'qwen3_next' else null";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"          [Embd Vocab]          Required Always <- "embed_tokens";
    "output_norm.weight"         [Embd]                Required Always <- "norm", Map::Add(1.0);
    "output.weight"              [Embd Vocab]          Optional Always <- "lm_head";
};

const NORMS_PLUS_ONE: &[Row] = rows! {
    "attn_norm.weight"           [Embd]                Required Always <- "input_layernorm", Map::Add(1.0);
    "post_attention_norm.weight" [Embd]                Required Always <- "post_attention_layernorm", Map::Add(1.0);
};

/// Attention with a gated output, and the norm of linear attention.
pub(super) const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"            [Embd "2 * attention.head_count * attention.key_length + attention.head_count_kv * (attention.key_length + attention.value_length)"]       Optional Attention + Optional;
    "attn_q.weight"              [Embd "2 * attention.head_count * attention.key_length"]         UnlessFused Attention + Optional <- "self_attn.q_proj";
    "attn_k.weight"              [Embd K]              UnlessFused Attention + Optional <- "self_attn.k_proj";
    "attn_v.weight"              [Embd V]              UnlessFused Attention + Optional <- "self_attn.v_proj";
    "attn_output.weight"         [Q Embd]              Required Attention <- "self_attn.o_proj";
    "attn_q_norm.weight"         [HeadK]               Required Attention <- "self_attn.q_norm", Map::Add(1.0);
    "attn_k_norm.weight"         [HeadK]               Required Attention <- "self_attn.k_norm", Map::Add(1.0);
    "ssm_norm.weight"            [SsmHeadV]            Required Recurrent <- "linear_attn.norm";
};

/// Fused queries, keys, values and gates, grouped by key head. Old files have them in one matrix.
const ONE_MATRIX: &[Row] = rows! {
    "ssm_in.weight"              [Embd "2 * ssm.inner_size + 2 * ssm.group_count * ssm.state_size"] Optional Recurrent;
    "attn_qkv.weight"            [Embd SsmConvIn]      UnlessFused Recurrent <- "linear_attn.in_proj_qkvz"
        : "(SsmGroups g) ... -> (SsmGroups g[:SsmState]) ... + (SsmGroups g[SsmState:SsmState+SsmState]) ...
            + (SsmGroups g[SsmState+SsmState:SsmState+SsmState+SsmGroup]) ...";
    "attn_gate.weight"           [Embd SsmInner]       UnlessFused Recurrent <- "linear_attn.in_proj_qkvz"
        : "(SsmGroups g) ... -> (SsmGroups g[SsmState+SsmState+SsmGroup:]) ...";
    "ssm_conv1d.weight"          [SsmConv SsmConvIn]   Required Recurrent <- "linear_attn.conv1d" : "c 1 k -> c k";
    "ssm_dt.bias"                [SsmRank]             Required Recurrent <- "linear_attn.dt_bias";
    "ssm_a"                      [SsmRank]             Required Recurrent <- "linear_attn.A_log", Map::NegExp;
    "ssm_ba.weight"              [Embd "2 * ssm.time_step_rank"]   Required Recurrent <- "linear_attn.in_proj_ba";
    "ssm_out.weight"             [SsmInner Embd]       Required Recurrent <- "linear_attn.out_proj";
};

/// Separate matrices, with the value heads reordered.
pub(super) const APART: &[Row] = rows! {
    "attn_qkv.weight"            [Embd SsmConvIn]      Required Recurrent <- "linear_attn.in_proj_qkv"
        : "r[:SsmQk] ... -> r ... & (SsmQk: SsmGroups r SsmHeadV) ... -> (r SsmGroups SsmHeadV) ...";
    "attn_gate.weight"           [Embd SsmInner]       Required Recurrent <- "linear_attn.in_proj_z"
        : "(SsmGroups r SsmHeadV) ... -> (r SsmGroups SsmHeadV) ...";
    "ssm_conv1d.weight"          [SsmConv SsmConvIn]   Required Recurrent <- "linear_attn.conv1d"
        : "r[:SsmQk] 1 k -> r k & (SsmQk: SsmGroups r SsmHeadV) 1 k -> (r SsmGroups SsmHeadV) k";
    "ssm_dt.bias"                [SsmRank]             Required Recurrent <- "linear_attn.dt_bias" : HEADS;
    "ssm_a"                      [SsmRank]             Required Recurrent <- "linear_attn.A_log" : HEADS, Map::NegExp;
    "ssm_alpha.weight"           [Embd SsmRank]        Required Recurrent <- "linear_attn.in_proj_a" : HEADS;
    "ssm_beta.weight"            [Embd SsmRank]        Required Recurrent <- "linear_attn.in_proj_b" : HEADS;
    "ssm_out.weight"             [SsmInner Embd]       Required Recurrent <- "linear_attn.out_proj"
        : "e (SsmGroups r SsmHeadV) -> e (r SsmGroups SsmHeadV)";
};

/// Reorders heads: the first head of every group, then the second of every group.
const HEADS: &str = "(SsmGroups r) ... -> (r SsmGroups) ...";

const MTP_PLUS_ONE: &[Row] = rows! {
    "nextn.eh_proj.weight"          [TwiceEmbd Embd]   Required Mtp <- "eh_proj";
    "nextn.enorm.weight"            [Embd]             Required Mtp <- "enorm", Map::Add(1.0);
    "nextn.hnorm.weight"            [Embd]             Required Mtp <- "hnorm", Map::Add(1.0);
    "nextn.embed_tokens.weight"     [Embd Vocab]       Optional Mtp <- "embed_tokens";
    "nextn.shared_head_head.weight" [Embd Vocab]       Optional Mtp <- "shared_head.head";
    "nextn.shared_head_norm.weight" [Embd]             Optional Mtp <- "shared_head.norm", Map::Add(1.0);
};
