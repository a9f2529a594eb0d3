//! Gemma 3n and Gemma 4: encoders of images and of sound in one file. Gemma 3n has a convolutional network for images;
//! the sound goes through conformer blocks. Smaller models of Gemma 4 limit the inputs and outputs of their matrices.

use super::prelude::*;
use super::whisper::AUDIO;

pub(super) const GEMMA3N: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[GEMMA3N_OUTSIDE, PROJECTOR, GEMMA3N_PROJECTOR, GEMMA3N_SUBSAMPLING],
    block: &[MOBILENET, GEMMA3N_CONFORMER],
    checkpoints: &[Checkpoint {
        classes: &["Gemma3nForConditionalGeneration"],
        names: &TensorNames {
            takes: TAKES,
            layers: &["vision_tower.timm_model.blocks.{}.", "audio_tower.conformer.{}."],
            ..*TOWER.names
        },
        keys: &[GEMMA3N_SIZES, HEAD, VISION, AUDIO, GEMMA3N_KEYS],
        types: &StoredTypes {
            precise: &["a.conv1d.*.weight", "a.blk.*.conv_dw.weight", "v.conv_stem.conv.weight"],
            half: &["a.pre_encode.out.weight"],
            ..*TOWER.types
        },
        ..TOWER
    }],
};

pub(super) const GEMMA4: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[GEMMA4_OUTSIDE, PROJECTOR, GEMMA4_SUBSAMPLING],
    block: &[GEMMA4_BLOCK, GEMMA4_LINEAR, GEMMA4_CONFORMER, GEMMA4_CONFORMER_LINEAR],
    checkpoints: &[Checkpoint {
        when: "audio_config",
        keys: &[GEMMA4_SIZES, HEAD, VISION, GEMMA4_SOUND_SIZES, AUDIO, GEMMA4_KEYS, GEMMA4_SOUND_KEYS],
        types: &StoredTypes {
            precise: &["a.conv1d.*.weight", "a.input_projection.weight", "a.blk.*.conv_dw.weight"],
            ..*GEMMA4_CHECKPOINT.types
        },
        ..GEMMA4_CHECKPOINT
    }],
};

/// Gemma 4 without an audio encoder.
pub(super) const GEMMA4_IMAGES: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[GEMMA4_OUTSIDE, PROJECTOR],
    block: &[GEMMA4_BLOCK, GEMMA4_LINEAR],
    checkpoints: &[Checkpoint {
        when: "not audio_config",
        keys: &[GEMMA4_SIZES, HEAD, VISION, GEMMA4_KEYS],
        ..GEMMA4_CHECKPOINT
    }],
};

/// Gemma 4 without encoders: patches and frames are projected to the embeddings of the language model.
pub(super) const GEMMA4_UNIFIED: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[UNIFIED_OUTSIDE, PROJECTOR],
    block: &[],
    checkpoints: &[Checkpoint {
        classes: &["Gemma4UnifiedForConditionalGeneration"],
        keys: &[GEMMA4_SIZES, UNIFIED_SIZES, HEAD, VISION, AUDIO, UNIFIED_KEYS, UNIFIED_SOUND_KEYS],
        ..GEMMA4_CHECKPOINT
    }],
};

const GEMMA4_CHECKPOINT: Checkpoint = Checkpoint {
    classes: &["Gemma4ForConditionalGeneration"],
    names: &TensorNames {
        takes: TAKES,
        layers: &["vision_tower.encoder.layers.{}.", "audio_tower.layers.{}."],
        ..*TOWER.names
    },
    ..TOWER
};

const TAKES: &[&str] = &[
    "model.vision_tower.*",
    "model.vision_embedder.*",
    "model.embed_vision.*",
    "model.audio_tower.*",
    "model.embed_audio.*",
];

// Colors are not normalized. The number of image blocks is that of the stages at most.
const GEMMA3N_SIZES: &[Key] = keys! {
    let image_size = "(@preprocessor.size|{'height': 768})['height']";
    let vision_config = "with(with(vision_config, 'image_size', image_size), 'patch_size', image_size // (@preprocessor.image_seq_length|256))";
    let vision_config = "with(with(vision_config, 'n_layers', 128), 'intermediate_size', (vision_config.intermediate_size|2048) * 4)";
    let vision_config = "with(vision_config, 'num_attention_heads', vision_config.num_attention_heads|8)";
    let @preprocessor = "with(with(@preprocessor, 'image_mean', [0.0, 0.0, 0.0]), 'image_std', [1.0, 1.0, 1.0])";
    let audio_config = "with(required(audio_config), 'n_layers', audio_config.conf_num_hidden_layers)";
    let audio_config = "with(audio_config, 'num_attention_heads', audio_config.conf_num_attention_heads)";
    let audio_config = "with(audio_config, 'intermediate_size', audio_config.intermediate_size|6144)";
};

const GEMMA3N_KEYS: &[Key] = keys! {
    "clip.vision.projector_type" Str = "'gemma3nv'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
    "clip.audio.projector_type" Str = "'gemma3na'";
    "clip.audio.num_mel_bins" U32 = "audio_config.input_feat_size";
    "clip.audio.attention.layer_norm_epsilon" F32 = "1e-5";
};

// Images have any size.
const GEMMA4_SIZES: &[Key] = keys! {
    let vision_config = "with(vision_config, 'image_size', 224)";
    let patch = "{'rows': vision_config.patch_size, 'columns': vision_config.patch_size}";
};

const GEMMA4_SOUND_SIZES: &[Key] = keys! {
    let audio_config = "with(audio_config, 'intermediate_size', audio_config.hidden_size * 4)";
};

const GEMMA4_KEYS: &[Key] = keys! {
    "clip.vision.projector_type" Str = "'gemma4v'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
};

const GEMMA4_SOUND_KEYS: &[Key] = keys! {
    "clip.audio.projector_type" Str = "'gemma4a'";
    "clip.audio.num_mel_bins" U32 = "audio_config.input_feat_size|128";
    "clip.audio.attention.layer_norm_epsilon" F32 = "audio_config.layer_norm_eps|1e-6";
};

const UNIFIED_SIZES: &[Key] = keys! {
    let side = "vision_config.model_patch_size|vision_config.patch_size * vision_config.pooling_kernel_size";
    let patch = "{'rows': side, 'columns': side}";
    let vision_config = "with(with(vision_config, 'hidden_size', vision_config.mm_embed_dim), 'intermediate_size', 0)";
    let vision_config = "with(with(vision_config, 'num_layers', 0), 'num_attention_heads', 0)";
    let audio_config = "with(with(required(audio_config), 'hidden_size', audio_config.audio_embed_dim), 'intermediate_size', 0)";
    let audio_config = "with(with(audio_config, 'num_layers', 0), 'num_attention_heads', 0)";
};

const UNIFIED_KEYS: &[Key] = keys! {
    "clip.vision.projector_type" Str = "'gemma4uv'";
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-6";
};

const UNIFIED_SOUND_KEYS: &[Key] = keys! {
    "clip.audio.projector_type" Str = "'gemma4ua'";
    "clip.audio.num_mel_bins" U32 = "audio_config.input_feat_size|128";
    "clip.audio.attention.layer_norm_epsilon" F32 = "audio_config.layer_norm_eps|1e-6";
};

const PROJECTOR: &[Row] = rows! {
    "mm.input_projection.weight"   [] Required Always <- "embed_vision.embedding_projection";
    "mm.a.input_projection.weight" [] Optional Always <- "embed_audio.embedding_projection";
};

const GEMMA3N_PROJECTOR: &[Row] = rows! {
    "mm.embedding.weight"       []     Optional Always <- "embed_vision.embedding";
    "mm.hard_emb_norm.weight"   []     Optional Always <- "embed_vision.hard_embedding_norm";
    "mm.soft_emb_norm.weight"   [Embd] Required Always <- "embed_vision.soft_embedding_norm";
    "mm.a.embedding.weight"     []     Optional Always <- "embed_audio.embedding";
    "mm.a.hard_emb_norm.weight" []     Optional Always <- "embed_audio.hard_embedding_norm";
    "mm.a.soft_emb_norm.weight" [Embd] Optional Always <- "embed_audio.soft_embedding_norm";
};

const GEMMA3N_OUTSIDE: &[Row] = rows! {
    "v.conv_stem.conv.weight"       [] Required Always <- "vision_tower.timm_model.conv_stem.conv";
    "v.conv_stem.conv.bias"         [] Optional Always <- "vision_tower.timm_model.conv_stem.conv.bias" : "c -> 1 c 1 1";
    "v.conv_stem.bn.weight"         [] Required Always <- "vision_tower.timm_model.conv_stem.bn";
    "v.msfa.ffn.pw_exp.conv.weight" [] Required Always <- "vision_tower.timm_model.msfa.ffn.pw_exp.conv";
    "v.msfa.ffn.pw_exp.bn.weight"   [] Required Always <- "vision_tower.timm_model.msfa.ffn.pw_exp.bn";
    "v.msfa.ffn.pw_proj.conv.weight" [] Required Always <- "vision_tower.timm_model.msfa.ffn.pw_proj.conv";
    "v.msfa.ffn.pw_proj.bn.weight"  [] Required Always <- "vision_tower.timm_model.msfa.ffn.pw_proj.bn";
    "v.msfa.norm.weight"            [] Required Always <- "vision_tower.timm_model.msfa.norm";
};

// The reference has no name for the norms; this is the one that it gives those of Gemma 4. llama.cpp does not load the
// audio encoder.
const GEMMA3N_SUBSAMPLING: &[Row] = rows! {
    "a.conv1d.{n}.weight"      []     Optional Always <- "audio_tower.subsample_conv_projection.conv_{n}.conv";
    "a.conv1d.{n}.norm.weight" []     Optional Always <- "audio_tower.subsample_conv_projection.conv_{n}.norm";
    "a.pre_encode.out.weight"  []     Required Always <- "audio_tower.subsample_conv_projection.input_proj_linear";
};

// The blocks of MobileNet are numbered by stage, and within the stage.
const MOBILENET: &[Row] = rows! {
    "v.blk.{}.{n}.conv_exp.weight"             [] Optional Always <- "{n}.conv_exp";
    "v.blk.{}.{n}.bn1.weight"                  [] Optional Always <- "{n}.bn1";
    "v.blk.{}.{n}.conv_pwl.weight"             [] Optional Always <- "{n}.conv_pwl";
    "v.blk.{}.{n}.bn2.weight"                  [] Optional Always <- "{n}.bn2";
    "v.blk.{}.{n}.dw_start.conv.weight"        [] Optional Always <- "{n}.dw_start.conv";
    "v.blk.{}.{n}.dw_start.bn.weight"          [] Optional Always <- "{n}.dw_start.bn";
    "v.blk.{}.{n}.dw_mid.conv.weight"          [] Optional Always <- "{n}.dw_mid.conv";
    "v.blk.{}.{n}.dw_mid.bn.weight"            [] Optional Always <- "{n}.dw_mid.bn";
    "v.blk.{}.{n}.pw_exp.conv.weight"          [] Optional Always <- "{n}.pw_exp.conv";
    "v.blk.{}.{n}.pw_exp.bn.weight"            [] Optional Always <- "{n}.pw_exp.bn";
    "v.blk.{}.{n}.pw_proj.conv.weight"         [] Optional Always <- "{n}.pw_proj.conv";
    "v.blk.{}.{n}.pw_proj.bn.weight"           [] Optional Always <- "{n}.pw_proj.bn";
    "v.blk.{}.{n}.layer_scale.gamma"           [] Optional Always <- "{n}.layer_scale.gamma";
    "v.blk.{}.{n}.attn.query.proj.weight"      [] Optional Always <- "{n}.attn.query.proj";
    "v.blk.{}.{n}.attn.key.proj.weight"        [] Optional Always <- "{n}.attn.key.proj";
    "v.blk.{}.{n}.attn.value.proj.weight"      [] Optional Always <- "{n}.attn.value.proj";
    "v.blk.{}.{n}.attn.output.proj.weight"     [] Optional Always <- "{n}.attn.output.proj";
    "v.blk.{}.{n}.attn.key.down_conv.weight"   [] Optional Always <- "{n}.attn.key.down_conv";
    "v.blk.{}.{n}.attn.key.norm.weight"        [] Optional Always <- "{n}.attn.key.norm";
    "v.blk.{}.{n}.attn.value.down_conv.weight" [] Optional Always <- "{n}.attn.value.down_conv";
    "v.blk.{}.{n}.attn.value.norm.weight"      [] Optional Always <- "{n}.attn.value.norm";
    "v.blk.{}.{n}.norm.weight"                 [] Optional Always <- "{n}.norm";
};

const GEMMA3N_CONFORMER: &[Row] = rows! {
    "a.blk.{}.attn_q.weight"          []     Required Always <- "attention.attn.q_proj";
    "a.blk.{}.attn_k.weight"          []     Required Always <- "attention.attn.k_proj";
    "a.blk.{}.attn_v.weight"          []     Required Always <- "attention.attn.v_proj";
    "a.blk.{}.attn_out.weight"        []     Required Always <- "attention.post";
    "a.blk.{}.per_dim_scale"          []     Required Always <- "attention.attn.per_dim_scale";
    "a.blk.{}.linear_pos.weight"      []     Required Always <- "attention.attn.relative_position_embedding.pos_proj";
    "a.blk.{}.ln1.weight"             [Embd] Required Always <- "attention.pre_attn_norm";
    "a.blk.{}.ln2.weight"             [Embd] Required Always <- "attention.post_norm";
    "a.blk.{}.ffn_up.weight"          []     Required Always <- "ffw_layer_start.ffw_layer_1";
    "a.blk.{}.ffn_down.weight"        []     Required Always <- "ffw_layer_start.ffw_layer_2";
    "a.blk.{}.ffn_norm.weight"        [Embd] Required Always <- "ffw_layer_start.pre_layer_norm";
    "a.blk.{}.ffn_post_norm.weight"   [Embd] Required Always <- "ffw_layer_start.post_layer_norm";
    "a.blk.{}.ffn_up_1.weight"        []     Required Always <- "ffw_layer_end.ffw_layer_1";
    "a.blk.{}.ffn_down_1.weight"      []     Required Always <- "ffw_layer_end.ffw_layer_2";
    "a.blk.{}.ffn_norm_1.weight"      [Embd] Required Always <- "ffw_layer_end.pre_layer_norm";
    "a.blk.{}.ffn_post_norm_1.weight" [Embd] Required Always <- "ffw_layer_end.post_layer_norm";
    "a.blk.{}.conv_dw.weight"         []     Required Always <- "lconv1d.depthwise_conv1d";
    "a.blk.{}.conv_pw1.weight"        []     Required Always <- "lconv1d.linear_start";
    "a.blk.{}.conv_pw2.weight"        []     Required Always <- "lconv1d.linear_end";
    "a.blk.{}.conv_norm.weight"       [Embd] Required Always <- "lconv1d.pre_layer_norm";
    "a.blk.{}.norm_conv.weight"       [Embd] Required Always <- "lconv1d.conv_norm";
    "a.blk.{}.layer_pre_norm.weight"  [Embd] Required Always <- "norm";
};

const GEMMA4_OUTSIDE: &[Row] = rows! {
    "v.patch_embd.weight"    []     Required Always <- "vision_tower.patch_embedder.input_proj"
        : "e (patch.rows patch.columns three) -> e three patch.rows patch.columns";
    "v.position_embd.weight" []     Required Always <- "vision_tower.patch_embedder.position_embedding_table";
    "v.std_bias"             [Embd] Optional Always <- "vision_tower.std_bias";
    "v.std_scale"            [Embd] Optional Always <- "vision_tower.std_scale";
};

const UNIFIED_OUTSIDE: &[Row] = rows! {
    "v.patch_norm.1.weight"  []     Required Always + Required <- "vision_embedder.patch_ln1"
        : "(patch.rows patch.columns three) -> (three patch.rows patch.columns)";
    "v.patch_embd.weight"    []     Required Always <- "vision_embedder.patch_dense"
        : "e (patch.rows patch.columns three) -> e (three patch.rows patch.columns)";
    "v.patch_embd.bias"      [Embd] Required Always <- "vision_embedder.patch_dense.bias";
    "v.patch_norm.2.weight"  [Embd] Required Always + Required <- "vision_embedder.patch_ln2";
    "v.position_embd.weight" []     Required Always <- "vision_embedder.pos_embedding" : "p two e -> two p e";
    "v.patch_norm.3.weight"  [Embd] Required Always + Required <- "vision_embedder.pos_norm";
};

const GEMMA4_SUBSAMPLING: &[Row] = rows! {
    "a.conv1d.0.weight"         []     Required Always + Optional <- "audio_tower.subsample_conv_projection.layer0.conv";
    "a.conv1d.0.norm.weight"    []     Required Always + Optional <- "audio_tower.subsample_conv_projection.layer0.norm";
    "a.conv1d.1.weight"         []     Required Always + Optional <- "audio_tower.subsample_conv_projection.layer1.conv";
    "a.conv1d.1.norm.weight"    []     Required Always + Optional <- "audio_tower.subsample_conv_projection.layer1.norm";
    "a.input_projection.weight" []     Required Always + Optional <- "audio_tower.subsample_conv_projection.input_proj_linear";
    "a.pre_encode.out.weight"   []     Required Always + Optional <- "audio_tower.output_proj";
};

const GEMMA4_BLOCK: &[Row] = rows! {
    "v.blk.{}.ln1.weight"            [Embd] Required Always <- "input_layernorm";
    "v.blk.{}.attn_post_norm.weight" [Embd] Required Always <- "post_attention_layernorm";
    "v.blk.{}.ln2.weight"            [Embd] Required Always <- "pre_feedforward_layernorm";
    "v.blk.{}.ffn_post_norm.weight"  [Embd] Required Always <- "post_feedforward_layernorm";
    "v.blk.{}.attn_q_norm.weight"    []     Required Always <- "self_attn.q_norm";
    "v.blk.{}.attn_k_norm.weight"    []     Required Always <- "self_attn.k_norm";
    "v.blk.{}.out_scale.weight"      []     Optional Always <- "layer_scalar" : SCALAR;
};

const GEMMA4_CONFORMER: &[Row] = rows! {
    "a.blk.{}.attn_pre_norm.weight"   [Embd] Required Always <- "norm_pre_attn";
    "a.blk.{}.attn_post_norm.weight"  [Embd] Required Always <- "norm_post_attn";
    "a.blk.{}.ln2.weight"             [Embd] Required Always <- "norm_out";
    "a.blk.{}.attn_k_rel.weight"      []     Required Always <- "self_attn.relative_k_proj";
    "a.blk.{}.per_dim_scale.weight"   []     Required Always <- "self_attn.per_dim_scale", Map::Softplus;
    "a.blk.{}.ffn_norm.weight"        [Embd] Required Always <- "feed_forward1.pre_layer_norm";
    "a.blk.{}.ffn_post_norm.weight"   [Embd] Required Always <- "feed_forward1.post_layer_norm";
    "a.blk.{}.ffn_norm_1.weight"      [Embd] Required Always <- "feed_forward2.pre_layer_norm";
    "a.blk.{}.ffn_post_norm_1.weight" [Embd] Required Always <- "feed_forward2.post_layer_norm";
    "a.blk.{}.conv_dw.weight"         []     Required Always <- "lconv1d.depthwise_conv1d" : "e 1 k -> e k";
    "a.blk.{}.conv_norm.weight"       [Embd] Required Always <- "lconv1d.pre_layer_norm";
    "a.blk.{}.norm_conv.weight"       [Embd] Required Always <- "lconv1d.conv_norm";
};

/// A number as a vector.
const SCALAR: &str = "1... -> 1";

/// Matrices with optional limits of their inputs and outputs.
macro_rules! limited {
    ($($name:literal [$($dim:ident)*] <- $source:literal;)*) => {
        &[$(
            Row::new(concat!($name, ".weight"), const { &[$(dim!($dim)),*] }, Need::Required, When::Always)
                .from(concat!($source, ".linear | ", $source)),
            limited!(@limit $name $source ".input_max"),
            limited!(@limit $name $source ".input_min"),
            limited!(@limit $name $source ".output_max"),
            limited!(@limit $name $source ".output_min"),
        )*]
    };
    (@limit $name:literal $source:literal $limit:literal) => {
        Row::new(concat!($name, $limit), const { &[dim!("1")] }, Need::Optional, When::Always)
            .from(concat!($source, $limit))
            .by(SCALAR)
    };
}

const GEMMA4_LINEAR: &[Row] = limited! {
    "v.blk.{}.attn_q"   []        <- "self_attn.q_proj";
    "v.blk.{}.attn_k"   []        <- "self_attn.k_proj";
    "v.blk.{}.attn_v"   []        <- "self_attn.v_proj";
    "v.blk.{}.attn_out" []        <- "self_attn.o_proj";
    "v.blk.{}.ffn_gate" [Embd Ff] <- "mlp.gate_proj";
    "v.blk.{}.ffn_up"   [Embd Ff] <- "mlp.up_proj";
    "v.blk.{}.ffn_down" [Ff Embd] <- "mlp.down_proj";
};

const GEMMA4_CONFORMER_LINEAR: &[Row] = limited! {
    "a.blk.{}.attn_q"     []        <- "self_attn.q_proj";
    "a.blk.{}.attn_k"     []        <- "self_attn.k_proj";
    "a.blk.{}.attn_v"     []        <- "self_attn.v_proj";
    "a.blk.{}.attn_out"   []        <- "self_attn.post";
    "a.blk.{}.ffn_up"     [Embd Ff] <- "feed_forward1.ffw_layer_1";
    "a.blk.{}.ffn_down"   [Ff Embd] <- "feed_forward1.ffw_layer_2";
    "a.blk.{}.ffn_up_1"   [Embd Ff] <- "feed_forward2.ffw_layer_1";
    "a.blk.{}.ffn_down_1" [Ff Embd] <- "feed_forward2.ffw_layer_2";
    "a.blk.{}.conv_pw1"   []        <- "lconv1d.linear_start";
    "a.blk.{}.conv_pw2"   []        <- "lconv1d.linear_end";
};
