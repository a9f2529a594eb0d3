//! Scans tensor data for NaN and infinity.
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
}

/// Searches for NaN and infinity in the data of all tensors of the files, in numbers and block scales. Data shared by several tensors is
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
                scans.push(TensorScan { file: of, tensor, start, bytes, result: Ok(DataScan::default()) });
            }
        }
    }
    let bytes = scans.iter().map(|t| t.bytes).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: scans.len(), bytes });

    let pieces = scans.iter().enumerate().flat_map(|(i, scan)| {
        // Whole blocks only.
        let step = (PIECE / block_bytes(scan)).max(1) * block_bytes(scan);
        (0..scan.bytes.div_ceil(step)).map(move |n| (i, n * step, step.min(scan.bytes - n * step)))
    });
    let found = Mutex::new(BTreeMap::new());
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
        let result = scan_data(scan.tensor.ty, order, buffer, from / block_bytes(scan));
        add(found.lock().unwrap_or_else(PoisonError::into_inner).entry(i), result);
        progress.event(Event::Advanced { bytes });
        Ok::<_, Error>(())
    })?;
    for (i, result) in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(scan) = scans.get_mut(i) {
            scan.result = result;
        }
    }
    progress.event(Event::Finished);
    Ok(scans)
}

type Found<'m> = std::collections::btree_map::Entry<'m, usize, Result<DataScan, NotScannable>>;

/// Joins the results of pieces of one tensor.
fn add(entry: Found<'_>, result: Result<DataScan, NotScannable>) {
    match (entry.or_insert_with(|| Ok(DataScan::default())), result) {
        (Ok(sum), Ok(more)) => sum.add(more),
        (entry, Err(why)) => *entry = Err(why),
        (Err(_), Ok(_)) => {}
    }
}

fn block_bytes(scan: &TensorScan<'_>) -> u64 {
    scan.tensor.ty.info().map_or(1, |info| u64::from(info.block_bytes).max(1))
}
