//! The outcome of a command: a verdict, or the failure that prevented one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gguf_format::Problem;
use gguf_hf::{FolderError, PlanError};
use gguf_io::TensorProblem;
use gguf_quantize::imatrix;

use crate::hints;

/// The verdict of a command. For several files, the highest one takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Success.
    Good,
    /// A file is invalid, or a requested item is missing.
    Bad,
    /// The command is wrong or could not run.
    CouldNotRun,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(verdict as u8)
    }
}

/// Why a command stopped early.
#[derive(Debug)]
pub enum Failure {
    /// A file is bad.
    Bad(String),
    /// The command is wrong or could not run.
    CouldNotRun(String),
    /// A file could not be opened or read, or is bad.
    File(Box<FileFailure>),
    /// The reader of standard output has closed it. This is not an error.
    PipeClosed,
}

/// The details of a file failure.
#[derive(Debug)]
pub struct FileFailure {
    verdict: Verdict,
    /// One of the kinds of the JSON error schema.
    kind: &'static str,
    path: Option<PathBuf>,
    /// Byte offset in the file, if known.
    offset: Option<u64>,
    /// The affected tensors, if the message does not list all of them.
    tensors: Vec<String>,
    /// The complete message, including the path.
    message: String,
}

/// The return type of every command.
pub type Outcome = Result<Verdict, Failure>;

impl Failure {
    /// The verdict that determines the exit code.
    pub fn verdict(&self) -> Verdict {
        match self {
            Failure::Bad(_) => Verdict::Bad,
            Failure::CouldNotRun(_) => Verdict::CouldNotRun,
            Failure::File(failure) => failure.verdict,
            Failure::PipeClosed => Verdict::Good,
        }
    }

    /// The kind of the failure, for scripts.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Bad(_) => "bad_input",
            Failure::CouldNotRun(_) | Failure::PipeClosed => "failed",
            Failure::File(failure) => failure.kind,
        }
    }

    /// The path of the file, if the failure concerns one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Failure::File(failure) => failure.path.as_deref(),
            _ => None,
        }
    }

    /// The affected tensors, if the message does not list all of them.
    pub fn tensors(&self) -> &[String] {
        match self {
            Failure::File(failure) => &failure.tensors,
            _ => &[],
        }
    }

    /// The byte offset in the file, if known.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Failure::File(failure) => failure.offset,
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Bad(message) | Failure::CouldNotRun(message) => f.write_str(message),
            Failure::File(failure) => f.write_str(&failure.message),
            Failure::PipeClosed => f.write_str("standard output was closed"),
        }
    }
}

/// Converts errors of standard output, the only stream that commands write to directly.
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::CouldNotRun(format!("cannot write to standard output: {e}")),
        }
    }
}

impl From<gguf_io::Error> for Failure {
    fn from(e: gguf_io::Error) -> Failure {
        match e {
            gguf_io::Error::Exists(path) => Failure::exists(&path),
            e => Failure::File(Box::new(FileFailure {
                verdict: if e.is_bad_file() || ends_early(&e) { Verdict::Bad } else { Verdict::CouldNotRun },
                kind: kind(&e),
                path: Some(e.path().to_owned()),
                offset: offset(&e),
                tensors: Vec::new(),
                message: format!("{e}{}", hints::for_reading(&e)),
            })),
        }
    }
}

/// The kind of a failure to read a file. The names are stable.
fn kind(e: &gguf_io::Error) -> &'static str {
    match e {
        gguf_io::Error::Io { source, .. } => system_kind(source.kind()),
        gguf_io::Error::Head { source, .. } => match source.problem {
            Problem::NotGguf(_) => "not_gguf",
            Problem::Truncated { .. } | Problem::PastEnd { .. } => "truncated",
            Problem::OverLimit { .. } => "over_limit",
            _ => "invalid_head",
        },
        gguf_io::Error::NotAFile(_) => "not_a_file",
        gguf_io::Error::NoTensor { .. } => "no_tensor",
        gguf_io::Error::Tensor { problem: TensorProblem::Truncated { .. } | TensorProblem::Shrunk { .. }, .. } => {
            "truncated"
        }
        gguf_io::Error::Tensor { .. } => "bad_tensor",
        gguf_io::Error::Shards { .. } => "shards",
        gguf_io::Error::Busy(_) => "busy",
        gguf_io::Error::Changed(_) => "changed",
        gguf_io::Error::Unfinished { .. } | gguf_io::Error::OtherJournal { .. } => "unfinished_edit",
        _ => "io",
    }
}

/// The byte offset of an error in a file.
fn offset(e: &gguf_io::Error) -> Option<u64> {
    match e {
        gguf_io::Error::Head { source, .. } => Some(source.offset),
        gguf_io::Error::Tensor { problem: TensorProblem::Truncated { file_bytes, .. }, .. } => Some(*file_bytes),
        _ => None,
    }
}

/// A failure of a library. The message includes the hint for this program.
fn failed(is_bad_input: bool, message: String) -> Failure {
    if is_bad_input { Failure::Bad(message) } else { Failure::CouldNotRun(message) }
}

/// An operating system error for a path, with the library's message.
fn system(path: &Path, source: &io::Error, message: String) -> Failure {
    Failure::of_file(Verdict::CouldNotRun, system_kind(source.kind()), path, message)
}

/// Whether the data ends before its expected size.
fn ends_early(e: &gguf_io::Error) -> bool {
    matches!(e, gguf_io::Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof)
}

/// The kind of an operating system error.
fn system_kind(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "not_found",
        io::ErrorKind::PermissionDenied => "permission_denied",
        io::ErrorKind::UnexpectedEof => "truncated",
        _ => "io",
    }
}

impl From<gguf_pipeline::Error> for Failure {
    fn from(e: gguf_pipeline::Error) -> Failure {
        match e {
            gguf_pipeline::Error::Output(e) | gguf_pipeline::Error::Input(e) => (*e).into(),
            gguf_pipeline::Error::Io { ref path, ref source, .. } => system(path, source, e.to_string()),
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_run(&e))),
        }
    }
}

impl From<gguf_edit::Error> for Failure {
    fn from(e: gguf_edit::Error) -> Failure {
        match e {
            gguf_edit::Error::Pipeline(e) => (*e).into(),
            gguf_edit::Error::Io(e) => (*e).into(),
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_edit(&e))),
        }
    }
}

impl From<ggufkit::Error> for Failure {
    fn from(e: ggufkit::Error) -> Failure {
        match e {
            ggufkit::Error::Io(e) => (*e).into(),
            ggufkit::Error::Pipeline(e) => (*e).into(),
            ggufkit::Error::Edit(e) => (*e).into(),
            e => Failure::CouldNotRun(e.to_string()),
        }
    }
}

impl From<gguf_quantize::Error> for Failure {
    fn from(mut e: gguf_quantize::Error) -> Failure {
        if let gguf_quantize::Error::MatrixAtFault { finding, .. } = &mut e {
            finding.hint = hints::for_finding(finding.code, &finding.hint).into_owned().into();
        }
        if let gguf_quantize::Error::Matrix(matrix) = &e
            && let (imatrix::Problem::Io(source), Some(path)) = (&matrix.problem, &matrix.path)
        {
            return system(path, source, e.to_string());
        }
        match e {
            gguf_quantize::Error::Pipeline(e) => e.into(),
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_quantizing(&e))),
        }
    }
}

impl From<gguf_quantize::imatrix::Error> for Failure {
    fn from(e: gguf_quantize::imatrix::Error) -> Failure {
        gguf_quantize::Error::from(e).into()
    }
}

impl From<gguf_hf::Error> for Failure {
    fn from(e: gguf_hf::Error) -> Failure {
        match e {
            gguf_hf::Error::Pipeline(e) => e.into(),
            gguf_hf::Error::Io { ref path, ref source, .. }
            | gguf_hf::Error::Folder(FolderError::Read { file: ref path, ref source }) => {
                system(path, source, e.to_string())
            }
            gguf_hf::Error::Plan { ref path, source: PlanError::Unmapped { ref tensors, .. } } => {
                let (path, tensors) = (Some(path.clone()), tensors.clone());
                let (verdict, message) = (Verdict::Bad, e.to_string());
                Failure::File(Box::new(FileFailure {
                    verdict,
                    kind: "bad_input",
                    path,
                    offset: None,
                    tensors,
                    message,
                }))
            }
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_conversion(&e))),
        }
    }
}

impl From<gguf_legacy::Error> for Failure {
    fn from(e: gguf_legacy::Error) -> Failure {
        match e {
            gguf_legacy::Error::Pipeline(e) => e.into(),
            gguf_legacy::Error::Io { ref path, ref source, .. } => system(path, source, e.to_string()),
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_migration(&e))),
        }
    }
}

impl Failure {
    /// The failure for an output that already exists.
    pub fn exists(path: &Path) -> Failure {
        let problem = "already exists; use --force to overwrite it, or choose another name";
        Failure::of_file(Verdict::CouldNotRun, "exists", path, format!("{}: {problem}", path.display()))
    }
}

impl From<gguf_edit::EditError> for Failure {
    fn from(e: gguf_edit::EditError) -> Failure {
        match e {
            gguf_edit::EditError::Io(e) => (*e).into(),
            gguf_edit::EditError::Pipeline(e) => (*e).into(),
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_editing(&e))),
        }
    }
}

impl Failure {
    /// A failure that concerns a file. `kind` is one of the kinds of the JSON error schema, and `message` includes the path.
    pub fn of_file(verdict: Verdict, kind: &'static str, path: &Path, message: String) -> Failure {
        let (path, tensors) = (Some(path.to_owned()), Vec::new());
        Failure::File(Box::new(FileFailure { verdict, kind, path, offset: None, tensors, message }))
    }
}
