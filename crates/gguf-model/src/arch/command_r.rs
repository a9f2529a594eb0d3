//! Command R: parallel attention and feed-forward part after one norm, and tied embeddings.
//!
//! Rules: `load_arch_tensors` in `src/models/command-r.cpp` of llama.cpp, `CommandR2Model` in
//! `conversion/command_r.py`. Command R+ has query and key norms; llama.cpp requires them in models of 64 blocks or
//! more and does not support them in others.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["command-r"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::LOGIT_SCALE],
    outside: &[OUTSIDE],
    block: &[BLOCK, EMBD_QKV, EMBD_OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint { classes: &["CohereForCausalLM"], keys: &[CONTEXT, GENERIC, KEYS], ..Checkpoint::TEXT }],
};

/// Published configurations state fewer positions than the model was trained with.
const CONTEXT: &[Key] = keys! {
    let max_position_embeddings = "model_max_length|max_position_embeddings";
};

const KEYS: &[Key] = keys! {
    "logit_scale" F32 = "logit_scale";
    "rope.scaling.type" Str = "'none'";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]    Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]          Required Always <- "norm";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]          Required Always <- "input_layernorm";
    "attn_q_norm.weight"   [HeadK Heads]   Required "block_count >= 64"   <- "self_attn.q_norm";
    "attn_k_norm.weight"   [HeadK HeadsKv] Required "block_count >= 64"   <- "self_attn.k_norm";
};
