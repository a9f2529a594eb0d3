//! The rules for tensors: names, blocks, shapes, and required tensors.

use gguf_format::check::{At, Report, Severity};
use gguf_format::{Dims, TensorInfoRef};

use super::rules::*;
use super::tensor_names::{Parts, is_known, parts};
use super::{Kind, Model};
use crate::arch::{self, Architecture, Dim, Need, Stack, Tensor};
use crate::hparams::{Hparams, MAX_BLOCKS};

pub(super) fn check(model: &Model<'_>, report: &mut Report) {
    match model.kind {
        Kind::Model => network(model, report),
        Kind::Adapter => adapter(model, report),
        Kind::Imatrix => imatrix(model, report),
        Kind::Vocab | Kind::Projector | Kind::Shard | Kind::Other => {}
    }
}

/// The tensors of the family found outside the blocks and in each block, and the blocks found of each stack.
struct Seen {
    outside: u128,
    rows: Vec<u128>,
    blocks: [Vec<bool>; Stack::ALL.len()],
}

fn network(model: &Model<'_>, report: &mut Report) {
    // Keys with errors are reported once, not with every tensor. llama.cpp does not read architectures that only the specification has.
    let is_exact = report.count(Severity::Error) == 0 && !gguf_format::keys::SPEC_ARCHITECTURES.contains(&model.arch);
    let family = arch::of(model.arch).map(|architecture| Family::new(architecture, is_exact));
    let n = Stack::ALL.into_iter().filter_map(|stack| model.hparams.blocks_of(stack)).max().unwrap_or(0);
    let n = usize::try_from(n).unwrap_or(0);
    let mut seen = Seen { outside: 0, rows: vec![0; n], blocks: Default::default() };
    for t in model.shards.iter().flat_map(|shard| shard.tensors()) {
        let Ok(name) = t.name.to_str() else { continue };
        let name = parts(name);
        if let Some((stack, i)) = name.block {
            if let Some(count) = model.hparams.blocks_of(stack).filter(|&count| i >= count) {
                report.add(&TENSOR_BLOCK_EXTRA, &t, format_args!("block {i} of {count}, counted from 0"));
                continue;
            }
            if let (Some(marks), Ok(i)) = (seen.blocks.get_mut(stack as usize), usize::try_from(i))
                && i < MAX_BLOCKS as usize
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
    if model.complete && model.hparams.blocks.is_some() {
        missing_blocks(model, family.as_ref(), &seen, report);
        if let Some(family) = &family {
            missing(model, family, &seen, report);
        }
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

fn in_family(
    model: &Model<'_>,
    family: &Family,
    t: &TensorInfoRef<'_>,
    name: Parts<'_>,
    seen: &mut Seen,
    report: &mut Report,
) {
    let h = &model.hparams;
    let (rows, stack, block) = match name.block {
        None => (family.outside.as_slice(), Stack::Only, 0),
        Some((stack, i)) => (family.block.as_slice(), stack, i),
    };
    // Per-tensor scales accompany their weights (`create_tensor` in `llama-model.cpp`).
    let scale = name.rest.strip_suffix(".scale").or_else(|| name.rest.strip_suffix(".input_scale"));
    if scale.is_some_and(|stem| rows.iter().any(|tensor| tensor.row.own_name().strip_suffix(".weight") == Some(stem))) {
        return;
    }
    let Some((i, tensor)) = tensor_of(rows, stack, name.rest, h, block) else {
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
    let fits = if family.is_exact { tensor.fits_exactly(t.dims, h, block) } else { tensor.fits(t.dims, h, block) };
    if !fits {
        let unset: Vec<&str> = tensor
            .shape()
            .iter()
            .filter(|dim| **dim != Dim::Any && dim.of(h, block).is_none())
            .map(|dim| dim.keys())
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

fn in_general(model: &Model<'_>, t: &TensorInfoRef<'_>, name: Parts<'_>, report: &mut Report) {
    if !is_known(name) {
        report.add(&TENSOR_UNKNOWN, t, format_args!("unknown name"));
        return;
    }
    if arch::ODD.contains(&model.arch) || !gguf_format::keys::is_architecture(model.arch) {
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

/// Reports blocks without tensors. `deci` models omit all tensors of a block that does nothing.
fn missing_blocks(model: &Model<'_>, family: Option<&Family>, seen: &Seen, report: &mut Report) {
    if model.arch == "deci" {
        return;
    }
    for stack in Stack::ALL {
        let Some(marks) = seen.blocks.get(stack as usize) else { continue };
        // Skip stacks that the architecture does not have.
        let is_known = family.is_some_and(|family| family.block.iter().any(|tensor| tensor.row.stack() == stack));
        if marks.is_empty() && !is_known {
            continue;
        }
        let count = model.hparams.blocks_of(stack).unwrap_or(0).min(MAX_BLOCKS);
        // A file may contain only the blocks that predict further tokens (`mtp_only` in llama.cpp's
        // `load_arch_tensors`).
        let n_main = count.saturating_sub(model.hparams.nextn);
        let (main, next) = marks.split_at(marks.len().min(usize::try_from(n_main).unwrap_or(usize::MAX)));
        let first = if next.contains(&true) && !main.contains(&true) { n_main } else { 0 };
        for i in (first..count).filter(|&i| !usize::try_from(i).ok().and_then(|i| marks.get(i)).is_some_and(|m| *m)) {
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
fn missing(model: &Model<'_>, family: &Family, seen: &Seen, report: &mut Report) {
    let h = &model.hparams;
    let mut need = |tensors: &[Tensor], marks: u128, block: Option<usize>| {
        let number = block.unwrap_or(0) as u64;
        let is_seen = |i: usize| marks & (1 << i) != 0;
        let is_fused =
            |of: &Tensor| tensors.iter().enumerate().any(|(i, tensor)| is_seen(i) && tensor.is_named(of.row.fused()));
        for (i, tensor) in tensors.iter().enumerate() {
            let due = match tensor.need() {
                Need::Required => true,
                Need::UnlessFused => !is_fused(tensor),
                Need::Optional => false,
            };
            let stack = tensor.row.stack();
            let is_first = tensor_of(tensors, stack, &tensor.name(), h, number).is_some_and(|(first, _)| first == i);
            let is_block = block.is_none() || h.blocks_of(stack).is_none_or(|n| number < n);
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
    halves.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
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
