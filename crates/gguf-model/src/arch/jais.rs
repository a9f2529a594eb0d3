//! Jais: GPT-2 with biases by distance (ALiBi), a gated feed-forward part, and scaled embeddings and outputs.
//!
//! Rules: `load_arch_tensors` in `src/models/jais.cpp` of llama.cpp, `JaisModel` in `conversion/jais.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["jais"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_MAX_ALIBI_BIAS],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["JAISLMHeadModel"],
        names: &TensorNames {
            roots: &["transformer."],
            layers: &["h.{}."],
            skip: &[("*.attn.bias", "")],
            ..TensorNames::TEXT
        },
        refuse: &[
            ("activation_function != 'swiglu'", "an activation_function other than \"swiglu\""),
            ("position_embedding_type != 'alibi'", "a position_embedding_type other than \"alibi\""),
        ],
        facts: &TensorFacts { peeked: &[("slopes", "relative_pe.slopes")], ..TensorFacts::NONE },
        tensor_keys: &[ALIBI],
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

/// The largest bias is computed from the first slope.
const ALIBI: &[Key] = keys! {
    let closest = "2 ** int(log2(n_head))";
    "attention.max_alibi_bias" F32 = "-round(log2(@slopes[0]) * closest) if @slopes else 8.0";
};

const KEYS: &[Key] = keys! {
    "block_count" U32 = "block_count";
    "context_length" U32 = "n_positions";
    "embedding_length" U32 = "n_embd";
    "feed_forward_length" U32 = "n_inner";
    "attention.head_count" U32 = "n_head";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]  Required Always <- "wte", Map::ScaleBy("mup_embeddings_scale|embeddings_scale");
    "output_norm.weight" [Embd]        Required Always + Required <- "ln_f";
    "output.weight"      [Embd Vocab]  Required Always <- "lm_head",
        Map::ScaleBy("mup_output_alpha * mup_width_scale if mup_output_alpha != null else width_scale");
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]        Required Always + Required <- "ln_1";
    "attn_qkv.weight"    [Embd EmbdQkv]    Required Always <- "attn.c_attn" : "i o -> o i";
    "attn_qkv.bias"      [EmbdQkv]         Required Always <- "attn.c_attn.bias";
    "attn_output.weight" [Embd Embd]   Required Always <- "attn.c_proj" : "i o -> o i";
    "attn_output.bias"   [Embd]        Required Always <- "attn.c_proj.bias";
    "ffn_norm.weight"    [Embd]        Required Always + Required <- "ln_2";
    "ffn_up.weight"      [Embd Ff]     Required Always <- "mlp.c_fc" : "i o -> o i";
    "ffn_up.bias"        [Ff]          Required Always <- "mlp.c_fc.bias";
    "ffn_gate.weight"    [Embd Ff]     Required Always <- "mlp.c_fc2" : "i o -> o i";
    "ffn_gate.bias"      [Ff]          Required Always <- "mlp.c_fc2.bias";
    "ffn_down.weight"    [Ff Embd]     Required Always <- "mlp.c_proj" : "i o -> o i";
    "ffn_down.bias"      [Embd]        Required Always <- "mlp.c_proj.bias";
};
