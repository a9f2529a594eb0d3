//! GPT-NeoX and Pythia: rotary positions for part of each head, parallel or sequential attention and feed-forward
//! part.
//!
//! Rules: `load_arch_tensors` in `src/models/gptneox.cpp` of llama.cpp, `GPTNeoXModel` in `conversion/gptneox.py`, which writes
//! neither the file type nor the base of the rotary frequencies.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["gptneox"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::USE_PARALLEL_RESIDUAL]],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["GPTNeoXForCausalLM"],
        names: &TensorNames { roots: &["gpt_neox."], ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "context_length" U32 = "max_position_embeddings";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "intermediate_size";
    "rope.dimension_count" U32 = "int(rotary_pct * (hidden_size // num_attention_heads))";
    "attention.head_count" U32 = "num_attention_heads";
    "use_parallel_residual" Bool = "use_parallel_residual|true";
    "attention.layer_norm_epsilon" F32 = "layer_norm_eps";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_in";
    "output_norm.weight" [Embd]       Required Always + Required <- "final_layer_norm";
    "output.weight"      [Embd Vocab] Required Always <- "embed_out | lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required Always + Required <- "input_layernorm";
    "attn_qkv.weight"    [Embd EmbdQkv]   Required Always + Required <- "attention.query_key_value" : QKV_OF_HEADS;
    "attn_output.weight" [Embd Embd]  Required Always + Required <- "attention.dense";
    "ffn_norm.weight"    [Embd]       Required Always + Required <- "post_attention_layernorm";
    "ffn_up.weight"      [Embd Ff]    Required Always + Required <- "mlp.dense_h_to_4h";
    "ffn_down.weight"    [Ff Embd]    Required Always + Required <- "mlp.dense_4h_to_h";
};
