//! What the commands for many machines share: options, plans, the places of outputs, and exit codes.

use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_io::{Output, ReadAt};
use gguf_pipeline::fleet::{FleetError, FleetOptions, FleetPlan, MatrixFile, Place, Samples};
use gguf_pipeline::plan::Plan;
use gguf_pipeline::{Importance, RunOptions};
use gguf_quantize::imatrix::ImatrixFile;

use super::size::parse_limit;
use super::writing::{Hashing, print_written};
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::{Ui, number, size};

/// The longest plan that is read. That of a model of a trillion weights has some 5 MB.
const MAX_PLAN: u64 = 64 << 20;

/// The shortest part: what every store takes.
const SHORTEST: u64 = 5 << 20;

/// Options that divide the work among machines.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct Dividing {
    /// Begin the output, and write a plan of its parts to FILE in place of the data. `gguf part` makes the parts, on any number
    /// of machines, and `gguf commit` completes the output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "resume", "hash"])]
    pub plan_only: Option<PathBuf>,

    /// Length of a part, at least 5MiB; by default 64MiB, or more for a large output
    #[arg(long, value_name = "SIZE", value_parser = part_size, requires = "plan_only")]
    part_size: Option<NonZeroU64>,
}

fn part_size(text: &str) -> Result<NonZeroU64, String> {
    match parse_limit(text)? {
        bytes if bytes.get() < SHORTEST => Err("expected at least 5MiB, the shortest part that stores take".to_owned()),
        bytes => Ok(bytes),
    }
}

/// What is asked of a plan.
pub struct Asked<'a> {
    /// The importance matrix.
    pub matrix: Option<MatrixFile>,
    /// The samples to measure in place of making the output.
    pub samples: Option<Samples>,
    /// Whether there is a report, whether files may be replaced, and which must not be.
    pub run: &'a RunOptions,
}

impl Dividing {
    /// Begins the outputs of a plan, and writes the plan.
    ///
    /// # Errors
    /// If the plan cannot be divided, or an output exists or was begun.
    pub fn write(
        &self,
        ui: &mut Ui,
        plan: &Plan,
        out: Option<&Path>,
        Asked { matrix, samples, run }: Asked<'_>,
        quiet: bool,
    ) -> Outcome {
        let (Some(file), Some(out)) = (&self.plan_only, out) else {
            return Err(Failure::CouldNotRun("--plan-only: expected an output".to_owned()));
        };
        super::not_stdout("--plan-only", file)?;
        let outputs = match &samples {
            Some(_) => vec![out.to_owned()],
            None => plan.output_paths(out),
        };
        let outputs: Vec<PathBuf> = outputs.iter().map(|path| absolute(path)).collect();
        let local = outputs.iter().filter(|path| !open::is_url(path)).cloned();
        gguf_pipeline::check_paths(plan.draft(), local.chain([absolute(file)]).collect(), run)?;
        let mut options = FleetOptions::default();
        options.part_bytes = self.part_size.map(NonZeroU64::get);
        (options.replace, options.matrix, options.report) = (run.force, matrix, run.measure);
        options.samples = samples;
        let new = FleetPlan::divide(plan, &outputs, options)?;
        let places = places(new.plan())?;
        let begun = new.begin(&places)?;
        let written = begun.to_json().map_err(Failure::from).and_then(|json| write(file, run.force, &json));
        if let Err(e) = written {
            // The error that is reported is the first.
            let _ = begun.abort(&places);
            return Err(e);
        }
        if !quiet {
            let parts = number(begun.n_parts() as u64, "part", "parts");
            let of = match begun.samples(0) {
                Some(_) => "of samples".to_owned(),
                None => format!("of {} for {}", size(begun.part_bytes()), size(begun.file_bytes())),
            };
            let file = file.display();
            ui.note(&format!(
                "{parts} {of}; make them with `gguf part {file} --index I`, then run `gguf commit {file}`"
            ));
        }
        print_written(ui, std::slice::from_ref(file), Hashing::default())?;
        Ok(Verdict::Good)
    }
}

/// A path that workers find from other folders.
fn absolute(path: &Path) -> PathBuf {
    match open::is_url(path) {
        true => path.to_owned(),
        false => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// Writes a plan or other JSON, whole or not at all.
///
/// # Errors
/// If the file exists, unless it may be replaced, or cannot be written.
pub fn write(path: &Path, force: bool, json: &[u8]) -> Result<(), Failure> {
    let output = Output::create(path, force)?;
    output.write_at(0, json)?;
    Ok(output.commit()?)
}

/// The importance matrix of a plan, identified for workers.
///
/// # Errors
/// If the file cannot be opened.
pub fn matrix_file(path: &Path, include: &[String], exclude: &[String]) -> Result<MatrixFile, Failure> {
    let source = open::any(path)?;
    let file = gguf_pipeline::fleet::SourceFile::of(path, &*source);
    let file = file.map_err(|e| Failure::from(gguf_pipeline::Error::io("read", path, e)))?;
    Ok(MatrixFile { file, include: include.to_vec(), exclude: exclude.to_vec() })
}

/// Reads a plan.
///
/// # Errors
/// If it cannot be read, or is not a plan of this version.
pub fn read(path: &Path) -> Result<FleetPlan, Failure> {
    FleetPlan::parse(&bytes_of(path)?).map_err(|e| {
        let failure = Failure::from(e);
        let help = failure.help().map(str::to_owned);
        Failure::of_file(failure.verdict(), "bad_input", path, format!("{}: {failure}", path.display())).with_help(help)
    })
}

/// The bytes of a plan or other JSON.
///
/// # Errors
/// If the file cannot be read, or is too long.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let source = open::any(path)?;
    let failed = |e| Failure::from(gguf_pipeline::Error::io("read", path, e));
    let bytes = source.size().map_err(failed)?;
    if bytes > MAX_PLAN {
        return Err(Failure::Bad(format!("{}: {bytes} bytes are too many for a plan", path.display())));
    }
    let mut json = Vec::new();
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    json.try_reserve_exact(len).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
    json.resize(len, 0);
    source.read_exact_at(0, &mut json).map_err(failed)?;
    Ok(json)
}

/// The places of the outputs of a plan.
///
/// # Errors
/// If an output is a URL that cannot be written.
pub fn places(plan: &FleetPlan) -> Result<Vec<Box<dyn Place>>, Failure> {
    plan.outputs().map(open::place).collect()
}

/// The weights of a plan's columns.
///
/// # Errors
/// If the file cannot be read, or is not the one in the plan.
pub fn importance(plan: &FleetPlan) -> Result<Option<Arc<dyn Importance>>, Failure> {
    let Some(MatrixFile { file, include, exclude }) = plan.matrix() else { return Ok(None) };
    let source = file.open(&open_source)?;
    let mut matrix = ImatrixFile::from_source(source, Path::new(&file.path))?;
    matrix.select(include, exclude);
    Ok(Some(Arc::new(matrix)))
}

/// Opens a file of a source.
///
/// # Errors
/// Errors of the system, or of the server.
pub fn open_source(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    if !open::is_url(path) {
        let file = gguf_io::open_regular(path).map_err(|e| match e {
            gguf_io::Error::Io { source, .. } => source,
            e => io::Error::new(io::ErrorKind::InvalidInput, e.to_string()),
        })?;
        return Ok(Arc::new(file));
    }
    open::ranges(path).map_err(|failure| {
        let kind = match failure.kind() {
            "not_found" => io::ErrorKind::NotFound,
            "permission_denied" => io::ErrorKind::PermissionDenied,
            "bad_url" | "no_feature" => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, failure.to_string())
    })
}

/// The outcome of a command that an engine repeats. A failure that may not happen again has an exit code of its own, and all others have that of
/// a command that could not run.
pub fn settled(outcome: Outcome) -> Outcome {
    outcome.map_err(|failure| match (failure.verdict(), failure.kind()) {
        (Verdict::TryAgain, _) => failure,
        (_, "io" | "busy") => failure.with_verdict(Verdict::TryAgain),
        _ => failure.with_verdict(Verdict::CouldNotRun),
    })
}

impl From<FleetError> for Failure {
    fn from(e: FleetError) -> Failure {
        let is_temporary = e.is_temporary();
        let help = match &e {
            FleetError::Begun { .. } => Some("finish or abort it with its plan, or discard it with --force"),
            FleetError::NotBegun { .. } => Some("plan it again with --plan-only"),
            FleetError::Missing { .. } => Some("wait for the workers, or make them with `gguf part`"),
            FleetError::StaleParts { .. } => Some("make them with `gguf part`, then commit again"),
            FleetError::Changed { .. } => Some("restore the file, or abort the plan and make another"),
            FleetError::Plan(gguf_pipeline::fleet::PlanProblem::Program { .. }) => {
                Some("run the same version of the program on all machines")
            }
            FleetError::TooManyParts { .. } => Some("use a larger --part-size"),
            _ => None,
        };
        let failure = match e {
            FleetError::Run(e) => Failure::from(e),
            e => Failure::CouldNotRun(e.to_string()),
        };
        let failure = failure.with_help(help.map(str::to_owned));
        if is_temporary { failure.with_verdict(Verdict::TryAgain) } else { failure }
    }
}
