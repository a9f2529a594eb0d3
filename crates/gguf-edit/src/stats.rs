//! Statistics of a tensor's values.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use gguf_format::GgmlType;
use gguf_io::IntoModel;
use gguf_pipeline::{Event, GgufSource, Progress, Source, workers};
use gguf_quants::codec::codec;

use crate::error::Error;
use crate::pieces::{pieces, resize};
use crate::rewrite::no_tensor;

/// Approximate number of bytes to decode at a time.
const PIECE: u64 = 256 << 10;

/// Statistics of the values of a tensor. Infinite and NaN values are counted, and otherwise excluded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The type of the tensor.
    pub ty: GgmlType,
    /// The dimensions, the contiguous one first.
    pub shape: Vec<u64>,
    /// Number of values.
    pub n: u64,
    /// Number of NaN values.
    pub nan: u64,
    /// Number of infinite values, of either sign.
    pub infinite: u64,
    /// Number of zeros.
    pub zeros: u64,
    /// The smallest value; this and the following are `None` without finite values.
    pub min: Option<f32>,
    /// The largest value.
    pub max: Option<f32>,
    /// The mean.
    pub mean: Option<f64>,
    /// The population standard deviation.
    pub stddev: Option<f64>,
    /// The root mean square.
    pub rms: Option<f64>,
    /// Number of values in each of several equal intervals from `min` to `max`; the largest value is in the last one.
    pub histogram: Vec<u64>,
}

/// Computes statistics of a tensor of a model, in two passes. The result does not depend on the number of threads.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// # let mut head = Head::default();
/// # head.tensors.push(TensorInfo::new("output.weight", [2], GgmlType::F32));
/// # let values = [1.0f32.to_le_bytes(), 3.0f32.to_le_bytes()].concat();
/// # std::fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [values])?)?;
/// let stats = gguf_edit::stats(&path, "output.weight", 2, None, &())?;
/// assert_eq!((stats.n, stats.min, stats.max, stats.mean), (2, Some(1.0), Some(3.0), Some(2.0)));
/// assert_eq!(stats.histogram, [1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::NoTensor`], [`Error::NotDecodable`]; or if the model cannot be read.
pub fn stats(
    model: impl IntoModel,
    name: &str,
    n_bins: usize,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Stats, Error> {
    let source = GgufSource::open(model)?;
    let path = source.model().path();
    let found = source.tensors().enumerate().find(|(_, tensor)| tensor.name() == *name);
    let (index, tensor) = found.ok_or_else(|| no_tensor(path, name, source.tensors().map(|tensor| tensor.name())))?;
    let info = tensor.info();
    let shown = gguf_format::check::shown(info.name);
    if codec(info.ty).is_none() {
        return Err(Error::NotDecodable { path: path.to_owned(), tensor: shown, ty: info.ty });
    }
    let bytes = source.stored(index).map_or(0, |stored| stored.bytes);
    progress.event(Event::Started { n_tensors: 1, bytes: bytes.saturating_mul(2) });
    let values = Values { source: &source, index, ty: info.ty, bytes, shown: &shown, threads, progress };
    let parts = values.each(Sums::of)?;
    let sums = parts.into_values().fold(Sums::default(), Sums::and);
    let n_finite = sums.n - sums.nan - sums.infinite;
    let over = |sum: f64| (n_finite > 0).then(|| sum / n_finite as f64);
    let (min, max) = (sums.min, sums.max);
    let mean = over(sums.sum);
    // The second pass uses the mean: a difference of large squares would lose all digits.
    let spread = match (min, max, mean) {
        (Some(min), Some(max), Some(mean)) => {
            let parts = values.each(|v| Spread::of(v, mean, (min, max), n_bins))?;
            parts.into_values().fold(Spread::new(n_bins), Spread::and)
        }
        _ => Spread::new(0),
    };
    progress.event(Event::Finished);
    Ok(Stats {
        ty: info.ty,
        shape: info.dims.collect(),
        n: sums.n,
        nan: sums.nan,
        infinite: sums.infinite,
        zeros: sums.zeros,
        min,
        max,
        mean,
        stddev: over(spread.squares).map(f64::sqrt),
        rms: over(sums.squares).map(f64::sqrt),
        histogram: spread.bins,
    })
}

/// The values of one tensor.
struct Values<'a> {
    source: &'a GgufSource,
    index: usize,
    ty: GgmlType,
    bytes: u64,
    shown: &'a str,
    threads: Option<NonZeroUsize>,
    progress: &'a dyn Progress,
}

impl Values<'_> {
    /// The results for each piece, in order.
    fn each<T: Send>(&self, look: impl Fn(&[f32]) -> T + Sync) -> Result<BTreeMap<u64, T>, Error> {
        let found = Mutex::new(BTreeMap::new());
        let pieces = pieces(self.ty, self.bytes, PIECE);
        let buffers = <(Vec<u8>, Vec<f32>)>::default;
        workers::for_each(self.threads, pieces, self.progress, buffers, |(packed, values), (from, bytes)| {
            let what = || self.shown.to_owned();
            let no_codec = || gguf_pipeline::Error::NoCodec { tensor: what() };
            let packed = resize(packed, bytes, what)?;
            self.source.read(self.index, from, packed)?;
            let info = self.ty.info().ok_or_else(no_codec)?;
            let n = bytes / u64::from(info.block_bytes).max(1) * u64::from(info.block_len);
            let values = resize(values, n, what)?;
            let codec = codec(self.ty).ok_or_else(no_codec)?;
            let wrong = |source| gguf_pipeline::Error::Codec { tensor: what(), row: 0, source };
            codec.decode(packed, values).map_err(wrong)?;
            let part = look(values);
            found.lock().unwrap_or_else(PoisonError::into_inner).insert(from, part);
            self.progress.event(Event::Advanced { bytes });
            Ok::<_, Error>(())
        })?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The result of the first pass.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: u64,
    nan: u64,
    infinite: u64,
    zeros: u64,
    min: Option<f32>,
    max: Option<f32>,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn of(values: &[f32]) -> Sums {
        let mut sums = Sums { n: values.len() as u64, ..Sums::default() };
        let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
        for &v in values {
            if !v.is_finite() {
                sums.nan += u64::from(v.is_nan());
                sums.infinite += u64::from(v.is_infinite());
                continue;
            }
            sums.zeros += u64::from(v == 0.0);
            (min, max) = (min.min(v), max.max(v));
            sums.sum += f64::from(v);
            sums.squares += f64::from(v) * f64::from(v);
        }
        if min <= max {
            (sums.min, sums.max) = (Some(min), Some(max));
        }
        sums
    }

    fn and(self, other: Sums) -> Sums {
        let either = |a: Option<f32>, b: Option<f32>, pick: fn(f32, f32) -> f32| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        Sums {
            n: self.n + other.n,
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
            zeros: self.zeros + other.zeros,
            min: either(self.min, other.min, f32::min),
            max: either(self.max, other.max, f32::max),
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }
}

/// The result of the second pass.
#[derive(Debug, Clone)]
struct Spread {
    squares: f64,
    bins: Vec<u64>,
}

impl Spread {
    fn new(n_bins: usize) -> Spread {
        Spread { squares: 0.0, bins: vec![0; n_bins] }
    }

    #[expect(clippy::cast_possible_truncation, reason = "bins are limited to the last; conversions of floats saturate")]
    fn of(values: &[f32], mean: f64, (min, max): (f32, f32), n_bins: usize) -> Spread {
        let mut spread = Spread::new(n_bins);
        let (min, width) = (f64::from(min), f64::from(max) - f64::from(min));
        for &v in values.iter().filter(|v| v.is_finite()) {
            let v = f64::from(v);
            spread.squares += (v - mean) * (v - mean);
            // If the range is empty, all values are equal.
            let at = if width > 0.0 { ((v - min) / width * n_bins as f64) as usize } else { 0 };
            if let Some(bin) = spread.bins.get_mut(at.min(n_bins.saturating_sub(1))) {
                *bin += 1;
            }
        }
        spread
    }

    fn and(mut self, other: Spread) -> Spread {
        self.squares += other.squares;
        self.bins.iter_mut().zip(other.bins).for_each(|(a, b)| *a += b);
        self
    }
}
