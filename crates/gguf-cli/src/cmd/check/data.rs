//! The scan of tensor data: pieces of a few MiB, read and looked at by as many threads as there are processors.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use gguf_format::check::At;
use gguf_format::{ByteOrder, DataScan, GgmlType, Str, TensorInfoRef, scan_data};
use gguf_io::ModelFile;

use super::{Checked, DATA_FINITE, DATA_NOT_SCANNED};
use crate::failure::Failure;
use crate::ui::{ProgressLine, grouped};

/// Bytes that are read at once, about.
const PIECE: u64 = 4 << 20;

/// A tensor to scan.
#[derive(Clone, Copy)]
struct Task<'a> {
    file: &'a ModelFile,
    /// Number of the file in the list.
    of: usize,
    tensor: TensorInfoRef<'a>,
    start: u64,
    bytes: u64,
}

/// A piece of one: number of the task, and bytes from the start of the tensor.
type Piece = (usize, u64, u64);

/// Scans the data of all files that are safe to read, and adds what it finds to their reports.
///
/// # Errors
/// When a file cannot be read.
pub fn scan(checked: &mut [Checked], progress: &ProgressLine) -> Result<(), Failure> {
    let mut found: Vec<(usize, Finding)> = Vec::new();
    let mut tasks = Vec::new();
    for (of, c) in checked.iter().enumerate() {
        let Some(file) = c.file.as_ref().filter(|_| c.report.is_safe()) else {
            found.push((of, Finding::Skipped));
            continue;
        };
        // Tensors may share their data; it is looked at once.
        let mut ranges = BTreeSet::new();
        for tensor in file.gguf().tensors() {
            let Ok(range) = file.gguf().tensor_range(&tensor) else { continue };
            if range.end <= file.file_bytes() && ranges.insert((range.start, range.end, tensor.ty)) {
                tasks.push(Task { file, of, tensor, start: range.start, bytes: range.end - range.start });
            }
        }
    }
    progress.start(tasks.iter().map(|t| t.bytes).fold(0, u64::saturating_add));
    let scans = scan_tasks(&tasks, progress);
    progress.clear();
    for (i, result) in scans? {
        let Some(task) = tasks.get(i) else { continue };
        let name = task.tensor.name.as_bytes().to_vec();
        let finding = match result {
            Ok(scan) if scan.is_clean() => continue,
            Ok(scan) => Finding::NotFinite { name, offset: task.tensor.info_offset, what: describe(task, scan) },
            Err(why) => Finding::NotScanned { name, offset: task.tensor.info_offset, why },
        };
        found.push((task.of, finding));
    }
    for (of, finding) in found {
        let Some(c) = checked.get_mut(of) else { continue };
        match finding {
            Finding::Skipped => {
                let message = format_args!("the data was not read, because the file is not safe to read");
                c.report.add(&DATA_NOT_SCANNED, At::File, message);
            }
            Finding::NotFinite { name, offset, what } => {
                c.report.add(&DATA_FINITE, At::Tensor(Str(&name), Some(offset)), format_args!("{what}"));
            }
            Finding::NotScanned { name, offset, why } => {
                c.report.add(&DATA_NOT_SCANNED, At::Tensor(Str(&name), Some(offset)), format_args!("{why}"));
            }
        }
    }
    Ok(())
}

/// What becomes a finding once the files are no longer borrowed.
enum Finding {
    Skipped,
    NotFinite { name: Vec<u8>, offset: u64, what: String },
    NotScanned { name: Vec<u8>, offset: u64, why: String },
}

/// Where the first bad number is, and how many there are.
fn describe(task: &Task<'_>, scan: DataScan) -> String {
    let number = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", grouped(n)));
    let counts = [number(scan.nan, "NaN"), number(scan.infinite, "infinite")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let (what, block_bytes) = match task.tensor.ty.info() {
        Some(info) if info.is_quantized() => ("block scales", u64::from(info.block_bytes)),
        Some(info) => ("values", u64::from(info.block_bytes)),
        None => ("values", 0),
    };
    let first = scan.first.unwrap_or(0).saturating_mul(block_bytes).saturating_add(task.start);
    format!("{} of {} {what}; the first at byte {first}", counts.join(" and "), grouped(scan.scanned))
}

/// What was found in each task, or why a task cannot be scanned.
type Scans = BTreeMap<usize, Result<DataScan, String>>;

fn scan_tasks(tasks: &[Task<'_>], progress: &ProgressLine) -> Result<Scans, Failure> {
    let pieces = Mutex::new(tasks.iter().enumerate().flat_map(|(i, task)| {
        // Whole blocks only.
        let block = task.tensor.ty.info().map_or(1, |info| u64::from(info.block_bytes).max(1));
        let step = (PIECE / block).max(1) * block;
        (0..task.bytes.div_ceil(step)).map(move |n| (i, n * step, step.min(task.bytes - n * step)))
    }));
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let scans = Mutex::new(Scans::new());
    let work = || -> Result<(), Failure> {
        let mut buffer = Vec::new();
        while let Some((i, from, bytes)) = next() as Option<Piece> {
            let Some(task) = tasks.get(i) else { continue };
            buffer.resize(usize::try_from(bytes).unwrap_or(0), 0);
            task.file.read_at(task.start.saturating_add(from), &mut buffer)?;
            let result = scan_piece(task.tensor.ty, task.file.gguf().dialect().order, &buffer, from);
            let mut scans = scans.lock().unwrap_or_else(PoisonError::into_inner);
            match (scans.entry(i).or_insert_with(|| Ok(DataScan::default())), result) {
                (Ok(sum), Ok(more)) => sum.add(more),
                (entry, Err(why)) => *entry = Err(why),
                (Err(_), Ok(_)) => {}
            }
            drop(scans);
            progress.set_item(&task.tensor.name.to_string());
            progress.advance(bytes);
        }
        Ok(())
    };
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).get();
    thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for worker in workers {
            match worker.join() {
                Ok(other) => result = result.and(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })?;
    Ok(scans.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn scan_piece(ty: GgmlType, order: ByteOrder, bytes: &[u8], from: u64) -> Result<DataScan, String> {
    let block = ty.info().map_or(1, |info| u64::from(info.block_bytes).max(1));
    scan_data(ty, order, bytes, from / block).map_err(|e| e.to_string())
}
