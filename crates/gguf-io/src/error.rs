//! Errors that name the file.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_format::shard::ShardProblem;
use gguf_format::{GgmlType, SizeError, SwapError};

/// A path for display: on one line, with characters escaped that a terminal would interpret.
pub fn shown_path(path: &Path) -> String {
    let shown = gguf_format::Str(path.as_os_str().as_encoded_bytes()).to_string();
    // Where backslashes separate folders, they are not escaped.
    if std::path::MAIN_SEPARATOR == '\\' { plain_form(&shown.replace("\\\\", "\\")) } else { shown }
}

/// A path of Windows without the prefix of its long form, which is for the system: `C:\model.gguf` for `\\?\C:\model.gguf`.
fn plain_form(shown: &str) -> String {
    match shown.strip_prefix(r"\\?\") {
        Some(rest) => rest.strip_prefix(r"UNC\").map_or(rest.to_owned(), |share| format!(r"\\{share}")),
        None => shown.to_owned(),
    }
}

/// Why a file could not be opened, read or written.
///
/// The message is complete: it includes that of the cause. [`source`](std::error::Error::source) is therefore the cause of the cause, so
/// that a printed chain does not repeat anything. [`Debug`](fmt::Debug) is the message, too, because a `main` that returns the error prints it so.
#[non_exhaustive]
pub enum Error {
    /// An error of the operating system or another source of bytes.
    Io {
        /// The file.
        path: PathBuf,
        /// The action: `open`, `read`, `write`, ...
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The file's head cannot be read as GGUF.
    Head {
        /// The file.
        path: PathBuf,
        /// The problem and its offset.
        source: Box<gguf_format::Error>,
    },
    /// The output exists already and may not be replaced.
    Exists(PathBuf),
    /// Another process works on the file.
    Busy(PathBuf),
    /// The file has changed since it was read.
    Changed(PathBuf),
    /// An edit of the file was interrupted and cannot be completed.
    Unfinished {
        /// The file.
        path: PathBuf,
        /// The journal of the edit.
        journal: PathBuf,
        /// The reason why it cannot be completed.
        source: io::Error,
    },
    /// A journal of the file's name does not match its content.
    OtherJournal {
        /// The file.
        path: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// Insufficient free space on a disk.
    NoDiskSpace {
        /// The output, or the first of several on the disk.
        path: PathBuf,
        /// The mount point of the disk.
        disk: PathBuf,
        /// Bytes still needed by the outputs on the disk.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Not a regular file, or not the expected kind of file or directory.
    NotAFile(PathBuf),
    /// No tensor has that name.
    NoTensor {
        /// The file; of a model, the first one.
        path: PathBuf,
        /// The name.
        name: String,
        /// Names like that, the nearest first, safe to print.
        nearest: Vec<String>,
    },
    /// A tensor's data is not available in the requested form.
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name, safe to print.
        name: String,
        /// What is wrong.
        problem: TensorProblem,
    },
    /// The shards of a model do not belong together.
    Shards {
        /// The file that was opened.
        path: PathBuf,
        /// What does not fit.
        problem: ShardsProblem,
    },
}

/// Why a tensor's data is not available in the requested form.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorProblem {
    /// Its size is not known.
    Size(SizeError),
    /// The file ends inside the data.
    Truncated {
        /// Where the data ends, from the start of the GGUF.
        end: u64,
        /// Where the file ends.
        file_bytes: u64,
    },
    /// The file was cut short after it was opened.
    Shrunk {
        /// The bytes that were to be read, from the start of the GGUF.
        range: Range<u64>,
    },
    /// It does not have the rows.
    Rows {
        /// The requested rows.
        asked: Range<u64>,
        /// The rows there are.
        n_rows: u64,
    },
    /// A buffer for its data has another size.
    Buffer {
        /// Bytes of the data.
        needed: u64,
        /// Bytes of the buffer.
        given: u64,
    },
    /// A buffer for its values has another length.
    Values {
        /// Elements of the tensor.
        needed: u64,
        /// Elements of the buffer.
        given: u64,
    },
    /// Its byte order cannot be changed.
    Swap(SwapError),
    /// Data of the type is not decoded to `f32`.
    NotDecodable(GgmlType),
    /// The data does not fit into memory.
    OutOfMemory {
        /// Bytes needed.
        bytes: u64,
    },
}

/// Why files do not make a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardsProblem {
    /// There are no files.
    NoFiles,
    /// A shard's name is not one from which those of the others follow.
    Name {
        /// The number of shards according to the file.
        count: u64,
    },
    /// A shard is not there.
    Missing {
        /// Number of the shard, from 1.
        number: u64,
        /// How many there should be.
        count: u64,
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The files contradict each other.
    Keys(ShardProblem),
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::of_io(path, action, source)
    }

    /// Copies the path only when there is an error.
    #[cold]
    #[inline(never)]
    fn of_io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }

    /// The file the error is about.
    pub fn path(&self) -> &Path {
        match self {
            Error::Io { path, .. }
            | Error::Head { path, .. }
            | Error::Exists(path)
            | Error::Busy(path)
            | Error::Changed(path)
            | Error::Unfinished { path, .. }
            | Error::OtherJournal { path, .. }
            | Error::NotAFile(path)
            | Error::NoDiskSpace { path, .. }
            | Error::NoTensor { path, .. }
            | Error::Tensor { path, .. }
            | Error::Shards { path, .. } => path,
        }
    }

    /// Returns whether the error is due to the content of the file, and not to the call or the machine.
    pub fn is_bad_file(&self) -> bool {
        match self {
            Error::Head { .. } | Error::NoTensor { .. } | Error::Shards { .. } => true,
            Error::Tensor { problem, .. } => !matches!(
                problem,
                TensorProblem::Rows { .. }
                    | TensorProblem::Buffer { .. }
                    | TensorProblem::Values { .. }
                    | TensorProblem::OutOfMemory { .. }
            ),
            _ => false,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
            Error::Exists(_) => f.write_str("already exists; allow overwriting it, or choose another name"),
            Error::Busy(_) => f.write_str("in use by another process; wait until it finishes"),
            Error::Changed(_) => f.write_str("has changed since it was read; nothing was written"),
            Error::Unfinished { journal, source, .. } => write!(
                f,
                "an interrupted edit cannot be completed: {source}; the remaining steps are in {}",
                journal.display()
            ),
            Error::OtherJournal { journal, .. } => write!(
                f,
                "the journal {} belongs to other contents: the file was changed or replaced since; if the file is \
                 intact, remove the journal",
                journal.display()
            ),
            Error::NoDiskSpace { disk, needed, free, .. } => write!(
                f,
                "no space left on the disk at {}: {needed} bytes needed, {free} free; free {} more bytes",
                disk.display(),
                needed.saturating_sub(*free)
            ),
            Error::NotAFile(path) if path.is_dir() => f.write_str("is a folder; expected a file"),
            Error::NotAFile(_) => f.write_str("is not a regular file"),
            Error::NoTensor { name, nearest, .. } => {
                write!(f, "there is no tensor {}", gguf_format::Str(name.as_bytes()))?;
                match nearest.as_slice() {
                    [] => Ok(()),
                    names => write!(f, "; did you mean {}?", names.join(" or ")),
                }
            }
            Error::Tensor { name, problem, .. } => write!(f, "tensor {name}: {problem}"),
            Error::Shards { problem, .. } => write!(f, "{problem}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } | Error::Unfinished { source, .. } => source.source(),
            Error::Head { source, .. } => source.source(),
            Error::Tensor { problem, .. } => problem.source(),
            Error::Shards { problem, .. } => problem.source(),
            Error::Exists(_)
            | Error::Busy(_)
            | Error::Changed(_)
            | Error::OtherJournal { .. }
            | Error::NotAFile(_)
            | Error::NoDiskSpace { .. }
            | Error::NoTensor { .. } => None,
        }
    }
}

impl fmt::Display for TensorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorProblem::Size(e) => write!(f, "{e}"),
            TensorProblem::Truncated { end, file_bytes } => write!(
                f,
                "its data ends at byte {end}, but the file ends at byte {file_bytes}; {} bytes are missing",
                end.saturating_sub(*file_bytes)
            ),
            TensorProblem::Shrunk { range } => write!(
                f,
                "its data, bytes {} to {}, is no longer in the file, which became shorter",
                range.start, range.end
            ),
            TensorProblem::Rows { asked, n_rows } => {
                write!(f, "rows {} to {} are out of range; it has {n_rows} rows", asked.start, asked.end)
            }
            TensorProblem::Buffer { needed, given } => {
                write!(f, "its data has {needed} bytes, but the buffer has {given}")
            }
            TensorProblem::Values { needed, given } => {
                write!(f, "it has {needed} elements, but the buffer has room for {given}")
            }
            TensorProblem::Swap(e) => write!(f, "{e}"),
            TensorProblem::NotDecodable(ty) => write!(f, "type {ty} cannot be decoded to f32"),
            TensorProblem::OutOfMemory { bytes } => write!(f, "no memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for TensorProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TensorProblem::Size(e) => e.source(),
            TensorProblem::Swap(e) => e.source(),
            _ => None,
        }
    }
}

impl fmt::Display for ShardsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardsProblem::NoFiles => f.write_str("expected at least one file"),
            ShardsProblem::Name { count } => write!(
                f,
                "it is one of {count} shards according to its metadata, but the other shards cannot be found because \
                 its name does not end in -00001-of-{count:05}.gguf"
            ),
            ShardsProblem::Missing { number, count, path } => {
                write!(f, "shard {number} of {count} is missing: {}", path.display())
            }
            ShardsProblem::Keys(problem) => write!(f, "{problem}"),
        }
    }
}

impl std::error::Error for ShardsProblem {}

#[cfg(test)]
mod tests {
    use super::plain_form;

    #[test]
    fn paths_are_shown_in_their_plain_form() {
        for (long, plain) in [
            (r"\\?\C:\models\m.gguf", r"C:\models\m.gguf"),
            (r"\\?\UNC\server\share\m.gguf", r"\\server\share\m.gguf"),
            (r"C:\m.gguf", r"C:\m.gguf"),
            ("m.gguf", "m.gguf"),
        ] {
            assert_eq!(plain_form(long), plain);
        }
    }
}
