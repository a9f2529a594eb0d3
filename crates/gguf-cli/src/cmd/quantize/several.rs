//! Several outputs from one read of the input.

use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_pipeline::plan::Plan;
use gguf_pipeline::{RunOptions, run_all};

use super::{Shown, Sizes, tensors};
use crate::cmd::writing::print_written;
use crate::failure::{Failure, Outcome, Verdict};
use crate::ui::{Ui, bits_per_weight, duration, grouped, size};
use crate::watch::Watch;

/// An output: what it is, as in the summary, its plan and its path.
pub struct Written {
    pub target: String,
    pub plan: Plan,
    pub out: PathBuf,
}

/// Writes several outputs from one read, and prints a summary.
pub fn write_all(ui: &mut Ui, outputs: &[Written], options: &RunOptions, quiet: bool, shown: Shown) -> Outcome {
    let plans: Vec<(&Plan, &Path)> = outputs.iter().map(|o| (&o.plan, o.out.as_path())).collect();
    let watch = Watch::new(quiet);
    let result = run_all(&plans, options, &watch);
    watch.clear();
    let summaries = result?;
    for (output, summary) in outputs.iter().zip(&summaries) {
        for overflow in &summary.overflows {
            ui.warning(&format!("{}: {overflow}", output.target));
        }
    }
    if !quiet {
        if let Some(kept) = watch.said_of_kept() {
            ui.note(&kept);
        }
        for Written { target, plan, .. } in outputs {
            let bits = bits_per_weight(Sizes::of(plan).bits_per_weight());
            ui.note(&format!("{target}: {} ({bits} bits per weight)", size(plan.file_bytes())));
        }
        if let Some(first) = outputs.first() {
            let n_files = summaries.iter().map(|s| s.paths.len() as u64).sum();
            let bytes = outputs.iter().map(|o| o.plan.file_bytes()).sum();
            ui.note(&format!(
                "{} files: {}, {} to {} in {}{}",
                grouped(n_files),
                tensors(first.plan.tensors().len()),
                size(first.plan.input_bytes()),
                size(bytes),
                duration(watch.elapsed()),
                watch.rate(bytes),
            ));
        }
    }
    if shown == Shown::Path {
        let paths: Vec<PathBuf> = summaries.into_iter().flat_map(|summary| summary.paths).collect();
        print_written(ui, &paths)?;
        return Ok(Verdict::Good);
    }
    for (i, (output, summary)) in outputs.iter().zip(summaries).enumerate() {
        if i > 0 {
            writeln!(ui.out)?;
        }
        writeln!(ui.out, "{}", output.target)?;
        shown.print(ui, &summary.report.unwrap_or_default(), &summary.paths)?;
    }
    Ok(Verdict::Good)
}

/// Prints each warning of a plan that none of the plans before had.
pub fn warn_once(ui: &mut Ui, said: &mut Vec<String>, warnings: impl Iterator<Item = String>) {
    for warning in warnings {
        if !said.contains(&warning) {
            ui.warning(&warning);
            said.push(warning);
        }
    }
}

/// Reads file types, which may be lists separated by commas; none may come twice.
///
/// # Errors
/// What is wrong with them.
pub fn each_once<T: PartialEq + std::fmt::Display>(types: Vec<T>) -> Result<Vec<T>, Failure> {
    for (i, ty) in types.iter().enumerate() {
        if types.iter().take(i).any(|other| other == ty) {
            return Err(Failure::CouldNotRun(format!("duplicate file type {ty}")));
        }
    }
    Ok(types)
}
