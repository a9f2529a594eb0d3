//! The rules for keys and their values.

use gguf_format::check::{At, Report, Rule, shown};
use gguf_format::keys::{self, Fit, KeyInfo, KeyType as ValueKind};
use gguf_format::{ArrayRef, KvRef, ValueRef};

use super::reads::{self, Misread, Read};
use super::rules::*;
use super::tokenizer::is_byte_pairs;
use super::{FileRole, Model};
use crate::hparams::{MAX_BLOCKS, MAX_EXPERTS, PerBlock};

/// The number of unknown keys for which a similar known key is searched. The search is slow, and files may have any
/// number of keys.
const GUESSES: u32 = 64;

pub(super) fn check(model: &Model<'_>, report: &mut Report) {
    let mut guesses = GUESSES;
    let reads = reads::of(model);
    for shard in model.shards {
        for kv in shard.kvs() {
            one(model, &kv, &reads, &mut guesses, report);
        }
    }
    required(model, report);
    tensor_extra(model, report);
    if !matches!(model.kind, FileRole::Projector | FileRole::Vocab) {
        ranges(model, report);
        heads(model, report);
        rope(model, report);
        experts(model, report);
        expert_groups(model, report);
    }
    choices(model, report);
    demands(model, report);
}

/// Checks that a key is known and that its value has the right type.
fn one(model: &Model<'_>, kv: &KvRef<'_>, reads: &[&'static Read], guesses: &mut u32, report: &mut Report) {
    // The rules of the format cover keys that are not text.
    let Ok(key) = kv.key.to_str() else { return };
    // A shard or an imatrix without an architecture has no architecture keys.
    let arch = Some(model.arch).filter(|a| !a.is_empty());
    let Some(row) = keys::lookup(key, arch) else {
        unknown(model, kv, key, guesses, report);
        return;
    };
    value_type(model, kv, row, reads, report);
    if let Some(instead) = row.instead {
        let instead = keys::for_arch(instead, model.arch);
        report.add(&KEY_RENAMED, kv, format_args!("the key is now called {instead}"));
    }
    if let ValueRef::F32(v) = kv.value
        && !v.is_finite()
    {
        report.add(&VALUE_FINITE, kv, format_args!("the value is {v}"));
    }
    if let ValueRef::F64(v) = kv.value
        && !v.is_finite()
    {
        report.add(&VALUE_FINITE, kv, format_args!("the value is {v}"));
    }
}

/// Checks that the value is one that llama.cpp reads, or has a type of the table if llama.cpp does not read the key.
fn value_type(model: &Model<'_>, kv: &KvRef<'_>, row: &'static KeyInfo, reads: &[&'static Read], report: &mut Report) {
    let found = match kv.value {
        ValueRef::Array(a) => ValueKind::Array(a.elem_type()),
        value => ValueKind::Scalar(value.value_type()),
    };
    let wrong_type = format_args!("the value is of type {found}");
    if let Some(read) = reads::find(reads, row) {
        match (read.misread(kv.value, model), kv.value) {
            (Some(Misread::Type(expected)), _) => {
                report.add_with(&KEY_TYPE, kv, wrong_type, expected, KEY_TYPE.hint);
            }
            (Some(Misread::Length(expected)), ValueRef::Array(a)) => {
                let n = a.len();
                let message = format_args!("the array has {n} elements");
                report.add_with(&VALUE_ARRAY_LENGTH, kv, message, expected, VALUE_ARRAY_LENGTH.hint);
            }
            _ => {}
        }
        return;
    }
    // The element type of an empty array is irrelevant, and writers choose it arbitrarily.
    let is_empty = matches!(kv.value, ValueRef::Array(a) if a.len() == 0);
    let is_loaded = matches!(model.kind, FileRole::Model | FileRole::Vocab);
    let rule = match row.fit(found) {
        Fit::Exact => return,
        Fit::Wrong if is_empty && row.kinds.iter().any(|kind| matches!(kind, ValueKind::Array(_))) => return,
        Fit::Convertible => &KEY_WIDTH,
        Fit::Wrong if is_loaded => &KEY_TYPE_UNREAD,
        Fit::Wrong => &KEY_TYPE,
    };
    report.add_with(rule, kv, wrong_type, row.expected().to_string(), rule.hint);
}

fn unknown(model: &Model<'_>, kv: &KvRef<'_>, key: &str, guesses: &mut u32, report: &mut Report) {
    if keys::lookup(key, None).is_some() {
        report.add(&KEY_OTHER_ARCH, kv, format_args!("the key belongs to another architecture"));
        return;
    }
    let (first, _) = key.split_once('.').unwrap_or((key, ""));
    // Keys with other prefixes are private to their writer.
    let ours = first == model.arch || ["general", "tokenizer", "split", "adapter", "imatrix"].contains(&first);
    // Do not suggest a key that the file already has, or a hyperparameter key of another architecture.
    let meant = match guesses.checked_sub(1) {
        Some(left) => {
            *guesses = left;
            keys::nearest(key).filter(|row| model.kv(row.pattern).is_none() && (ours || !row.is_of_arch()))
        }
        None => None,
    };
    match meant {
        Some(row) => {
            let meant = row.for_arch(model.arch);
            report.add(&KEY_MISSPELT, kv, format_args!("unknown key; did you mean {meant}?"));
        }
        None if ours => report.add(&KEY_UNKNOWN, kv, format_args!("unknown key")),
        None => {}
    }
}

fn required(model: &Model<'_>, report: &mut Report) {
    let mut need = |pattern: &str, why: &str| {
        if model.value(pattern).is_none() {
            let key = keys::for_arch(pattern, model.arch);
            report.add(&KEY_MISSING, At::no_key(&key), format_args!("the key is missing; {why}"));
        }
    };
    match model.kind {
        FileRole::Shard | FileRole::Other => {}
        FileRole::Adapter => {
            keys::required_by_type("adapter").iter().skip(1).for_each(|key| need(key, "adapters need it"))
        }
        FileRole::Imatrix => {
            keys::required_by_type("imatrix").iter().for_each(|key| need(key, "importance matrices need it"));
        }
        FileRole::Projector => {
            for (flag, needed) in keys::REQUIRED_BY_ENCODER {
                if model.get(flag) == Some(true) {
                    needed.iter().for_each(|key| need(key, "an encoder needs it"));
                }
            }
        }
        FileRole::Vocab => vocabulary(model, need),
        FileRole::Model => {
            for row in crate::arch::required_keys(model.arch) {
                need(row.pattern, "llama.cpp does not load the model without it");
            }
            reads::required(model).for_each(|(pattern, why)| need(pattern, why));
            if BERT.contains(&model.arch) {
                need(keys::TOKENIZER_GGML_TOKEN_TYPE_COUNT, "llama.cpp does not load the model without it");
            }
            if model.arch == "cohere2moe" && model.value(keys::ATTENTION_LAYER_NORM_RMS_EPSILON).is_none() {
                need(keys::ATTENTION_LAYER_NORM_EPSILON, "the norms need it");
            }
            if LATENT.contains(&model.arch) {
                [keys::ATTENTION_KEY_LENGTH_MLA, keys::ATTENTION_VALUE_LENGTH_MLA]
                    .iter()
                    .for_each(|key| need(key, "latent attention needs it"));
            }
            vocabulary(model, need);
        }
    }
}

/// Checks the list of tensors with extra settings (`llama_prec_policy::load`).
fn tensor_extra(model: &Model<'_>, report: &mut Report) {
    let list = |pattern| model.value(pattern).and_then(|value| value.as_array());
    let Some(names) = list(keys::GENERAL_TENSOR_EXTRA_NAME).filter(|_| model.is_network()) else { return };
    let Some(kv) = model.kv(keys::GENERAL_TENSOR_EXTRA_PREC_A4) else {
        let at = At::no_key(keys::GENERAL_TENSOR_EXTRA_PREC_A4);
        report.add(&KEY_MISSING, at, format_args!("the key is missing; the list of tensors needs it"));
        return;
    };
    if let ValueRef::Array(flags) = kv.value
        && flags.len() != names.len()
    {
        let n = flags.len();
        let message = format_args!("the array has {n} elements");
        let expected = format!("{} elements, one for each tensor in the list", names.len());
        report.add_with(&VALUE_ARRAY_LENGTH, kv, message, expected, VALUE_ARRAY_LENGTH.hint);
    }
}

fn vocabulary(model: &Model<'_>, mut need: impl FnMut(&str, &str)) {
    match model.get::<&str>(keys::TOKENIZER_GGML_MODEL) {
        None => need(
            keys::TOKENIZER_GGML_MODEL,
            "llama.cpp does not load the model without it; a model without a tokenizer has no_vocab here, and the key vocab_size",
        ),
        Some(name) => {
            for key in keys::required_by_tokenizer(name) {
                let spared =
                    *key == keys::TOKENIZER_GGML_MERGES && model.get(keys::TOKENIZER_GGML_PRE) == Some("kimi-k2");
                if !spared {
                    need(key, "the tokenizer needs it");
                }
            }
        }
    }
}

fn ranges(model: &Model<'_>, report: &mut Report) {
    let mut within = |rule: &'static Rule, pattern: &str, min: u64, max: u64| {
        let Some(kv) = model.kv(pattern) else { return };
        match kv.value.as_integer() {
            Some(n) if n < i128::from(min) || n > i128::from(max) => {
                let expected = format!("a number from {min} to {max}");
                report.add_with(rule, kv, format_args!("the value is {n}"), expected, rule.hint);
            }
            _ => {}
        }
    };
    let count = u64::from(u32::MAX);
    let blocks = model.hparams.blocks.unwrap_or(MAX_BLOCKS);
    within(&VALUE_RANGE, keys::BLOCK_COUNT, 1, MAX_BLOCKS);
    within(&VALUE_RANGE, keys::EXPERT_COUNT, 0, MAX_EXPERTS);
    within(&VALUE_RANGE, keys::NEXTN_PREDICT_LAYERS, 0, blocks);
    within(&VALUE_RANGE, keys::EMBEDDING_LENGTH, 1, count);
    within(&VALUE_UNUSUAL, keys::CONTEXT_LENGTH, 1, count);
    within(&VALUE_UNUSUAL, keys::VOCAB_SIZE, 1, count);
    within(&VALUE_UNUSUAL, keys::LEADING_DENSE_BLOCK_COUNT, 0, blocks);
    for pattern in [keys::ATTENTION_KEY_LENGTH, keys::ATTENTION_VALUE_LENGTH, keys::ROPE_DIMENSION_COUNT] {
        within(&VALUE_UNUSUAL, pattern, 0, count);
    }
    let positive = [keys::ATTENTION_LAYER_NORM_EPSILON, keys::ATTENTION_LAYER_NORM_RMS_EPSILON, keys::ROPE_FREQ_BASE];
    for pattern in positive {
        let Some(kv) = model.kv(pattern) else { continue };
        if let Ok(v) = kv.value.get::<f64>()
            && v < 0.0
        {
            let expected = "a number that is not negative";
            report.add_with(&VALUE_UNUSUAL, kv, format_args!("the value is {v}"), expected, VALUE_UNUSUAL.hint);
        }
    }
}

/// Checks the numbers of heads.
fn heads(model: &Model<'_>, report: &mut Report) {
    let Some(kv) = model.kv(keys::ATTENTION_HEAD_COUNT) else { return };
    let h = &model.hparams;
    let attends = || {
        let tensors = model.shards.iter().flat_map(|shard| shard.tensors());
        // The attention of PosNet has one head.
        let mut tensors = tensors.filter(|t| !t.name.as_bytes().starts_with(b"posnet."));
        tensors.any(|t| t.name.as_bytes().windows(8).any(|w| w == b".attn_q." || w == b"attn_qkv"))
    };
    if let Some(PerBlock::Same(0)) = h.heads
        && attends()
    {
        let expected = "at least one head, because there are matrices for queries";
        report.add_with(&VALUE_RANGE, kv, format_args!("the number of heads is 0"), expected, VALUE_RANGE.hint);
    }
    let (Some(heads), Some(heads_kv), Some(kv)) = (h.heads, h.heads_kv, model.kv(keys::ATTENTION_HEAD_COUNT_KV)) else {
        return;
    };
    let blocks = match (heads.same(), heads_kv.same()) {
        (Some(_), Some(_)) => 1,
        _ => h.blocks.unwrap_or(0),
    };
    for i in 0..blocks {
        // Blocks without attention have no heads.
        let (Some(q), Some(k)) = (heads.get(i), heads_kv.get(i)) else { continue };
        if q > 0 && k > 0 && q % k != 0 {
            report.add(
                &VALUE_HEADS,
                kv,
                format_args!("{q} query heads are not a multiple of {k} key heads (block {i})"),
            );
        }
    }
    if let (Some(embd), Some(n), None) = (h.embd, heads.same(), model.kv(keys::ATTENTION_KEY_LENGTH))
        && n > 0
        && embd % n != 0
    {
        let hint = "set attention.key_length, or correct the number of heads";
        let expected = "a number of heads that divides the embedding length";
        let message = format_args!("{embd} elements cannot be divided evenly among {n} heads");
        report.add_with(&VALUE_HEADS, model.kv(keys::ATTENTION_HEAD_COUNT).unwrap_or(kv), message, expected, hint);
    }
}

fn rope(model: &Model<'_>, report: &mut Report) {
    let h = &model.hparams;
    let (Some(kv), Some(rot), Some(head)) = (model.kv(keys::ROPE_DIMENSION_COUNT), h.rot, h.head_k) else { return };
    // `llama_model_base::load_hparams` requires it for these architectures.
    let strict = ["llama", "llama-embed", "deci", "falcon"].contains(&model.arch);
    if strict && rot != head && model.is_network() && h.heads.and_then(|heads| heads.get(0)).is_some_and(|n| n > 0) {
        report.add(&VALUE_ROPE_LLAMA, kv, format_args!("{rot} rotary dimensions, but a head has {head}"));
    } else if rot > head {
        report.add(&VALUE_ROPE, kv, format_args!("{rot} rotary dimensions, but a head has {head}"));
    }
}

fn experts(model: &Model<'_>, report: &mut Report) {
    let experts = model.hparams.experts;
    let Some(kv) = model.kv(keys::EXPERT_USED_COUNT) else {
        if experts > 0 && model.is_network() {
            let at = At::no_key(keys::EXPERT_USED_COUNT);
            report.add(&VALUE_EXPERTS, at, format_args!("the key is missing, and there are {experts} experts"));
        }
        return;
    };
    let Some(value) = model.value(keys::EXPERT_USED_COUNT) else { return };
    if let ValueRef::Array(counts) = value
        && let Some(n) = counts.iter().filter_map(|n| n.as_integer()).find(|n| *n < 0)
    {
        report.add(&VALUE_EXPERTS, kv, format_args!("{n} experts are used"));
    }
    let Some(value) = crate::summary::Span::of(value) else { return };
    if value.max > experts || (experts > 0 && value.max == 0) {
        report.add(&VALUE_EXPERTS, kv, format_args!("{} of {experts} experts are used", value.max));
    }
}

/// Checks the groups of experts.
fn expert_groups(model: &Model<'_>, report: &mut Report) {
    let Some(kv) = model.kv(keys::EXPERT_GROUP_COUNT) else { return };
    let Ok(groups) = kv.value.get::<u64>() else { return };
    let experts = model.hparams.experts;
    let is_divided = match experts {
        0 => groups == 0,
        n => groups < n && n.checked_rem(groups).unwrap_or(0) == 0,
    };
    if !is_divided {
        report.add(&VALUE_EXPERT_GROUPS, kv, format_args!("{groups} groups of {experts} experts"));
        return;
    }
    let used = model.get::<u64>(keys::EXPERT_GROUP_USED_COUNT).unwrap_or(0);
    if groups > 1 && !(1..groups).contains(&used) {
        report.add(&VALUE_EXPERT_GROUPS, kv, format_args!("{used} of {groups} groups are used"));
    }
}

/// Architectures that llama.cpp loads only with the lengths of heads of latent attention (`load_arch_tensors` in `src/models`).
const LATENT: &[&str] = &["deepseek32", "dots3note", "glm-dsa"];

/// Architectures that llama.cpp loads only with a number of token types (`load_arch_tensors` in `src/models`).
const BERT: &[&str] = &["bert", "jina-bert-v3", "nomic-bert", "nomic-bert-moe"];

/// What llama.cpp demands of the value of a key, if there is one.
#[derive(Clone, Copy)]
enum Demand {
    True,
    Negative,
    /// A number from the first to the second one.
    Within(u64, u64),
    /// A number of blocks.
    Blocks,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// As many elements as this, or more.
    Elements(fn(&Model<'_>) -> u64),
    /// A relation to other keys, and the expected value as text.
    Agrees(fn(&Model<'_>) -> bool, &'static str),
}

const POSITIVE: Demand = Demand::Within(1, u32::MAX as u64);

/// The demands of single architectures (`load_hparams` in `llama-model.cpp`, `load_arch_hparams` and `load_arch_tensors` in `src/models`).
const DEMANDS: &[(&str, &str, Demand)] = &[
    ("bailingmoe3", keys::KDA_SAFE_GATE, Demand::True),
    ("bailingmoe3", keys::KDA_GATE_LOWER_BOUND, Demand::Negative),
    ("deepseek32", keys::ATTENTION_KEY_LENGTH_MLA, POSITIVE),
    ("deepseek32", keys::ATTENTION_VALUE_LENGTH_MLA, POSITIVE),
    ("dots3note", keys::ATTENTION_KEY_LENGTH_MLA, POSITIVE),
    ("dots3note", keys::ATTENTION_VALUE_LENGTH_MLA, POSITIVE),
    ("glm-dsa", keys::ATTENTION_KEY_LENGTH_MLA, POSITIVE),
    ("glm-dsa", keys::ATTENTION_VALUE_LENGTH_MLA, POSITIVE),
    (
        "deepseek2",
        keys::LEADING_DENSE_BLOCK_COUNT,
        Demand::Agrees(
            |model| model.hparams.experts > 0 || model.hparams.blocks.is_none_or(|n| n <= model.hparams.leading_dense),
            "the number of blocks, because there are no experts",
        ),
    ),
    ("dflash", keys::HIDDEN_ACTIVATION, Demand::OneOf(&["gelu", "gelu_pytorch_tanh", "silu"])),
    ("gemma4", keys::ATTENTION_VALUE_LENGTH, SAME_LENGTH),
    ("gemma4", keys::ATTENTION_VALUE_LENGTH_SWA, SAME_LENGTH_SWA),
    ("gemma4-assistant", keys::ATTENTION_VALUE_LENGTH, SAME_LENGTH),
    ("gemma4-assistant", keys::ATTENTION_VALUE_LENGTH_SWA, SAME_LENGTH_SWA),
    ("graniteswitch", keys::ADAPTERS_TOKEN_IDS_ACTIVATE, ONE_PER_ADAPTER),
    ("graniteswitch", keys::ADAPTERS_TOKEN_IDS_SUBSTITUTE, ONE_PER_ADAPTER),
    ("graniteswitch", keys::ADAPTERS_TOKEN_IDS_SUBSTITUTE, TOKENS),
    ("nanbeige", keys::NUM_LOOPS, POSITIVE),
    (
        "nanbeige",
        keys::NUM_LOOPS,
        Demand::Agrees(
            |model| {
                let loops = model.get::<u64>(keys::NUM_LOOPS).unwrap_or(1);
                let blocks = model.hparams.blocks.unwrap_or(0).saturating_sub(model.hparams.mtp_blocks);
                loops.saturating_mul(blocks) <= MAX_BLOCKS
            },
            "so few loops that at most 512 blocks run",
        ),
    ),
    (
        "qwen3next",
        keys::ATTENTION_RECURRENT_LAYERS,
        Demand::Agrees(
            |model| {
                let (h, blocks) = (&model.hparams, model.hparams.blocks.unwrap_or(0));
                let mut next = blocks.saturating_sub(h.mtp_blocks)..blocks.min(MAX_BLOCKS);
                !next.any(|block| h.recurrent.is_some_and(|list| list.flag(block)))
            },
            "no MTP block",
        ),
    ),
    ("qwen4exp", keys::SSM_CONV_KERNEL, POSITIVE),
    ("qwen4exp", keys::SSM_INNER_SIZE, POSITIVE),
    ("qwen4exp", keys::SSM_STATE_SIZE, POSITIVE),
    ("qwen4exp", keys::SSM_TIME_STEP_RANK, POSITIVE),
    ("qwen4exp", keys::SSM_GROUP_COUNT, POSITIVE),
    ("qwen4exp", keys::HYPER_CONNECTION_COUNT, Demand::Within(2, u32::MAX as u64)),
    ("qwen4exp", keys::HYPER_CONNECTION_LOW_RANK, POSITIVE),
    ("qwen4exp", keys::ATTENTION_INDEXER_HEAD_COUNT, POSITIVE),
    ("qwen4exp", keys::ATTENTION_INDEXER_KEY_LENGTH, POSITIVE),
    ("qwen4exp", keys::ATTENTION_INDEXER_TOP_K, POSITIVE),
    (
        "qwen4exp",
        keys::FULL_ATTENTION_INTERVAL,
        Demand::Agrees(
            |model| {
                model.value(keys::ATTENTION_RECURRENT_LAYERS).is_some()
                    || model.get::<u64>(keys::FULL_ATTENTION_INTERVAL) != Some(0)
            },
            "a positive number",
        ),
    ),
    (
        "qwen4exp",
        keys::PLE_LAYERS,
        Demand::Agrees(
            |model| {
                let Some(list) = model.hparams.ngram_blocks.filter(|list| list.len() > 0) else { return true };
                let block = list.get(0).and_then(|block| block.get::<u64>().ok());
                list.len() == 1 && block.is_some_and(|block| model.is_main_recurrent(block))
            },
            "one block, with linear attention",
        ),
    ),
    ("qwen4exp", keys::PLE_NGRAM_SIZE, NGRAM_SIZE),
    (
        "qwen4exp",
        keys::PLE_HEADS_PER_NGRAM,
        Demand::Agrees(
            |model| !reads::has_ngrams(model) || (1..=MAX_NGRAM_HEADS).contains(&ngram_heads(model)),
            "1 to 64 heads of all n-grams together",
        ),
    ),
    ("qwen4exp", keys::PLE_CONV_KERNEL, NGRAM_CONVOLUTION),
    ("qwen4exp", keys::EMBEDDING_LENGTH_PER_LAYER_INPUT, NGRAM_WIDTH),
    ("qwen4exp", keys::PLE_LAYER_MULTIPLIERS, Demand::Elements(ngram_size)),
    ("qwen4exp", keys::PLE_HEAD_OFFSETS, Demand::Elements(ngram_heads)),
    ("qwen4exp", keys::PLE_HEAD_VOCAB_SIZES, Demand::Elements(ngram_heads)),
    (
        "qwen4exp",
        keys::PLE_HEAD_VOCAB_SIZES,
        Demand::Agrees(ngram_ranges_fit, "positive numbers of rows that end below 2^31"),
    ),
    (
        "qwen4exp",
        keys::PLE_HEAD_OFFSETS,
        Demand::Agrees(
            |model| {
                let table = model.tensor("per_layer_token_embd.weight");
                table.is_none_or(|table| {
                    ngram_rows(model).all(|(first, n)| first.saturating_add(n) <= table.dims.dim(1))
                })
            },
            "rows of per_layer_token_embd.weight",
        ),
    ),
    ("t5", keys::DECODER_BLOCK_COUNT, Demand::Within(0, MAX_BLOCKS)),
    ("wavtokenizer-dec", keys::POSNET_BLOCK_COUNT, Demand::Blocks),
    // Tables list the tensors of six blocks.
    ("wavtokenizer-dec", keys::POSNET_BLOCK_COUNT, Demand::Within(6, 6)),
    ("wavtokenizer-dec", keys::CONVNEXT_BLOCK_COUNT, Demand::Blocks),
    (
        "wavtokenizer-dec",
        keys::CONVNEXT_EMBEDDING_LENGTH,
        Demand::Agrees(
            |model| model.hparams.posnet_embd == model.hparams.convnext_embd,
            "the value of posnet.embedding_length",
        ),
    ),
];

/// Architectures whose tensors have one shape in all blocks, though llama.cpp takes other lengths of keys and values for blocks with a window.
const WINDOWED: &[&str] = &[
    "afmoe",
    "cohere2moe",
    "dflash",
    "gemma-embedding",
    "gemma2",
    "gemma3",
    "gemma3n",
    "lfm2",
    "llama4",
    "mellum",
    "mimo2",
    "muse-glimmer",
    "plamo3",
    "spark2_5",
    "step35",
];

/// The keys for blocks with a window that must agree with those for all blocks, because the tensors do not differ.
const WITH_WINDOWS: &[(&str, Demand, &[&str])] = &[
    (keys::ATTENTION_KEY_LENGTH_SWA, KEYS_ALIKE, WINDOWED),
    (keys::ATTENTION_KEY_LENGTH_SWA, KEYS_ALIKE, &["deepseek4", "exaone-moe", "maple"]),
    (keys::ATTENTION_VALUE_LENGTH_SWA, VALUES_ALIKE, WINDOWED),
    (keys::ATTENTION_VALUE_LENGTH_SWA, VALUES_ALIKE, &["cohere2"]),
    (keys::ROPE_DIMENSION_COUNT_SWA, ROTATED_ALIKE, &["gpt-oss"]),
];

const KEYS_ALIKE: Demand = Demand::Agrees(
    |model| !has_windows(model) || model.hparams.head_k_swa == model.hparams.head_k,
    "the value of attention.key_length",
);

const VALUES_ALIKE: Demand = Demand::Agrees(
    |model| !has_windows(model) || model.hparams.head_v_swa == model.hparams.head_v,
    "the value of attention.value_length",
);

const ROTATED_ALIKE: Demand = Demand::Agrees(
    |model| !has_windows(model) || model.get(keys::ROPE_DIMENSION_COUNT_SWA) == model.hparams.rot,
    "the value of rope.dimension_count",
);

/// Whether blocks have windows (`load_swa_pattern` in `llama-model.cpp`): most of them, unless the pattern says otherwise.
fn has_windows(model: &Model<'_>) -> bool {
    let is_sliding =
        model.get(keys::ATTENTION_SLIDING_WINDOW).map_or(["gemma2", "llama4"].contains(&model.arch), |n: u64| n > 0);
    let pattern = model.value(keys::ATTENTION_SLIDING_WINDOW_PATTERN);
    is_sliding
        && match pattern.and_then(|value| value.as_array()) {
            Some(flags) => (0..flags.len()).any(|block| PerBlock::Each(flags).flag(block)),
            None => pattern.and_then(|value| value.as_integer()) != Some(1),
        }
}

const ONE_PER_ADAPTER: Demand = Demand::Agrees(
    |model| {
        [keys::ADAPTERS_TOKEN_IDS_ACTIVATE, keys::ADAPTERS_TOKEN_IDS_SUBSTITUTE].iter().all(|key| {
            let list = model.value(key).and_then(|value| value.as_array());
            list.is_none_or(|list| Some(list.len()) == model.hparams.adapters)
        })
    },
    "a token for each adapter in both lists",
);

const TOKENS: Demand = Demand::Agrees(
    |model| {
        let list = model.value(keys::ADAPTERS_TOKEN_IDS_SUBSTITUTE).and_then(|value| value.as_array());
        let is_token = |id: i128| id >= 0 && model.hparams.vocab.is_none_or(|n| id < i128::from(n));
        list.is_none_or(|list| list.iter().all(|id| id.as_integer().is_none_or(is_token)))
    },
    "ids of tokens",
);

const SAME_LENGTH: Demand = Demand::Agrees(
    |model| model.hparams.layer_head(0) == model.hparams.layer_head_v(0),
    "the value of attention.key_length",
);

const SAME_LENGTH_SWA: Demand = Demand::Agrees(
    |model| model.hparams.head_k_swa == model.hparams.head_v_swa,
    "the value of attention.key_length_swa",
);

const NGRAM_SIZE: Demand = Demand::Agrees(
    |model| !reads::has_ngrams(model) || (2..=MAX_NGRAM).contains(&ngram_size(model)),
    "a number from 2 to 8",
);

const NGRAM_CONVOLUTION: Demand =
    Demand::Agrees(|model| !reads::has_ngrams(model) || model.hparams.ngram_conv != Some(0), "a positive number");

const NGRAM_WIDTH: Demand =
    Demand::Agrees(|model| !reads::has_ngrams(model) || model.hparams.per_layer_embd != Some(0), "a positive number");

/// The longest n-grams, and the largest number of their heads, that llama.cpp supports (`LLAMA_MAX_PLE_NGRAM` and `LLAMA_MAX_PLE_HEADS` in
/// `llama-hparams.h`).
const MAX_NGRAM: u64 = 8;
const MAX_NGRAM_HEADS: u64 = 64;

/// The length of n-grams; 0 without n-gram embeddings.
fn ngram_size(model: &Model<'_>) -> u64 {
    model.get(keys::PLE_NGRAM_SIZE).filter(|_| reads::has_ngrams(model)).unwrap_or(0)
}

/// The number of heads of n-gram embeddings: for each length from 2 on, those of a length.
fn ngram_heads(model: &Model<'_>) -> u64 {
    let per_length = model.get::<u64>(keys::PLE_HEADS_PER_NGRAM).unwrap_or(0);
    ngram_size(model).saturating_sub(1).saturating_mul(per_length)
}

/// The first row of each head of n-gram embeddings, and the number of its rows.
fn ngram_rows(model: &Model<'_>) -> impl Iterator<Item = (u64, u64)> {
    let list = |pattern| model.value(pattern).and_then(|value| value.as_array());
    let (offsets, sizes) = (list(keys::PLE_HEAD_OFFSETS), list(keys::PLE_HEAD_VOCAB_SIZES));
    let heads = ngram_heads(model).min(MAX_NGRAM_HEADS);
    let heads = heads.min(offsets.map_or(0, |list| list.len())).min(sizes.map_or(0, |list| list.len()));
    (0..heads).map(move |head| {
        let number = |list: Option<ArrayRef<'_>>| list.and_then(|list| list.get(head)?.get().ok()).unwrap_or(0);
        (number(offsets), number(sizes))
    })
}

/// Whether the rows of each head have numbers of 31 bits.
fn ngram_ranges_fit(model: &Model<'_>) -> bool {
    ngram_rows(model).all(|(first, n)| n > 0 && first.saturating_add(n) <= u64::from(u32::MAX / 2))
}

fn demands(model: &Model<'_>, report: &mut Report) {
    let blocks = model.hparams.blocks.unwrap_or(MAX_BLOCKS);
    let of_bert = BERT.iter().map(|arch| (*arch, keys::TOKENIZER_GGML_TOKEN_TYPE_COUNT, POSITIVE));
    let with_windows =
        WITH_WINDOWS.iter().flat_map(|(key, demand, archs)| archs.iter().map(|arch| (*arch, *key, *demand)));
    for (arch, pattern, demand) in DEMANDS.iter().copied().chain(of_bert).chain(with_windows) {
        let Some(kv) = model.kv(pattern).filter(|_| arch == model.arch && model.is_network()) else { continue };
        let within = |min: u64, max: u64| {
            let is_met = kv.value.as_integer().is_none_or(|n| (i128::from(min)..=i128::from(max)).contains(&n));
            (is_met, format!("a number from {min} to {max}"))
        };
        let (is_met, expected) = match demand {
            Demand::True => (kv.value.get() != Ok(false), "true".to_owned()),
            Demand::Negative => {
                (!kv.value.get::<f64>().is_ok_and(|v| v >= 0.0 || v.is_nan()), "a negative number".to_owned())
            }
            Demand::Within(min, max) => within(min, max),
            Demand::Blocks => within(0, blocks),
            Demand::OneOf(texts) => {
                let is_met = kv.value.as_str().is_none_or(|found| texts.iter().any(|text| found == **text));
                (is_met, texts.join(", "))
            }
            Demand::Elements(least) => {
                let least = least(model);
                let is_met = kv.value.as_array().is_none_or(|list| list.len() >= least);
                (is_met, format!("at least {least} elements"))
            }
            Demand::Agrees(is_met, expected) => (is_met(model), expected.to_owned()),
        };
        if !is_met {
            report.add_with(
                &VALUE_REJECTED,
                kv,
                format_args!("the value is {}", kv.value),
                expected,
                VALUE_REJECTED.hint,
            );
        }
    }
    if model.arch == "gemma4-assistant" && model.is_network() && model.hparams.embd_out == model.hparams.embd {
        let at = At::no_key(keys::EMBEDDING_LENGTH_OUT);
        let expected = "the embedding length of the target, which is not that of the draft";
        let found = model.hparams.embd_out.unwrap_or_default();
        report.add_with(&VALUE_REJECTED, at, format_args!("the length is {found}"), expected, VALUE_REJECTED.hint);
    }
}

/// Checks values from a fixed set of choices.
fn choices(model: &Model<'_>, report: &mut Report) {
    let has_vocabulary = matches!(model.kind, FileRole::Model | FileRole::Vocab);
    let texts: [(&str, &[&[&str]], bool); 4] = [
        (keys::GENERAL_TYPE, &[keys::GENERAL_TYPES, &["vocab"]], false),
        (keys::ROPE_SCALING_TYPE, &[keys::ROPE_SCALING_TYPES], model.is_network()),
        (keys::TOKENIZER_GGML_MODEL, &[keys::TOKENIZER_MODELS], has_vocabulary),
        // Only tokenizers of byte pairs use a pre-tokenizer.
        (keys::TOKENIZER_GGML_PRE, &[keys::PRE_TOKENIZERS, &[""]], has_vocabulary && is_byte_pairs(model)),
    ];
    for (pattern, known, is_read) in texts {
        let Some(kv) = model.kv(pattern) else { continue };
        let Some(text) = kv.value.as_str() else { continue };
        let is_known = known.iter().any(|list| list.iter().any(|known| text == **known));
        if !is_known && (is_read || pattern != keys::TOKENIZER_GGML_PRE) {
            let rule = if is_read { &VALUE_REJECTED } else { &VALUE_CHOICE };
            report.add(rule, kv, format_args!("unknown value {}", shown(text)));
        }
    }
    let numbers = [(keys::POOLING_TYPE, keys::POOLING_TYPES), (keys::EXPERT_GATING_FUNC, keys::EXPERT_GATING_FUNCS)];
    for (pattern, known) in numbers {
        let Some(kv) = model.kv(pattern) else { continue };
        // For the pooling type, -1 means "unspecified".
        if let Some(n) = kv.value.as_integer()
            && n != -1
            && usize::try_from(n).map_or(true, |n| n >= known.len())
        {
            report.add(&VALUE_CHOICE, kv, format_args!("unknown value {n}; expected 0 to {}", known.len() - 1));
        }
    }
    if let Some(kv) = model.kv(keys::TARGET_LAYERS)
        && model.arch == "eagle3"
        && let Some(list) = kv.value.as_array()
        && list.len() != 3
    {
        let n = list.len();
        let message = format_args!("{n} blocks of the target are listed");
        report.add_with(&VALUE_REJECTED, kv, message, "3 blocks", VALUE_REJECTED.hint);
    }
    // The blocks of DeepSeek 4 have one way of scoring experts (`load_arch_hparams`).
    let scored_alike =
        model.arch == "deepseek4" || (model.arch == "dflash" && model.hparams.hyper.is_some_and(|n| n > 0));
    if let Some(kv) = model.kv(keys::EXPERT_GATING_FUNC)
        && model.is_network()
        && scored_alike
        && kv.value.as_integer().is_some_and(|n| n != 4)
    {
        let kind = kv.value.as_integer().unwrap_or_default();
        let message = format_args!("the scores of experts are of kind {kind}");
        report.add_with(&VALUE_REJECTED, kv, message, "4, sqrt_softplus", VALUE_REJECTED.hint);
    }
}
