//! DeepSeek-OCR, its text model: the experts of DeepSeek 2 with plain attention.
//!
//! Rules: `load_arch_tensors` in `src/models/deepseek2ocr.cpp` of llama.cpp, `DeepseekV2Model` in `conversion/deepseek.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["deepseek2-ocr"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT]],
    optional: &[
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::LEADING_DENSE_BLOCK_COUNT,
    ],
    outside: &[EMBEDDINGS],
    block: &[NORMS, ATTENTION, GATED_FFN, EXPERTS, GATE_UP_EXPERTS, SELECTION_BIAS, SHARED_EXPERTS],
    checkpoints: &[Checkpoint {
        classes: &["DeepseekOCRForCausalLM", "UnlimitedOCRForCausalLM"],
        names: &TensorNames {
            skip: &[("lm_head.weight", "tie_word_embeddings"), ("*sam_model*", ""), ("*qwen2_model*", "")],
            ..TensorNames::TEXT
        },
        drops_further_blocks: true,
        early_keys: &[TEMPLATE],
        keys: &[FIELDS, GENERIC, KEYS],
        ..Checkpoint::TEXT
    }],
};

const TEMPLATE: &[Key] = keys! {
    "tokenizer.chat_template" Str = "\"{% for m in messages %}{{m['content']}}{% endfor %}\"";
};

const FIELDS: &[Key] = keys! {
    let rms_norm_eps = "rms_norm_eps|1e-6";
};

const KEYS: &[Key] = keys! {
    "leading_dense_block_count" U32 = "first_k_dense_replace ?? (num_hidden_layers if n_routed_experts == null else 0)";
    "vocab_size" U32 = "vocab_size";
    "attention.q_lora_rank" U32? = "q_lora_rank";
    "expert_feed_forward_length" U32 = "moe_intermediate_size|intermediate_size";
    "expert_count" U32? = "n_routed_experts";
    "expert_shared_count" U32 = "n_shared_experts|0";
    "expert_weights_scale" F32? = "routed_scaling_factor";
    "expert_weights_norm" Bool? = "true if norm_topk_prob else null";
    "rope.dimension_count" U32 = "qk_rope_head_dim";
    "attention.sliding_window" U32? = "sliding_window_size or sliding_window or null";
    "rope.scaling.yarn_log_multiplier" F32? = "null if rope_all.mscale_all_dim == null else 0.1 * rope_all.mscale_all_dim";
};

/// Queries, keys and values are as wide as a hidden state.
const ATTENTION: &[Row] = rows! {
    "attn_qkv.weight"    [Embd ThriceEmbd] Optional    Always + Optional;
    "attn_q.weight"      [Embd Embd]       UnlessFused Always + Optional <- "self_attn.q_proj";
    "attn_k.weight"      [Embd Embd]       UnlessFused Always + Optional <- "self_attn.k_proj";
    "attn_v.weight"      [Embd Embd]       UnlessFused Always + Optional <- "self_attn.v_proj";
    "attn_output.weight" [Embd Embd]       Required    Always <- "self_attn.o_proj";
};
