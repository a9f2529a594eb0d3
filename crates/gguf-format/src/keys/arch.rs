//! Names of architectures, and the keys required by the specification, by tokenizers and by types of files.
//!
//! The names are those of `LLM_ARCH_NAMES` in llama.cpp's `llama-arch.cpp`.

use super::{KeyInfo, info};
use super::{clip::*, general::*, model::*, tokenizer::*};

// Long lists, as words between braces.
macro_rules! list {
    ($($word:expr)*) => { &[$($word),*] };
}
pub(super) use list;
macro_rules! keyed {
    ($($name:tt => $($key:ident)*;)*) => { &[$(($name, list! { $($key)* })),*] };
}

/// The names of the architectures in llama.cpp, sorted. `clip` is that of multimodal projectors.
pub const ARCHITECTURES: &[&str] = list! {
    "afmoe" "apertus" "arcee" "arctic" "arwkv7" "baichuan" "bailingmoe" "bailingmoe2" "bailingmoe3" "bert" "bitnet"
    "bloom" "chameleon" "chatglm" "clip" "codeshell" "cogvlm" "cohere2" "cohere2moe" "command-r" "dbrx" "deci"
    "deepseek" "deepseek2" "deepseek2-ocr" "deepseek32" "deepseek4" "dflash" "dots1" "dots3note" "dream" "eagle3"
    "ernie4_5" "ernie4_5-moe" "eurobert" "exaone" "exaone-moe" "exaone4" "falcon" "falcon-h1" "gemma"
    "gemma-embedding" "gemma2" "gemma3" "gemma3n" "gemma4" "gemma4-assistant" "glm-dsa" "glm4" "glm4moe" "glm5-next"
    "gpt-oss" "gpt2" "gptj" "gptneox" "granite" "granite_swa" "granitehybrid" "granitemoe" "graniteswitch" "grok"
    "grovemoe" "hrm_text" "hunyuan-dense" "hunyuan-moe" "hunyuan_vl" "hy_v3" "hy_v4" "internlm2" "jais" "jais2"
    "jamba" "jina-bert-v2" "jina-bert-v3" "kimi-k3" "kimi-linear" "laguna" "lfm2" "lfm2moe" "llada" "llada-moe"
    "llama" "llama-embed" "llama4" "maincoder" "mamba" "mamba2" "maple" "mellum" "mimo2" "minicpm" "minicpm3"
    "minimax-01" "minimax-m2" "minimax-m3" "mistral3" "mistral4" "modern-bert" "mpt" "muse-glimmer" "nanbeige"
    "nemotron" "nemotron_h" "nemotron_h_moe" "neo-bert" "nomic-bert" "nomic-bert-moe" "olmo" "olmo2" "olmoe" "openelm"
    "orion" "paddleocr" "pangu-embedded" "phi2" "phi3" "phimoe" "plamo" "plamo2" "plamo3" "plm" "pockettts" "qwen"
    "qwen2" "qwen2moe" "qwen2vl" "qwen3" "qwen35" "qwen35moe" "qwen3moe" "qwen3next" "qwen3tts" "qwen3vl" "qwen3vlmoe"
    "qwen4exp" "refact" "rnd1" "rwkv6" "rwkv6qwen2" "rwkv7" "seed_oss" "smallthinker" "smollm3" "spark2_5" "stablelm"
    "starcoder" "starcoder2" "step35" "t5" "t5encoder" "talkie" "wavtokenizer-dec" "xverse"
};

/// Architectures of image and video models, which llama.cpp does not support: those that ComfyUI-GGUF writes (`tools/convert.py`) and loads
/// (`IMG_ARCH_LIST` in `loader.py`), sorted. Their tensors keep the names of the checkpoint.
pub const IMAGE_ARCHITECTURES: &[&str] = list! {
    "aura" "cosmos" "flux" "hidream" "hyvid" "ltxv" "lumina2" "qwen_image" "sd1" "sd3" "sdxl" "wan"
};

/// Whether the name is that of an image or video model.
pub fn is_image_architecture(name: &str) -> bool {
    IMAGE_ARCHITECTURES.binary_search(&name).is_ok()
}

/// Architectures described by the specification but unknown to llama.cpp.
pub const SPEC_ARCHITECTURES: &[&str] = &["rwkv", "whisper"];

/// Whether the name is that of a known architecture.
pub fn is_architecture(name: &str) -> bool {
    ARCHITECTURES.binary_search(&name).is_ok() || SPEC_ARCHITECTURES.contains(&name)
}

/// The keys that the specification's section on the architecture requires; empty if there is no such section. Files of other writers often
/// lack some of them.
pub fn required_by_spec(arch: &str) -> impl Iterator<Item = &'static KeyInfo> {
    let rows = SPEC_REQUIRED.iter().filter(move |(name, _)| *name == arch);
    rows.flat_map(|(_, keys)| keys.iter()).filter_map(|key| info(key))
}

/// The keys required by a vocabulary, by `tokenizer.ggml.model`: `llama_vocab::impl::load` of `llama-vocab.cpp` fails without them. A
/// `gpt2` vocabulary whose `tokenizer.ggml.pre` is `kimi-k2` may lack the merges.
pub fn required_by_tokenizer(model: &str) -> &'static [&'static str] {
    match model {
        "none" | "no_vocab" => &[],
        "gpt2" | "gemma4" | "hybriddna" | "whitespace" => &[TOKENIZER_GGML_TOKENS, TOKENIZER_GGML_MERGES],
        _ => &[TOKENIZER_GGML_TOKENS],
    }
}

/// The keys required besides those of the architecture, by `general.type`: those read by `llama_adapter_lora_init_impl` and by the
/// importance matrix reader of `llama-quantize`. An adapter without [`ADAPTER_LORA_ALPHA`] is not scaled.
pub fn required_by_type(general_type: &str) -> &'static [&'static str] {
    match general_type {
        "adapter" => &[GENERAL_ARCHITECTURE, ADAPTER_TYPE],
        "imatrix" => &[IMATRIX_DATASETS, IMATRIX_CHUNK_COUNT, IMATRIX_CHUNK_SIZE],
        _ => &[GENERAL_ARCHITECTURE],
    }
}

/// The keys required by a multimodal projector, for each of its true flags (`clip_model_loader` of `clip.cpp`).
pub const REQUIRED_BY_ENCODER: &[(&str, &[&str])] = keyed! {
    CLIP_HAS_VISION_ENCODER
        => CLIP_VISION_EMBEDDING_LENGTH CLIP_VISION_ATTENTION_HEAD_COUNT CLIP_VISION_FEED_FORWARD_LENGTH
        CLIP_VISION_BLOCK_COUNT CLIP_VISION_PROJECTION_DIM CLIP_VISION_ATTENTION_LAYER_NORM_EPSILON
        CLIP_VISION_IMAGE_SIZE CLIP_VISION_PATCH_SIZE;
    CLIP_HAS_AUDIO_ENCODER
        => CLIP_AUDIO_EMBEDDING_LENGTH CLIP_AUDIO_ATTENTION_HEAD_COUNT CLIP_AUDIO_FEED_FORWARD_LENGTH
        CLIP_AUDIO_BLOCK_COUNT CLIP_AUDIO_PROJECTION_DIM CLIP_AUDIO_ATTENTION_LAYER_NORM_EPSILON
        CLIP_AUDIO_NUM_MEL_BINS;
    CLIP_HAS_GEN_AUDIO_ENCODER
        => CLIP_GEN_AUDIO_EMBEDDING_LENGTH CLIP_GEN_AUDIO_ATTENTION_HEAD_COUNT CLIP_GEN_AUDIO_FEED_FORWARD_LENGTH
        CLIP_GEN_AUDIO_BLOCK_COUNT CLIP_GEN_AUDIO_PROJECTION_DIM CLIP_GEN_AUDIO_ATTENTION_LAYER_NORM_EPSILON;
};

/// The specification's sections on models, in order. Its names for ALiBi and the clamp under MPT are those of the same keys under
/// Attention.
const SPEC_REQUIRED: &[(&str, &[&str])] = keyed! {
    "llama"
        => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT FEED_FORWARD_LENGTH ROPE_DIMENSION_COUNT ATTENTION_HEAD_COUNT
        ATTENTION_LAYER_NORM_RMS_EPSILON;
    "mpt"
        => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT ATTENTION_HEAD_COUNT ATTENTION_MAX_ALIBI_BIAS
        ATTENTION_CLAMP_KQV ATTENTION_LAYER_NORM_EPSILON;
    "gptneox"
        => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT USE_PARALLEL_RESIDUAL ROPE_DIMENSION_COUNT ATTENTION_HEAD_COUNT
        ATTENTION_LAYER_NORM_EPSILON;
    "gptj"
        => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT ROPE_DIMENSION_COUNT ATTENTION_HEAD_COUNT
        ATTENTION_LAYER_NORM_EPSILON;
    "gpt2" => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT ATTENTION_HEAD_COUNT ATTENTION_LAYER_NORM_EPSILON;
    "bloom"
        => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT FEED_FORWARD_LENGTH ATTENTION_HEAD_COUNT
        ATTENTION_LAYER_NORM_EPSILON;
    "falcon"
        => CONTEXT_LENGTH EMBEDDING_LENGTH BLOCK_COUNT ATTENTION_HEAD_COUNT ATTENTION_HEAD_COUNT_KV ATTENTION_USE_NORM
        ATTENTION_LAYER_NORM_EPSILON;
    "rwkv" => ARCHITECTURE_VERSION CONTEXT_LENGTH BLOCK_COUNT EMBEDDING_LENGTH FEED_FORWARD_LENGTH;
    "whisper"
        => WHISPER_ENCODER_CONTEXT_LENGTH WHISPER_ENCODER_EMBEDDING_LENGTH WHISPER_ENCODER_BLOCK_COUNT
        WHISPER_ENCODER_MELS_COUNT WHISPER_ENCODER_ATTENTION_HEAD_COUNT WHISPER_DECODER_CONTEXT_LENGTH
        WHISPER_DECODER_EMBEDDING_LENGTH WHISPER_DECODER_BLOCK_COUNT WHISPER_DECODER_ATTENTION_HEAD_COUNT;
};
