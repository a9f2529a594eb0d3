//! Ling 2.0 (Bailing) and Sarvam: query and key norms, half of each head rotated, and an MTP block.
//!
//!
//! Rules: `load_arch_tensors` in `src/models/bailingmoe2.cpp` of llama.cpp, `BailingMoeV2Model` and `SarvamMoEModel` in
//! `conversion/bailingmoe.py`. Sarvam rotates whole heads, and its selection bias is centered around zero.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["bailingmoe2"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT, keys::EXPERT_GATING_FUNC],
    ],
    optional: &[
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
    ],
    outside: &[OUTSIDE],
    block: &[NORMS, BLOCK, GATED_FFN, EXPERTS, SHARED, MTP],
    checkpoints: &[
        Checkpoint {
            classes: &["BailingMoeV2ForCausalLM"],
            keys: &[MTP_FIELDS, GENERIC, KEYS, MTP_KEYS],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["SarvamMoEForCausalLM", "modeling_sarvam_moe.SarvamMoEForCausalLM"],
            names: &TensorNames { rename: &[(".gate.expert_bias", ".gate.centered_bias")], ..TensorNames::TEXT },
            facts: &TensorFacts {
                peeked: &[("expert_biases", "layers.{}.mlp.gate.centered_bias")],
                ..TensorFacts::NONE
            },
            keys: &[MTP_FIELDS, GENERIC, KEYS, MTP_KEYS, ROPE_WHOLE_HEAD],
            ..Checkpoint::TEXT
        },
    ],
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32
        = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5))";
    "leading_dense_block_count" U32 = "first_k_dense_replace";
    "vocab_size" U32 = "vocab_size";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32
        = "moe_shared_expert_intermediate_size|(moe_intermediate_size * num_shared_experts)";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_shared_count" U32 = "num_shared_experts";
    "expert_weights_norm" Bool = "norm_topk_prob";
};

/// Width of the feed-forward part of all shared experts together, each with a width of its own.
const SHARED_EACH_FF: Dim =
    dim!("expert_shared_count * (expert_shared_feed_forward_length or expert_feed_forward_length)");

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"        [Embd Vocab] Required Always <- "word_embeddings";
    "output_norm.weight"       [Embd]       Required Always <- "norm";
    "output.weight"            [Embd Vocab] Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"          [Embd EmbdQkv]   Required Always <- "attention.query_key_value";
    "attn_output.weight"       [Q Embd]     Required Always <- "attention.dense";
    "attn_q_norm.weight"       [HeadK]      Required Always <- "attention.query_layernorm";
    "attn_k_norm.weight"       [HeadK]      Required Always <- "attention.key_layernorm";
    "exp_probs_b.bias"         [Experts]    Optional Experts <- "mlp.gate.expert_bias";
    "exp_probs_b.bias"         [Experts]    Optional Experts <- "mlp.gate.centered_bias" => RowOp::Values("[[] if b == null else centered(b) for b in @expert_biases]");
    "layer_output_norm.weight" [Embd]       Optional Mtp <- "final_layernorm";
};

const SHARED: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SHARED_EACH_FF] Required Experts <- "mlp.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SHARED_EACH_FF] Required Experts <- "mlp.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SHARED_EACH_FF Embd] Required Experts <- "mlp.shared_experts.down_proj";
};
