//! Kimi Linear: delta attention in most blocks, latent attention in the others, and experts after the first blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/kimi-linear.cpp` of llama.cpp, `KimiLinearModel` in
//! `conversion/kimi_linear.py`. Blocks with delta attention have a key-value head count of 0.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["kimi-linear"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, LATENT_AND_DELTA_KEYS],
    optional: &[keys::EXPERT_WEIGHTS_SCALE, keys::LEADING_DENSE_BLOCK_COUNT],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[
        NORMS,
        DELTA_ATTENTION,
        DELTA_GATES,
        DELTA_DECAY,
        FULL_ATTENTION,
        GATED_FFN,
        ROUTER_W,
        EXPERTS_W,
        SHARED_EXPERTS_W,
    ],
    checkpoints: &[Checkpoint {
        classes: &["KimiLinearForCausalLM", "KimiLinearModel"],
        keys: &[FIELDS, GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::KIMI, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

/// Keys required by both Kimi architectures with delta attention.
pub(super) const LATENT_AND_DELTA_KEYS: &[&str] = &[
    keys::ATTENTION_KEY_LENGTH_MLA,
    keys::ATTENTION_VALUE_LENGTH_MLA,
    keys::ATTENTION_KV_LORA_RANK,
    keys::SSM_CONV_KERNEL,
    keys::KDA_HEAD_DIM,
    keys::EXPERT_FEED_FORWARD_LENGTH,
    keys::EXPERT_SHARED_COUNT,
    keys::EXPERT_GATING_FUNC,
];

/// A single key-value head.
pub(super) const FIELDS: &[Key] = keys! {
    let num_key_value_heads = "1";
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "attention.head_count_kv" U32 = "[1 if i + 1 in linear_attn_config.full_attn_layers else 0 for i]";
    "ssm.conv_kernel" U32? = "linear_attn_config.short_conv_kernel_size";
    "kda.head_dim" U32? = "linear_attn_config.head_dim";
    "attention.q_lora_rank" U32? = "q_lora_rank|n_lora_q";
    let kv_lora_rank = "kv_lora_rank|n_lora_kv";
    let qk_rope_head_dim = "qk_rope_head_dim|n_rot";
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "attention.key_length" U32 = "kv_lora_rank + qk_rope_head_dim";
    "attention.key_length_mla" U32? = "n_embd_head_k_mla ?? (null if qk_nope_head_dim == null else qk_nope_head_dim + qk_rope_head_dim)";
    "attention.value_length_mla" U32? = "n_embd_head_v_mla ?? v_head_dim";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_count" U32 = "num_shared_experts";
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "expert_weights_scale" F32 = "routed_scaling_factor";
};

/// As [`Dim::SharedExpertsFf`], where llama.cpp takes no shared experts for one.
const ONE_OR_MORE_EXPERTS_FF: Dim = dim!("expert_feed_forward_length * max(expert_shared_count, 1)");

/// The parts common to all models with delta attention.
pub(super) const DELTA_ATTENTION: &[Row] = rows! {
    "attn_qkv.weight"      [Embd "3 * attention.head_count * kda.head_dim"] Optional Recurrent + Optional;
    "attn_q.weight"        [Embd KdaInner]   UnlessFused Recurrent + Optional <- "self_attn.q_proj | attention.q_proj";
    "attn_k.weight"        [Embd KdaInner]   UnlessFused Recurrent + Optional <- "self_attn.k_proj | attention.k_proj";
    "attn_v.weight"        [Embd KdaInner]   UnlessFused Recurrent + Optional <- "self_attn.v_proj | attention.v_proj";
    "ssm_conv1d_q.weight"  [SsmConv "1" KdaInner] Required Recurrent <- "self_attn.q_conv1d | attention.q_conv1d" : CONVOLUTION;
    "ssm_conv1d_k.weight"  [SsmConv "1" KdaInner] Required Recurrent <- "self_attn.k_conv1d | attention.k_conv1d" : CONVOLUTION;
    "ssm_conv1d_v.weight"  [SsmConv "1" KdaInner] Required Recurrent <- "self_attn.v_conv1d | attention.v_conv1d" : CONVOLUTION;
    "ssm_beta.weight"      [Embd Heads]      Required Recurrent <- "self_attn.b_proj | attention.b_proj";
    "ssm_dt.bias"          [KdaInner]        Required Recurrent <- "self_attn.dt_bias | attention.dt_bias";
    "ssm_norm.weight"      [KdaHead]         Required Recurrent <- "self_attn.o_norm | attention.o_norm";
    "attn_output.weight"   [KdaInner Embd]   Required Recurrent <- "self_attn.o_proj | attention.o_proj";
};

/// With or without a middle dimension of length 1.
const CONVOLUTION: &str = "c 1... k -> 1 c 1 k";

/// Low-rank projections of decay and gate.
pub(super) const DELTA_GATES: &[Row] = rows! {
    "ssm_f_a.weight"       [Embd KdaHead]    Required Recurrent <- "self_attn.f_a_proj";
    "ssm_f_b.weight"       [KdaHead KdaInner] Required Recurrent <- "self_attn.f_b_proj";
    "ssm_g_a.weight"       [Embd KdaHead]    Required Recurrent <- "self_attn.g_a_proj";
    "ssm_g_b.weight"       [KdaHead KdaInner] Required Recurrent <- "self_attn.g_b_proj";
};

const DELTA_DECAY: &[Row] = rows! {
    "ssm_a"                ["1" Heads]       Required Recurrent <- "self_attn.A_log", Map::NegExp;
};

/// Latent attention of the blocks without delta attention.
pub(super) const FULL_ATTENTION: &[Row] = rows! {
    "attn_q.weight"        [Embd MlaQ]       Required AttentionNoQLora <- "self_attn.q_proj";
    "attn_q_a.weight"      [Embd QLora]      Required AttentionQLora <- "self_attn.q_a_proj";
    "attn_q_a_norm.weight" [QLora]           Required AttentionQLora <- "self_attn.q_a_layernorm";
    "attn_q_b.weight"      [QLora MlaQ]      Required AttentionQLora <- "self_attn.q_b_proj";
    "attn_kv_a_mqa.weight" [Embd KvLoraRot]  Required Attention <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KvLora]         Required Attention <- "self_attn.kv_a_layernorm";
    "attn_k_b.weight"      [MlaNope KvLora Heads] UnlessFused Attention <- "self_attn.kv_b_proj" : "(h s[:MlaNope]) e -> h e s";
    "attn_v_b.weight"      [KvLora MlaHeadV Heads] UnlessFused Attention <- "self_attn.kv_b_proj" : "(h s[MlaNope:]) e -> h s e";
    "attn_kv_b.weight"     [KvLora LatentKv] Optional Attention;
    "attn_output.weight"   [MlaV Embd]       Required Attention <- "self_attn.o_proj";
};

/// The router, and the bias added to its scores for expert selection.
pub(super) const ROUTER_W: &[Row] = rows! {
    "ffn_gate_inp.weight"   [Embd Experts]          Required Experts <- "block_sparse_moe.gate";
    "exp_probs_b.bias"      [Experts]               Required Experts <- "block_sparse_moe.gate.e_score_correction.bias";
};

const EXPERTS_W: &[Row] = rows! {
    "ffn_gate_exps.weight"  [Embd ExpertFf Experts] Required Experts <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight"  [ExpertFf Embd Experts] Required Experts <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"    [Embd ExpertFf Experts] Required Experts <- "block_sparse_moe.experts.{x}.w3";
};

/// Shared experts.
pub(super) const SHARED_EXPERTS_W: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd ONE_OR_MORE_EXPERTS_FF] Optional Experts <- "block_sparse_moe.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd ONE_OR_MORE_EXPERTS_FF] Optional Experts <- "block_sparse_moe.shared_experts.up_proj";
    "ffn_down_shexp.weight" [ONE_OR_MORE_EXPERTS_FF Embd] Optional Experts <- "block_sparse_moe.shared_experts.down_proj";
};
