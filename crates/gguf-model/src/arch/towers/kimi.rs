//! MoonViT, the encoder of Kimi-VL: learned positions on a grid in addition to rotary positions.

use super::prelude::*;

pub(super) const KIMIVL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    outside: &[OUTSIDE, PROJECTOR],
    block: &[SPLIT_ATTENTION, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["KimiVLForConditionalGeneration"],
        takes: &["*vision_tower*", "*multi_modal_projector*"],
        roots: &["vision_tower."],
        layers: &["encoder.blocks.{}."],
        keys: &[SIZES, HEAD, VISION, KEYS],
        ..TOWER
    }],
};

/// Images have any size; this is the size of the position grid.
const SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', 896)";
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'kimivl'";
    "clip.use_gelu" Bool = "true";
    "clip.vision.projector.scale_factor" U32 = "2";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-5";
};

const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always + Required <- "patch_embed.proj";
    "v.post_ln.weight"       [Embd] Required Always + Required <- "encoder.final_layernorm";
};

const PROJECTOR: &[Row] = rows! {
    "v.position_embd.weight" []     Required Always <- "patch_embed.pos_emb" : "a b e -> (a b) e";
    "mm.input_norm.weight"   [Embd] Required Always + Required <- "multi_modal_projector.pre_norm";
    "mm.1.weight"            []     Required Always + Required <- "multi_modal_projector.linear_1";
    "mm.2.weight"            []     Required Always + Required <- "multi_modal_projector.linear_2";
};

const SPLIT_ATTENTION: &[Row] = rows! {
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Required <- "wqkv" : "(three[0] e) ... -> e ...";
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Required <- "wqkv" : "(three[1] e) ... -> e ...";
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Required <- "wqkv" : "(three[2] e) ... -> e ...";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "norm0";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "norm1";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "wo";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Required <- "mlp.fc0";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Required <- "mlp.fc1";
};
