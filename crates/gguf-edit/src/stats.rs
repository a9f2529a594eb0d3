//! Statistics of a tensor's values.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use gguf_format::GgmlType;
use gguf_io::IntoModel;
use gguf_pipeline::{Event, GgufSource, Progress, Source, workers};
use gguf_quants::codec::codec;
use gguf_quants::statistics::{Spread, Sums};

use crate::error::Error;
use crate::pieces::{pieces as pieces_of, resize};
use crate::rewrite::no_tensor;

/// Approximate number of bytes whose sums are computed at once.
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
    /// Number of finite values with a magnitude above six times the root mean square.
    pub outliers: u64,
    /// Number of values in each of several equal intervals from `min` to `max`; the largest value is in the last one.
    pub histogram: Vec<u64>,
}

impl Stats {
    /// The statistics of a tensor, from the sums and the spread of its [`pieces`] in order.
    pub fn new(ty: GgmlType, shape: Vec<u64>, sums: &Sums, spread: Spread) -> Stats {
        let stddev = (sums.n_finite() > 0).then(|| (spread.squares / sums.n_finite() as f64).sqrt());
        Stats {
            ty,
            shape,
            n: sums.n,
            nan: sums.nan,
            infinite: sums.infinite,
            zeros: sums.zeros,
            min: sums.min,
            max: sums.max,
            mean: sums.mean(),
            stddev,
            rms: sums.rms(),
            outliers: spread.outliers,
            histogram: if sums.n_finite() > 0 { spread.bins } else { Vec::new() },
        }
    }
}

/// Offsets and lengths, in bytes, of the pieces of a tensor whose sums are added up.
pub fn pieces(ty: GgmlType, bytes: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
    pieces_of(ty, bytes, PIECE)
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
    // The second pass uses the mean: a difference of large squares would lose all digits.
    let parts = values.each(|v| Spread::of(v, &sums, n_bins))?;
    let spread = parts.values().fold(Spread::new(n_bins), Spread::and);
    progress.event(Event::Finished);
    Ok(Stats::new(info.ty, info.dims.collect(), &sums, spread))
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
        let pieces = pieces(self.ty, self.bytes);
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
