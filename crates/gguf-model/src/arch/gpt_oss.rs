//! gpt-oss: experts with biases, attention sinks, sliding windows in every second block. Checkpoints interleave the
//! columns of the gate and up projections.
//!
//! Rules: `load_arch_tensors` in `src/models/openai-moe.cpp` of llama.cpp, `GptOssModel` in `conversion/gpt_oss.py`, for experts in
//! a floating-point format.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gpt-oss"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::ATTENTION_SLIDING_WINDOW]],
    optional: &[keys::ATTENTION_SLIDING_WINDOW_PATTERN, keys::ROPE_FREQ_BASE_SWA],
    outside: &[OUTSIDE],
    block: &[BLOCK, EXPERTS_WITH_BIAS],
    checkpoints: &[Checkpoint { classes: &["GptOssForCausalLM"], keys: &[GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"          [Embd Vocab]   Required    Always <- "embed_tokens";
    "output_norm.weight"         [Embd]         Required    Always <- "norm";
    "output.weight"              [Embd Vocab]   Required    Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]         Required    Always <- "input_layernorm";
    "attn_qkv.weight"            [Embd QkvRot]  Optional    Always + Optional;
    "attn_q.weight"              [Embd QRot]    UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"              [Embd KRot]    UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"              [Embd KRot]    UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight"         [QRot Embd]    Required    Always + Required <- "self_attn.o_proj";
    "attn_sinks.weight"          [Heads]        Required    Always <- "self_attn.sinks";
    "post_attention_norm.weight" [Embd]         Required    Always <- "post_attention_layernorm";
    "ffn_gate_inp.weight"        [Embd Experts] Required    Always + Required <- "mlp.router";
};

const EXPERTS_WITH_BIAS: &[Row] = rows! {
    "ffn_gate_exps.weight" [Embd ExpertFf Experts] Required Always <- "mlp.experts.gate_up_proj" : "x e (f two[0]) -> x f e";
    "ffn_up_exps.weight"   [Embd ExpertFf Experts] Required Always <- "mlp.experts.gate_up_proj" : "x e (f two[1]) -> x f e";
    "ffn_down_exps.weight" [ExpertFf Embd Experts] Required Always <- "mlp.experts.down_proj" : "x f e -> x e f";
    "ffn_gate_exps.bias"   [ExpertFf Experts]      Required Always <- "mlp.experts.gate_up_proj_bias" : "x (f two[0]) -> x f";
    "ffn_up_exps.bias"     [ExpertFf Experts]      Required Always <- "mlp.experts.gate_up_proj_bias" : "x (f two[1]) -> x f";
    "ffn_down_exps.bias"   [Embd Experts]          Required Always <- "mlp.experts.down_proj_bias";
};

const KEYS: &[Key] = keys! {
    "attention.sliding_window" U32 = "sliding_window";
    "expert_feed_forward_length" U32 = "intermediate_size";
};
