//! BitNet b1.58: ternary weights, and norms inside the attention and the feed-forward part.
//!
//! Rules: `load_arch_tensors` in `src/models/bitnet.cpp` of llama.cpp, `BitnetModel` in `conversion/bitnet.py`.
//! llama.cpp applies SiLU; BitNet b1.58 2B4T, whose norms have different names, uses a squared ReLU.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["bitnet"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[NORMS, BLOCK, SCALES],
    checkpoints: &[Checkpoint {
        classes: &["BitnetForCausalLM", "BitNetForCausalLM"],
        facts: &TensorFacts { present: &[("is_2b4t", "*.mlp.ffn_sub_norm.weight")], ..TensorFacts::NONE },
        refuse: &[(
            "@is_2b4t",
            "BitNet b1.58 2B4T (tensors named ffn_sub_norm), whose squared ReLU llama.cpp does not compute",
        )],
        keys: &[GENERIC, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "rope.scaling.type" Str = "'linear'";
    "rope.scaling.factor" F32 = "1.0";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]       Required Always <- "norm";
};

const BLOCK: &[Row] = rows! {
    "attn_sub_norm.weight" [Embd]       Required Always <- "self_attn.inner_attn_ln";
    "attn_q.weight"        [Embd Embd]  Required Always <- "self_attn.q_proj" => RowOp::RoundToMean;
    "attn_k.weight"        [Embd V]     Required Always <- "self_attn.k_proj" => RowOp::RoundToMean;
    "attn_v.weight"        [Embd V]     Required Always <- "self_attn.v_proj" => RowOp::RoundToMean;
    "attn_output.weight"   [Embd Embd]  Required Always <- "self_attn.o_proj" => RowOp::RoundToMean;
    "ffn_sub_norm.weight"  [Ff]         Required Always <- "mlp.ffn_layernorm";
    "ffn_gate.weight"      [Embd Ff]    Required Always <- "mlp.gate_proj" => RowOp::RoundToMean;
    "ffn_down.weight"      [Ff Embd]    Required Always <- "mlp.down_proj" => RowOp::RoundToMean;
    "ffn_up.weight"        [Embd Ff]    Required Always <- "mlp.up_proj" => RowOp::RoundToMean;
};

/// The scales of the matrices, in files of other converters.
const SCALES: &[Row] = rows! {
    "attn_q.scale"         ["1"]        Optional Always;
    "attn_k.scale"         ["1"]        Optional Always;
    "attn_v.scale"         ["1"]        Optional Always;
    "attn_output.scale"    ["1"]        Optional Always;
    "ffn_gate.scale"       ["1"]        Optional Always;
    "ffn_down.scale"       ["1"]        Optional Always;
    "ffn_up.scale"         ["1"]        Optional Always;
};
