//! Kimi K3: delta attention in most blocks, gated latent attention in the others, experts with a narrow hidden state,
//! and attention-weighted residuals from earlier blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/kimi-k3.cpp` of llama.cpp, `KimiK3Model` in `conversion/kimi_k3.py`.
//! llama.cpp reads the product of the two vectors that score residuals.

use super::kimi_linear::{DELTA_ATTENTION, FIELDS, FULL_ATTENTION, LATENT_AND_DELTA_KEYS, ROUTER_W, SHARED_EXPERTS_W};
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["kimi-k3"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        LATENT_AND_DELTA_KEYS,
        &[keys::ATTN_RES_BLOCK_SIZE, keys::ACTIVATION_SITU_BETA, keys::ACTIVATION_SITU_LINEAR_BETA],
    ],
    optional: &[
        keys::ATTENTION_Q_LORA_RANK,
        keys::EXPERT_LATENT_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::KDA_GATE_LOWER_BOUND,
        keys::LEADING_DENSE_BLOCK_COUNT,
    ],
    outside: &[UNTIED_EMBEDDINGS, OUTSIDE],
    block: &[
        NORMS,
        RESIDUALS,
        DELTA_ATTENTION,
        DELTA,
        FULL_ATTENTION,
        GATE,
        GATED_FFN,
        ROUTER_W,
        LATENT_EXPERTS,
        SHARED_EXPERTS_W,
    ],
    checkpoints: &[Checkpoint {
        classes: &["KimiK3ForConditionalGeneration"],
        keys: &[FIELDS, GENERIC, KEYS],
        refuse: &[
            ("not (mla_use_nope|false)", "latent attention with rotated positions (mla_use_nope is false)"),
            ("moe_router_activation_func != 'sigmoid'", "a moe_router_activation_func other than sigmoid"),
            ("hidden_act != 'situ'", "a hidden_act other than situ"),
        ],
        tokenizer: &Tokenizer { vocab: Vocab::KIMI, keys: &[TOKENIZER], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

/// The end-of-turn token, and the chat template unless the tokenizer files have one.
const TOKENIZER: &[Key] = keys! {
    "tokenizer.ggml.eos_token_id" U32? = "eos_token_id";
    "tokenizer.chat_template" Str? = "null if @has_chat_template else template('kimi-k3')";
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "attention.head_count_kv" U32 = "[1 if i + 1 in linear_attn_config.full_attn_layers else 0 for i]";
    "ssm.conv_kernel" U32 = "linear_attn_config.short_conv_kernel_size";
    "kda.head_dim" U32 = "linear_attn_config.head_dim";
    "kda.gate_lower_bound" F32? = "linear_attn_config.gate_lower_bound";
    "attention.q_lora_rank" U32? = "q_lora_rank";
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "attention.key_length" U32 = "kv_lora_rank + qk_rope_head_dim";
    "attention.value_length" U32 = "kv_lora_rank";
    "attention.key_length_mla" U32 = "qk_nope_head_dim + qk_rope_head_dim";
    "attention.value_length_mla" U32 = "v_head_dim";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_count" U32 = "num_shared_experts";
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "moe_renormalize";
    "expert_gating_func" U32 = "2";
    "expert_latent_length" U32? = "routed_expert_hidden_size";
    "activation.situ_beta" F32 = "activation_situ_beta";
    "activation.situ_linear_beta" F32 = "activation_situ_linear_beta";
    "attn_res.block_size" U32 = "attn_res_block_size";
};

/// Width of the hidden state inside the experts.
const EXPERT_LATENT: Dim = dim!("expert_latent_length or embedding_length");

/// Blocks with experts of a width of their own.
const WITH_LATENT: When = when!("has_experts and expert_latent_length");

const OUTSIDE: &[Row] = rows! {
    "output_res_score.weight" [Embd] Required Always <- "output_attn_res_norm * output_attn_res_proj";
};

const RESIDUALS: &[Row] = rows! {
    "attn_res_score.weight"   [Embd] Required Always <- "self_attention_res_norm * self_attention_res_proj";
    "ffn_res_score.weight"    [Embd] Required Always <- "mlp_res_norm * mlp_res_proj";
};

const DELTA: &[Row] = rows! {
    "ssm_f_a.weight"        [Embd KdaHead]     Required Recurrent <- "self_attn.f_a_proj";
    "ssm_f_b.weight"        [KdaHead KdaInner] Required Recurrent <- "self_attn.f_b_proj";
    "ssm_g.weight"          [Embd KdaInner]    Required Recurrent <- "self_attn.g_proj";
    "ssm_a"                 [Heads]            Required Recurrent <- "self_attn.A_log" : "a[:h] -> a", Map::NegExp;
};

const GATE: &[Row] = rows! {
    "attn_gate.weight"      [Embd MlaV]        Optional Attention <- "self_attn.g_proj";
};

const LATENT_EXPERTS: &[Row] = rows! {
    "ffn_routed_down.weight" [Embd EXPERT_LATENT]             Required WITH_LATENT <- "block_sparse_moe.routed_expert_down_proj";
    "ffn_routed_up.weight"   [EXPERT_LATENT Embd]             Required WITH_LATENT <- "block_sparse_moe.routed_expert_up_proj";
    "ffn_routed_norm.weight" [EXPERT_LATENT]                  Optional WITH_LATENT <- "block_sparse_moe.routed_expert_norm";
    "ffn_gate_exps.weight"   [EXPERT_LATENT ExpertFf Experts] Required Experts <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight"   [ExpertFf EXPERT_LATENT Experts] Required Experts <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"     [EXPERT_LATENT ExpertFf Experts] Required Experts <- "block_sparse_moe.experts.{x}.w3";
};
