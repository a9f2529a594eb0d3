//! Llama 4: patch embedding as a matrix, norms before and after the blocks, a pixel shuffle before the projector.

use super::prelude::*;

pub(super) const LLAMA4: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Llama4ForConditionalGeneration"],
        names: &TensorNames {
            takes: &["*multi_modal_projector*", "*vision_model*"],
            roots: &["model."],
            layers: &["vision_model.model.layers.{}."],
            ..*TOWER.names
        },
        refuse: &[("vision_config.hidden_act != 'gelu'", "another activation than gelu")],
        keys: &[HEAD, VISION, KEYS],
        ..TOWER
    }],
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'llama4'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.norm_eps";
    "clip.vision.projector.scale_factor" U32 = "int(1.0 / vision_config.pixel_shuffle_ratio)";
    "clip.use_gelu" Bool = "true";
};

const OUTSIDE: &[Row] = rows! {
    "mm.model.fc.weight"     []     Required Always <- "multi_modal_projector.linear_1";
    "v.class_embd"           [Embd] Required Always <- "vision_model.class_embedding";
    "v.post_ln.weight"       [Embd] Required Always + Required <- "vision_model.layernorm_post";
    "v.pre_ln.weight"        [Embd] Required Always + Required <- "vision_model.layernorm_pre";
    "v.patch_embd.weight"    []     Required Always <- "vision_model.patch_embedding.linear";
    "v.position_embd.weight" []     Required Always <- "vision_model.positional_embedding_vlm";
    "mm.model.mlp.1.weight"  []     Required Always <- "vision_model.vision_adapter.mlp.fc1";
    "mm.model.mlp.2.weight"  []     Required Always <- "vision_model.vision_adapter.mlp.fc2";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.ln1.weight"            [Embd]      Required Always + Required <- "input_layernorm";
    "v.blk.{}.ffn_up.weight"         [Embd Ff]   Required Always + Required <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight"       [Ff Embd]   Required Always + Required <- "mlp.fc2";
    "v.blk.{}.attn_post_norm.weight" [Embd]      Required Always + Required <- "post_attention_layernorm";
    "v.blk.{}.attn_q.weight"         [Embd Embd] Required Always + Required <- "self_attn.q_proj";
    "v.blk.{}.attn_k.weight"         [Embd Embd] Required Always + Required <- "self_attn.k_proj";
    "v.blk.{}.attn_v.weight"         [Embd Embd] Required Always + Required <- "self_attn.v_proj";
    "v.blk.{}.attn_out.weight"       [Embd Embd] Required Always + Required <- "self_attn.o_proj";
};
