//! The error of each tensor whose type changes: its output compared with its input.
//!
//! If a report is requested, a run decodes each chunk of the output and compares it with the source. The figures are those of
//! [`gguf_quants::measure`], independent of the number of threads. Rows of more than a million values are measured in parts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gguf_format::GgmlType;
use gguf_format::sort::CompactSort as _;
use gguf_quants::codec::{Codec, codec};
use gguf_quants::measure::RowError;

pub use gguf_quants::measure::{Figures, Largest, TensorError};

use crate::error::Error;
use crate::plan::TensorPlan;

/// Approximate number of values to decode at once: original and decoded values stay in the second-level cache.
const SPAN: usize = 1 << 15;

/// The error of one tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorReport {
    /// The index among the tensors of the [plan](crate::Plan::tensors), which has the name and the types.
    pub index: usize,
    /// The errors of the written values. Weighted by the importance of the columns if the tensor has an entry in the importance matrix.
    pub error: Measured,
}

/// The figures of a [`TensorError`].
#[derive(Debug, Clone)]
pub struct Measured {
    figures: Figures,
    // Most tensors have none of it, and a model may have very many tensors.
    more: Option<Box<More>>,
}

#[derive(Debug, Clone)]
struct More {
    not_finite: u64,
    weighted: Option<Figures>,
}

impl Measured {
    fn of(error: &TensorError) -> Measured {
        let more = More { not_finite: error.not_finite(), weighted: error.weighted() };
        let is_needed = more.not_finite > 0 || more.weighted.is_some();
        Measured { figures: error.figures(), more: is_needed.then(|| Box::new(more)) }
    }

    /// The number of pairs excluded because of an infinite or NaN value.
    pub fn not_finite(&self) -> u64 {
        self.more.as_ref().map_or(0, |more| more.not_finite)
    }

    /// The figures without weights.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The figures with weights; `None` if a row had none.
    pub fn weighted(&self) -> Option<Figures> {
        self.more.as_ref().and_then(|more| more.weighted)
    }
}

/// The error of each tensor whose type changed, in the order of the output. Other tensors are copied.
#[non_exhaustive]
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The tensors.
    pub tensors: Vec<TensorReport>,
    total: Box<TensorError>,
    total_weighted: Box<TensorError>,
}

impl Report {
    /// The error of all values. Its row and column have no meaning.
    pub fn total(&self) -> &TensorError {
        &self.total
    }

    /// The error of all values with weights of importance; as [`total`](Report::total).
    pub fn total_weighted(&self) -> &TensorError {
        &self.total_weighted
    }

    /// The report of tensors with these errors.
    pub(crate) fn of(errors: &ErrorsOfTensors) -> Report {
        let mut report = Report::default();
        errors.iter().for_each(|(index, error)| report.add(*index, error));
        report
    }

    fn add(&mut self, index: usize, error: &TensorError) {
        let measured = Measured::of(error);
        self.total.merge(error);
        if measured.weighted().is_some() {
            self.total_weighted.merge(error);
        }
        self.tensors.push(TensorReport { index, error: measured });
    }
}

/// The error of rows of a tensor: each side is given by its type and its little-endian bytes, the original first. `first` is the row and
/// column at which they start, `row_len` the length of a row, `weights` the importance of the columns.
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

/// The errors of the tensors of a plan, by index.
pub(crate) type ErrorsOfTensors = BTreeMap<usize, TensorError>;

/// Collects the errors of rows from the threads of a run.
#[derive(Debug)]
pub(crate) struct Errors {
    collected: Mutex<Collected>,
    /// Only rows whose first byte in the output is not before this one are counted, if the run makes a part of an output.
    part: Option<u64>,
}

#[derive(Debug)]
struct Collected {
    /// The errors of tensors of which only some rows were measured so far. An error takes kilobytes, its figures take a hundred bytes.
    begun: ErrorsOfTensors,
    report: Report,
}

impl Errors {
    /// For the tensors of a plan.
    pub fn of(tensors: &[TensorPlan]) -> Errors {
        let n_changed = tensors.iter().filter(|t| t.ty != t.from).count();
        let report = Report { tensors: Vec::with_capacity(n_changed), ..Report::default() };
        Errors { collected: Mutex::new(Collected { begun: BTreeMap::new(), report }), part: None }
    }

    /// For a part of an output that begins at a byte of it: a row is counted in the part in which it begins.
    pub fn of_part(start: u64) -> Errors {
        Errors { part: Some(start), ..Errors::of(&[]) }
    }

    /// Adds the error of some rows of the tensor with that index, which begin at a byte of the output, if its type changes. Others may also be
    /// read in another type, such as norms of a checkpoint.
    pub fn add(&self, index: usize, tensor: &TensorPlan, offset: u64, error: &TensorError) {
        if tensor.ty == tensor.from || self.part.is_some_and(|start| offset < start) {
            return;
        }
        let mut all = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let Collected { begun, report } = &mut *all;
        let is_part = self.part.is_some();
        let is_whole =
            |error: &TensorError| !is_part && error.n().saturating_add(error.not_finite()) >= tensor.n_elements();
        if is_whole(error) {
            return report.add(index, error);
        }
        let sum = begun.entry(index).or_default();
        sum.merge(error);
        if is_whole(sum)
            && let Some(sum) = begun.remove(&index)
        {
            report.add(index, &sum);
        }
    }

    /// The collected errors.
    pub fn into_report(self) -> Report {
        let Collected { begun, mut report } = self.collected.into_inner().unwrap_or_else(PoisonError::into_inner);
        begun.iter().for_each(|(index, error)| report.add(*index, error));
        report.tensors.compact_sort_by_key(|tensor| tensor.index);
        report
    }

    /// The errors of a part.
    pub fn into_errors(self) -> ErrorsOfTensors {
        self.collected.into_inner().unwrap_or_else(PoisonError::into_inner).begun
    }
}
