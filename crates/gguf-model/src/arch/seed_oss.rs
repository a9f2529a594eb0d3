//! Seed-OSS: the norm before the feed-forward part is named as a norm after the attention.
//!
//! Rules: `load_arch_tensors` in `src/models/seed-oss.cpp` of llama.cpp, `SeedOssModel` in `conversion/olmo.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["seed_oss"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[EMBEDDINGS],
    block: &[BLOCK, QKV_OF_KEYS, OUTPUT, GATED_FFN],
    checkpoints: &[Checkpoint { classes: &["SeedOssForCausalLM"], ..Checkpoint::TEXT }],
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"           [Embd] Required Always <- "input_layernorm";
    "post_attention_norm.weight" [Embd] Required Always <- "post_attention_layernorm";
};
