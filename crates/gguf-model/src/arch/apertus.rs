//! Apertus: Llama with query and key norms, and an activation with trained parameters.
//!
//! Rules: `load_arch_tensors` in `src/models/apertus.cpp` of llama.cpp, `ApertusModel` in `conversion/llama.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["apertus"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::XIELU_ALPHA_N, keys::XIELU_ALPHA_P, keys::XIELU_BETA, keys::XIELU_EPS],
    ],
    optional: &[],
    outside: &[UNTIED_EMBEDDINGS, ROPE_FACTORS],
    block: &[BLOCK_NORMS, QKV_OF_VALUES, OUTPUT_WITH_BIAS, QK_NORMS, UNGATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["ApertusForCausalLM"],
        facts: &TensorFacts {
            peeked: &[
                ("xielu_alpha_n", "layers.{}.mlp.act_fn.alpha_n"),
                ("xielu_alpha_p", "layers.{}.mlp.act_fn.alpha_p"),
                ("xielu_beta", "layers.{}.mlp.act_fn.beta"),
                ("xielu_eps", "layers.{}.mlp.act_fn.eps"),
            ],
            ..*super::llama::LLAMA.facts
        },
        tensor_keys: &[ACTIVATION],
        ..super::llama::LLAMA
    }],
};

/// One number per block.
const ACTIVATION: &[Key] = keys! {
    "xielu.alpha_n" F32? = "[x[0] for x in @xielu_alpha_n] if @xielu_alpha_n != null else null";
    "xielu.alpha_p" F32? = "[x[0] for x in @xielu_alpha_p] if @xielu_alpha_p != null else null";
    "xielu.beta" F32? = "[x[0] for x in @xielu_beta] if @xielu_beta != null else null";
    "xielu.eps" F32? = "[x[0] for x in @xielu_eps] if @xielu_eps != null else null";
};

const BLOCK_NORMS: &[Row] = rows! {
    "attn_norm.weight" [Embd] Required Always <- "attention_layernorm";
    "ffn_norm.weight"  [Embd] Required Always <- "feedforward_layernorm";
};
