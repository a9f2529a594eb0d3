//! The keys that llama.cpp requires of architectures without a table.

use gguf_format::keys;

use super::groups::*;

/// The keys of an architecture without a table; see [`Architecture::required`](super::Architecture::required).
pub(super) fn required(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        "jina-bert-v3" | "pockettts" => &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
        "mistral4" => &[
            TRANSFORMER_KEYS,
            RMS_NORM_KEYS,
            &[keys::ATTENTION_KV_LORA_RANK, keys::EXPERT_FEED_FORWARD_LENGTH, keys::EXPERT_SHARED_COUNT],
        ],
        "qwen3tts" => &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
        _ => &[],
    }
}
