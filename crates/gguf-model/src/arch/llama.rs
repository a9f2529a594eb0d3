//! Llama, and what shares its tensors: rotary attention, RMS norms, a gated feed-forward part that may have experts.
//!
//! Rules: `load_arch_tensors` in `src/models/llama.cpp` of llama.cpp.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["llama", "llama-embed", "mistral3"],
    outside: rows! {
        "token_embd.weight"         [Embd Vocab]      Required    Always
        "output_norm.weight"        [Embd]            Required    Always
        "output.weight"             [Embd Vocab]      Optional    Always
        "rope_freqs.weight"         [HalfRot]         Optional    Always
        "rope_factors_long.weight"  [HalfRot]         Optional    Always
        "rope_factors_short.weight" [HalfRot]         Optional    Always
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
        "attn_output.bias"          [Embd]            Optional    Always
        "ffn_norm.weight"           [Embd]            Required    Always
        "ffn_gate.weight"           [Embd Ff]         Required    Dense
        "ffn_up.weight"             [Embd Ff]         Required    Dense
        "ffn_down.weight"           [Ff Embd]         Required    Dense
        "ffn_gate.bias"             [Ff]              Optional    Dense
        "ffn_up.bias"               [Ff]              Optional    Dense
        "ffn_down.bias"             [Embd]            Optional    Dense
        "ffn_gate_inp.weight"       [Embd Experts]    Required    Experts
        "ffn_gate_exps.weight"      [Embd Ff Experts] Optional    Experts
        "ffn_up_exps.weight"        [Embd Ff Experts] Required    Experts
        "ffn_down_exps.weight"      [Ff Embd Experts] Required    Experts
        "ffn_gate_shexp.weight"     [Embd SharedFf]   Required    SharedExpert
        "ffn_up_shexp.weight"       [Embd SharedFf]   Required    SharedExpert
        "ffn_down_shexp.weight"     [SharedFf Embd]   Required    SharedExpert
        "rope_freqs.weight"         [HalfRot]         Optional    Always
    },
};
