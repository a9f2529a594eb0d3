//! Errors of migrations: the file, the field, the value found and the expected one.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gguf_format::FileKind;
use gguf_format::check::Finding;

use crate::container::Container;
use crate::layout::Family;
use crate::malformed::Malformed;
use crate::question::{Question, Topic};

/// Reasons why a legacy file cannot be read or migrated. A message includes that of its cause.
///
/// ```
/// use gguf_legacy::{Error, LegacyFile};
///
/// let text = Box::new(b"not a model".to_vec());
/// let error = LegacyFile::from_source("notes.txt".as_ref(), text, None, |_| unreachable!()).unwrap_err();
/// assert!(matches!(error, Error::NotLegacy { .. }));
/// assert!(error.is_bad_input());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A system error.
    Io {
        /// The action: `open`, `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is not a legacy file.
    NotLegacy {
        /// The file.
        path: PathBuf,
        /// The actual kind of the file.
        kind: FileKind,
    },
    /// The file is GGUF of the present version.
    UpToDate {
        /// The file.
        path: PathBuf,
    },
    /// The file is the saved state of a chat.
    Session {
        /// The file.
        path: PathBuf,
    },
    /// The file is malformed.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The container.
        container: Option<Container>,
        /// The best matching architecture.
        family: Option<Family>,
        /// The problem and its place.
        source: Malformed,
    },
    /// The tensors do not match any architecture with the layout of the file.
    UnknownArchitecture {
        /// The file.
        path: PathBuf,
        /// The container.
        container: Container,
        /// The name of the first unknown tensor.
        tensor: Option<String>,
    },
    /// The file has another architecture than the requested one.
    OtherArchitecture {
        /// The file.
        path: PathBuf,
        /// The requested architecture.
        asked: Family,
        /// The architecture of the file.
        found: Family,
    },
    /// A tensor does not belong to the architecture.
    UnknownTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The architecture.
        family: Family,
    },
    /// The shape of a tensor contradicts the hyperparameters.
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        found: Vec<u64>,
        /// The expected shape.
        expected: String,
    },
    /// The model is in several parts, and one is missing.
    MissingPart {
        /// The first part.
        path: PathBuf,
        /// The part that is missing.
        part: PathBuf,
        /// The number of parts.
        n_parts: u64,
    },
    /// Parts do not belong together.
    OtherPart {
        /// The part.
        path: PathBuf,
        /// The difference from the first part.
        difference: String,
    },
    /// Quantized blocks do not match any known layout.
    UnknownBlocks {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A scale of a quantized tensor is NaN or infinite.
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A given value contradicts the file.
    Contradiction {
        /// The file.
        path: PathBuf,
        /// A key, or the name of a count.
        what: String,
        /// The value in the file.
        file: String,
        /// The given value.
        given: String,
    },
    /// A key of the draft of GGUF is missing or invalid.
    Key {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value, if it is a number.
        found: Option<u32>,
        /// The valid values.
        expected: &'static str,
    },
    /// The file lacks required information, and no answer was given.
    Unanswered {
        /// The file.
        path: PathBuf,
        /// The open questions.
        questions: Vec<Question>,
    },
    /// An answer is invalid.
    Answer {
        /// The topic of the answer.
        topic: Topic,
        /// The answer.
        found: String,
        /// The valid answers.
        expected: &'static str,
    },
    /// The output would be incomplete.
    Output {
        /// The file.
        path: PathBuf,
        /// The first error found by the check of the output.
        finding: Box<Finding>,
        /// The number of further errors.
        n_more: usize,
    },
    /// A known format that cannot be migrated.
    Unsupported {
        /// The file.
        path: PathBuf,
        /// A description.
        what: &'static str,
    },
    /// The file is GGUF and cannot be read, or the run failed.
    Pipeline(gguf_pipeline::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }

    /// Whether the file is the cause, not the system or the caller.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Pipeline(e) => e.is_bad_input(),
            Error::NotLegacy { .. }
            | Error::Session { .. }
            | Error::Malformed { .. }
            | Error::UnknownArchitecture { .. }
            | Error::UnknownTensor { .. }
            | Error::Shape { .. }
            | Error::OtherPart { .. }
            | Error::Key { .. }
            | Error::UnknownBlocks { .. }
            | Error::Output { .. }
            | Error::NotFinite { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { action, path, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Error::NotAFile { path } => write!(f, "{}: is not a regular file", path.display()),
            Error::NotLegacy { path, kind: FileKind::Unknown } => write!(
                f,
                "{}: not a legacy model; such files start with lmgg, fmgg, tjgg, ccgg or algg, and GGUF with GGUF",
                path.display()
            ),
            Error::NotLegacy { path, kind } => {
                write!(f, "{}: not a legacy model but {kind}; {}", path.display(), kind.hint())
            }
            Error::UpToDate { path } => {
                write!(f, "{}: is already GGUF version 3; nothing to migrate", path.display())
            }
            Error::Session { path } => {
                write!(f, "{}: is a session of llama.cpp, the saved state of a chat; it holds no model", path.display())
            }
            Error::Malformed { path, container, family, source } => {
                write!(f, "{}: ", path.display())?;
                match (container, family) {
                    (Some(container), Some(family)) => write!(f, "as a {container} file of {family}: ")?,
                    (Some(container), None) => write!(f, "as a {container} file: ")?,
                    _ => {}
                }
                write!(f, "{source}")?;
                if source.is_truncated() {
                    f.write_str("; the file is incomplete, fetch it again")?;
                }
                Ok(())
            }
            Error::UnknownArchitecture { path, container, tensor } => {
                write!(f, "{}: a {container} file of an unknown architecture", path.display())?;
                match tensor {
                    Some(tensor) => write!(f, ": no architecture has a tensor {tensor:?}"),
                    None => f.write_str(": no tensor identifies it"),
                }
            }
            Error::OtherArchitecture { path, asked, found } => {
                write!(f, "{}: is not a model of {asked}, but of {found}", path.display())
            }
            Error::UnknownTensor { path, tensor, family } => {
                write!(f, "{}: {family} has no tensor {tensor:?}", path.display())
            }
            Error::Shape { path, tensor, found, expected } => {
                write!(f, "{}: tensor {tensor:?} has the dimensions {found:?}, expected {expected}", path.display())
            }
            Error::MissingPart { path, part, n_parts } => write!(
                f,
                "{}: the model is in {n_parts} parts, and {} is missing; put all parts into one folder",
                path.display(),
                part.display()
            ),
            Error::OtherPart { path, difference } => {
                write!(f, "{}: does not belong to the first part: {difference}", path.display())
            }
            Error::UnknownBlocks { path, tensor } => write!(
                f,
                "{}: tensor {tensor:?}: its block scales are invalid in every layout of that time; the file is damaged",
                path.display()
            ),
            Error::NotFinite { path, tensor } => {
                write!(f, "{}: tensor {tensor:?}: scales are NaN or infinite; the file is damaged", path.display())
            }
            Error::Contradiction { path, what, file, given } => {
                write!(f, "{}: {what} is {file} in the file, but {given} was given", path.display())
            }
            Error::Key { path, key, found: Some(found), expected } => {
                write!(f, "{}: key {key}: is {found}; expected {expected}", path.display())
            }
            Error::Key { path, key, found: None, expected } => {
                write!(f, "{}: key {key}: is missing, or not a number; expected {expected}", path.display())
            }
            Error::Unanswered { path, questions } => {
                write!(f, "{}: the file lacks metadata", path.display())?;
                for question in questions {
                    write!(f, "\n  {question}")?;
                }
                Ok(())
            }
            Error::Answer { topic, found, expected } => write!(f, "{topic}: {found} was given, expected {expected}"),
            Error::Output { path, finding, n_more } => {
                write!(f, "{}: the file holds no whole model: {finding}", path.display())?;
                if *n_more > 0 {
                    write!(f, ", and {n_more} more errors")?;
                }
                Ok(())
            }
            Error::Unsupported { path, what } => write!(f, "{}: {what}", path.display()),
            Error::Pipeline(e) => write!(f, "{e}"),
        }
    }
}

impl StdError for Error {
    /// The cause of the cause: the cause's own message is part of this one.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Io { source, .. } => source.source(),
            Error::Pipeline(e) => e.source(),
            _ => None,
        }
    }
}

impl From<gguf_pipeline::Cancelled> for Error {
    fn from(e: gguf_pipeline::Cancelled) -> Error {
        Error::Pipeline(e.into())
    }
}

impl From<gguf_pipeline::Error> for Error {
    fn from(e: gguf_pipeline::Error) -> Error {
        Error::Pipeline(e)
    }
}
