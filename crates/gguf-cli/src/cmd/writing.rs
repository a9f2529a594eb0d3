//! Common options of commands that write models, and the code that runs their plans.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_pipeline::{Plan, RunOptions};
use serde::Serialize;

use super::output::{Shards, names_folders, path_of};
use super::preflight;
use crate::failure::{Failure, Outcome};
use crate::json;
use crate::open;
use crate::ui::{Ui, duration, grouped, size};
use crate::watch::Watch;

/// Options of commands that write a model.
#[derive(Debug, clap::Args)]
pub struct Writing {
    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
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

    #[command(flatten)]
    hash: HashOption,
}

/// The output of a command, as an argument or as an option.
#[derive(Debug, clap::Args)]
pub struct Out {
    /// Output file, or a folder for the standard file name; or use --output
    #[arg(value_name = "OUT", required_unless_present = "output")]
    out: Option<PathBuf>,

    #[command(flatten)]
    option: OutOption,
}

/// The option for the output of a command.
#[derive(Debug, clap::Args)]
pub struct OutOption {
    /// Output, in place of the argument
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

impl Out {
    /// The path.
    ///
    /// # Errors
    /// If no output is named, if it is named twice, or if it is standard output.
    pub fn path(&self) -> Result<&Path, Failure> {
        let out = self
            .option
            .or(self.out.as_deref())?
            .ok_or_else(|| Failure::CouldNotRun("expected an output file".to_owned()))?;
        super::not_stdout("OUT", out)?;
        Ok(out)
    }
}

impl OutOption {
    /// The path of the option.
    pub fn path(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// The path of the option or of the argument.
    ///
    /// # Errors
    /// If both are given.
    pub fn or<'a>(&'a self, out: Option<&'a Path>) -> Result<Option<&'a Path>, Failure> {
        match (self.path(), out) {
            (Some(option), Some(out)) => Err(two_outputs(out, option)),
            (option, out) => Ok(option.or(out)),
        }
    }
}

/// The failure for an output that is both an argument and an option.
pub fn two_outputs(out: &Path, option: &Path) -> Failure {
    let problem = format!("unexpected argument; --output {} names the output already", option.display());
    Failure::CouldNotRun(format!("{}: {problem}", out.display()))
}

/// The option that asks for hashes of written files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct HashOption {
    /// Print the SHA-256 of each written file with its path, as sha256sum does; the files are read back
    #[arg(long)]
    hash: bool,
}

impl HashOption {
    /// Returns the hashing to do for this option.
    pub fn how(self, threads: Option<NonZeroUsize>, quiet: bool) -> Hashing {
        Hashing(self.hash.then_some((threads, quiet)))
    }
}

/// Whether and how written files are hashed: the number of threads, and whether progress is hidden.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hashing(Option<(Option<NonZeroUsize>, bool)>);

/// The answer of a command that has written files.
#[derive(Serialize)]
struct Written<'a> {
    files: Vec<WrittenFile<'a>>,
}

/// A written file, for JSON.
#[derive(Serialize)]
pub struct WrittenFile<'a> {
    path: json::Text<'a>,
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl Hashing {
    /// The hash of each file; `None` if no hashes are requested.
    fn hashes(self, paths: &[PathBuf]) -> Result<Vec<Option<String>>, Failure> {
        let Some((threads, quiet)) = self.0 else { return Ok(vec![None; paths.len()]) };
        let watch = Watch::new(quiet);
        let hashes = gguf_edit::file_hashes(paths, threads, &watch);
        watch.clear();
        Ok(hashes?.into_iter().map(Some).collect())
    }

    /// Describes the files for JSON.
    ///
    /// # Errors
    /// If a file cannot be read back.
    pub fn files(self, paths: &[PathBuf]) -> Result<Vec<WrittenFile<'_>>, Failure> {
        let bytes = |path: &Path| std::fs::metadata(path).ok().map(|data| data.len());
        let mut files = Vec::new();
        for (path, sha256) in paths.iter().zip(self.hashes(paths)?) {
            files.push(WrittenFile { path: json::path(path), bytes: bytes(path), sha256 });
        }
        Ok(files)
    }
}

/// Prints the paths of the written files, or one JSON object if JSON is requested.
///
/// # Errors
/// If standard output cannot be written, or if a file to hash cannot be read back.
pub fn print_written(ui: &mut Ui, paths: &[PathBuf], hashing: Hashing) -> Result<(), Failure> {
    if ui.schema.is_some() {
        return Ok(json::print(ui, 3, &Written { files: hashing.files(paths)? })?);
    }
    for (path, hash) in paths.iter().zip(hashing.hashes(paths)?) {
        match hash {
            Some(hash) => ui.print_hash(&hash, path)?,
            None => ui.print_path(path)?,
        }
    }
    Ok(())
}

/// Options of commands that write a model, whole or in shards.
#[derive(Debug, clap::Args)]
pub struct WritingModel {
    #[command(flatten)]
    pub writing: Writing,

    // Last, because the options after it would appear under its heading in the help.
    #[command(flatten)]
    shards: Shards,
}

impl WritingModel {
    /// Like [`Writing::run_beside`], but splits the output into shards if requested.
    ///
    /// # Errors
    /// If the output cannot be split, the run fails, or standard output cannot be written.
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
    /// If the run fails, or if standard output cannot be written.
    pub fn run(&self, ui: &mut Ui, plan: &Plan, out: &Path, done: &str) -> Result<Vec<PathBuf>, Failure> {
        self.run_beside(ui, plan, out, done, &[])
    }

    /// Like [`Writing::run`], but the output must not replace any of the files in `protect`.
    ///
    /// # Errors
    /// If the run fails, or if standard output cannot be written.
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
            .create_folders(names_folders(out))
            .protect(protect.to_vec());
        let out = path_of(out, plan)?;
        let watch = Watch::new(self.quiet);
        let result = open::run(plan, &out, &options, &watch);
        watch.clear();
        let paths = result?.paths;
        self.say(ui, &watch, plan.tensors().len() as u64, plan.file_bytes(), done);
        print_written(ui, &paths, self.hashing())?;
        Ok(paths)
    }

    /// Checks the outputs of a dry run, and the space for them, as a run does.
    ///
    /// # Errors
    /// If the output cannot be named.
    pub fn check_outputs(&self, ui: &mut Ui, plan: &Plan, out: &Path) -> Outcome {
        let options = RunOptions::default().force(self.force).create_folders(names_folders(out));
        let out = path_of(out, plan)?;
        let outputs = [(plan, out.as_path())];
        let space = preflight::check_disk_space(ui, &preflight::disk_space(&outputs));
        Ok(space.max(preflight::check_outputs(ui, &outputs, &options)))
    }

    /// How the written files are hashed.
    pub fn hashing(&self) -> Hashing {
        self.hash.how(self.threads, self.quiet)
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
