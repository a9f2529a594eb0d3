//! Values that the type of their tensor cannot hold, searched for before anything is written.
//!
//! Half precision ends at 65504, and bfloat16 a little before single precision: larger values become infinite. In blocks, large values
//! make the scale infinite, which usually is in half precision. The source is read as in a run, all of it or a sample, and nothing is
//! encoded except blocks with such values.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use gguf_format::{ByteOrder, GgmlType, scan_data};
use gguf_quants::Rows;
use gguf_quants::codec::{Matrix, codec};

use crate::cast;
use crate::chunk::{Chunks, Lane};
use crate::error::Error;
use crate::op::ReadBuffers;
use crate::plan::{Draft, Op, Plan, TensorPlan};
use crate::progress::{Event, Progress};
use crate::read::Readable;
use crate::totals::Totals;
use crate::workers;

/// Runs of values in the sample of a tensor.
const RUNS: u64 = 16;

/// Values of each run of a sample.
const RUN: u64 = 4096;

/// The most values of a tensor that are read for a sample; a tensor that has no more is read whole.
pub const MAX_SAMPLE: u64 = RUNS * RUN;

/// Values that are decoded at once; they stay in the second-level cache.
const AT_ONCE: usize = 1 << 14;

/// The values to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// Those of tensors whose type has a smaller range than its source: up to [`MAX_SAMPLE`] values of each, in 16 runs at equal
    /// distances, the first at the start and the last at the end.
    Sample,
    /// All values of all tensors.
    All,
}

/// Values of one kind in a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Values {
    /// How many were found.
    pub count: u64,
    /// The place of the first in the output tensor, from 0.
    pub index: u64,
    /// The first.
    pub value: f32,
}

/// What was found in a tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OutOfRange {
    /// The name of the output tensor, safe to print.
    pub tensor: String,
    /// The type that is written.
    pub ty: GgmlType,
    /// Finite values that the type cannot hold: they become infinite. In a type with blocks, the largest value of each block whose scale
    /// becomes infinite or that cannot be encoded.
    pub overflow: Option<Values>,
    /// NaN and infinity in the source.
    pub not_finite: Option<Values>,
    /// The number of values that were checked.
    pub n_checked: u64,
    /// The number of values of the tensor.
    pub n_values: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.tensor)?;
        let number = |count: u64| match count {
            1 => "1 value".to_owned(),
            n => format!("{n} values"),
        };
        if let Some(Values { count, index, value }) = self.overflow {
            let (number, verb) = (number(count), if count == 1 { "exceeds" } else { "exceed" });
            write!(f, "{number} {verb} the range of {}, the first {value:?} at index {index}", self.ty)?;
        }
        if let Some(Values { count, index, value }) = self.not_finite {
            let (between, verb) =
                (if self.overflow.is_some() { "; " } else { "" }, if count == 1 { "is" } else { "are" });
            write!(f, "{between}{} {verb} not finite, the first {value:?} at index {index}", number(count))?;
        }
        if self.n_checked < self.n_values {
            write!(f, " (in a sample of {} of {} values)", self.n_checked, self.n_values)?;
        }
        Ok(())
    }
}

/// Searches the values that plans write for those that their types cannot hold, and for NaN and infinity. Returns the tensors that have
/// some, for each plan in the order of the first plan's tensors. Whole numbers, and blocks that are copied, are not checked.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [2], gguf_format::GgmlType::F32));
/// # let values = [1.0f32.to_le_bytes(), 70_000.0f32.to_le_bytes()].concat();
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [values])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_format::GgmlType;
/// use gguf_pipeline::Draft;
/// use gguf_pipeline::range::{Extent, check_range};
///
/// let mut draft = Draft::copy_of(model)?;
/// draft.tensors[0].ty = GgmlType::F16;
/// let found = check_range(&[&draft.lay_out()?], Extent::Sample, None, &())?;
/// let overflow = found[0][0].overflow.as_ref().expect("a value of 70,000");
/// assert_eq!((overflow.count, overflow.value), (1, 70_000.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Apart`] for plans that cannot be [run together](crate::run_all), errors of the source, [`Error::Cancelled`].
pub fn check_range<'a>(
    plans: &[&'a Plan],
    extent: Extent,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<Vec<OutOfRange>>, Error> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let lane = |plan: &&'a Plan| {
        Lane::beside(&first.draft, &plan.draft).ok_or_else(|| Error::Apart { path: plan.draft.path.clone() })
    };
    let lanes = plans.iter().map(lane).collect::<Result<Vec<Lane<'a>>, Error>>()?;
    let totals = Totals::new(progress);
    let search = Search { draft: &first.draft, lanes: &lanes, extent, found: Mutex::default(), totals, progress };
    let tensors = first.tensors();
    let sampled = |index: &usize| lanes.iter().any(|lane| narrowed_type(lane, *index).is_some());
    let samples = (0..tensors.len()).filter(sampled).flat_map(|index| {
        let n = tensors.get(index).map_or(0, TensorPlan::n_elements);
        sample(n).map(move |(first, n_elements)| Piece { index, first, n_elements })
    });
    let chunks = Chunks::from(&lanes, 0, false).map(|(index, chunk)| Piece {
        index,
        first: chunk.first(),
        n_elements: chunk.n_elements(),
    });
    let read = |tensor: &&TensorPlan| decoder(tensor).is_some();
    let value_bytes = |t: &TensorPlan| t.n_elements().saturating_mul(cast::width(t.op.value_type()) as u64);
    match extent {
        Extent::Sample => workers::for_each(threads, samples, progress, Buffers::default, |b, p| search.piece(p, b))?,
        Extent::All => {
            let bytes = tensors.iter().filter(read).map(value_bytes).fold(0, u64::saturating_add);
            progress.event(Event::Started { n_tensors: tensors.len(), bytes });
            workers::for_each(threads, chunks, progress, Buffers::default, |b, p| search.piece(p, b))?;
            progress.event(Event::Finished);
        }
    }
    Ok(search.into_results())
}

/// The runs of values of a sample: where each starts, and its length.
fn sample(n_values: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
    let (runs, len) = if n_values > MAX_SAMPLE { (RUNS, RUN) } else { (u64::from(n_values > 0), n_values) };
    let start = move |i: u64| {
        let start = u128::from(n_values - len) * u128::from(i) / u128::from((runs - 1).max(1));
        u64::try_from(start).unwrap_or(u64::MAX)
    };
    (0..runs).map(move |i| (start(i), len))
}

/// The type that a plan writes a tensor in, if it is a float type with a smaller range than that of the values. `index` is the number in the
/// first plan.
fn narrowed_type(lane: &Lane<'_>, index: usize) -> Option<GgmlType> {
    let (_, tensor) = lane.tensor(index)?;
    let (from, _) = (tensor.op.value_type(), decoder(tensor)?);
    let is_narrowed = match tensor.ty {
        GgmlType::F16 => from != GgmlType::F16,
        GgmlType::BF16 => from == GgmlType::F32 || from == GgmlType::F64,
        _ => false,
    };
    is_narrowed.then_some(tensor.ty)
}

/// The greatest finite value of half precision. No scale of a block is larger than the values of the block.
const F16_MAX: f32 = 65504.0;

/// The blocks of a type that cannot hold their values: the largest value of each. `values` are whole blocks, of which the first value has
/// the number `place`. An importance matrix, which would shift the scales a little, is not taken into account.
fn block_overflow(ty: GgmlType, values: &[f32], place: u64) -> Option<Values> {
    let block_len = usize::try_from(ty.info()?.block_len).ok().filter(|len| *len > 1)?;
    let is_large = |value: &f32| value.is_finite() && value.abs() > F16_MAX;
    if !values.iter().any(is_large) {
        return None;
    }
    let codec = codec(ty)?;
    let ones = vec![1.0; block_len];
    let weights = (codec.matrix == Matrix::Required).then_some(ones.as_slice());
    let mut packed = vec![0; codec.packed_bytes(block_len)?];
    let mut found = None;
    for (n, block) in values.chunks_exact(block_len).enumerate().filter(|(_, block)| block.iter().any(is_large)) {
        let rows = Rows::new(block, block_len, weights).ok()?;
        let is_held = codec.encode(rows, &mut packed).is_ok()
            && scan_data(ty, ByteOrder::Little, &packed, 0).is_ok_and(|scan| scan.is_clean());
        let finite = block.iter().enumerate().filter(|(_, value)| value.is_finite());
        let largest = finite.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        if let Some((i, value)) = largest.filter(|_| !is_held) {
            let index = place + (n * block_len + i) as u64;
            found = Values::sum(found, Some(Values { count: 1, index, value: *value }));
        }
    }
    found
}

/// How the values of a tensor are decoded, if they are floats of a source.
fn decoder(tensor: &TensorPlan) -> Option<cast::Decode> {
    match &tensor.op {
        // Rounded values are no larger than those that they are rounded from, and need the whole tensor.
        Op::Computed(_) | Op::RoundToMean(_) => None,
        _ => cast::decoder(tensor.op.value_type()),
    }
}

/// Values of a tensor that follow each other in the output.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Number of the tensor in the first plan.
    index: usize,
    /// The first value.
    first: u64,
    n_elements: u64,
}

/// What one thread reuses from piece to piece.
#[derive(Default)]
struct Buffers {
    read: ReadBuffers,
    values: Vec<f32>,
}

/// What was found so far in a tensor of a plan.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    overflow: Option<Values>,
    not_finite: Option<Values>,
    n_checked: u64,
}

/// A search in progress.
struct Search<'a> {
    draft: &'a Draft,
    lanes: &'a [Lane<'a>],
    extent: Extent,
    /// By plan and number of the tensor in the first plan.
    found: Mutex<BTreeMap<(usize, usize), Found>>,
    totals: Totals<'a>,
    progress: &'a dyn Progress,
}

impl Search<'_> {
    /// Reads and checks values of a tensor.
    fn piece(&self, piece: Piece, buffers: &mut Buffers) -> Result<(), Error> {
        let Piece { index, first, n_elements } = piece;
        let Some(tensor) = self.draft.tensors.get(index) else { return Ok(()) };
        let Some(decode) = decoder(tensor) else { return Ok(()) };
        if first == 0 {
            self.progress.event(Event::Tensor { index, name: &tensor.shown() });
        }
        let Buffers { read, values } = buffers;
        let from = Readable { index, draft: self.draft, tensor, totals: &self.totals };
        let packed = from.read(first, n_elements, read)?;
        let narrowed: Vec<Option<GgmlType>> = self.lanes.iter().map(|lane| narrowed_type(lane, index)).collect();
        let mut found = vec![Found { n_checked: n_elements, ..Found::default() }; narrowed.len()];
        let bytes = cast::width(tensor.op.value_type());
        for (n, packed) in packed.chunks(AT_ONCE * bytes).enumerate() {
            values.resize(packed.len() / bytes, 0.0);
            decode(packed, values);
            let place = first + (n * AT_ONCE) as u64;
            let not_finite =
                Values::of(values, place, |values| values.iter().filter(|v| !v.is_finite()).count() as u64);
            for ((found, ty), lane) in found.iter_mut().zip(&narrowed).zip(self.lanes) {
                let overflow = match ty.and_then(cast::overflow_counter) {
                    Some(count) => Values::of(values, place, count),
                    None => lane.tensor(index).and_then(|(_, tensor)| block_overflow(tensor.ty, values, place)),
                };
                found.add(&Found { overflow, not_finite, n_checked: 0 });
            }
        }
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_asked = |ty: &Option<GgmlType>| ty.is_some() || self.extent == Extent::All;
        for (plan, (found, _)) in found.iter().zip(&narrowed).enumerate().filter(|(_, (_, ty))| is_asked(ty)) {
            all.entry((plan, index)).or_default().add(found);
        }
        drop(all);
        self.progress.event(Event::Advanced { bytes: n_elements.saturating_mul(bytes as u64) });
        Ok(())
    }

    fn into_results(self) -> Vec<Vec<OutOfRange>> {
        let mut results = vec![Vec::new(); self.lanes.len()];
        for ((plan, index), found) in self.found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let Found { overflow, not_finite, n_checked } = found;
            let tensor = self.lanes.get(plan).and_then(|lane| lane.tensor(index));
            let Some(((_, tensor), results)) = tensor.zip(results.get_mut(plan)) else { continue };
            if overflow.is_some() || not_finite.is_some() {
                let (name, n_values) = (tensor.shown(), tensor.n_elements());
                results.push(OutOfRange { tensor: name, ty: tensor.ty, overflow, not_finite, n_checked, n_values });
            }
        }
        results
    }
}

impl Found {
    fn add(&mut self, other: &Found) {
        self.overflow = Values::sum(self.overflow, other.overflow);
        self.not_finite = Values::sum(self.not_finite, other.not_finite);
        self.n_checked += other.n_checked;
    }
}

impl Values {
    /// Those that `count` finds among values, of which the first has the number `place`.
    fn of(values: &[f32], place: u64, count: impl Fn(&[f32]) -> u64) -> Option<Values> {
        let n = count(values);
        if n == 0 {
            return None;
        }
        let (i, value) = values.iter().enumerate().find(|(_, value)| count(std::slice::from_ref(value)) > 0)?;
        Some(Values { count: n, index: place + i as u64, value: *value })
    }

    /// The values of two ranges as one range.
    fn sum(a: Option<Values>, b: Option<Values>) -> Option<Values> {
        let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
        let first = if a.index <= b.index { a } else { b };
        Some(Values { count: a.count + b.count, ..first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_reach_both_ends() {
        let all = |n| sample(n).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(1), [(0, 1)]);
        assert_eq!(all(MAX_SAMPLE), [(0, MAX_SAMPLE)]);
        for n in [MAX_SAMPLE + 1, 1 << 30, u64::MAX] {
            let runs = all(n);
            assert_eq!(runs.len() as u64, RUNS);
            assert_eq!((runs[0].0, runs[15].0 + RUN), (0, n));
            assert!(runs.windows(2).all(|w| w[0].0 + RUN <= w[1].0), "{n}");
        }
    }

    #[test]
    fn the_first_value_of_a_kind_is_named() {
        let values = [1.0, 65519.0, -7e4, f32::NAN, 7e4, f32::INFINITY];
        let count = cast::overflow_counter(GgmlType::F16).unwrap();
        let found = Values::of(&values, 10, count).unwrap();
        assert_eq!(found, Values { count: 2, index: 12, value: -7e4 });
        let before = Values { count: 3, index: 4, value: 1e9 };
        let both = Values { count: 5, ..before };
        assert_eq!(Values::sum(Some(found), Some(before)), Some(both));
        assert_eq!(Values::sum(Some(before), Some(found)), Some(both));
        assert_eq!(Values::of(&values[..2], 0, count), None);
    }
}
