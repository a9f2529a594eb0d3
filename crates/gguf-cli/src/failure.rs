//! How a command ends: its verdict, or the failure that kept it from one.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// How it went, in the order of precedence when there are several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All is well.
    Good,
    /// A file is bad, or what was asked of it is not there.
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
    /// Whoever read standard output has seen enough. Nothing to complain about.
    PipeClosed,
}

/// What every command returns.
pub type Outcome = Result<Verdict, Failure>;

impl Failure {
    /// What the exit code says of it.
    pub fn verdict(&self) -> Verdict {
        match self {
            Failure::Bad(_) => Verdict::Bad,
            Failure::CouldNotRun(_) => Verdict::CouldNotRun,
            Failure::PipeClosed => Verdict::Good,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Bad(message) | Failure::CouldNotRun(message) => f.write_str(message),
            Failure::PipeClosed => f.write_str("standard output was closed"),
        }
    }
}

/// Errors of standard output, the only stream that commands write to themselves.
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
            e if e.is_bad_file() => Failure::Bad(e.to_string()),
            e => Failure::CouldNotRun(e.to_string()),
        }
    }
}

impl From<gguf_convert::Error> for Failure {
    fn from(e: gguf_convert::Error) -> Failure {
        match e {
            gguf_convert::Error::Output(e) => (*e).into(),
            e if e.is_bad_input() => Failure::Bad(e.to_string()),
            e => Failure::CouldNotRun(e.to_string()),
        }
    }
}

impl Failure {
    /// An output that is there already.
    pub fn exists(path: &std::path::Path) -> Failure {
        Failure::CouldNotRun(format!("{}: exists already; give --force to replace it, or another name", path.display()))
    }
}
