//! GroveMoE: Qwen 3 MoE with groups of experts, each with an additional, smaller expert.
//!
//! Rules: `load_arch_tensors` in `src/models/grovemoe.cpp` of llama.cpp, `GroveMoeModel` in `conversion/grovemoe.py`.
//! The size and the scale of the groups are constants of the published model, regardless of the configuration.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["grovemoe"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_GROUP_SCALE, keys::EXPERTS_PER_GROUP],
    ],
    optional: &[keys::EXPERT_CHUNK_FEED_FORWARD_LENGTH],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, QK_NORMS, QWEN_EXPERTS, CHUNK_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["GroveMoeForCausalLM", "modeling_grove_moe.GroveMoeForCausalLM"],
        names: &TensorNames { skip: &[("*.expert_bias", "")], ..TensorNames::TEXT },
        keys: &[GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "expert_chunk_feed_forward_length" U32 = "head_dim or 128";
    "experts_per_group" U32 = "2";
    "expert_group_scale" F32 = "0.05";
};

/// Width of the feed-forward part of the expert that a group shares.
const CHUNK_FF: Dim = dim!("expert_chunk_feed_forward_length or attention.key_length");

const CHUNK_EXPERTS: &[Row] = rows! {
    "ffn_down_chexps.weight" [CHUNK_FF Embd "expert_count / experts_per_group"] Required Always <- "mlp.chunk_experts.{ExpertGroups}.down_proj";
    "ffn_gate_chexps.weight" [Embd CHUNK_FF "expert_count / experts_per_group"] Required Always <- "mlp.chunk_experts.{ExpertGroups}.gate_proj";
    "ffn_up_chexps.weight"   [Embd CHUNK_FF "expert_count / experts_per_group"] Required Always <- "mlp.chunk_experts.{ExpertGroups}.up_proj";
};
