//! What commands that write models have in common: their options, and how they run a plan.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_pipeline::{Plan, RunOptions};
use serde::Serialize;

use super::output::{Shards, path_of};
use crate::failure::Failure;
use crate::json;
use crate::ui::{Ui, duration, grouped, size};
use crate::watch::Watch;

/// Options of commands that write a model.
#[derive(Debug, clap::Args)]
pub struct Writing {
    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,

    /// Overwrite existing output
    #[arg(short, long)]
    pub force: bool,

    /// Print one JSON object with the written files
    #[arg(long)]
    pub json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    pub quiet: bool,
}

/// The answer of a command that has written files.
#[derive(Serialize)]
struct Written<'a> {
    files: Vec<WrittenFile<'a>>,
}

#[derive(Serialize)]
struct WrittenFile<'a> {
    path: json::Text<'a>,
    bytes: Option<u64>,
}

/// Prints the paths of the files that were written, or the object that has them if JSON is asked for.
///
/// # Errors
/// Those of standard output.
pub fn print_written(ui: &mut Ui, paths: &[PathBuf]) -> std::io::Result<()> {
    if ui.schema.is_none() {
        return paths.iter().try_for_each(|path| ui.print_path(path));
    }
    let bytes = |path: &Path| std::fs::metadata(path).ok().map(|data| data.len());
    let files = paths.iter().map(|path| WrittenFile { path: json::path(path), bytes: bytes(path) });
    json::print(ui, 3, &Written { files: files.collect() })
}

/// Options of commands that write a model, whole or in shards.
#[derive(Debug, clap::Args)]
pub struct WritingModel {
    #[command(flatten)]
    pub writing: Writing,

    // Last, for what follows stands under its heading in the help.
    #[command(flatten)]
    shards: Shards,
}

impl WritingModel {
    /// As [`Writing::run_beside`], in shards if they are asked for.
    ///
    /// # Errors
    /// Those of the split, of the run and of standard output.
    pub fn run(
        &self,
        ui: &mut Ui,
        plan: Plan,
        out: &Path,
        done: &str,
        protect: &[PathBuf],
    ) -> Result<Vec<PathBuf>, Failure> {
        let plan = self.shards.apply(ui, plan)?;
        self.writing.run_beside(ui, &plan, out, done, protect)
    }
}

impl Writing {
    /// Runs a plan, then prints a summary to standard error and the paths of the files to standard output.
    ///
    /// # Errors
    /// Those of the run and of standard output.
    pub fn run(&self, ui: &mut Ui, plan: &Plan, out: &Path, done: &str) -> Result<Vec<PathBuf>, Failure> {
        self.run_beside(ui, plan, out, done, &[])
    }

    /// The same, with further files that no output may replace.
    ///
    /// # Errors
    /// Those of the run and of standard output.
    pub fn run_beside(
        &self,
        ui: &mut Ui,
        plan: &Plan,
        out: &Path,
        done: &str,
        protect: &[PathBuf],
    ) -> Result<Vec<PathBuf>, Failure> {
        let options = RunOptions::default()
            .threads(self.threads)
            .force(self.force)
            .protect(protect.iter().filter_map(|path| path.canonicalize().ok()));
        let out = path_of(out, plan)?;
        let watch = Watch::new(self.quiet);
        let result = plan.run(&out, &options, &watch);
        watch.clear();
        let paths = result?.paths;
        self.say(ui, &watch, plan.tensors().len() as u64, plan.file_bytes(), done);
        print_written(ui, &paths)?;
        Ok(paths)
    }

    /// Prints the summary.
    pub fn say(&self, ui: &mut Ui, watch: &Watch, n_tensors: u64, bytes: u64, done: &str) {
        if !self.quiet {
            let (tensors, time) = (tensors(n_tensors), duration(watch.elapsed()));
            ui.note(&format!("{done}: {tensors}, {} in {time}{}", size(bytes), watch.rate(bytes)));
        }
    }
}

/// `1 tensor`, `1,000 tensors`
pub fn tensors(n: u64) -> String {
    format!("{} tensor{}", grouped(n), if n == 1 { "" } else { "s" })
}
