//! GPT-J: parallel attention and feed-forward part after one norm, biases of the feed-forward part and of the output.
//!
//! Neither llama.cpp nor its converter supports it: keys and names follow the GGUF specification. Rotated pairs are
//! adjacent in the checkpoint as well.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gptj"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["GPTJForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], skip: MASKS, ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "n_positions";
    "embedding_length" U32 = "n_embd";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "n_inner ?? 4 * n_embd";
    "rope.dimension_count" U32 = "rotary_dim ?? n_embd // n_head";
    "attention.head_count" U32 = "n_head";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "wte";
    "output_norm.weight" [Embd]       Required Always + Required <- "ln_f";
    "output.weight"      [Embd Vocab] Optional Always + Optional <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always + Required <- "ln_1";
    "attn_qkv.weight"    [Embd Qkv]   Optional    Always;
    "attn_q.weight"      [Embd Q]     UnlessFused Always <- "attn.q_proj";
    "attn_k.weight"      [Embd K]     UnlessFused Always <- "attn.k_proj";
    "attn_v.weight"      [Embd V]     UnlessFused Always <- "attn.v_proj";
    "attn_output.weight" [Q Embd]     Required    Always <- "attn.out_proj";
    "ffn_up.weight"      [Embd Ff]    Required    Always + Required <- "mlp.fc_in";
    "ffn_down.weight"    [Ff Embd]    Required    Always + Required <- "mlp.fc_out";
};
