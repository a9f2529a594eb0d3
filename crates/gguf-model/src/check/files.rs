//! The rules for file types, shards and file names.

use gguf_format::check::{At, Report, repeats, shown};
use gguf_format::keys::{self, FileType};
use gguf_format::name::{FileName, NameProblem, SizeLabel};
use gguf_format::shard::{self, ShardKeys, ShardName, ShardProblem};
use gguf_format::{GgmlType, Str};

use crate::naming;

use super::rules::*;
use super::{FileRole, Model, shard_count};

/// Custom mixtures may contain little of their nominal type; a share below 1 / `SMALL_SHARE` is an error.
const SMALL_SHARE: u64 = 20;

/// The current version of the quantization formats (`GGML_QNT_VERSION` in `ggml.h`).
const QUANT_VERSION_NOW: u64 = 2;

pub(super) fn check(model: &Model<'_>, file_name: Option<&str>, report: &mut Report) {
    types(model, report);
    split(model, report);
    if let Some(file_name) = file_name {
        file(model, file_name, report);
    }
}

/// Tensors that many mixtures store in a different type.
const ASIDE: &[&str] = &["token_embd.weight", "per_layer_token_embd.weight", "output.weight"];

/// Elements per type, over the tensors that the file type applies to: matrices whose rows are whole blocks of that
/// type. Other tensors fall back to another type (`tensor_type_fallback` in `llama-quant.cpp`).
fn elements_by_type(model: &Model<'_>, decided: GgmlType) -> Vec<(GgmlType, u64)> {
    let block = decided.info().map_or(1, |info| u64::from(info.block_len));
    let mut types: Vec<(GgmlType, u64)> = Vec::new();
    for t in model.shards.iter().flat_map(|shard| shard.tensors()) {
        let (Some(n), Some(_)) = (t.n_elements(), t.ty.info()) else { continue };
        let is_vector = t.dims.skip(1).all(|dim| dim == 1);
        if is_vector || !t.dims.dim(0).is_multiple_of(block) || ASIDE.iter().any(|aside| t.name == **aside) {
            continue;
        }
        match types.iter_mut().find(|(ty, _)| *ty == t.ty) {
            Some((_, sum)) => *sum = sum.saturating_add(n),
            None => types.push((t.ty, n)),
        }
    }
    types
}

fn types(model: &Model<'_>, report: &mut Report) {
    let quantized = model.shards.iter().flat_map(|shard| shard.tensors()).find(|t| t.ty.is_quantized());
    if let Some(ty) = quantized.map(|t| t.ty)
        && !matches!(model.kind, FileRole::Shard | FileRole::Other)
    {
        match model.kv(keys::GENERAL_QUANTIZATION_VERSION) {
            None => {
                let at = At::no_key(keys::GENERAL_QUANTIZATION_VERSION);
                report.add(
                    &QUANT_VERSION_MISSING,
                    at,
                    format_args!("the key is missing, there are tensors of type {ty}"),
                );
            }
            Some(kv) => match kv.value.get::<u64>() {
                Ok(v) if v != QUANT_VERSION_NOW => report.add(&QUANT_VERSION, kv, format_args!("the version is {v}")),
                _ => {}
            },
        }
    }
    let Some(kv) = model.kv(keys::GENERAL_FILE_TYPE) else { return };
    let Ok(file_type) = kv.value.get::<u32>().map(FileType) else { return };
    let Some(info) = file_type.info() else {
        report.add(&FILE_TYPE_UNKNOWN, kv, format_args!("the file type is {}", file_type.0));
        return;
    };
    if file_type.is_guessed() {
        report.add(&FILE_TYPE_UNKNOWN, kv, format_args!("the file type is {file_type}, which is marked as guessed"));
    }
    if model.kind != FileRole::Model || !model.complete {
        return;
    }
    let types = elements_by_type(model, info.tensor_type);
    let largest = types.iter().max_by_key(|(_, n)| *n);
    let all: u64 = types.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n));
    if let Some((ty, n)) = largest
        && *ty != info.tensor_type
        && !types.iter().any(|(ty, own)| *ty == info.tensor_type && own.saturating_mul(SMALL_SHARE) >= all)
        // Without experts, such a file has no MXFP4 tensors and consists of Q8_0.
        && !(info.tensor_type == GgmlType::MXFP4 && *ty == GgmlType::Q8_0)
    {
        let share = (*n as f64 / all.max(1) as f64 * 100.0).round();
        let message = format_args!("{file_type} implies {}, but {share}% of the weights are {ty}", info.tensor_type);
        report.add(&FILE_TYPE_MISMATCH, kv, message);
    }
}

fn split(model: &Model<'_>, report: &mut Report) {
    let all: Vec<ShardKeys> = model.shards.iter().map(|shard| ShardKeys::of(shard)).collect();
    let count = shard_count(model.first);
    if let [own] = all.as_slice()
        && count > 1
    {
        report.add(&SPLIT_LONE, At::File, format_args!("one of {count} shards was given"));
        if own.no.is_none() {
            report.add(&SPLIT_KEYS, At::no_key(keys::SPLIT_NO), format_args!("the key is missing"));
        }
        if own.tensors_count.is_none() {
            report.add(&SPLIT_KEYS, At::no_key(keys::SPLIT_TENSORS_COUNT), format_args!("the key is missing"));
        }
        if own.no.is_some_and(|no| no >= count) {
            let no = own.no.unwrap_or_default();
            report.add(&SPLIT_KEYS, At::no_key(keys::SPLIT_NO), format_args!("shard {no} of {count}, counted from 0"));
        }
        if own.tensors_count.is_some_and(|n| n < own.n_tensors) {
            let said = own.tensors_count.unwrap_or_default();
            let message = format_args!("{} tensors here, {said} stated for all shards together", own.n_tensors);
            report.add(&SPLIT_KEYS, At::no_key(keys::SPLIT_TENSORS_COUNT), message);
        }
        return;
    }
    for problem in shard::problems(&all) {
        // In a single file, `split.tensors.count` is a leftover of former shards.
        if !matches!(problem, ShardProblem::WrongTensorsCount { .. }) || count > 1 {
            report.add(&SPLIT_KEYS, At::File, format_args!("{problem}"));
        }
    }
    if model.shards.len() > 1 {
        let names = model.shards.iter().flat_map(|shard| shard.tensors()).map(|t| (t.name, t.info_offset));
        repeats(names, |r| {
            report.add(&SPLIT_DUPLICATE, At::Tensor(r.text, Some(r.again)), format_args!("it is in two shards"));
        });
    }
}

fn file(model: &Model<'_>, file_name: &str, report: &mut Report) {
    let shown_name = shown(Str(file_name.as_bytes()));
    let parts = FileName::parse(file_name);
    let count = shard_count(model.first);
    let no: u64 = model.first.get_as(keys::SPLIT_NO).unwrap_or(0);
    match ShardName::parse(file_name) {
        Some(name) if count > 1 => {
            let (no_here, count_here) = (u64::from(name.number.index()), u64::from(name.number.count()));
            if (no_here, count_here) != (no, count) {
                let said = no.saturating_add(1);
                report.add(&NAME_SHARD, At::File, format_args!("{shown_name} is shard {said} of {count}"));
            }
        }
        Some(name) if name.number.count() > 1 => {
            report.add(&NAME_UNSPLIT, At::File, format_args!("{shown_name} is not split"));
        }
        None if count > 1 => {
            let said = no.saturating_add(1);
            report.add(&NAME_SHARD, At::File, format_args!("{shown_name} is shard {said} of {count}"));
        }
        _ => {}
    }
    if let (Some(encoding), Some(file_type)) = (parts.encoding, model.get::<u32>(keys::GENERAL_FILE_TYPE))
        && let (Some(named), Some(own)) =
            (FileType::from_name(encoding).and_then(FileType::info), FileType(file_type).info())
        && named.id != own.id
    {
        report.add(
            &NAME_ENCODING,
            At::File,
            format_args!("{shown_name} says {encoding}, but the file type is {}", own.label()),
        );
    }
    if model.kind == FileRole::Model
        && model.complete
        && let Some(label) = parts.size_label.and_then(SizeLabel::parse)
    {
        let tensors = model.shards.iter().flat_map(|shard| shard.tensors());
        let n = tensors.filter_map(|t| t.n_elements()).fold(0u64, u64::saturating_add);
        // Labels are coarse: 7B models have 6.7 to 7.6 billion parameters.
        let total = label.total();
        if n < total.start() / 2 || n > total.end().saturating_mul(2) {
            let size = parts.size_label.unwrap_or_default();
            report.add(&NAME_SIZE, At::File, format_args!("{shown_name} says {size}, but there are {n} parameters"));
        }
    }
    let problems = naming::problems(file_name, model.shards);
    if problems.is_empty() {
        return;
    }
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let hint = match naming::file_name(file_name, model.shards) {
        _ if problems.iter().all(NameProblem::is_note) => "no action needed; many names have such dots".to_owned(),
        Some(better) => format!("if you publish the file, rename it to {}", shown(Str(better.as_bytes()))),
        None => "if you publish the file, rename it by these parts".to_owned(),
    };
    let all = all.join("; ");
    let message = Str(all.as_bytes());
    report.add_with(&NAME_CONVENTION, At::File, format_args!("{message}"), NAME_CONVENTION.expected, hint);
}
