//! Low-bit integers packed in 32-bit words, with a scale and a zero point per group of inputs.
//!
//! GPTQ and AWQ store the transposed weight: a word holds several inputs (GPTQ) or outputs (AWQ). compressed-tensors packs along the inputs of
//! each output.
//!
//! An element is `scale * (integer - zero)` in `f32` (`dequant_gptq` and `dequant_packed` in `conversion/base.py` of llama.cpp). The product of
//! a half-precision scale and such an integer is exact in `f32`. AutoAWQ and GPTQModel round it to half precision; this module does the same for
//! the formats that llama.cpp does not read, AWQ and 3-bit GPTQ.

use core::ops::Range;
use std::collections::BTreeMap;

use gguf_pipeline::Error;

use super::data::{Data, Numbers};
use super::decode::Decode;
use crate::number::{to_index, to_u32};

/// Bits per word.
const WORD: u64 = 32;

/// The order of the eight columns in an AWQ word: column `i` is nibble `AWQ_ORDER[i]`.
const AWQ_ORDER: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Inputs processed at once, chosen so that the output is written in whole cache lines.
const TILE: usize = 16;

/// The packing of a transposed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// A bit stream down each column. Stored zero points are too small by `zero_offset`.
    Gptq { zero_offset: i32 },
    /// Eight columns per word, in the order of AWQ's kernels.
    Awq,
}

/// A transposed weight with groups of inputs.
#[derive(Debug)]
pub(super) struct Transposed {
    pub(super) order: Order,
    pub(super) bits: u32,
    pub(super) words: usize,
    pub(super) zeros: usize,
    pub(super) scales: Numbers,
    pub(super) n_outputs: u64,
    pub(super) n_groups: u64,
    pub(super) groups: Groups,
    /// Whether products are rounded to the format of the scales.
    pub(super) is_rounded: bool,
}

/// The mapping of inputs to groups.
#[derive(Debug, Clone, Copy)]
pub(super) enum Groups {
    /// Consecutive groups of this many inputs; never 0.
    Of(u64),
    /// Group indices in an `I32` tensor.
    Listed(usize),
}

impl Groups {
    /// The groups of a range of inputs.
    pub(super) fn of(self, data: Data<'_>, inputs: Range<u64>, n_groups: u64) -> Result<Vec<u64>, Error> {
        match self {
            Groups::Of(len) => {
                let mut groups = data.buffer(inputs.end.saturating_sub(inputs.start), 0u64)?;
                groups.iter_mut().zip(inputs).for_each(|(group, input)| *group = input / len.max(1));
                Ok(groups)
            }
            Groups::Listed(index) => {
                let words = data.words(index, 1, inputs, 0..1)?;
                let mut groups = data.buffer(words.len() as u64, 0u64)?;
                groups.iter_mut().zip(&words).for_each(|(group, word)| *group = u64::from(*word));
                match groups.iter().find(|group| **group >= n_groups) {
                    Some(group) => {
                        Err(data
                            .changed(index, &format!("there is no group {}", to_u32(to_index(*group)).cast_signed())))
                    }
                    None => Ok(groups),
                }
            }
        }
    }
}

/// The position of a bit in its word.
fn shift_of(bit: u64) -> u32 {
    (bit % WORD) as u32
}

/// An element of a bit stream that starts in `low` and may end in `high`.
fn element(low: u32, high: u32, shift: u32, bits: u32) -> i32 {
    let both = u64::from(low) | u64::from(high) << WORD;
    #[expect(clippy::cast_possible_truncation, reason = "higher bits belong to other elements")]
    let low = (both >> shift) as i32;
    low & ((1 << bits) - 1)
}

impl Transposed {
    /// The range of words in a row that holds a range of outputs, for zero points and AWQ weights.
    fn words_of(&self, outputs: &Range<u64>) -> Range<u64> {
        let bits = u64::from(self.bits);
        outputs.start * bits / WORD..(outputs.end * bits).div_ceil(WORD)
    }

    /// Extracts the element of an output from the words of a row, starting at word `first`.
    fn in_row(&self, row: &[u32], first: u64, output: u64) -> i32 {
        let at = output * u64::from(self.bits);
        let place = to_index(at / WORD - first);
        let word = |place: usize| row.get(place).copied().unwrap_or_default();
        match self.order {
            Order::Gptq { .. } => element(word(place), word(place + 1), shift_of(at), self.bits),
            Order::Awq => {
                let nibble = AWQ_ORDER.get((output % 8) as usize).copied().unwrap_or_default();
                element(word(place), 0, nibble * 4, 4)
            }
        }
    }

    /// Scales and zero points of a range of outputs in a group.
    fn group(&self, data: Data<'_>, group: u64, outputs: &Range<u64>) -> Result<(Vec<f32>, Vec<i32>), Error> {
        let n = outputs.end - outputs.start;
        let scales = data.numbers(self.scales, group * self.n_outputs + outputs.start, n)?;
        let row_words = self.n_outputs * u64::from(self.bits) / WORD;
        let place = self.words_of(outputs);
        let row = data.words(self.zeros, row_words, group..group + 1, place.clone())?;
        let offset = match self.order {
            Order::Gptq { zero_offset } => zero_offset,
            Order::Awq => 0,
        };
        let mut zeros = data.buffer(n, 0)?;
        zeros.iter_mut().zip(outputs.clone()).for_each(|(z, o)| *z = self.in_row(&row, place.start, o) + offset);
        Ok((scales, zeros))
    }
}

impl Decode for Transposed {
    fn decode(&self, data: Data<'_>, outputs: Range<u64>, inputs: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let bits = u64::from(self.bits);
        let of_inputs = self.groups.of(data, inputs.clone(), self.n_groups)?;
        let mut groups: BTreeMap<u64, (Vec<f32>, Vec<i32>)> = BTreeMap::new();
        for &group in &of_inputs {
            if let std::collections::btree_map::Entry::Vacant(place) = groups.entry(group) {
                place.insert(self.group(data, group, &outputs)?);
            }
        }
        // The words of this range of inputs and outputs.
        let (rows, row_words, columns) = match self.order {
            Order::Gptq { .. } => {
                (inputs.start * bits / WORD..(inputs.end * bits).div_ceil(WORD), self.n_outputs, outputs.clone())
            }
            Order::Awq => (inputs.clone(), self.n_outputs * bits / WORD, self.words_of(&outputs)),
        };
        let words = data.words(self.words, row_words, rows.clone(), columns.clone())?;
        let n_words = to_index(columns.end - columns.start);
        let word = |row: u64, column: u64| {
            let place = to_index(row - rows.start) * n_words + to_index(column - columns.start);
            words.get(place).copied().unwrap_or_default()
        };
        let width = to_index(inputs.end - inputs.start);
        for tile in (inputs.start..inputs.end).step_by(TILE) {
            let from = to_index(tile - inputs.start);
            let to = width.min(from + TILE);
            let mut of_tile: [(&[f32], &[i32]); TILE] = [(&[], &[]); TILE];
            for (of_input, group) in of_tile.iter_mut().zip(of_inputs.get(from..to).unwrap_or_default()) {
                *of_input = groups.get(group).map_or((&[], &[]), |(scales, zeros)| (scales, zeros));
            }
            for (output, row) in outputs.clone().zip(out.chunks_exact_mut(width.max(1))) {
                let values = row.get_mut(from..to).unwrap_or_default();
                for ((input, (scales, zeros)), value) in (tile..).zip(of_tile).zip(values) {
                    let place = to_index(output - outputs.start);
                    let (Some(scale), Some(zero)) = (scales.get(place), zeros.get(place)) else { continue };
                    let element = match self.order {
                        Order::Gptq { .. } => {
                            let (row, shift) = (input * bits / WORD, shift_of(input * bits));
                            let is_cut = u64::from(shift + self.bits) > WORD;
                            let high = if is_cut { word(row + 1, output) } else { 0 };
                            element(word(row, output), high, shift, self.bits)
                        }
                        Order::Awq => {
                            let nibble = AWQ_ORDER.get((output % 8) as usize).copied().unwrap_or_default();
                            element(word(input, output * bits / WORD), 0, nibble * 4, 4)
                        }
                    };
                    *value = scale * (element - zero) as f32;
                }
            }
        }
        if self.is_rounded {
            self.scales.number.round(out);
        }
        Ok(())
    }
}

/// A weight packed along its rows, with groups of inputs (compressed-tensors, `pack-quantized`).
#[derive(Debug)]
pub(super) struct PackedRows {
    pub(super) bits: u32,
    pub(super) words: usize,
    /// Words per row.
    pub(super) row_words: u64,
    /// Packed along the rows of the weight. If absent, the zero point is the middle of the range.
    pub(super) zeros: Option<usize>,
    pub(super) scales: Numbers,
    pub(super) n_groups: u64,
    pub(super) groups: Groups,
}

impl Decode for PackedRows {
    fn decode(&self, data: Data<'_>, rows: Range<u64>, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let per_word = WORD / u64::from(self.bits.max(1));
        let groups = self.groups.of(data, columns.clone(), self.n_groups)?;
        let place = columns.start / per_word..columns.end.div_ceil(per_word);
        // Whole rows are read at once, including padding words.
        let place = if rows.end - rows.start > 1 { 0..self.row_words } else { place };
        let words = data.words(self.words, self.row_words, rows.clone(), place.clone())?;
        let n_rows = rows.end - rows.start;
        let scales = data.numbers(self.scales, rows.start * self.n_groups, n_rows.saturating_mul(self.n_groups))?;
        let zero_rows = rows.start / per_word..rows.end.div_ceil(per_word);
        let zeros = match self.zeros {
            Some(zeros) => Some(data.words(zeros, self.n_groups, zero_rows.clone(), 0..self.n_groups)?),
            None => None,
        };
        let n_words = to_index(place.end - place.start);
        let width = to_index(columns.end - columns.start);
        let shift = |number: u64| shift_of(number % per_word * u64::from(self.bits));
        let bits = |word: u32, number: u64| element(word, 0, shift(number), self.bits);
        let n_groups = to_index(self.n_groups);
        for (i, (row, out)) in rows.clone().zip(out.chunks_exact_mut(width.max(1))).enumerate() {
            let words = words.get(i * n_words..).unwrap_or_default();
            let scales = scales.get(i * n_groups..).unwrap_or_default();
            let zeros = zeros
                .as_deref()
                .map(|zeros| zeros.get(to_index(row / per_word - zero_rows.start) * n_groups..).unwrap_or_default());
            for ((column, group), value) in columns.clone().zip(&groups).zip(out) {
                let word = words.get(to_index(column / per_word - place.start)).copied().unwrap_or_default();
                let group = to_index(*group);
                let zero = match zeros {
                    Some(zeros) => bits(zeros.get(group).copied().unwrap_or_default(), row),
                    None => 1 << (self.bits - 1),
                };
                *value = (bits(word, column) - zero) as f32 * scales.get(group).copied().unwrap_or_default();
            }
        }
        Ok(())
    }
}

/// Ternary weights, four per byte: byte row `i` holds rows `i`, `i + n`, `i + 2 n` and `i + 3 n` (BitNet; `dequant_bitnet`).
#[derive(Debug)]
pub(super) struct Ternary {
    pub(super) bytes: usize,
    /// Number of byte rows.
    pub(super) n_rows: u64,
    pub(super) columns: u64,
    /// The divisor of the values.
    pub(super) scale: Numbers,
}

impl Decode for Ternary {
    fn decode(&self, data: Data<'_>, rows: Range<u64>, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let scale = data.numbers(self.scale, 0, 1)?.first().copied().unwrap_or_default();
        let width = to_index(columns.end - columns.start);
        for (row, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
            let (part, row) = (row / self.n_rows.max(1), row % self.n_rows.max(1));
            let bytes = data.bytes(self.bytes, row * self.columns + columns.start, out.len() as u64)?;
            for (value, byte) in out.iter_mut().zip(&bytes) {
                *value = (f32::from(byte >> (2 * part) & 3) - 1.0) / scale;
            }
        }
        Ok(())
    }
}
