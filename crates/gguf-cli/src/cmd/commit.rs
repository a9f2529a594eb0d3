//! `gguf commit`: completes the outputs of a plan.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_pipeline::RunSummary;
use gguf_pipeline::fleet::{FleetPlan, Place};
use serde::Serialize;

use super::fleet;
use super::planned::Shown;
use super::quantize::budget;
use super::writing::{Hashing, print_written};
use crate::failure::{Outcome, Verdict};
use crate::json;
use crate::ui::{Ui, duration, grouped, number, size};
use crate::watch::Watch;

/// Complete the output of a plan whose parts are done.
///
/// The output appears under its final name once all parts are done and, of a file, have been read back and compared with the
/// hashes that the workers have noted. It may run twice, at once or after a death. The paths of the outputs go to standard output, after
/// the report if the plan was made with --report.
///
/// The exit code is 0 if the output is complete, 75 if parts are missing or must be made again, or if trying again may help
/// otherwise, and 2 if it will not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf commit plan.json
  gguf commit plan.json --status      how far the parts are
  gguf commit plan.json --abort       discard all parts")]
pub struct Args {
    /// Plan, by path or URL
    plan: PathBuf,

    /// Print how many parts are done, and which are not, without completing anything
    #[arg(long, conflicts_with = "abort")]
    status: bool,

    /// Discard all parts and the output that was begun
    #[arg(long)]
    abort: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print one JSON object: the status, the report, or the written files
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Serialize)]
struct JsonStatus {
    n_parts: usize,
    n_done: usize,
    bytes: u64,
    bytes_done: u64,
    missing: Vec<usize>,
    complete: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        fleet::settled(self.commit(ui))
    }

    fn commit(&self, ui: &mut Ui) -> Outcome {
        let plan = fleet::read(&self.plan)?;
        let places = fleet::places(&plan)?;
        if self.status {
            return self.print_status(ui, &plan, &places);
        }
        if self.abort {
            plan.abort(&places)?;
            if !self.quiet {
                ui.note("the parts are discarded");
            }
            print_written(ui, &[], Hashing::default())?;
            return Ok(Verdict::Good);
        }
        let paths: Vec<PathBuf> = plan.outputs().map(Path::to_owned).collect();
        if plan.samples(0).is_some() {
            let results = plan.results(&places)?;
            plan.commit_results(&places, results.map(|results| budget::document(&plan, results)).transpose()?)?;
            print_written(ui, &paths, Hashing::default())?;
            return Ok(Verdict::Good);
        }
        let watch = Watch::new(self.quiet);
        let done = plan.commit(&places, self.threads, &watch);
        watch.clear();
        let RunSummary { overflows, report, .. } = done?;
        for overflow in overflows {
            ui.warning(&overflow.to_string());
        }
        if !self.quiet {
            ui.note(&format!(
                "{}, {} in {}",
                number(plan.n_parts() as u64, "part", "parts"),
                size(plan.file_bytes()),
                duration(watch.elapsed())
            ));
        }
        let shown = Shown::of(report.is_some(), self.json);
        shown.print(ui, &plan.to_run(), &report.unwrap_or_default(), &paths, Hashing::default())?;
        Ok(Verdict::Good)
    }

    fn print_status(&self, ui: &mut Ui, plan: &FleetPlan, places: &[Box<dyn Place>]) -> Outcome {
        let status = plan.status(places)?;
        let n_done = status.n_parts - status.missing.len();
        if self.json {
            let document = JsonStatus {
                n_parts: status.n_parts,
                n_done,
                bytes: plan.file_bytes(),
                bytes_done: status.bytes,
                missing: status.missing,
                complete: status.is_complete,
            };
            json::print(ui, 1, &document)?;
            return Ok(Verdict::Good);
        }
        let (done, all) = (grouped(n_done as u64), grouped(status.n_parts as u64));
        writeln!(ui.out, "{done} of {all} parts are done: {} of {}", size(status.bytes), size(plan.file_bytes()))?;
        if status.is_complete {
            writeln!(ui.out, "the output is complete")?;
        } else if !status.missing.is_empty() {
            let missing = gguf_pipeline::fleet::Listed(&status.missing);
            writeln!(ui.out, "not done: {missing}")?;
        }
        Ok(Verdict::Good)
    }
}
