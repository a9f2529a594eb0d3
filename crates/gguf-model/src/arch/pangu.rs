//! openPangu Embedded: Llama with biases in the attention.
//!
//! Rules: `load_arch_tensors` in `src/models/pangu-embed.cpp` of llama.cpp, `PanguEmbeddedModel` in `conversion/pangu.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["pangu-embedded"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS, ROPE_FACTORS],
    block: &[NORMS, FUSED_QKV, BIASED_ATTENTION, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["PanguEmbeddedForCausalLM"],
        names: &TensorNames { skip: &[("lm_head.weight", "tie_word_embeddings")], ..TensorNames::TEXT },
        keys: &[GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD, HEADS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, keys: &[SPACE], ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const HEADS: &[Key] = keys! {
    let share = "null if head_dim != null else hidden_size // num_attention_heads";
    "attention.key_length" U32? = "share";
    "attention.value_length" U32? = "share";
};

const SPACE: &[Key] = keys! {
    "tokenizer.ggml.add_space_prefix" Bool? = "@tokenizer_config.add_prefix_space";
};

const BIASED_ATTENTION: &[Row] = rows! {
    "attn_q.weight"      [Embd Q]   UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd K]   UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd V]   UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Q Embd]   Required    Always + Required <- "self_attn.o_proj";
};
