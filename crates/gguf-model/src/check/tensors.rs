//! The rules for tensors: names, blocks, shapes, and required tensors.

use gguf_format::check::{At, Report, Severity};
use gguf_format::sort::CompactSort as _;
use gguf_format::{Dims, GgmlType, TensorInfoRef, keys};

use super::rules::*;
use super::tensor_names::{Parts, is_known, parts};
use super::{FileRole, Model};
use crate::arch::{self, Architecture, Dim, FUSED, Need, Stack, Tensor};
use crate::hparams::{Hparams, MAX_BLOCKS};

mod companions;

pub(super) fn check(model: &Model<'_>, report: &mut Report) {
    match model.kind {
        FileRole::Model => network(model, report),
        FileRole::Adapter => adapter(model, report),
        FileRole::Imatrix => imatrix(model, report),
        FileRole::Vocab | FileRole::Projector | FileRole::Shard | FileRole::Other => {}
    }
}

/// The tensors of the family found outside the blocks and in each block, and the blocks found of each stack.
struct Seen<'g> {
    outside: u128,
    rows: Vec<u128>,
    blocks: [Vec<bool>; Stack::ALL.len()],
    /// The scales of weights, the row of each weight, and the block.
    scales: Vec<(TensorInfoRef<'g>, usize, u64)>,
}

/// The weights in blocks that have scales, and whether each expert has its own (the generic pass of `load_tensors` in
/// `llama-model.cpp`).
const SCALED: &[(&str, bool)] = &[
    ("attn_q", false),
    ("attn_k", false),
    ("attn_v", false),
    ("attn_output", false),
    ("attn_qkv", false),
    ("attn_gate", false),
    ("ffn_gate", false),
    ("ffn_down", false),
    ("ffn_up", false),
    ("ffn_gate_shexp", false),
    ("ffn_down_shexp", false),
    ("ffn_up_shexp", false),
    ("ffn_gate_exps", true),
    ("ffn_down_exps", true),
    ("ffn_up_exps", true),
    ("ssm_in", false),
    ("ssm_out", false),
    ("ssm_alpha", false),
    ("ssm_beta", false),
    ("nextn.eh_proj", false),
    ("nextn.shared_head_head", false),
];

/// The name of the weight that a scale belongs to.
fn scaled(name: &str) -> Option<&str> {
    name.strip_suffix(".scale").or_else(|| name.strip_suffix(".input_scale"))
}

fn network(model: &Model<'_>, report: &mut Report) {
    // Keys with errors are reported once, not with every tensor. llama.cpp does not read architectures that only the specification has.
    let is_exact = report.count(Severity::Error) == 0 && !keys::SPEC_ARCHITECTURES.contains(&model.arch);
    let family = arch::of(model.arch).map(|architecture| Family::new(architecture, is_exact));
    let n = Stack::ALL.into_iter().filter_map(|stack| model.hparams.blocks_of(stack)).max().unwrap_or(0);
    let n = usize::try_from(n).unwrap_or(0);
    let mut seen = Seen { outside: 0, rows: vec![0; n], blocks: Default::default(), scales: Vec::new() };
    for t in model.shards.iter().flat_map(|shard| shard.tensors()) {
        let Ok(name) = t.name.to_str() else { continue };
        let name = parts(name);
        if let Some((stack, i)) = name.block {
            if let Some(count) = n_blocks(model, family.as_ref(), stack).filter(|&count| i >= count) {
                report.add(&TENSOR_BLOCK_EXTRA, &t, format_args!("block {i} of {count}, counted from 0"));
                continue;
            }
            if let (Some(marks), Ok(i)) = (seen.blocks.get_mut(stack as usize), usize::try_from(i))
                && (i as u64) < MAX_BLOCKS
            {
                if marks.len() <= i {
                    marks.resize(i + 1, false);
                }
                if let Some(mark) = marks.get_mut(i) {
                    *mark = true;
                }
            }
        }
        match &family {
            Some(family) => in_family(model, family, &t, name, &mut seen, report),
            None => in_general(model, &t, name, report),
        }
    }
    scales(model, &seen, report);
    if let Some(family) = &family {
        fused(model, family, &seen, report);
        companions::check(model, family, &seen, report);
    }
    if model.complete && model.hparams.blocks.is_some() {
        missing_blocks(model, family.as_ref(), &seen, report);
        if let Some(family) = &family {
            missing(model, family, &seen, report);
        }
    }
}

/// Architectures whose MTP blocks may be in another file: those whose first tensor of these blocks is looked for
/// (`trunk_only` in `load_arch_tensors`), and one that requires none of them.
const MAIN_ALONE: &[&str] = &[
    "bailingmoe3",
    "cohere2moe",
    "deepseek2",
    "deepseek32",
    "dots3note",
    "glm-dsa",
    "glm4moe",
    "hy_v3",
    "mimo2",
    "step35",
];

/// Architectures whose other blocks may be in another file (`mtp_only` in `load_arch_tensors`).
const NEXT_ALONE: &[&str] = &[
    "bailingmoe3",
    "cohere2moe",
    "deepseek2",
    "deepseek32",
    "deepseek4",
    "glm-dsa",
    "glm4moe",
    "hy_v3",
    "mimo2",
    "nemotron_h",
    "nemotron_h_moe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "step35",
];

/// Which blocks may be absent, because they are in another file.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    main: bool,
    next: bool,
}

impl Elsewhere {
    fn of(model: &Model<'_>) -> Elsewhere {
        let h = &model.hparams;
        let n_main = h.blocks.unwrap_or(0).saturating_sub(h.mtp_blocks);
        let lacks = |name: &str| h.mtp_blocks > 0 && model.tensor(name).is_none();
        let next = model.arch == "dots3note" || lacks(&format!("blk.{n_main}.nextn.eh_proj.weight"));
        Elsewhere {
            main: NEXT_ALONE.contains(&model.arch) && lacks("blk.0.attn_norm.weight"),
            next: MAIN_ALONE.contains(&model.arch) && next,
        }
    }

    /// Whether block `block` may be absent, or a part of it.
    fn has(self, h: &Hparams<'_>, block: u64) -> bool {
        if h.is_mtp(block) { self.next } else { self.main }
    }
}

/// The number of blocks with tensors. Without MTP tensors, the MTP blocks have none. A decoder has
/// the depth of the encoder unless a key sets it.
fn n_blocks(model: &Model<'_>, family: Option<&Family>, stack: Stack) -> Option<u64> {
    let predicts = |family: &Family| {
        let mut tensors = family.block.iter().chain(&family.outside);
        tensors.any(|tensor| tensor.row.own_name().starts_with("nextn."))
    };
    let n = model.hparams.blocks_of(stack)?;
    let is_main = match stack {
        Stack::Only | Stack::Encoder => true,
        Stack::Decoder => model.kv(keys::DECODER_BLOCK_COUNT).is_none(),
        _ => false,
    };
    match is_main && family.is_some_and(|family| !predicts(family)) {
        true => Some(n.saturating_sub(model.hparams.mtp_blocks)),
        false => Some(n),
    }
}

/// The tensors of an architecture.
struct Family {
    /// Whether a dimension that no key sets is 0, as in llama.cpp.
    is_exact: bool,
    outside: Vec<Tensor>,
    block: Vec<Tensor>,
}

/// The tensor with this name, and its index. If several rows have the name, the first applicable one is used.
fn tensor_of<'t>(
    tensors: &'t [Tensor],
    stack: Stack,
    name: &str,
    h: &Hparams<'_>,
    block: u64,
) -> Option<(usize, &'t Tensor)> {
    let counts = |tensor: &Tensor| tensor.row.stack() == stack && tensor.row.when.holds(h, block);
    tensors.iter().enumerate().find(|(_, tensor)| tensor.is_named(name) && counts(tensor))
}

fn in_family<'g>(
    model: &Model<'_>,
    family: &Family,
    t: &TensorInfoRef<'g>,
    name: Parts<'_>,
    seen: &mut Seen<'g>,
    report: &mut Report,
) {
    let h = &model.hparams;
    let (rows, stack, block) = match name.block {
        None => (family.outside.as_slice(), Stack::Only, 0),
        Some((stack, i)) => (family.block.as_slice(), stack, i),
    };
    let Some((i, tensor)) = tensor_of(rows, stack, name.rest, h, block) else {
        let weight = |stem: &str| tensor_of(rows, stack, &format!("{stem}.weight"), h, block);
        if stack == Stack::Only
            && let Some(stem) = scaled(name.rest)
            && (name.block.is_none() == (stem == "output"))
            && (stem == "output" || SCALED.iter().any(|(scaled, _)| *scaled == stem))
            && let Some((weight, _)) = weight(stem)
        {
            seen.scales.push((*t, weight, block));
            return;
        }
        if is_known(name) {
            report.add(&TENSOR_UNEXPECTED, t, format_args!("{} has no such tensor", model.arch));
        } else {
            report.add(&TENSOR_UNKNOWN, t, format_args!("unknown name"));
            report.add(&TENSOR_UNEXPECTED, t, format_args!("{} has no such tensor", model.arch));
        }
        return;
    };
    let marks = match name.block {
        None => Some(&mut seen.outside),
        Some(_) => usize::try_from(block).ok().and_then(|b| seen.rows.get_mut(b)),
    };
    if let Some(marks) = marks {
        *marks |= 1 << i;
    }
    if tensor.row.own_name().starts_with("rope_f") && t.ty != GgmlType::F32 {
        report.add(&TENSOR_TYPE, t, format_args!("the factors of rotary frequencies are of type {}", t.ty));
    }
    let fits = if family.is_exact { tensor.fits_exactly(t.dims, h, block) } else { tensor.fits(t.dims, h, block) };
    let is_reshaped = || RESHAPED.contains(&(model.arch, name.rest)) && is_as_large(t.dims, tensor, h, block);
    if !fits && !is_reshaped() {
        let unset: Vec<String> = tensor
            .shape()
            .iter()
            .filter(|dim| **dim != Dim::Any && dim.of(h, block).is_none())
            .map(|dim| match dim {
                Dim::Vocab => "the number of tokens (tokenizer.ggml.tokens or vocab_size)".to_owned(),
                _ => dim.expr().to_string(),
            })
            .collect();
        let expected = tensor.expected(h, block);
        let found = shape(t.dims);
        match unset.is_empty() {
            true => {
                report.add_with(&TENSOR_SHAPE, t, format_args!("the shape is {found}"), expected, TENSOR_SHAPE.hint)
            }
            false => {
                let message = format_args!("the shape is {found}, and no key sets {}", unset.join(", "));
                report.add_with(&TENSOR_SHAPE, t, message, expected, TENSOR_SHAPE.hint);
            }
        }
    }
}

/// Tensors of which llama.cpp compares the number of elements, and not the dimensions (`TENSOR_ALLOW_RESHAPE` in `load_arch_tensors`).
const RESHAPED: &[(&str, &str)] = &[
    ("qwen4exp", "output_hc_norm.weight"),
    ("qwen4exp", "hc_attn_norm.weight"),
    ("qwen4exp", "hc_ffn_norm.weight"),
    ("qwen4exp", "ple_norm_key.weight"),
    ("qwen4exp", "ple_norm_query.weight"),
    ("qwen4exp", "ple_norm_conv.weight"),
];

/// Whether a tensor has as many elements as expected.
fn is_as_large(dims: Dims<'_>, tensor: &Tensor, h: &Hparams<'_>, block: u64) -> bool {
    let found = dims.into_iter().try_fold(1u64, |n, dim| n.checked_mul(dim));
    let expected = tensor.shape().iter().try_fold(1u64, |n, dim| n.checked_mul(dim.of(h, block)?));
    found.is_some() && found == expected
}

/// Checks that scales belong to weights in the model, and their shapes.
fn scales(model: &Model<'_>, seen: &Seen<'_>, report: &mut Report) {
    for (t, weight, block) in &seen.scales {
        let parts = parts(t.name.to_str().unwrap_or_default());
        let stem = scaled(parts.rest).unwrap_or_default();
        let marks = match parts.block {
            // Only weights of this type have a scale here.
            None if !is_nvfp4_output(model) => 0,
            None => seen.outside,
            Some(_) => usize::try_from(*block).ok().and_then(|b| seen.rows.get(b)).copied().unwrap_or(0),
        };
        if marks & (1 << weight) == 0 {
            let message = format_args!("{} does not have it without {stem}.weight", model.arch);
            report.add(&TENSOR_UNEXPECTED, t, message);
            continue;
        }
        let is_per_expert = SCALED.iter().any(|(scaled, per_expert)| *scaled == stem && *per_expert);
        let n = if is_per_expert { model.hparams.experts } else { 1 };
        if t.dims.dim(0) != n || t.dims.skip(1).any(|dim| dim != 1) {
            let found = shape(t.dims);
            let message = format_args!("the shape is {found}");
            report.add_with(&TENSOR_SHAPE, t, message, format!("[{n}]"), TENSOR_SHAPE.hint);
        }
    }
}

/// Reports matrices that are also part of a fused one, and biases of the other form. In MTP blocks, which it skips, llama.cpp
/// takes both.
fn fused(model: &Model<'_>, family: &Family, seen: &Seen<'_>, report: &mut Report) {
    let h = &model.hparams;
    for (block, &marks) in seen.rows.iter().enumerate().filter(|(block, _)| !h.is_mtp(*block as u64)) {
        let number = block as u64;
        let row = |name: &str| tensor_of(&family.block, Stack::Only, name, h, number);
        let is_seen = |name: &str| row(name).is_some_and(|(i, _)| marks & (1 << i) != 0);
        let mut unexpected = |name: String, because: &str| {
            if is_seen(&name) {
                let name = format!("{}{block}.{name}", Stack::Only.prefix());
                report.add(&TENSOR_UNEXPECTED, At::no_tensor(&name), format_args!("{because}"));
            }
        };
        for tensor in family.block.iter().filter(|tensor| tensor.need() == Need::UnlessFused) {
            if row(&tensor.name()).is_none_or(|(_, first)| !std::ptr::eq(first, tensor)) {
                continue;
            }
            let whole = tensor.row.fused();
            let stem = whole.strip_suffix(".weight").unwrap_or(whole);
            if is_seen(whole) {
                unexpected(tensor.name(), &format!("{whole} contains it"));
                if is_seen(&format!("{stem}.bias")) {
                    unexpected(format!("{}.bias", tensor.row.stem()), &format!("{stem}.bias contains it"));
                }
            }
        }
        if !is_seen(FUSED)
            && family.block.iter().any(|tensor| tensor.need() == Need::UnlessFused && tensor.row.fused() == FUSED)
        {
            unexpected("attn_qkv.bias".to_owned(), "there is no attn_qkv.weight");
        }
    }
}

fn is_nvfp4_output(model: &Model<'_>) -> bool {
    let mut tensors = model.shards.iter().flat_map(|shard| shard.tensors());
    tensors.any(|t| t.name == *"output.weight" && t.ty == GgmlType::NVFP4)
}

fn in_general(model: &Model<'_>, t: &TensorInfoRef<'_>, name: Parts<'_>, report: &mut Report) {
    if !is_known(name) {
        report.add(&TENSOR_UNKNOWN, t, format_args!("unknown name"));
        return;
    }
    if arch::ODD.contains(&model.arch) || !arch::is_known(model.arch) {
        return;
    }
    let rows = if name.block.is_some() { arch::COMMON } else { arch::COMMON_OUTSIDE };
    let block = name.block.map_or(0, |(_, i)| i);
    let Some(row) = rows.iter().find(|row| row.name == name.rest) else { return };
    let tensor = Tensor { row, is_bias: false };
    if !tensor.fits(t.dims, &model.hparams, block) {
        let expected = tensor.expected(&model.hparams, block);
        let shape = shape(t.dims);
        let message = format_args!("the shape is {shape}");
        report.add_with(&TENSOR_SHAPE_UNUSUAL, t, message, expected, TENSOR_SHAPE_UNUSUAL.hint);
    }
}

/// A shape as text, truncated to the expected number of dimensions.
fn shape(dims: Dims<'_>) -> String {
    let n = dims.len();
    let mut text: Vec<String> = dims.take(6).map(|n| n.to_string()).collect();
    if n > 6 {
        text.push(format!("… {n} dimensions"));
    }
    format!("[{}]", text.join(", "))
}

/// Reports blocks without tensors, except those for which the architecture requires none: blocks that do nothing, or that run the tensors of
/// others again.
fn missing_blocks(model: &Model<'_>, family: Option<&Family>, seen: &Seen<'_>, report: &mut Report) {
    let elsewhere = Elsewhere::of(model);
    for stack in Stack::ALL {
        let Some(marks) = seen.blocks.get(stack as usize) else { continue };
        // Skip stacks that the architecture does not have.
        let is_known = family.is_some_and(|family| family.block.iter().any(|tensor| tensor.row.stack() == stack));
        if marks.is_empty() && !is_known {
            continue;
        }
        let count = n_blocks(model, family, stack).unwrap_or(0).min(MAX_BLOCKS);
        let is_seen = |i: u64| usize::try_from(i).ok().and_then(|i| marks.get(i)).is_some_and(|mark| *mark);
        let is_due = |tensor: &Tensor, i: u64| {
            tensor.need() != Need::Optional && tensor.row.stack() == stack && tensor.row.when.holds(&model.hparams, i)
        };
        let is_empty = |i: u64| family.is_some_and(|family| !family.block.iter().any(|tensor| is_due(tensor, i)));
        for i in (0..count).filter(|&i| !is_seen(i) && !is_empty(i) && !elsewhere.has(&model.hparams, i)) {
            let name = format!("{}{i}", stack.prefix());
            report.add(
                &TENSOR_BLOCK_MISSING,
                At::no_tensor(&name),
                format_args!("block {i} of {count} has no tensors"),
            );
        }
    }
}

/// Reports missing required tensors. A block without any tensor is reported once, not once per tensor.
fn missing(model: &Model<'_>, family: &Family, seen: &Seen<'_>, report: &mut Report) {
    let h = &model.hparams;
    let elsewhere = Elsewhere::of(model);
    let mut need = |tensors: &[Tensor], marks: u128, block: Option<usize>| {
        let number = block.unwrap_or(0) as u64;
        let is_seen = |i: usize| marks & (1 << i) != 0;
        let has = |name: &str| tensors.iter().enumerate().any(|(i, tensor)| is_seen(i) && tensor.is_named(name));
        let knows = |name: &str| tensors.iter().any(|tensor| tensor.is_named(name));
        let is_next = block.is_some() && h.is_mtp(number);
        let is_elsewhere = match block {
            Some(_) => elsewhere.has(h, number),
            None => false,
        };
        for (i, tensor) in tensors.iter().enumerate() {
            let is_fused = has(tensor.row.fused());
            let due = match tensor.need() {
                _ if is_elsewhere => false,
                // The output may be in the file with the main blocks.
                _ if block.is_none() && elsewhere.main && tensor.is_named("output.weight") => false,
                Need::Required => true,
                // llama.cpp requires neither in blocks that it skips, if it knows both.
                Need::UnlessFused => !(is_fused || is_next && knows(tensor.row.fused())),
                Need::Optional => false,
            };
            if is_seen(i) && !is_next && tensor.need() == Need::UnlessFused && is_fused {
                let name = tensor.name_in(block.map(|_| number));
                let fused = tensor.row.fused();
                let message = format_args!("{fused} has it already");
                report.add(&TENSOR_UNEXPECTED, At::no_tensor(&name), message);
            }
            let stack = tensor.row.stack();
            let is_first = tensor_of(tensors, stack, &tensor.name(), h, number).is_some_and(|(first, _)| first == i);
            let is_block = block.is_none() || n_blocks(model, Some(family), stack).is_none_or(|n| number < n);
            if due && is_first && is_block && !is_seen(i) {
                let name = tensor.name_in(block.map(|_| number));
                let expected = format!("a tensor of shape {}", tensor.expected(h, number));
                report.add_with(
                    &TENSOR_MISSING,
                    At::no_tensor(&name),
                    format_args!("the tensor is missing"),
                    expected,
                    TENSOR_MISSING.hint,
                );
            }
        }
    };
    need(&family.outside, seen.outside, None);
    for (block, &marks) in seen.rows.iter().enumerate().filter(|(_, marks)| **marks != 0) {
        need(&family.block, marks, Some(block));
    }
}

impl Family {
    fn new(architecture: &Architecture, is_exact: bool) -> Family {
        Family { is_exact, outside: architecture.outside().collect(), block: architecture.block().collect() }
    }
}

/// Tensors of an adapter come in pairs, `<base>.lora_a` and `<base>.lora_b`, whose inner dimensions agree.
fn adapter(model: &Model<'_>, report: &mut Report) {
    pairs(model, [".lora_a", ".lora_b"], report, |a, b, report| {
        // a is [inputs, rank], b is [rank, outputs]; for embeddings a is transposed (`llama_adapter_lora_init_impl`).
        let (rank_a, rank_b) = (a.dims.dim(1), b.dims.dim(0));
        let embedding = a.name.as_bytes().starts_with(b"token_embd.");
        if rank_a != rank_b && !embedding {
            report.add(&TENSOR_RANK, b, format_args!("the rank is {rank_b} here and {rank_a} in the other matrix"));
        }
    });
}

/// Tensors of an importance matrix come in pairs, `<tensor>.in_sum2` and `<tensor>.counts`.
fn imatrix(model: &Model<'_>, report: &mut Report) {
    pairs(model, [".in_sum2", ".counts"], report, |_, _, _| {});
}

/// Pairs the tensors whose names differ only in their suffix. Sorted by name, the two of a pair are adjacent unless
/// one is missing.
fn pairs<'g>(
    model: &Model<'g>,
    suffixes: [&str; 2],
    report: &mut Report,
    mut both: impl FnMut(&TensorInfoRef<'g>, &TensorInfoRef<'g>, &mut Report),
) {
    let mut halves: Vec<(&'g [u8], usize, TensorInfoRef<'g>)> = Vec::new();
    for t in model.shards.iter().flat_map(|shard| shard.tensors()) {
        let name = t.name.as_bytes();
        let half = suffixes.iter().enumerate().find_map(|(i, suffix)| Some((name.strip_suffix(suffix.as_bytes())?, i)));
        // New embeddings in an adapter have no counterpart.
        if let Some((stem, i)) = half {
            halves.push((stem, i, t));
        }
    }
    halves.compact_sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut rest = halves.as_slice();
    while let [first, more @ ..] = rest {
        rest = match more {
            [second, after @ ..] if first.0 == second.0 && (first.1, second.1) == (0, 1) => {
                both(&first.2, &second.2, report);
                after
            }
            _ => {
                let other = suffixes.get(1 - first.1).copied().unwrap_or_default();
                report.add(&TENSOR_PAIR, &first.2, format_args!("there is no such tensor ending in {other}"));
                more
            }
        };
    }
}
