//! Gemma and Gemma 2: the embeddings are the output too; norms behind attention and the feed-forward part.
//!
//! Rules: `load_arch_tensors` in `src/models/gemma2.cpp` of llama.cpp.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gemma", "gemma2"],
    outside: rows! {
        "token_embd.weight"         [Embd Vocab]      Required    Always
        "output_norm.weight"        [Embd]            Required    Always
    },
    block: rows! {
        "attn_norm.weight"          [Embd]            Required    Always
        "attn_qkv.weight"           [Embd Qkv]        Optional    Always
        "attn_qkv.bias"             [Qkv]             Optional    Always
        "attn_q.weight"             [Embd Q]          UnlessFused Always
        "attn_k.weight"             [Embd K]          UnlessFused Always
        "attn_v.weight"             [Embd V]          UnlessFused Always
        "attn_q.bias"               [Q]               Optional    Always
        "attn_k.bias"               [K]               Optional    Always
        "attn_v.bias"               [V]               Optional    Always
        "attn_output.weight"        [Q Embd]          Required    Always
        "post_attention_norm.weight" [Embd]           Optional    Always
        "ffn_norm.weight"           [Embd]            Required    Always
        "ffn_gate.weight"           [Embd Ff]         Required    Always
        "ffn_up.weight"             [Embd Ff]         Required    Always
        "ffn_down.weight"           [Ff Embd]         Required    Always
        "post_ffw_norm.weight"      [Embd]            Optional    Always
    },
};
