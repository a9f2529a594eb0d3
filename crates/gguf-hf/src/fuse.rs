//! Fused tensors: matrices that llama.cpp multiplies in one operation, stored as one tensor.
//!
//! The rules follow `modify_tensors` and `prepare_qkv_fusion` in `conversion/base.py` of llama.cpp. Tensors are fused only for
//! architectures whose table has a row for the fused tensor, because llama.cpp does not load other files.

use core::mem;
use std::collections::{HashMap, HashSet};

use gguf_model::arch::{ARCHITECTURES, Architecture, FUSED, FUSED_EXPERTS, Row};
use gguf_pipeline::moves::{Axis, Move};
use gguf_pipeline::plan::{Elementwise, Gather, Input, Op, Shape, SourcePlace, TensorPlan};

use crate::model_plan::{ModelPlan, PlanError};
use crate::warning::ArchitectureWarning;

/// Tensors of a block that are concatenated by rows.
pub(crate) struct Fusion {
    /// The source tensors, in row order.
    parts: &'static [&'static str],
    /// The fused tensor.
    fused: &'static str,
    /// The name of the source tensors in messages.
    what: &'static str,
    /// Whether the reference rejects architectures without the fused tensor. Otherwise nothing is fused.
    is_strict: bool,
}

/// Queries, keys and values, with their biases.
pub(crate) const QKV: Fusion =
    Fusion { parts: &["attn_q", "attn_k", "attn_v"], fused: FUSED, what: "queries, keys and values", is_strict: false };

/// Gate and up of all experts, without their biases.
pub(crate) const GATE_UP_EXPERTS: Fusion = Fusion {
    parts: &["ffn_gate_exps", "ffn_up_exps"],
    fused: FUSED_EXPERTS,
    what: "gate and up matrices of experts",
    is_strict: true,
};

/// The block number, and the rest of a tensor's name.
fn of_block(name: &[u8]) -> Option<(&str, &str)> {
    core::str::from_utf8(name).ok()?.strip_prefix("blk.")?.split_once('.')
}

impl Fusion {
    /// The index of a tensor among the parts, by its name without `blk.N.`, and its suffix.
    fn part<'n>(&self, name: &'n str) -> Option<(usize, &'n str)> {
        let (stem, suffix) = name.rsplit_once('.')?;
        Some((self.parts.iter().position(|part| *part == stem)?, suffix))
    }

    /// Whether llama.cpp loads the fused tensor in the blocks that contain the parts.
    fn is_supported(&self, architecture: &Architecture) -> bool {
        let rows = || architecture.block.iter().copied().flatten();
        let is_part = |row: &Row| self.part(row.own_name()).is_some();
        rows().any(|fused| fused.own_name() == self.fused && rows().any(|row| is_part(row) && row.when == fused.when))
    }

    /// Replaces the parts in a plan by fused tensors, each at the position of its last part.
    ///
    /// # Errors
    /// If the architecture does not support the fused tensor and the reference rejects it too, or if the parts have different number
    /// formats.
    pub(crate) fn apply(&self, plan: &mut ModelPlan) -> Result<(), PlanError> {
        let name = plan.architecture;
        let is_supported =
            ARCHITECTURES.iter().find(|arch| arch.names.contains(&name)).is_some_and(|arch| self.is_supported(arch));
        // Blocks are never fused.
        let mut floats = plan.tensors.iter().filter(|tensor| !tensor.op.value_type().is_quantized());
        let has_parts = floats.any(|t| of_block(&t.name).is_some_and(|(_, n)| self.part(n).is_some()));
        if has_parts && !is_supported && self.is_strict {
            return Err(PlanError::NotFused { architecture: name, what: self.what });
        }
        let blocks = if is_supported { self.blocks(&plan.tensors) } else { HashSet::new() };
        if blocks.is_empty() {
            let (architecture, what) = (plan.architecture, self.what);
            plan.warnings.push(ArchitectureWarning::NothingToFuse { architecture, what, is_supported });
            return Ok(());
        }
        let mut waiting: HashMap<(String, String), Vec<Option<TensorPlan>>> = HashMap::new();
        for tensor in mem::take(&mut plan.tensors) {
            let found = of_block(&tensor.name).filter(|(block, _)| blocks.contains(*block));
            let found = found.and_then(|(block, rest)| Some((block, self.part(rest)?)));
            let found = found.filter(|(_, (_, suffix))| self.fuses(suffix));
            let Some((block, (place, suffix))) = found else {
                let place = SourcePlace { offset: plan.tensors.len() as u64, ..tensor.place };
                plan.tensors.push(tensor.at(place));
                continue;
            };
            let key = (block.to_owned(), suffix.to_owned());
            let parts = waiting.entry(key.clone()).or_insert_with(|| vec![None; self.parts.len()]);
            if let Some(part) = parts.get_mut(place) {
                *part = Some(tensor);
            }
            if parts.iter().all(Option::is_some) {
                let parts: Vec<TensorPlan> = waiting.remove(&key).into_iter().flatten().flatten().collect();
                let stem = self.fused.strip_suffix(".weight").unwrap_or(self.fused);
                let (block, suffix) = key;
                let name = format!("blk.{block}.{stem}.{suffix}");
                let (shape, op) = concatenated(&name, &parts)?;
                plan.add(name, shape.to_vec(), op);
            }
        }
        Ok(())
    }

    /// Whether tensors with the given suffix are fused.
    fn fuses(&self, suffix: &str) -> bool {
        suffix == "weight" || suffix == "bias" && self.fused == FUSED
    }

    /// The numbers of the blocks in which all parts are floats, and either all or none have biases.
    fn blocks(&self, tensors: &[TensorPlan]) -> HashSet<String> {
        let mut found: HashMap<&str, (usize, usize)> = HashMap::new();
        for tensor in tensors.iter().filter(|tensor| !tensor.op.value_type().is_quantized()) {
            let Some((block, rest)) = of_block(&tensor.name) else { continue };
            let Some((_, suffix)) = self.part(rest) else { continue };
            let (n_weights, n_biases) = found.entry(block).or_default();
            match suffix {
                "weight" => *n_weights += 1,
                "bias" if self.fuses(suffix) => *n_biases += 1,
                _ => {}
            }
        }
        let n = self.parts.len();
        let is_whole = |(n_weights, n_biases): (usize, usize)| n_weights == n && (n_biases == 0 || n_biases == n);
        found.into_iter().filter(|(_, counts)| is_whole(*counts)).map(|(block, _)| block.to_owned()).collect()
    }
}

/// The shape and operation of a tensor that concatenates the rows of several tensors whose other dimensions are equal. For experts, the
/// rows of each expert are concatenated.
fn concatenated(name: &str, parts: &[TensorPlan]) -> Result<(Shape, Op), PlanError> {
    let of_part = |part: &TensorPlan| part.op.inputs().first().map(|input| input.name.to_string()).unwrap_or_default();
    let mut shape = parts.first().map(|part| part.shape.clone()).unwrap_or_default();
    let axis = usize::from(shape.len() > 1);
    let n_rows = |shape: &[u64]| shape.get(axis).copied().unwrap_or(1);
    let row_len = if axis == 1 { shape.first().copied().unwrap_or(1) } else { 1 };
    let total: u64 = parts.iter().map(|part| n_rows(&part.shape)).fold(0, u64::saturating_add);
    let without_rows = |shape: &[u64]| {
        let mut shape = shape.to_vec();
        shape.get_mut(axis).into_iter().for_each(|rows| *rows = 0);
        shape
    };
    let period = total.saturating_mul(row_len);
    let (mut inputs, mut moves): (Vec<Input>, Vec<Move>) = (Vec::new(), Vec::new());
    let (mut maps, mut start) = (Vec::new(), 0);
    let of_op = |part: &TensorPlan| match &part.op {
        Op::Gather(gather) => gather.maps.clone(),
        _ => Vec::new(),
    };
    let first_maps = parts.first().map(of_op).unwrap_or_default();
    let is_alike = |map: &Elementwise| {
        use Elementwise::{Add, NegExp, Scale, Softplus};
        matches!(map, Add(_) | Scale(_) | NegExp | Softplus)
    };
    let are_alike = first_maps.iter().all(is_alike) && parts.iter().all(|part| of_op(part) == first_maps);
    for part in parts {
        let wrong = |problem: &str| PlanError::Unfusable {
            name: name.to_owned(),
            tensor: of_part(part),
            problem: problem.to_owned(),
        };
        if without_rows(&part.shape) != without_rows(&shape) {
            let (name, tensor, found) = (name.to_owned(), of_part(part), part.shape.to_vec());
            return Err(PlanError::Shapes { name, tensor, found });
        }
        let len = n_rows(&part.shape).saturating_mul(row_len);
        let (own_inputs, own_moves) = match &part.op {
            Op::Copy(input) => (vec![input.clone()], crate::pattern::whole(&part.shape).moves),
            Op::Gather(gather) => (gather.inputs.clone(), gather.moves.clone()),
            Op::RoundToMean(_) => return Err(wrong("has other functions of values")),
            _ => return Err(wrong("is computed")),
        };
        let mut places = Vec::with_capacity(own_inputs.len());
        for input in own_inputs {
            // Functions of values round to half precision only where all inputs are in half precision.
            let is_mixed = inputs.first().is_some_and(|first| first.ty != input.ty);
            if is_mixed && (input.ty.is_quantized() || !first_maps.is_empty() || !of_op(part).is_empty()) {
                return Err(PlanError::Mixed { name: name.to_owned(), tensor: input.name.to_string() });
            }
            let known = inputs.iter().position(|known| known.index() == input.index());
            places.push(known.unwrap_or(inputs.len()));
            if known.is_none() {
                inputs.push(input);
            }
        }
        for item in own_moves {
            let input = places.get(item.input).copied().unwrap_or_default();
            let spread = spread(item, len, period, start).ok_or_else(|| wrong("has rows in another order"))?;
            moves.push(Move { input, ..spread });
        }
        if !are_alike {
            let is_one = part.shape.get(axis + 1..).is_none_or(|outer| outer.iter().all(|n| *n == 1));
            for map in of_op(part) {
                let scaled = match map {
                    Elementwise::Scale(factor) => Some((0, len, factor)),
                    Elementwise::ScalePart { period, from, to, factor } if period == len => Some((from, to, factor)),
                    _ => None,
                };
                let (from, to, factor) =
                    scaled.filter(|_| is_one).ok_or_else(|| wrong("has other functions of values"))?;
                maps.push(Elementwise::ScalePart { period, from: start + from, to: start + to, factor });
            }
        }
        start = start.saturating_add(len);
    }
    if are_alike {
        maps = first_maps;
    }
    if let Some(rows) = shape.get_mut(axis) {
        *rows = total;
    }
    Ok((shape, Op::Gather(Box::new(Gather { inputs, moves, maps }))))
}

/// Maps a move into parts of `len` elements to the same parts at a distance of `period` elements, each at offset `start`. Returns `None` if
/// the move does not end at a part boundary.
fn spread(item: Move, len: u64, period: u64, start: u64) -> Option<Move> {
    let len = len.max(1);
    let place = |to: u64| (to / len).checked_mul(period)?.checked_add(to % len);
    let mut axes = Vec::with_capacity(item.axes.len() + 1);
    let mut inner = item.to % len;
    for Axis { count, from, to } in item.axes {
        if to >= len {
            axes.push(Axis { count, from, to: Some(to).filter(|to| to % len == 0).and_then(place)? });
        } else if to.checked_mul(count)? <= len {
            inner = inner.checked_add(to.checked_mul(count.saturating_sub(1))?)?;
            axes.push(Axis { count, from, to });
        } else {
            // The axis spans several parts.
            let steps = Some(len / to.max(1)).filter(|steps| steps * to == len && count % steps == 0)?;
            inner = inner.checked_add(len - to)?;
            axes.push(Axis { count: count / steps, from: from.checked_mul(steps)?, to: period });
            axes.push(Axis { count: steps, from, to });
        }
    }
    let to = place(item.to)?.checked_add(start)?;
    (inner < len).then_some(Move { input: item.input, from: item.from, to, axes })
}
