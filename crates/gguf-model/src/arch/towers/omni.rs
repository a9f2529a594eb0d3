//! Qwen2.5-Omni, Qwen3-Omni and Qwen3-ASR: Qwen's image encoder and an audio encoder in one file, or the audio encoder
//! alone. The positions of sound are computed.
//!
//! The reference converts Qwen3-Omni only if the names of its image tensors lack the prefix `thinker.`, which published
//! checkpoints have; here, both names are valid.

use super::prelude::*;
use super::qwen::*;
use super::whisper;

pub(super) const QWEN25_OMNI: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, QWEN2VL_PROJECTOR, whisper::CONVOLUTIONS, LAST_NORM, LINEAR],
    block: &[ATTENTION, QWEN25VL_BLOCK, whisper::BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Qwen2_5OmniModel"],
        when: "model_type == 'qwen2_5_omni'",
        names: &TensorNames {
            takes: TAKES,
            roots: ROOTS,
            layers: &["blocks.{}.", "layers.{}."],
            skip: &[("audio_bos_eos_token*", "")],
            ..*TOWER.names
        },
        refuse: &[(
            "thinker_config.vision_config.fullatt_block_indexes and not all([
                thinker_config.vision_config.fullatt_block_indexes[i + 1] - thinker_config.vision_config.fullatt_block_indexes[i]
                    == thinker_config.vision_config.fullatt_block_indexes[0] + 1
                for i in range(len(thinker_config.vision_config.fullatt_block_indexes) - 1)])",
            OTHER_DISTANCES,
        )],
        keys: &[PARTS, SIZES, HEAD, VISION, SOUND_SIZES, whisper::AUDIO, whisper::SOUND, QWEN25_TYPE, QWEN25VL_KEYS],
        computed: POSITIONS,
        types: &StoredTypes { half: &["a.conv1d.*.weight"], ..*TOWER.types },
        ..TOWER
    }],
};

pub(super) const QWEN3_OMNI: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[FRAMES, QWEN3VL_PROJECTOR, CONVOLUTIONS, LAST_NORM, TWO_LINEAR],
    block: &[QWEN3VL_BLOCK, whisper::BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3OmniMoeForConditionalGeneration"],
        names: &TensorNames {
            takes: TAKES,
            rename: &[
                (".merger_list.", ".deepstack_merger_list."),
                (".ln_q.", ".norm."),
                (".mlp.0.", ".linear_fc1."),
                (".mlp.2.", ".linear_fc2."),
            ],
            roots: ROOTS,
            layers: &["blocks.{}.", "deepstack_merger_list.{}.", "layers.{}."],
            renumbered: &[("deepstack_merger_list.", "vision_config.deepstack_visual_indexes")],
            ..*TOWER.names
        },
        keys: &[
            PARTS,
            QWEN3VL_SIZES,
            SIZES,
            HEAD,
            VISION,
            DEEPSTACK,
            SOUND_SIZES,
            whisper::AUDIO,
            whisper::SOUND,
            QWEN3VL_KEYS,
            DEEPSTACK_BLOCKS,
            QWEN3_IMAGE_TYPE,
            QWEN3_SOUND_TYPE,
        ],
        computed: POSITIONS,
        types: &StoredTypes { half: QWEN3_HALF, ..*TOWER.types },
        ..TOWER
    }],
};

pub(super) const QWEN3_ASR: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[CONVOLUTIONS, LAST_NORM, TWO_LINEAR],
    block: &[whisper::BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3ASRForConditionalGeneration"],
        names: &TensorNames {
            takes: &["thinker.audio_tower.*", "audio_tower.*"],
            roots: ROOTS,
            ..*whisper::CHECKPOINT.names
        },
        keys: &[PARTS, HEAD, SOUND_SIZES, whisper::AUDIO, whisper::SOUND, QWEN3_SOUND_TYPE],
        computed: POSITIONS,
        types: &StoredTypes { half: QWEN3_HALF, ..*whisper::CHECKPOINT.types },
        ..whisper::CHECKPOINT
    }],
};

const TAKES: &[&str] = &["thinker.visual.*", "model.visual.*", "visual.*", "thinker.audio_tower.*", "audio_tower.*"];

const ROOTS: &[&str] = &["thinker.visual.", "model.visual.", "visual.", "thinker.audio_tower.", "audio_tower."];

const POSITIONS: &[Computed] = &[Computed::Sinusoids("a.position_embd.weight", "audio_config.d_model")];

const QWEN3_HALF: &[&str] = &["a.conv2d.*.weight", "a.conv_out.weight"];

const PARTS: &[Key] = keys! {
    let vision_config = "thinker_config.vision_config";
    let audio_config = "required(thinker_config.audio_config)";
};

const SOUND_SIZES: &[Key] = keys! {
    let audio_config = "with(with(audio_config, 'hidden_size', audio_config.d_model), 'intermediate_size', audio_config.encoder_ffn_dim)";
    let audio_config = "with(audio_config, 'num_attention_heads', audio_config.encoder_attention_heads)";
};

const QWEN25_TYPE: &[Key] = keys! {
    "clip.projector_type" Str = "'qwen2.5o'";
};

const QWEN3_IMAGE_TYPE: &[Key] = keys! {
    "clip.vision.projector_type" Str = "'qwen3vl_merger'";
};

const QWEN3_SOUND_TYPE: &[Key] = keys! {
    "clip.audio.projector_type" Str = "'qwen3a'";
};

const ATTENTION: &[Row] = rows! {
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always + Required <- "attn.proj";
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always + Required <- "attn.q";
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always + Required <- "attn.k";
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always + Required <- "attn.v";
};

const CONVOLUTIONS: &[Row] = rows! {
    "a.conv2d.1.weight" [] Required Always <- "conv2d1";
    "a.conv2d.1.bias"   [] Required Always <- "conv2d1.bias" : "e -> e 1 1";
    "a.conv2d.2.weight" [] Required Always <- "conv2d2";
    "a.conv2d.2.bias"   [] Required Always <- "conv2d2.bias" : "e -> e 1 1";
    "a.conv2d.3.weight" [] Required Always <- "conv2d3";
    "a.conv2d.3.bias"   [] Required Always <- "conv2d3.bias" : "e -> e 1 1";
    "a.conv_out.weight" [] Required Always + Optional <- "conv_out";
};

const LAST_NORM: &[Row] = rows! {
    "a.post_ln.weight" [Embd] Required Always + Required <- "ln_post";
};

const LINEAR: &[Row] = rows! {
    "mm.a.fc.weight" [] Required Always + Required <- "proj";
};

const TWO_LINEAR: &[Row] = rows! {
    "mm.a.mlp.1.weight" [] Required Always + Required <- "proj1";
    "mm.a.mlp.2.weight" [] Required Always + Required <- "proj2";
};
