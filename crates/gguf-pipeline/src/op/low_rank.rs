//! A matrix with low-rank changes, as those of LoRA adapters.

use gguf_format::GgmlType;
use gguf_quants::codec::codec;
use gguf_quants::float;
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::{no_codec, packed_bytes, resize, resize_values};
use crate::error::Error;

/// A matrix, or a stack of them, to which products of two factors are added in single precision: `base + scale * (rows * columns)` for each
/// [`Term`], in order. Each product is summed over the ranks in their order before it is scaled and added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LowRank {
    /// The matrix, then the first and the second factor of each term. Types may be any that can be decoded.
    pub inputs: Box<[Input]>,
    /// The terms.
    pub terms: Box<[Term]>,
    /// Number of columns: the length of a row.
    pub n_columns: u64,
    /// Number of rows of each matrix.
    pub n_rows: u64,
}

/// A product that is added to a matrix: of `lora_a` and `lora_b` of an adapter in GGUF, with these factors for each matrix of a stack.
///
/// The second factor has a row of `rank` values for each row of the matrix. The first has `rank` rows, each with a value for each column;
/// [transposed](Term::is_transposed) it has a row for each column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Columns of the second factor.
    pub rank: u64,
    /// The number by which the product is multiplied.
    #[serde(with = "crate::fleet::bits")]
    pub scale: f32,
    /// Whether the first factor has a row for each column of the matrix.
    pub is_transposed: bool,
}

impl Operation for LowRank {
    fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        &mut self.inputs
    }

    fn value_type(&self) -> GgmlType {
        GgmlType::F32
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Rows
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let Some((base, factors)) = self.inputs.split_first() else { return Err(no_codec(wanted.tensor)) };
        let mut values = Vec::new();
        wanted.decode(base, (wanted.first, wanted.n_elements), &mut buffers.raw, &mut values)?;
        let mut work = Work::default();
        for (term, pair) in self.terms.iter().zip(factors.as_chunks::<2>().0) {
            let mut rest = values.as_mut_slice();
            for part in self.parts(wanted) {
                let len = usize::try_from(part.n_rows.saturating_mul(part.width)).unwrap_or(usize::MAX);
                let (own, others) = std::mem::take(&mut rest).split_at_mut_checked(len).unwrap_or_default();
                rest = others;
                self.add(*term, pair, part, wanted, &mut buffers.raw, &mut work, own)?;
            }
        }
        wanted.set_len(&mut buffers.mapped, GgmlType::F32)?;
        float::encode_f32(&values, &mut buffers.mapped);
        Ok(&buffers.mapped)
    }
}

/// Whole rows of one matrix of the stack, or columns of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    matrix: u64,
    first_row: u64,
    n_rows: u64,
    first_column: u64,
    width: u64,
}

/// Factors and a product, as values.
#[derive(Default)]
struct Work {
    columns: Vec<f32>,
    rows: Vec<f32>,
    product: Vec<f32>,
}

impl LowRank {
    /// The wanted values as parts of matrices, in order.
    fn parts(&self, wanted: Wanted<'_>) -> impl Iterator<Item = Part> + use<> {
        let (n_columns, n_rows) = (self.n_columns.max(1), self.n_rows.max(1));
        let end = wanted.first.saturating_add(wanted.n_elements);
        let mut at = wanted.first;
        std::iter::from_fn(move || {
            let (row, first_column) = (at / n_columns, at % n_columns);
            let (matrix, first_row, left) = (row / n_rows, row % n_rows, end.checked_sub(at).filter(|left| *left > 0)?);
            let (rows, width) = match first_column == 0 && left >= n_columns {
                true => ((left / n_columns).min(n_rows - first_row), n_columns),
                false => (1, left.min(n_columns - first_column)),
            };
            at = at.saturating_add(rows.saturating_mul(width));
            Some(Part { matrix, first_row, n_rows: rows, first_column, width })
        })
    }

    /// Adds a term to a part of the matrix.
    #[expect(clippy::too_many_arguments, reason = "the buffers are those of one read")]
    fn add(
        &self,
        term: Term,
        [first, second]: &[Input; 2],
        part: Part,
        wanted: Wanted<'_>,
        raw: &mut Vec<u8>,
        work: &mut Work,
        values: &mut [f32],
    ) -> Result<(), Error> {
        let refused = || no_codec(wanted.tensor);
        let (rank, n_columns) = (term.rank, self.n_columns);
        let size = rank.checked_mul(n_columns).ok_or_else(refused)?;
        wanted.decode(first, (part.matrix.saturating_mul(size), size), raw, &mut work.columns)?;
        let row = part.matrix.saturating_mul(self.n_rows).saturating_add(part.first_row);
        wanted.decode(second, (row.saturating_mul(rank), part.n_rows.saturating_mul(rank)), raw, &mut work.rows)?;
        let len = |n: u64| usize::try_from(n).map_err(|_| refused());
        let (rank, width) = (len(rank)?.max(1), len(part.width)?.max(1));
        let (n_columns, first_column) = (len(n_columns)?.max(1), len(part.first_column)?);
        if term.is_transposed {
            transpose(&mut work.columns, rank);
        }
        resize_values(&mut work.product, part.width, wanted.tensor)?;
        for (row, values) in work.rows.chunks(rank).zip(values.chunks_mut(width)) {
            work.product.fill(0.0);
            for (factor, column) in row.iter().zip(work.columns.chunks(n_columns)) {
                let column = column.get(first_column..).unwrap_or_default();
                work.product.iter_mut().zip(column).for_each(|(sum, value)| *sum += factor * value);
            }
            values.iter_mut().zip(&work.product).for_each(|(value, sum)| *value += sum * term.scale);
        }
        Ok(())
    }
}

/// Turns rows of `width` values into columns.
fn transpose(values: &mut Vec<f32>, width: usize) {
    let rows = values.chunks(width.max(1));
    let columns = (0..width).flat_map(|i| rows.clone().filter_map(move |row| row.get(i).copied()));
    *values = columns.collect();
}

impl Wanted<'_> {
    /// Reads a range of values of a source tensor, given by its first element and the number of elements, and decodes them.
    fn decode(
        &self,
        input: &Input,
        (first, n_elements): (u64, u64),
        raw: &mut Vec<u8>,
        values: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let decoder = codec(input.ty).ok_or_else(|| no_codec(self.tensor))?;
        resize(raw, packed_bytes(input.ty, n_elements, self.tensor)?, self.tensor)?;
        self.source.read_vec(input.index(), packed_bytes(input.ty, first, self.tensor)?, raw)?;
        resize_values(values, n_elements, self.tensor)?;
        let wrong =
            |source| Error::Codec { tensor: gguf_format::check::shown(gguf_format::Str(self.tensor)), row: 0, source };
        decoder.decode(raw, values).map_err(wrong)
    }
}
