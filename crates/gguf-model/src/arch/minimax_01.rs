//! MiniMax-01 and M1: linear attention in most blocks, with a norm and a gate, and experts in all.
//!
//! Rules: `load_arch_tensors` in `src/models/minimax-01.cpp` of llama.cpp, `MiniMaxText01Model` in `conversion/minimax.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["minimax-01"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::RESIDUAL_SCALE]],
    optional: &[keys::ATTENTION_RECURRENT_LAYERS],
    outside: &[EMBEDDINGS],
    block: &[NORMS, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"],
        refuse: &[
            (
                "layernorm_full_attention_alpha != layernorm_linear_attention_alpha
                    or layernorm_full_attention_alpha != layernorm_mlp_alpha",
                "different scales of residuals (layernorm_*_alpha)",
            ),
            (
                "layernorm_full_attention_beta != 1 or layernorm_linear_attention_beta != 1 or layernorm_mlp_beta != 1",
                "scaled outputs of blocks (layernorm_*_beta other than 1)",
            ),
        ],
        facts: &TensorFacts { lists_zero_rows: true, ..TensorFacts::NONE },
        tokenizer: &Tokenizer { keys: &[TOKENIZER], ..Tokenizer::BPE },
        keys: &[GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

/// The chat template, unless the tokenizer's files have one.
const TOKENIZER: &[Key] = keys! {
    "tokenizer.chat_template" Str? = "null if @has_chat_template else template('minimax-m1')";
};

const KEYS: &[Key] = keys! {
    "tokenizer.ggml.suppress_tokens" I32? = "@zero_rows";
    "residual_scale" F32 = "layernorm_full_attention_alpha";
    "rope.dimension_count" U32 = "rotary_dim";
};

/// Blocks with softmax attention.
const NOT_LIGHTNING: When = when!("not is_lightning");

const BLOCK: &[Row] = rows! {
    "attn_qkv.weight"      [Embd Qkv]        Optional    NOT_LIGHTNING + Optional;
    "attn_q.weight"        [Embd Q]          UnlessFused NOT_LIGHTNING + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd K]          UnlessFused NOT_LIGHTNING + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd V]          UnlessFused NOT_LIGHTNING + Optional <- "self_attn.v_proj";
    "attn_qkv.weight"      [Embd ThriceQ]    Required "is_lightning" <- "self_attn.qkv_proj";
    "attn_gate.weight"     [Embd Q]          Required "is_lightning" <- "self_attn.output_gate";
    "attn_norm_2.weight"   [Q]               Required "is_lightning" <- "self_attn.norm";
    "attn_output.weight"   [Q Embd]          Required Always <- "self_attn.o_proj | self_attn.out_proj";
    "ffn_gate_inp.weight"  [Embd Experts]    Required Always <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight" [Embd Ff Experts] Optional Always <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight" [Ff Embd Experts] Required Always <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"   [Embd Ff Experts] Required Always <- "block_sparse_moe.experts.{x}.w3";
};
