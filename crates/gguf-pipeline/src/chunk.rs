//! Divides the tensors of plans into chunks: runs of output rows, or parts of long rows, of a few MiB.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gguf_format::GgmlType;

use crate::op::ChunkedBy;
use crate::parts::PART;
use crate::plan::{Draft, Rounding, TensorPlan};

/// Approximate size of a chunk, on the larger of its two sides: source or output.
const CHUNK: u64 = 4 << 20;

/// A run of output rows, or a part of one, and the corresponding input elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// First output row.
    pub(crate) first_row: u64,
    /// Number of rows; 1 if the chunk is a part of a row.
    pub(crate) n_rows: u64,
    /// Elements of a row.
    pub(crate) row_len: u64,
    /// The columns of the chunk: all of them, or those of the part.
    pub(crate) columns: Range<u64>,
    /// The index of the matrix that contains the rows, in a stack of matrices.
    pub(crate) matrix: u64,
}

impl Chunk {
    /// Index of the first element, in the order of the output.
    pub(crate) fn first(&self) -> u64 {
        self.first_row.saturating_mul(self.row_len).saturating_add(self.columns.start)
    }

    /// Number of columns.
    pub(crate) fn width(&self) -> u64 {
        self.columns.end.saturating_sub(self.columns.start)
    }

    /// Number of elements.
    pub(crate) fn n_elements(&self) -> u64 {
        self.n_rows.saturating_mul(self.width())
    }

    /// Whether the chunk is a part of a row.
    pub(crate) fn is_part(&self) -> bool {
        self.width() != self.row_len
    }
}

/// Whether the values are decoded and encoded by ggml's rules; otherwise they are copied, or cast as in the converter.
pub(crate) fn goes_through_blocks(rounding: Rounding, from: GgmlType, tensor: &TensorPlan) -> bool {
    match rounding {
        Rounding::Converter => tensor.ty.is_quantized() && from != tensor.ty,
        Rounding::Ggml => from != tensor.ty,
    }
}

/// One of the drafts of a joint run. Tensors are identified by their indexes in the first draft.
#[derive(Debug, Clone)]
pub(crate) struct Lane<'a> {
    pub(crate) draft: &'a Draft,
    /// The numbering of the tensors; `None` if it is that of the first draft.
    numbering: Option<Numbering>,
}

/// The numbers of the tensors of a draft that has another order than the first.
#[derive(Debug, Clone)]
struct Numbering {
    /// The index of each tensor in this draft.
    numbers: Vec<usize>,
    /// The inverse: the index in the first draft of each tensor of this one.
    indices: Vec<usize>,
}

impl<'a> Lane<'a> {
    /// A further draft; `None` if it does not make the same tensors from the same source as the first.
    pub(crate) fn beside(first: &Draft, draft: &'a Draft) -> Option<Lane<'a>> {
        if std::ptr::eq(first, draft) {
            return Some(Lane { draft, numbering: None });
        }
        let together = Arc::ptr_eq(&first.source, &draft.source) && first.tensors.len() == draft.tensors.len();
        let is_same = |(a, b): (&TensorPlan, &TensorPlan)| a.name == b.name && a.has_values_of(b);
        if together && first.tensors.iter().zip(&draft.tensors).all(is_same) {
            return Some(Lane { draft, numbering: None });
        }
        let by_name: HashMap<&[u8], usize> =
            draft.tensors.iter().enumerate().map(|(number, tensor)| (&*tensor.name, number)).collect();
        let number = |tensor: &TensorPlan| {
            let number = *by_name.get(&*tensor.name)?;
            draft.tensors.get(number).filter(|t| t.has_values_of(tensor)).map(|_| number)
        };
        let numbers: Option<Vec<usize>> = first.tensors.iter().map(number).collect();
        let numbers = numbers.filter(|_| together)?;
        let mut indices = numbers.clone();
        for (index, &number) in numbers.iter().enumerate() {
            *indices.get_mut(number)? = index;
        }
        Some(Lane { draft, numbering: Some(Numbering { numbers, indices }) })
    }

    /// The tensor with index `index` in the first draft, and its index in this one.
    pub(crate) fn tensor(&self, index: usize) -> Option<(usize, &'a TensorPlan)> {
        let number = match &self.numbering {
            Some(numbering) => *numbering.numbers.get(index)?,
            None => index,
        };
        Some((number, self.draft.tensors.get(number)?))
    }

    /// The index in the first draft of a tensor of this one.
    pub(crate) fn index_of(&self, number: usize) -> Option<usize> {
        match &self.numbering {
            Some(numbering) => numbering.indices.get(number).copied(),
            None => Some(number).filter(|&number| number < self.draft.tensors.len()),
        }
    }
}

/// Divides the tensors into chunks, in order. The drafts of a joint run share the chunks.
#[derive(Clone)]
pub(crate) struct Chunks<'a> {
    lanes: &'a [Lane<'a>],
    /// Whether chunks must be whole rows, or parts of a row, so that errors of rows can be measured.
    whole_rows: bool,
    tensor: usize,
    row: u64,
    /// The first column of the next chunk, not 0 inside a divided row.
    column: u64,
    /// The place at which the chunks end.
    end: Place,
    /// Whether the first row is a chunk of its own.
    is_first_alone: bool,
}

/// A place between chunks: a tensor, a row of it, and a column.
pub(crate) type Place = (usize, u64, u64);

/// The end of all chunks.
pub(crate) const END: Place = (usize::MAX, 0, 0);

/// How a tensor is divided.
struct Grid {
    /// Number of rows, or of values if it is divided after any value.
    n_rows: u64,
    row_len: u64,
    /// Rows of a matrix.
    height: u64,
}

impl<'a> Chunks<'a> {
    /// The chunks of the tensors starting at index `first`.
    pub(crate) fn from(lanes: &'a [Lane<'a>], first: usize, whole_rows: bool) -> Chunks<'a> {
        Chunks::between(lanes, (first, 0, 0), END, whole_rows)
    }

    /// The chunks from one [place](Chunks::place) to another.
    pub(crate) fn between(lanes: &'a [Lane<'a>], start: Place, end: Place, whole_rows: bool) -> Chunks<'a> {
        let (tensor, row, column) = start;
        Chunks { lanes, whole_rows, tensor, row, column, end, is_first_alone: false }
    }

    /// The fewest chunks that have all bytes `bytes` of the output of one lane, in which tensors begin at `start_of`: a row that is cut is
    /// in them, and the first is a chunk of its own. `whole_rows` is that of [`from`](Chunks::from).
    pub(crate) fn of_bytes(
        lanes: &'a [Lane<'a>],
        tensors: Range<usize>,
        bytes: &Range<u64>,
        whole_rows: bool,
        start_of: impl Fn(usize) -> Option<u64>,
    ) -> Chunks<'a> {
        let mut chunks = Chunks::between(lanes, (tensors.end, 0, 0), (tensors.end, 0, 0), whole_rows);
        let mut first = None;
        for index in tensors {
            let (Some((_, tensor)), Some(start)) = (chunks.tensors(index).next(), start_of(index)) else { break };
            let own = start..start.saturating_add(tensor.n_bytes());
            if own.end <= bytes.start || own.is_empty() {
                continue;
            }
            if own.start >= bytes.end {
                break;
            }
            let within = |at: u64| at.clamp(own.start, own.end) - own.start;
            let (from, to) = (within(bytes.start), within(bytes.end));
            if first.is_none() {
                first = Some(chunks.place_before(index, tensor, from));
                chunks.is_first_alone = from > 0;
            }
            chunks.end = chunks.place_after(index, tensor, to);
        }
        (chunks.tensor, chunks.row, chunks.column) = first.unwrap_or(chunks.end);
        chunks
    }

    /// The last place that is not after a byte of a tensor in the output.
    fn place_before(&self, index: usize, tensor: &TensorPlan, byte: u64) -> Place {
        let Grid { row_len, .. } = self.grid(index, tensor);
        let bytes = |n| tensor.ty.tensor_bytes([n]).unwrap_or(1).max(1);
        let (row, within) = (byte / bytes(row_len), byte % bytes(row_len));
        (index, row, if row_len > PART { within / bytes(PART) * PART } else { 0 })
    }

    /// The first place that is not before a byte of a tensor in the output.
    fn place_after(&self, index: usize, tensor: &TensorPlan, byte: u64) -> Place {
        let Grid { row_len, .. } = self.grid(index, tensor);
        let bytes = |n| tensor.ty.tensor_bytes([n]).unwrap_or(1).max(1);
        if row_len <= PART {
            return (index, byte.div_ceil(bytes(row_len)), 0);
        }
        let (row, within) = (byte / bytes(row_len), byte % bytes(row_len));
        match within.div_ceil(bytes(PART)) * PART {
            column if column >= row_len => (index, row + 1, 0),
            column => (index, row, column),
        }
    }

    /// The place at which the chunks end.
    pub(crate) fn end(&self) -> Place {
        self.end
    }

    /// The place of the next chunk: its tensor, row and column.
    pub(crate) fn place(&self) -> Place {
        (self.tensor, self.row, self.column)
    }

    /// How a tensor of the first lane is divided.
    fn grid(&self, index: usize, tensor: &TensorPlan) -> Grid {
        // Sizes were checked when the file was laid out.
        let n = tensor.n_elements();
        let row_of_shape = tensor.shape.first().copied().unwrap_or(1).max(1);
        let is_by_value = match tensor.op.operation().chunked_by() {
            ChunkedBy::Rows => false,
            ChunkedBy::Values => true,
            // Errors are measured for whole rows.
            ChunkedBy::ValuesUnlessEncoded => !self.whole_rows && !self.is_encoded(index, tensor.op.value_type()),
        };
        let n_rows = if is_by_value { n } else { n / row_of_shape };
        let row_len = n.checked_div(n_rows).unwrap_or(0);
        // Each matrix of a stack has separate weights.
        let height = if row_len == row_of_shape { tensor.shape.get(1).copied().unwrap_or(1).max(1) } else { n };
        Grid { n_rows, row_len, height }
    }

    /// The tensor with that index in each draft.
    fn tensors(&self, index: usize) -> impl Iterator<Item = (&'a Draft, &'a TensorPlan)> + use<'a> {
        self.lanes.iter().filter_map(move |lane| Some((lane.draft, lane.tensor(index)?.1)))
    }

    /// Whether any draft encodes the tensor's values of type `from` by ggml's rules.
    fn is_encoded(&self, index: usize, from: GgmlType) -> bool {
        self.tensors(index).any(|(draft, tensor)| goes_through_blocks(draft.rounding, from, tensor))
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (usize, Chunk);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let index = self.tensor;
            let (_, tensor) = self.tensors(index).next()?;
            if self.place() >= self.end {
                return None;
            }
            let Grid { n_rows, row_len, height } = self.grid(index, tensor);
            if self.row >= n_rows {
                (self.tensor, self.row, self.column) = (index + 1, 0, 0);
                continue;
            }
            let is_alone = std::mem::take(&mut self.is_first_alone);
            let (first_row, matrix) = (self.row, self.row / height);
            if row_len > PART {
                let columns = self.column..row_len.min(self.column + PART);
                (self.row, self.column) = match columns.end == row_len {
                    true => (self.row + 1, 0),
                    false => (self.row, columns.end),
                };
                return Some((index, Chunk { first_row, n_rows: 1, row_len, columns, matrix }));
            }
            let row_bytes = |ty: GgmlType| ty.tensor_bytes([row_len]).unwrap_or(row_len);
            let written = self.tensors(index).map(|(_, tensor)| row_bytes(tensor.ty)).max().unwrap_or(1);
            let row_bytes = row_bytes(tensor.op.value_type()).max(written).max(1);
            let mut n_rows = (CHUNK / row_bytes).max(1).min(n_rows - self.row);
            if index == self.end.0 {
                n_rows = n_rows.min(self.end.1 - self.row);
            }
            if is_alone {
                n_rows = 1;
            }
            if self.tensors(index).any(|(_, tensor)| tensor.importance.is_some()) {
                n_rows = n_rows.min(height - self.row % height);
            }
            self.row += n_rows;
            return Some((index, Chunk { first_row, n_rows, row_len, columns: 0..row_len, matrix }));
        }
    }
}
