//! ChatGLM 3 and GLM-4 of 2024: fused queries, keys and values, fused gate and up projections, half of each head
//! rotated. Checkpoints use the models' original names or those of transformers.
//!
//! Rules: `load_arch_tensors` in `src/models/chatglm.cpp` of llama.cpp, `ChatGLMModel` in `conversion/chatglm.py`.
//! SentencePiece tokenizers (ChatGLM 3) are not supported: only code in the checkpoint defines their special tokens.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["chatglm"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["GlmForCausalLM", "ChatGLMModel", "ChatGLMForConditionalGeneration"],
        names: &TensorNames {
            roots: &["transformer.", "model."],
            layers: &["encoder.layers.{}.", "layers.{}."],
            skip: &[("*rotary_pos_emb.inv_freq", "")],
            ..TensorNames::TEXT
        },
        keys: &[KEYS],
        tokenizer: &Tokenizer {
            special_tokens: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")],
            ..Tokenizer::BPE
        },
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]    Required    Always <- "embedding.word_embeddings | embed_tokens";
    "output_norm.weight" [Embd]          Required    Always <- "encoder.final_layernorm | norm";
    "output.weight"      [Embd Vocab]    Optional    Always <- "output_layer | lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]          Required    Always <- "input_layernorm";
    "attn_qkv.weight"    [Embd Qkv]      Optional    Always + Optional <- "self_attention.query_key_value";
    "attn_q.weight"      [Embd Q]        UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd K]        UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd V]        UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Embd Embd]     Required    Always <- "self_attention.dense | self_attn.o_proj";
    "ffn_norm.weight"    [Embd]          Required    Always <- "post_attention_layernorm";
    "ffn_up.weight"      [Embd TwiceFf]  Required    Always <- "mlp.dense_h_to_4h | mlp.gate_up_proj";
    "ffn_down.weight"    [Ff Embd]       Required    Always <- "mlp.dense_4h_to_h | mlp.down_proj";
};

const KEYS: &[Key] = keys! {
    let token_limit = "padded_vocab_size|vocab_size";
    let width = "required(hidden_size|n_embed)";
    "context_length" U32 = "seq_length|width";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "(ffn_hidden_size|intermediate_size) ?? 4 * width";
    "block_count" U32 = "block_count";
    "attention.head_count" U32 = "n_head|num_attention_heads";
    "attention.head_count_kv" U32 = "multi_query_group_num|num_key_value_heads|n_head|num_attention_heads";
    "attention.layer_norm_rms_epsilon" F32 = "layernorm_epsilon|1e-5";
    "general.file_type" U32 = "@file_type";
    "rope.dimension_count" U32
        = "int((attention_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5))";
    "tokenizer.ggml.add_bos_token" Bool = "false";
    "rope.freq_base" F32 = "10000 * (rope_ratio ?? 1)";
};
