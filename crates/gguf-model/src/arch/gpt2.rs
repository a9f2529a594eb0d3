//! GPT-2: learned positions, fused queries, keys and values, biases everywhere; and ruGPT-3 XL, whose checkpoints have
//! separate queries, keys and values.
//!
//! Rules: `load_arch_tensors` in `src/models/gpt2.cpp` of llama.cpp, `GPT2Model` and `RuGPT3XLModel` in
//! `conversion/gpt2.py`. The matrices of GPT-2 are transposed (`Conv1D` of transformers). The masks in older
//! checkpoints are omitted; the reference fails on them, and if `n_ctx` is missing.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gpt2"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[
        Checkpoint {
            classes: &["GPT2LMHeadModel"],
            names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], skip: MASKS, ..TensorNames::TEXT },
            keys: &[KEYS],
            ..Checkpoint::TEXT
        },
        Checkpoint { classes: &["RuGPT3XLForCausalLM"], ..Checkpoint::TEXT },
    ],
};

const KEYS: &[Key] = keys! {
    "block_count" U32 = "block_count";
    "context_length" U32 = "n_ctx|n_positions";
    "embedding_length" U32 = "n_embd";
    "feed_forward_length" U32 = "4 * n_embd";
    "attention.head_count" U32 = "n_head";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]   Required Always <- "wte | embed_tokens";
    "position_embd.weight" [Embd Context] Required Always <- "wpe | embed_positions";
    "output_norm.weight"   [Embd]         Required Always + Required <- "ln_f | norm";
    "output.weight"        [Embd Vocab]   Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]         Required Always + Required <- "ln_1 | input_layernorm";
    "attn_qkv.weight"      [Embd EmbdQkv]     Required Always + Required <- "attn.c_attn" : TRANSPOSED;
    "attn_qkv.weight"      [Embd EmbdQkv]     Required Always + Required <- "self_attn.q_proj + self_attn.k_proj + self_attn.v_proj";
    "attn_output.weight"   [Embd Embd]    Required Always + Required <- "attn.c_proj" : TRANSPOSED;
    "attn_output.weight"   [Embd Embd]    Required Always + Required <- "self_attn.o_proj";
    "ffn_norm.weight"      [Embd]         Required Always + Required <- "ln_2 | post_attention_layernorm";
    "ffn_up.weight"        [Embd Ff]      Required Always + Required <- "mlp.c_fc" : TRANSPOSED;
    "ffn_up.weight"        [Embd Ff]      Required Always + Required <- "mlp.up_proj";
    "ffn_down.weight"      [Ff Embd]      Required Always + Required <- "mlp.c_proj" : TRANSPOSED;
    "ffn_down.weight"      [Ff Embd]      Required Always + Required <- "mlp.down_proj";
};

const TRANSPOSED: &str = "i ... -> ... i";
