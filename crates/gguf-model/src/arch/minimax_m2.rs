//! MiniMax M2: experts in all blocks, selected with a bias; query and key norms over all heads.
//!
//! Rules: `load_arch_tensors` in `src/models/minimax-m2.cpp` of llama.cpp, `MiniMaxM2Model` in `conversion/minimax.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["minimax-m2"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH]],
    optional: &[keys::EXPERT_GATING_FUNC],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, BLOCK],
    checkpoints: &[Checkpoint { classes: &["MiniMaxM2ForCausalLM"], keys: &[GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const KEYS: &[Key] = keys! {
    "expert_feed_forward_length" U32 = "intermediate_size";
    "rope.dimension_count" U32 = "rotary_dim";
};

const BLOCK: &[Row] = rows! {
    "attn_q_norm.weight"   [Q]               Required Always <- "self_attn.q_norm";
    "attn_k_norm.weight"   [K]               Required Always <- "self_attn.k_norm";
    "ffn_gate_inp.weight"  [Embd Experts]    Required Always <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight" [Embd Ff Experts] Required Always <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight" [Ff Embd Experts] Required Always <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"   [Embd Ff Experts] Required Always <- "block_sparse_moe.experts.{x}.w3";
    "exp_probs_b.bias"     [Experts]         Required Always <- "block_sparse_moe.e_score_correction.bias";
};
