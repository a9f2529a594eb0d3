//! InternVL: fused queries, keys and values, which are split, and scales after attention and the feed-forward part.

use super::prelude::*;

pub(super) const INTERNVL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["InternVisionModel"],
        names: &TensorNames {
            takes: &["vision_model*", "mlp*", "model.vision_tower*", "model.multi_modal_projector*"],
            rename: &[
                ("model.multi_modal_projector.layer_norm.", "mlp1.0."),
                ("model.multi_modal_projector.linear_1.", "mlp1.1."),
                ("model.multi_modal_projector.linear_2.", "mlp1.3."),
            ],
            roots: &["vision_model.", "model.vision_tower."],
            layers: &["encoder.layers.{}."],
            ..*TOWER.names
        },
        refuse: &[("not (vision_config.hidden_act in ['gelu', 'silu'])", "another activation than gelu and silu")],
        keys: &[SIZES, HEAD, VISION, KEYS],
        ..TOWER
    }],
};

/// If a size is a list, its first element is used.
const SIZES: &[Key] = keys! {
    let image_size = "vision_config.image_size[0] if is_list(vision_config.image_size) else vision_config.image_size";
    let patch_size = "vision_config.patch_size[0] if is_list(vision_config.patch_size) else vision_config.patch_size";
    let vision_config = "with(with(vision_config, 'image_size', image_size), 'patch_size', patch_size)";
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'internvl'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps";
    "clip.use_silu" Bool? = "true if vision_config.hidden_act == 'silu' else null";
    "clip.use_gelu" Bool? = "true if vision_config.hidden_act == 'gelu' else null";
    "clip.vision.projector.scale_factor" U32 = "int(1.0 / downsample_ratio)";
    "clip.vision.preproc_min_tiles" U32? = "min_dynamic_patch if (min_dynamic_patch|0) > 0 else null";
    "clip.vision.preproc_max_tiles" U32? = "max_dynamic_patch if (max_dynamic_patch|0) > 0 else null";
};

const OUTSIDE: &[Row] = rows! {
    "mm.model.mlp.0.weight"  []     Required Always + Optional <- "mlp1.0";
    "mm.model.mlp.1.weight"  []     Required Always + Optional <- "mlp1.1";
    "mm.model.mlp.3.weight"  []     Required Always + Optional <- "mlp1.3";
    "v.class_embd"           []     Required Always <- "embeddings.class_embedding";
    "v.patch_embd.weight"    []     Required Always + Optional <- "embeddings.patch_embedding";
    "v.position_embd.weight" []     Required Always <- "embeddings.position_embedding";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_q.weight"      [Embd Embd] Required Always + Optional <- "attn.qkv" : "(three[0] e) ... -> e ...";
    "v.blk.{}.attn_k.weight"      [Embd Embd] Required Always + Optional <- "attn.qkv" : "(three[1] e) ... -> e ...";
    "v.blk.{}.attn_v.weight"      [Embd Embd] Required Always + Optional <- "attn.qkv" : "(three[2] e) ... -> e ...";
    "v.blk.{}.attn_q_norm.weight" [Embd]      Optional Always <- "attn.q_norm";
    "v.blk.{}.attn_k_norm.weight" [Embd]      Optional Always <- "attn.k_norm";
    "v.blk.{}.attn_out.weight"    [Embd Embd] Required Always + Optional <- "attn.proj";
    "v.blk.{}.ls1.weight"         [Embd]      Required Always <- "ls1";
    "v.blk.{}.ls2.weight"         [Embd]      Required Always <- "ls2";
    "v.blk.{}.ffn_up.weight"      [Embd Ff]   Required Always + Optional <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight"    [Ff Embd]   Required Always + Optional <- "mlp.fc2";
    "v.blk.{}.ln1.weight"         [Embd]      Required Always + Optional <- "norm1";
    "v.blk.{}.ln2.weight"         [Embd]      Required Always + Optional <- "norm2";
};
