//! Errors of runs: the file or tensor, the value found and the expected one.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, LayoutError};
use gguf_quants::RowsError;
use gguf_quants::codec::CodecError;

use crate::limits::{MAX_PADDING, MAX_TENSORS};
use crate::progress::Cancelled;

/// Reasons why a plan cannot be made or run. A message includes that of its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A system error.
    Io {
        /// The action: `open`, `read`, `list`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A read beyond the end of a tensor.
    OutOfTensor {
        /// The tensor.
        tensor: String,
        /// The size of the tensor.
        bytes: u64,
    },
    /// An unsupported conversion between tensor types.
    NoCodec {
        /// The output tensor.
        tensor: String,
    },
    /// An input GGUF cannot be read.
    Input(Box<gguf_io::Error>),
    /// The importance of a tensor's columns cannot be used.
    Importance(Box<dyn StdError + Send + Sync>),
    /// Rows cannot be decoded or encoded.
    Codec {
        /// The output tensor.
        tensor: String,
        /// The first row of the chunk.
        row: u64,
        /// The cause.
        source: CodecError,
    },
    /// The importance does not match the tensor.
    Rows {
        /// The output tensor.
        tensor: String,
        /// The mismatch.
        source: RowsError,
    },
    /// A tensor contains NaN or infinity, or numbers too large for its new type.
    NotFinite {
        /// The output tensor.
        tensor: String,
        /// The first row of the chunk.
        row: u64,
        /// The type with these values, before or after the conversion.
        ty: GgmlType,
    },
    /// A chunk of the tensor does not fit into memory.
    OutOfMemory {
        /// The output tensor.
        tensor: String,
        /// The requested bytes.
        bytes: u64,
    },
    /// The head of a model exceeds the available memory.
    HeadTooLarge {
        /// The model.
        path: PathBuf,
        /// Bytes of its head.
        bytes: u64,
    },
    /// A model has more tensors than the limit.
    TooManyTensors {
        /// The model.
        path: PathBuf,
        /// The number of tensors.
        n_tensors: u64,
    },
    /// The output would replace an input file.
    OverwritesInput {
        /// The output.
        path: PathBuf,
    },
    /// Two outputs of a run have the same path.
    SameOutput {
        /// The path.
        path: PathBuf,
    },
    /// Plans of a joint run do not make the same tensors of one source.
    Apart {
        /// The input of the plan that differs.
        path: PathBuf,
    },
    /// [`Progress::is_cancelled`](crate::Progress::is_cancelled) returned true.
    Cancelled,
    /// The work ended early, and completed work is kept for a later run.
    Kept {
        /// The reason.
        why: Box<Error>,
        /// The partial file, or the first of several.
        partial: PathBuf,
        /// The journal of the partial file.
        journal: PathBuf,
        /// The number of further such pairs.
        n_others: usize,
    },
    /// Interrupted work belongs to another plan.
    OtherPlan {
        /// The partial file.
        partial: PathBuf,
        /// The journal of the partial file.
        journal: PathBuf,
        /// How the plans differ.
        differences: Vec<Difference>,
    },
    /// A file has the name of a partial file or journal, but is neither.
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// More shards than allowed.
    TooManyShards {
        /// The number of shards.
        n_shards: usize,
    },
    /// A file would mostly consist of padding.
    Padding {
        /// The source file or directory.
        path: PathBuf,
        /// Its alignment.
        alignment: u64,
        /// Bytes of padding.
        padding: u64,
        /// Bytes of everything else.
        content: u64,
    },
    /// The result cannot be written as a GGUF file.
    Layout {
        /// The source file or directory.
        path: PathBuf,
        /// The cause.
        source: LayoutError,
    },
    /// The tensors or sizes of a layout differ from the plan.
    OtherLayout {
        /// The source file or directory of the plan.
        path: PathBuf,
    },
    /// The output cannot be written.
    Output(Box<gguf_io::Error>),
}

impl Error {
    /// A system error of `action` on `path`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn input(source: gguf_io::Error) -> Error {
        Error::Input(Box::new(source))
    }

    /// Whether the model or the matrix is the cause, not the system, the output or the caller.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Input(e) => e.is_bad_file(),
            Error::Kept { why, .. } => why.is_bad_input(),
            Error::OutOfTensor { .. }
            | Error::Importance(_)
            | Error::Codec { .. }
            | Error::Rows { .. }
            | Error::NotFinite { .. }
            | Error::TooManyShards { .. }
            | Error::TooManyTensors { .. }
            | Error::Padding { .. }
            | Error::Layout { .. }
            | Error::OtherLayout { .. } => true,
            Error::Io { .. }
            | Error::NoCodec { .. }
            | Error::OutOfMemory { .. }
            | Error::HeadTooLarge { .. }
            | Error::OverwritesInput { .. }
            | Error::SameOutput { .. }
            | Error::Apart { .. }
            | Error::Cancelled
            | Error::OtherPlan { .. }
            | Error::NotOurs { .. }
            | Error::Output(_) => false,
        }
    }

    /// Whether repeating the run would fail in the same way, so that completed work is useless. Only then is resumable work discarded;
    /// after every other error it is kept.
    pub fn recurs(&self) -> bool {
        match self {
            Error::Importance(_) | Error::Codec { .. } | Error::Rows { .. } | Error::NotFinite { .. } => true,
            Error::Input(e) => e.is_bad_file(),
            Error::Io { .. }
            | Error::OutOfTensor { .. }
            | Error::NoCodec { .. }
            | Error::OutOfMemory { .. }
            | Error::HeadTooLarge { .. }
            | Error::TooManyTensors { .. }
            | Error::OverwritesInput { .. }
            | Error::SameOutput { .. }
            | Error::Apart { .. }
            | Error::Cancelled
            | Error::Kept { .. }
            | Error::OtherPlan { .. }
            | Error::NotOurs { .. }
            | Error::TooManyShards { .. }
            | Error::Padding { .. }
            | Error::Layout { .. }
            | Error::OtherLayout { .. }
            | Error::Output(_) => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { action, path, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Error::OutOfTensor { tensor, bytes } => {
                write!(f, "the tensor {tensor:?} has {bytes} bytes; a read beyond its end was requested")
            }
            Error::NoCodec { tensor } => write!(f, "the tensor {tensor}: its format cannot be converted to its type"),
            Error::Input(e) | Error::Output(e) => write!(f, "{e}"),
            Error::Importance(e) => write!(f, "{e}"),
            Error::Codec { tensor, row, source } => write!(f, "the tensor {tensor}, from row {row} on: {source}"),
            Error::Rows { tensor, source } => write!(f, "the tensor {tensor}: {source}"),
            Error::NotFinite { tensor, row, ty } => write!(
                f,
                "the tensor {tensor}: NaN or infinity as {ty}, in row {row} or a later one; either the input contains \
                 such values, or its values exceed the range of the type"
            ),
            Error::OutOfMemory { tensor, bytes } => {
                write!(f, "the tensor {tensor}: no memory for {bytes} bytes, a piece of its data")
            }
            Error::HeadTooLarge { path, bytes } => {
                write!(f, "{}: not enough memory for its head of {bytes} bytes", path.display())
            }
            Error::TooManyTensors { path, n_tensors } => {
                write!(f, "{}: {n_tensors} tensors; at most {MAX_TENSORS} are copied", path.display())
            }
            Error::OverwritesInput { path } => write!(
                f,
                "{}: the output would overwrite an input file; choose another name for the output",
                path.display()
            ),
            Error::SameOutput { path } => {
                write!(f, "{}: two outputs have this path; choose different paths", path.display())
            }
            Error::Apart { path } => {
                write!(f, "{}: plans that run together must produce the same tensors from one source", path.display())
            }
            Error::Cancelled => f.write_str("interrupted; no output was written"),
            Error::Kept { why, partial, journal, n_others } => {
                match why.as_ref() {
                    Error::Cancelled => f.write_str("interrupted")?,
                    Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_)) => {
                        write!(f, "{}: a file of that name has appeared during the run", e.path().display())?;
                    }
                    why => write!(f, "{why}")?,
                }
                write!(f, "; finished work is kept in {} and {}", partial.display(), journal.display())?;
                if *n_others > 0 {
                    f.write_str(", and beside the other shards")?;
                }
                Ok(())
            }
            Error::OtherPlan { partial, journal, differences } => {
                write!(f, "{} belongs to another run and cannot be continued: ", partial.display())?;
                for (i, difference) in differences.iter().enumerate() {
                    write!(f, "{}{difference}", if i == 0 { "" } else { "; " })?;
                }
                write!(f, "; repeat that run, or delete the file and {}", journal.display())
            }
            Error::NotOurs { path } => {
                write!(f, "{}: needed to keep finished work, but the existing file has another origin", path.display())
            }
            Error::TooManyShards { n_shards } => {
                write!(f, "the model has {n_shards} shards; the key that counts them has 16 bits")
            }
            Error::Padding { path, alignment, padding, content } => write!(
                f,
                "{}: general.alignment is {alignment}, so the output would have {padding} bytes of padding for \
                 {content} bytes of content; padding above {MAX_PADDING} bytes must not exceed the content; set a \
                 smaller alignment",
                path.display()
            ),
            Error::Layout { path, source } => write!(f, "{}: the output cannot be written: {source}", path.display()),
            Error::OtherLayout { path } => {
                write!(f, "{}: the layout of the output is not one of the model's tensors", path.display())
            }
        }
    }
}

impl StdError for Error {
    /// The cause of the cause: the cause's own message is part of this one.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Io { source, .. } => source.source(),
            Error::Layout { source, .. } => source.source(),
            Error::Output(e) | Error::Input(e) => e.source(),
            Error::Importance(e) => e.source(),
            Error::Codec { source, .. } => source.source(),
            Error::Rows { source, .. } => source.source(),
            Error::Kept { why, .. } => why.source(),
            _ => None,
        }
    }
}

impl From<Cancelled> for Error {
    fn from(_: Cancelled) -> Error {
        Error::Cancelled
    }
}

impl From<gguf_io::Error> for Error {
    fn from(e: gguf_io::Error) -> Error {
        Error::Output(Box::new(e))
    }
}

/// A difference between the run and the one that left resumable work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The program differs, or its version.
    Program {
        /// The program of the interrupted run.
        was: String,
        /// The current program.
        is: String,
    },
    /// An input file has changed.
    InputChanged(String),
    /// An input file is no longer an input.
    InputGone(String),
    /// A new input file.
    InputNew(String),
    /// Tensors are converted differently.
    Tensors,
    /// Tensors have other weights of importance.
    Importance,
    /// Key-values or the split differ.
    Metadata,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Program { was, is } => write!(f, "it was started by {was}, this is {is}"),
            Difference::InputChanged(path) => write!(f, "{path} has changed since"),
            Difference::InputGone(path) => write!(f, "it reads {path}, which this run does not read"),
            Difference::InputNew(path) => write!(f, "it does not read {path}, which this run reads"),
            Difference::Tensors => {
                f.write_str("the tensors of the output differ: another file type, or other options for tensors")
            }
            Difference::Importance => f.write_str("the importance weights differ: other tensors, or other entries"),
            Difference::Metadata => f.write_str("the metadata differs"),
        }
    }
}
