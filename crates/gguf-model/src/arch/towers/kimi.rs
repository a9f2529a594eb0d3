//! MoonViT, the encoder of Kimi-VL, Kimi K2.5 and GLM-5V: learned positions on a grid in addition to rotary positions.

use super::prelude::*;

pub(super) const KIMIVL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE, PROJECTOR],
    block: &[SPLIT_ATTENTION, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["KimiVLForConditionalGeneration"],
        names: &TensorNames {
            takes: &["*vision_tower*", "*multi_modal_projector*"],
            roots: &["vision_tower."],
            layers: &["encoder.blocks.{}."],
            ..*TOWER.names
        },
        keys: &[SIZES, HEAD, VISION, KEYS],
        ..TOWER
    }],
};

/// MoonViT in three dimensions, of which llama.cpp supports images. Queries, keys and values stay in one matrix, in
/// which the rotated pairs of each axis are placed side by side.
pub(super) const KIMIK25: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE, PROJECTOR_3D],
    block: &[FUSED_ATTENTION, BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["KimiK25ForConditionalGeneration", "Glm5vForConditionalGeneration"],
        names: &TensorNames {
            takes: &["*vision_tower*", "*mm_projector*"],
            roots: &["vision_tower."],
            layers: &["encoder.blocks.{}."],
            ..*TOWER.names
        },
        keys: &[SIZES_3D, HEAD, VISION, KEYS_3D],
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

/// The number of heads in the permutation of queries and keys is read from another field than the number of heads of the
/// encoder (`KimiK25Model.modify_tensors`).
const SIZES_3D: &[Key] = keys! {
    let patch_size = "vision_config.patch_size|14";
    let vision_config = "with(vision_config, 'image_size', (vision_config.init_pos_emb_height|64) * patch_size)";
    let rotary = "{'heads': vision_config.num_attention_heads|16}";
};

const KEYS_3D: &[Key] = keys! {
    "clip.projector_type" Str = "'kimik25'";
    "vision.pos_emb_height" U32 = "vision_config.init_pos_emb_height|64";
    "vision.pos_emb_width" U32 = "vision_config.init_pos_emb_width|64";
    "vision.pos_emb_time" U32 = "vision_config.init_pos_emb_time|4";
    "clip.use_gelu" Bool = "(vision_config.projector_hidden_act|'gelu') == 'gelu'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.projector_ln_eps|1e-5";
    "clip.vision.projector.scale_factor" U32 = "(vision_config.merge_kernel_size|[2, 2])[0]";
    "clip.vision.image_min_pixels" U32 = "8 * patch_size ** 2";
    "clip.vision.image_max_pixels" U32 = "(@preprocessor.in_patch_limit|16384) * patch_size ** 2";
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

const PROJECTOR_3D: &[Row] = rows! {
    "v.position_embd.weight" []     Required Always <- "patch_embed.pos_emb";
    "mm.input_norm.weight"   []     Required Always + Required <- "mm_projector.pre_norm";
    "mm.1.weight"            []     Required Always + Required <- "mm_projector.proj.0 | mm_projector.proj.linear_1 | mm_projector.linear_1";
    "mm.2.weight"            []     Required Always + Required <- "mm_projector.proj.2 | mm_projector.proj.linear_2 | mm_projector.linear_2";
};

const FUSED_ATTENTION: &[Row] = rows! {
    "v.blk.{}.attn_qkv.weight" [] Required Always + Required <- "wqkv"
        : "(three[:2] rotary.heads i two 2) ... -> (three rotary.heads two i 2) ... & (three[2] e) ... -> e ...";
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
