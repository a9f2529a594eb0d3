//! The rules for keys and their values.

use gguf_format::check::{At, Report, Rule, shown};
use gguf_format::keys::{self, Fit, KeyInfo, Kind as ValueKind};
use gguf_format::{KvRef, ValueRef};

use super::reads::{self, Misread, Read};
use super::rules::*;
use super::tokenizer::is_byte_pairs;
use super::{Kind, Model};
use crate::hparams::{Hparams, MAX_BLOCKS, MAX_EXPERTS, PerBlock};

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
    if !matches!(model.kind, Kind::Projector | Kind::Vocab) {
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
                let message = format_args!("the array has {} elements", a.len());
                report.add_with(&VALUE_ARRAY_LENGTH, kv, message, expected, VALUE_ARRAY_LENGTH.hint);
            }
            _ => {}
        }
        return;
    }
    // The element type of an empty array is irrelevant, and writers choose it arbitrarily.
    let is_empty = matches!(kv.value, ValueRef::Array(a) if a.len() == 0);
    let is_loaded = matches!(model.kind, Kind::Model | Kind::Vocab);
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
        Kind::Shard | Kind::Other => {}
        Kind::Adapter => keys::required_by_type("adapter").iter().skip(1).for_each(|key| need(key, "adapters need it")),
        Kind::Imatrix => {
            keys::required_by_type("imatrix").iter().for_each(|key| need(key, "importance matrices need it"));
        }
        Kind::Projector => {
            for (flag, needed) in keys::REQUIRED_BY_ENCODER {
                if model.get(flag) == Some(true) {
                    needed.iter().for_each(|key| need(key, "an encoder needs it"));
                }
            }
        }
        Kind::Vocab => vocabulary(model, need),
        Kind::Model => {
            for row in crate::arch::required_keys(model.arch) {
                need(row.pattern, "llama.cpp does not load the model without it");
            }
            if reads::needs_windows(model) {
                need(keys::ATTENTION_SLIDING_WINDOW_PATTERN, "a draft with a sliding window needs it");
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
        let message = format_args!("the array has {} elements", flags.len());
        let expected = format!("{} elements, one for each tensor in the list", names.len());
        report.add_with(&VALUE_ARRAY_LENGTH, kv, message, expected, VALUE_ARRAY_LENGTH.hint);
    }
}

fn vocabulary(model: &Model<'_>, mut need: impl FnMut(&str, &str)) {
    match model.get::<&str>(keys::TOKENIZER_GGML_MODEL) {
        None => need(keys::TOKENIZER_GGML_MODEL, "llama.cpp does not load the model without it"),
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
        let mut tensors = model.shards.iter().flat_map(|shard| shard.tensors());
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
    let Some(value) = model.value(keys::EXPERT_USED_COUNT).and_then(crate::summary::Span::of) else { return };
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

/// What llama.cpp demands of the value of a key.
#[derive(Clone, Copy)]
enum Demand {
    True,
    Negative,
    /// The value of another key, which also has a default.
    Same(fn(&Hparams<'_>) -> bool, &'static str),
}

/// The demands of single architectures (`load_arch_hparams` in `src/models`).
const DEMANDS: &[(&str, &str, Demand)] = &[
    ("bailingmoe3", keys::KDA_SAFE_GATE, Demand::True),
    ("bailingmoe3", keys::KDA_GATE_LOWER_BOUND, Demand::Negative),
    (
        "gemma4",
        keys::ATTENTION_VALUE_LENGTH,
        Demand::Same(|h| h.layer_head(0) == h.layer_head_v(0), "the value of attention.key_length"),
    ),
    (
        "gemma4",
        keys::ATTENTION_VALUE_LENGTH_SWA,
        Demand::Same(|h| h.head_k_swa == h.head_v_swa, "the value of attention.key_length_swa"),
    ),
];

fn demands(model: &Model<'_>, report: &mut Report) {
    for (arch, pattern, demand) in DEMANDS {
        let Some(kv) = model.kv(pattern).filter(|_| *arch == model.arch && model.is_network()) else { continue };
        let (is_met, expected) = match demand {
            Demand::True => (kv.value.get() != Ok(false), "true"),
            Demand::Negative => (!kv.value.get::<f64>().is_ok_and(|v| v >= 0.0 || v.is_nan()), "a negative number"),
            Demand::Same(is_same, expected) => (is_same(&model.hparams), *expected),
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
}

/// Checks values from a fixed set of choices.
fn choices(model: &Model<'_>, report: &mut Report) {
    let has_vocabulary = matches!(model.kind, Kind::Model | Kind::Vocab);
    let texts: [(&str, &[&[&str]], bool); 4] = [
        (keys::GENERAL_TYPE, &[keys::GENERAL_TYPES, &["vocab"]], false),
        (keys::ROPE_SCALING_TYPE, &[keys::ROPE_SCALING_TYPES], model.is_network()),
        (keys::TOKENIZER_GGML_MODEL, &[keys::TOKENIZER_MODELS], has_vocabulary),
        // Other tokenizers do not use it.
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
        let message = format_args!("{} blocks of the target are listed", list.len());
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
        let message = format_args!("the scores of experts are of kind {}", kv.value.as_integer().unwrap_or_default());
        report.add_with(&VALUE_REJECTED, kv, message, "4, sqrt_softplus", VALUE_REJECTED.hint);
    }
}
