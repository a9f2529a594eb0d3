//! Errors of operations on models: the file, key or tensor, the value found and the expected one.

use std::fmt;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_format::check::grouped;
use gguf_pipeline::Cancelled;

/// Reasons why a model cannot be split, merged, compared, hashed or rewritten. A message includes that of its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The plan cannot be made or run.
    Pipeline(Box<gguf_pipeline::Error>),
    /// A file cannot be opened, read or written.
    Io(Box<gguf_io::Error>),
    /// A model to merge is already a single file.
    NotSplit {
        /// The file.
        path: PathBuf,
    },
    /// A file to merge is not part of the same model.
    Foreign {
        /// The file.
        path: PathBuf,
        /// The file from which the model was found.
        model: PathBuf,
    },
    /// Metadata and the smallest possible share of tensors exceed the size of a shard.
    ShardTooSmall {
        /// The model.
        path: PathBuf,
        /// The tensor that does not fit, safe to print; `None` if the metadata alone exceed the size.
        tensor: Option<String>,
        /// Bytes that the shard needs.
        needed: u64,
        /// The size limit.
        limit: u64,
    },
    /// Pieces of a file are missing.
    Pieces {
        /// The given piece.
        path: PathBuf,
        /// The problem.
        problem: PiecesProblem,
    },
    /// A written file differs from its source.
    NotVerified {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// A file cannot be removed.
    Remove {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// No tensor has that name, or matches the pattern.
    NoTensor {
        /// The model.
        path: PathBuf,
        /// The name or pattern.
        name: String,
        /// Similar names, the nearest first, safe to print.
        nearest: Vec<String>,
    },
    /// No key matches a pattern.
    NoKey {
        /// The model.
        path: PathBuf,
        /// The pattern.
        pattern: String,
    },
    /// A tensor of that name exists already.
    TensorExists {
        /// The model.
        path: PathBuf,
        /// The name, safe to print.
        name: String,
    },
    /// The values of a tensor cannot be decoded.
    NotDecodable {
        /// The model.
        path: PathBuf,
        /// The tensor, safe to print.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// A tensor cannot be converted to another type.
    NotEncodable {
        /// The source file.
        path: PathBuf,
        /// The tensor, safe to print.
        tensor: String,
        /// The current type.
        from: GgmlType,
        /// The requested type.
        to: GgmlType,
    },
    /// A file of the NumPy or safetensors format cannot be read.
    Array {
        /// The file.
        path: PathBuf,
        /// The byte offset.
        offset: u64,
        /// The problem, with the expected value.
        problem: String,
    },
    /// The format stores a single tensor, and several were selected.
    OneTensor {
        /// The model.
        path: PathBuf,
        /// The number of selected tensors.
        n: usize,
    },
    /// A manifest cannot be read.
    Manifest {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 for the whole file.
        line: u64,
        /// The problem, with the expected value.
        problem: String,
    },
    /// Insufficient memory.
    OutOfMemory {
        /// The tensor or file, safe to print.
        what: String,
        /// The requested bytes.
        bytes: u64,
    },
}

/// A problem with the pieces of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PiecesProblem {
    /// The name is not that of a piece.
    Name,
    /// A piece is missing.
    Missing(PathBuf),
    /// The pieces together are shorter than the model.
    Short {
        /// Bytes of all pieces.
        found: u64,
        /// Bytes up to the end of the last tensor.
        needed: u64,
    },
    /// The head of a GGUF file may only be in the first piece.
    NotFirst,
}

impl fmt::Display for PiecesProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PiecesProblem::Name => f.write_str(
                "the name does not number the piece; expected a name such as model.gguf.part1of2, model.gguf-split-a \
                 or model.gguf.partaa",
            ),
            PiecesProblem::Missing(path) => write!(f, "the piece {} is missing", path.display()),
            PiecesProblem::Short { found, needed } => write!(
                f,
                "all pieces together have {} bytes, the model has {}; a piece is missing or truncated",
                grouped(*found),
                grouped(*needed)
            ),
            PiecesProblem::NotFirst => f.write_str("it is a complete GGUF file, not a piece of one"),
        }
    }
}

impl Error {
    /// Whether a model, or another input file, is the cause, not the system, the output or the caller.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Pipeline(e) => e.is_bad_input(),
            Error::Io(e) => e.is_bad_file(),
            Error::NotSplit { .. }
            | Error::Foreign { .. }
            | Error::Pieces { .. }
            | Error::NotVerified { .. }
            | Error::NoTensor { .. }
            | Error::NoKey { .. }
            | Error::Array { .. }
            | Error::Manifest { .. } => true,
            Error::ShardTooSmall { .. }
            | Error::Remove { .. }
            | Error::TensorExists { .. }
            | Error::NotDecodable { .. }
            | Error::NotEncodable { .. }
            | Error::OneTensor { .. }
            | Error::OutOfMemory { .. } => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pipeline(e) => write!(f, "{e}"),
            Error::Io(e) => write!(f, "{e}"),
            Error::NotSplit { path } => write!(f, "{}: is not split", path.display()),
            Error::Foreign { path, model } => {
                write!(f, "{}: is not a shard of the same model as {}", path.display(), model.display())
            }
            Error::ShardTooSmall { path, tensor: None, needed, limit } => write!(
                f,
                "{}: the metadata takes {} bytes; the limit of a shard is {}",
                path.display(),
                grouped(*needed),
                grouped(*limit)
            ),
            Error::ShardTooSmall { path, tensor: Some(tensor), needed, limit } => write!(
                f,
                "{}: {tensor} alone makes a shard of {} bytes; the limit is {}",
                path.display(),
                grouped(*needed),
                grouped(*limit)
            ),
            Error::Pieces { path, problem } => write!(f, "{}: {problem}", path.display()),
            Error::NotVerified { path, what } => {
                write!(f, "{}: differs from its input: {what}; nothing was deleted", path.display())
            }
            Error::Remove { path, source } => write!(f, "{}: cannot remove: {source}", path.display()),
            Error::NoTensor { path, name, nearest } => {
                write!(f, "{}: there is no tensor {}", path.display(), gguf_format::Str(name.as_bytes()))?;
                match nearest.as_slice() {
                    [] => Ok(()),
                    names => write!(f, "; did you mean {}?", names.join(" or ")),
                }
            }
            Error::NoKey { path, pattern } => {
                write!(f, "{}: there is no key {}", path.display(), gguf_format::Str(pattern.as_bytes()))
            }
            Error::TensorExists { path, name } => {
                write!(f, "{}: the tensor {name} already exists", path.display())
            }
            Error::NotDecodable { path, tensor, ty } => {
                write!(f, "{}: tensor {tensor}: type {ty} cannot be decoded to numbers", path.display())
            }
            Error::NotEncodable { path, tensor, from, to } => {
                write!(f, "{}: tensor {tensor}: {from} cannot be converted to {to}", path.display())
            }
            Error::Array { path, offset, problem } => write!(f, "{}: byte {offset}: {problem}", path.display()),
            Error::OneTensor { path, n } => {
                write!(f, "{}: {n} tensors match, and a NumPy file holds one", path.display())
            }
            Error::Manifest { path, line: 0, problem } => write!(f, "{}: {problem}", path.display()),
            Error::Manifest { path, line, problem } => write!(f, "{}: line {line}: {problem}", path.display()),
            Error::OutOfMemory { what, bytes } => write!(f, "{what}: no memory for {bytes} bytes"),
        }
    }
}

impl std::error::Error for Error {
    /// The cause of the cause: the cause's own message is part of this one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Pipeline(e) => e.source(),
            Error::Io(e) => e.source(),
            Error::Remove { source, .. } => source.source(),
            _ => None,
        }
    }
}

impl From<gguf_pipeline::Error> for Error {
    fn from(e: gguf_pipeline::Error) -> Error {
        match e {
            gguf_pipeline::Error::Input(e) => Error::Io(e),
            e => Error::Pipeline(Box::new(e)),
        }
    }
}

impl From<gguf_io::Error> for Error {
    fn from(e: gguf_io::Error) -> Error {
        Error::Io(Box::new(e))
    }
}

impl From<Cancelled> for Error {
    fn from(e: Cancelled) -> Error {
        gguf_pipeline::Error::from(e).into()
    }
}
