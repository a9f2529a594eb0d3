//! The findings of `--data`: what the scan of tensor data says, in the words of the report.

use gguf_format::check::At;
use gguf_format::{DataScan, Str};
use gguf_pipeline::{TensorScan, scan_tensors};

use super::{Checked, DATA_FINITE, DATA_NOT_SCANNED};
use crate::failure::Failure;
use crate::ui::{ProgressLine, grouped};

/// Scans the data of all files that are safe to read, and adds what it finds to their reports.
///
/// # Errors
/// When a file cannot be read.
pub fn scan(checked: &mut [Checked], progress: &ProgressLine) -> Result<(), Failure> {
    let safe = checked.iter().enumerate().filter(|(_, c)| c.report.is_safe());
    let (of, files): (Vec<_>, Vec<_>) = safe.filter_map(|(of, c)| Some((of, c.file.as_ref()?))).unzip();
    let scans = scan_tensors(&files, None, progress);
    progress.clear();
    let mut found = Vec::new();
    for scan in scans? {
        let (rule, message) = match &scan.result {
            Ok(data) if data.is_clean() => continue,
            Ok(data) => (DATA_FINITE, describe(&scan, *data)),
            Err(why) => (DATA_NOT_SCANNED, why.to_string()),
        };
        let name = scan.tensor.name.as_bytes().to_vec();
        found.push((of.get(scan.file).copied(), rule, name, scan.tensor.info_offset, message));
    }
    // From here on the files are no longer borrowed.
    for (i, c) in checked.iter_mut().enumerate() {
        if !of.contains(&i) {
            let message = format_args!("the data was not read, because the file is not safe to read");
            c.report.add(&DATA_NOT_SCANNED, At::File, message);
        }
    }
    for (i, rule, name, offset, message) in found {
        if let Some(c) = i.and_then(|i| checked.get_mut(i)) {
            c.report.add(&rule, At::Tensor(Str(&name), Some(offset)), format_args!("{message}"));
        }
    }
    Ok(())
}

/// Where the first bad number is, and how many there are.
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
