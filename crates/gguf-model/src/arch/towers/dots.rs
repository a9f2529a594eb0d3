//! dots.ocr: RMS norms, a norm after the blocks, images of any size.

use super::prelude::*;

pub(super) const DOTS_OCR: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[GATED_BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["DotsOCRForCausalLM"],
        names: &TensorNames {
            takes: &["vision_tower.*"],
            roots: &["vision_tower."],
            layers: &["blocks.{}."],
            ..*TOWER.names
        },
        keys: &[SIZES, HEAD, VISION, TYPE, PIXELS, KEYS],
        ..TOWER
    }],
};

const SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', 0)";
};

const TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'dots_ocr'";
};

const KEYS: &[Key] = keys! {
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.rms_norm_eps";
    "clip.vision.projector.scale_factor" U32 = "vision_config.spatial_merge_size";
    "clip.use_silu" Bool = "true";
};

const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"  []     Required Always + Required <- "patch_embed.patchifier.proj";
    "v.pre_ln.weight"      [Embd] Required Always <- "patch_embed.patchifier.norm";
    "mm.post_norm.weight"  [Embd] Required Always <- "post_trunk_norm";
    "mm.input_norm.weight" [Embd] Required Always + Optional <- "merger.ln_q";
    "mm.0.weight"          []     Required Always + Required <- "merger.mlp.0";
    "mm.2.weight"          []     Required Always + Required <- "merger.mlp.2";
};
