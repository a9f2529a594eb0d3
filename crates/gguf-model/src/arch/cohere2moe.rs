//! Command A with experts: Command R7B's blocks, the first without experts.
//!
//! Rules: `load_arch_tensors` in `src/models/cohere2moe.cpp` of llama.cpp, `Cohere2MoeModel` in `conversion/command_r.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["cohere2moe"],
    required: &[
        TRANSFORMER_KEYS,
        &[
            keys::ATTENTION_SLIDING_WINDOW,
            keys::LOGIT_SCALE,
            keys::LEADING_DENSE_BLOCK_COUNT,
            keys::EXPERT_FEED_FORWARD_LENGTH,
        ],
    ],
    optional: &[
        keys::ATTENTION_LAYER_NORM_EPSILON,
        keys::ATTENTION_LAYER_NORM_RMS_EPSILON,
        keys::ATTENTION_SLIDING_WINDOW_PATTERN,
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_SHARED_COUNT,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::ROPE_FREQ_BASE_SWA,
    ],
    outside: &[EMBEDDINGS],
    block: &[NORM, QKV_OF_VALUES, OUTPUT, GATED_FFN, EXPERTS, GATE_UP_EXPERTS, SHARED, MTP],
    checkpoints: &[Checkpoint {
        classes: &["Cohere2MoeForCausalLM"],
        names: &TensorNames { zero: &["*.bias"], ..TensorNames::TEXT },
        refuse: &[(
            "num_shared_experts and (shared_expert_combination_strategy|'average') != 'average'",
            "a shared_expert_combination_strategy other than \"average\"",
        )],
        keys: &[MTP_FIELDS, GENERIC, KEYS, NO_ROPE_SCALING],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "logit_scale" F32 = "logit_scale";
    "attention.sliding_window" U32 = "sliding_window";
    "attention.sliding_window_pattern" Bool = "[t == 'sliding_attention' for t in layer_types]";
    "vocab_size" U32 = "vocab_size";
    "expert_feed_forward_length" U32 = "intermediate_size";
    "leading_dense_block_count" U32 = "first_k_dense_replace|0 if mlp_layer_types == null
        else n_leading(mlp_layer_types, 'dense')";
    "expert_weights_norm" Bool = "norm_topk_prob|false";
    "expert_shared_count" U32? = "num_shared_experts or null";
    "expert_shared_feed_forward_length" U32? = "intermediate_size * num_shared_experts if num_shared_experts else null";
    "nextn_predict_layers" U32? = "num_nextn_predict_layers or null";
    "rope.dimension_count" U32 = "head_dim";
};

const NORM: &[Row] = rows! {
    "attn_norm.weight" [Embd] Required Always <- "input_layernorm";
};

/// Shared experts, combined in one feed-forward part, whose width may have a key of its own.
const SHARED: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SharedOrExpertsFf] Required SharedExperts <- "mlp.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedOrExpertsFf] Required SharedExperts <- "mlp.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SharedOrExpertsFf Embd] Required SharedExperts <- "mlp.shared_experts.down_proj";
};
