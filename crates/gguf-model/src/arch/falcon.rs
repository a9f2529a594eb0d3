//! Falcon: parallel attention and feed-forward part, with a common norm or one norm each, and few key-value heads.
//!
//! Rules: `load_arch_tensors` in `src/models/falcon.cpp` of llama.cpp, `FalconModel` in `conversion/falcon.py`.
//! Checkpoints store each key-value head with the query heads that use it. A configuration with multi-query attention
//! and without the newer layout means one key-value head, even if its class fills in the number of all heads; the
//! reference fails in this case.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["falcon"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["FalconForCausalLM", "RWForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let heads = "num_attention_heads ?? n_head";
    let is_single = "multi_query and not new_decoder_architecture and n_head_kv == null
        and num_kv_heads in [null, heads]";
    "context_length" U32 = "2048";
    "tensor_data_layout" Str = "'jploski'";
    "embedding_length" U32 = "hidden_size";
    "feed_forward_length" U32 = "4 * hidden_size";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "heads";
    "attention.head_count_kv" U32 = "1 if is_single else num_kv_heads ?? n_head_kv|1";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "word_embeddings";
    "output_norm.weight" [Embd]       Required Always + Required <- "ln_f";
    "output.weight"      [Embd Vocab] Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required Always + Required <- "input_layernorm | ln_mlp";
    "attn_norm_2.weight" [Embd]       Optional Always + Optional <- "ln_attn";
    "attn_qkv.weight"    [Embd EmbdQkv]   Required Always <- "self_attention.query_key_value" : QKV_OF_GROUPS;
    "attn_output.weight" [Embd Embd]  Required Always <- "self_attention.dense";
    "ffn_up.weight"      [Embd Ff]    Required Always <- "mlp.dense_h_to_4h";
    "ffn_down.weight"    [Ff Embd]    Required Always <- "mlp.dense_4h_to_h";
};

const QKV_OF_GROUPS: &str = "(kv g d) ... -> (kv g[:-2] d) ... + (kv g[-2] d) ... + (kv g[-1] d) ...";
