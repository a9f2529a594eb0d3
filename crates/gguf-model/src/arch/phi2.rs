//! Phi 1, 1.5 and 2: parallel attention and feed-forward part after one norm, rotary positions for part of each head.
//!
//! Rules: `load_arch_tensors` in `src/models/phi2.cpp` of llama.cpp, `Phi2Model` in `conversion/phi.py`, which writes
//! `add_bos_token` = false among the hyperparameters.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["phi2"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["PhiForCausalLM"],
        names: &TensorNames {
            roots: &["model.", "transformer."],
            layers: &["layers.{}.", "h.{}."],
            ..TensorNames::TEXT
        },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let width = "hidden_size|n_embd";
    let heads = "num_attention_heads|n_head";
    "context_length" U32 = "n_positions|max_position_embeddings";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "4 * width";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "heads";
    "attention.head_count_kv" U32 = "heads";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon|layer_norm_eps";
    "rope.dimension_count" U32 = "int(rope_all.partial_rotary_factor * width) // heads
        if rope_all.partial_rotary_factor != null else rotary_dim";
    "general.file_type" U32 = "@file_type";
    "tokenizer.ggml.add_bos_token" Bool = "false";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens | embd.wte";
    "output_norm.weight" [Embd]       Required Always + Required <- "final_layernorm | lm_head.ln";
    "output.weight"      [Embd Vocab] Required Always + Required <- "lm_head | lm_head.linear";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always + Required <- "input_layernorm | ln";
    "attn_qkv.weight"    [Embd EmbdQkv]   Optional    Always + Optional <- "mixer.Wqkv";
    "attn_q.weight"      [Embd Embd]     UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Embd Embd]  Required    Always + Required <- "self_attn.dense | mixer.out_proj";
    "ffn_up.weight"      [Embd Ff]    Required    Always + Required <- "mlp.fc1";
    "ffn_down.weight"    [Ff Embd]    Required    Always + Required <- "mlp.fc2";
};
