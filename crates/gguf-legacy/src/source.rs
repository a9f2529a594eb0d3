//! A legacy file as the source of a plan: rows in the order of the output, in existing layouts.

use std::path::PathBuf;

use gguf_pipeline::{Error, Source, SourceVersion};

use crate::block::{Encoding, Reading, blocks_of_planes, memory_len};
use crate::file::{Bytes, Piece};

/// Approximate number of bytes to rearrange at a time.
const PIECE: u64 = 1 << 20;

/// The tensors of a legacy file.
#[derive(Debug)]
pub(crate) struct LegacySource {
    pub(crate) parts: Vec<(PathBuf, Bytes)>,
    pub(crate) tensors: Vec<SourceTensor>,
}

/// A tensor of the output: its rows, and their places in the file.
#[derive(Debug, Clone)]
pub(crate) struct SourceTensor {
    pub(crate) name: String,
    pub(crate) reading: Reading,
    /// Elements of a row.
    pub(crate) row_len: u64,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) are_columns: bool,
    /// The rows of the file, in the order of the output.
    pub(crate) order: Vec<Run>,
}

/// Consecutive rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) from: u64,
    pub(crate) n: u64,
}

impl SourceTensor {
    /// Blocks of a row.
    fn row_blocks(&self) -> u64 {
        self.row_len / self.reading.encoding.block().0
    }

    fn n_rows(&self) -> u64 {
        self.order.iter().map(|run| run.n).sum()
    }

    /// Bytes of the tensor after reading.
    fn n_bytes(&self) -> u64 {
        self.n_rows().saturating_mul(self.row_blocks()).saturating_mul(self.reading.block_bytes())
    }

    /// The row of the file for row `row` of the output, and the number of consecutive rows from there.
    fn find(&self, row: u64) -> Option<(u64, u64)> {
        let mut before = 0;
        self.order.iter().find_map(|run| {
            let at = row.checked_sub(before)?;
            before += run.n;
            (at < run.n).then(|| (run.from + at, run.n - at))
        })
    }

    /// The piece that contains a row, if pieces are split by rows: its number, the row in it, and the number of rows that follow.
    fn piece_of(&self, row: u64) -> Option<(&Piece, u64, u64)> {
        let mut before = 0;
        self.pieces.iter().find_map(|piece| {
            let at = row.checked_sub(before)?;
            before += piece.n_rows;
            (at < piece.n_rows).then(|| (piece, at, piece.n_rows - at))
        })
    }
}

/// Consecutive blocks of a file.
struct Stretch<'a> {
    piece: &'a Piece,
    /// The first row, in the piece.
    row: u64,
    /// The first block in that row.
    block: u64,
    n: u64,
}

impl LegacySource {
    /// The stretch that starts with a block of the output, at most `most` blocks long.
    fn stretch<'a>(&self, tensor: &'a SourceTensor, first: u64, most: u64) -> Option<Stretch<'a>> {
        let row_blocks = tensor.row_blocks();
        let (row, block) = (first.checked_div(row_blocks)?, first.checked_rem(row_blocks)?);
        let (row, n_rows) = tensor.find(row)?;
        if tensor.are_columns {
            // All pieces have the same width.
            let width = tensor.pieces.first()?.row_len / tensor.reading.encoding.block().0;
            let piece = tensor.pieces.get(usize::try_from(block.checked_div(width)?).ok()?)?;
            let block = block % width;
            return Some(Stretch { piece, row, block, n: most.min(width - block) });
        }
        let (piece, row, n_of_piece) = tensor.piece_of(row)?;
        let n = n_rows.min(n_of_piece).saturating_mul(row_blocks) - block;
        Some(Stretch { piece, row, block, n: most.min(n) })
    }

    /// Reads whole blocks of the output.
    fn read_blocks(&self, tensor: &SourceTensor, mut first: u64, mut out: &mut [u8]) -> Result<(), Error> {
        let block_bytes = tensor.reading.block_bytes();
        while !out.is_empty() {
            let left = out.len() as u64 / block_bytes;
            let stretch = self.stretch(tensor, first, left).filter(|stretch| stretch.n > 0);
            let Some(stretch) = stretch else { return Err(out_of(tensor)) };
            let (now, rest) = out.split_at_mut(memory_len(stretch.n * block_bytes));
            self.read_stretch(tensor, &stretch, now)?;
            first += stretch.n;
            out = rest;
        }
        Ok(())
    }

    fn read_stretch(&self, tensor: &SourceTensor, stretch: &Stretch<'_>, out: &mut [u8]) -> Result<(), Error> {
        let reading = tensor.reading;
        let (block_len, raw_bytes) = reading.encoding.block();
        let Stretch { piece, row, block, n } = *stretch;
        let row_blocks = piece.row_len / block_len;
        if let Encoding::Planar(ty) = reading.encoding {
            // Scales and levels of a row are separate: rows are read whole.
            let (mut planes, mut blocks) =
                (buffer(tensor, row_blocks * raw_bytes)?, buffer(tensor, row_blocks * raw_bytes)?);
            let (mut row, mut block, mut out) = (row, block, out);
            while !out.is_empty() {
                self.read_raw(tensor, piece, piece.offset + row * row_blocks * raw_bytes, &mut planes)?;
                blocks_of_planes(ty, &planes, &mut blocks);
                let n = (row_blocks - block).min(out.len() as u64 / reading.block_bytes());
                let (now, rest) = out.split_at_mut(memory_len(n * reading.block_bytes()));
                let from = memory_len(block * raw_bytes);
                reading.convert(blocks.get(from..from + memory_len(n * raw_bytes)).unwrap_or_default(), now);
                (row, block, out) = (row + 1, 0, rest);
            }
            return Ok(());
        }
        let start = piece.offset + (row * row_blocks + block) * raw_bytes;
        if reading.is_copy() {
            return self.read_raw(tensor, piece, start, out);
        }
        let at_once = (PIECE / raw_bytes).max(1).min(n);
        let mut raw = buffer(tensor, at_once * raw_bytes)?;
        let chunks = out.chunks_mut(memory_len(at_once * reading.block_bytes()));
        for (i, out) in (0u64..).zip(chunks) {
            let n = out.len() as u64 / reading.block_bytes();
            let raw = raw.get_mut(..memory_len(n * raw_bytes)).unwrap_or_default();
            self.read_raw(tensor, piece, start + i * at_once * raw_bytes, raw)?;
            reading.convert(raw, out);
        }
        Ok(())
    }

    fn read_raw(&self, tensor: &SourceTensor, piece: &Piece, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let (path, bytes) = self.parts.get(piece.part).ok_or_else(|| out_of(tensor))?;
        bytes.read_exact_at(offset, out).map_err(|e| Error::io("read", path, e))
    }
}

impl Source for LegacySource {
    fn versions(&self) -> Vec<SourceVersion> {
        self.parts.iter().filter_map(|(path, bytes)| SourceVersion::of(path, bytes)).collect()
    }

    fn read(&self, index: usize, offset: u64, buffer_: &mut [u8]) -> Result<(), Error> {
        let tensor = self.tensors.get(index);
        let tensor = tensor.ok_or_else(|| Error::OutOfTensor { tensor: format!("number {index}"), bytes: 0 })?;
        let end = offset.checked_add(buffer_.len() as u64);
        let Some(end) = end.filter(|&end| end <= tensor.n_bytes()) else { return Err(out_of(tensor)) };
        let block_bytes = tensor.reading.block_bytes();
        let (first, last) = (offset / block_bytes, end.div_ceil(block_bytes));
        if offset.is_multiple_of(block_bytes) && end.is_multiple_of(block_bytes) {
            return self.read_blocks(tensor, first, buffer_);
        }
        // Single values of larger blocks may be requested.
        let mut blocks = buffer(tensor, (last - first) * block_bytes)?;
        self.read_blocks(tensor, first, &mut blocks)?;
        let from = memory_len(offset - first * block_bytes);
        buffer_.copy_from_slice(blocks.get(from..from + buffer_.len()).unwrap_or_default());
        Ok(())
    }
}

fn out_of(tensor: &SourceTensor) -> Error {
    Error::OutOfTensor { tensor: tensor.name.clone(), bytes: tensor.n_bytes() }
}

/// Allocates a buffer, without aborting if memory is exhausted.
fn buffer(tensor: &SourceTensor, bytes: u64) -> Result<Vec<u8>, Error> {
    let refused = || Error::OutOfMemory { tensor: tensor.name.clone(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).map_err(|_| refused())?;
    buffer.resize(len, 0);
    Ok(buffer)
}
