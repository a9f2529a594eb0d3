//! The run of plans, from their options to their summaries.

use std::path::{Path, PathBuf};

use gguf_io::Room;

use crate::chunk::Lane;
use crate::error::Error;
use crate::execute::Run;
use crate::options::{RunOptions, RunSummary};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::Errors;
use crate::write::{self, Files, write_files};

impl Plan {
    /// Reads, transforms and writes everything, to the [files](Plan::output_paths) for `out`.
    ///
    /// # Errors
    /// [`Error`]. No output is left then, and existing files are untouched. [`Error::Kept`] names the files kept for resuming.
    pub fn run(
        &self,
        out: impl AsRef<Path>,
        options: &RunOptions,
        progress: &dyn Progress,
    ) -> Result<RunSummary, Error> {
        let mut summaries = run_all(&[(self, out.as_ref())], options, progress)?;
        // One plan, one summary.
        Ok(summaries.pop().unwrap_or(RunSummary { paths: Vec::new(), overflows: Vec::new(), report: None }))
    }
}

/// Runs several plans over one source: each part of a tensor is read and decoded once, then encoded and written for each plan. The files
/// are the same as those of separate runs, byte for byte. They get their names when all of them are complete.
///
/// The plans must come from clones of one [`Draft`](crate::Draft): they make the same tensors of the same data, and may differ in types,
/// the order of tensors, key-values and the split.
///
/// # Errors
/// [`Error::Apart`] for other plans; otherwise as [`Plan::run`].
pub fn run_all<'a>(
    plans: &[(&'a Plan, &Path)],
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<Vec<RunSummary>, Error> {
    let Some((first, _)) = plans.first() else { return Ok(Vec::new()) };
    let lane = |(plan, _): &(&'a Plan, &Path)| {
        Lane::beside(&first.draft, &plan.draft).ok_or_else(|| Error::Apart { path: plan.draft.path.clone() })
    };
    let lanes = plans.iter().map(lane).collect::<Result<Vec<_>, Error>>()?;
    let errors: Vec<Errors> = match options.measure {
        true => lanes.iter().map(|_| Errors::default()).collect(),
        false => Vec::new(),
    };
    let run = Run { lanes: &lanes, threads: options.threads, errors: &errors };
    let files: Vec<Files<'_>> = plans.iter().map(|(plan, out)| Files::new(plan, out, options)).collect();
    let overflows = write_files(&files, &run, options, progress)?;
    let mut errors = errors.into_iter();
    let summaries = plans.iter().zip(files).zip(overflows).map(|(((plan, _), files), overflows)| RunSummary {
        paths: files.paths,
        overflows,
        report: errors.next().map(|errors| errors.into_report(plan.tensors())),
    });
    Ok(summaries.collect())
}

/// Checks the paths of the outputs as [`run_all`] does before its work, and creates nothing.
///
/// # Errors
/// If two outputs have the same path, an output would replace an input, an output exists and may not be replaced, or its folder is missing.
pub fn check_outputs(plans: &[(&Plan, &Path)], options: &RunOptions) -> Result<(), Error> {
    let files: Vec<Files<'_>> = plans.iter().map(|(plan, out)| Files::new(plan, out, options)).collect();
    write::check_outputs(&files, options)
}

/// The room on the disks of the outputs, and how much of it they take; see [`gguf_io::rooms`]. A run checks it before its work.
pub fn rooms(plans: &[(&Plan, &Path)]) -> Vec<Room> {
    let files = |(plan, out): &(&Plan, &Path)| {
        let lengths: Vec<u64> = plan.files().iter().map(|file| file.file_bytes()).collect();
        plan.output_paths(out).into_iter().zip(lengths)
    };
    let files: Vec<(PathBuf, u64)> = plans.iter().flat_map(files).collect();
    gguf_io::rooms(files.iter().map(|(path, bytes)| (path.as_path(), *bytes)))
}
