//! Repeated bytes in tensor data: the commonest damage of downloads into preallocated files, whose length is right.

use std::ops::Range;

use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, TensorInfoRef};

/// The minimum length of a run of zero bytes that is reported.
const MIN_RUN: u64 = 64 << 10;

/// The unit in which zeros are looked for. Any run of [`MIN_RUN`] contains many of them.
const UNIT: usize = 4096;

/// The maximum number of zero bytes beside whole rows: a row of a model may begin or end with some.
const MAX_EDGE: u64 = 256;

/// The minimum size of a matrix whose values may not all be equal.
const MIN_MATRIX: u64 = 4096;

/// Whether repeated bytes are unusual in a tensor: in a matrix of weights. Biases, norms and other vectors may well be zero, or all ones.
pub(super) fn are_unusual(tensor: &TensorInfoRef<'_>, bytes: u64) -> bool {
    let ty = tensor.ty;
    let is_of_floats = [GgmlType::F32, GgmlType::F16, GgmlType::BF16, GgmlType::F64].contains(&ty)
        || ty.info().is_some_and(|info| info.is_quantized());
    let is_wide = tensor.dims.filter(|n| *n > 1).count() > 1;
    is_of_floats && is_wide && bytes >= MIN_MATRIX && !tensor.name.as_bytes().ends_with(b".bias")
}

/// Repeated bytes in the data of a tensor, which are unusual in weights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Repeats {
    /// Whether all bytes are zero. Then nothing else is reported.
    pub is_zero: bool,
    /// Whether all values are equal, or all blocks of a quantized type.
    pub is_constant: bool,
    /// Runs of at least 64 KiB of zero bytes that begin or end within a row. Rows of less than 4 KiB are counted together with the next
    /// dimension.
    pub holes: Runs,
    /// Other runs of at least that length: whole rows, as in a padded vocabulary or an unused expert.
    pub rows: Runs,
}

/// Runs of zero bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Runs {
    /// Their number.
    pub n: u64,
    /// Their total length.
    pub bytes: u64,
    /// The first one, in bytes from the start of the tensor's data.
    pub first: Option<Range<u64>>,
}

impl Runs {
    fn add(&mut self, run: Range<u64>) {
        self.n += 1;
        self.bytes += run.end - run.start;
        if self.first.as_ref().is_none_or(|first| run.start < first.start) {
            self.first = Some(run);
        }
    }

    fn join(&mut self, more: Runs) {
        self.n += more.n;
        self.bytes += more.bytes;
        self.first = [self.first.take(), more.first].into_iter().flatten().min_by_key(|run| run.start);
    }
}

/// The layout of a tensor's data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Bytes of a block, or of a plain number.
    pub(super) block_bytes: u64,
    row_bytes: u64,
}

impl Layout {
    pub(super) fn of(tensor: &TensorInfoRef<'_>) -> Layout {
        let (block_bytes, block_len) = tensor
            .ty
            .info()
            .map_or((1, 1), |info| (u64::from(info.block_bytes).max(1), u64::from(info.block_len).max(1)));
        let dims: Vec<u64> = tensor.dims.collect();
        let mut row_bytes = dims.first().map_or(1, |n| n / block_len).saturating_mul(block_bytes).max(1);
        for n in dims.iter().skip(1).rev().skip(1).rev() {
            if row_bytes < UNIT as u64 {
                row_bytes = row_bytes.saturating_mul((*n).max(1));
            }
        }
        Layout { block_bytes, row_bytes }
    }

    fn are_rows(&self, run: &Range<u64>) -> bool {
        let first = run.start.next_multiple_of(self.row_bytes);
        let last = run.end - run.end % self.row_bytes;
        first < last && first - run.start < MAX_EDGE && run.end - last < MAX_EDGE
    }

    fn sort(&self, run: Range<u64>, into: &mut Repeats) {
        if run.end - run.start >= MIN_RUN {
            if self.are_rows(&run) { into.rows.add(run) } else { into.holes.add(run) }
        }
    }
}

/// A piece of a tensor: the runs inside of it, and the zeros at its ends, which may continue in the next piece.
#[derive(Debug)]
pub(super) struct Piece {
    range: Range<u64>,
    /// Zero bytes at the start and the end; both are the length if there are no others.
    zeros: [u64; 2],
    inside: Repeats,
    /// The block that all blocks are equal to.
    block: Option<Vec<u8>>,
}

/// Searches a piece of a tensor, which consists of whole blocks.
pub(super) fn search(layout: Layout, from: u64, bytes: &[u8]) -> Piece {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let len = bytes.len() as u64;
    let start = bytes.iter().take_while(|&&byte| byte == 0).count();
    let end = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    let mut inside = Repeats::default();
    let mut done = start;
    for (i, unit) in bytes.chunks_exact(UNIT).enumerate() {
        let at = i * UNIT;
        if at < done || at + UNIT > bytes.len() - end || !is_zero(unit) {
            continue;
        }
        let count = |bytes: &mut dyn Iterator<Item = &u8>| bytes.take_while(|&&byte| byte == 0).count();
        let before = count(&mut bytes.get(done..at).unwrap_or_default().iter().rev());
        let after = count(&mut bytes.get(at..).unwrap_or_default().iter());
        let run = from + (at - before) as u64..from + (at + after) as u64;
        layout.sort(run, &mut inside);
        done = at + after;
    }
    let block = usize::try_from(layout.block_bytes).unwrap_or(usize::MAX);
    let is_constant = bytes.get(block..).is_some_and(|rest| rest == bytes.get(..rest.len()).unwrap_or_default());
    let block = bytes.get(..block).filter(|_| is_constant).map(<[u8]>::to_vec);
    Piece { range: from..from + len, zeros: [start as u64, end as u64], inside, block }
}

/// Joins the pieces of a tensor.
pub(super) fn join(layout: Layout, mut pieces: Vec<Piece>) -> Repeats {
    pieces.compact_sort_by_key(|piece| piece.range.start);
    let mut all = Repeats::default();
    let first = pieces.first().and_then(|piece| piece.block.clone());
    all.is_constant = first.is_some() && pieces.iter().all(|piece| piece.block == first);
    all.is_zero = all.is_constant && pieces.iter().all(|piece| piece.zeros[0] == piece.range.end - piece.range.start);
    if all.is_zero {
        return all;
    }
    let mut open: Option<Range<u64>> = None;
    for Piece { range, zeros: [start, end], inside, .. } in pieces {
        let is_whole = start == range.end - range.start;
        let run = open.take().map_or(range.start, |run| run.start)..range.start + start;
        match is_whole {
            true => open = Some(run),
            false => {
                layout.sort(run, &mut all);
                open = Some(range.end - end..range.end);
            }
        }
        all.holes.join(inside.holes);
        all.rows.join(inside.rows);
    }
    if let Some(run) = open {
        layout.sort(run, &mut all);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 1024;

    /// Searches data in pieces of that size.
    fn repeats(row_bytes: u64, bytes: &[u8], piece: usize) -> Repeats {
        let layout = Layout { block_bytes: 2, row_bytes };
        let pieces = bytes.chunks(piece).enumerate().map(|(i, bytes)| search(layout, (i * piece) as u64, bytes));
        join(layout, pieces.collect())
    }

    /// Random bytes, none of them zero, with zeros in the given ranges.
    fn data(len: usize, zeros: &[Range<usize>]) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7919 % 255) as u8 + 1).collect();
        zeros.iter().for_each(|range| bytes[range.clone()].fill(0));
        bytes
    }

    #[test]
    #[allow(clippy::type_complexity, clippy::single_range_in_vec_init, reason = "a table of ranges")]
    fn runs_are_found_in_pieces_of_any_size() {
        let len = 1024 * K;
        // The zeros, then the expected holes and rows of 8 KiB.
        type Ranges<'a> = &'a [Range<usize>];
        let cases: &[(Ranges<'_>, Ranges<'_>, Ranges<'_>)] = &[
            (&[], &[], &[]),
            (&[5000..5000 + 64 * K], &[5000..5000 + 64 * K], &[]),
            (&[5000..4999 + 64 * K], &[], &[]),
            (&[0..80 * K], &[], &[0..80 * K]),
            (&[0..80 * K + 4000], &[0..80 * K + 4000], &[]),
            (&[8 * K - 20..88 * K + 100], &[], &[8 * K - 20..88 * K + 100]),
            (&[500_000..len], &[500_000..len], &[]),
            (&[512 * K..len], &[], &[512 * K..len]),
            (&[1000..300 * K, 301 * K..500 * K + 1], &[1000..300 * K, 301 * K..500 * K + 1], &[]),
            (&[1..len], &[1..len], &[]),
        ];
        for (zeros, holes, rows) in cases {
            let bytes = data(len, zeros);
            for piece in [len, 512 * K, 64 * K, 10_000, 4096] {
                let found = repeats(8 * K as u64, &bytes, piece);
                let runs = |ranges: &[Range<usize>]| Runs {
                    n: ranges.len() as u64,
                    bytes: ranges.iter().map(|range| range.len() as u64).sum(),
                    first: ranges.first().map(|range| range.start as u64..range.end as u64),
                };
                let expected = Repeats { holes: runs(holes), rows: runs(rows), ..Repeats::default() };
                assert_eq!(found, expected, "{zeros:?} {piece}");
            }
        }
    }

    #[test]
    fn constant_data_is_found_in_pieces_of_any_size() {
        for piece in [2, 4096, 100_000] {
            let zero = repeats(64, &vec![0; 100_000], piece);
            assert_eq!(zero, Repeats { is_zero: true, is_constant: true, ..Repeats::default() });
            let ones = repeats(64, &[0, 0x3c].repeat(50_000), piece);
            assert_eq!(ones, Repeats { is_constant: true, ..Repeats::default() });
            let mut other = [0, 0x3c].repeat(50_000);
            other[77_777] = 1;
            assert_eq!(repeats(64, &other, piece), Repeats::default());
            other.fill(0);
            other[77_777] = 1;
            assert!(!repeats(64, &other, piece).is_constant);
        }
    }
}
