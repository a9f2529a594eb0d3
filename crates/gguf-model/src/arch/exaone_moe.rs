//! K-EXAONE: EXAONE 4 with experts.
//!
//! Rules: `load_arch_tensors` in `src/models/exaone-moe.cpp` of llama.cpp, `ExaoneMoEModel` in `conversion/exaone.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["exaone-moe"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::ATTENTION_SLIDING_WINDOW, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_GATING_FUNC],
    ],
    optional: &[
        keys::ATTENTION_SLIDING_WINDOW_PATTERN,
        keys::EXPERT_SHARED_COUNT,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::ROPE_FREQ_BASE_SWA,
    ],
    outside: &[UNTIED_EMBEDDINGS, ROPE_FREQS],
    block: &[NORMS, QKV_OF_KEYS, OUTPUT, QK_NORMS, GATED_FFN, EXPERTS, BIAS, SHARED, MTP],
    checkpoints: &[Checkpoint {
        classes: &["ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"],
        names: &TensorNames { appended: super::exaone4::APPENDED, ..TensorNames::TEXT },
        keys: &[MTP_COUNT, GENERIC, VOCAB_SIZE, super::exaone4::KEYS, KEYS, NO_ROPE_SCALING],
        computed: &[Computed::Llama3FreqsBy(16)],
        ..Checkpoint::TEXT
    }],
};

/// The blocks after the model's own count as blocks; without the field there are none.
const MTP_COUNT: &[Key] = keys! {
    let num_nextn_predict_layers = "num_nextn_predict_layers|0";
    let block_count = "num_hidden_layers + num_nextn_predict_layers";
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_count" U32 = "num_shared_experts";
    "expert_shared_feed_forward_length" U32 = "moe_intermediate_size * num_shared_experts";
    "expert_weights_scale" F32 = "routed_scaling_factor";
    "expert_weights_norm" Bool = "norm_topk_prob";
    "leading_dense_block_count" U32 = "first_k_dense_replace|first_last_k_dense_replace|0";
    "nextn_predict_layers" U32 = "num_nextn_predict_layers";
};

const BIAS: &[Row] = rows! {
    "exp_probs_b.bias" [Experts] Optional Experts <- "mlp.e_score_correction.bias | mlp.gate.e_score_correction.bias";
};

/// Shared experts, combined in one feed-forward part.
const SHARED: &[Row] = rows! {
    "ffn_gate_shexp.weight" [Embd SharedOrExpertsFf] Required SharedExperts <- "mlp.shared_experts.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedOrExpertsFf] Required SharedExperts <- "mlp.shared_experts.up_proj";
    "ffn_down_shexp.weight" [SharedOrExpertsFf Embd] Required SharedExperts <- "mlp.shared_experts.down_proj";
};
