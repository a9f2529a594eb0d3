//! Rows to encode, and the tiles in which kernels process them.

use core::fmt;

use crate::lanes::MAX_LANES;

/// Rows of one tensor to encode in one call: values, the length of a row, and the importance of each column.
///
/// A row corresponds to ggml's `n_per_row`: some types read a whole row, and the importance matrix has one weight for each column, the same
/// for every row. Many rows in one call are faster than one: kernels process up to thirty-two blocks at a time.
///
/// ```
/// use gguf_quants::Rows;
///
/// let values = [1.0; 3 * 32];
/// let rows = Rows::new(&values, 32, None)?;
/// assert_eq!(rows.values().len() / rows.row_len(), 3);
/// assert!(Rows::new(&values, 64, None).is_err());
/// # Ok::<(), gguf_quants::RowsError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    values: &'a [f32],
    row_len: usize,
    weights: Option<&'a [f32]>,
    /// The mean square of the whole row, if the values are a part of one.
    mean_square: Option<f32>,
}

/// Errors of [`Rows::new`] and [`Rows::part_of_row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowsError {
    /// The values are not a whole number of rows.
    PartialRow {
        /// Values given.
        values: usize,
        /// Length of a row.
        row_len: usize,
    },
    /// The number of weights differs from the number of columns.
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
                write!(f, "expected {row_len} importance weights per row, found {weights}")
            }
        }
    }
}

impl core::error::Error for RowsError {}

impl<'a> Rows<'a> {
    /// Rows of `row_len` values each; `weights` has one entry for each column.
    ///
    /// # Errors
    /// [`RowsError`] if the lengths do not match.
    pub fn new(values: &'a [f32], row_len: usize, weights: Option<&'a [f32]>) -> Result<Rows<'a>, RowsError> {
        if !values.len().is_multiple_of(row_len) {
            return Err(RowsError::PartialRow { values: values.len(), row_len });
        }
        if let Some(w) = weights
            && w.len() != row_len
        {
            return Err(RowsError::Weights { weights: w.len(), row_len });
        }
        Ok(Rows { values, row_len, weights, mean_square: None })
    }

    /// A part of one row: whole blocks, starting at any block. `weights` has one entry for each column of the part, `squares` are the
    /// squares of the whole row, which some encoders need ([`Codec::looks_at_rows`](crate::Codec::looks_at_rows)). The bytes are the same
    /// as in the whole encoded row.
    ///
    /// ```
    /// use gguf_format::GgmlType;
    /// use gguf_quants::{RowSquares, Rows, codec};
    ///
    /// let row: Vec<f32> = (0..128).map(|i| i as f32 - 50.0).collect();
    /// let weights = vec![1.0; 128];
    /// let codec = codec(GgmlType::Q4_0).unwrap();
    /// let (mut whole, mut part) = ([0; 4 * 18], [0; 18]);
    /// codec.encode(Rows::new(&row, 128, Some(&weights))?, &mut whole)?;
    ///
    /// let mut squares = RowSquares::default();
    /// squares.add(&row);
    /// codec.encode(Rows::part_of_row(&row[64..96], Some(&weights[64..96]), squares)?, &mut part)?;
    /// assert_eq!(part, whole[36..54]);
    /// # Ok::<(), gguf_quants::CodecError>(())
    /// ```
    ///
    /// # Errors
    /// [`RowsError::Weights`] if the number of weights differs from the number of columns.
    pub fn part_of_row(
        values: &'a [f32],
        weights: Option<&'a [f32]>,
        squares: RowSquares,
    ) -> Result<Rows<'a>, RowsError> {
        let rows = Rows::new(values, values.len(), weights)?;
        Ok(Rows { mean_square: Some(squares.mean()), ..rows })
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

    /// The mean square of the row that contains the values; `None` for whole rows.
    pub(crate) fn mean_square(&self) -> Option<f32> {
        self.mean_square
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

    /// The blocks `first..first + n` side by side; past the end, the last block is repeated, and all of them are in `last`.
    #[inline(always)]
    pub(crate) fn tile<'t, const LEN: usize>(
        &self,
        first: usize,
        n: usize,
        last: &'t mut Option<[[f32; LEN]; MAX_LANES]>,
    ) -> Tile<'t, LEN>
    where
        'a: 't,
    {
        let all = self.values.as_chunks::<LEN>().0;
        let blocks = match all.get(first..first + n) {
            Some(blocks) => blocks,
            None => &repeat_last(&all[first..], last)[..n],
        };
        let weights = self.weights.map(|weights| weights.as_chunks().0);
        Tile { blocks, first, len: n.min(all.len() - first), weights }
    }
}

/// The rest of the blocks, of which the last is repeated. Apart from [`Rows::tile`], which is compiled for each kernel.
#[cold]
#[inline(never)]
fn repeat_last<'t, const LEN: usize>(
    rest: &[[f32; LEN]],
    to: &'t mut Option<[[f32; LEN]; MAX_LANES]>,
) -> &'t [[f32; LEN]; MAX_LANES] {
    let to = to.insert([rest[rest.len() - 1]; MAX_LANES]);
    to[..rest.len()].copy_from_slice(rest);
    to
}

/// The sum of a row's squares in single precision and in their order, as in the references of some types; a row may be added in parts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RowSquares {
    sum: f32,
    n: u64,
}

impl RowSquares {
    /// Adds the next values of the row.
    pub fn add(&mut self, values: &[f32]) {
        self.sum = add_squares(self.sum, values);
        self.n += values.len() as u64;
    }

    /// The mean of the squares.
    pub(crate) fn mean(self) -> f32 {
        self.sum / self.n as f32
    }
}

/// Never inlined, so that a sum with several NaNs gives the same one everywhere.
#[inline(never)]
fn add_squares(mut sum: f32, values: &[f32]) -> f32 {
    for x in values {
        sum += x * x;
    }
    sum
}

/// Blocks of `LEN` values, one for each lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a, const LEN: usize> {
    /// The values of all lanes.
    pub blocks: &'a [[f32; LEN]],
    /// The number of the first block.
    first: usize,
    /// The number of lanes with distinct blocks; the others repeat the last block.
    pub len: usize,
    /// The weights of a row.
    weights: Option<&'a [[f32; LEN]]>,
}

impl<'a, const LEN: usize> Tile<'a, LEN> {
    /// Bit `i` is set if lane `i` holds a distinct block.
    #[inline(always)]
    pub fn lanes(&self) -> u32 {
        u32::MAX >> (MAX_LANES - self.len)
    }

    /// Each lane's values; past the last lane, those of the first.
    #[inline(always)]
    pub fn values(&self) -> [&'a [f32; LEN]; MAX_LANES] {
        let mut values = [&self.blocks[0]; MAX_LANES];
        for (value, block) in values.iter_mut().zip(self.blocks) {
            *value = block;
        }
        values
    }

    /// Whether the columns have weights.
    #[inline(always)]
    pub fn has_weights(&self) -> bool {
        self.weights.is_some()
    }

    /// The weights of each lane's columns.
    #[inline(always)]
    pub fn weights(&self) -> Option<[&'a [f32; LEN]; MAX_LANES]> {
        self.weights.map(|weights| columns(weights, self.first, self.len))
    }
}

/// The weights of the columns of `n` blocks, the last of which are repeated. Apart from [`Tile::weights`], which is compiled for each kernel.
#[inline(never)]
fn columns<const LEN: usize>(weights: &[[f32; LEN]], first: usize, n: usize) -> [&[f32; LEN]; MAX_LANES] {
    let mut at = first % weights.len();
    let mut columns = [&weights[at]; MAX_LANES];
    for lane in 1..MAX_LANES {
        if lane < n {
            at = if at + 1 < weights.len() { at + 1 } else { 0 };
        }
        columns[lane] = &weights[at];
    }
    columns
}
