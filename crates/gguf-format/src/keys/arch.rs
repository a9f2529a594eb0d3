//! Architectures, and the keys that each of them needs.
//!
//! The names are those of `LLM_ARCH_NAMES` in llama.cpp's `llama-arch.cpp`. A key is required where llama.cpp refuses to
//! load a model without it: `llama_model_base::load_hparams` and the `load_arch_hparams` of each file in `src/models`
//! ask for it unconditionally, or `load_arch_tensors` computes the shape of a tensor from it in every case. Keys that are
//! needed only with certain sizes or types of layers are not listed.

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
macro_rules! rows {
    ($($($arch:literal)* => $($key:ident)*;)*) => { &[$((list! { $($arch)* }, list! { $($key)* })),*] };
}

/// The architectures that llama.cpp knows by name, sorted. `clip` is that of multimodal projectors.
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

/// Architectures that the specification describes and llama.cpp does not know.
pub const SPEC_ARCHITECTURES: &[&str] = &["rwkv", "whisper"];

/// Whether the name is that of a known architecture.
pub fn is_architecture(name: &str) -> bool {
    ARCHITECTURES.binary_search(&name).is_ok() || SPEC_ARCHITECTURES.contains(&name)
}

/// The keys without which llama.cpp does not load a model of this architecture, `general` and `tokenizer` keys apart;
/// nothing for architectures that it does not load (`gptj`, `clip` and unknown ones).
pub fn required(arch: &str) -> impl Iterator<Item = &'static KeyInfo> {
    let loads = ARCHITECTURES.binary_search(&arch).is_ok() && !NOT_LOADED.contains(&arch);
    let shared: &[&str] = match loads {
        false => &[],
        true if WITHOUT_HEADS.contains(&arch) => &[CONTEXT_LENGTH, EMBEDDING_LENGTH, BLOCK_COUNT],
        true => &[CONTEXT_LENGTH, EMBEDDING_LENGTH, BLOCK_COUNT, ATTENTION_HEAD_COUNT],
    };
    let own = REQUIRED.iter().filter(move |(archs, _)| archs.contains(&arch)).flat_map(|(_, keys)| keys.iter());
    shared.iter().chain(own).filter_map(|key| info(key))
}

/// The keys that the specification's section on the architecture lists as present in every model; nothing where it has
/// no such section. Files of other writers than the specification's authors often lack some of them.
pub fn required_by_spec(arch: &str) -> impl Iterator<Item = &'static KeyInfo> {
    let rows = SPEC_REQUIRED.iter().filter(move |(name, _)| *name == arch);
    rows.flat_map(|(_, keys)| keys.iter()).filter_map(|key| info(key))
}

/// The keys that a vocabulary needs, by `tokenizer.ggml.model`: `llama_vocab::impl::load` of `llama-vocab.cpp` gives up
/// without them. A `gpt2` vocabulary whose `tokenizer.ggml.pre` is `kimi-k2` may lack the merges.
pub fn required_by_tokenizer(model: &str) -> &'static [&'static str] {
    match model {
        "none" | "no_vocab" => &[],
        "gpt2" | "gemma4" | "hybriddna" | "whitespace" => &[TOKENIZER_GGML_TOKENS, TOKENIZER_GGML_MERGES],
        _ => &[TOKENIZER_GGML_TOKENS],
    }
}

/// The keys that a file needs besides those of its architecture, by `general.type`: what `llama_adapter_lora_init_impl`
/// and the importance matrix reader of `llama-quantize` ask for. An adapter without [`ADAPTER_LORA_ALPHA`] is not scaled.
pub fn required_by_type(general_type: &str) -> &'static [&'static str] {
    match general_type {
        "adapter" => &[GENERAL_ARCHITECTURE, ADAPTER_TYPE],
        "imatrix" => &[IMATRIX_DATASETS, IMATRIX_CHUNK_COUNT, IMATRIX_CHUNK_SIZE],
        _ => &[GENERAL_ARCHITECTURE],
    }
}

/// The keys that a multimodal projector needs, for each flag that is true in it (`clip_model_loader` of `clip.cpp`).
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

/// Names that llama.cpp knows without having a loader for models of that name.
const NOT_LOADED: &[&str] = &["clip", "gptj"];

/// Architectures that load without a number of attention heads: `llm_arch_is_recurrent`, and WavTokenizer.
const WITHOUT_HEADS: &[&str] = &["arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "wavtokenizer-dec"];

/// Architectures and what all of them need. First what many share: the epsilon of their norms, and the hidden width of
/// the feed-forward network.
const REQUIRED: &[(&[&str], &[&str])] = rows! {
    "afmoe" "apertus" "arcee" "arctic" "baichuan" "bailingmoe" "bailingmoe2" "bailingmoe3" "bitnet" "chameleon"
    "chatglm" "cogvlm" "deci" "deepseek" "deepseek2" "deepseek2-ocr" "deepseek32" "deepseek4" "dflash" "dots1"
    "dots3note" "dream" "eagle3" "ernie4_5" "ernie4_5-moe" "eurobert" "exaone" "exaone-moe" "exaone4" "falcon-h1"
    "gemma" "gemma-embedding" "gemma2" "gemma3" "gemma3n" "gemma4" "gemma4-assistant" "glm-dsa" "glm4" "glm4moe"
    "glm5-next" "gpt-oss" "granite" "granite_swa" "granitehybrid" "granitemoe" "graniteswitch" "grok" "grovemoe"
    "hrm_text" "hunyuan-dense" "hunyuan-moe" "hunyuan_vl" "hy_v3" "hy_v4" "internlm2" "jamba" "kimi-k3" "kimi-linear"
    "laguna" "lfm2" "lfm2moe" "llada" "llada-moe" "llama" "llama-embed" "llama4" "maincoder" "mamba" "mamba2" "maple"
    "mellum" "mimo2" "minicpm" "minicpm3" "minimax-01" "minimax-m2" "minimax-m3" "mistral3" "mistral4" "muse-glimmer"
    "nanbeige" "neo-bert" "olmo2" "olmoe" "openelm" "paddleocr" "pangu-embedded" "phi3" "phimoe" "plamo" "plamo2"
    "plamo3" "plm" "qwen" "qwen2" "qwen2moe" "qwen3" "qwen35" "qwen35moe" "qwen3moe" "qwen3next" "qwen3tts" "qwen3vl"
    "qwen3vlmoe" "qwen4exp" "refact" "rnd1" "seed_oss" "smallthinker" "smollm3" "spark2_5" "step35" "t5" "t5encoder"
    "talkie" "xverse"
        => ATTENTION_LAYER_NORM_RMS_EPSILON;
    "bert" "bloom" "codeshell" "cohere2" "command-r" "dbrx" "falcon" "gpt2" "gptneox" "jais" "jais2" "jina-bert-v2"
    "jina-bert-v3" "modern-bert" "mpt" "nemotron" "nemotron_h" "nemotron_h_moe" "nomic-bert" "nomic-bert-moe" "olmo"
    "orion" "phi2" "pockettts" "stablelm" "starcoder" "starcoder2" "wavtokenizer-dec"
        => ATTENTION_LAYER_NORM_EPSILON;
    "apertus" "arcee" "arctic" "arwkv7" "baichuan" "bert" "bitnet" "bloom" "chameleon" "chatglm" "codeshell" "cogvlm"
    "cohere2" "command-r" "dbrx" "dflash" "dream" "eagle3" "eurobert" "exaone" "falcon" "gemma" "gemma-embedding"
    "gemma2" "gemma3" "gemma3n" "gemma4-assistant" "gpt2" "gptneox" "graniteswitch" "hrm_text" "hunyuan-dense"
    "hunyuan-moe" "hunyuan_vl" "internlm2" "jais" "jais2" "jina-bert-v2" "jina-bert-v3" "llada" "llama" "llama-embed"
    "maincoder" "minicpm3" "minimax-01" "minimax-m2" "modern-bert" "mpt" "muse-glimmer" "nanbeige" "nemotron"
    "neo-bert" "nomic-bert" "olmo" "olmo2" "olmoe" "openelm" "orion" "pangu-embedded" "phi2" "phi3" "phimoe" "plamo"
    "plamo2" "plm" "pockettts" "qwen" "qwen2" "qwen2vl" "qwen3" "qwen3tts" "qwen3vl" "rwkv6qwen2" "seed_oss" "smollm3"
    "spark2_5" "stablelm" "starcoder" "starcoder2" "t5" "t5encoder" "talkie" "wavtokenizer-dec" "xverse"
        => FEED_FORWARD_LENGTH;
    "afmoe" "bailingmoe" "deepseek" "deepseek2-ocr" "dots1" "glm4moe"
        => EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT;
    "apertus" => XIELU_ALPHA_N XIELU_ALPHA_P XIELU_BETA XIELU_EPS;
    "arwkv7" "rwkv7"
        => WKV_HEAD_SIZE ATTENTION_DECAY_LORA_RANK ATTENTION_ICLR_LORA_RANK ATTENTION_VALUE_RESIDUAL_MIX_LORA_RANK;
    "bailingmoe2" => EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT EXPERT_GATING_FUNC;
    "bailingmoe3"
        => ATTENTION_KEY_LENGTH_MLA ATTENTION_VALUE_LENGTH_MLA ATTENTION_KV_LORA_RANK SSM_CONV_KERNEL KDA_HEAD_DIM
        KDA_GATE_LOWER_BOUND EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT LEADING_DENSE_BLOCK_COUNT
        EXPERT_GATING_FUNC;
    "cohere2" "muse-glimmer" => ATTENTION_SLIDING_WINDOW LOGIT_SCALE;
    "cohere2moe" => ATTENTION_SLIDING_WINDOW LOGIT_SCALE LEADING_DENSE_BLOCK_COUNT EXPERT_FEED_FORWARD_LENGTH;
    "dbrx" => ATTENTION_CLAMP_KQV;
    "deepseek2" "mistral4" => ATTENTION_KV_LORA_RANK EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT;
    "deepseek32"
        => EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT ATTENTION_Q_LORA_RANK ATTENTION_KV_LORA_RANK
        ATTENTION_INDEXER_HEAD_COUNT ATTENTION_INDEXER_KEY_LENGTH ATTENTION_INDEXER_TOP_K EXPERT_GATING_FUNC;
    "deepseek4"
        => ATTENTION_Q_LORA_RANK ATTENTION_SLIDING_WINDOW EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT
        EXPERT_WEIGHTS_SCALE EXPERT_WEIGHTS_NORM SWIGLU_CLAMP_EXP ATTENTION_INDEXER_HEAD_COUNT
        ATTENTION_INDEXER_KEY_LENGTH ATTENTION_INDEXER_TOP_K ATTENTION_OUTPUT_GROUP_COUNT ATTENTION_OUTPUT_LORA_RANK
        ATTENTION_COMPRESS_ROPE_FREQ_BASE HYPER_CONNECTION_COUNT HYPER_CONNECTION_SINKHORN_ITERATIONS
        HYPER_CONNECTION_EPSILON HASH_LAYER_COUNT ATTENTION_COMPRESS_RATIOS EXPERT_GATING_FUNC;
    "dflash" => TARGET_LAYERS;
    "dots3note"
        => EXPERT_SHARED_COUNT EXPERT_FEED_FORWARD_LENGTH LEADING_DENSE_BLOCK_COUNT EXPERT_GATING_FUNC
        ATTENTION_Q_LORA_RANK ATTENTION_KV_LORA_RANK ATTENTION_KEY_LENGTH_MLA ATTENTION_VALUE_LENGTH_MLA
        ATTENTION_KV_LORA_RANK_SWA ATTENTION_KEY_LENGTH_MLA_SWA ATTENTION_VALUE_LENGTH_MLA_SWA
        ATTENTION_SLIDING_WINDOW ROPE_FREQ_BASE_SWA ATTENTION_SLIDING_WINDOW_PATTERN ATTENTION_INDEXER_HEAD_COUNT
        ATTENTION_INDEXER_KEY_LENGTH ATTENTION_INDEXER_TOP_K ATTENTION_INDEXER_TYPES;
    "eagle3" => TARGET_HIDDEN_SIZE TARGET_LAYERS;
    "ernie4_5-moe" "llama4" => EXPERT_FEED_FORWARD_LENGTH INTERLEAVE_MOE_LAYER_STEP;
    "exaone-moe" => ATTENTION_SLIDING_WINDOW EXPERT_FEED_FORWARD_LENGTH EXPERT_GATING_FUNC;
    "falcon-h1" "granitehybrid" "mamba2" "nemotron_h" "nemotron_h_moe" "plamo2" "qwen3next"
        => SSM_CONV_KERNEL SSM_INNER_SIZE SSM_STATE_SIZE SSM_TIME_STEP_RANK SSM_GROUP_COUNT;
    "gemma-embedding" "gemma3n" => ATTENTION_SLIDING_WINDOW;
    "gemma4"
        => ATTENTION_SLIDING_WINDOW_PATTERN ATTENTION_SLIDING_WINDOW EMBEDDING_LENGTH_PER_LAYER_INPUT
        ATTENTION_KEY_LENGTH_SWA ATTENTION_VALUE_LENGTH_SWA;
    "gemma4-assistant"
        => ATTENTION_SLIDING_WINDOW_PATTERN ATTENTION_SLIDING_WINDOW ATTENTION_KEY_LENGTH_SWA
        ATTENTION_VALUE_LENGTH_SWA;
    "glm-dsa"
        => EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT ATTENTION_Q_LORA_RANK ATTENTION_KV_LORA_RANK
        ATTENTION_INDEXER_HEAD_COUNT ATTENTION_INDEXER_KEY_LENGTH ATTENTION_INDEXER_TOP_K;
    "glm5-next"
        => ATTENTION_KEY_LENGTH_MLA ATTENTION_VALUE_LENGTH_MLA ATTENTION_Q_LORA_RANK ATTENTION_KV_LORA_RANK
        SSM_CONV_KERNEL KDA_HEAD_DIM EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT ATTENTION_INDEXER_HEAD_COUNT
        ATTENTION_INDEXER_KEY_LENGTH ATTENTION_INDEXER_TOP_K ATTENTION_INDEXER_KPOOL HYPER_CONNECTION_COUNT
        HYPER_CONNECTION_SINKHORN_ITERATIONS HYPER_CONNECTION_EPSILON;
    "gpt-oss" => EXPERT_FEED_FORWARD_LENGTH ATTENTION_SLIDING_WINDOW;
    "gptneox" => USE_PARALLEL_RESIDUAL;
    "granite" "granitemoe" "talkie" => LOGIT_SCALE;
    "granite_swa" => LOGIT_SCALE ATTENTION_SLIDING_WINDOW_PATTERN ATTENTION_SLIDING_WINDOW;
    "graniteswitch"
        => LOGIT_SCALE ADAPTERS_COUNT ADAPTERS_LORA_RANK ADAPTERS_TOKEN_IDS_ACTIVATE ADAPTERS_TOKEN_IDS_SUBSTITUTE;
    "grovemoe" => EXPERT_FEED_FORWARD_LENGTH EXPERT_GROUP_SCALE EXPERTS_PER_GROUP;
    "hrm_text" => HRM_LAYERS_PER_STACK HRM_H_CYCLES HRM_L_CYCLES;
    "hunyuan-moe" "hy_v3" "mellum" "minimax-m2" => EXPERT_FEED_FORWARD_LENGTH;
    "hy_v4"
        => ATTENTION_Q_LORA_RANK ATTENTION_KV_LORA_RANK ATTENTION_KEY_LENGTH_MLA ATTENTION_VALUE_LENGTH_MLA
        EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT HYPER_CONNECTION_COUNT HYPER_CONNECTION_EPSILON
        HYPER_CONNECTION_MAGNITUDE;
    "jamba" "mamba" => SSM_CONV_KERNEL SSM_INNER_SIZE SSM_STATE_SIZE SSM_TIME_STEP_RANK;
    "kimi-k3"
        => ATTENTION_KEY_LENGTH_MLA ATTENTION_VALUE_LENGTH_MLA ATTENTION_KV_LORA_RANK SSM_CONV_KERNEL KDA_HEAD_DIM
        EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT EXPERT_GATING_FUNC ATTN_RES_BLOCK_SIZE ACTIVATION_SITU_BETA
        ACTIVATION_SITU_LINEAR_BETA;
    "kimi-linear"
        => ATTENTION_KEY_LENGTH_MLA ATTENTION_VALUE_LENGTH_MLA ATTENTION_KV_LORA_RANK SSM_CONV_KERNEL KDA_HEAD_DIM
        EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT EXPERT_GATING_FUNC;
    "laguna" => LEADING_DENSE_BLOCK_COUNT EXPERT_FEED_FORWARD_LENGTH;
    "lfm2" => SHORTCONV_L_CACHE;
    "lfm2moe" => SHORTCONV_L_CACHE EXPERT_FEED_FORWARD_LENGTH EXPERT_GATING_FUNC;
    "maple" => ATTENTION_SLIDING_WINDOW EXPERT_FEED_FORWARD_LENGTH ATTENTION_SLIDING_WINDOW_PATTERN SWIGLU_CLAMP_EXP;
    "mimo2" "step35" => EXPERT_FEED_FORWARD_LENGTH ATTENTION_SLIDING_WINDOW ATTENTION_SLIDING_WINDOW_PATTERN;
    "minicpm3" => ATTENTION_Q_LORA_RANK ATTENTION_KV_LORA_RANK;
    "minimax-01" => RESIDUAL_SCALE;
    "minimax-m3"
        => EXPERT_FEED_FORWARD_LENGTH EXPERT_SHARED_COUNT EXPERT_GATING_FUNC ATTENTION_INDEXER_HEAD_COUNT
        ATTENTION_INDEXER_KEY_LENGTH ATTENTION_INDEXER_TOP_K ATTENTION_INDEXER_BLOCK_SIZE
        ATTENTION_INDEXER_LOCAL_BLOCKS;
    "plm" => ATTENTION_KV_LORA_RANK;
    "qwen2vl" "qwen3tts" "qwen3vl" "qwen3vlmoe" => ROPE_DIMENSION_SECTIONS;
    "qwen35" "qwen35moe"
        => ROPE_DIMENSION_SECTIONS SSM_CONV_KERNEL SSM_INNER_SIZE SSM_STATE_SIZE SSM_TIME_STEP_RANK SSM_GROUP_COUNT;
    "qwen4exp"
        => ROPE_DIMENSION_SECTIONS SSM_CONV_KERNEL SSM_INNER_SIZE SSM_STATE_SIZE SSM_TIME_STEP_RANK SSM_GROUP_COUNT
        HYPER_CONNECTION_COUNT HYPER_CONNECTION_LOW_RANK ATTENTION_INDEXER_HEAD_COUNT ATTENTION_INDEXER_KEY_LENGTH
        ATTENTION_INDEXER_TOP_K;
    "rwkv6" "rwkv6qwen2" => WKV_HEAD_SIZE TIME_MIX_EXTRA_DIM TIME_DECAY_EXTRA_DIM;
    "spark2_5" => ATTENTION_SLIDING_WINDOW ATTENTION_SLIDING_WINDOW_PATTERN;
    "t5" "t5encoder" => ATTENTION_RELATIVE_BUCKETS_COUNT;
    "wavtokenizer-dec"
        => ATTENTION_GROUP_NORM_EPSILON ATTENTION_GROUP_NORM_GROUPS FEATURES_LENGTH POSNET_EMBEDDING_LENGTH
        POSNET_BLOCK_COUNT CONVNEXT_EMBEDDING_LENGTH CONVNEXT_BLOCK_COUNT;
};

/// The sections on models of the specification, in its order. Its names for ALiBi and the clamp under MPT are those of
/// the same keys under Attention.
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
