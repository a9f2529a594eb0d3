//! Refact: ALiBi instead of positions, RMS norms, one key-value head, and fused gate and up projections.
//!
//! Rules: `load_arch_tensors` in `src/models/refact.cpp` of llama.cpp, `RefactModel` in `conversion/refact.py`. llama.cpp loads the
//! architecture as it does Llama, experts included.

use super::llama;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["refact"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[],
    outside: &[OUTSIDE, ROPE_FACTORS],
    block: &[FUSED_QKV, BLOCK, llama::FFN],
    checkpoints: &[Checkpoint {
        classes: &["GPTRefactForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        tokenizer: &Tokenizer {
            vocab: Vocab { readers: &[Reader::Bpe], quirks: &[Quirk::WritesEndOfTurn] },
            ..Tokenizer::BPE
        },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "n_positions";
    "embedding_length" U32 = "n_embd";
    "feed_forward_length" U32 = "(int(2 * (4 * n_embd) / 3) + 255) // 256 * 256";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "n_head";
    "attention.head_count_kv" U32 = "1";
    "attention.layer_norm_rms_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required    Always <- "wte";
    "output_norm.weight" [Embd]       Required    Always <- "ln_f";
    "output.weight"      [Embd Vocab] Optional    Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always <- "ln_1";
    "attn_q.weight"      [Embd Q]     UnlessFused Always + Optional <- "attn.q";
    "attn_k.weight"      [Embd K]     UnlessFused Always + Optional <- "attn.kv" : "r[:K] ... -> r ...";
    "attn_k.weight"      [Embd K]     UnlessFused Always + Optional <- "attn.k";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "attn.kv" : "r[K:] ... -> r ...";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "attn.v";
    "attn_output.weight" [Q Embd]     Required    Always + Optional <- "attn.c_proj";
    "ffn_norm.weight"    [Embd]       Required    Always <- "ln_2";
    "ffn_gate.weight"    [Embd Ff]    Required    Dense  + Optional <- "mlp.gate_up_proj" : "r[:Ff] ... -> r ...";
    "ffn_gate.weight"    [Embd Ff]    Required    Dense  + Optional <- "mlp.linear_1";
    "ffn_up.weight"      [Embd Ff]    Required    Dense  + Optional <- "mlp.gate_up_proj" : "r[Ff:] ... -> r ...";
    "ffn_up.weight"      [Embd Ff]    Required    Dense  + Optional <- "mlp.linear_3";
    "ffn_down.weight"    [Ff Embd]    Required    Dense  + Optional <- "mlp.c_proj";
};
