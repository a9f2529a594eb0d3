//! The keys of architectures without a table.

use gguf_format::keys;

use super::groups::*;

/// The required keys and the optional ones; see [`Architecture`](super::Architecture).
pub(super) type Keys = (&'static [&'static [&'static str]], &'static [&'static str]);

/// The keys of an architecture without a table.
pub(super) fn keys_of(name: &str) -> Keys {
    match name {
        "jina-bert-v3" | "pockettts" => (&[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS], &[]),
        "mistral4" => (
            &[
                TRANSFORMER_KEYS,
                RMS_NORM_KEYS,
                &[keys::ATTENTION_KV_LORA_RANK, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT],
            ],
            &[
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
        ),
        "qwen3tts" => (
            &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
            &[keys::N_DEEPSTACK_LAYERS],
        ),
        _ => (&[], &[]),
    }
}
