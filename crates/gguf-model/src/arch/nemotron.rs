//! Nemotron and Minitron: norms with biases and weights stored minus 1; rotary positions in part of each head; a
//! feed-forward part without a gate.
//!
//! Rules: `load_arch_tensors` in `src/models/nemotron.cpp` of llama.cpp, `NemotronModel` in `conversion/nemotron.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["nemotron"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK, EMBD_QKV],
    checkpoints: &[Checkpoint {
        classes: &["NemotronForCausalLM"],
        keys: &[GENERIC, VOCAB_SIZE, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, keys: &[TOKENS], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "attention.layer_norm_epsilon" F32 = "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps";
    "rope.dimension_count" U32
        = "int(rope_all.partial_rotary_factor * (hidden_size|n_embd)) // (num_attention_heads|n_head)";
    let stretch = "factor or rope_all.factor";
    "rope.scaling.type" Str = "'none' if stretch == null else 'linear'";
    "rope.scaling.factor" F32? = "stretch";
};

const TOKENS: &[Key] = keys! {
    "tokenizer.ggml.padding_token_id" U32 = "0";
    "tokenizer.ggml.unknown_token_id" U32 = "1";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "embed_tokens";
    "output_norm.weight" [Embd]       Required Always <- "norm", Map::Add(1.0);
    "output_norm.bias"   [Embd]       Required Always <- "norm.bias";
    "output.weight"      [Embd Vocab] Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required Always <- "input_layernorm", Map::Add(1.0);
    "attn_norm.bias"     [Embd]       Required Always <- "input_layernorm.bias";
    "ffn_norm.weight"    [Embd]       Required Always <- "post_attention_layernorm", Map::Add(1.0);
    "ffn_norm.bias"      [Embd]       Required Always <- "post_attention_layernorm.bias";
    "attn_output.weight" [Embd Embd]  Required Always + Optional <- "self_attn.o_proj";
    "ffn_up.weight"      [Embd Ff]    Required Always + Optional <- "mlp.up_proj";
    "ffn_down.weight"    [Ff Embd]    Required Always + Optional <- "mlp.down_proj";
};
