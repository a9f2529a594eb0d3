//! Errors that name the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be opened, read or written.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused.
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `open`, `read`, `write`, ...
        action: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The file's head cannot be read as GGUF.
    Head {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: Box<gguf_format::Error>,
    },
    /// The output exists already and may not be replaced.
    Exists(PathBuf),
    /// Another process works on the file.
    Busy(PathBuf),
    /// The file or folder is not of the kind that is needed.
    NotAFile(PathBuf),
    /// A tensor's data is not in the file, or its size is not known.
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name, safe to print.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The shards of a model do not belong together.
    Shards {
        /// The file that was opened.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { path, action, source }
    }

    /// The file the error is about.
    pub fn path(&self) -> &Path {
        match self {
            Error::Io { path, .. }
            | Error::Head { path, .. }
            | Error::Exists(path)
            | Error::Busy(path)
            | Error::NotAFile(path)
            | Error::Tensor { path, .. }
            | Error::Shards { path, .. } => path,
        }
    }

    /// Whether the file's content is at fault, as opposed to the call or the machine.
    pub fn is_bad_file(&self) -> bool {
        matches!(self, Error::Head { .. } | Error::Tensor { .. } | Error::Shards { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path().display())?;
        match self {
            Error::Io { action, source, .. } => write!(f, "cannot {action}: {source}"),
            Error::Head { source, .. } => {
                write!(f, "{source}")?;
                if let gguf_format::Problem::NotGguf(kind) = source.problem {
                    write!(f, "; {}", kind.hint())?;
                }
                Ok(())
            }
            Error::Exists(_) => f.write_str("exists already; allow replacing it, or choose another name"),
            Error::Busy(_) => f.write_str("another process is at work on it; wait until it is done"),
            Error::NotAFile(path) if path.is_dir() => f.write_str("is a folder, a file is needed"),
            Error::NotAFile(_) => f.write_str("is not a regular file"),
            Error::Tensor { name, problem, .. } => write!(f, "tensor {name}: {problem}"),
            Error::Shards { problem, .. } => f.write_str(problem),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Head { source, .. } => Some(source),
            _ => None,
        }
    }
}
