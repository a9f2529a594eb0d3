//! Types for a size: the types with the smallest total error within a budget of bytes.
//!
//! **Measurement.** Rows of each tensor, evenly spread over it and over all matrices of a stack, about [`SAMPLE`] values in total (for rows
//! longer than a million values, evenly spread pieces of them), are encoded as each candidate type and decoded. The error of a type is the
//! square of the relative error of [`gguf_quants::measure`]: `Σ w d² / Σ w x²`, where `w` is the mean square of the column's activations,
//! if there is an importance matrix. That is the ratio of noise power to signal power in the tensor's output, which is dimensionless, and
//! invariant if a tensor and the following one are scaled against each other.
//!
//! **Sum.** To first order, the divergence of the quantized model from the original is a sum over the tensors, where each term is the
//! squared relative error times a constant of the tensor ("Pushing the Limits of Large Language Model Quantization via the Linearity
//! Theorem", Malinovskii and others, 2024). A block of a deep model adds little to the residual stream, so a tensor's constant decreases
//! with the number of blocks, and the output matrix has the weight of all blocks together. Within a block, the values and the down
//! projection have the largest weights. [`sensitivity`] is the table; measured [`Sensitivities`] replace it.
//!
//! **Choice.** [`allocate`] minimises the sum. Results depend only on the model, the matrix and the options: neither on the number of
//! threads nor on the CPU.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use gguf_format::GgmlType;
use gguf_format::keys::{FILE_TYPES, FileType};
use gguf_format::sort::CompactSort as _;
use gguf_pipeline::plan::{Draft, Plan, TensorPlan};
use gguf_pipeline::{Cancelled, Error as Failure, Event, Progress, workers};
use gguf_quants::Rows;
use gguf_quants::codec::{Codec, codec};
use gguf_quants::measure::{RowError, TensorError};

use crate::error::Error;
use crate::mix::{self, Category, Decision, NEED_IMATRIX, Reason, Target};
use crate::plan::{ChooseTypes, Chosen, Undecided, needs_weights};
use crate::sensitivity::Sensitivities;

mod allocate;

use allocate::{Items, allocate_each};

pub use crate::limit::Limit;
pub use allocate::{Choice, allocate, total};

/// Approximate number of values to measure per tensor. The squared relative error of such a sample was within 0.9 % of that of all values
/// for each tensor of a model of a billion weights; neighbouring types differ by a factor of two to four.
pub const SAMPLE: u64 = 1 << 18;

/// The longest row that is measured completely, and the number and length of the pieces of longer rows. Multiples of every block length.
const MAX_ROW: u64 = 1 << 20;
const PIECES: u64 = 16;
const PIECE: u64 = SAMPLE / PIECES;

/// The columns of a row to measure.
fn measured_columns(row_len: u64) -> Vec<Range<u64>> {
    if row_len <= MAX_ROW {
        return iter::once(0..row_len).collect();
    }
    // The centres of equal parts, aligned to the start of a block.
    let part = row_len / PIECES;
    let start = |i: u64| (i * part + (part - PIECE) / 2) / 256 * 256;
    (0..PIECES).map(|i| start(i)..start(i) + PIECE).collect()
}

/// The types to try if the rows are whole blocks of 256. Types that need an importance matrix are omitted without one, and the current type
/// of a float tensor is always included.
pub const CANDIDATES: &[GgmlType] = &[
    GgmlType::IQ2_XXS,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::Q2_K,
    GgmlType::IQ3_XXS,
    GgmlType::Q3_K,
    GgmlType::IQ3_S,
    GgmlType::IQ4_XS,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::Q8_0,
];

/// The types to try instead if the rows are only whole blocks of 32.
pub const NARROW: &[GgmlType] =
    &[GgmlType::IQ4_NL, GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1, GgmlType::Q8_0];

/// Chooses types for a size. Reads a sample of the weights. Tensors that llama.cpp never quantizes keep their types, and types given by
/// options are respected.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let mut head = Head::default();
/// # head.set("general.architecture", "llama");
/// # head.tensors.push(TensorInfo::new("output.weight", [256, 4], GgmlType::F32));
/// # let values: Vec<u8> = (0..1024).flat_map(|i| (i as f32 * 0.1).sin().to_le_bytes()).collect();
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [values])?;
/// # let draft = gguf_pipeline::Draft::copy_of(gguf_io::Model::from_source(bytes, "model in memory")?)?;
/// use gguf_quantize::QuantizeOptions;
/// use gguf_quantize::budget::{Budget, Limit};
///
/// let budget = Budget::new(Limit::BitsPerWeight(5.0));
/// let plan = gguf_quantize::plan(draft, None, &QuantizeOptions::default(), &budget)?.plan;
/// let bits: u64 = plan.tensors().iter().map(|tensor| tensor.n_bytes() * 8).sum();
/// assert!(bits as f64 / plan.n_elements() as f64 <= 5.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Budget<'p> {
    /// The limit.
    pub limit: Limit,
    /// The types to choose from; `None` for [`CANDIDATES`], [`NARROW`] and the current type.
    pub candidates: Option<Vec<GgmlType>>,
    /// Measured weights of the tensors' errors, in place of [`sensitivity`]; `None` for that table.
    pub sensitivities: Option<Sensitivities>,
    /// Number of threads; `None` for the parallelism of the machine.
    pub threads: Option<NonZeroUsize>,
    /// Receives the events of the measurements, and may cancel them.
    pub progress: &'p dyn Progress,
    /// Errors of types that were measured before, such as by other machines; those of other tensors are measured.
    pub measured: Option<&'p Measured>,
}

/// The measured errors of types, by tensor: the squared relative error, or none if values overflow in the type. They depend only on
/// the tensors and the matrix, so each of several machines can measure a [share](measure_samples).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured(BTreeMap<String, ErrorsOfTypes>);

/// Types, and their errors.
pub type ErrorsOfTypes = Vec<(GgmlType, Option<f64>)>;

impl Measured {
    /// The errors of each tensor.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ErrorsOfTypes)> {
        self.0.iter().map(|(tensor, errors)| (tensor.as_str(), errors))
    }

    /// Adds the errors of a tensor.
    pub fn add(&mut self, tensor: impl Into<String>, errors: ErrorsOfTypes) {
        self.0.insert(tensor.into(), errors);
    }

    /// The errors of the types of a tensor, if exactly these were measured.
    fn errors(&self, tensor: &str, types: &[GgmlType]) -> Option<Vec<Option<f64>>> {
        let found = self.0.get(tensor)?;
        let is_same = found.len() == types.len() && found.iter().zip(types).all(|((ty, _), other)| ty == other);
        is_same.then(|| found.iter().map(|(_, error)| *error).collect())
    }
}

/// Finds the tensors whose types a [`Budget`] chooses, and the types to try, and chooses nothing: a [`plan`](crate::plan()) with it has the types of
/// a mixture, and is the plan of the [samples](measure_samples).
#[derive(Debug, Default)]
pub struct Survey {
    /// The types to choose from, as in a [`Budget`].
    pub candidates: Option<Vec<GgmlType>>,
    found: Mutex<Vec<(String, Arc<[GgmlType]>)>>,
}

impl Survey {
    /// With these types to choose from.
    pub fn new(candidates: Option<Vec<GgmlType>>) -> Survey {
        Survey { candidates, found: Mutex::default() }
    }

    /// The tensors of the plan that was made with it, by index, and the types to try.
    pub fn into_samples(self, plan: &Plan) -> Vec<(usize, Vec<GgmlType>)> {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let types: BTreeMap<String, Arc<[GgmlType]>> = found.into_iter().collect();
        let sample = |(index, tensor): (usize, &TensorPlan)| Some((index, types.get(&tensor.shown())?.to_vec()));
        plan.tensors().iter().enumerate().filter_map(sample).collect()
    }
}

impl ChooseTypes for Survey {
    fn file_type(&self) -> Option<FileType> {
        Some(OPEN)
    }

    fn choose(&self, model: &Undecided<'_>) -> Result<Chosen, Error> {
        let decisions = model.mixture(Target::FileType(OPEN))?;
        model.check_decisions(&decisions)?;
        let open = open_tensors(model, &decisions, self.candidates.as_deref())?;
        let named = |open: Open| Some((model.draft().tensors.get(open.index)?.shown(), open.types));
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = open.into_iter().filter_map(named).collect();
        Ok(Chosen { decisions, file_type: None, is_best: false })
    }
}

/// Measures the errors of types on samples of tensors of a draft, which are given by index.
///
/// # Errors
/// [`Error`], which names the tensor.
pub fn measure_samples(
    draft: &Draft,
    samples: impl IntoIterator<Item = (usize, Vec<GgmlType>)>,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Measured, Error> {
    let open = |(index, types): (usize, Vec<GgmlType>)| Open { index, types: types.into(), errors: Box::default() };
    measure(draft, &mut samples.into_iter().map(open).collect::<Vec<_>>(), None, threads, progress)
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Budget { limit, candidates, sensitivities, threads, .. } = self;
        let mut out = f.debug_struct("Budget");
        out.field("limit", limit).field("candidates", candidates).field("sensitivities", sensitivities);
        out.field("threads", threads).finish_non_exhaustive()
    }
}

impl Budget<'_> {
    /// A budget with default candidates, on all processors, without progress.
    pub fn new(limit: Limit) -> Budget<'static> {
        Budget { limit, candidates: None, sensitivities: None, threads: None, progress: &(), measured: None }
    }
}

/// The mixture of Q8_0 needs no matrix and has few rules; its default choices are the open ones.
const OPEN: FileType = FileType(7);

impl ChooseTypes for Budget<'_> {
    fn file_type(&self) -> Option<FileType> {
        Some(OPEN)
    }

    fn mixture(&self) -> Option<&'static str> {
        // The name of a file type would promise its types.
        Some("mixed")
    }

    fn choose(&self, model: &Undecided<'_>) -> Result<Chosen, Error> {
        let mut decisions = model.mixture(Target::FileType(OPEN))?;
        // Errors that do not depend on the expensive measurements come before them; with the same error for all types, the smallest are chosen.
        model.check_decisions(&decisions)?;
        let mut open = open_tensors(model, &decisions, self.candidates.as_deref())?;
        for tensor in &mut open {
            tensor.errors = tensor.types.iter().map(|_| 0.0).collect();
        }
        choose(model, &decisions, &open, self.limit, None)?;
        if let Some(found) = &self.sensitivities {
            let tensors = &model.draft().tensors;
            let mut names = open.iter().filter_map(|open| tensors.get(open.index)).map(|tensor| &tensor.name);
            if !open.is_empty() && !names.any(|name| found.get(name).is_some()) {
                return Err(Error::OtherSensitivities { path: model.draft().path.clone() });
            }
        }
        measure(model.draft(), &mut open, self.measured, self.threads, self.progress)?;
        let chosen = choose(model, &decisions, &open, self.limit, self.sensitivities.as_ref())?;
        for (tensor, &choice) in open.iter().zip(&chosen) {
            let found = (tensor.types.get(choice), tensor.errors.get(choice), decisions.get_mut(tensor.index));
            if let (Some(&ty), Some(error), Some(decision)) = found {
                let why = Reason::Budget { relative_ppm: relative_ppm(*error) };
                *decision = Decision { ty, why, instead_of: None, needs_imatrix: false };
            }
        }
        let is_best = |(tensor, &choice): (&Open, &usize)| {
            tensor.errors.get(choice).is_some_and(|e| tensor.errors.iter().all(|other| e <= other))
        };
        Ok(Chosen {
            file_type: Some(guessed_file_type(&model.draft().tensors, &decisions)),
            is_best: !open.is_empty() && open.iter().zip(&chosen).all(is_best),
            decisions,
        })
    }
}

/// A tensor with a type to choose.
struct Open {
    /// The index in the plan.
    index: usize,
    /// The types to choose from; never empty. Many tensors have the same.
    types: Arc<[GgmlType]>,
    /// The squared relative errors of the types, once they are measured.
    errors: Box<[f64]>,
}

impl Open {
    /// Removes the types that cannot represent the tensor's values, which have no error, and notes the errors of the others.
    fn keep(&mut self, errors: &[Option<f64>]) {
        if errors.iter().any(Option::is_none) {
            self.types = self.types.iter().zip(errors).filter_map(|(ty, error)| error.map(|_| *ty)).collect();
        }
        self.errors = errors.iter().copied().flatten().collect();
    }
}

/// The tensors whose types are not determined otherwise.
fn open_tensors(model: &Undecided<'_>, decisions: &[Decision], asked: Option<&[GgmlType]>) -> Result<Vec<Open>, Error> {
    let path = &model.draft().path;
    if let Some(&ty) = asked.unwrap_or_default().iter().find(|&&ty| !mix::is_tensor_target(ty)) {
        let source = mix::MixError::TensorType(ty);
        return Err(Error::Mix { path: path.clone(), source });
    }
    let mut open: Vec<Open> = Vec::with_capacity(decisions.len());
    for (index, (tensor, decision)) in model.draft().tensors.iter().zip(decisions).enumerate() {
        let fixed = matches!(
            decision.why,
            Reason::Kept(_) | Reason::TokenEmbeddingType | Reason::OutputTensorType | Reason::TensorType(_)
        );
        // Rows that are not even blocks of 32 already have a float type.
        if fixed || decision.instead_of.is_some() || tensor.op.copied().is_none() {
            continue;
        }
        let row = tensor.shape.first().copied().unwrap_or(1);
        let fits = |ty: &GgmlType| ty.tensor_bytes([row]).is_ok();
        // A weight for each matrix, up to the third dimension.
        let has_weights = tensor.importance.is_some() && tensor.shape.get(3).is_none_or(|&n| n == 1);
        let works = |ty: &GgmlType| {
            let needs = NEED_IMATRIX.contains(ty) || needs_weights(*ty);
            codec(*ty).is_some_and(Codec::can_encode) && (has_weights || !needs)
        };
        let narrower = |ty: &GgmlType| match mix::FALLBACKS.iter().find(|(types, _)| types.contains(ty)) {
            Some((_, other)) if !fits(ty) => *other,
            _ => *ty,
        };
        let fitting: Vec<GgmlType> = asked.unwrap_or_default().iter().map(narrower).filter(fits).collect();
        let mut types: Vec<GgmlType> = match asked {
            Some(_) => fitting.iter().copied().filter(works).collect(),
            None if fits(&GgmlType::Q4_K) => CANDIDATES.iter().copied().filter(works).collect(),
            None => NARROW.iter().copied().filter(fits).filter(works).collect(),
        };
        if asked.is_none() && !types.contains(&tensor.ty) {
            types.push(tensor.ty);
        }
        types.compact_sort_by_key(|ty| ty.0);
        types.dedup();
        if types.is_empty() {
            let (path, tensor) = (path.clone(), tensor.shown());
            return Err(match fitting.first() {
                Some(&ty) => Error::NeedsMatrix { path, tensor, ty, given: model.has_imatrix() },
                None => Error::NoCandidate { path, tensor, row, types: asked.unwrap_or_default().to_vec() },
            });
        }
        let types = match open.last() {
            Some(last) if *last.types == *types => Arc::clone(&last.types),
            _ => types.into(),
        };
        open.push(Open { index, types, errors: Box::default() });
    }
    Ok(open)
}

/// Size of a tensor in another type.
fn bytes_as(tensor: &TensorPlan, ty: GgmlType) -> u64 {
    ty.tensor_bytes(tensor.shape.iter().copied()).unwrap_or(u64::MAX)
}

/// Measures the squared relative errors of each tensor's types that are not known; returns those that were measured.
fn measure(
    draft: &Draft,
    open: &mut [Open],
    known: Option<&Measured>,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Measured, Error> {
    let n_tensors = open.len();
    let bytes = open.iter().filter_map(|tensor| Sample::of(draft, tensor, SAMPLE)).map(|sample| sample.bytes());
    progress.event(Event::Measuring { n_tensors, bytes: bytes.sum() });
    let (open, found) = (Mutex::new(open), Mutex::new(Measured::default()));
    workers::for_each(
        threads,
        0..n_tensors,
        progress,
        || (),
        |(), i| {
            let tensor = |open: &mut [Open]| open.get(i).map(|tensor| (tensor.index, Arc::clone(&tensor.types)));
            let Some((index, types)) = tensor(&mut open.lock().unwrap_or_else(PoisonError::into_inner)) else {
                return Ok(());
            };
            let tensor = Open { index, types, errors: Box::default() };
            let Some(sample) = Sample::of(draft, &tensor, SAMPLE) else { return Ok(()) };
            let name = sample.tensor.shown();
            if let Some(errors) = known.and_then(|known| known.errors(&name, &tensor.types)) {
                if let Some(tensor) = open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(i) {
                    tensor.keep(&errors);
                }
                return Ok(());
            }
            progress.event(Event::Tensor { index: i, name: &String::from_utf8_lossy(&sample.tensor.name) });
            let errors = sample.measure(progress)?;
            let pairs = tensor.types.iter().copied().zip(errors.iter().copied()).collect();
            found.lock().unwrap_or_else(PoisonError::into_inner).add(name, pairs);
            if let Some(tensor) = open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(i) {
                tensor.keep(&errors);
            }
            Ok::<_, Error>(())
        },
    )?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Sampled rows of a tensor.
struct Sample<'a> {
    draft: &'a Draft,
    tensor: &'a TensorPlan,
    types: &'a [GgmlType],
    row_len: u64,
    /// The columns to measure.
    columns: Vec<Range<u64>>,
    /// Rows of one matrix.
    height: u64,
    /// Number of matrices in the stack.
    n_matrices: u64,
    /// Rows to measure of each matrix.
    n_rows: u64,
}

/// Upper limit of relative errors: nothing of the tensor is left, but sums stay finite.
const MOST: f64 = 1e6;

impl<'a> Sample<'a> {
    /// About this many values of a tensor, at least one row of each matrix.
    fn of(draft: &'a Draft, open: &'a Open, values: u64) -> Option<Sample<'a>> {
        let tensor = draft.tensors.get(open.index)?;
        let row_len = tensor.shape.first().copied().unwrap_or(1).max(1);
        let height = tensor.shape.get(1).copied().unwrap_or(1);
        let n_matrices = tensor.shape.iter().skip(2).product::<u64>();
        let n_rows = rows_of_each(values, row_len, height, n_matrices);
        let columns = measured_columns(row_len);
        Some(Sample { draft, tensor, types: &open.types, row_len, columns, height, n_matrices, n_rows })
    }

    /// Number of columns to measure of each row.
    fn width(&self) -> u64 {
        self.columns.iter().map(|columns| columns.end - columns.start).sum()
    }

    /// The importance of the measured columns of a matrix.
    fn weights(&self, matrix: u64) -> Result<Option<Vec<f32>>, Error> {
        let Some((entry, importance)) = self.tensor.entry().zip(self.draft.importance.as_ref()) else {
            return Ok(None);
        };
        let first = matrix.saturating_mul(self.row_len);
        let mut all = Vec::new();
        for columns in &self.columns {
            let columns = first.saturating_add(columns.start)..first.saturating_add(columns.end);
            match importance.weights(entry, columns)? {
                Some(weights) => all.extend(weights),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// Bytes of values that will be encoded.
    fn bytes(&self) -> u64 {
        let n_values = self.width().saturating_mul(self.n_rows).saturating_mul(self.n_matrices);
        n_values.saturating_mul(4).saturating_mul(self.types.len() as u64)
    }

    /// The indexes of the sampled rows of one matrix, evenly spread over it.
    fn rows(&self, matrix: u64) -> impl Iterator<Item = u64> {
        spread(self.height, self.n_rows).map(move |row| matrix * self.height + row)
    }

    /// The squared relative errors of the types, at least of one. A type in which values overflow has none: it must not be chosen, and may
    /// not have been requested.
    fn measure(&self, progress: &dyn Progress) -> Result<Vec<Option<f64>>, Error> {
        let name = || self.tensor.shown();
        let no_codec = || Failure::NoCodec { tensor: name() };
        let draft = self.draft;
        let input = self.tensor.op.copied().ok_or_else(no_codec)?;
        let from = codec(input.ty).ok_or_else(no_codec)?;
        let bytes = |n: u64| input.ty.tensor_bytes([n]).map_err(|_| no_codec());
        let row_len = usize::try_from(self.width()).map_err(|_| no_codec())?;
        let packed_row = from.packed_bytes(row_len).ok_or_else(no_codec)?;
        let n_rows = usize::try_from(self.n_rows).map_err(|_| no_codec())?;
        // Bounded by the sample, or by the longest row.
        let (mut packed, mut values, mut decoded) = (vec![0; packed_row * n_rows], Vec::new(), Vec::new());
        values.resize(row_len * n_rows, 0.0f32);
        let mut errors = vec![TensorError::new(); self.types.len()];
        let mut failures: Vec<Option<Failure>> = self.types.iter().map(|_| None).collect();
        for matrix in 0..self.n_matrices {
            // Errors do not depend on the order of rows, so moved rows are read at their original places.
            for (row, mut packed) in self.rows(matrix).zip(packed.chunks_mut(packed_row)) {
                for columns in &self.columns {
                    let len = usize::try_from(bytes(columns.end - columns.start)?).map_err(|_| no_codec())?;
                    let (piece, rest) = packed.split_at_mut_checked(len).ok_or_else(no_codec)?;
                    draft.source.read(input.index(), bytes(self.row_len)? * row + bytes(columns.start)?, piece)?;
                    packed = rest;
                }
            }
            let wrong = |source| Failure::Codec { tensor: name(), row: matrix * self.height, source };
            from.decode(&packed, &mut values).map_err(wrong)?;
            if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                let row = self.rows(matrix).nth(i / row_len).unwrap_or(0);
                return Err(Error::SourceNotFinite { path: draft.path.clone(), tensor: name(), row, ty: input.ty });
            }
            let weights = self.weights(matrix)?;
            let weights = weights.as_deref();
            let rows =
                Rows::new(&values, row_len, weights).map_err(|source| Failure::Rows { tensor: name(), source })?;
            for ((ty, error), failure) in self.types.iter().zip(&mut errors).zip(&mut failures) {
                if progress.is_cancelled() {
                    return Err(Cancelled.into());
                }
                progress.event(Event::Advanced { bytes: values.len() as u64 * 4 });
                if failure.is_some() {
                    continue;
                }
                let to = codec(*ty).ok_or_else(no_codec)?;
                let coded: &[f32] = if *ty == input.ty {
                    &values
                } else {
                    let mut out = vec![0; to.packed_bytes(values.len()).ok_or_else(no_codec)?];
                    decoded.resize(values.len(), 0.0);
                    let done = to.encode(rows, &mut out).and_then(|()| to.decode(&out, &mut decoded));
                    if let Err(source) = done {
                        *failure = Some(wrong(source));
                        continue;
                    }
                    &decoded
                };
                let pairs = values.chunks(row_len).zip(coded.chunks(row_len));
                for (row, (x, y)) in self.rows(matrix).zip(pairs) {
                    let error_of_row = RowError::new(x, y, weights);
                    if error_of_row.not_finite() > 0 {
                        *failure = Some(Failure::NotFinite { tensor: name(), row, ty: *ty });
                        break;
                    }
                    error.add(row, &error_of_row);
                }
            }
        }
        let square = |(error, failure): (&TensorError, &Option<Failure>)| {
            let relative = error.weighted().unwrap_or_else(|| error.figures()).relative;
            failure.is_none().then(|| relative.min(MOST).powi(2))
        };
        let squares: Vec<Option<f64>> = errors.iter().zip(&failures).map(square).collect();
        match failures.into_iter().next().flatten() {
            Some(failure) if squares.iter().all(Option::is_none) => Err(failure.into()),
            _ => Ok(squares),
        }
    }
}

/// The number of rows per matrix of a stack, at least one, for about this many values in total.
fn rows_of_each(values: u64, row_len: u64, height: u64, n_matrices: u64) -> u64 {
    values.div_ceil(row_len.max(1)).div_ceil(n_matrices.max(1)).max(1).min(height)
}

/// `n` rows of a matrix: the centres of equal parts.
fn spread(height: u64, n: u64) -> impl Iterator<Item = u64> {
    let (height, n_parts) = (u128::from(height), u128::from(n));
    (0..n).map(move |i| u64::try_from((u128::from(i) * 2 + 1) * height / (2 * n_parts)).unwrap_or(u64::MAX))
}

/// The relative error, in parts per million, of a mean relative square error.
#[expect(clippy::cast_possible_truncation, reason = "conversions of floats saturate")]
fn relative_ppm(square: f64) -> u32 {
    (square.sqrt() * 1e6).round() as u32
}

/// The bytes of weights with a number of bits each.
#[expect(clippy::cast_possible_truncation, reason = "conversions of floats saturate")]
fn bytes_at(bits: f64, n_weights: u64) -> u64 {
    (bits * n_weights as f64 / 8.0).floor() as u64
}

/// Chooses the index of a type for each tensor.
fn choose(
    model: &Undecided<'_>,
    decisions: &[Decision],
    open: &[Open],
    limit: Limit,
    measured: Option<&Sensitivities>,
) -> Result<Vec<usize>, Error> {
    let (draft, tensors) = (model.draft(), &model.draft().tensors);
    let tied = !tensors.iter().any(|t| Category::of(&t.name) == Category::Output);
    let n_blocks = tensors.iter().filter_map(|t| block(&t.name)).max().map_or(1, |n| n.saturating_add(1));
    let unwritable = |source| Failure::Layout { path: draft.path.clone(), source };
    let alignment = draft.head.alignment().map_err(unwritable)?.max(1);
    // The share of a tensor in the limit: in a file including padding.
    let taken = |bytes: u64| match limit {
        Limit::FileBytes(_) => bytes.checked_next_multiple_of(alignment).unwrap_or(u64::MAX),
        Limit::BitsPerWeight(_) => bytes,
    };
    let of_table = |t: &TensorPlan| sensitivity(Category::of(&t.name), tied, n_blocks);
    let each = || open.iter().filter_map(|open| tensors.get(open.index));
    let counts = match measured {
        Some(measured) => measured.weights(&each().map(|t| (&*t.name, of_table(t))).collect::<Vec<_>>()),
        None => each().map(of_table).collect(),
    };
    let items = OpenItems { open, tensors, counts, taken };
    let n_weights = tensors.iter().map(TensorPlan::n_elements).fold(0, u64::saturating_add);
    // The size of the heads and the padding of whole files, and the limit.
    let (heads, most) = match limit {
        Limit::FileBytes(most) => {
            let data = tensors.iter().map(|t| taken(t.n_bytes())).fold(0, u64::saturating_add);
            (draft.file_bytes()?.saturating_sub(data), most)
        }
        Limit::BitsPerWeight(bits) => (0, bytes_at(bits, n_weights)),
    };
    let is_open = |index: usize| open.binary_search_by_key(&index, |open| open.index).is_ok();
    let others = tensors.iter().zip(decisions).enumerate().filter(|(index, _)| !is_open(*index));
    let fixed =
        others.map(|(_, (tensor, decision))| taken(bytes_as(tensor, decision.ty))).fold(heads, u64::saturating_add);
    let too_small = |smallest: u64| {
        let smallest = smallest.saturating_add(fixed);
        let smallest = match limit {
            Limit::FileBytes(_) => Limit::FileBytes(smallest),
            Limit::BitsPerWeight(_) => Limit::BitsPerWeight(smallest as f64 * 8.0 / n_weights.max(1) as f64),
        };
        Error::Budget { asked: limit, smallest, is_fixed: open.is_empty() }
    };
    match most.checked_sub(fixed) {
        Some(left) => allocate_each(&items, left).map_err(too_small),
        None => Err(too_small((0..open.len()).filter_map(|i| items.options(i).map(|c| c.bytes).min()).sum())),
    }
}

/// The tensors with a type to choose, as items of an allocation. A model may have very many, so the options are made on demand.
struct OpenItems<'a, F> {
    open: &'a [Open],
    tensors: &'a [TensorPlan],
    /// The weight of the error of each tensor.
    counts: Vec<f64>,
    /// The share in the limit of a tensor of that many bytes.
    taken: F,
}

impl<F: Fn(u64) -> u64> Items for OpenItems<'_, F> {
    fn len(&self) -> usize {
        self.open.len()
    }

    fn options(&self, item: usize) -> impl Iterator<Item = Choice> {
        let found = self.open.get(item).zip(self.counts.get(item));
        let found = found.and_then(|(open, counts)| Some((open, self.tensors.get(open.index)?, counts)));
        found.into_iter().flat_map(|(open, tensor, counts)| {
            let bytes = |ty: &GgmlType| (self.taken)(bytes_as(tensor, *ty));
            open.types
                .iter()
                .zip(&open.errors)
                .map(move |(ty, error)| Choice { bytes: bytes(ty), error: counts * error })
        })
    }
}

/// The number after `blk.`.
fn block(name: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(name).ok()?;
    let (_, rest) = name.split_once("blk.")?;
    rest.split('.').next()?.parse().ok()
}

/// The weight of a tensor's squared relative error.
///
/// The weights within a block are rounded from two measurements: perplexity of a Llama of 7 billion parameters with the tensors of one kind
/// in 2 bits (llama.cpp, issue 1256), and divergence of the example model with one tensor in 3 bits. Both agree within a factor of two for
/// most kinds, and such an error of the table hardly changes the choice.
pub fn sensitivity(category: Category, tied: bool, n_blocks: u64) -> f64 {
    let share = match category {
        Category::Output => return 1.0,
        Category::TokenEmbd if tied => return 1.0,
        // Each token uses one row of it, to which the blocks then add.
        Category::TokenEmbd => return 0.03,
        Category::FfnDown => 0.3,
        Category::AttnV => 0.2,
        Category::AttnQkv | Category::AttnKvB => 0.3,
        Category::FfnGate | Category::FfnUp => 0.15,
        Category::AttnK | Category::AttnQ | Category::AttnOutput | Category::Other => 0.1,
    };
    share / n_blocks.max(1) as f64
}

/// The file type that llama.cpp guesses for a file without one (`llama_model_loader` in `llama-model-loader.cpp`), but for the type of most
/// weights: llama.cpp counts tensors equally, and norms outnumber the types of a file with many types.
fn guessed_file_type(tensors: &[TensorPlan], decisions: &[Decision]) -> FileType {
    let mut weights: Vec<(GgmlType, u64)> = Vec::new();
    for (tensor, decision) in tensors.iter().zip(decisions) {
        let n = tensor.n_elements();
        match weights.iter_mut().find(|(ty, _)| *ty == decision.ty) {
            Some((_, sum)) => *sum = sum.saturating_add(n),
            None => weights.push((decision.ty, n)),
        }
    }
    // Of equal ones the first, as in llama.cpp.
    let most = weights.iter().rev().max_by_key(|(_, n)| *n).map_or(GgmlType::F32, |(ty, _)| *ty);
    file_type_of(most)
}

/// The file type with the name of the tensor type, or the middle one of several.
fn file_type_of(ty: GgmlType) -> FileType {
    let name = ty.info().map_or("", |info| info.name);
    let is_named =
        |label: &str, end: &str| label.strip_suffix(end).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let rows = || FILE_TYPES.iter().filter(|row| !row.removed);
    let found = rows().find(|row| is_named(row.label(), "")).or_else(|| rows().find(|row| is_named(row.label(), "_M")));
    found.or_else(|| rows().find(|row| row.tensor_type == ty)).map_or(FileType(0), |row| FileType(row.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of `llama_model_loader`.
    #[test]
    fn file_types_are_those_that_llama_cpp_guesses() {
        for (ty, id) in [
            (GgmlType::F32, 0),
            (GgmlType::F16, 1),
            (GgmlType::Q4_0, 2),
            (GgmlType::Q4_1, 3),
            (GgmlType::Q8_0, 7),
            (GgmlType::Q5_0, 8),
            (GgmlType::Q5_1, 9),
            (GgmlType::Q2_K, 10),
            (GgmlType::Q3_K, 12),
            (GgmlType::Q4_K, 15),
            (GgmlType::Q5_K, 17),
            (GgmlType::Q6_K, 18),
            (GgmlType::IQ2_XXS, 19),
            (GgmlType::IQ2_XS, 20),
            (GgmlType::IQ3_XXS, 23),
            (GgmlType::IQ1_S, 24),
            (GgmlType::IQ4_NL, 25),
            (GgmlType::IQ3_S, 26),
            (GgmlType::IQ2_S, 28),
            (GgmlType::IQ4_XS, 30),
            (GgmlType::IQ1_M, 31),
            (GgmlType::BF16, 32),
            (GgmlType::TQ1_0, 36),
            (GgmlType::TQ2_0, 37),
            (GgmlType::NVFP4, 39),
            (GgmlType::Q1_0, 40),
        ] {
            assert_eq!(file_type_of(ty).0, id, "{ty}");
        }
    }

    #[test]
    fn samples_are_spread_over_all_matrices() {
        for (height, n, rows) in [(10, 1, vec![5]), (10, 3, vec![1, 5, 8]), (4, 4, vec![0, 1, 2, 3]), (0, 0, vec![])] {
            assert_eq!(spread(height, n).collect::<Vec<_>>(), rows);
        }
        let all: Vec<u64> = spread(u64::MAX, 5000).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        for (values, row_len, height, n_matrices, n) in [
            (1 << 18, 4096, 14_336, 1, 64),
            (1 << 18, 2048, 768, 128, 1),
            (1 << 18, 2048, 768, 12, 11),
            (1 << 18, 256, 9, 1, 9),
        ] {
            assert_eq!(rows_of_each(values, row_len, height, n_matrices), n);
        }
    }

    #[test]
    fn pieces_stand_for_long_rows() {
        for row_len in [0, 256, MAX_ROW] {
            assert!(measured_columns(row_len).into_iter().eq(iter::once(0..row_len)));
        }
        for row_len in [MAX_ROW + 1, MAX_ROW + 256, 1 << 27, (1 << 40) + 7] {
            let columns = measured_columns(row_len);
            assert_eq!(columns.iter().map(|c| c.end - c.start).sum::<u64>(), SAMPLE);
            assert!(columns.iter().all(|c| c.start.is_multiple_of(256) && c.end <= row_len));
            assert!(columns.windows(2).all(|w| w[0].end <= w[1].start));
        }
    }

    #[test]
    fn blocks_have_numbers() {
        for (name, n) in [("blk.12.ffn_up.weight", Some(12)), ("v.blk.3.ln1.weight", Some(3)), ("output.weight", None)]
        {
            assert_eq!(block(name.as_bytes()), n);
        }
    }
}
