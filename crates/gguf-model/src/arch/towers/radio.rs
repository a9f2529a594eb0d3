//! RADIO, the encoder of Nemotron Nano VL: several class tokens, and learned positions for larger images than the model takes.

use super::prelude::*;

pub(super) const NEMOTRON_NANO: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["RADIOModel", "NemotronH_Nano_VL_V2"],
        names: &TensorNames {
            takes: &["vision_model.radio_model.model.*", "mlp1.*"],
            roots: &["vision_model.radio_model.model."],
            layers: &["blocks.{}."],
            // Normalization of colors, which the preprocessor does, and patches of video.
            skip: &[("*input_conditioner*", ""), ("patch_generator.video_embedder*", "")],
            ..*TOWER.names
        },
        refuse: &[("sound_config != null", "a model that also has an encoder of sound")],
        keys: &[TYPE, SIZES, HEAD, VISION, KEYS],
        ..TOWER
    }],
};

const TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'nemotron_v2_vl'";
};

/// The configuration has none of the sizes of the encoder (RADIO v2.5-H), and some checkpoints lack the colors.
const SIZES: &[Key] = keys! {
    let image_size = "force_image_size|512";
    let widths = "with(with(vision_config, 'hidden_size', 1280), 'intermediate_size', 5120)";
    let blocks = "with(with(widths, 'num_hidden_layers', 32), 'num_attention_heads', 16)";
    let vision_config = "with(blocks, 'image_size', image_size)";
    let patch = "{'rows': required(vision_config.patch_size), 'columns': required(vision_config.patch_size)}";
    let @preprocessor = "with(with(@preprocessor, 'image_mean', @preprocessor.image_mean|[0.485, 0.456, 0.406]),
        'image_std', @preprocessor.image_std|[0.229, 0.224, 0.225])";
};

const KEYS: &[Key] = keys! {
    "clip.vision.attention.layer_norm_epsilon" F32 = "1e-6";
    "clip.use_gelu" Bool = "true";
    "clip.vision.projector.scale_factor" U32 = "int(1.0 / (downsample_ratio|0.5))";
};

// A checkpoint with other sizes than the fixed ones is detected by its norms.
const OUTSIDE: &[Row] = rows! {
    "v.class_embd"           []     Required Always <- "patch_generator.cls_token.token";
    "v.patch_embd.weight"    []     Required Always <- "patch_generator.embedder"
        : "o (three patch.rows patch.columns) -> o three patch.rows patch.columns";
    "v.position_embd.weight" []     Required Always <- "patch_generator.pos_embed" => RowOp::ResizeGrid("image_size // patch.rows");
    "mm.model.mlp.0.weight"  []     Required Always + Optional <- "mlp1.0";
    "mm.model.mlp.1.weight"  []     Required Always + Optional <- "mlp1.1";
    "mm.model.mlp.3.weight"  []     Required Always + Optional <- "mlp1.3";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_qkv.weight" []     Required Always + Optional <- "attn.qkv";
    "v.blk.{}.attn_out.weight" []     Required Always + Optional <- "attn.proj";
    "v.blk.{}.ln1.weight"      [Embd] Required Always + Required <- "norm1";
    "v.blk.{}.ln2.weight"      [Embd] Required Always + Required <- "norm2";
    "v.blk.{}.ffn_up.weight"   []     Required Always + Optional <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" []     Required Always + Optional <- "mlp.fc2";
};
