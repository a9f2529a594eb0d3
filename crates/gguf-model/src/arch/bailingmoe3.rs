//! Ling 3.0 (Bailing): delta attention in most blocks, latent attention with a gate for each head in the others, and MTP blocks.
//!
//!
//! Rules: `load_arch_tensors` in `src/models/bailingmoe3.cpp` of llama.cpp, `BailingMoeV3Model` and `BailingMoeV3VLModel` in
//! `conversion/bailingmoe3.py`.

use super::kimi_linear::DELTA_ATTENTION;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["bailingmoe3"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::ATTENTION_KEY_LENGTH_MLA,
            keys::ATTENTION_VALUE_LENGTH_MLA,
            keys::ATTENTION_KV_LORA_RANK,
            keys::SSM_CONV_KERNEL,
            keys::KDA_HEAD_DIM,
            keys::KDA_SAFE_GATE,
            keys::KDA_GATE_LOWER_BOUND,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::EXPERT_SHARED_COUNT,
            keys::LEADING_DENSE_BLOCK_COUNT,
            keys::EXPERT_GATING_FUNC,
        ],
    ],
    optional: &[
        keys::ATTENTION_Q_LORA_RANK,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::ROPE_DIMENSION_SECTIONS,
        keys::SWIGLU_CLAMP_EXP,
        keys::SWIGLU_CLAMP_SHEXP,
    ],
    outside: &[OUTSIDE],
    block: &[NORMS, DELTA_ATTENTION, BLOCK, GATED_FFN, EXPERTS, SHARED_EXPERT, NEXT],
    checkpoints: &[
        Checkpoint { classes: &["BailingMoeV3ForCausalLM"], keys: &[FIELDS, GENERIC, KEYS], ..LING3 },
        Checkpoint {
            classes: &["BailingMoeV3VLForConditionalGeneration"],
            names: &TensorNames { skip: &[("linear_proj*", "")], ..*LING3.names },
            refuse: &[
                LORA,
                UNSAFE,
                ELEMENTWISE,
                (
                    "mrope_section == null or sum(pad(mrope_section, 3, 0)) * 2 != qk_rope_head_dim",
                    "an mrope_section whose first three numbers are not qk_rope_head_dim / 2 together",
                ),
            ],
            keys: &[FIELDS, GENERIC, KEYS, SECTIONS],
            ..LING3
        },
    ],
};

const LING3: Checkpoint = Checkpoint { separates_mtp: true, refuse: &[LORA, UNSAFE, ELEMENTWISE], ..Checkpoint::TEXT };

const LORA: (&str, &str) = ("not (no_kda_lora|false)", "narrow states in delta attention (no_kda_lora is not true)");

const UNSAFE: (&str, &str) =
    ("not (kda_safe_gate|false)", "gates of delta attention without a bound (kda_safe_gate is not true)");

const ELEMENTWISE: (&str, &str) =
    ("gated_attention_proj_granularity_type != 'head_wise'", "attention gates that are not head_wise");

const FIELDS: &[Key] = keys! {
    let num_nextn_predict_layers = "null if @mtp == 'left_out' else num_nextn_predict_layers or null";
    let block_count = "num_hidden_layers + (num_nextn_predict_layers or 0)";
    let num_key_value_heads = "1";
};

const KEYS: &[Key] = keys! {
    let in_groups = "num_hidden_layers // layer_group_size * layer_group_size";
    "attention.head_count_kv" U32
        = "[1 if i >= num_hidden_layers or (i + 1) % layer_group_size == 0 or i >= in_groups else 0 for i]";
    "vocab_size" U32 = "vocab_size";
    "ssm.conv_kernel" U32 = "short_conv_kernel_size";
    "kda.head_dim" U32 = "head_dim";
    "kda.safe_gate" Bool = "kda_safe_gate";
    "kda.gate_lower_bound" F32 = "kda_lower_bound";
    "attention.q_lora_rank" U32? = "q_lora_rank";
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "attention.key_length" U32 = "kv_lora_rank + qk_rope_head_dim";
    "attention.key_length_mla" U32 = "qk_nope_head_dim + qk_rope_head_dim";
    "attention.value_length_mla" U32 = "v_head_dim";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32 = "moe_shared_expert_intermediate_size";
    "expert_shared_count" U32 = "num_shared_experts|1";
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "norm_topk_prob";
    "swiglu_clamp_exp" F32? = "null if expert_swiglu_limit_list == null
        else [float(v ?? 0.0) for v in pad(expert_swiglu_limit_list, block_count, 0.0)]";
    "swiglu_clamp_shexp" F32? = "null if share_expert_swiglu_limit_list == null
        else [float(v ?? 0.0) for v in pad(share_expert_swiglu_limit_list, block_count, 0.0)]";
    "nextn_predict_layers" U32? = "num_nextn_predict_layers";
};

/// Positions in time, height and width.
const SECTIONS: &[Key] = keys! {
    "rope.dimension_sections" I32 = "pad(pad(mrope_section, 3, 0), 4, 0)";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab] Required Always <- "word_embeddings";
    "output_norm.weight"   [Embd]       Required Always <- "norm";
    "output.weight"        [Embd Vocab] Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "ssm_a"                ["1" Heads]       Required Recurrent <- "attention.A_log" : "h -> h 1", Map::NegExp, Map::Scale(-1.0);
    "ssm_f_a.weight"       [Embd KdaInner]   Required Recurrent <- "attention.f_proj";
    "ssm_g_a.weight"       [Embd KdaInner]   Required Recurrent <- "attention.g_proj";
    "attn_q.weight"        [Embd MlaQ]       Required AttentionNoQLora <- "attention.q_proj";
    "attn_q_a.weight"      [Embd QLora]      Required AttentionQLora <- "attention.q_a_proj";
    "attn_q_a_norm.weight" [QLora]           Required AttentionQLora <- "attention.q_a_layernorm";
    "attn_q_b.weight"      [QLora MlaQ]      Required AttentionQLora <- "attention.q_b_proj";
    "attn_kv_a_mqa.weight" [Embd KvLoraRot]  Required Attention <- "attention.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KvLora]         Required Attention <- "attention.kv_a_layernorm";
    "attn_k_b.weight"      [MlaNope KvLora Heads] Required Attention <- "attention.kv_b_proj" : "(h s[:MlaNope]) e -> h e s";
    "attn_v_b.weight"      [KvLora MlaHeadV Heads] Required Attention <- "attention.kv_b_proj" : "(h s[MlaNope:]) e -> h s e";
    "attn_gate.weight"     [Embd Heads]      Required Attention <- "attention.g_proj";
    "attn_output.weight"   [MlaV Embd]       Required Attention <- "attention.dense";
    "exp_probs_b.bias"     [Experts]         Required Experts <- "mlp.gate.expert_bias";
};

const SHARED_EXPERT: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SharedOrExpertsFf] Required Experts <- "mlp.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedOrExpertsFf] Required Experts <- "mlp.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SharedOrExpertsFf Embd] Required Experts <- "mlp.shared_experts.down_proj";
};

const NEXT: &[Row] = rows! {
    "nextn.eh_proj.weight"     [TwiceEmbd Embd] Required Mtp <- "eh_proj";
    "nextn.enorm.weight"       [Embd]           Required Mtp <- "enorm";
    "nextn.hnorm.weight"       [Embd]           Required Mtp <- "hnorm";
    "layer_output_norm.weight" [Embd]           Required Mtp <- "final_layernorm";
};
