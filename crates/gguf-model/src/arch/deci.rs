//! DeciLM and Nemotron of NVIDIA's architecture search: numbers of heads and widths per block, blocks without
//! attention or without a feed-forward part.
//!
//! Rules: `load_arch_tensors` in `src/models/deci.cpp` of llama.cpp, `DeciModel` in `conversion/deci.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["deci"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[BLOCK],
    checkpoints: &[
        Checkpoint {
            classes: &["DeciLMForCausalLM"],
            when: "(block_configs|null) != null",
            refuse: &[
                ("len(block_configs) != block_count", "block_configs of another length than num_hidden_layers"),
                (
                    "not ('.' in str(block_configs[0].ffn.ffn_mult ?? 0.0) or 'e' in str(block_configs[0].ffn.ffn_mult ?? 0.0))",
                    "an ffn_mult of the first block that is a whole number without a decimal point",
                ),
                EQUAL_FREQUENCIES,
            ],
            keys: &[BLOCK_KEYS, VOCAB_SIZE, ROPE_WHOLE_HEAD],
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["DeciLMForCausalLM"],
            refuse: &[
                (
                    "num_key_value_heads_per_layer != null and len(num_key_value_heads_per_layer) != block_count",
                    "a num_key_value_heads_per_layer of another length than num_hidden_layers",
                ),
                EQUAL_FREQUENCIES,
            ],
            keys: &[GENERIC, HEADS_OF_BLOCKS, VOCAB_SIZE, ROPE_WHOLE_HEAD],
            tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::ByteFallback]), ..Tokenizer::BPE },
            computed: &[Computed::Llama3Freqs],
            ..Checkpoint::TEXT
        },
    ],
};

const BLOCK_KEYS: &[Key] = keys! {
    "rope.freq_base" F32? = "rope_all.rope_theta";
    "attention.head_count_kv" U32 = "[0 if c.attention.n_heads_in_group == null
        else num_attention_heads // c.attention.n_heads_in_group for c in block_configs]";
    "attention.head_count" U32 = "[0 if c.attention.n_heads_in_group == null and not c.attention.replace_with_linear
        else num_attention_heads for c in block_configs]";
    "feed_forward_length" U32 = "[(int(2 * (c.ffn.ffn_mult ?? 0.0) * hidden_size / 3) + 255) // 256 * 256 for c in block_configs]";
    "block_count" U32 = "block_count";
    "context_length" U32 = "max_position_embeddings";
    "embedding_length" U32 = "hidden_size";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "attention.key_length" U32 = "hidden_size // num_attention_heads";
    "attention.value_length" U32 = "hidden_size // num_attention_heads";
    "general.file_type" U32 = "@file_type";
};

const HEADS_OF_BLOCKS: &[Key] = keys! {
    "attention.head_count_kv" U32? = "num_key_value_heads_per_layer";
};

/// Blocks with heads of keys and values.
const HAS_KEYS: When = when!("attention.head_count_kv");

/// Blocks with heads of queries only, whose attention is one matrix.
const LINEAR: When = when!("attention.head_count and not attention.head_count_kv");

/// Blocks with a feed-forward part.
const HAS_FF: When = when!("feed_forward_length");

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]      Required    HAS_KEYS <- "input_layernorm";
    "attn_norm.weight"   [Embd]      Required    LINEAR <- "input_layernorm";
    "ffn_norm.weight"    [Embd]      Required    HAS_FF <- "post_attention_layernorm";
    "attn_qkv.weight"    [Embd Qkv]  Optional    HAS_KEYS + Optional;
    "attn_q.weight"      [Embd Q]    UnlessFused HAS_KEYS + Optional <- "self_attn.q_proj" : ROPE_Q;
    "attn_k.weight"      [Embd K]    UnlessFused HAS_KEYS + Optional <- "self_attn.k_proj" : ROPE_K;
    "attn_v.weight"      [Embd V]    UnlessFused HAS_KEYS + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Q Embd]    Required    HAS_KEYS + Optional <- "self_attn.o_proj";
    "attn_output.weight" [Embd Embd] Required    LINEAR + Optional <- "self_attn.linear_attn";
    "ffn_gate.weight"    [Embd Ff]   Required    HAS_FF + Optional <- "mlp.gate_proj";
    "ffn_up.weight"      [Embd Ff]   Required    HAS_FF + Optional <- "mlp.up_proj";
    "ffn_down.weight"    [Ff Embd]   Required    HAS_FF + Optional <- "mlp.down_proj";
};
