//! The encoder of Step3-VL and Step 3.7: learned and rotary positions, scales after attention and the feed-forward part, and two
//! convolutions that merge patches.

use super::prelude::*;

pub(super) const STEP3VL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["StepVLForConditionalGeneration", "Step3p7ForConditionalGeneration"],
        names: &TensorNames {
            takes: &["vision_model.*", "vit_large_projector.weight"],
            rename: &[(".attn.in_proj_", ".attn.in_proj."), (".gamma", ".weight")],
            roots: &["vision_model."],
            layers: &["transformer.resblocks.{}."],
            ..*TOWER.names
        },
        refuse: &[(
            "[understand_projector_stride ?? 0, vision_config.image_size ?? 0, vision_config.hidden_size|vision_config.width ?? 0,
                vision_config.num_hidden_layers|vision_config.layers ?? 0] != [2, 728, 1536, 47]",
            "an encoder with other sizes than that of Step3-VL-10B",
        )],
        keys: &[SIZES, HEAD, VISION, KEYS],
        types: &StoredTypes { convolutions: &["mm.0.weight", "mm.1.weight"], ..*TOWER.types },
        ..TOWER
    }],
};

/// The colors are those of CLIP.
const SIZES: &[Key] = keys! {
    let width = "vision_config.hidden_size or vision_config.width";
    let vision_config = "vision_config if vision_config.intermediate_size \
                         else with(vision_config, 'intermediate_size', int(round(width * float(vision_config.mlp_ratio|(8960 / 1536)))))";
    let @preprocessor = "with(with(@preprocessor, 'image_mean', @preprocessor.image_mean|[0.48145466, 0.4578275, 0.40821073]),
        'image_std', @preprocessor.image_std|[0.26862954, 0.26130258, 0.27577711])";
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'step3vl'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "float(vision_config.layer_norm_eps|1e-5)";
    "clip.vision.projector.scale_factor" U32 = "int(understand_projector_stride) ** 2";
    "clip.vision.preproc_image_size" U32 = "3024";
};

const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always + Optional <- "conv1";
    "v.position_embd.weight" []     Required Always <- "positional_embedding";
    "v.pre_ln.weight"        [Embd] Required Always + Required <- "ln_pre";
    "mm.0.weight"            []     Required Always + Optional <- "vit_downsampler1";
    "mm.1.weight"            []     Required Always + Optional <- "vit_downsampler2";
    "mm.model.fc.weight"     []     Required Always <- "vit_large_projector";
};

// The reference accepts one size only, and a block that has it is detected by its norms.
const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_qkv.weight" []     Required Always + Required <- "attn.in_proj";
    "v.blk.{}.attn_out.weight" []     Required Always + Required <- "attn.out_proj";
    "v.blk.{}.ls1.weight"      [Embd] Required Always <- "ls_1";
    "v.blk.{}.ls2.weight"      [Embd] Required Always <- "ls_2";
    "v.blk.{}.ffn_up.weight"   []     Required Always + Required <- "mlp.c_fc";
    "v.blk.{}.ffn_down.weight" []     Required Always + Required <- "mlp.c_proj";
    "v.blk.{}.ln1.weight"      [Embd] Required Always + Required <- "ln_1";
    "v.blk.{}.ln2.weight"      [Embd] Required Always + Required <- "ln_2";
};
