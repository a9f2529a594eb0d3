//! Weights of one tensor, on request: statistics in two passes, maps of regions, and values. The page names the rows and bytes of each
//! step, so that it can stop between two steps, and so that it can fetch the bytes of remote files first.
#![allow(
    clippy::cast_possible_truncation,
    reason = "sizes of blocks, columns of a part of a row, and cells of a map, whose numbers fit; a root mean square of single precision is one, too"
)]

use std::ops::Range;

use ggufkit::edit::stats::{Stats, pieces};
use ggufkit::format::swap_blocks;
use ggufkit::quants::measure::{Figures, TensorError};
use ggufkit::quants::statistics::{Spread, Sums};
use ggufkit::quants::{Codec, codec};
use ggufkit::{ByteOrder, GgmlType, ModelFile, TensorInfoRef};
use serde_json::{Value, json};

use crate::page::{Page, number, text_of};

/// Most values that are decoded at once.
const SPAN: u64 = 1 << 16;

/// One tensor: its bytes, and how to decode them.
pub struct Weights<'a> {
    file: &'a ModelFile,
    pub(crate) info: TensorInfoRef<'a>,
    pub(crate) range: Range<u64>,
    codec: &'static Codec,
    block_len: u64,
    block_bytes: u64,
    pub(crate) packed: Vec<u8>,
    pub(crate) values: Vec<f32>,
}

impl Page {
    /// A tensor, by its shard and its index in it.
    ///
    /// # Errors
    /// The message, if the tensor cannot be decoded.
    pub fn weights(&self, place: (u32, u32)) -> Result<Weights<'_>, String> {
        let tensor = self.files.get(place.0 as usize).and_then(|file| file.tensor_by_index(place.1.into()));
        let tensor = tensor.ok_or("there is no such tensor")?;
        let range = tensor.byte_range().map_err(|e| text_of(&e))?;
        let ty = tensor.ty();
        let no_codec = || format!("values of the type {ty} cannot be decoded");
        let (codec, info) = codec(ty).zip(ty.info()).ok_or_else(no_codec)?;
        Ok(Weights {
            file: tensor.file(),
            info: tensor.info(),
            range,
            codec,
            block_len: u64::from(info.block_len).max(1),
            block_bytes: u64::from(info.block_bytes).max(1),
            packed: Vec::new(),
            values: Vec::new(),
        })
    }
}

impl Weights<'_> {
    /// The number of values of a row.
    pub fn row_len(&self) -> u64 {
        self.info.dims.dim(0)
    }

    /// The number of rows.
    pub fn n_rows(&self) -> u64 {
        self.info.n_elements().unwrap_or(0).checked_div(self.row_len()).unwrap_or(0)
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.row_len() / self.block_len * self.block_bytes
    }

    /// What the page needs to ask for parts of the tensor.
    pub fn describe(&self) -> Value {
        let bytes = self.range.end - self.range.start;
        let step = pieces(self.info.ty, u64::MAX / 2).next().map_or(1, |(_, bytes)| bytes);
        json!({
            "row_len": number(self.row_len()), "n_rows": number(self.n_rows()), "row_bytes": number(self.row_bytes()),
            "start": number(self.file.start() + self.range.start), "bytes": number(bytes), "step": number(step),
        })
    }

    /// Bytes of the tensor, as little-endian blocks.
    pub(crate) fn read(&mut self, from: u64, bytes: u64) -> Result<&[u8], String> {
        let too_much = || "the memory of the page is too small for this".to_owned();
        let at = self.range.start.saturating_add(from);
        if at.saturating_add(bytes) > self.range.end {
            return Err("the tensor is shorter".to_owned());
        }
        let len = usize::try_from(bytes).map_err(|_| too_much())?;
        self.packed.try_reserve(len.saturating_sub(self.packed.len())).map_err(|_| too_much())?;
        self.packed.resize(len, 0);
        self.file.read_at(at, &mut self.packed).map_err(|e| text_of(&e))?;
        if self.file.gguf().dialect().order == ByteOrder::Big {
            swap_blocks(self.info.ty, &mut self.packed).map_err(|e| text_of(&e))?;
        }
        Ok(&self.packed)
    }

    /// Decodes whole blocks.
    pub(crate) fn decode(&mut self, from: u64, bytes: u64) -> Result<&[f32], String> {
        self.read(from, bytes)?;
        let n = self.packed.len() / self.block_bytes as usize * self.block_len as usize;
        self.values.resize(n, 0.0);
        self.codec.decode(&self.packed, &mut self.values).map_err(|e| text_of(&e))?;
        Ok(&self.values)
    }

    /// Columns of a row, in parts: the first column of each, and its values.
    pub(crate) fn columns(
        &mut self,
        row: u64,
        columns: Range<u64>,
        mut take: impl FnMut(u64, &[f32]),
    ) -> Result<(), String> {
        let (len, bytes) = (self.block_len, self.block_bytes);
        let row_start = row.saturating_mul(self.row_bytes());
        let mut at = columns.start;
        while at < columns.end {
            let first = at / len * len;
            let until = columns.end.min(first + SPAN);
            let n_blocks = (until - first).div_ceil(len);
            let values = self.decode(row_start.saturating_add(first / len * bytes), n_blocks * bytes)?;
            take(at, values.get((at - first) as usize..(until - first) as usize).unwrap_or_default());
            at = until;
        }
        Ok(())
    }

    /// Values as `gguf cat --values` prints them, in rows.
    ///
    /// # Errors
    /// The message, if they cannot be read.
    pub fn values(&mut self, rows: Range<u64>, columns: Range<u64>) -> Result<Value, String> {
        let columns = columns.start.min(self.row_len())..columns.end.min(self.row_len());
        let mut lines = Vec::new();
        for row in rows.start..rows.end.min(self.n_rows()) {
            let mut line: Vec<String> = Vec::new();
            match (self.info.ty, columns.end.saturating_sub(columns.start)) {
                // Single precision does not represent all values of these types.
                (ty @ (GgmlType::I32 | GgmlType::I64 | GgmlType::F64), n) => {
                    let width = self.block_bytes;
                    let from = row.saturating_mul(self.row_bytes()) + columns.start * width;
                    for bytes in self.read(from, n * width)?.chunks_exact(width as usize) {
                        line.push(match (ty, bytes.first_chunk(), bytes.first_chunk()) {
                            (GgmlType::I32, Some(four), _) => i32::from_le_bytes(*four).to_string(),
                            (GgmlType::I64, _, Some(eight)) => i64::from_le_bytes(*eight).to_string(),
                            (_, _, Some(eight)) => format!("{:?}", f64::from_le_bytes(*eight)),
                            _ => String::new(),
                        });
                    }
                }
                _ => {
                    self.columns(row, columns.clone(), |_, part| line.extend(part.iter().map(|v| format!("{v:?}"))))?
                }
            }
            lines.push(Value::from(line));
        }
        Ok(Value::from(lines))
    }
}

/// Statistics of a tensor, or of a sample of its rows.
#[derive(Debug, Default)]
pub struct Survey {
    sums: Sums,
    spread: Spread,
}

impl Survey {
    /// Nothing yet, with a number of intervals.
    pub fn new(n_bins: usize) -> Survey {
        Survey { sums: Sums::default(), spread: Spread::new(n_bins) }
    }

    /// Adds bytes of the tensor to the first pass, or once it is complete, to the second one.
    ///
    /// # Errors
    /// The message, if they cannot be read.
    pub fn add(&mut self, weights: &mut Weights<'_>, is_second: bool, from: u64, bytes: u64) -> Result<(), String> {
        for (start, n) in pieces(weights.info.ty, bytes) {
            let values = weights.decode(from + start, n)?;
            if is_second {
                let spread = Spread::of(values, &self.sums, self.spread.bins.len());
                self.spread = std::mem::take(&mut self.spread).and(&spread);
            } else {
                self.sums = self.sums.and(Sums::of(values));
            }
        }
        Ok(())
    }

    /// The statistics, as `gguf cat --json` has them.
    pub fn stats(&self, weights: &Weights<'_>) -> Value {
        let stats = Stats::new(weights.info.ty, weights.info.dims.collect(), &self.sums, self.spread.clone());
        let shown = |value: Option<f32>| value.map(|value| format!("{value:?}"));
        json!({
            "n": number(stats.n), "nan": number(stats.nan), "infinite": number(stats.infinite),
            "zeros": number(stats.zeros), "outliers": number(stats.outliers),
            "min": shown(stats.min), "max": shown(stats.max), "mean": stats.mean, "stddev": stats.stddev, "rms": stats.rms,
            "histogram": stats.histogram,
        })
    }
}

/// A map of a region of a tensor, in cells: a number of lines, each of several rows, and of columns.
#[derive(Debug, Default)]
pub struct Map {
    columns: Range<u64>,
    n_cells: u64,
    cells: Vec<Sums>,
}

impl Map {
    /// A map without values yet.
    pub fn new(columns: Range<u64>, n_lines: u32, n_cells: u32) -> Map {
        let n_cells = u64::from(n_cells).clamp(1, columns.end.saturating_sub(columns.start).max(1));
        Map { columns, n_cells, cells: vec![Sums::default(); n_lines as usize * n_cells as usize] }
    }

    fn add(&mut self, line: u32, column: u64, mut values: &[f32]) {
        let width = self.columns.end - self.columns.start;
        let mut at = column - self.columns.start;
        while !values.is_empty() && width > 0 {
            let cell = at * self.n_cells / width;
            // The first column of the next cell.
            let until = ((cell + 1) * width).div_ceil(self.n_cells);
            let (now, later) = values.split_at(((until - at) as usize).min(values.len()));
            if let Some(sums) = self.cells.get_mut((u64::from(line) * self.n_cells + cell) as usize) {
                *sums = sums.and(Sums::of(now));
            }
            at += now.len() as u64;
            values = later;
        }
    }

    /// Adds rows to a line: their values, or the differences from them in another tensor of the same shape.
    ///
    /// # Errors
    /// The message, if they cannot be read.
    pub fn rows(
        &mut self,
        weights: &mut Weights<'_>,
        mut other: Option<&mut Weights<'_>>,
        line: u32,
        rows: Range<u64>,
    ) -> Result<(), String> {
        for row in rows {
            match &mut other {
                None => weights.columns(row, self.columns.clone(), |column, values| self.add(line, column, values))?,
                Some(other) => {
                    let mut column = self.columns.start;
                    while column < self.columns.end {
                        let until = self.columns.end.min((column / SPAN + 1) * SPAN);
                        let mut differences = Vec::new();
                        other.columns(row, column..until, |_, values| differences.extend_from_slice(values))?;
                        weights.columns(row, column..until, |first, values| {
                            let part = differences.iter_mut().skip((first - column) as usize);
                            part.zip(values).for_each(|(difference, value)| *difference -= value);
                        })?;
                        self.add(line, column, &differences);
                        column = until;
                    }
                }
            }
        }
        Ok(())
    }

    /// Three numbers for each cell: the root mean square, the smallest and the largest value; NaN without finite values.
    pub fn cells(&self) -> Vec<u8> {
        let numbers = self.cells.iter().flat_map(|sums| {
            let of = |value: Option<f32>| value.unwrap_or(f32::NAN);
            [sums.rms().map_or(f32::NAN, |rms| rms as f32), of(sums.min), of(sums.max)]
        });
        numbers.flat_map(f32::to_le_bytes).collect()
    }
}

/// The figures of an error, as a report of `gguf quantize` has them.
pub(crate) fn figures(error: &TensorError) -> Value {
    let Figures { rmse, relative, cosine, largest } = error.figures();
    let largest = largest.map(|l| json!({ "error": l.error, "row": number(l.row), "column": number(l.column) }));
    // Infinite numbers are no JSON.
    let relative = if relative.is_finite() { json!(relative) } else { json!("infinite") };
    json!({
        "n": number(error.n()), "not_finite": number(error.not_finite()),
        "rmse": rmse, "relative": relative, "cosine": cosine, "largest": largest,
    })
}
