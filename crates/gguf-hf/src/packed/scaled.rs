//! 8-bit floats and integers, each multiplied by the scale of its tensor, row or block.
//!
//! The arithmetic follows `dequant_simple` in `conversion/base.py` of llama.cpp: convert both to `f32`, then multiply once.

use core::ops::Range;

use gguf_pipeline::Error;

use super::companion::dims;
use super::data::{Data, Numbers};
use super::decode::Decode;
use crate::number::to_index;

/// A tensor of scaled numbers.
#[derive(Debug)]
pub(super) struct Scaled {
    pub(super) values: Numbers,
    pub(super) scale: Option<Scale>,
    /// Length of a row.
    pub(super) columns: u64,
    /// The scales to multiply by.
    pub(super) factor: Option<f32>,
}

/// The scales of a tensor, and their mapping to its elements.
#[derive(Debug)]
pub(super) struct Scale {
    pub(super) at: Numbers,
    /// All dimensions of the tensor except the last, outermost first.
    rows: Vec<Step>,
    last: Step,
}

/// The layout of the scales along one dimension of the tensor.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Length of the dimension.
    len: u64,
    /// Elements per scale; never 0.
    block: u64,
    /// Stride between the scales of adjacent blocks; 0 if all blocks share one scale.
    stride: u64,
}

impl Scale {
    /// Maps scales to a tensor. `blocks`, if any, are the block lengths of the last dimensions of the scales. If the scales have fewer
    /// dimensions than the tensor, the trailing dimensions are missing. `Err` explains why the shape of the scales does not match.
    pub(super) fn new(at: Numbers, shape: &[u64], scales: &[u64], blocks: &[u64]) -> Result<Scale, String> {
        let wrong = || {
            let blocks = if blocks.is_empty() { String::new() } else { format!(" in blocks of {}", dims(blocks)) };
            format!("has the shape {scales:?}, which is not that of scales for {shape:?}{blocks}")
        };
        let is_single = scales.iter().product::<u64>() == 1;
        if !is_single && (scales.len() > shape.len() || blocks.len() > scales.len()) {
            return Err(wrong());
        }
        let mut steps = Vec::new();
        let mut stride = 1u64;
        for (axis, &len) in shape.iter().enumerate().rev() {
            if is_single {
                steps.push(Step { len, block: 1, stride: 0 });
                continue;
            }
            let n = scales.get(axis).copied().unwrap_or(1);
            let of_block = (axis + blocks.len()).checked_sub(scales.len());
            let block = of_block.and_then(|i| blocks.get(i)).copied().unwrap_or(1);
            let covers =
                n.checked_mul(block).is_some_and(|covered| if block == 1 { covered == len } else { covered >= len });
            steps.push(match (covers, n.checked_mul(block)) {
                (true, _) => Step { len, block, stride },
                (false, Some(1)) => Step { len, block: 1, stride: 0 },
                _ => return Err(wrong()),
            });
            stride = stride.checked_mul(n).ok_or_else(wrong)?;
        }
        steps.reverse();
        let last = steps.pop().unwrap_or(Step { len: 1, block: 1, stride: 0 });
        Ok(Scale { at, rows: steps, last })
    }

    /// The index of the first scale of a row.
    fn of_row(&self, mut row: u64) -> u64 {
        let mut first = 0;
        for step in self.rows.iter().rev() {
            let len = step.len.max(1);
            first += row % len / step.block * step.stride;
            row /= len;
        }
        first
    }

    /// Multiplies the values of several rows, or part of one row, by their scales.
    fn apply(&self, data: Data<'_>, rows: Range<u64>, columns: Range<u64>, values: &mut [f32]) -> Result<(), Error> {
        let in_row = |column: u64| column / self.last.block * self.last.stride;
        let (first_column, last_column) = (in_row(columns.start), in_row(columns.end.saturating_sub(1)));
        let of_rows = || rows.clone().map(|row| self.of_row(row));
        let (Some(first), Some(last)) = (of_rows().min(), of_rows().max()) else { return Ok(()) };
        let n = (last - first).saturating_add(last_column - first_column + 1);
        let scales = data.numbers(self.at, first + first_column, n)?;
        let width = usize::try_from(columns.end - columns.start).unwrap_or(usize::MAX).max(1);
        for (scale, values) in of_rows().zip(values.chunks_mut(width)) {
            let scales = scales.get(to_index(scale - first)..).unwrap_or_default();
            if self.last.stride == 0 {
                let scale = scales.first().copied().unwrap_or_default();
                values.iter_mut().for_each(|value| *value *= scale);
                continue;
            }
            // The first block may be partial.
            let cut = self.last.block - columns.start % self.last.block;
            let (head, tail) = values.split_at_mut(values.len().min(usize::try_from(cut).unwrap_or(usize::MAX)));
            let blocks = tail.chunks_mut(usize::try_from(self.last.block).unwrap_or(usize::MAX));
            for (values, scale) in core::iter::once(head).chain(blocks).zip(scales) {
                values.iter_mut().for_each(|value| *value *= scale);
            }
        }
        Ok(())
    }
}

impl Decode for Scaled {
    fn decode(&self, data: Data<'_>, rows: Range<u64>, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        // Whole rows or part of one row; contiguous in both cases.
        data.numbers_into(self.values, rows.start * self.columns + columns.start, out)?;
        if let Some(scale) = &self.scale {
            scale.apply(data, rows, columns, out)?;
        }
        if let Some(factor) = self.factor {
            out.iter_mut().for_each(|value| *value *= factor);
        }
        Ok(())
    }

    fn is_scaled(&self) -> bool {
        self.scale.is_some()
    }
}
