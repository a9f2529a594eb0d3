//! The error of each tensor whose type changes: its output compared with its input.
//!
//! A run that is asked for a report decodes each chunk of the output and compares it with the source. The figures are those
//! of [`gguf_quants::measure`], the same for any number of threads. Rows of more than a million values are measured in parts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gguf_format::GgmlType;
use gguf_quants::codec::{Codec, codec};
use gguf_quants::measure::RowError;

pub use gguf_quants::measure::{Figures, Largest, TensorError};

use crate::error::Error;
use crate::plan::TensorPlan;

/// Values that are decoded at once, about: original and decoded stay in the second-level cache.
const SPAN: usize = 1 << 15;

/// The error of one tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorReport {
    /// Its place among the tensors of the output, from 0.
    pub index: usize,
    /// Its name in the output.
    pub name: String,
    /// Its dimensions, the contiguous one first.
    pub shape: Vec<u64>,
    /// The type that it has in the model, or would have in a conversion that rounds nothing.
    pub from: GgmlType,
    /// The type that was written.
    pub to: GgmlType,
    /// Number of weights.
    pub n_weights: u64,
    /// Bytes that they take in the output.
    pub bytes: u64,
    /// How far the written values are from those that were read. Weighted by the importance of the columns where the tensor
    /// has an entry in the importance matrix.
    pub error: TensorError,
}

/// The error of each tensor whose type changed, in the order of the output. Other tensors are copied.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The tensors.
    pub tensors: Vec<TensorReport>,
}

impl Report {
    /// The error of all values together. Rows and columns in it have no meaning.
    pub fn total(&self) -> TensorError {
        self.sum(|_| true)
    }

    /// The error of all values that have weights of importance; as [`total`](Report::total).
    pub fn total_weighted(&self) -> TensorError {
        self.sum(|t| t.error.weighted().is_some())
    }

    fn sum(&self, counts: impl Fn(&TensorReport) -> bool) -> TensorError {
        let mut total = TensorError::new();
        for tensor in self.tensors.iter().filter(|t| counts(t)) {
            total.merge(&tensor.error);
        }
        total
    }
}

/// How far rows of a tensor are from what they were: each side by its type and its little-endian bytes, the original first. `first` is the row
/// of the tensor and the column at which they start, `row_len` the values of each, `weights` the importance of the columns.
///
/// # Errors
/// [`Error::NoCodec`] and [`Error::Codec`], for types and bytes that cannot be decoded.
pub fn compare_rows(
    tensor: &str,
    original: (GgmlType, &[u8]),
    decoded: (GgmlType, &[u8]),
    first: (u64, u64),
    row_len: u64,
    weights: Option<&[f32]>,
) -> Result<TensorError, Error> {
    let no_codec = || Error::NoCodec { tensor: tensor.to_owned() };
    let find = |ty| codec(ty).ok_or_else(no_codec);
    let (from, to): (&Codec, &Codec) = (find(original.0)?, find(decoded.0)?);
    let row_len = usize::try_from(row_len).map_err(|_| no_codec())?.max(1);
    let span = (SPAN / row_len).max(1);
    let bytes = |codec: &Codec| codec.packed_bytes(row_len).map(|n| n * span).filter(|&n| n > 0);
    let (from_span, to_span) = (bytes(from).ok_or_else(no_codec)?, bytes(to).ok_or_else(no_codec)?);
    let (mut x_values, mut y_values) = (Vec::new(), Vec::new());
    let mut total = TensorError::new();
    let (mut row, column) = first;
    for (x, y) in original.1.chunks(from_span).zip(decoded.1.chunks(to_span)) {
        let n_values = x.len() / (from_span / span) * row_len;
        let wrong = |source| Error::Codec { tensor: tensor.to_owned(), row, source };
        for (codec, packed, values) in [(from, x, &mut x_values), (to, y, &mut y_values)] {
            values.resize(n_values, 0.0);
            codec.decode(packed, values).map_err(wrong)?;
        }
        for (x, y) in x_values.chunks(row_len).zip(y_values.chunks(row_len)) {
            total.add_part(row, column, &RowError::new(x, y, weights));
            row += 1;
        }
    }
    Ok(total)
}

/// Where the threads of a run put the errors of the rows they have written.
#[derive(Debug, Default)]
pub(crate) struct Errors(Mutex<BTreeMap<usize, TensorError>>);

impl Errors {
    /// Adds the error of some rows of the tensor with that number.
    pub fn add(&self, tensor: usize, error: &TensorError) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(tensor).or_default().merge(error);
    }

    /// What was gathered about the tensors of a plan whose types change. Others may be read in a third type, as norms of a checkpoint
    /// are.
    pub fn into_report(self, tensors: &[TensorPlan]) -> Report {
        let all = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let report = |(index, error)| {
            let tensor: &TensorPlan = tensors.get::<usize>(index).filter(|t| t.ty != t.from)?;
            Some(TensorReport {
                index,
                name: String::from_utf8_lossy(&tensor.name).into_owned(),
                shape: tensor.shape.clone(),
                from: tensor.from,
                to: tensor.ty,
                n_weights: tensor.n_elements(),
                bytes: tensor.n_bytes(),
                error,
            })
        };
        Report { tensors: all.into_iter().filter_map(report).collect() }
    }
}
