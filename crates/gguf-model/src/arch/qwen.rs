//! Qwen 1: fused queries, keys and values; gate and up projections have half of the configured feed-forward width.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen.cpp` of llama.cpp, `QwenModel` in `conversion/qwen.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["QWenLMHeadModel"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], ..TensorNames::TEXT },
        tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::Tiktoken { has_defaults: true }]), ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]  Required Always <- "wte";
    "output_norm.weight" [Embd]        Required Always <- "ln_f";
    "output.weight"      [Embd Vocab]  Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]        Required Always <- "ln_1";
    "attn_qkv.weight"    [Embd ThriceEmbd]    Required Always + Required <- "attn.c_attn";
    "attn_output.weight" [Embd Embd]   Required Always <- "attn.c_proj";
    "ffn_norm.weight"    [Embd]        Required Always <- "ln_2";
    "ffn_up.weight"      [Embd "feed_forward_length / 2"] Required Always <- "mlp.w1";
    "ffn_gate.weight"    [Embd "feed_forward_length / 2"] Required Always <- "mlp.w2";
    "ffn_down.weight"    ["feed_forward_length / 2" Embd] Required Always <- "mlp.c_proj";
};
