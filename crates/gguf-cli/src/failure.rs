//! How a command ends: its verdict, or the failure that kept it from one.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::hints;

/// How it went, in the order of precedence when there are several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All is well.
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
            e if e.is_bad_file() => Failure::Bad(format!("{e}{}", hints::for_reading(&e))),
            e => Failure::CouldNotRun(e.to_string()),
        }
    }
}

/// A failure of a library: what it says and, after that, what can be done about it in terms of this program.
fn failed(is_bad_input: bool, message: String) -> Failure {
    if is_bad_input { Failure::Bad(message) } else { Failure::CouldNotRun(message) }
}

impl From<gguf_pipeline::Error> for Failure {
    fn from(e: gguf_pipeline::Error) -> Failure {
        match e {
            gguf_pipeline::Error::Output(e) | gguf_pipeline::Error::Input(e) => (*e).into(),
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
            finding.hint = hints::for_finding(finding.code, &finding.hint).to_owned().into();
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
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_conversion(&e))),
        }
    }
}

impl From<gguf_legacy::Error> for Failure {
    fn from(e: gguf_legacy::Error) -> Failure {
        match e {
            gguf_legacy::Error::Pipeline(e) => e.into(),
            e => failed(e.is_bad_input(), format!("{e}{}", hints::for_migration(&e))),
        }
    }
}

impl Failure {
    /// An output that is there already.
    pub fn exists(path: &std::path::Path) -> Failure {
        Failure::CouldNotRun(format!(
            "{}: already exists; use --force to overwrite it, or choose another name",
            path.display()
        ))
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
