//! SmallThinker: experts in every block, with a router that reads the input of the attention; sliding windows in some
//! blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/smallthinker.cpp` of llama.cpp, `SmallThinkerModel` in `conversion/smallthinker.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["smallthinker"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[keys::ATTENTION_SLIDING_WINDOW, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_GATING_FUNC],
    outside: &[EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, EXPERTS],
    checkpoints: &[Checkpoint { classes: &["SmallThinkerForCausalLM"], keys: &[GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const KEYS: &[Key] = keys! {
    "expert_count" U32? = "moe_num_primary_experts";
    "expert_used_count" U32? = "moe_num_active_primary_experts";
    "expert_feed_forward_length" U32? = "moe_ffn_hidden_size";
    "feed_forward_length" U32? = "moe_ffn_hidden_size";
    "expert_gating_func" U32 = "1 if moe_primary_router_apply_softmax else 2";
    "attention.sliding_window" U32? = "(sliding_window_size or null) if any(sliding_window_layout ?? []) else null";
};

const EXPERTS: &[Row] = rows! {
    "ffn_gate_inp.weight"  [Embd Experts]          Required Always <- "block_sparse_moe.primary_router";
    "ffn_down_exps.weight" [ExpertFf Embd Experts] Required Always <- "block_sparse_moe.experts.{x}.down";
    "ffn_gate_exps.weight" [Embd ExpertFf Experts] Required Always <- "block_sparse_moe.experts.{x}.gate";
    "ffn_up_exps.weight"   [Embd ExpertFf Experts] Required Always <- "block_sparse_moe.experts.{x}.up";
};
