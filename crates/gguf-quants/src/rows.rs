//! Rows to encode, and the tiles that kernels take them in.

use core::fmt;

use crate::lanes::MAX_LANES;

/// Rows of one tensor that are encoded with one call: values, the length of a row, and the importance of each column.
///
/// A row is what ggml calls `n_per_row`: some types look at a whole row, and the importance matrix has one weight for each column,
/// the same for every row. Many rows in one call are faster than one: kernels take sixteen or thirty-two blocks at a time.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    values: &'a [f32],
    row_len: usize,
    weights: Option<&'a [f32]>,
}

/// Why values are not rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsError {
    /// The values are not a whole number of rows.
    PartialRow {
        /// Values given.
        values: usize,
        /// Length of a row.
        row_len: usize,
    },
    /// There is not one weight for each column.
    Weights {
        /// Weights given.
        weights: usize,
        /// Length of a row.
        row_len: usize,
    },
}

impl fmt::Display for RowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowsError::PartialRow { values, row_len } => {
                write!(f, "{values} values are not a whole number of rows of {row_len}")
            }
            RowsError::Weights { weights, row_len } => {
                write!(f, "{weights} weights of importance for rows of {row_len}")
            }
        }
    }
}

impl core::error::Error for RowsError {}

impl<'a> Rows<'a> {
    /// Rows of `row_len` values each; `weights` has one entry for each column.
    ///
    /// # Errors
    /// [`RowsError`] when the lengths do not fit each other.
    pub fn new(values: &'a [f32], row_len: usize, weights: Option<&'a [f32]>) -> Result<Rows<'a>, RowsError> {
        if !values.len().is_multiple_of(row_len) {
            return Err(RowsError::PartialRow { values: values.len(), row_len });
        }
        if let Some(w) = weights
            && w.len() != row_len
        {
            return Err(RowsError::Weights { weights: w.len(), row_len });
        }
        Ok(Rows { values, row_len, weights })
    }

    /// All values, row after row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Values in a row.
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// The importance of each column.
    pub fn weights(&self) -> Option<&'a [f32]> {
        self.weights
    }

    /// A block's values. `LEN` divides the length of a row.
    #[inline]
    pub(crate) fn block<const LEN: usize>(&self, block: usize) -> &'a [f32; LEN] {
        &self.values.as_chunks::<LEN>().0[block]
    }

    /// The weights of a block's columns.
    #[inline]
    pub(crate) fn block_weights<const LEN: usize>(&self, block: usize) -> Option<&'a [f32; LEN]> {
        let blocks = self.weights?.as_chunks::<LEN>().0;
        Some(&blocks[block % blocks.len()])
    }

    /// The blocks `first..first + n` side by side; past the last block, the last one is repeated.
    #[inline]
    pub(crate) fn tile<const LEN: usize>(&self, first: usize, n: usize) -> Tile<'a, LEN> {
        let blocks = self.values.as_chunks::<LEN>().0;
        let mut tile = Tile { values: [&blocks[first]; MAX_LANES], weights: None, len: n.min(blocks.len() - first) };
        for lane in 0..n {
            tile.values[lane] = &blocks[(first + lane).min(blocks.len() - 1)];
        }
        if let Some(weights) = self.weights {
            let columns = weights.as_chunks::<LEN>().0;
            let mut w = [&columns[0]; MAX_LANES];
            for lane in 0..n {
                w[lane] = &columns[(first + lane).min(blocks.len() - 1) % columns.len()];
            }
            tile.weights = Some(w);
        }
        tile
    }
}

/// Blocks of `LEN` values, one for each lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a, const LEN: usize> {
    /// Each lane's values.
    pub values: [&'a [f32; LEN]; MAX_LANES],
    /// The weights of each lane's columns.
    pub weights: Option<[&'a [f32; LEN]; MAX_LANES]>,
    /// How many lanes hold blocks of their own; the others repeat the last block.
    pub len: usize,
}

/// The sub-blocks number `part` of `PART` values, of each lane.
#[inline(always)]
pub(crate) fn part<'a, const LEN: usize, const PART: usize>(
    rows: &[&'a [f32; LEN]; MAX_LANES],
    part: usize,
) -> [&'a [f32; PART]; MAX_LANES] {
    let mut parts = [&rows[0].as_chunks::<PART>().0[part]; MAX_LANES];
    for lane in 0..MAX_LANES {
        parts[lane] = &rows[lane].as_chunks::<PART>().0[part];
    }
    parts
}
