//! DeepSeek 2 and 3, and models with their latent attention: Kimi-VL, Kimi K2.5, Youtu, GLM-4.7-Flash.
//!
//! Rules: `load_arch_tensors` in `src/models/deepseek2.cpp` of llama.cpp, `DeepseekV2Model` in
//! `conversion/deepseek.py`, `Glm4MoeLiteModel` in `conversion/glm.py`. Keys and values have one head, as wide as the
//! low-rank state.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["deepseek2"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::ATTENTION_KV_LORA_RANK, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT],
    ],
    optional: &[
        keys::ATTENTION_KEY_LENGTH_MLA,
        keys::ATTENTION_TEMPERATURE_LENGTH,
        keys::ATTENTION_TEMPERATURE_SCALE,
        keys::ATTENTION_VALUE_LENGTH_MLA,
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::ROPE_SCALING_YARN_LOG_MULTIPLIER,
        keys::VOCAB_SIZE,
    ],
    outside: &[EMBEDDINGS],
    block: &[NORMS, LATENT, GATED_FFN, EXPERTS, GATE_UP_EXPERTS, SELECTION_BIAS, SHARED_EXPERTS, MTP],
    checkpoints: &[
        Checkpoint {
            classes: &[
                "DeepseekV2ForCausalLM",
                "DeepseekV3ForCausalLM",
                "KimiK25ForConditionalGeneration",
                "KimiVLForConditionalGeneration",
                "YoutuForCausalLM",
                "YoutuVLForConditionalGeneration",
            ],
            names: &TensorNames { skip: SKIP, ..TensorNames::TEXT },
            drops_further_blocks: true,
            keys: &[LATENT_FIELDS, GENERIC, LATENT_KEYS],
            tokenizer: &Tokenizer {
                vocab: Vocab::read_by(&[Reader::Bpe, Reader::Kimi { has_end: false }]),
                ..Tokenizer::BPE
            },
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["Glm4MoeLiteForCausalLM"],
            separates_mtp: true,
            names: &TensorNames { skip: SKIP, ..TensorNames::TEXT },
            keys: &[MTP_FIELDS, LATENT_FIELDS, GENERIC, LATENT_KEYS, GLM_MTP],
            tokenizer: &Tokenizer { special_tokens: GLM_TOKENS, ..Tokenizer::BPE },
            ..Checkpoint::TEXT
        },
    ],
};

const SKIP: &[(&str, &str)] = &[("lm_head.weight", "tie_word_embeddings"), ("*sam_model*", ""), ("*qwen2_model*", "")];

/// A single key-value head.
pub(super) const LATENT_FIELDS: &[Key] = keys! {
    let num_key_value_heads = "1";
    let rms_norm_eps = "rms_norm_eps|1e-6";
};

/// The key-values of latent attention and of experts, after [`GENERIC`].
pub(super) const LATENT_KEYS: &[Key] = keys! {
    let kv_lora_rank = "kv_lora_rank|512";
    "leading_dense_block_count" U32 = "first_k_dense_replace ?? (num_hidden_layers if n_routed_experts == null else 0)";
    "vocab_size" U32 = "vocab_size";
    "attention.q_lora_rank" U32? = "q_lora_rank";
    "attention.kv_lora_rank" U32 = "kv_lora_rank";
    "attention.key_length" U32 = "kv_lora_rank + qk_rope_head_dim";
    "attention.value_length" U32 = "kv_lora_rank";
    "attention.key_length_mla" U32 = "qk_nope_head_dim + qk_rope_head_dim";
    "attention.value_length_mla" U32 = "v_head_dim";
    "expert_feed_forward_length" U32 = "moe_intermediate_size|intermediate_size";
    "expert_count" U32? = "n_routed_experts";
    "expert_shared_count" U32 = "n_shared_experts|0";
    "expert_weights_scale" F32? = "routed_scaling_factor";
    "expert_weights_norm" Bool? = "true if norm_topk_prob else null";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "rope.scaling.yarn_log_multiplier" F32? = "null if rope_all.mscale_all_dim == null else 0.1 * rope_all.mscale_all_dim";
};

const GLM_MTP: &[Key] = keys! {
    "nextn_predict_layers" U32? = "num_nextn_predict_layers or null";
};

/// [`LATENT_ATTENTION`]; small models have no low-rank queries, and files of 2024 have keys and values in one matrix.
const LATENT: &[Row] = rows! {
    "attn_q.weight"         [Embd MlaQ]             Required "not attention.q_lora_rank" <- "self_attn.q_proj";
    "attn_q_a.weight"       [Embd QLora]            Required "attention.q_lora_rank" <- "self_attn.q_a_proj";
    "attn_q_a_norm.weight"  [QLora]                 Required "attention.q_lora_rank" <- "self_attn.q_a_layernorm";
    "attn_q_b.weight"       [QLora MlaQ]            Required "attention.q_lora_rank" <- "self_attn.q_b_proj";
    "attn_kv_a_mqa.weight"  [Embd KvLoraRot]        Required Always <- "self_attn.kv_a_proj_with_mqa";
    "attn_kv_a_norm.weight" [KvLora]                Required Always <- "self_attn.kv_a_layernorm";
    "attn_k_b.weight"       [MlaNope KvLora Heads]  Required "attention.key_length_mla" <- "self_attn.kv_b_proj" : "(h s[:MlaNope]) e -> h e s";
    "attn_v_b.weight"       [KvLora MlaHeadV Heads] Required "attention.key_length_mla" <- "self_attn.kv_b_proj" : "(h s[MlaNope:]) e -> h s e";
    "attn_kv_b.weight"      [KvLora LatentKv]       Required "not attention.key_length_mla";
    "attn_output.weight"    [MlaV Embd]             Required Always <- "self_attn.o_proj";
};
