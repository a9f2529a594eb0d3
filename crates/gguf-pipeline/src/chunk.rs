//! How the tensors of a plan are cut into chunks: runs of output rows that a few MiB of the source make.

use gguf_format::GgmlType;

use crate::plan::{Draft, Op, Rounding, TensorPlan};

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
    /// The number of the matrix that the rows belong to, in a tensor that is a stack of them.
    pub(crate) matrix: u64,
}

/// Whether the values are decoded and encoded by ggml's rules; otherwise they are copied, or cast as the converter does.
pub(crate) fn goes_through_blocks(rounding: Rounding, from: GgmlType, tensor: &TensorPlan) -> bool {
    match rounding {
        Rounding::Converter => tensor.ty.is_quantized(),
        Rounding::Ggml => from != tensor.ty,
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
                    if !goes_through_blocks(self.draft.rounding, input.ty, tensor)
                        && !input.ty.is_quantized()
                        && !self.whole_rows =>
                {
                    n
                }
                Op::Copy(_) | Op::Gather(_) => n / row_of_shape,
                Op::Computed(_) => n,
            };
            if n == 0 || self.row >= n_rows {
                (self.tensor, self.row) = (index + 1, 0);
                continue;
            }
            let row_len = n / n_rows;
            let row_bytes = tensor.op.value_type().tensor_bytes([row_len]).unwrap_or(row_len);
            let mut n_rows = (CHUNK / row_bytes.max(1)).max(1).min(n_rows - self.row);
            // Each matrix of a stack has weights of its own.
            let height = if row_len == row_of_shape { tensor.shape.get(1).copied().unwrap_or(1).max(1) } else { n };
            if tensor.importance.is_some() {
                n_rows = n_rows.min(height - self.row % height);
            }
            let chunk = Chunk { first_row: self.row, n_rows, row_len, matrix: self.row / height };
            self.row += chunk.n_rows;
            return Some((index, tensor, chunk));
        }
    }
}
