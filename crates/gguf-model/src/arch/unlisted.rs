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
        "bailingmoe3" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[
                keys::ATTENTION_KEY_LENGTH_MLA,
                keys::ATTENTION_VALUE_LENGTH_MLA,
                keys::ATTENTION_KV_LORA_RANK,
                keys::SSM_CONV_KERNEL,
                keys::KDA_HEAD_DIM,
                keys::KDA_GATE_LOWER_BOUND,
                keys::EXPERT_FEED_FORWARD_LENGTH,
                keys::EXPERT_SHARED_COUNT,
                keys::LEADING_DENSE_BLOCK_COUNT,
                keys::EXPERT_GATING_FUNC,
            ],
        ],
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
        "dflash" => &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::TARGET_LAYERS]],
        "dots3note" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[
                keys::EXPERT_SHARED_COUNT,
                keys::EXPERT_FEED_FORWARD_LENGTH,
                keys::LEADING_DENSE_BLOCK_COUNT,
                keys::EXPERT_GATING_FUNC,
                keys::ATTENTION_Q_LORA_RANK,
                keys::ATTENTION_KV_LORA_RANK,
                keys::ATTENTION_KEY_LENGTH_MLA,
                keys::ATTENTION_VALUE_LENGTH_MLA,
                keys::ATTENTION_KV_LORA_RANK_SWA,
                keys::ATTENTION_KEY_LENGTH_MLA_SWA,
                keys::ATTENTION_VALUE_LENGTH_MLA_SWA,
                keys::ATTENTION_SLIDING_WINDOW,
                keys::ROPE_FREQ_BASE_SWA,
                keys::ATTENTION_SLIDING_WINDOW_PATTERN,
                keys::ATTENTION_INDEXER_HEAD_COUNT,
                keys::ATTENTION_INDEXER_KEY_LENGTH,
                keys::ATTENTION_INDEXER_TOP_K,
                keys::ATTENTION_INDEXER_TYPES,
            ],
        ],
        "eagle3" => {
            &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::TARGET_HIDDEN_SIZE, keys::TARGET_LAYERS]]
        }
        "gemma4-assistant" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            FEED_FORWARD_KEYS,
            &[
                keys::ATTENTION_SLIDING_WINDOW_PATTERN,
                keys::ATTENTION_SLIDING_WINDOW,
                keys::ATTENTION_KEY_LENGTH_SWA,
                keys::ATTENTION_VALUE_LENGTH_SWA,
            ],
        ],
        "glm5-next" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[
                keys::ATTENTION_KEY_LENGTH_MLA,
                keys::ATTENTION_VALUE_LENGTH_MLA,
                keys::ATTENTION_Q_LORA_RANK,
                keys::ATTENTION_KV_LORA_RANK,
                keys::SSM_CONV_KERNEL,
                keys::KDA_HEAD_DIM,
                keys::EXPERT_FEED_FORWARD_LENGTH,
                keys::EXPERT_SHARED_COUNT,
                keys::ATTENTION_INDEXER_HEAD_COUNT,
                keys::ATTENTION_INDEXER_KEY_LENGTH,
                keys::ATTENTION_INDEXER_TOP_K,
                keys::ATTENTION_INDEXER_KPOOL,
                keys::HYPER_CONNECTION_COUNT,
                keys::HYPER_CONNECTION_SINKHORN_ITERATIONS,
                keys::HYPER_CONNECTION_EPSILON,
            ],
        ],
        "graniteswitch" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            FEED_FORWARD_KEYS,
            &[
                keys::LOGIT_SCALE,
                keys::ADAPTERS_COUNT,
                keys::ADAPTERS_LORA_RANK,
                keys::ADAPTERS_TOKEN_IDS_ACTIVATE,
                keys::ADAPTERS_TOKEN_IDS_SUBSTITUTE,
            ],
        ],
        "hrm_text" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            FEED_FORWARD_KEYS,
            &[keys::HRM_LAYERS_PER_STACK, keys::HRM_H_CYCLES, keys::HRM_L_CYCLES],
        ],
        "hy_v4" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[
                keys::ATTENTION_Q_LORA_RANK,
                keys::ATTENTION_KV_LORA_RANK,
                keys::ATTENTION_KEY_LENGTH_MLA,
                keys::ATTENTION_VALUE_LENGTH_MLA,
                keys::EXPERT_FEED_FORWARD_LENGTH,
                keys::EXPERT_SHARED_COUNT,
                keys::HYPER_CONNECTION_COUNT,
                keys::HYPER_CONNECTION_EPSILON,
                keys::HYPER_CONNECTION_MAGNITUDE,
            ],
        ],
        "kimi-k3" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            KIMI_KEYS,
            &[keys::ATTN_RES_BLOCK_SIZE, keys::ACTIVATION_SITU_BETA, keys::ACTIVATION_SITU_LINEAR_BETA],
        ],
        "kimi-linear" => &[TRANSFORMER_KEYS, RMS_NORM_KEYS, KIMI_KEYS],
        "minimax-01" => &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::RESIDUAL_SCALE]],
        "muse-glimmer" => {
            &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ATTENTION_SLIDING_WINDOW, keys::LOGIT_SCALE]]
        }
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
        "wavtokenizer-dec" => &[
            RECURRENT_KEYS,
            LAYER_NORM_KEYS,
            FEED_FORWARD_KEYS,
            &[
                keys::ATTENTION_GROUP_NORM_EPSILON,
                keys::ATTENTION_GROUP_NORM_GROUPS,
                keys::FEATURES_LENGTH,
                keys::POSNET_EMBEDDING_LENGTH,
                keys::POSNET_BLOCK_COUNT,
                keys::CONVNEXT_EMBEDDING_LENGTH,
                keys::CONVNEXT_BLOCK_COUNT,
            ],
        ],
        _ => &[],
    }
}
