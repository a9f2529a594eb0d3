//! Scans tensor data for NaN, infinity and repeated bytes.
//!
//! As in a conversion, several threads read pieces of a few MiB, so memory does not grow with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

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
    /// Repeated bytes.
    pub repeats: Repeats,
}

/// Searches for NaN and infinity in the data of all tensors of the files, in numbers and block scales, and for repeated bytes. Data shared by several tensors is
/// scanned once; data outside of the file is skipped.
///
/// # Errors
/// [`Error::Input`] if a file cannot be read, [`Error::Cancelled`].
pub fn scan_tensors<'a>(
    files: &[&'a ModelFile],
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<TensorScan<'a>>, Error> {
    let mut scans = Vec::new();
    for (of, file) in files.iter().enumerate() {
        let mut ranges = BTreeSet::new();
        for tensor in file.gguf().tensors() {
            let Ok(range) = file.gguf().tensor_range(&tensor) else { continue };
            if range.end <= file.file_bytes() && ranges.insert((range.start, range.end, tensor.ty)) {
                let (start, bytes) = (range.start, range.end - range.start);
                let (result, repeats) = (Ok(DataScan::default()), Repeats::default());
                scans.push(TensorScan { file: of, tensor, start, bytes, result, repeats });
            }
        }
    }
    let bytes = scans.iter().map(|t| t.bytes).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: scans.len(), bytes });

    let pieces = scans.iter().enumerate().flat_map(|(i, scan)| {
        // Whole blocks only.
        let block_bytes = Layout::of(&scan.tensor).block_bytes;
        let step = (PIECE / block_bytes).max(1) * block_bytes;
        (0..scan.bytes.div_ceil(step)).map(move |n| (i, n * step, step.min(scan.bytes - n * step)))
    });
    let found: Mutex<BTreeMap<usize, Found>> = Mutex::default();
    workers::for_each(threads, pieces, progress, Vec::new, |buffer, (i, from, bytes)| {
        let Some((scan, file)) = scans.get(i).and_then(|scan| Some((scan, files.get(scan.file)?))) else {
            return Ok(());
        };
        if from == 0 {
            progress.event(Event::Tensor { index: i, name: &scan.tensor.name.to_string_lossy() });
        }
        buffer.resize(usize::try_from(bytes).unwrap_or(0), 0);
        file.read_at(scan.start.saturating_add(from), buffer).map_err(Error::input)?;
        let order = file.gguf().dialect().order;
        let layout = Layout::of(&scan.tensor);
        let result = scan_data(scan.tensor.ty, order, buffer, from / layout.block_bytes);
        let piece = repeats::search(layout, from, buffer);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, pieces) = found.entry(i).or_insert_with(|| (Ok(DataScan::default()), Vec::new()));
        add(sum, result);
        pieces.push(piece);
        drop(found);
        progress.event(Event::Advanced { bytes });
        Ok::<_, Error>(())
    })?;
    for (i, (result, pieces)) in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(scan) = scans.get_mut(i) {
            scan.result = result;
            scan.repeats = repeats::join(Layout::of(&scan.tensor), pieces);
        }
    }
    progress.event(Event::Finished);
    Ok(scans)
}

/// The results of the pieces of one tensor.
type Found = (Result<DataScan, NotScannable>, Vec<Piece>);

/// Joins the results of pieces of one tensor.
fn add(sum: &mut Result<DataScan, NotScannable>, result: Result<DataScan, NotScannable>) {
    match (sum, result) {
        (Ok(sum), Ok(more)) => sum.add(more),
        (sum @ Ok(_), Err(why)) => *sum = Err(why),
        (Err(_), _) => {}
    }
}
