//! Nemotron-H: blocks of one kind each, Mamba 2, attention, or a feed-forward part, with or without experts.
//!
//! Rules: `load_arch_tensors` in `src/models/nemotron-h.cpp` of llama.cpp, `NemotronHModel` in
//! `conversion/nemotron.py`. The MTP block is stored as two blocks in a checkpoint.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["nemotron_h", "nemotron_h_moe"],
    required: &[
        TRANSFORMER_KEYS,
        LAYER_NORM_KEYS,
        &[
            keys::SSM_CONV_KERNEL,
            keys::SSM_INNER_SIZE,
            keys::SSM_STATE_SIZE,
            keys::SSM_TIME_STEP_RANK,
            keys::SSM_GROUP_COUNT,
        ],
    ],
    optional: &[
        keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
        keys::EXPERT_FEED_FORWARD_LENGTH,
        keys::EXPERT_SHARED_COUNT,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::MOE_LATENT_SIZE,
    ],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[
        Checkpoint {
            when: "num_experts_per_tok|null",
            name: "nemotron_h_moe",
            keys: &[
                FIELDS,
                MTP_BLOCK,
                GRANITE_FIELDS,
                GENERIC,
                GRANITE_KEYS,
                STATE_SPACE,
                super::granite_hybrid::KEYS,
                EXPERT_KEYS,
                PADDED,
            ],
            ..NEMOTRON_H
        },
        Checkpoint {
            keys: &[
                FIELDS,
                GRANITE_FIELDS,
                GENERIC,
                GRANITE_KEYS,
                STATE_SPACE,
                super::granite_hybrid::KEYS,
                KEYS,
                PADDED,
            ],
            ..NEMOTRON_H
        },
        Checkpoint {
            classes: &["NemotronHPuzzleForCausalLM"],
            name: "nemotron_h_moe",
            refuse: &[
                (
                    "hybrid_override_pattern and len(hybrid_override_pattern) != len(block_configs)",
                    "a hybrid_override_pattern of another length than block_configs",
                ),
                UNEVEN_STATE,
            ],
            names: &TensorNames { appended: &[], skip: &[("mtp.*", "")], ..*NEMOTRON_H.names },
            keys: &[
                PUZZLE_FIELDS,
                GRANITE_FIELDS,
                GENERIC,
                GRANITE_KEYS,
                STATE_SPACE,
                super::granite_hybrid::KEYS,
                PUZZLE_KEYS,
                PADDED,
            ],
            separates_mtp: false,
            ..NEMOTRON_H
        },
    ],
};

const NEMOTRON_H: Checkpoint = Checkpoint {
    classes: &["NemotronHForCausalLM"],
    separates_mtp: true,
    names: &TensorNames {
        roots: &["backbone.", "model."],
        appended: &[
            ("mtp.layers.0.", "layers.{}."),
            ("mtp.layers.1.norm.", "layers.{}.post_attention_layernorm."),
            ("mtp.layers.1.final_layernorm.", "layers.{}.shared_head.norm."),
            ("mtp.layers.1.", "layers.{}."),
        ],
        ..TensorNames::TEXT
    },
    refuse: &[
        (
            "(hybrid_override_pattern or layers_block_type)
                and len(hybrid_override_pattern or layers_block_type) != (len(layers_block_type) if layers_block_type != null else block_count)",
            "a hybrid_override_pattern of another length than num_hidden_layers",
        ),
        (
            "num_experts_per_tok and @mtp != 'left_out' and (num_nextn_predict_layers or 0) > 1",
            "more than one MTP block (num_nextn_predict_layers)",
        ),
        UNEVEN_STATE,
    ],
    ..Checkpoint::TEXT
};

/// Heads of the state space that do not fill it.
const UNEVEN_STATE: (&str, &str) = (
    "(hidden_act ?? 'silu') != 'silu'
        or ((num_heads|mamba_num_heads) * (mamba_head_dim|hidden_size|d_model)) % (d_head|mamba_d_head or 64) != 0",
    "a hidden_act other than silu, or a state space that is not a multiple of d_head or 64 elements",
);

const FIELDS: &[Key] = keys! {
    let own_head_dim = "head_dim|attention_head_dim";
    let blocks = "hybrid_override_pattern or layers_block_type";
    let is_attention = "[blocks[i] in ['*', 'attention', 'full_attention'] for i]";
    let is_ffn = "[blocks[i] in (['E', 'moe'] if num_experts_per_tok else ['-', 'moe']) for i]";
};

/// The last block has attention and experts.
const MTP_BLOCK: &[Key] = keys! {
    let num_nextn_predict_layers = "null if @mtp == 'left_out' else num_nextn_predict_layers";
    let block_count = "block_count + (num_nextn_predict_layers or 0)";
    let is_attention = "is_attention + [true] * (num_nextn_predict_layers or 0)";
    let is_ffn = "is_ffn + [true] * (num_nextn_predict_layers or 0)";
};

const STATE_SPACE: &[Key] = keys! {
    let inner = "(num_heads|mamba_num_heads) * (mamba_head_dim|hidden_size|d_model)";
    let has_rope = "false";
};

const KEYS: &[Key] = keys! {
    "attention.key_length" U32 = "own_head_dim";
    "attention.value_length" U32 = "own_head_dim";
    "feed_forward_length" U32 = "[required(intermediate_size|n_inner|hidden_dim) if f else 0 for f in is_ffn]";
};

const EXPERT_KEYS: &[Key] = keys! {
    "attention.key_length" U32 = "own_head_dim";
    "attention.value_length" U32 = "own_head_dim";
    "feed_forward_length" U32 = "[moe_intermediate_size if f else 0 for f in is_ffn]";
    "expert_used_count" U32 = "num_experts_per_tok";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32 = "moe_shared_expert_intermediate_size";
    "expert_count" U32 = "n_routed_experts";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_norm" Bool = "norm_topk_prob";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_group_count" U32 = "n_group";
    "moe_latent_size" U32? = "moe_latent_size";
    "nextn_predict_layers" U32? = "num_nextn_predict_layers or null";
};

/// Numbers of experts per block.
const PUZZLE_FIELDS: &[Key] = keys! {
    let own_head_dim = "head_dim|attention_head_dim";
    let num_hidden_layers = "len(block_configs)";
    let block_count = "len(block_configs)";
    let is_attention = "[b.block_type in ['attention', 'full_attention'] for b in block_configs]";
};

const PUZZLE_KEYS: &[Key] = keys! {
    "attention.key_length" U32 = "own_head_dim";
    "attention.value_length" U32 = "own_head_dim";
    "feed_forward_length" U32 = "[b.moe_intermediate_size or 0 for b in block_configs]";
    "expert_feed_forward_length" U32 = "[b.moe_intermediate_size or 0 for b in block_configs]";
    "expert_used_count" U32 = "[b.num_experts_per_tok or 0 for b in block_configs]";
    "expert_shared_feed_forward_length" U32 = "moe_shared_expert_intermediate_size";
    "expert_count" U32 = "n_routed_experts";
    "expert_shared_count" U32 = "n_shared_experts";
    "expert_weights_norm" Bool = "norm_topk_prob";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_group_count" U32 = "n_group";
    "moe_latent_size" U32 = "moe_latent_size";
};

const PADDED: &[Key] = keys! {
    let vocab_size = "(vocab_size + 7) // 8 * 8";
};

/// Blocks of a state space: neither heads of keys nor a feed-forward part.
const SPACE: When = when!("not is_mtp and not attention.head_count_kv and not feed_forward_length");

/// Blocks of heads without a feed-forward part, and MTP blocks.
const HEADS: When = when!("is_mtp or attention.head_count_kv and not feed_forward_length");

/// Blocks of a feed-forward part without experts.
const FF_DENSE: When = when!("not is_mtp and feed_forward_length and not expert_count");

/// Blocks of a feed-forward part with experts, and MTP blocks.
const FF_EXPERTS: When = when!("is_mtp or feed_forward_length and expert_count");

/// Width of the hidden state inside the experts of Nemotron-H.
const MOE_LATENT: Dim = dim!("moe_latent_size or embedding_length");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"          [Embd Vocab]         Required Always <- "embeddings";
    "output_norm.weight"         [Embd]               Required Always <- "norm_f";
    "output.weight"              [Embd Vocab]         Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]               Required Always <- "norm";
    "ssm_in.weight"              [Embd SsmIn]         Required SPACE <- "mixer.in_proj";
    "ssm_conv1d.weight"          [SsmConv SsmConvIn]  Required SPACE <- "mixer.conv1d" : "c 1 k -> c k";
    "ssm_conv1d.bias"            [SsmConvIn]          Optional SPACE <- "mixer.conv1d.bias";
    "ssm_dt.bias"                [SsmRank]            Required SPACE <- "mixer.dt_bias";
    "ssm_a"                      ["1" SsmRank]        Required SPACE <- "mixer.A_log" : "r -> r 1", Map::NegExp;
    "ssm_d"                      ["1" SsmRank]        Required SPACE <- "mixer.D" : "r -> r 1";
    "ssm_norm.weight"            [SsmGroup SsmGroups] Required SPACE <- "mixer.norm" : "(SsmGroups i) -> SsmGroups i";
    "ssm_out.weight"             [SsmInner Embd]      Required SPACE <- "mixer.out_proj";
    "attn_qkv.weight"            [Embd Qkv]           Optional    HEADS + Optional;
    "attn_q.weight"              [Embd Q]             UnlessFused HEADS + Optional <- "mixer.q_proj" : ROPE_Q;
    "attn_k.weight"              [Embd K]             UnlessFused HEADS + Optional <- "mixer.k_proj" : ROPE_K;
    "attn_v.weight"              [Embd V]             UnlessFused HEADS + Optional <- "mixer.v_proj";
    "attn_output.weight"         [Q Embd]             Required    HEADS + Optional <- "mixer.o_proj";
    "ffn_up.weight"              [Embd Ff]            Required FF_DENSE + Optional <- "mixer.up_proj";
    "ffn_down.weight"            [Ff Embd]            Required FF_DENSE + Optional <- "mixer.down_proj";
    "ffn_gate_inp.weight"        [Embd Experts]       Required FF_EXPERTS <- "mixer.gate";
    "exp_probs_b.bias"           [Experts]            Required FF_EXPERTS <- "mixer.gate.e_score_correction.bias";
    "ffn_latent_down.weight"     [Embd MOE_LATENT]     Optional FF_EXPERTS <- "mixer.fc1_latent_proj";
    "ffn_latent_up.weight"       [MOE_LATENT Embd]     Optional FF_EXPERTS <- "mixer.fc2_latent_proj";
    "ffn_down_exps.weight"       [UsedFf MOE_LATENT Experts] Required FF_EXPERTS <- "mixer.experts.{x}.down_proj";
    "ffn_up_exps.weight"         [MOE_LATENT UsedFf Experts] Required FF_EXPERTS <- "mixer.experts.{x}.up_proj";
    "ffn_down_shexp.weight"      [SharedFf Embd]      Required FF_EXPERTS <- "mixer.shared_experts.down_proj";
    "ffn_up_shexp.weight"        [Embd SharedFf]      Required FF_EXPERTS <- "mixer.shared_experts.up_proj";
    "post_attention_norm.weight" [Embd]               Required Mtp <- "post_attention_layernorm";
    "nextn.eh_proj.weight"       [TwiceEmbd Embd]     Required Mtp <- "eh_proj";
    "nextn.enorm.weight"         [Embd]               Required Mtp <- "enorm";
    "nextn.hnorm.weight"         [Embd]               Required Mtp <- "hnorm";
    "nextn.shared_head_norm.weight" [Embd]            Required Mtp <- "shared_head.norm";
};
