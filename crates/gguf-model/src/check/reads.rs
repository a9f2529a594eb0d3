//! How llama.cpp reads the values of keys: it does not convert them, and it ignores keys that an architecture does not have.
//!
//! Rules: `get_key`, `get_key_or_arr` and `get_arr` in `llama-model-loader.cpp`, and their callers.

use gguf_format::ValueRef;
use gguf_format::ValueType as Type;
use gguf_format::keys::{self, KeyInfo};

use super::{FileRole, Model};
use crate::arch;
use crate::hparams::MAX_BLOCKS;

/// A key that llama.cpp reads.
pub(super) struct Read {
    pattern: &'static str,
    form: Form,
    when: If,
    /// The architectures; empty for all.
    archs: &'static [&'static str],
}

/// The form of a value.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A single value of this type.
    One(Type),
    /// A single value of this type, or an array with an element for each block.
    Each(Type),
    /// As `Each`, without the MTP blocks.
    EachMain(Type),
    /// The four sections of rotated elements: one number for all, or an array.
    Sections,
    /// The blocks with sliding windows: their interval, or an array of flags.
    Pattern,
    /// An array of elements of these types, with at most this length.
    Array(&'static [Type], u64),
    /// As `Array`; a single value is ignored.
    IfArray(&'static [Type], u64),
}

/// When a key is read.
#[derive(Debug, Clone, Copy)]
enum If {
    Always,
    /// In files with several shards.
    Shards,
    /// With a vocabulary.
    Tokens,
    /// Without a vocabulary.
    NoTokens,
    /// With a vocabulary of byte pairs.
    Merges,
    /// With a vocabulary of unigrams.
    Unigrams,
    /// With names of tensors that have extra settings.
    TensorExtra,
    /// With heads in the first block.
    Heads,
    /// Without a scaling factor of rotary positions under the current name.
    Unscaled,
    /// With a sliding window.
    Sliding,
    /// Unless the sliding window is 0.
    SlidingUnlessZero,
    /// In drafts with a sliding window and without hyper-connections.
    SlidingDraft,
    /// In models of 64 blocks.
    Blocks64,
    /// Without a list of recurrent blocks.
    NoRecurrentBlocks,
    /// With n-gram embeddings.
    Ngrams,
    /// With an indexer of sparse attention.
    Indexer,
    /// With hyper-connections.
    HyperConnections,
    /// Except in the small models of DeepSeek 2.
    NotLite,
}

/// What is wrong with a value.
pub(super) enum Misread {
    /// The type; with the expected one.
    Type(String),
    /// The number of elements; with the expected one.
    Length(String),
}

const ANY: u64 = u64::MAX;
const MAX: u64 = MAX_BLOCKS;
const BOOL: Type = Type::BOOL;
const U16: Type = Type::U16;
const U32: Type = Type::U32;
const I32: Type = Type::I32;
const F32: Type = Type::F32;
const STRING: Type = Type::STRING;
const COUNTS: &[Type] = &[U32, I32, BOOL];
const NUMBERS: &[Type] = &[I32, U32];
const WIDE: &[Type] = &[Type::U64];
const FLAGS: &[Type] = &[BOOL];
const TEXTS: &[Type] = &[STRING];
const SCORES: &[Type] = &[F32, I32];
const TOKEN_TYPES: &[Type] = &[I32];
const BYTES: &[Type] = &[Type::U8, Type::I8];

/// Rows of keys: the key, its form, when it is read, and the architectures that read it. A row without architectures is for those whose tables list
/// the key, or for all.
macro_rules! reads {
    ($($key:ident $form:ident $(($($arg:expr),*))? $when:ident: $($arch:literal)*;)*) => {
        &[$(Read { pattern: keys::$key, form: Form::$form $(($($arg),*))?, when: If::$when, archs: &[$($arch),*] }),*]
    };
}

#[rustfmt::skip]
const READS: &[Read] = reads! {
    // Files and shards: `llama_model_loader`.
    GENERAL_ARCHITECTURE One(STRING) Always: ;
    GENERAL_NAME One(STRING) Always: ;
    GENERAL_FILE_TYPE One(U32) Always: ;
    SPLIT_COUNT One(U16) Always: ;
    SPLIT_NO One(U16) Shards: ;
    SPLIT_TENSORS_COUNT One(I32) Shards: ;

    // Vocabularies: `llama_vocab::impl::load`.
    TOKENIZER_GGML_MODEL One(STRING) Always: ;
    TOKENIZER_GGML_PRE One(STRING) Always: ;
    TOKENIZER_GGML_TOKEN_TYPE_COUNT One(U32) Always: ;
    TOKENIZER_GGML_TOKENS Array(TEXTS, ANY) Tokens: ;
    TOKENIZER_GGML_SCORES Array(SCORES, ANY) Tokens: ;
    TOKENIZER_GGML_TOKEN_TYPE Array(TOKEN_TYPES, ANY) Tokens: ;
    TOKENIZER_GGML_MERGES Array(TEXTS, ANY) Merges: ;
    TOKENIZER_GGML_PRECOMPILED_CHARSMAP Array(BYTES, ANY) Unigrams: ;
    TOKENIZER_GGML_SUPPRESS_TOKENS Array(TOKEN_TYPES, ANY) Tokens: ;
    TOKENIZER_GGML_ADD_SPACE_PREFIX One(BOOL) Tokens: ;
    TOKENIZER_GGML_REMOVE_EXTRA_WHITESPACES One(BOOL) Tokens: ;
    TOKENIZER_GGML_ADD_BOS_TOKEN One(BOOL) Tokens: ;
    TOKENIZER_GGML_ADD_EOS_TOKEN One(BOOL) Tokens: ;
    TOKENIZER_GGML_ADD_SEP_TOKEN One(BOOL) Tokens: ;
    TOKENIZER_GGML_NORMALIZER_LOWERCASE One(BOOL) Tokens: ;
    TOKENIZER_GGML_NORMALIZER_STRIP_ACCENTS One(BOOL) Tokens: ;
    TOKENIZER_GGML_BOS_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_EOS_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_EOT_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_EOM_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_UNKNOWN_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_SEPERATOR_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_PADDING_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_MASK_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_FIM_PRE_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_FIM_SUF_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_FIM_MID_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_FIM_PAD_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_FIM_REP_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_FIM_SEP_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_PREFIX_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_SUFFIX_TOKEN_ID One(U32) Tokens: ;
    TOKENIZER_GGML_MIDDLE_TOKEN_ID One(U32) Tokens: ;
    VOCAB_SIZE One(U32) NoTokens: ;

    // Networks: `llama_model_base::load_hparams`.
    CONTEXT_LENGTH One(U32) Always: ;
    EMBEDDING_LENGTH One(U32) Always: ;
    EMBEDDING_LENGTH_OUT One(U32) Always: ;
    ATTENTION_CAUSAL One(BOOL) Always: ;
    POOLING_TYPE One(U32) Always: ;
    CLASSIFIER_POOLING_TYPE One(U32) Always: ;
    BLOCK_COUNT One(U32) Always: ;
    NEXTN_PREDICT_LAYERS One(U32) Always: ;
    EXPERT_COUNT One(U32) Always: ;
    EXPERT_USED_COUNT Each(U32) Always: ;
    EXPERT_GROUP_COUNT One(U32) Always: ;
    EXPERT_GROUP_USED_COUNT One(U32) Always: ;
    FEED_FORWARD_LENGTH Each(U32) Always: ;
    ATTENTION_HEAD_COUNT Each(U32) Always: ;
    ATTENTION_HEAD_COUNT_KV Each(U32) Always: ;
    ROPE_SCALING_FINETUNED One(BOOL) Always: ;
    ROPE_SCALING_ORIGINAL_CONTEXT_LENGTH One(U32) Always: ;
    ROPE_FREQ_BASE One(F32) Always: ;
    ROPE_SCALING_TYPE One(STRING) Always: ;
    ROPE_SCALING_FACTOR One(F32) Always: ;
    ROPE_SCALE_LINEAR One(F32) Unscaled: ;
    ROPE_SCALING_ATTN_FACTOR One(F32) Always: ;
    ROPE_SCALING_ALPHA One(F32) Always: ;
    ATTENTION_KEY_LENGTH One(U32) Heads: ;
    ATTENTION_KEY_LENGTH One(U32) Always: "plamo2";
    ATTENTION_VALUE_LENGTH One(U32) Heads: ;
    ATTENTION_VALUE_LENGTH One(U32) Always: "plamo2";
    ROPE_DIMENSION_COUNT One(U32) Heads: ;
    ATTENTION_KEY_LENGTH_SWA One(U32) Always: ;
    ATTENTION_VALUE_LENGTH_SWA One(U32) Always: ;
    ROPE_DIMENSION_COUNT_SWA One(U32) Always: ;
    CLASSIFIER_OUTPUT_LABELS IfArray(TEXTS, ANY) Always: ;
    GENERAL_TENSOR_EXTRA_NAME IfArray(TEXTS, ANY) Always: ;
    GENERAL_TENSOR_EXTRA_PREC_A4 Array(FLAGS, ANY) TensorExtra: ;

    // Single architectures, where the reading depends on other keys, or has a form of its own: `load_arch_hparams` in `src/models`.
    ATTENTION_COMPRESS_RATIOS Array(COUNTS, MAX) Always: "deepseek4";
    ATTENTION_COMPRESS_RATIOS IfArray(COUNTS, MAX) HyperConnections: "dflash";
    ATTENTION_INDEXER_TYPES EachMain(U32) Indexer: "hy_v4";
    ATTENTION_INDEXER_TYPES Array(COUNTS, MAX) Always: "dots3note";
    ATTENTION_OUTPUT_GROUP_COUNT One(U32) HyperConnections: "dflash";
    ATTENTION_OUTPUT_LORA_RANK One(U32) HyperConnections: "dflash";
    ATTENTION_Q_LORA_RANK One(U32) HyperConnections: "dflash";
    ATTENTION_Q_LORA_RANK One(U32) NotLite: "deepseek2" "mistral4";
    ATTENTION_SLIDING_WINDOW_PATTERN Array(COUNTS, MAX) Always:
        "dots3note" "gemma4" "gemma4-assistant" "granite_swa" "maple" "mimo2" "spark2_5" "step35";
    ATTENTION_SLIDING_WINDOW_PATTERN Array(COUNTS, MAX) SlidingDraft: "dflash";
    ATTENTION_SLIDING_WINDOW_PATTERN Pattern Blocks64: "exaone4";
    ATTENTION_SLIDING_WINDOW_PATTERN Pattern Sliding:
        "afmoe" "gemma3" "laguna" "mellum" "modern-bert" "olmo2" "plamo3" "smallthinker";
    ATTENTION_SLIDING_WINDOW_PATTERN Pattern SlidingUnlessZero: "llama4";
    DEEPSTACK_MAPPING IfArray(COUNTS, MAX) Always: "granite";
    EMBEDDING_LENGTH_PER_LAYER_INPUT One(U32) Ngrams: "qwen4exp";
    EXPERT_FEED_FORWARD_LENGTH Each(U32) HyperConnections: "dflash";
    EXPERT_GATING_FUNC One(U32) HyperConnections: "dflash";
    EXPERT_SHARED_COUNT One(U32) HyperConnections: "dflash";
    EXPERT_WEIGHTS_NORM One(BOOL) HyperConnections: "dflash";
    EXPERT_WEIGHTS_SCALE One(F32) HyperConnections: "dflash";
    FULL_ATTENTION_INTERVAL One(U32) NoRecurrentBlocks: "minimax-01" "qwen35" "qwen35moe" "qwen3next" "qwen4exp";
    HYPER_CONNECTION_EPSILON One(F32) HyperConnections: "dflash";
    HYPER_CONNECTION_SINKHORN_ITERATIONS One(U32) HyperConnections: "dflash";
    PLE_CONV_KERNEL One(U32) Ngrams: "qwen4exp";
    PLE_EOS_TOKEN_ID One(U32) Ngrams: "qwen4exp";
    PLE_HEADS_PER_NGRAM One(U32) Ngrams: "qwen4exp";
    PLE_HEAD_OFFSETS Array(WIDE, 64) Ngrams: "qwen4exp";
    PLE_HEAD_VOCAB_SIZES Array(WIDE, 64) Ngrams: "qwen4exp";
    PLE_IMAGE_TOKEN_ID One(U32) Ngrams: "qwen4exp";
    PLE_LAYER_MULTIPLIERS Array(WIDE, 8) Ngrams: "qwen4exp";
    PLE_NGRAM_SIZE One(U32) Ngrams: "qwen4exp";
    ROPE_FREQ_BASE_SWA One(F32) Blocks64: "exaone4";
    ROPE_FREQ_BASE_SWA One(F32) Sliding: "afmoe" "gemma3" "laguna" "mellum" "modern-bert" "olmo2" "plamo3" "smallthinker";
    ROPE_FREQ_BASE_SWA One(F32) SlidingUnlessZero: "llama4";
    SWIGLU_CLAMP_EXP Each(F32) HyperConnections: "dflash";
    SWIGLU_CLAMP_SHEXP Each(F32) HyperConnections: "dflash";
};

/// How the keys that tables list are read (`required` and `optional` of [`Architecture`](crate::arch::Architecture)). The rows above take precedence.
#[rustfmt::skip]
const LISTED: &[Read] = reads! {
    ACTIVATION_SITU_BETA One(F32) Always: ;
    ACTIVATION_SITU_LINEAR_BETA One(F32) Always: ;
    ADAPTERS_COUNT One(U32) Always: ;
    ADAPTERS_LORA_RANK One(U32) Always: ;
    ADAPTERS_ROUTER_GAIN One(F32) Always: ;
    ADAPTERS_TOKEN_IDS_ACTIVATE Array(NUMBERS, ANY) Always: ;
    ADAPTERS_TOKEN_IDS_SUBSTITUTE Array(NUMBERS, ANY) Always: ;
    ATTENTION_CLAMP_KQV One(F32) Always: ;
    ATTENTION_COMPRESS_RATIOS Each(U32) Always: ;
    ATTENTION_COMPRESS_ROPE_FREQ_BASE One(F32) Always: ;
    ATTENTION_DECAY_LORA_RANK One(U32) Always: ;
    ATTENTION_GATE_LORA_RANK One(U32) Always: ;
    ATTENTION_GROUP_NORM_EPSILON One(F32) Always: ;
    ATTENTION_GROUP_NORM_GROUPS One(U32) Always: ;
    ATTENTION_ICLR_LORA_RANK One(U32) Always: ;
    ATTENTION_INDEXER_BLOCK_SIZE One(U32) Always: ;
    ATTENTION_INDEXER_HEAD_COUNT One(U32) Always: ;
    ATTENTION_INDEXER_KEY_LENGTH One(U32) Always: ;
    ATTENTION_INDEXER_KPOOL One(U32) Always: ;
    ATTENTION_INDEXER_KPOOL_SELECT_TAIL One(BOOL) Always: ;
    ATTENTION_INDEXER_LOCAL_BLOCKS One(U32) Always: ;
    ATTENTION_INDEXER_TOP_K One(U32) Always: ;
    ATTENTION_INDEXER_TYPES EachMain(U32) Always: ;
    ATTENTION_KEY_LENGTH One(U32) Always: ;
    ATTENTION_KEY_LENGTH_MLA One(U32) Always: ;
    ATTENTION_KEY_LENGTH_MLA_SWA One(U32) Always: ;
    ATTENTION_KV_LORA_RANK One(U32) Always: ;
    ATTENTION_KV_LORA_RANK_SWA One(U32) Always: ;
    ATTENTION_LAYER_NORM_EPSILON One(F32) Always: ;
    ATTENTION_LAYER_NORM_RMS_EPSILON One(F32) Always: ;
    ATTENTION_MAX_ALIBI_BIAS One(F32) Always: ;
    ATTENTION_OUTPUT_GROUP_COUNT One(U32) Always: ;
    ATTENTION_OUTPUT_LORA_RANK One(U32) Always: ;
    ATTENTION_OUTPUT_SCALE One(F32) Always: ;
    ATTENTION_Q_LORA_RANK One(U32) Always: ;
    ATTENTION_RECURRENT_LAYERS Each(U32) Always: ;
    ATTENTION_RELATIVE_BUCKETS_COUNT One(U32) Always: ;
    ATTENTION_ROPE_PATTERN IfArray(COUNTS, MAX) Always: ;
    ATTENTION_SCALE One(F32) Always: ;
    ATTENTION_SHARED_KV_LAYERS One(U32) Always: ;
    ATTENTION_SLIDING_WINDOW One(U32) Always: ;
    ATTENTION_SLIDING_WINDOW_PATTERN Pattern Always: ;
    ATTENTION_TEMPERATURE_LENGTH One(U32) Always: ;
    ATTENTION_TEMPERATURE_SCALE One(F32) Always: ;
    ATTENTION_VALUE_LENGTH One(U32) Always: ;
    ATTENTION_VALUE_LENGTH_MLA One(U32) Always: ;
    ATTENTION_VALUE_LENGTH_MLA_SWA One(U32) Always: ;
    ATTENTION_VALUE_RESIDUAL_MIX_LORA_RANK One(U32) Always: ;
    ATTENTION_VALUE_SCALE One(F32) Always: ;
    ATTN_LOGIT_SOFTCAPPING One(F32) Always: ;
    ATTN_RES_BLOCK_SIZE One(U32) Always: ;
    BLOCK_SIZE One(U32) Always: ;
    CONVNEXT_BLOCK_COUNT One(U32) Always: ;
    CONVNEXT_EMBEDDING_LENGTH One(U32) Always: ;
    CONV_GROUP_SIZE One(U32) Always: ;
    CONV_KERNEL_SIZE One(U32) Always: ;
    DECODER_BLOCK_COUNT One(U32) Always: ;
    DECODER_START_TOKEN_ID One(U32) Always: ;
    DEEPSTACK_MAPPING IfArray(COUNTS, MAX) Always: ;
    DENSE_FEAT_IN One(U32) Always: ;
    DENSE_FEAT_OUT One(U32) Always: ;
    EMBEDDING_LENGTH_PER_LAYER_INPUT One(U32) Always: ;
    EMBEDDING_SCALE One(F32) Always: ;
    EXPERTS_PER_GROUP One(U32) Always: ;
    EXPERT_CHUNK_FEED_FORWARD_LENGTH One(U32) Always: ;
    EXPERT_FEED_FORWARD_LENGTH Each(U32) Always: ;
    EXPERT_GATING_FUNC One(U32) Always: ;
    EXPERT_GROUP_SCALE One(F32) Always: ;
    EXPERT_LATENT_LENGTH One(U32) Always: ;
    EXPERT_SHARED_COUNT One(U32) Always: ;
    EXPERT_SHARED_FEED_FORWARD_LENGTH One(U32) Always: ;
    EXPERT_WEIGHTS_NORM One(BOOL) Always: ;
    EXPERT_WEIGHTS_SCALE One(F32) Always: ;
    FEATURES_LENGTH One(U32) Always: ;
    FINAL_LOGIT_SOFTCAPPING One(F32) Always: ;
    HASH_LAYER_COUNT One(U32) Always: ;
    HIDDEN_ACTIVATION One(STRING) Always: ;
    HRM_H_CYCLES One(U32) Always: ;
    HRM_LAYERS_PER_STACK One(U32) Always: ;
    HRM_L_CYCLES One(U32) Always: ;
    HRM_PREFIX_LM One(BOOL) Always: ;
    HYPER_CONNECTION_COUNT One(U32) Always: ;
    HYPER_CONNECTION_EPSILON One(F32) Always: ;
    HYPER_CONNECTION_LOW_RANK One(U32) Always: ;
    HYPER_CONNECTION_MAGNITUDE One(F32) Always: ;
    HYPER_CONNECTION_SINKHORN_ITERATIONS One(U32) Always: ;
    INTERLEAVE_MOE_LAYER_STEP One(U32) Always: ;
    KDA_GATE_LOWER_BOUND One(F32) Always: ;
    KDA_HEAD_DIM One(U32) Always: ;
    KDA_SAFE_GATE One(BOOL) Always: ;
    LEADING_DENSE_BLOCK_COUNT One(U32) Always: ;
    LOGIT_SCALE One(F32) Always: ;
    MOE_EVERY_N_LAYERS One(U32) Always: ;
    MOE_LATENT_SIZE One(U32) Always: ;
    NORM_BEFORE_FC One(BOOL) Always: ;
    NORM_BEFORE_RESIDUAL One(BOOL) Always: ;
    NUM_LOOPS One(U32) Always: ;
    N_DEEPSTACK_LAYERS One(U32) Always: ;
    PLE_LAYERS Array(NUMBERS, ANY) Always: ;
    POSNET_BLOCK_COUNT One(U32) Always: ;
    POSNET_EMBEDDING_LENGTH One(U32) Always: ;
    RESCALE_EVERY_N_LAYERS One(U32) Always: ;
    RESIDUAL_SCALE One(F32) Always: ;
    ROPE_DIMENSION_SECTIONS Sections Always: ;
    ROPE_FREQ_BASE_SWA One(F32) Always: ;
    ROPE_SCALING_YARN_ATTN_FACTOR One(F32) Always: ;
    ROPE_SCALING_YARN_BETA_FAST One(F32) Always: ;
    ROPE_SCALING_YARN_BETA_SLOW One(F32) Always: ;
    ROPE_SCALING_YARN_EXT_FACTOR One(F32) Always: ;
    ROPE_SCALING_YARN_LOG_MULTIPLIER One(F32) Always: ;
    ROUTER_LOGIT_SOFTCAPPING One(F32) Always: ;
    SELECTOR_RANK One(U32) Always: ;
    SELECTOR_TOP_K One(U32) Always: ;
    SHORTCONV_L_CACHE One(U32) Always: ;
    SKIP_LOOP_FINAL_NORM One(BOOL) Always: ;
    SSM_CONV_KERNEL One(U32) Always: ;
    SSM_DT_B_C_RMS One(BOOL) Always: ;
    SSM_GROUP_COUNT One(U32) Always: ;
    SSM_INNER_SIZE One(U32) Always: ;
    SSM_STATE_SIZE One(U32) Always: ;
    SSM_TIME_STEP_RANK One(U32) Always: ;
    SWIGLU_CLAMP_EXP Each(F32) Always: ;
    SWIGLU_CLAMP_SHEXP Each(F32) Always: ;
    SWIN_NORM One(BOOL) Always: ;
    TARGET_HIDDEN_SIZE One(U32) Always: ;
    TARGET_LAYERS Array(NUMBERS, ANY) Always: ;
    TIME_DECAY_EXTRA_DIM One(U32) Always: ;
    TIME_MIX_EXTRA_DIM One(U32) Always: ;
    TOKEN_SHIFT_COUNT One(U32) Always: ;
    USE_PARALLEL_RESIDUAL One(BOOL) Always: ;
    VOCAB_SIZE One(U32) Always: ;
    WKV_HEAD_SIZE One(U32) Always: ;
    XIELU_ALPHA_N EachMain(F32) Always: ;
    XIELU_ALPHA_P EachMain(F32) Always: ;
    XIELU_BETA EachMain(F32) Always: ;
    XIELU_EPS EachMain(F32) Always: ;
};

/// Keys that llama.cpp reads without effect on the tensors, and the architecture.
const WITHOUT_EFFECT: &[(&str, &str)] =
    &[("bailingmoe", keys::LEADING_DENSE_BLOCK_COUNT), ("ernie4_5-moe", keys::INTERLEAVE_MOE_LAYER_STEP)];

/// Whether a key determines tensors of this model, as far as that does not depend on hyperparameters.
pub(super) fn has_effect(model: &Model<'_>, pattern: &str) -> bool {
    if WITHOUT_EFFECT.contains(&(model.arch, pattern)) {
        return false;
    }
    let mut rows = READS.iter().filter(|read| read.pattern == pattern);
    rows.any(|read| read.is_of(model.arch) && (read.when.needs_hparams() || read.when.holds(model)))
        || is_listed(model.arch, pattern)
}

/// Keys that an architecture requires only of some models: the architectures, which models, why, and the keys.
type Condition = (&'static [&'static str], If, &'static str, &'static [&'static str]);

const REQUIRED: &[Condition] = &[
    (
        &["dflash"],
        If::SlidingDraft,
        "a draft with a sliding window needs it",
        &[keys::ATTENTION_SLIDING_WINDOW_PATTERN],
    ),
    (
        &["dflash"],
        If::HyperConnections,
        "a draft with hyper-connections needs it",
        &[
            keys::ATTENTION_Q_LORA_RANK,
            keys::ATTENTION_SLIDING_WINDOW,
            keys::EXPERT_FEED_FORWARD_LENGTH,
            keys::EXPERT_SHARED_COUNT,
            keys::EXPERT_WEIGHTS_SCALE,
            keys::EXPERT_WEIGHTS_NORM,
            keys::EXPERT_GATING_FUNC,
            keys::SWIGLU_CLAMP_EXP,
            keys::ATTENTION_OUTPUT_GROUP_COUNT,
            keys::ATTENTION_OUTPUT_LORA_RANK,
            keys::HYPER_CONNECTION_SINKHORN_ITERATIONS,
            keys::HYPER_CONNECTION_EPSILON,
        ],
    ),
    (
        &["qwen4exp"],
        If::Ngrams,
        "n-gram embeddings need it",
        &[
            keys::PLE_NGRAM_SIZE,
            keys::PLE_HEADS_PER_NGRAM,
            keys::PLE_CONV_KERNEL,
            keys::PLE_EOS_TOKEN_ID,
            keys::EMBEDDING_LENGTH_PER_LAYER_INPUT,
            keys::PLE_LAYER_MULTIPLIERS,
            keys::PLE_HEAD_OFFSETS,
            keys::PLE_HEAD_VOCAB_SIZES,
        ],
    ),
];

/// The keys that llama.cpp requires of this model because of the values of others, and why (`load_arch_hparams` in `src/models`).
pub(super) fn required(model: &Model<'_>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let due = REQUIRED.iter().filter(|(archs, when, ..)| archs.contains(&model.arch) && when.holds(model));
    due.flat_map(|(_, _, why, keys)| keys.iter().map(|key| (*key, *why)))
}

/// Whether the model has n-gram embeddings.
pub(super) fn has_ngrams(model: &Model<'_>) -> bool {
    If::Ngrams.holds(model)
}

/// The keys that llama.cpp reads of this model.
pub(super) fn of(model: &Model<'_>) -> Vec<&'static Read> {
    let is_read = |read: &&Read| {
        // Of a vocabulary alone, the network is not read.
        let is_network = read.pattern.starts_with("{arch}.") && read.pattern != keys::VOCAB_SIZE;
        read.is_of(model.arch)
            && (model.kind == FileRole::Model || (model.kind == FileRole::Vocab && !is_network))
            && read.when.holds(model)
    };
    let listed = LISTED.iter().filter(|read| arch::lists_key(model.arch, read.pattern));
    READS.iter().chain(listed).filter(is_read).collect()
}

/// Whether the table of an architecture lists a key, whose form is in [`LISTED`].
fn is_listed(arch: &str, pattern: &str) -> bool {
    LISTED.iter().any(|read| read.pattern == pattern) && arch::lists_key(arch, pattern)
}

/// How llama.cpp reads a key, if it does.
pub(super) fn find(reads: &[&'static Read], row: &KeyInfo) -> Option<&'static Read> {
    reads.iter().find(|read| read.pattern == row.pattern).copied()
}

impl If {
    fn needs_hparams(self) -> bool {
        matches!(self, If::Heads | If::Blocks64 | If::NotLite)
    }

    fn holds(self, model: &Model<'_>) -> bool {
        let tokenizer = model.get::<&str>(keys::TOKENIZER_GGML_MODEL);
        let number = |pattern| model.get::<u64>(pattern);
        let list = |pattern| model.value(pattern).and_then(|value| value.as_array());
        match self {
            If::Always => true,
            If::Shards => number(keys::SPLIT_COUNT).is_some_and(|n| n > 1),
            If::Tokens => !matches!(tokenizer, Some("no_vocab" | "none")),
            If::NoTokens => matches!(tokenizer, Some("no_vocab" | "none")),
            If::Merges => matches!(tokenizer, Some("gpt2" | "hybriddna" | "whitespace" | "gemma4")),
            If::Unigrams => tokenizer == Some("t5"),
            If::TensorExtra => list(keys::GENERAL_TENSOR_EXTRA_NAME).is_some(),
            If::Heads => model.hparams.heads.and_then(|heads| heads.get(0)).is_some_and(|n| n > 0),
            If::Unscaled => model.value(keys::ROPE_SCALING_FACTOR).is_none(),
            If::Sliding => number(keys::ATTENTION_SLIDING_WINDOW).is_some_and(|n| n > 0),
            If::SlidingUnlessZero => number(keys::ATTENTION_SLIDING_WINDOW) != Some(0),
            If::SlidingDraft => If::Sliding.holds(model) && !If::HyperConnections.holds(model),
            If::Blocks64 => model.hparams.blocks.map(|n| n.saturating_sub(model.hparams.mtp_blocks)) == Some(64),
            If::NoRecurrentBlocks => model.value(keys::ATTENTION_RECURRENT_LAYERS).is_none(),
            If::Ngrams => list(keys::PLE_LAYERS).is_some_and(|blocks| blocks.len() > 0),
            If::Indexer => number(keys::ATTENTION_INDEXER_TOP_K).is_some_and(|n| n > 0),
            If::HyperConnections => number(keys::HYPER_CONNECTION_COUNT).is_some_and(|n| n > 0),
            If::NotLite => match model.hparams.blocks.map(|n| n.saturating_sub(model.hparams.mtp_blocks)) {
                Some(26 | 27) => false,
                Some(48) => number(keys::VOCAB_SIZE).or(model.hparams.vocab) != Some(128_256),
                _ => true,
            },
        }
    }
}

impl Read {
    fn is_of(&self, arch: &str) -> bool {
        self.archs.is_empty() || self.archs.contains(&arch)
    }

    /// Compares a value with what llama.cpp reads.
    pub(super) fn misread(&self, value: ValueRef<'_>, model: &Model<'_>) -> Option<Misread> {
        let one = |ty: Type| match value.value_type() == ty {
            true => None,
            false => Some(Misread::Type(ty.to_string())),
        };
        let Some(array) = value.as_array() else {
            return match self.form {
                Form::One(ty) | Form::Each(ty) | Form::EachMain(ty) => one(ty),
                Form::Sections => one(I32),
                Form::Pattern => one(U32),
                Form::Array(types, _) => Some(Misread::Type(format!("array of {}", joined(types)))),
                Form::IfArray(..) => None,
            };
        };
        let h = &model.hparams;
        let exact = |n: u64| (Some(n), n);
        let (types, (n, max)) = match self.form {
            Form::One(ty) => return one(ty),
            Form::Each(F32) => (&[F32][..], h.blocks.map_or((None, ANY), exact)),
            Form::EachMain(F32) => {
                (&[F32][..], h.blocks.map_or((None, ANY), |n| exact(n.saturating_sub(h.mtp_blocks))))
            }
            Form::Each(_) => (COUNTS, h.blocks.map_or((None, ANY), exact)),
            Form::EachMain(_) => (COUNTS, h.blocks.map_or((None, ANY), |n| exact(n.saturating_sub(h.mtp_blocks)))),
            Form::Sections => (COUNTS, exact(4)),
            Form::Pattern => (COUNTS, (None, MAX)),
            Form::Array(types, max) | Form::IfArray(types, max) => (types, (None, max)),
        };
        if !types.contains(&array.elem_type()) {
            return Some(Misread::Type(format!("array of {}", joined(types))));
        }
        match n {
            Some(n) if n != array.len() => Some(Misread::Length(format!("{n} elements"))),
            None if array.len() > max => Some(Misread::Length(format!("at most {max} elements"))),
            _ => None,
        }
    }
}

/// Types as text: `u32 or i32`.
fn joined(types: &[Type]) -> String {
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that tables list have a form, and each form is that of a key in a table.
    #[test]
    fn forms_are_those_of_listed_keys() {
        let mut listed = std::collections::BTreeSet::new();
        for name in keys::ARCHITECTURES {
            let required = arch::required_keys(name).map(|row| row.pattern);
            let all: Vec<&str> = required.chain(arch::optional_keys(name)).collect();
            for key in &all {
                let is_read = |read: &Read| read.pattern == *key && read.is_of(name);
                assert!(READS.iter().chain(LISTED).any(is_read), "{name}: {key} has no form");
                assert!(all.iter().filter(|other| *other == key).count() == 1, "{name}: {key} is listed twice");
            }
            listed.extend(all);
        }
        let unused: Vec<&str> = LISTED.iter().map(|read| read.pattern).filter(|key| !listed.contains(key)).collect();
        assert!(unused.is_empty(), "no table lists {unused:?}");
    }
}
