//! Hy3 of Hunyuan: experts with a selection bias after the first blocks, and MTP blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/hy-v3.cpp` of llama.cpp, `HYV3Model` in `conversion/hunyuan.py`. The bias has no suffix.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["hy_v3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH]],
    optional: &[
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
    ],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV, OUTPUT, QK_NORMS, FFN, MTP],
    checkpoints: &[Checkpoint {
        classes: &["HYV3ForCausalLM"],
        separates_mtp: true,
        names: &TensorNames { rename: &[(".final_layernorm.", ".shared_head.norm.")], ..TensorNames::TEXT },
        keys: &[MTP_FIELDS, GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32 = "moe_intermediate_size * (num_shared_experts|1)";
    "expert_weights_norm" Bool = "route_norm|true";
    "expert_weights_scale" F32 = "float(router_scaling_factor|1.0)";
    "expert_gating_func" U32 = "2";
    "nextn_predict_layers" U32? = "num_nextn_predict_layers or null";
};

/// Blocks without experts are detected by their tensors in the checkpoint.
const FFN: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]               Optional Always <- "mlp.gate_proj";
    "ffn_up.weight"         [Embd Ff]               Optional Always <- "mlp.up_proj";
    "ffn_down.weight"       [Ff Embd]               Optional Always <- "mlp.down_proj";
    "ffn_gate_inp.weight"   [Embd Experts]          Optional Always <- "mlp.router.gate";
    "exp_probs_b"           [Experts]               Optional Always <- "mlp.expert_bias";
    "ffn_down_exps.weight"  [UsedFf Embd Experts] Optional Always <- "mlp.experts.{x}.down_proj";
    "ffn_gate_up_exps.weight" [Embd TwiceUsedFf Experts] Optional Always;
    "ffn_gate_exps.weight"  [Embd UsedFf Experts] Optional Always <- "mlp.experts.{x}.gate_proj";
    "ffn_up_exps.weight"    [Embd UsedFf Experts] Optional Always <- "mlp.experts.{x}.up_proj";
    "ffn_gate_shexp.weight" [Embd SharedFf]         Optional Always <- "mlp.shared_mlp.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedFf]         Optional Always <- "mlp.shared_mlp.up_proj";
    "ffn_down_shexp.weight" [SharedFf Embd]         Optional Always <- "mlp.shared_mlp.down_proj";
};
