//! Hunyuan's encoder (HunyuanOCR): convolutions after the blocks, and embeddings before, after and between the rows of
//! an image.

use super::prelude::*;

pub(super) const HUNYUANVL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["HunYuanVLForConditionalGeneration"],
        names: &TensorNames { takes: &["vit.*"], roots: &["vit."], layers: &["layers.{}."], ..*TOWER.names },
        keys: &[SIZES, HEAD, VISION, KEYS, PIXELS],
        types: &StoredTypes { convolutions: &["mm.0.weight", "mm.2.weight"], ..*TOWER.types },
        ..TOWER
    }],
};

const SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', vision_config.image_size|vision_config.max_image_size|2048)";
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'hunyuanvl'";
    "clip.use_gelu" Bool = "true";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.rms_norm_eps|1e-5";
    "clip.vision.spatial_merge_size" U32 = "vision_config.spatial_merge_size|2";
};

// The first position belongs to the class token, which is not used.
const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always + Required <- "embeddings.patch_embedding";
    "v.position_embd.weight" []     Required Always <- "embeddings.position_embedding" : "p[1:] e -> p e";
    "mm.0.weight"            []     Required Always + Required <- "perceive.proj.0";
    "mm.2.weight"            []     Required Always + Required <- "perceive.proj.2";
    "mm.model.fc.weight"     []     Required Always + Required <- "perceive.mlp";
    "mm.pre_norm.weight"     []     Required Always <- "perceive.before_rms";
    "mm.post_norm.weight"    []     Required Always <- "perceive.after_rms";
    "mm.image_begin"         []     Required Always <- "perceive.image_begin";
    "mm.image_end"           []     Required Always <- "perceive.image_end";
    "v.image_newline"        []     Required Always <- "perceive.image_newline";
    "v.view_seperator"       []     Required Always <- "perceive.image_sep";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Required <- "self_attn.q_proj";
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Required <- "self_attn.k_proj";
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Required <- "self_attn.v_proj";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "self_attn.o_proj";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "input_layernorm";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "post_attention_layernorm";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Required <- "mlp.dense_h_to_4h";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Required <- "mlp.dense_4h_to_h";
};
