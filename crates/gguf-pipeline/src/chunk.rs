//! How the tensors of a plan are cut into chunks: runs of output rows that a few MiB of the source make.

use crate::plan::{Draft, Input, Op, Rounding, TensorPlan};

/// Bytes of source data that one chunk covers, about.
const CHUNK: u64 = 4 << 20;

/// A run of output rows, and the input rows it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// First output row.
    pub(crate) first_row: u64,
    /// Number of rows.
    pub(crate) n_rows: u64,
    /// Elements of a row.
    pub(crate) row_len: u64,
    /// Input rows to read one after the other: the first, and how many.
    pub(crate) reads: Vec<(u64, u64)>,
    /// Rows of a group, when rows change places within groups.
    pub(crate) group_rows: u64,
    /// The number of the matrix that the rows belong to, in a tensor that is a stack of them.
    pub(crate) matrix: u64,
}

/// Whether the values are decoded and encoded by ggml's rules; otherwise they are copied, or cast as the converter does.
pub(crate) fn goes_through_blocks(rounding: Rounding, input: &Input, tensor: &TensorPlan) -> bool {
    match rounding {
        Rounding::Converter => tensor.ty.is_quantized(),
        Rounding::Ggml => input.ty != tensor.ty,
    }
}

/// Cuts the tensors into chunks, in order.
#[derive(Clone)]
pub(crate) struct Chunks<'a> {
    draft: &'a Draft,
    /// Whether chunks have to be whole rows, so that errors of rows can be measured.
    whole_rows: bool,
    tensor: usize,
    row: u64,
}

impl<'a> Chunks<'a> {
    /// Those of the tensors from number `first` on.
    pub(crate) fn from(draft: &'a Draft, first: usize, whole_rows: bool) -> Chunks<'a> {
        Chunks { draft, whole_rows, tensor: first, row: 0 }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (usize, &'a TensorPlan, Chunk);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let index = self.tensor;
            let tensor = self.draft.tensors.get(index)?;
            // Sizes were checked when the file was laid out.
            let n = tensor.n_elements();
            let row_of_shape = tensor.shape.first().copied().unwrap_or(1).max(1);
            let n_rows = match &tensor.op {
                // Where the order of values stays and each is on its own, values are rows of one: a chunk may end anywhere.
                // Errors are those of whole rows.
                Op::Copy(input)
                    if !goes_through_blocks(self.draft.rounding, input, tensor)
                        && !input.ty.is_quantized()
                        && !self.whole_rows =>
                {
                    n
                }
                Op::Copy(_) => n / row_of_shape,
                Op::Computed(_) => n,
                Op::PermuteRows { .. } => tensor.shape.last().copied().unwrap_or(1),
            };
            if n == 0 || self.row >= n_rows {
                (self.tensor, self.row) = (index + 1, 0);
                continue;
            }
            let row_len = n / n_rows;
            let row_bytes = tensor.op.input().map_or(4, |i| i.ty.tensor_bytes([row_len]).unwrap_or(row_len));
            let rows_per_chunk = (CHUNK / row_bytes.max(1)).max(1);
            let chunk = match tensor.op {
                Op::Copy(_) | Op::Computed(_) => {
                    let mut n_rows = rows_per_chunk.min(n_rows - self.row);
                    // Each matrix of a stack has weights of its own.
                    let height =
                        if row_len == row_of_shape { tensor.shape.get(1).copied().unwrap_or(1).max(1) } else { n };
                    if tensor.importance.is_some() {
                        n_rows = n_rows.min(height - self.row % height);
                    }
                    let matrix = self.row / height;
                    Chunk {
                        first_row: self.row,
                        n_rows,
                        row_len,
                        reads: vec![(self.row, n_rows)],
                        group_rows: 0,
                        matrix,
                    }
                }
                Op::PermuteRows { heads, .. } => {
                    permuted_chunk(self.row, n_rows, n_rows / heads, row_len, rows_per_chunk)
                }
            };
            self.row += chunk.n_rows;
            return Some((index, tensor, chunk));
        }
    }
}

/// The chunk that starts at `row` of a tensor whose rows change places within groups of `group_rows`: as many whole groups
/// as fit, or some of the pairs of one group, whose two halves are then read from two places.
fn permuted_chunk(row: u64, n_rows: u64, group_rows: u64, row_len: u64, rows_per_chunk: u64) -> Chunk {
    if group_rows <= rows_per_chunk {
        let n_rows = (rows_per_chunk / group_rows * group_rows).min(n_rows - row);
        return Chunk { first_row: row, n_rows, row_len, reads: vec![(row, n_rows)], group_rows, matrix: 0 };
    }
    let (group, pair) = (row - row % group_rows, row % group_rows / 2);
    let n_pairs = (rows_per_chunk / 2).max(1).min(group_rows / 2 - pair);
    let reads = vec![(group + pair, n_pairs), (group + group_rows / 2 + pair, n_pairs)];
    Chunk { first_row: row, n_rows: 2 * n_pairs, row_len, reads, group_rows: 2 * n_pairs, matrix: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::interleave_halves;

    /// Whatever the size of a chunk, the output rows are those of the permutation of the whole.
    #[test]
    fn chunks_of_any_size_make_the_same_permutation() {
        for (groups, group_rows) in [(1u64, 2u64), (3, 8), (2, 6), (5, 4)] {
            let n_rows = groups * group_rows;
            let whole: Vec<u8> = (0..n_rows as u8).collect();
            let mut expected = vec![0; whole.len()];
            interleave_halves(&whole, &mut expected, group_rows as usize, 1);
            for rows_per_chunk in 1..=n_rows + 1 {
                let mut result = Vec::new();
                while (result.len() as u64) < n_rows {
                    let chunk = permuted_chunk(result.len() as u64, n_rows, group_rows, 1, rows_per_chunk);
                    assert!(chunk.n_rows <= rows_per_chunk.max(2), "{chunk:?}");
                    let read = |&(row, n): &(u64, u64)| whole[row as usize..(row + n) as usize].to_vec();
                    let raw: Vec<u8> = chunk.reads.iter().flat_map(read).collect();
                    let mut moved = vec![0; raw.len()];
                    interleave_halves(&raw, &mut moved, chunk.group_rows as usize, 1);
                    result.extend(moved);
                }
                assert_eq!(result, expected, "{groups} {group_rows} {rows_per_chunk}");
            }
        }
    }
}
