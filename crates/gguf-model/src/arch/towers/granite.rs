//! Granite's encoders: that of Granite Speech, a Conformer, and that of Granite 4 Vision, SigLIP. Q-Formers project their
//! outputs: one with two blocks for sound, and one with one block for each pair of an encoder block and a block of the
//! language model for images.

use super::prelude::*;
use super::{siglip, whisper};

pub(super) const GRANITE_SPEECH: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[SPEECH_OUTSIDE],
    block: &[SPEECH_BLOCK, SPEECH_PROJECTOR],
    checkpoints: &[Checkpoint {
        classes: &["GraniteSpeechForConditionalGeneration", PLUS],
        names: &TensorNames {
            takes: &["encoder.*", "projector.*"],
            skip: &[("*attention_dists*", ""), ("*num_batches_tracked*", "")],
            roots: &["encoder."],
            layers: &["layers.{}.", "projector.qformer.encoder.layer.{}."],
            ..*TOWER.names
        },
        sizes: "clip.audio",
        refuse: &[(
            "architectures[0] == 'GraniteSpeechPlusForConditionalGeneration' and len(encoder_config.cat_hidden_layers ?? []) > 0 and \
             projector_config.encoder_hidden_size != encoder_config.hidden_dim * (len(encoder_config.cat_hidden_layers) + 1)",
            "another projector_config.encoder_hidden_size than the width of the concatenated outputs of the encoder",
        )],
        keys: &[SPEECH_SIZES, HEAD, whisper::AUDIO, SPEECH_KEYS],
        types: &StoredTypes { precise: &["a.blk.*.conv_*"], ..*TOWER.types },
        ..TOWER
    }],
};

pub(super) const GRANITE4_VISION: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[siglip::EMBEDDINGS, NEWLINE],
    block: &[siglip::BLOCK, IMAGE_PROJECTOR],
    checkpoints: &[Checkpoint {
        classes: &["Granite4VisionForConditionalGeneration"],
        names: &TensorNames {
            takes: &[
                "model.vision_tower.*",
                "model.layerwise_projectors.*",
                "model.spatial_projectors.*",
                "model.image_newline",
            ],
            skip: &[("vision_model.head*", "")],
            roots: &["model.vision_tower.", "model."],
            layers: &["vision_model.encoder.layers.{}.", "layerwise_projectors.{}.", "spatial_projectors.{}."],
            renumbered: &[("layerwise_projectors.", "layerwise_places"), ("spatial_projectors.", "spatial_places")],
            ..*TOWER.names
        },
        keys: &[HEAD, VISION, PROJECTORS, IMAGE_KEYS],
        ..TOWER
    }],
};

/// The class whose projector also takes the outputs of intermediate blocks.
const PLUS: &str = "GraniteSpeechPlusForConditionalGeneration";

const SPEECH_SIZES: &[Key] = keys! {
    let audio_config = "merge(encoder_config, {'hidden_size': encoder_config.hidden_dim, \
                        'intermediate_size': encoder_config.hidden_dim * encoder_config.feedforward_mult, \
                        'num_attention_heads': encoder_config.num_heads, 'num_hidden_layers': encoder_config.num_layers})";
    let @further_blocks = "2";
};

const SPEECH_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'granite_speech'";
    "clip.audio.num_mel_bins" U32 = "encoder_config.input_dim";
    "clip.audio.attention.layer_norm_epsilon" F32 = "1e-5";
    "clip.audio.chunk_size" U32 = "encoder_config.context_size";
    "clip.audio.conv_kernel_size" U32 = "encoder_config.conv_kernel_size";
    "clip.audio.max_pos_emb" U32 = "encoder_config.max_pos_emb";
    "clip.audio.projector.window_size" U32 = "window_size";
    "clip.audio.projector.downsample_rate" U32 = "downsample_rate";
    "clip.audio.projector.head_count" U32 = "projector_config.num_attention_heads";
    "clip.audio.feature_layer" I32? = "encoder_config.cat_hidden_layers if architectures[0] == 'GraniteSpeechPlusForConditionalGeneration' else null";
};

/// The projectors, in the order of the blocks of the language model that take their outputs: each is that block, the
/// number among all projectors, the block of the encoder, and the number among the spatial projectors
/// (`Granite4VisionMmprojModel.get_normalized_projector_map`).
const PROJECTORS: &[Key] = keys! {
    let n_text = "text_config.num_hidden_layers";
    let layerwise = "sorted(deepstack_layer_map ?? [])";
    let spatial = "spatial_target_layers ?? []";
    let spatial_layer = "spatial_vision_layer|(-1)";
    let spatial_layer = "spatial_layer + (block_count if spatial_layer < 0 else 0)";
    let layerwise = "[[layerwise[i][1] + (n_text if layerwise[i][1] < 0 else 0), i, \
                     layerwise[i][0] + (block_count if layerwise[i][0] < 0 else 0), -1] for i in range(len(layerwise))]";
    let spatial = "[[spatial[i], len(layerwise) + i, spatial_layer, i] for i in range(len(spatial))]";
    let projectors = "sorted(layerwise + spatial)";
    let @further_blocks = "len(projectors)";
    let places = "[pair[1] for pair in sorted([[projectors[i][1], i] for i in range(len(projectors))])]";
    let layerwise_places = "[places[i] for i in range(len(layerwise))]";
    let spatial_places = "[places[len(layerwise) + i] for i in range(len(spatial))]";
};

const IMAGE_KEYS: &[Key] = keys! {
    let sides = "split(downsample_rate, '/')";
    "clip.projector_type" Str = "'granite4_vision'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.use_gelu" Bool = "true";
    "clip.vision.preproc_image_size" U32 = "vision_config.image_size";
    "clip.vision.projector.query_side" U32 = "int(sides[0])";
    "clip.vision.projector.window_side" U32 = "int(sides[1])";
    "clip.vision.feature_layer" I32 = "[projector[2] for projector in projectors]";
    "clip.vision.projector.spatial_offsets" I32 = "[projector[3] for projector in projectors]";
    "clip.vision.image_grid_pinpoints" I32? = "[image_grid_pinpoints[i // 2][1 - i % 2] for i in range(2 * len(image_grid_pinpoints))] \
                                               if image_grid_pinpoints else null";
};

const SPEECH_OUTSIDE: &[Row] = rows! {
    "a.input_projection.weight" [] Required Always + Required <- "input_linear";
    "a.enc_ctc_out.weight"      [] Required Always + Required <- "out";
    "a.enc_ctc_out_mid.weight"  [] Required Always + Required <- "out_mid";
    "a.proj_query"              [] Required Always <- "projector.query";
    "a.proj_norm.weight"        [] Required Always + Required <- "projector.qformer.layernorm";
    "a.proj_linear.weight"      [] Required Always + Required <- "projector.linear";
};

// The reference names the folded batch normalization `conv_norm_var`; llama.cpp loads `conv_norm`.
const SPEECH_BLOCK: &[Row] = rows! {
    "a.blk.{}.ln1.weight"        [Embd]      Required Always + Required <- "attn.pre_norm";
    "a.blk.{}.ln2.weight"        [Embd]      Required Always + Required <- "post_norm";
    "a.blk.{}.attn_q.weight"     [Embd Embd] Required Always <- "attn.to_q";
    "a.blk.{}.attn_k.weight"     [Embd Embd] Required Always <- "attn.to_kv" : "(two[0] o) i -> o i";
    "a.blk.{}.attn_v.weight"     [Embd Embd] Required Always <- "attn.to_kv" : "(two[1] o) i -> o i";
    "a.blk.{}.attn_out.weight"   [Embd Embd] Required Always + Required <- "attn.to_out";
    "a.blk.{}.attn_rel_pos_emb"  []          Required Always <- "attn.rel_pos_emb";
    "a.blk.{}.ffn_norm.weight"   [Embd]      Required Always + Required <- "ff1.pre_norm";
    "a.blk.{}.ffn_up.weight"     [Embd Ff]   Required Always + Required <- "ff1.up_proj";
    "a.blk.{}.ffn_down.weight"   [Ff Embd]   Required Always + Required <- "ff1.down_proj";
    "a.blk.{}.ffn_norm_1.weight" [Embd]      Required Always + Required <- "ff2.pre_norm";
    "a.blk.{}.ffn_up_1.weight"   [Embd Ff]   Required Always + Required <- "ff2.up_proj";
    "a.blk.{}.ffn_down_1.weight" [Ff Embd]   Required Always + Required <- "ff2.down_proj";
    "a.blk.{}.norm_conv.weight"  [Embd]      Required Always + Required <- "conv.norm";
    "a.blk.{}.conv_dw.weight"    []          Required Always <- "conv.depth_conv.conv" : "c 1 k -> c k";
    "a.blk.{}.conv_pw1.weight"   []          Required Always <- "conv.up_conv" : "o i 1 -> o i";
    "a.blk.{}.conv_pw1.bias"     []          Required Always <- "conv.up_conv.bias";
    "a.blk.{}.conv_pw2.weight"   []          Required Always <- "conv.down_conv" : "o i 1 -> o i";
    "a.blk.{}.conv_pw2.bias"     []          Required Always <- "conv.down_conv.bias";
    "a.blk.{}.conv_norm.weight"  []          Required Always <- "conv.batch_norm, conv.batch_norm.running_var" : "" => RowOp::BatchNorm(1e-5);
    "a.blk.{}.conv_norm.bias"    []          Required Always
        <- "conv.batch_norm, conv.batch_norm.running_var, conv.batch_norm.bias, conv.batch_norm.running_mean" : "" => RowOp::BatchNorm(1e-5);
};

const SPEECH_PROJECTOR: &[Row] = rows! {
    "a.proj_blk.{}.self_attn_q.weight"    [] Required Always + Required <- "attention.attention.query";
    "a.proj_blk.{}.self_attn_k.weight"    [] Required Always + Required <- "attention.attention.key";
    "a.proj_blk.{}.self_attn_v.weight"    [] Required Always + Required <- "attention.attention.value";
    "a.proj_blk.{}.self_attn_out.weight"  [] Required Always + Required <- "attention.output.dense";
    "a.proj_blk.{}.self_attn_norm.weight" [] Required Always + Required <- "attention.output.LayerNorm";
    "a.proj_blk.{}.cross_attn_q.weight"   [] Required Always + Required <- "crossattention.attention.query";
    "a.proj_blk.{}.cross_attn_k.weight"   [] Required Always + Required <- "crossattention.attention.key";
    "a.proj_blk.{}.cross_attn_v.weight"   [] Required Always + Required <- "crossattention.attention.value";
    "a.proj_blk.{}.cross_attn_out.weight" [] Required Always + Required <- "crossattention.output.dense";
    "a.proj_blk.{}.cross_attn_norm.weight" [] Required Always + Required <- "crossattention.output.LayerNorm";
    "a.proj_blk.{}.ffn_up.weight"         [] Required Always + Required <- "intermediate_query.dense";
    "a.proj_blk.{}.ffn_down.weight"       [] Required Always + Required <- "output_query.dense";
    "a.proj_blk.{}.ffn_norm.weight"       [] Required Always + Required <- "output_query.LayerNorm";
};

const NEWLINE: &[Row] = rows! {
    "v.image_newline" [] Required Always <- "image_newline";
};

const IMAGE_PROJECTOR: &[Row] = rows! {
    "v.proj_blk.{}.img_pos"               [] Required Always <- "image_positions";
    "v.proj_blk.{}.query"                 [] Required Always <- "query";
    "v.proj_blk.{}.linear.weight"         [] Required Always + Required <- "out_linear";
    "v.proj_blk.{}.norm.weight"           [] Required Always + Required <- "norm";
    "v.proj_blk.{}.post_norm.weight"      [] Required Always + Required <- "qformer.layernorm";
    "v.proj_blk.{}.self_attn_q.weight"    [] Required Always + Required <- "qformer.encoder.layer.0.attention.attention.query";
    "v.proj_blk.{}.self_attn_k.weight"    [] Required Always + Required <- "qformer.encoder.layer.0.attention.attention.key";
    "v.proj_blk.{}.self_attn_v.weight"    [] Required Always + Required <- "qformer.encoder.layer.0.attention.attention.value";
    "v.proj_blk.{}.self_attn_out.weight"  [] Required Always + Required <- "qformer.encoder.layer.0.attention.output.dense";
    "v.proj_blk.{}.self_attn_norm.weight" [] Required Always + Required <- "qformer.encoder.layer.0.attention.output.LayerNorm";
    "v.proj_blk.{}.cross_attn_q.weight"   [] Required Always + Required <- "qformer.encoder.layer.0.crossattention.attention.query";
    "v.proj_blk.{}.cross_attn_k.weight"   [] Required Always + Required <- "qformer.encoder.layer.0.crossattention.attention.key";
    "v.proj_blk.{}.cross_attn_v.weight"   [] Required Always + Required <- "qformer.encoder.layer.0.crossattention.attention.value";
    "v.proj_blk.{}.cross_attn_out.weight" [] Required Always + Required <- "qformer.encoder.layer.0.crossattention.output.dense";
    "v.proj_blk.{}.cross_attn_norm.weight" [] Required Always + Required <- "qformer.encoder.layer.0.crossattention.output.LayerNorm";
    "v.proj_blk.{}.ffn_up.weight"         [] Required Always + Required <- "qformer.encoder.layer.0.intermediate_query.dense";
    "v.proj_blk.{}.ffn_down.weight"       [] Required Always + Required <- "qformer.encoder.layer.0.output_query.dense";
    "v.proj_blk.{}.ffn_norm.weight"       [] Required Always + Required <- "qformer.encoder.layer.0.output_query.LayerNorm";
};
