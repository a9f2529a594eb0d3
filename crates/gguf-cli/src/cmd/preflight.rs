//! Checks before a conversion: free disk space, tensors that are left out, and values out of range.

use std::collections::HashSet;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, ValueRef};
use gguf_hf::Skipped;
use gguf_io::DiskSpace;
use gguf_pipeline::range::{self, Extent, OutOfRange, Values};
use gguf_pipeline::{Plan, RunOptions};
use serde::Serialize;

use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, grouped, shown_path, size};
use crate::watch::Watch;

/// Maximum number of listed tensors with values out of range.
const MAX_LISTED: usize = 10;

/// How values are checked, and whether values out of range are an error.
#[derive(Debug, Clone, Copy)]
pub struct RangeCheck {
    /// Check all values instead of a sample, and treat values out of range as an error.
    pub all: bool,
    /// Treat values out of range only as a warning.
    pub allow: bool,
    pub dry_run: bool,
    pub quiet: bool,
    pub threads: Option<NonZeroUsize>,
}

impl RangeCheck {
    /// Checks the values of plans with the same source, prints the findings, and returns them for each plan. The verdict of a dry run is
    /// bad if the plans must not be run.
    ///
    /// # Errors
    /// If values cannot be read, or, except in a dry run, if a plan must not be run.
    pub fn run(self, ui: &mut Ui, dir: &Path, plans: &[&Plan]) -> Result<(Vec<Range>, Verdict), Failure> {
        // Samples of remote data would be thousands of requests; the run reports what does not fit.
        if !self.all && open::is_url(dir) {
            return Ok((plans.iter().map(|_| Range { checked: "none", tensors: Vec::new() }).collect(), Verdict::Good));
        }
        let extent = if self.all { Extent::All } else { Extent::Sample };
        let watch = Watch::new(self.quiet || !self.all);
        let found = range::check_range(plans, extent, self.threads, &watch);
        watch.clear();
        let found = found?;
        // List a tensor only once for all plans.
        let mut tensors: Vec<&OutOfRange> = found.iter().flatten().collect();
        tensors.compact_sort_by_key(|tensor| tensor.overflow.is_none());
        let mut seen = HashSet::new();
        tensors.retain(|tensor| seen.insert(tensor.tensor.as_str()));
        for tensor in tensors.iter().take(MAX_LISTED) {
            ui.warning(&tensor.to_string());
        }
        if let Some(more @ 1..) = tensors.len().checked_sub(MAX_LISTED) {
            ui.warning(&format!(
                "{} more tensors have values that are out of range or not finite; --dry-run --json lists all",
                grouped(more as u64)
            ));
        }
        let ranges = found.iter().map(|tensors| Range::of(self.all, tensors)).collect();
        let remedy = match tensors.iter().find(|t| t.overflow.is_some()).map(|t| t.ty) {
            Some(GgmlType::BF16) => "use --type f32",
            Some(_) => "use --type bf16 or f32",
            None => "correct the checkpoint",
        };
        if tensors.is_empty() {
            return Ok((ranges, Verdict::Good));
        }
        if !self.all {
            ui.warning(&format!("only a sample of the values was checked; {remedy}, or check all with --check-range"));
            return Ok((ranges, Verdict::Good));
        }
        if self.allow {
            return Ok((ranges, Verdict::Good));
        }
        let n = match tensors.len() {
            1 => "a tensor has".to_owned(),
            n => format!("{} tensors have", grouped(n as u64)),
        };
        let problem = format!(
            "{n} values that are out of range or not finite; {remedy}, or write them nevertheless with --allow-invalid"
        );
        let failure = Failure::Bad(format!("{}: {problem}", dir.display()));
        if !self.dry_run {
            return Err(failure);
        }
        ui.error(&failure);
        Ok((ranges, Verdict::Bad))
    }
}

/// The results of the checks of a plan, for JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// The tensors of the checkpoint that are not written.
    left_out: Vec<LeftOut>,
    range: Range,
}

impl Checked {
    pub fn new(skipped: &[Skipped], range: Range) -> Checked {
        let left_out = |skipped: &Skipped| LeftOut { name: skipped.name.clone(), reason: skipped.reason };
        Checked { left_out: skipped.iter().map(left_out).collect(), range }
    }
}

#[derive(Debug, Clone, Serialize)]
struct LeftOut {
    name: String,
    reason: &'static str,
}

/// Values out of range, for JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Range {
    /// `sample`, `all`, or `none` for a remote checkpoint.
    checked: &'static str,
    tensors: Vec<JsonTensor>,
}

#[derive(Debug, Clone, Serialize)]
struct JsonTensor {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    n_values: u64,
    n_checked: u64,
    overflow: Option<JsonValues>,
    not_finite: Option<JsonValues>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct JsonValues {
    count: u64,
    index: u64,
    value: json::Shown<'static>,
}

impl Range {
    fn of(all: bool, tensors: &[OutOfRange]) -> Range {
        let values = |values: Values| JsonValues {
            count: values.count,
            index: values.index,
            value: json::Shown { value: ValueRef::F32(values.value), full: true },
        };
        let tensor = |tensor: &OutOfRange| JsonTensor {
            name: tensor.tensor.clone(),
            ty: tensor.ty.to_string(),
            n_values: tensor.n_values,
            n_checked: tensor.n_checked,
            overflow: tensor.overflow.map(values),
            not_finite: tensor.not_finite.map(values),
        };
        Range { checked: if all { "all" } else { "sample" }, tensors: tensors.iter().map(tensor).collect() }
    }
}

/// The free space on a disk, for JSON.
#[derive(Debug, Serialize)]
pub struct JsonDisk {
    /// The mount point.
    #[serde(serialize_with = "json::serialize_path")]
    path: PathBuf,
    needed: u64,
    free: u64,
}

impl From<&DiskSpace> for JsonDisk {
    fn from(space: &DiskSpace) -> JsonDisk {
        JsonDisk { path: space.disk.clone(), needed: space.needed, free: space.free }
    }
}

/// The outputs that are files of this machine, rather than objects of a store.
fn files<'p>(outputs: &[(&'p Plan, &'p Path)]) -> Vec<(&'p Plan, &'p Path)> {
    outputs.iter().copied().filter(|(_, out)| !open::is_url(out)).collect()
}

/// The needed and the free space on the disks of these outputs.
pub fn disk_space(outputs: &[(&Plan, &Path)]) -> Vec<DiskSpace> {
    gguf_pipeline::disk_space(&files(outputs))
}

/// Prints an error if a run could not write these outputs: one exists, is an input, or its folder is missing.
pub fn check_outputs(ui: &mut Ui, outputs: &[(&Plan, &Path)], options: &RunOptions) -> Verdict {
    match gguf_pipeline::check_outputs(&files(outputs), options) {
        Ok(()) => Verdict::Good,
        Err(e) => {
            let failure = Failure::from(e);
            ui.error(&failure);
            failure.verdict()
        }
    }
}

/// Prints the needed and the free space on each output disk of a dry run.
pub fn print_disk_space(ui: &mut Ui, disks: &[DiskSpace]) -> Outcome {
    for DiskSpace { disk, needed, free, .. } in disks {
        let (disk, needed) = (shown_path(disk), grouped(*needed));
        writeln!(ui.out, "{disk}: {needed} bytes needed, {} ({} bytes) free", size(*free), grouped(*free))?;
    }
    Ok(check_disk_space(ui, disks))
}

/// Prints an error for each disk with too little free space.
pub fn check_disk_space(ui: &mut Ui, disks: &[DiskSpace]) -> Verdict {
    let mut verdict = Verdict::Good;
    for problem in disks.iter().filter_map(|disk| disk.check().err()) {
        ui.error(&problem.into());
        verdict = Verdict::CouldNotRun;
    }
    verdict
}
