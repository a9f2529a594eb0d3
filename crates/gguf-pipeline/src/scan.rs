//! Scans tensor data for NaN, infinity and repeated bytes.
//!
//! As in a conversion, several threads read pieces of a few MiB, so memory does not grow with the model.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use gguf_format::sort::CompactSort as _;
use gguf_format::{DataScan, NotScannable, TensorInfoRef, scan_data};
use gguf_io::ModelFile;

use crate::error::Error;
use crate::progress::{Event, Progress};
use crate::workers;

mod repeats;

pub use repeats::{Repeats, Runs};

use repeats::{Layout, Piece};

/// Approximate number of bytes to read at once.
const PIECE: u64 = 4 << 20;

/// The result for the data of a tensor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorScan<'a> {
    /// Index of the file in the given list.
    pub file: usize,
    /// The tensor.
    pub tensor: TensorInfoRef<'a>,
    /// Offset of the data, from the start of the GGUF.
    pub start: u64,
    /// Bytes of the data.
    pub bytes: u64,
    /// The result, or the reason why the data cannot be scanned.
    pub result: Result<DataScan, NotScannable>,
    /// Repeated bytes; only those in matrices of floats or blocks of at least 4,096 bytes that are no biases.
    pub repeats: Repeats,
}

/// Searches for NaN and infinity in the data of all tensors of the files, in numbers and block scales, and for repeated bytes. Returns the
/// tensors in which something was found, or whose data cannot be scanned, in order. Data shared by several tensors is scanned once; data
/// outside of the file is skipped.
///
/// ```
/// use gguf_format::{GgmlType, Head, TensorInfo};
/// use gguf_io::{ModelFile, Writer};
///
/// let mut head = Head::default();
/// head.tensors.push(TensorInfo::new("output_norm.weight", [2], GgmlType::F32));
/// let values = [1.0f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat();
/// let file = ModelFile::from_source(Writer::write(Vec::new(), &head, [values])?, "model in memory")?;
///
/// let found = gguf_pipeline::scan_tensors(&[&file], None, &())?;
/// assert_eq!(found[0].tensor.name.to_string(), "output_norm.weight");
/// assert!(found[0].result.as_ref().is_ok_and(|scan| scan.nan == 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Input`] if a file cannot be read, [`Error::Cancelled`].
pub fn scan_tensors<'a>(
    files: &[&'a ModelFile],
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<TensorScan<'a>>, Error> {
    let places = distinct(files);
    let scan_of = |i: usize| {
        let (file, index) = *places.get(i)?;
        let opened = *files.get(file as usize)?;
        let tensor = opened.gguf().tensor_by_index(index.into())?;
        let range = opened.gguf().tensor_range(&tensor).ok()?;
        let (start, bytes) = (range.start, range.end - range.start);
        let (result, repeats) = (Ok(DataScan::default()), Repeats::default());
        Some((TensorScan { file: file as usize, tensor, start, bytes, result, repeats }, opened))
    };
    let all = (0..places.len()).filter_map(scan_of);
    let bytes = all.map(|(scan, _)| scan.bytes).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: places.len(), bytes });

    let pieces = (0..places.len()).flat_map(|i| {
        let (bytes, step) = scan_of(i).map_or((0, 1), |(scan, _)| (scan.bytes, step_of(&scan)));
        (0..bytes.div_ceil(step)).map(move |n| (i, n * step))
    });
    let open: Mutex<BTreeMap<usize, Parts>> = Mutex::default();
    let found: Mutex<Vec<(usize, TensorScan<'_>)>> = Mutex::default();
    workers::for_each(threads, pieces, progress, Vec::new, |buffer, (i, from)| {
        let Some((mut scan, file)) = scan_of(i) else { return Ok(()) };
        if from == 0 {
            progress.event(Event::Tensor { index: i, name: &scan.tensor.name.to_string_lossy() });
        }
        let step = step_of(&scan);
        let bytes = step.min(scan.bytes - from);
        buffer.resize(usize::try_from(bytes).unwrap_or(0), 0);
        file.read_at(scan.start.saturating_add(from), buffer).map_err(Error::input)?;
        let order = file.gguf().dialect().order;
        let layout = Layout::of(&scan.tensor);
        let result = scan_data(scan.tensor.ty, order, buffer, from / layout.block_bytes);
        let piece = repeats::are_unusual(&scan.tensor, scan.bytes).then(|| repeats::search(layout, from, buffer));
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = open.entry(i).or_default();
        parts.n += 1;
        add(&mut parts.result, result);
        parts.pieces.extend(piece);
        if parts.n == scan.bytes.div_ceil(step) {
            let parts = open.remove(&i).unwrap_or_default();
            drop(open);
            scan.result = parts.result;
            scan.repeats = repeats::join(layout, parts.pieces);
            let is_clean = scan.result.is_ok_and(|result| result.is_clean());
            if !is_clean || scan.repeats != Repeats::default() {
                found.lock().unwrap_or_else(PoisonError::into_inner).push((i, scan));
            }
        }
        progress.event(Event::Advanced { bytes });
        Ok::<_, Error>(())
    })?;
    progress.event(Event::Finished);
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.compact_sort_by_key(|(i, _)| *i);
    Ok(found.into_iter().map(|(_, scan)| scan).collect())
}

/// The file and the index in it of each tensor whose data is in the file, without those that share the type and the data of an earlier one.
fn distinct(files: &[&ModelFile]) -> Vec<(u32, u32)> {
    let mut places = Vec::new();
    for (of, file) in (0..).zip(files) {
        let mut ranges = Vec::with_capacity(usize::try_from(file.gguf().n_tensors()).unwrap_or(0));
        for (index, tensor) in (0..).zip(file.gguf().tensors()) {
            let Ok(range) = file.gguf().tensor_range(&tensor) else { continue };
            if range.end <= file.file_bytes() {
                ranges.push((range.start, range.end, tensor.ty, index));
            }
        }
        ranges.compact_sort_by(Ord::cmp);
        ranges.dedup_by_key(|(start, end, ty, _)| (*start, *end, *ty));
        let first = places.len();
        places.extend(ranges.into_iter().map(|(.., index)| (of, index)));
        places.get_mut(first..).unwrap_or_default().compact_sort_by(Ord::cmp);
    }
    places
}

/// Bytes to read at once: whole blocks only.
fn step_of(scan: &TensorScan<'_>) -> u64 {
    let block_bytes = Layout::of(&scan.tensor).block_bytes;
    (PIECE / block_bytes).max(1) * block_bytes
}

/// The results of the pieces of a tensor.
#[derive(Debug)]
struct Parts {
    /// Number of pieces.
    n: u64,
    result: Result<DataScan, NotScannable>,
    pieces: Vec<Piece>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { n: 0, result: Ok(DataScan::default()), pieces: Vec::new() }
    }
}

/// Joins the results of pieces of one tensor.
fn add(sum: &mut Result<DataScan, NotScannable>, result: Result<DataScan, NotScannable>) {
    match (sum, result) {
        (Ok(sum), Ok(more)) => sum.add(more),
        (sum @ Ok(_), Err(why)) => *sum = Err(why),
        (Err(_), _) => {}
    }
}
