//! Findings about tensor data.

use std::path::Path;

use gguf_format::DataScan;
use gguf_format::check::{At, Report, grouped};
use gguf_io::ModelFile;
use gguf_pipeline::{Error as PipelineError, Progress, Repeats, Runs, TensorScan, scan_tensors};

use super::{
    Check, CheckOptions, CheckedFile, DATA_CONSTANT, DATA_FINITE, DATA_HOLE, DATA_NOT_SCANNED, DATA_ZERO,
    DATA_ZERO_ROWS, Heads, OpenSource,
};
use crate::Error;

/// As [`check_with`](crate::check_with), and searches the tensor data for NaN and infinity, in numbers and block scales, and for zeros and
/// equal values in matrices. Feature `edit`.
///
/// The data of a file is read only if its head is safe to read. Memory does not grow with the model.
///
/// ```
/// use ggufkit::{CheckOptions, Event};
///
/// let progress = |event: Event<'_>| {
///     if let Event::Tensor { name, .. } = event {
///         println!("{name}");
///     }
/// };
/// let check = ggufkit::check_data("examples/tiny.gguf", &CheckOptions::default(), &progress)?;
/// assert!(check.is_sound());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// As for [`check`](fn@crate::check), and [`Error::Pipeline`] with [`Cancelled`](PipelineError::Cancelled) if [`Progress::is_cancelled`]
/// returns true. It is called before any file is opened, and between pieces of data.
pub fn check_data(path: impl AsRef<Path>, options: &CheckOptions, progress: &dyn Progress) -> Result<Check, Error> {
    if progress.is_cancelled() {
        return Err(PipelineError::Cancelled.into());
    }
    Heads::check(path.as_ref(), options)?.with_data(options, progress)
}

/// As [`check_data`], for files that are elsewhere; see [`check_by`](crate::check_by). Feature `edit`.
///
/// # Errors
/// As for [`check_data`].
pub fn check_data_by(
    path: impl AsRef<Path>,
    open: OpenSource<'_>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Check, Error> {
    Heads::check_by(path.as_ref(), open, options)?.with_data(options, progress)
}

impl Heads<'_> {
    /// Checks the model and its data.
    fn with_data(mut self, options: &CheckOptions, progress: &dyn Progress) -> Result<Check, Error> {
        self.scan(options, progress)?;
        Ok(self.finish(options))
    }

    /// Scans the data of all files that are safe to read, and adds the findings to their reports.
    fn scan(&mut self, options: &CheckOptions, progress: &dyn Progress) -> Result<(), Error> {
        let files: Vec<&ModelFile> = self.files.iter().filter_map(CheckedFile::safe).collect();
        let mut reports = vec![Report::new(); files.len()];
        for scan in scan_tensors(&files, options.threads, progress)? {
            let Some(report) = reports.get_mut(scan.file) else { continue };
            match &scan.result {
                Ok(data) if data.is_clean() => {}
                Ok(data) => report.add(&DATA_FINITE, &scan.tensor, format_args!("{}", describe(&scan, *data))),
                Err(why) => report.add(&DATA_NOT_SCANNED, &scan.tensor, format_args!("{why}")),
            }
            add_repeats(report, &scan);
        }
        let mut reports = reports.into_iter();
        for file in &mut self.files {
            if let Some(report) = file.safe().and_then(|_| reports.next()) {
                file.report.append(report);
            } else {
                let message = format_args!("the data was not read, because the file is not safe to read");
                file.report.add(&DATA_NOT_SCANNED, At::File, message);
            }
        }
        Ok(())
    }
}

impl CheckedFile<'_> {
    /// The file, if it is safe to read.
    fn safe(&self) -> Option<&ModelFile> {
        self.file.as_deref().filter(|_| self.report.is_safe())
    }
}

/// Reports zeros and equal values.
fn add_repeats(report: &mut Report, scan: &TensorScan<'_>) {
    let Repeats { is_zero, is_constant, holes, rows, .. } = &scan.repeats;
    let run = |runs: &Runs| {
        let first = runs.first.clone().unwrap_or_default();
        let (start, end) = (scan.start.saturating_add(first.start), scan.start.saturating_add(first.end));
        let more = if runs.n > 1 { format!(", and {} more runs", grouped(runs.n - 1)) } else { String::new() };
        format!("{} of {} bytes are zero: {start} to {end}{more}", grouped(runs.bytes), grouped(scan.bytes))
    };
    match (is_zero, is_constant) {
        (true, _) => report.add(&DATA_ZERO, &scan.tensor, format_args!("all {} bytes are zero", grouped(scan.bytes))),
        (_, true) => report.add(&DATA_CONSTANT, &scan.tensor, format_args!("all values are equal")),
        _ => {}
    }
    if holes.n > 0 {
        report.add(&DATA_HOLE, &scan.tensor, format_args!("{}", run(holes)));
    }
    if rows.n > 0 {
        report.add(&DATA_ZERO_ROWS, &scan.tensor, format_args!("{}", run(rows)));
    }
}

/// The number of values that are not finite, and the position of the first one.
fn describe(of: &TensorScan<'_>, scan: DataScan) -> String {
    let number = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", grouped(n)));
    let counts = [number(scan.nan, "NaN"), number(scan.infinite, "infinite")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let (what, block_bytes) = match of.tensor.ty.info() {
        Some(info) if info.is_quantized() => ("block scales", u64::from(info.block_bytes)),
        Some(info) => ("values", u64::from(info.block_bytes)),
        None => ("values", 0),
    };
    let first = scan.first.unwrap_or(0).saturating_mul(block_bytes).saturating_add(of.start);
    format!("{} of {} {what}; the first at byte {first}", counts.join(" and "), grouped(scan.scanned))
}
