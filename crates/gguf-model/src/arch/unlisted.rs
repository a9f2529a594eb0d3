//! What llama.cpp needs to load models of architectures whose tensors are not listed.

use gguf_format::keys;

use super::groups::*;

/// Keys that both architectures of Kimi need.
const KIMI_KEYS: &[&str] = &[
    keys::ATTENTION_KEY_LENGTH_MLA,
    keys::ATTENTION_VALUE_LENGTH_MLA,
    keys::ATTENTION_KV_LORA_RANK,
    keys::SSM_CONV_KERNEL,
    keys::KDA_HEAD_DIM,
    keys::EXPERT_FEED_FORWARD_LENGTH,
    keys::EXPERT_SHARED_COUNT,
    keys::EXPERT_GATING_FUNC,
];

/// The keys of an architecture that is not listed; see [`Architecture::required`](super::Architecture::required).
pub(super) fn required(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        "jina-bert-v3" | "pockettts" => &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
        "bitnet" => &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
        "mistral4" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[keys::ATTENTION_KV_LORA_RANK, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT],
        ],
        "deepseek4" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[
                keys::ATTENTION_Q_LORA_RANK,
                keys::ATTENTION_SLIDING_WINDOW,
                keys::EXPERT_FEED_FORWARD_LENGTH,
                keys::EXPERT_SHARED_COUNT,
                keys::EXPERT_WEIGHTS_SCALE,
                keys::EXPERT_WEIGHTS_NORM,
                keys::SWIGLU_CLAMP_EXP,
                keys::ATTENTION_INDEXER_HEAD_COUNT,
                keys::ATTENTION_INDEXER_KEY_LENGTH,
                keys::ATTENTION_INDEXER_TOP_K,
                keys::ATTENTION_OUTPUT_GROUP_COUNT,
                keys::ATTENTION_OUTPUT_LORA_RANK,
                keys::ATTENTION_COMPRESS_ROPE_FREQ_BASE,
                keys::HYPER_CONNECTION_COUNT,
                keys::HYPER_CONNECTION_SINKHORN_ITERATIONS,
                keys::HYPER_CONNECTION_EPSILON,
                keys::HASH_LAYER_COUNT,
                keys::ATTENTION_COMPRESS_RATIOS,
                keys::EXPERT_GATING_FUNC,
            ],
        ],
        "kimi-k3" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            KIMI_KEYS,
            &[keys::ATTN_RES_BLOCK_SIZE, keys::ACTIVATION_SITU_BETA, keys::ACTIVATION_SITU_LINEAR_BETA],
        ],
        "qwen3tts" => &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
        "qwen4exp" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[
                keys::ROPE_DIMENSION_SECTIONS,
                keys::SSM_CONV_KERNEL,
                keys::SSM_INNER_SIZE,
                keys::SSM_STATE_SIZE,
                keys::SSM_TIME_STEP_RANK,
                keys::SSM_GROUP_COUNT,
                keys::HYPER_CONNECTION_COUNT,
                keys::HYPER_CONNECTION_LOW_RANK,
                keys::ATTENTION_INDEXER_HEAD_COUNT,
                keys::ATTENTION_INDEXER_KEY_LENGTH,
                keys::ATTENTION_INDEXER_TOP_K,
            ],
        ],
        _ => &[],
    }
}
