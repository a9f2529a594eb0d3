//! CogVLM's encoder: norms after attention and the feed-forward part, a gated projector, and embeddings before and
//! after an image.

use super::prelude::*;

pub(super) const COGVLM: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["CogVLMForCausalLM"],
        names: &TensorNames {
            takes: &["model.vision.*"],
            roots: &["model.vision."],
            layers: &["transformer.layers.{}."],
            ..*TOWER.names
        },
        keys: &[HEAD, VISION, KEYS],
        ..TOWER
    }],
};

const KEYS: &[Key] = keys! {
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.projector_type" Str = "'cogvlm'";
};

const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"      []     Required Always + Optional <- "patch_embedding.proj";
    "v.class_embd"             []     Required Always <- "patch_embedding.cls_embedding";
    "v.position_embd.weight"   []     Required Always <- "patch_embedding.position_embedding";
    "mm.model.fc.weight"       []     Required Always <- "linear_proj.linear_proj";
    "mm.post_fc_norm.weight"   []     Required Always + Required <- "linear_proj.norm1";
    "mm.up.weight"             []     Required Always <- "linear_proj.dense_h_to_4h";
    "mm.gate.weight"           []     Required Always <- "linear_proj.gate_proj";
    "mm.down.weight"           []     Required Always <- "linear_proj.dense_4h_to_h";
    "v.boi"                    []     Required Always <- "boi";
    "v.eoi"                    []     Required Always <- "eoi";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_qkv.weight" []          Required Always + Required <- "attention.query_key_value";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "attention.dense";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "input_layernorm";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "post_attention_layernorm";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Required <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Required <- "mlp.fc2";
};
