//! Llama 4: every n-th block has experts, stacked and transposed in the checkpoint, and a shared expert of the same
//! width.
//!
//! Rules: `load_arch_tensors` in `src/models/llama4.cpp` of llama.cpp, `Llama4Model` in `conversion/llama.py`. In the
//! configuration, `intermediate_size` is the width of the experts, and `intermediate_size_mlp` the width in dense
//! blocks.

use super::llama::LLAMA;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["llama4"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::INTERLEAVE_MOE_LAYER_STEP]],
    optional: &[keys::ATTENTION_SLIDING_WINDOW],
    outside: &[EMBEDDINGS, ROPE_FREQS],
    block: &[NORMS, QKV, OUTPUT, FFN],
    checkpoints: &[Checkpoint {
        classes: &["Llama4ForConditionalGeneration", "Llama4ForCausalLM"],
        keys: &[WIDTHS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::BPE, ..*LLAMA.tokenizer },
        ..LLAMA
    }],
};

const WIDTHS: &[Key] = keys! {
    let intermediate_size_moe = "required(intermediate_size)";
    let intermediate_size = "required(intermediate_size_mlp)";
};

const KEYS: &[Key] = keys! {
    "interleave_moe_layer_step" U32 = "interleave_moe_layer_step";
    "expert_feed_forward_length" U32 = "intermediate_size_moe";
    "attention.sliding_window" U32? = "null if layer_types == null
        else 0 if all([t == 'full_attention' for t in layer_types]) else null";
};

const FFN: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]               Required Dense   <- "feed_forward.gate_proj";
    "ffn_up.weight"         [Embd Ff]               Required Dense   <- "feed_forward.up_proj";
    "ffn_down.weight"       [Ff Embd]               Required Dense   <- "feed_forward.down_proj";
    "ffn_gate_inp.weight"   [Embd Experts]          Required Experts <- "feed_forward.router";
    "ffn_gate_exps.weight"  [Embd ExpertFf Experts] Required Experts <- "feed_forward.experts.gate_up_proj" : "x e (two[0] f) -> x f e";
    "ffn_up_exps.weight"    [Embd ExpertFf Experts] Required Experts <- "feed_forward.experts.gate_up_proj" : "x e (two[1] f) -> x f e";
    "ffn_down_exps.weight"  [ExpertFf Embd Experts] Required Experts <- "feed_forward.experts.down_proj" : "x f e -> x e f";
    "ffn_gate_shexp.weight" [Embd ExpertFf]         Required Experts <- "feed_forward.shared_expert.gate_proj";
    "ffn_up_shexp.weight"   [Embd ExpertFf]         Required Experts <- "feed_forward.shared_expert.up_proj";
    "ffn_down_shexp.weight" [ExpertFf Embd]         Required Experts <- "feed_forward.shared_expert.down_proj";
};
