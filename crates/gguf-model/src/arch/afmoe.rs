//! AFMoE (Arcee Trinity): gated attention, norms before and after attention and feed-forward part, routed and shared
//! experts, sliding windows.
//!
//! Rules: `load_arch_tensors` in `src/models/afmoe.cpp` of llama.cpp, `AfmoeModel` in `conversion/afmoe.py` on top of `LlamaModel`,
//! without its permutation of rotated pairs.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["afmoe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT]],
    optional: &[
        keys::ATTENTION_SLIDING_WINDOW,
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
    ],
    outside: &[EMBEDDINGS],
    block: &[BLOCK, QKV, OUTPUT, QK_NORMS, GATED_FFN, ROUTER, EXPERTS_IN_ORDER, SHARED_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["AfmoeForCausalLM"],
        keys: &[GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]         Required Always <- "input_layernorm";
    "post_attention_norm.weight" [Embd]         Required Always <- "post_attention_layernorm";
    "attn_gate.weight"           [Embd Q]       Required Always <- "self_attn.gate_proj";
    "ffn_norm.weight"            [Embd]         Required Always <- "pre_mlp_layernorm";
    "post_ffw_norm.weight"       [Embd]         Required Always <- "post_mlp_layernorm";
};

const ROUTER: &[Row] = rows! {
    "ffn_gate_inp.weight"        [Embd Experts] Required Experts <- "mlp.router.gate";
    "exp_probs_b.bias"           [Experts]      Required Experts <- "mlp.expert_bias";
};

const KEYS: &[Key] = keys! {
    "expert_shared_count" U32? = "num_shared_experts";
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "leading_dense_block_count" U32? = "num_dense_layers";
    "expert_weights_norm" Bool? = "route_norm";
    "expert_weights_scale" F32? = "route_scale";
    "attention.sliding_window" U32? = "sliding_window";
};
