//! MPT: ALiBi instead of positions, fused queries, keys and values with optional clamping, usually no biases.
//!
//! Rules: `load_arch_tensors` in `src/models/mpt.cpp` of llama.cpp, `MPTModel` in `conversion/mpt.py`, which does not
//! write the file type. The class in transformers is the same model under a name that the reference does not list.
//! Without `tokenizer.json`, the vocabulary is SEA-LION's, whose special tokens no file names.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["mpt"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::ATTENTION_CLAMP_KQV, keys::ATTENTION_MAX_ALIBI_BIAS],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MPTForCausalLM", "MptForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["blocks.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::BPE_OR_SENTENCE_PIECE, keys: &[SEA_LION], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "max_seq_len";
    "embedding_length" U32 = "d_model";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "4 * d_model";
    "attention.head_count" U32 = "n_heads";
    "attention.head_count_kv" U32? = "attn_config.kv_n_heads or null";
    "attention.layer_norm_epsilon" F32 = "1e-5";
    "attention.clamp_kqv" F32? = "attn_config.clip_qkv";
    "attention.max_alibi_bias" F32 = "attn_config.alibi_bias_max if attn_config.alibi else 0.0";
};

const SEA_LION: &[Key] = keys! {
    let is_sentencepiece = "@tokenizer_model == 'llama'";
    "tokenizer.ggml.add_bos_token" Bool? = "false if is_sentencepiece else null";
    "tokenizer.ggml.padding_token_id" U32? = "3 if is_sentencepiece else null";
    "tokenizer.ggml.eos_token_id" U32? = "1 if is_sentencepiece else null";
    "tokenizer.ggml.unknown_token_id" U32? = "0 if is_sentencepiece else null";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]   Required Always <- "wte";
    "position_embd.weight" [Embd Context] Optional Always <- "wpe";
    "output_norm.weight"   [Embd]         Required Always + Optional <- "norm_f";
    "output.weight"        [Embd Vocab]   Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]         Required Always + Optional <- "norm_1";
    "attn_qkv.weight"      [Embd EmbdQkv]     Required Always + Optional <- "attn.Wqkv";
    "attn_q_norm.weight"   [Embd]         Optional Always + Optional <- "attn.q_ln";
    "attn_k_norm.weight"   [Embd]         Optional Always + Optional <- "attn.k_ln";
    "attn_output.weight"   [Embd Embd]    Required Always + Optional <- "attn.out_proj";
    "ffn_norm.weight"      [Embd]         Required Always + Optional <- "norm_2";
    "ffn_up.weight"        [Embd Ff]      Required Always + Optional <- "ffn.up_proj";
    "ffn_down.weight"      [Ff Embd]      Required Always + Optional <- "ffn.down_proj";
    "ffn.act.scales"       [Ff]           Optional Always <- "ffn.act.scales";
};
