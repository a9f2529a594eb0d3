//! Errors of work that is divided among machines.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::MAX_PARTS;
use crate::error::Error;

/// Reasons why a plan cannot be made, or a part or a commit cannot be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum FleetError {
    /// A run, or the system, failed.
    Run(Error),
    /// The JSON is not a plan that this version executes.
    Plan(PlanProblem),
    /// The data of a source tensor is not in a file as it is read.
    Source {
        /// The tensor that is made of it.
        tensor: String,
    },
    /// The name of an entry of the importance matrix is not text.
    Entry {
        /// The tensor whose columns the entry weights.
        tensor: String,
    },
    /// An output would have too many parts.
    TooManyParts {
        /// The length of the output.
        bytes: u64,
        /// The length of a part.
        part: u64,
    },
    /// The index of a part is too large.
    NoPart {
        /// The index.
        index: usize,
        /// The number of parts.
        n_parts: usize,
    },
    /// A file of the source is not the one for which the plan was made.
    Changed {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// The value in the plan.
        planned: String,
        /// The value of the file.
        found: String,
    },
    /// The output was begun for another plan.
    Begun {
        /// The output.
        output: PathBuf,
        /// The file or object that shows it.
        found: PathBuf,
    },
    /// The output was not begun, or it was aborted or completed since.
    NotBegun {
        /// The output.
        output: PathBuf,
        /// The part that was to be written.
        part: Option<usize>,
    },
    /// The head beside an output is missing, or not the one in the plan.
    Head {
        /// The output.
        output: PathBuf,
    },
    /// A manifest is not that of the part.
    Manifest {
        /// The index of the part.
        part: usize,
        /// What is wrong.
        what: String,
    },
    /// Parts are not done.
    Missing {
        /// Their indexes.
        parts: Vec<usize>,
    },
    /// The bytes of parts are not those that were written; they were marked as not done.
    StaleParts {
        /// Their indexes.
        parts: Vec<usize>,
    },
    /// An output has another length than its plan.
    Length {
        /// The output.
        output: PathBuf,
        /// The length in the plan.
        expected: u64,
        /// The length of the output.
        found: u64,
    },
    /// The outputs are complete, so there is nothing to abort.
    Complete {
        /// The first output.
        output: PathBuf,
    },
}

/// Reasons why JSON is not a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanProblem {
    /// It cannot be parsed.
    Json(String),
    /// Another version of the library has made it.
    Program {
        /// The version of that library.
        was: String,
        /// The version of the format.
        version: u32,
    },
    /// Its numbers do not belong together.
    Contradiction(String),
}

impl FleetError {
    /// Whether the same call may succeed later, or on another machine.
    pub fn is_temporary(&self) -> bool {
        match self {
            FleetError::Run(e) => is_temporary(e),
            FleetError::Missing { .. } | FleetError::StaleParts { .. } => true,
            _ => false,
        }
    }

    /// The error of a run.
    pub(super) fn into_run(self) -> Error {
        match self {
            FleetError::Run(e) => e,
            e => Error::Importance(Box::new(e)),
        }
    }
}

/// Whether a run may succeed later, or on another machine.
fn is_temporary(e: &Error) -> bool {
    let of_system = |e: &io::Error| {
        !matches!(
            e.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::InvalidData
                | io::ErrorKind::AlreadyExists
                | io::ErrorKind::Unsupported
                | io::ErrorKind::UnexpectedEof
        )
    };
    match e {
        Error::Io { source, .. } => of_system(source),
        Error::Input(e) | Error::Output(e) => match &**e {
            gguf_io::Error::Io { source, .. } => of_system(source),
            gguf_io::Error::Busy(_) | gguf_io::Error::NoDiskSpace { .. } => true,
            _ => false,
        },
        Error::OutOfMemory { .. } | Error::Cancelled => true,
        _ => false,
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FleetError::Run(e) => write!(f, "{e}"),
            FleetError::Plan(problem) => write!(f, "{problem}"),
            FleetError::Source { tensor } => write!(
                f,
                "the tensor {tensor}: its source is decoded or rearranged as it is read, which many machines cannot do from a plan; convert \
                 the model without quantizing it first, and divide the next step"
            ),
            FleetError::Entry { tensor } => {
                write!(f, "the tensor {tensor}: the name of its entry in the importance matrix is not UTF-8")
            }
            FleetError::TooManyParts { bytes, part } => write!(
                f,
                "an output of {bytes} bytes has more than {MAX_PARTS} parts of {part} bytes; expected parts of at least {} bytes",
                bytes.div_ceil(MAX_PARTS)
            ),
            FleetError::NoPart { index, n_parts } => {
                write!(f, "there is no part {index}; parts are numbered from 0 and below {n_parts}")
            }
            FleetError::Changed { path, what, planned, found } => write!(
                f,
                "{}: the file is not the one for which the plan was made: its {what} was {planned} and is {found}",
                path.display()
            ),
            FleetError::Begun { output, found } => write!(
                f,
                "{}: {} exists, so another run or another plan writes this output",
                output.display(),
                found.display()
            ),
            FleetError::NotBegun { output, part } => {
                write!(f, "{}: the output is not begun, or it was aborted or completed since", output.display())?;
                match part {
                    Some(part) => write!(f, "; part {part} was not written"),
                    None => Ok(()),
                }
            }
            FleetError::Head { output } => {
                write!(f, "{}: the head beside the output is missing or damaged", output.display())
            }
            FleetError::Manifest { part, what } => write!(f, "the manifest of part {part} is invalid: {what}"),
            FleetError::Missing { parts } => {
                let n = parts.len();
                write!(f, "{n} part{} not done: {}", if n == 1 { " is" } else { "s are" }, Listed(parts))
            }
            FleetError::StaleParts { parts } => {
                write!(
                    f,
                    "the data of these parts is not what was written: {}; they are to be made again",
                    Listed(parts)
                )
            }
            FleetError::Length { output, expected, found } => {
                write!(f, "{}: the output has {found} bytes; expected {expected}", output.display())
            }
            FleetError::Complete { output } => write!(f, "{}: the output is complete", output.display()),
        }
    }
}

/// A list of numbers in ascending order, for messages: `3, 5 to 9`, of which the first runs are shown.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a>(pub &'a [usize]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 10;
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &n in self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == n => *last = n,
                _ => runs.push((n, n)),
            }
        }
        for (i, (first, last)) in runs.iter().take(MOST).enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first}, {last}")?,
                _ => write!(f, "{first} to {last}")?,
            }
        }
        if runs.len() > MOST { f.write_str(" and more") } else { Ok(()) }
    }
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanProblem::Json(e) => write!(f, "not a plan of this program: {e}"),
            PlanProblem::Program { was, version } => write!(
                f,
                "the plan was made by {was} (format {version}); this is {}, which may encode differently",
                super::PROGRAM
            ),
            PlanProblem::Contradiction(what) => write!(f, "the plan contradicts itself: {what}"),
        }
    }
}

impl StdError for FleetError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            FleetError::Run(e) => e.source(),
            _ => None,
        }
    }
}

impl From<Error> for FleetError {
    fn from(e: Error) -> FleetError {
        match e {
            // What a source of a plan reports.
            Error::Importance(e) => match e.downcast::<FleetError>() {
                Ok(e) => *e,
                Err(e) => FleetError::Run(Error::Importance(e)),
            },
            e => FleetError::Run(e),
        }
    }
}

impl From<gguf_io::Error> for FleetError {
    fn from(e: gguf_io::Error) -> FleetError {
        FleetError::Run(e.into())
    }
}
