//! Muse Glimmer: four norms in a block, a gate after the attention, weightless query and key norms, and sliding
//! windows in most blocks.
//!
//! Rules: `load_arch_tensors` in `src/models/muse-glimmer.cpp` of llama.cpp, `MuseGlimmerModel` in
//! `conversion/muse_glimmer.py`. The norm of queries has one scale for all elements, which becomes a constant vector.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["muse-glimmer"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::ATTENTION_SLIDING_WINDOW, keys::LOGIT_SCALE],
    ],
    optional: &[keys::ATTENTION_SLIDING_WINDOW_PATTERN, keys::FINAL_LOGIT_SOFTCAPPING, keys::ROPE_FREQ_BASE_SWA],
    outside: &[UNTIED_EMBEDDINGS],
    block: &[BLOCK, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["MuseGlimmerForConditionalGeneration"],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { late_tokens: &[("eot", "<|eot|>")], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "final_logit_softcapping" F32 = "final_logit_softcapping";
    "logit_scale" F32 = "output_multiplier";
    "attention.sliding_window" U32 = "sliding_window";
    "attention.sliding_window_pattern" Bool = "[t == 'sliding_attention' for t in layer_types]";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]     Required Always <- "input_layernorm", Map::Add(1.0);
    "post_attention_norm.weight" [Embd]     Required Always <- "post_attention_layernorm", Map::Add(1.0);
    "ffn_norm.weight"            [Embd]     Required Always <- "pre_feedforward_layernorm", Map::Add(1.0);
    "post_ffw_norm.weight"       [Embd]     Required Always <- "post_feedforward_layernorm", Map::Add(1.0);
    "attn_qkv.weight"            [Embd Qkv] Optional Always + Optional;
    "attn_q_norm.weight"         [HeadK]    Required Always <- "self_attn.q_proj" => RowOp::Values("qk_scale_factor");
    "attn_k_norm.weight"         [HeadK]    Required Always <- "self_attn.q_proj" => RowOp::Values("1.0");
    "attn_q.weight"              [Embd Q]   UnlessFused Always + Optional <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"              [Embd K]   UnlessFused Always + Optional <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"              [Embd V]   UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_gate.weight"           [Embd Q]   Required Always <- "self_attn.gate_proj";
    "attn_output.weight"         [Q Embd]   Required Always <- "self_attn.o_proj";
};
