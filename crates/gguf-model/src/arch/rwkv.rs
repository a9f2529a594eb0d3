//! RWKV 4: time mixing and channel mixing instead of attention and feed-forward part.
//!
//! Neither llama.cpp nor its converter supports it. Keys follow the GGUF specification, tensor names llama.cpp's RWKV
//! 6. Values are those of the checkpoint, without the halving that some programs apply for half precision.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["rwkv"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["RwkvForCausalLM"],
        names: &TensorNames { roots: &["rwkv."], layers: &["blocks.{}."], ..TensorNames::TEXT },
        keys: &[KEYS],
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    "architecture_version" U32 = "4";
    "context_length" U32 = "context_length|max_position_embeddings";
    "embedding_length" U32 = "hidden_size";
    "block_count" U32 = "block_count";
    "feed_forward_length" U32 = "intermediate_size ?? 4 * hidden_size";
    "attention.layer_norm_epsilon" F32 = "layer_norm_epsilon";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"                [Embd Vocab] Required Always <- "embeddings";
    "token_embd_norm.weight"           [Embd]       Required Always + Required <- "blocks.0.pre_ln";
    "output_norm.weight"               [Embd]       Required Always + Required <- "ln_out";
    "output.weight"                    [Embd Vocab] Optional Always <- "head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"                 [Embd]       Required Always + Required <- "ln1";
    "attn_norm_2.weight"               [Embd]       Required Always + Required <- "ln2";
    "time_mix_first.weight"            [Embd]       Required Always <- "attention.time_first";
    "time_mix_decay.weight"            [Embd]       Required Always <- "attention.time_decay";
    "time_mix_lerp_k.weight"           [Embd]       Required Always <- "attention.time_mix_key" : LERP;
    "time_mix_lerp_v.weight"           [Embd]       Required Always <- "attention.time_mix_value" : LERP;
    "time_mix_lerp_r.weight"           [Embd]       Required Always <- "attention.time_mix_receptance" : LERP;
    "time_mix_key.weight"              [Embd Embd]  Required Always <- "attention.key";
    "time_mix_value.weight"            [Embd Embd]  Required Always <- "attention.value";
    "time_mix_receptance.weight"       [Embd Embd]  Required Always <- "attention.receptance";
    "time_mix_output.weight"           [Embd Embd]  Required Always <- "attention.output";
    "channel_mix_lerp_k.weight"        [Embd]       Required Always <- "feed_forward.time_mix_key" : LERP;
    "channel_mix_lerp_r.weight"        [Embd]       Required Always <- "feed_forward.time_mix_receptance" : LERP;
    "channel_mix_key.weight"           [Embd Ff]    Required Always <- "feed_forward.key";
    "channel_mix_value.weight"         [Ff Embd]    Required Always <- "feed_forward.value";
    "channel_mix_receptance.weight"    [Embd Embd]  Required Always <- "feed_forward.receptance";
};

const LERP: &str = "1 1 e -> e";
