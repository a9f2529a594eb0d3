//! Image and audio encoders with their projectors, which map the output to the language model's embeddings. Each is a
//! file of the architecture `clip`; the key for the projector type selects the table.
//!
//! Rules: the subclasses of `MmprojModel` in `conversion/` of llama.cpp, `clip_model_loader` in `tools/mtmd/clip.cpp`.

/// Common imports of the files in this folder.
mod prelude {
    pub(super) use super::super::prelude::*;
    pub(super) use super::{GATED_BLOCK, HEAD, PIXELS, TOWER, VISION};
}

use super::prelude::*;

super::architectures! {
    mod cogvlm; use COGVLM;
    mod deepseek; use DEEPSEEK4V, DEEPSEEKOCR, DEEPSEEKOCR2;
    mod dots; use DOTS_OCR;
    mod gemma; use GEMMA3N, GEMMA4, GEMMA4_IMAGES, GEMMA4_UNIFIED;
    mod granite; use GRANITE4_VISION, GRANITE_SPEECH;
    mod hunyuan; use HUNYUANVL;
    mod internvl; use INTERNVL;
    mod kimi; use KIMIK25, KIMIVL;
    mod lfm2_audio; use LFM2A;
    mod llama4; use LLAMA4;
    mod minimax; use MINIMAXM3;
    mod muse; use MUSE_GLIMMER;
    mod omni; use QWEN25_OMNI, QWEN3_ASR, QWEN3_OMNI;
    mod pixtral; use LIGHTONOCR, PIXTRAL;
    mod qwen; use EXAONE45, GLM4V, GLM5V, LING3VL, QWEN25VL, QWEN2VL, QWEN3VL;
    mod radio; use NEMOTRON_NANO;
    mod siglip; use GEMMA3, IDEFICS3, JANUS, LFM2VL, MINICPMV, PADDLEOCR, PHI4, YOUTUVL;
    mod step; use STEP3VL;
    mod whisper; use AUDIO_FLAMINGO, GLM_ASR, MERALION, QWEN2AUDIO, ULTRAVOX, VOXTRAL;
}

/// All image and audio encoders.
pub static TOWERS: &[Architecture] = TABLES;

/// Defaults of all towers.
const TOWER: Checkpoint = Checkpoint {
    name: "clip",
    sizes: "clip.vision",
    tokenizer: &Tokenizer { vocab: Vocab::BPE, ..Tokenizer::BPE },
    ..Checkpoint::TEXT
};

/// Keys of all towers.
const HEAD: &[Key] = keys! {
    let projection_dim = "text_config.hidden_size|hidden_size|text_config.n_embd|n_embd";
    "general.file_type" U32 = "@file_type";
};

/// Keys of an image encoder (`MmprojModel.set_gguf_parameters`).
const VISION: &[Key] = keys! {
    let block_count = "vision_config.n_layers|vision_config.num_hidden_layers|vision_config.n_layer|vision_config.num_layers|\
                       vision_config.depth|vision_config.layers|vision_config.encoder_layers|vision_config.vt_num_hidden_layers";
    "clip.has_vision_encoder" Bool = "true";
    "clip.vision.projection_dim" U32 = "projection_dim";
    "clip.vision.image_size" U32 = "vision_config.image_size";
    "clip.vision.patch_size" U32 = "vision_config.patch_size";
    "clip.vision.embedding_length" U32 = "vision_config.hidden_size|vision_config.width|vision_config.vt_hidden_size";
    "clip.vision.feed_forward_length" U32 = "vision_config.intermediate_size|vision_config.vt_intermediate_size";
    "clip.vision.block_count" U32 = "block_count";
    "clip.vision.attention.head_count" U32 = "vision_config.num_attention_heads|vision_config.num_heads|vision_config.heads|\
                                              vision_config.vt_num_attention_heads";
    "clip.vision.image_mean" F32 = "@preprocessor.image_mean";
    "clip.vision.image_std" F32 = "@preprocessor.image_std";
};

/// The minimum and maximum image size, from the preprocessor.
const PIXELS: &[Key] = keys! {
    "clip.vision.image_min_pixels" U32 = "int(@preprocessor.min_pixels)";
    "clip.vision.image_max_pixels" U32 = "int(@preprocessor.max_pixels)";
};

/// Blocks with fused queries, keys and values, and a gated feed-forward part without a key for its width.
const GATED_BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_out.weight"    [Embd Embd] Required Always + Optional <- "attn.proj";
    "v.blk.{}.attn_qkv.weight"    []          Required Always + Optional <- "attn.qkv";
    "v.blk.{}.attn_q_norm.weight" []          Optional Always <- "attn.q_norm";
    "v.blk.{}.attn_k_norm.weight" []          Optional Always <- "attn.k_norm";
    "v.blk.{}.ffn_down.weight"    []          Required Always + Optional <- "mlp.down_proj | mlp.fc2";
    "v.blk.{}.ffn_gate.weight"    []          Required Always + Optional <- "mlp.gate_proj | mlp.fc1";
    "v.blk.{}.ffn_up.weight"      []          Required Always + Optional <- "mlp.up_proj | mlp.fc3";
    "v.blk.{}.ln1.weight"         [Embd]      Required Always <- "norm1";
    "v.blk.{}.ln2.weight"         [Embd]      Required Always <- "norm2";
};
