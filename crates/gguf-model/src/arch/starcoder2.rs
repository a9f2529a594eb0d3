//! StarCoder 2: rotary positions, layer norms, biases everywhere, a feed-forward part without a gate.
//!
//! Rules: `load_arch_tensors` in `src/models/starcoder2.cpp` of llama.cpp, `StarCoder2Model` in `conversion/starcoder.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["starcoder2"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[BIASED_EMBEDDINGS],
    block: &[BIASED_NORMS, FUSED_EMBD_QKV, BLOCK],
    checkpoints: &[Checkpoint { classes: &["Starcoder2ForCausalLM"], ..Checkpoint::TEXT }],
};

const BLOCK: &[Row] = rows! {
    "attn_q.weight"      [Embd Embd]    UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd V]    UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd V]    UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Embd Embd] Required    Always + Required <- "self_attn.o_proj";
    "ffn_up.weight"      [Embd Ff]   Required    Always + Required <- "mlp.c_fc";
    "ffn_down.weight"    [Ff Embd]   Required    Always + Required <- "mlp.c_proj";
};
