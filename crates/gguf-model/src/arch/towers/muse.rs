//! The encoder of Muse Glimmer: learned positions on a grid in addition to rotary positions, window attention, and patches of several
//! frames, whose convolutions are added because all frames of an image are the same.

use super::prelude::*;

pub(super) const MUSE_GLIMMER: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MuseGlimmerForConditionalGeneration"],
        names: &TensorNames {
            takes: &["model.vision_tower.*", "model.vision_adapter.*", "model.vision_projection.*"],
            roots: &["model.vision_tower.", "model."],
            layers: &["layers.{}."],
            ..*TOWER.names
        },
        keys: &[SIZES, HEAD, VISION, KEYS],
        ..TOWER
    }],
};

/// Images have any size; this is the size of the position grid.
const SIZES: &[Key] = keys! {
    let patch_size = "int(vision_config.patch_size)";
    let patch = "{'frames': int(vision_config.patch_temporal), 'rows': patch_size, 'columns': patch_size}";
    let vision_config = "with(vision_config, 'image_size', vision_config.pos_emb_height * patch_size * vision_config.merge_size)";
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'muse-glimmer'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps";
    "clip.vision.spatial_merge_size" U32 = "int(vision_config.merge_size)";
};

const ROPE: &str = "(h two i) ... -> (h i two) ...";

const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always <- "patch_embedder.patch_embedding"
        : "o (patch.frames three patch.rows patch.columns) -> patch.frames o three patch.rows patch.columns" => RowOp::SumParts;
    "v.patch_embd.bias"      [Embd] Optional Always <- "patch_embedder.patch_embedding.bias";
    "v.position_embd.weight" []     Required Always <- "patch_embedder.position_embedding_table";
    "v.pre_ln.weight"        [Embd] Required Always + Optional <- "ln_pre";
    "v.post_ln.weight"       [Embd] Required Always + Optional <- "ln_post";
    "mm.0.weight"            []     Required Always <- "vision_adapter.fc1";
    "mm.1.weight"            []     Required Always <- "vision_adapter.fc2";
    "mm.2.weight"            []     Required Always <- "vision_projection";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Optional <- "attn.q_proj" : ROPE;
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Optional <- "attn.k_proj" : ROPE;
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Optional <- "attn.v_proj";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Optional <- "attn.proj";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Optional <- "norm1";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Optional <- "norm2";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Optional <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Optional <- "mlp.fc2";
};
