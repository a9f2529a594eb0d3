//! OpenELM: numbers of heads and widths that grow from block to block; tied embeddings.
//!
//! Rules: `load_arch_tensors` in `src/models/openelm.cpp` of llama.cpp, `OpenELMModel` in `conversion/openelm.py`.
//! Without `tokenizer.model` the reference uses the Llama 2 vocabulary of its source tree; here the file is required.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["openelm"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["OpenELMForCausalLM"],
        names: &TensorNames { roots: &["transformer."], ..TensorNames::TEXT },
        refuse: &[(
            "len(num_kv_heads) != block_count or len(num_query_heads) != block_count or len(ffn_multipliers) != block_count",
            "lists of another length than the number of blocks (num_kv_heads, num_query_heads, ffn_multipliers)",
        )],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "token_embeddings";
    "output_norm.weight" [Embd]       Required Always <- "norm";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required Always <- "attn_norm";
    "attn_qkv.weight"    [Embd QkvOfKeys] Required Always <- "attn.qkv_proj";
    "attn_q_norm.weight" [HeadK]      Required Always <- "attn.q_norm";
    "attn_k_norm.weight" [HeadK]      Required Always <- "attn.k_norm";
    "attn_output.weight" [Q Embd]     Required Always <- "attn.out_proj";
    "ffn_norm.weight"    [Embd]       Required Always <- "ffn_norm";
    "ffn_gate.weight"    [Embd Ff]    Required Always <- "ffn.proj_1" : "r e -> r[:Ff] e";
    "ffn_up.weight"      [Embd Ff]    Required Always <- "ffn.proj_1" : "r e -> r[Ff:] e";
    "ffn_down.weight"    [Ff Embd]    Required Always <- "ffn.proj_2";
};

const KEYS: &[Key] = keys! {
    let wanted = "[multiplier * model_dim for multiplier in ffn_multipliers]";
    let step = "ffn_dim_divisor";
    let rounded = "[max(step, int(width + step / 2) // step * step) for width in wanted]";
    "block_count" U32 = "block_count";
    "context_length" U32 = "max_context_length";
    "embedding_length" U32 = "model_dim";
    "feed_forward_length" U32 = "[rounded[i] + (step if rounded[i] < 0.9 * wanted[i] else 0) for i]";
    "attention.head_count" U32 = "num_query_heads";
    "attention.head_count_kv" U32 = "num_kv_heads";
    "rope.freq_base" F32 = "rope_freq_constant";
    "attention.layer_norm_rms_epsilon" F32 = "1e-6";
    "rope.dimension_count" U32 = "int(1.0 * head_dim)";
    "attention.key_length" U32 = "head_dim";
    "attention.value_length" U32 = "head_dim";
    "general.file_type" U32 = "@file_type";
};
