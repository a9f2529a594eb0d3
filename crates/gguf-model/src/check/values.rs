//! The rules for keys and their values.

use gguf_format::check::{At, Report, shown};
use gguf_format::keys::{self, Fit, Kind as ValueKind};
use gguf_format::{KvRef, Str, ValueRef};

use super::rules::*;
use super::{Kind, Model};
use crate::hparams::{MAX_BLOCKS, MAX_EXPERTS, PerBlock};

/// The number of unknown keys for which a similar known key is searched. The search is slow, and files may have any
/// number of keys.
const GUESSES: u32 = 64;

pub(super) fn check(model: &Model<'_>, report: &mut Report) {
    let mut guesses = GUESSES;
    for shard in model.shards {
        for kv in shard.kvs() {
            one(model, &kv, &mut guesses, report);
        }
    }
    required(model, report);
    if model.kind != Kind::Projector {
        ranges(model, report);
        heads(model, report);
        rope(model, report);
        experts(model, report);
        expert_groups(model, report);
        lengths(model, report);
    }
    choices(model, report);
}

/// Checks that a key is known and that its value has the right type.
fn one(model: &Model<'_>, kv: &KvRef<'_>, guesses: &mut u32, report: &mut Report) {
    // The rules of the format cover keys that are not text.
    let Ok(key) = kv.key.to_str() else { return };
    // A shard or an imatrix without an architecture has no architecture keys.
    let arch = Some(model.arch).filter(|a| !a.is_empty());
    let Some(row) = keys::lookup(key, arch) else {
        unknown(model, kv, key, guesses, report);
        return;
    };
    let found = match kv.value {
        ValueRef::Array(a) => ValueKind::Array(a.elem_type()),
        value => ValueKind::Scalar(value.value_type()),
    };
    // The element type of an empty array is irrelevant, and writers choose it arbitrarily.
    let is_empty = matches!(kv.value, ValueRef::Array(a) if a.len() == 0);
    let rule = match row.fit(found) {
        Fit::Exact => None,
        Fit::Wrong if is_empty && row.kinds.iter().any(|kind| matches!(kind, ValueKind::Array(_))) => None,
        Fit::Convertible => Some(&KEY_WIDTH),
        Fit::Wrong => Some(&KEY_TYPE),
    };
    if let Some(rule) = rule {
        report.add_with(rule, kv, format_args!("the value is of type {found}"), row.expected().to_string(), rule.hint);
    }
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
            vocabulary(model, need);
        }
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
    let mut within = |pattern: &str, min: u64, max: u64| {
        let Some(kv) = model.kv(pattern) else { return };
        match kv.value.as_integer() {
            Some(n) if n < i128::from(min) || n > i128::from(max) => {
                report.add_with(
                    &VALUE_RANGE,
                    kv,
                    format_args!("the value is {n}"),
                    format!("a number from {min} to {max}"),
                    VALUE_RANGE.hint,
                );
            }
            _ => {}
        }
    };
    let count = u64::from(u32::MAX);
    within(keys::CONTEXT_LENGTH, 1, count);
    within(keys::EMBEDDING_LENGTH, 1, count);
    within(keys::BLOCK_COUNT, 1, MAX_BLOCKS);
    within(keys::EXPERT_COUNT, 0, MAX_EXPERTS);
    within(keys::VOCAB_SIZE, 1, count);
    let blocks = model.hparams.blocks.unwrap_or(MAX_BLOCKS);
    within(keys::NEXTN_PREDICT_LAYERS, 0, blocks);
    within(keys::LEADING_DENSE_BLOCK_COUNT, 0, blocks);
    for pattern in [keys::ATTENTION_KEY_LENGTH, keys::ATTENTION_VALUE_LENGTH, keys::ROPE_DIMENSION_COUNT] {
        within(pattern, 0, count);
    }
    let positive = [keys::ATTENTION_LAYER_NORM_EPSILON, keys::ATTENTION_LAYER_NORM_RMS_EPSILON, keys::ROPE_FREQ_BASE];
    for pattern in positive {
        let Some(kv) = model.kv(pattern) else { continue };
        if let Ok(v) = kv.value.get::<f64>()
            && v < 0.0
        {
            let expected = "a number that is not negative";
            report.add_with(&VALUE_RANGE, kv, format_args!("the value is {v}"), expected, VALUE_RANGE.hint);
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

/// Checks arrays with one element per block.
fn lengths(model: &Model<'_>, report: &mut Report) {
    let Some(blocks) = model.hparams.blocks else { return };
    let per_block =
        [keys::FEED_FORWARD_LENGTH, keys::ATTENTION_HEAD_COUNT, keys::ATTENTION_HEAD_COUNT_KV, keys::EXPERT_USED_COUNT];
    for pattern in per_block {
        let Some(kv) = model.kv(pattern) else { continue };
        if let ValueRef::Array(a) = kv.value
            && a.len() != blocks
        {
            report.add(&VALUE_ARRAY_LENGTH, kv, format_args!("{} elements for {blocks} blocks", a.len()));
        }
    }
}

/// Checks values from a fixed set of choices.
fn choices(model: &Model<'_>, report: &mut Report) {
    let texts: [(&str, &[&[&str]]); 4] = [
        (keys::GENERAL_TYPE, &[keys::GENERAL_TYPES, &["vocab"]]),
        (keys::ROPE_SCALING_TYPE, &[keys::ROPE_SCALING_TYPES]),
        (keys::TOKENIZER_GGML_MODEL, &[keys::TOKENIZER_MODELS, keys::SPEC_TOKENIZER_MODELS]),
        (keys::TOKENIZER_GGML_PRE, &[keys::PRE_TOKENIZERS]),
    ];
    for (pattern, known) in texts {
        let Some(kv) = model.kv(pattern) else { continue };
        // Only BPE tokenizers use the pre-tokenizer.
        let unread = pattern == keys::TOKENIZER_GGML_PRE && model.get(keys::TOKENIZER_GGML_MODEL) != Some("gpt2");
        let Ok(text) = kv.value.get::<&str>() else { continue };
        if !unread && !known.iter().any(|list| list.contains(&text)) {
            let text = shown(Str(text.as_bytes()));
            report.add(&VALUE_CHOICE, kv, format_args!("unknown value {text}"));
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
}
