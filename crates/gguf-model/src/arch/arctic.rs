//! Snowflake Arctic: each block has a small dense feed-forward part, as wide as a hidden state, and experts beside it.
//!
//! Rules: `load_arch_tensors` in `src/models/arctic.cpp` of llama.cpp, `ArcticModel` in `conversion/arctic.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["arctic"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS],
    block: &[FUSED_EMBD_QKV, ATTENTION_OF_ARCTIC, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["ArcticForCausalLM"],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer {
            vocab: Vocab::read_by(&[Reader::ChangedSentencePiece(Changes::Arctic)]),
            ..Tokenizer::BPE
        },
        ..Checkpoint::TEXT
    }],
};

/// The converter permutes the rows of matrices, but not their biases.
const ATTENTION_OF_ARCTIC: &[Row] = rows! {
    "attn_q.weight"        [Embd Embd]       UnlessFused Always <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"        [Embd V]          UnlessFused Always <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"        [Embd V]          UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_q.bias"          [Embd]            Optional    Always <- "self_attn.q_proj.bias";
    "attn_k.bias"          [V]               Optional    Always <- "self_attn.k_proj.bias";
    "attn_output.weight"   [Embd Embd]       Required    Always <- "self_attn.o_proj";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]            Required Always <- "input_layernorm";
    "ffn_norm.weight"      [Embd]            Required Always <- "residual_layernorm";
    "ffn_gate.weight"      [Embd Embd]       Required Always <- "residual_mlp.w1";
    "ffn_down.weight"      [Embd Embd]       Required Always <- "residual_mlp.w2";
    "ffn_up.weight"        [Embd Embd]       Required Always <- "residual_mlp.w3";
    "ffn_norm_exps.weight" [Embd]            Required Always <- "post_attention_layernorm";
    "ffn_gate_inp.weight"  [Embd Experts]    Required Always <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight" [Embd Ff Experts] Required Always <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight" [Ff Embd Experts] Required Always <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"   [Embd Ff Experts] Required Always <- "block_sparse_moe.experts.{x}.w3";
};

const KEYS: &[Key] = keys! {
    "vocab_size" U32 = "vocab_size";
    "rope.dimension_count" U32 = "hidden_size // num_attention_heads";
};
