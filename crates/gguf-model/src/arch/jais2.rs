//! Jais 2: layer norms, biases everywhere, a feed-forward part without a gate.
//!
//! Rules: `load_arch_tensors` in `src/models/jais2.cpp` of llama.cpp, `Jais2Model` in `conversion/jais.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["jais2"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[BIASED_EMBEDDINGS],
    block: &[BIASED_NORMS, FUSED_QKV, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Jais2ForCausalLM"],
        keys: &[GENERIC, ROPE_WHOLE_HEAD],
        ..Checkpoint::TEXT
    }],
};

const BLOCK: &[Row] = rows! {
    "attn_q.weight"      [Embd Q]   UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd K]   UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd V]   UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Q Embd]   Required    Always + Required <- "self_attn.o_proj";
    "ffn_up.weight"      [Embd Ff]  Required    Always + Required <- "mlp.up_proj";
    "ffn_down.weight"    [Ff Embd]  Required    Always + Required <- "mlp.down_proj";
};
