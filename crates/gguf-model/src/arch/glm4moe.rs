//! GLM-4.5 and later with experts, GLM-4.5V's text model, and Solar Open: the first blocks without experts, an MTP
//! block at the end.
//!
//! Rules: `load_arch_tensors` in `src/models/glm4-moe.cpp` of llama.cpp, `Glm4MoeModel` in `conversion/glm.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["glm4moe"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT]],
    optional: &[
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
        keys::ROPE_DIMENSION_SECTIONS,
    ],
    outside: &[EMBEDDINGS],
    block: &[BLOCK, QKV, OUTPUT, GATED_FFN, EXPERTS, REQUIRED_SELECTION_BIAS, SHARED_EXPERTS, MTP],
    checkpoints: &[
        Checkpoint {
            classes: &["Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"],
            separates_mtp: true,
            keys: &[MTP_FIELDS, GENERIC, KEYS, MTP_KEYS],
            tokenizer: &Tokenizer { special_tokens: GLM_TOKENS, ..Tokenizer::BPE },
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["SolarOpenForCausalLM"],
            keys: &[MTP_FIELDS, GENERIC, KEYS, MTP_KEYS],
            tokenizer: &Tokenizer {
                special_tokens: &[
                    ("eos", "<|endoftext|>"),
                    ("eot", "<|endoftext|>"),
                    ("unk", "<unk>"),
                    ("bos", "<|startoftext|>"),
                ],
                ..Tokenizer::BPE
            },
            ..Checkpoint::TEXT
        },
    ],
};

const KEYS: &[Key] = keys! {
    "rope.dimension_count" U32
        = "int((head_dim ?? hidden_size // num_attention_heads) * (rope_all.partial_rotary_factor|0.5))";
    "expert_count" U32? = "n_routed_experts";
    "expert_feed_forward_length" U32? = "moe_intermediate_size";
    "expert_shared_count" U32? = "n_shared_experts";
    "leading_dense_block_count" U32? = "first_k_dense_replace";
    "expert_gating_func" U32 = "2";
    "expert_weights_scale" F32? = "routed_scaling_factor";
    "expert_weights_norm" Bool? = "norm_topk_prob";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd]  Required Always <- "input_layernorm";
    "post_attention_norm.weight" [Embd]  Required Always <- "post_attention_layernorm";
    "attn_q_norm.weight"         [HeadK] Optional Always <- "self_attn.q_norm";
    "attn_k_norm.weight"         [HeadK] Optional Always <- "self_attn.k_norm";
};
