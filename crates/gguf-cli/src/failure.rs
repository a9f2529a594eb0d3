//! The outcome of a command: a verdict, or the failure that prevented one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The verdict of a command. For several files, the highest one takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Success.
    Good,
    /// A file is invalid, or a requested item is missing.
    Bad,
    /// The command is wrong or could not run.
    CouldNotRun,
    /// The command could not run, and may succeed later or on another machine: `EX_TEMPFAIL` of `sysexits.h`.
    TryAgain = 75,
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
    /// A failure with more details.
    Detailed(Box<Details>),
    /// The reader of standard output has closed it. This is not an error.
    PipeClosed,
}

/// The details of a failure.
#[derive(Debug)]
pub struct Details {
    pub verdict: Verdict,
    /// One of the kinds of the JSON error schema.
    pub kind: &'static str,
    /// The file, if the failure concerns one.
    pub path: Option<PathBuf>,
    /// Byte offset in the file, if known.
    pub offset: Option<u64>,
    /// The affected tensors, if the message does not list all of them.
    pub tensors: Vec<String>,
    /// The complete message, including the path.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// The kind of an operating system error.
pub fn system_kind(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "not_found",
        io::ErrorKind::PermissionDenied => "permission_denied",
        io::ErrorKind::UnexpectedEof => "truncated",
        _ => "io",
    }
}

/// The return type of every command.
pub type Outcome = Result<Verdict, Failure>;

impl Failure {
    /// The verdict that determines the exit code.
    pub fn verdict(&self) -> Verdict {
        match self {
            Failure::Bad(_) => Verdict::Bad,
            Failure::CouldNotRun(_) => Verdict::CouldNotRun,
            Failure::Detailed(details) => details.verdict,
            Failure::PipeClosed => Verdict::Good,
        }
    }

    /// The kind of the failure, for scripts.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Bad(_) => "bad_input",
            Failure::CouldNotRun(_) | Failure::PipeClosed => "failed",
            Failure::Detailed(details) => details.kind,
        }
    }

    /// The path of the file, if the failure concerns one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Failure::Detailed(details) => details.path.as_deref(),
            _ => None,
        }
    }

    /// The affected tensors, if the message does not list all of them.
    pub fn tensors(&self) -> &[String] {
        match self {
            Failure::Detailed(details) => &details.tensors,
            _ => &[],
        }
    }

    /// What to do about it, on a line of its own.
    pub fn help(&self) -> Option<&str> {
        match self {
            Failure::Detailed(details) => details.help.as_deref(),
            _ => None,
        }
    }

    /// Adds what to do about it.
    pub fn with_help(self, help: Option<String>) -> Failure {
        if help.is_none() {
            return self;
        }
        match self {
            Failure::Detailed(details) => Failure::Detailed(Box::new(Details { help, ..*details })),
            Failure::PipeClosed => self,
            Failure::Bad(_) | Failure::CouldNotRun(_) => Failure::Detailed(Box::new(Details {
                verdict: self.verdict(),
                kind: self.kind(),
                path: None,
                offset: None,
                tensors: Vec::new(),
                message: self.to_string(),
                help,
            })),
        }
    }

    /// The same failure with another verdict.
    pub fn with_verdict(self, verdict: Verdict) -> Failure {
        if self.verdict() == verdict || matches!(self, Failure::PipeClosed) {
            return self;
        }
        match self {
            Failure::Detailed(details) => Failure::Detailed(Box::new(Details { verdict, ..*details })),
            failure => {
                let (kind, message) = (failure.kind(), failure.to_string());
                let (path, offset, tensors, help) = (None, None, Vec::new(), None);
                Failure::Detailed(Box::new(Details { verdict, kind, path, offset, tensors, message, help }))
            }
        }
    }

    /// A failure that concerns a file. `kind` is one of the kinds of the JSON error schema, and `message` includes the path.
    pub fn of_file(verdict: Verdict, kind: &'static str, path: &Path, message: String) -> Failure {
        let (path, tensors) = (Some(path.to_owned()), Vec::new());
        Failure::Detailed(Box::new(Details { verdict, kind, path, offset: None, tensors, message, help: None }))
    }

    /// The failure for an output that already exists.
    pub fn exists(path: &Path) -> Failure {
        let message = format!("{}: already exists", path.display());
        let help = "use --force to overwrite it, or choose another name";
        Failure::of_file(Verdict::CouldNotRun, "exists", path, message).with_help(Some(help.to_owned()))
    }

    /// The byte offset in the file, if known.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Failure::Detailed(details) => details.offset,
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Bad(message) | Failure::CouldNotRun(message) => f.write_str(message),
            Failure::Detailed(details) => f.write_str(&details.message),
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
