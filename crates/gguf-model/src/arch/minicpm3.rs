//! MiniCPM 3: low-rank queries, keys and values, with rotated and unrotated elements in each head.
//!
//! Rules: `load_arch_tensors` in `src/models/minicpm3.cpp` of llama.cpp, `MiniCPM3Model` in `conversion/minicpm.py`.
//! The value length has no key: llama.cpp uses the embedding length divided by the number of heads.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["minicpm3"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[keys::ATTENTION_Q_LORA_RANK, keys::ATTENTION_KV_LORA_RANK],
    ],
    optional: &[],
    outside: &[EMBEDDINGS, FACTORS],
    block: &[NORMS, LATENT_ATTENTION, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["MiniCPM3ForCausalLM"],
        refuse: &[(
            "(rope_all.long_factor or rope_all.short_factor) and (rope_all.long_factor == null or rope_all.short_factor == null
                or len(rope_all.long_factor) != len(rope_all.short_factor) or len(rope_all.long_factor) * 2 != qk_rope_head_dim)",
            UNEVEN_FACTORS,
        )],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        computed: &[Computed::LongRopeFactors],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "general.file_type" U32 = "@file_type";
    "context_length" U32 = "max_position_embeddings";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "intermediate_size";
    "attention.head_count" U32 = "num_attention_heads";
    "attention.head_count_kv" U32 = "num_key_value_heads";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps";
    "vocab_size" U32 = "vocab_size";
    "attention.q_lora_rank" U32? = "q_lora_rank";
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "attention.key_length" U32 = "qk_nope_head_dim + qk_rope_head_dim";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
};

const FACTORS: &[Row] = rows! {
    "rope_factors_long.weight"  [HalfRot]      Optional Always;
    "rope_factors_short.weight" [HalfRot]      Optional Always;
};

const LATENT_ATTENTION: &[Row] = rows! {
    "attn_q_a.weight"           [Embd QLora]   Required Always <- "self_attn.q_a_proj";
    "attn_q_a_norm.weight"      [QLora]        Required Always <- "self_attn.q_a_layernorm";
    "attn_q_b.weight"           [QLora Q]      Required Always <- "self_attn.q_b_proj";
    "attn_kv_a_mqa.weight"      [Embd KvLoraRot] Required Always <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight"     [KvLora]       Required Always <- "self_attn.kv_a_layernorm";
    "attn_kv_b.weight"          [KvLora LatentKv] Required Always <- "self_attn.kv_b_proj";
    "attn_output.weight"        [HeadsV Embd]  Required Always <- "self_attn.o_proj";
};
