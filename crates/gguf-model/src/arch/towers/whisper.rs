//! Whisper's audio encoder, in front of other language models.

use super::prelude::*;

pub(super) const QWEN2AUDIO: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, OUTSIDE, LINEAR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Qwen2AudioForConditionalGeneration"],
        keys: &[HEAD, AUDIO, QWEN2AUDIO_KEYS, SOUND],
        ..CHECKPOINT
    }],
};

pub(super) const VOXTRAL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, OUTSIDE, TWO_LINEAR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["VoxtralForConditionalGeneration"],
        keys: &[HEAD, AUDIO, VOXTRAL_KEYS, SOUND, VOXTRAL_STACK],
        ..CHECKPOINT
    }],
};

pub(super) const AUDIO_FLAMINGO: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, OUTSIDE, TWO_LINEAR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["AudioFlamingo3ForConditionalGeneration"],
        keys: &[HEAD, AUDIO, AUDIO_FLAMINGO_KEYS, SOUND],
        types: &StoredTypes { half: &[], precise: &["a.conv1d.*.weight"], ..*CHECKPOINT.types },
        ..CHECKPOINT
    }],
};

pub(super) const ULTRAVOX: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, OUTSIDE, TWO_LINEAR, PROJECTOR_NORMS],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["UltravoxModel"],
        keys: &[HEAD, AUDIO, ULTRAVOX_KEYS, SOUND, ULTRAVOX_STACK],
        ..CHECKPOINT
    }],
};

/// MERaLiON 2, whose projector is gated.
pub(super) const MERALION: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, OUTSIDE, MERALION_PROJECTOR],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MERaLiON2ForConditionalGeneration"],
        names: &TensorNames {
            takes: &["speech_encoder.*", "ln_speech.*", "speech_audio_adapter.*"],
            roots: &["speech_encoder."],
            ..*CHECKPOINT.names
        },
        keys: &[MERALION_FIELDS, HEAD, AUDIO, MERALION_KEYS, SOUND, MERALION_STACK],
        ..CHECKPOINT
    }],
};

pub(super) const GLM_ASR: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, GLM_ASR_OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["GlmasrModel"],
        names: &TensorNames {
            takes: &["audio_encoder.*"],
            rename: &[("audio_encoder.layer_norm.", "adapting.norm."), ("audio_encoder.whisper.", "audio_tower.")],
            roots: &["audio_tower.", "audio_encoder."],
            ..*CHECKPOINT.names
        },
        keys: &[GLM_ASR_FIELDS, HEAD, AUDIO, GLM_ASR_KEYS, SOUND, GLM_ASR_STACK],
        ..CHECKPOINT
    }],
};

pub(super) const CHECKPOINT: Checkpoint = Checkpoint {
    names: &TensorNames {
        takes: &["audio_tower.*", "multi_modal_projector.*"],
        roots: &["audio_tower."],
        layers: &["layers.{}."],
        ..*TOWER.names
    },
    sizes: "clip.audio",
    types: &StoredTypes { half: &["a.conv1d.*.weight"], ..*TOWER.types },
    ..TOWER
};

/// Keys of an audio encoder (`MmprojModel.set_gguf_parameters`).
pub(super) const AUDIO: &[Key] = keys! {
    let block_count = "audio_config.n_layers|audio_config.num_hidden_layers|audio_config.n_layer|audio_config.num_layers|audio_config.depth|\
                       audio_config.layers|audio_config.encoder_layers";
    "clip.has_audio_encoder" Bool = "true";
    "clip.audio.projection_dim" U32 = "projection_dim";
    "clip.audio.embedding_length" U32 = "audio_config.hidden_size|audio_config.d_model";
    "clip.audio.feed_forward_length" U32 = "audio_config.intermediate_size|audio_config.encoder_ffn_dim";
    "clip.audio.block_count" U32 = "block_count";
    "clip.audio.attention.head_count" U32 = "audio_config.num_attention_heads|audio_config.encoder_attention_heads";
};

pub(super) const SOUND: &[Key] = keys! {
    "clip.audio.num_mel_bins" U32 = "audio_config.num_mel_bins";
    "clip.audio.attention.layer_norm_epsilon" F32 = "audio_config.layer_norm_eps|1e-5";
};

const QWEN2AUDIO_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'qwen2a'";
};

const VOXTRAL_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'voxtral'";
};

/// The number of frames merged into one.
const VOXTRAL_STACK: &[Key] = keys! {
    "clip.audio.projector.stack_factor" U32 = "4";
};

const AUDIO_FLAMINGO_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'musicflamingo'";
};

const ULTRAVOX_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'ultravox'";
};

const ULTRAVOX_STACK: &[Key] = keys! {
    "clip.audio.projector.stack_factor" U32 = "stack_factor";
};

const MERALION_FIELDS: &[Key] = keys! {
    let audio_config = "speech_config";
};

const MERALION_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'meralion'";
};

const MERALION_STACK: &[Key] = keys! {
    "clip.audio.projector.stack_factor" U32 = "speech_mlp_scale_factor|15";
};

const GLM_ASR_FIELDS: &[Key] = keys! {
    let audio_config = "whisper_config|audio_config";
    let text_config = "lm_config|text_config";
};

const GLM_ASR_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'glma'";
};

const GLM_ASR_STACK: &[Key] = keys! {
    "clip.audio.projector.stack_factor" U32 = "merge_factor";
};

pub(super) const CONVOLUTIONS: &[Row] = rows! {
    "a.conv1d.1.weight"      []     Required Always <- "conv1";
    "a.conv1d.1.bias"        []     Required Always <- "conv1.bias" : "e -> e 1";
    "a.conv1d.2.weight"      []     Required Always <- "conv2";
    "a.conv1d.2.bias"        []     Required Always <- "conv2.bias" : "e -> e 1";
};

const OUTSIDE: &[Row] = rows! {
    "a.position_embd.weight" []     Required Always <- "embed_positions";
    "a.post_ln.weight"       [Embd] Required Always + Required <- "layer_norm";
};

const LINEAR: &[Row] = rows! {
    "mm.a.fc.weight" [] Required Always + Required <- "multi_modal_projector.linear";
};

// The first two rows embed the start and the end of a recording.
const GLM_ASR_OUTSIDE: &[Row] = rows! {
    "a.position_embd.weight" []     Optional Always <- "embed_positions";
    "a.post_ln.weight"       [Embd] Optional Always + Optional <- "layer_norm";
    "mm.a.norm_pre.weight"   []     Required Always + Required <- "adapting.norm";
    "mm.a.mlp.1.weight"      []     Required Always + Required <- "adapting.0";
    "mm.a.mlp.2.weight"      []     Required Always + Required <- "adapting.2";
    "v.boi"                  []     Required Always <- "audio_bos_eos_token" : "r[0] e -> e";
    "v.eoi"                  []     Required Always <- "audio_bos_eos_token" : "r[1] e -> e";
};

// Ultravox 0.4 and earlier have the second norm after both layers; llama.cpp supports only the other form.
const PROJECTOR_NORMS: &[Row] = rows! {
    "mm.a.norm_pre.weight" [] Required Always <- "multi_modal_projector.ln_pre";
    "mm.a.norm_mid.weight" [] Required Always <- "multi_modal_projector.ln_mid";
};

const MERALION_PROJECTOR: &[Row] = rows! {
    "mm.a.norm_pre.weight" [Embd] Required Always + Required <- "ln_speech";
    "mm.a.mlp.0.weight"    []     Required Always + Required <- "speech_audio_adapter.mlp_adapter.0";
    "mm.a.mlp.1.weight"    []     Required Always + Required <- "speech_audio_adapter.gate_proj";
    "mm.a.mlp.2.weight"    []     Required Always + Required <- "speech_audio_adapter.pool_proj";
    "mm.a.mlp.3.weight"    []     Required Always + Required <- "speech_audio_adapter.out_proj";
};

const TWO_LINEAR: &[Row] = rows! {
    "mm.a.mlp.1.weight" [] Required Always + Optional <- "multi_modal_projector.linear_1";
    "mm.a.mlp.2.weight" [] Required Always + Optional <- "multi_modal_projector.linear_2";
};

pub(super) const BLOCK: &[Row] = rows! {
    "a.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always + Required <- "fc1";
    "a.blk.{}.ffn_down.weight" [Ff Embd]   Required Always + Required <- "fc2";
    "a.blk.{}.ln2.weight"      [Embd]      Required Always + Required <- "final_layer_norm";
    "a.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Optional <- "self_attn.k_proj";
    "a.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "self_attn.out_proj";
    "a.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Required <- "self_attn.q_proj";
    "a.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Required <- "self_attn.v_proj";
    "a.blk.{}.ln1.weight"      [Embd]      Required Always + Required <- "self_attn_layer_norm";
};
