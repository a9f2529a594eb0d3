//! The encoder of MiniMax-M3: patches of two frames, rotary positions in time, height and width, and a second projector for merged patches.

use super::prelude::*;

pub(super) const MINIMAXM3: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3VLForConditionalGeneration"],
        names: &TensorNames {
            takes: &["vision_tower.*", "multi_modal_projector.*", "patch_merge_mlp.*"],
            roots: &["vision_tower."],
            layers: &["vision_model.encoder.layers.{}."],
            ..*TOWER.names
        },
        refuse: &[(
            "vision_config.hidden_size != 80 * (vision_config.num_attention_heads ?? 0)",
            "an encoder with heads of other than 80 elements",
        )],
        keys: &[HEAD, VISION, KEYS],
        ..TOWER
    }],
};

const KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'minimax_m3'";
    "clip.use_gelu" Bool = "true";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-5";
    "clip.vision.spatial_merge_size" U32 = "int(vision_config.img_token_compression_config.spatial_merge_size|2)";
};

/// In each half of a head, 13 elements rotate with each of time, height and width; both halves of each are placed side by side. The last
/// 2 elements do not rotate.
const BY_AXIS: &str = "each h: r ... -> r[:13] ... + r[39:52] ... + r[13:26] ... + r[52:65] ... + r[26:39] ... + r[65:78] ... + r[78:] ...";

const OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"   []     Required Always <- "vision_model.embeddings.patch_embedding" : "o c two[0] y z -> o c y z";
    "v.patch_embd.weight.1" []     Required Always <- "vision_model.embeddings.patch_embedding" : "o c two[1] y z -> o c y z";
    "v.pre_ln.weight"       [Embd] Optional Always + Optional <- "vision_model.pre_layrnorm";
    "v.post_ln.weight"      [Embd] Optional Always + Optional <- "vision_model.post_layernorm";
    "mm.1.weight"           []     Required Always + Required <- "multi_modal_projector.linear_1";
    "mm.2.weight"           []     Required Always + Required <- "multi_modal_projector.linear_2";
    "mm.merger.fc1.weight"  []     Required Always + Required <- "patch_merge_mlp.linear_1";
    "mm.merger.fc2.weight"  []     Required Always + Required <- "patch_merge_mlp.linear_2";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Optional <- "self_attn.q_proj" : BY_AXIS;
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Optional <- "self_attn.k_proj" : BY_AXIS;
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Optional <- "self_attn.v_proj";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Optional <- "self_attn.out_proj";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "layer_norm1";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "layer_norm2";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Optional <- "mlp.fc1";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Optional <- "mlp.fc2";
};
