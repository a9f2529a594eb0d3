//! Spark X2.5: fused queries, keys and values, a gate on the output of each head, sliding windows in some blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/spark2-5.cpp` of llama.cpp, `Spark2_5Model` in `conversion/spark2_5.py`.
//! Other kinds of gates and activations are rejected.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["spark2_5"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::ATTENTION_SLIDING_WINDOW, keys::ATTENTION_SLIDING_WINDOW_PATTERN],
    ],
    optional: &[keys::ROPE_FREQ_BASE_SWA],
    outside: &[EMBEDDINGS],
    block: &[NORMS, BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint { classes: &["Spark2_5ForCausalLM"], keys: &[GENERIC, KEYS], ..Checkpoint::TEXT }],
};

const KEYS: &[Key] = keys! {
    let known_gate = "one_of(gate_attn_act_mode, {'sigmoid': 1})";
    let known_gates = "one_of(str(headwise_attn_output_gate), {'true': 1})";
    let known_act = "one_of(hidden_act, {'gelu': 1})";
    "vocab_size" U32 = "vocab_size";
    "attention.sliding_window" U32 = "sliding_window";
    "attention.sliding_window_pattern" Bool
        = "[one_of(layer_types[i], {'sliding_attention': true, 'full_attention': false}) for i]";
    "rope.dimension_count" U32 = "int(head_dim * float(rope_all.full_attention.partial_rotary_factor))";
    "rope.dimension_count_swa" U32 = "int(head_dim * float(rope_all.sliding_attention.partial_rotary_factor))";
};

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"      [Embd Qkv]   Optional    Always + Optional <- "self_attn.q_k_v_proj";
    "attn_q.weight"        [Embd Q]     UnlessFused Always + Optional;
    "attn_k.weight"        [Embd K]     UnlessFused Always + Optional;
    "attn_v.weight"        [Embd V]     UnlessFused Always + Optional;
    "attn_gate.weight"     [Embd Heads] Required    Always <- "self_attn.g_proj";
    "attn_output.weight"   [Q Embd]     Required    Always <- "self_attn.o_proj";
};
