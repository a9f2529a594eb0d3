//! Elements of tensors, moved between layouts.

/// A loop over elements: how many there are, and the distance of two in bytes, where they are read and where they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// The number of elements.
    pub count: usize,
    /// Their distance where they are read.
    pub from: usize,
    /// Their distance where they are written.
    pub to: usize,
}

/// Elements per tile, in each direction.
const TILE: usize = 32;

/// Moves the elements of a matrix, each of `width` bytes, from `raw` to `out`, of which the first has the byte `to`. They are contiguous along
/// `rows` in `raw`, so `rows.from` is the width. Elements outside of the slices are left out.
///
/// ```
/// use gguf_quants::elements::{Loop, transpose};
///
/// // Two rows of three elements become three rows of two.
/// let mut out = [0; 6];
/// let (rows, run) = (Loop { count: 3, from: 1, to: 2 }, Loop { count: 2, from: 3, to: 1 });
/// transpose(1, rows, run, &[1, 2, 3, 4, 5, 6], &mut out, 0);
/// assert_eq!(out, [1, 4, 2, 5, 3, 6]);
/// ```
///
/// Numbers and blocks of MXFP4 (17 bytes) and NVFP4 (36) are moved by tiles, other widths one by one.
pub fn transpose(width: usize, rows: Loop, run: Loop, raw: &[u8], out: &mut [u8], to: usize) {
    match width {
        1 => by_tiles::<1>(rows, run, raw, out, to),
        2 => by_tiles::<2>(rows, run, raw, out, to),
        4 => by_tiles::<4>(rows, run, raw, out, to),
        8 => by_tiles::<8>(rows, run, raw, out, to),
        17 => by_tiles::<17>(rows, run, raw, out, to),
        36 => by_tiles::<36>(rows, run, raw, out, to),
        width => {
            for (row, column) in (0..rows.count).flat_map(|row| (0..run.count).map(move |column| (row, column))) {
                let (from, to) = (row * rows.from + column * run.from, to + row * rows.to + column * run.to);
                if let (Some(from), Some(to)) = (raw.get(from..from + width), out.get_mut(to..to + width)) {
                    to.copy_from_slice(from);
                }
            }
        }
    }
}

/// By tiles, so that both sides stay in the cache.
#[expect(clippy::indexing_slicing, reason = "rows are counted up to the size of a tile; checks would cost time")]
fn by_tiles<const W: usize>(rows: Loop, run: Loop, raw: &[u8], out: &mut [u8], to: usize) {
    let mut tile = [[[0u8; W]; TILE]; TILE];
    for row in (0..rows.count).step_by(TILE) {
        let n_rows = TILE.min(rows.count - row);
        for column in (0..run.count).step_by(TILE) {
            let n_columns = TILE.min(run.count - column);
            for (c, line) in tile.iter_mut().enumerate().take(n_columns) {
                let start = (column + c) * run.from + row * W;
                let elements = raw.get(start..start + n_rows * W).unwrap_or_default();
                for (to, from) in line.iter_mut().zip(elements.as_chunks::<W>().0) {
                    *to = *from;
                }
            }
            for r in 0..n_rows {
                let start = to + (row + r) * rows.to + column * run.to;
                if run.to == W {
                    let line = out.get_mut(start..start + n_columns * W).unwrap_or_default();
                    for (to, from) in line.as_chunks_mut::<W>().0.iter_mut().zip(&tile) {
                        *to = from[r];
                    }
                } else {
                    for (c, from) in tile.iter().enumerate().take(n_columns) {
                        if let Some(to) = out.get_mut(start + c * run.to..start + c * run.to + W) {
                            to.copy_from_slice(&from[r]);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_is_transposed() {
        let (n_rows, n_columns) = (45, 37);
        for width in [1, 2, 3, 4, 8, 17, 36] {
            let raw: Vec<u8> = (0..n_rows * n_columns * width).map(|i| (i * 31 % 251) as u8).collect();
            // Written with a gap after each row and none, and from a place on.
            for gap in [0, width] {
                let line = n_columns * width + gap;
                let mut out = vec![0; 5 + n_rows * line];
                let rows = Loop { count: n_rows, from: width, to: line };
                let run = Loop { count: n_columns, from: n_rows * width, to: width };
                transpose(width, rows, run, &raw, &mut out, 5);
                for row in 0..n_rows {
                    for column in 0..n_columns {
                        let (from, to) = ((column * n_rows + row) * width, 5 + row * line + column * width);
                        assert_eq!(out[to..to + width], raw[from..from + width], "{width} {row} {column}");
                    }
                }
            }
        }
    }
}
