//! Errors of operations on models: which file, key or tensor, what was found, what was expected.

use std::fmt;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_format::check::grouped;
use gguf_pipeline::Cancelled;

/// Why a model cannot be split, merged, compared, hashed or copied with changes. A message includes that of its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The plan cannot be made or run.
    Pipeline(Box<gguf_pipeline::Error>),
    /// A file cannot be opened, read or written.
    Io(Box<gguf_io::Error>),
    /// A model to merge is one file already.
    NotSplit {
        /// The file.
        path: PathBuf,
    },
    /// A file to merge is not part of the same model.
    Foreign {
        /// The file.
        path: PathBuf,
        /// The file that the model was found by.
        model: PathBuf,
    },
    /// Metadata and the smallest possible share of tensors exceed the size of a shard.
    ShardTooSmall {
        /// The model.
        path: PathBuf,
        /// The tensor that does not fit, safe to print; `None` where the metadata alone do not.
        tensor: Option<String>,
        /// Bytes that the shard needs.
        needed: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// Pieces of a file are missing.
    Pieces {
        /// The piece that was given.
        path: PathBuf,
        /// What is wrong.
        problem: PiecesProblem,
    },
    /// A file that was written does not hold what it was made from.
    NotVerified {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// A file cannot be removed.
    Remove {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// There is no tensor of that name, or none that fits the pattern.
    NoTensor {
        /// The model.
        path: PathBuf,
        /// The name or pattern.
        name: String,
        /// Names like that, the nearest first, safe to print.
        nearest: Vec<String>,
    },
    /// No key fits a pattern.
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
    /// Values of a tensor cannot be read as numbers.
    NotDecodable {
        /// The model.
        path: PathBuf,
        /// The tensor, safe to print.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// A tensor cannot become one of another type.
    NotEncodable {
        /// The file that it is read from.
        path: PathBuf,
        /// The tensor, safe to print.
        tensor: String,
        /// Its type.
        from: GgmlType,
        /// The type that was asked for.
        to: GgmlType,
    },
    /// A file of the NumPy or safetensors format cannot be read.
    Array {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What was found, and what would be right.
        problem: String,
    },
    /// A file holds one tensor, and several were chosen.
    OneTensor {
        /// The model.
        path: PathBuf,
        /// How many were chosen.
        n: usize,
    },
    /// A manifest cannot be read.
    Manifest {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 for the whole file.
        line: u64,
        /// What was found, and what would be right.
        problem: String,
    },
    /// A piece of work does not fit into memory.
    OutOfMemory {
        /// The tensor or file that it is for, safe to print.
        what: String,
        /// The bytes that were asked for.
        bytes: u64,
    },
}

/// What is wrong with the pieces of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PiecesProblem {
    /// The name does not say which piece of what it is.
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
    /// Only the first piece begins with the head of a GGUF file.
    NotFirst,
}

impl fmt::Display for PiecesProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PiecesProblem::Name => f.write_str(
                "the name does not number the piece; expected a name such as model.gguf.part1of2, model.gguf-split-a or model.gguf.partaa",
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
    /// Whether a model, or another input file, is the cause, as opposed to the system, the output or the call.
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
                "{}: the metadata takes {} bytes; a shard may have {}",
                path.display(),
                grouped(*needed),
                grouped(*limit)
            ),
            Error::ShardTooSmall { path, tensor: Some(tensor), needed, limit } => write!(
                f,
                "{}: a shard with the tensor {tensor} alone takes {} bytes; it may have {}",
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
    /// What the cause itself was caused by: its own message is part of this one.
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
