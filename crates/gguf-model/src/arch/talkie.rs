//! Talkie: gains instead of norms, rotation in the opposite direction, and embeddings that are input to every block.
//!
//! Rules: `load_arch_tensors` in `src/models/talkie.cpp` of llama.cpp, `TalkieModel` in `conversion/talkie.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["talkie"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::LOGIT_SCALE]],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["TalkieForCausalLM"],
        names: &TensorNames { layers: &["blocks.{}."], ..TensorNames::TEXT },
        facts: &TensorFacts { peeked: &[("lm_head_gain", "lm_head_gain.w_g")], ..TensorFacts::NONE },
        tensor_keys: &[LOGITS],
        keys: &[GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const LOGITS: &[Key] = keys! {
    "logit_scale" F32? = "@lm_head_gain[0] if @lm_head_gain != null else null";
};

/// The single-precision machine epsilon, the default epsilon of torch's norm.
const KEYS: &[Key] = keys! {
    "attention.layer_norm_rms_epsilon" F32 = "2.0 ** -23";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"         [Embd Vocab] Required Always <- "embed";
    "output.weight"             [Embd Vocab] Required Always <- "lm_head";
};

/// Negates the second half of each head.
const TURNED: Map = Map::ScaleRowsBy("[[head_dim // 2, 1.0], [head_dim - head_dim // 2, -1.0]]");

const BLOCK: &[Row] = rows! {
    "attn_q.weight"             [Embd Q]     Required Always <- "attn.attn_query", TURNED;
    "attn_k.weight"             [Embd V]     Required Always <- "attn.attn_key", TURNED;
    "attn_v.weight"             [Embd V]     Required Always <- "attn.attn_value";
    "attn_q.bias"               [Q]          Optional Always;
    "attn_k.bias"               [V]          Optional Always;
    "attn_v.bias"               [V]          Optional Always;
    "attn_output.weight"        [Q Embd]     Required Always <- "attn.attn_resid";
    "attn_output.scale"         ["1"]        Optional Always <- "attn_gain.a_g";
    "attn_q_norm.weight"        ["1" Heads]  Required Always <- "attn.head_gain.head_g" : "h -> h 1";
    "ffn_gate.weight"           [Embd Ff]    Required Always <- "mlp.mlp_gate";
    "ffn_up.weight"             [Embd Ff]    Required Always <- "mlp.mlp_linear";
    "ffn_down.weight"           [Ff Embd]    Required Always <- "mlp.mlp_resid";
    "ffn_down.scale"            ["1"]        Optional Always <- "mlp_gain.a_g";
    "layer_output_scale.weight" ["1"]        Required Always <- "embed_skip.a_g";
};
