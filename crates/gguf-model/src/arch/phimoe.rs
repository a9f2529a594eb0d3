//! Phi-3.5-MoE: experts, norms with biases, and the divisors of rotary frequencies of Phi-3.
//!
//! Rules: `load_arch_tensors` in `src/models/phimoe.cpp` of llama.cpp, `PhiMoeModel` in `conversion/phi.py`.

use super::phi3::{CHECKPOINT, KEYS, LONG_ROPE};
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["phimoe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE, LONG_ROPE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint { classes: &["PhiMoEForCausalLM"], keys: &[KEYS, EXPERT_KEYS], ..CHECKPOINT }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]      Required    Always <- "embed_tokens";
    "output_norm.weight"   [Embd]            Required    Always + Required <- "norm";
    "output.weight"        [Embd Vocab]      Required    Always + Required <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]            Required    Always + Required <- "input_layernorm";
    "attn_qkv.weight"      [Embd EmbdQkv]        Optional    Always + Optional;
    "attn_q.weight"        [Embd Embd]          UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd V]          UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd V]          UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight"   [Embd Embd]          Required    Always + Required <- "self_attn.o_proj";
    "ffn_norm.weight"      [Embd]            Required    Always + Required <- "post_attention_layernorm";
    "ffn_gate_inp.weight"  [Embd Experts]    Required    Always <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight" [Embd Ff Experts] Required    Always <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight" [Ff Embd Experts] Required    Always <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"   [Embd Ff Experts] Required    Always <- "block_sparse_moe.experts.{x}.w3";
};

const EXPERT_KEYS: &[Key] = keys! {
    "expert_used_count" U32 = "num_experts_per_tok|num_experts_per_token";
    "expert_count" U32 = "num_local_experts|num_experts";
};
