//! Why a model cannot be quantized as asked.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_format::check::{Finding, Place};
use gguf_pipeline::Cancelled;

use crate::imatrix;
use crate::limit::Limit;
use crate::mix::MixError;
use crate::prune::PruneError;

/// Why there is no plan for a quantization. A message includes that of its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Reading, laying out or measuring failed.
    Pipeline(gguf_pipeline::Error),
    /// There is no type for a tensor of the model.
    Mix {
        /// The model.
        path: PathBuf,
        /// Why.
        source: MixError,
    },
    /// The file to quantize holds no model.
    NotAModel {
        /// The file.
        path: PathBuf,
        /// What it holds.
        what: NothingToQuantize,
    },
    /// Blocks cannot be left out.
    Prune {
        /// The model.
        path: PathBuf,
        /// Why.
        source: PruneError,
    },
    /// A key would get a value of a type that it cannot have.
    OverrideType {
        /// The model.
        path: PathBuf,
        /// The key.
        key: String,
        /// The type of the value.
        given: String,
        /// The types that the key can have.
        expected: String,
    },
    /// A tensor is quantized already.
    Requantize {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        from: GgmlType,
    },
    /// A tensor cannot be quantized without weights of importance.
    NeedsMatrix {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The type it would get.
        ty: GgmlType,
        /// Whether there is a matrix, which has nothing for the tensor.
        given: bool,
    },
    /// The importance matrix is not sound or belongs to another model.
    MatrixAtFault {
        /// The matrix, if it is a file.
        path: Option<PathBuf>,
        /// The model.
        model: PathBuf,
        /// What is wrong.
        finding: Box<Finding>,
        /// How many more such errors there are.
        n_more: u64,
    },
    /// The importance matrix cannot be read.
    Matrix(Box<imatrix::Error>),
    /// The rows of a tensor are not whole blocks of any type that may be chosen.
    NoCandidate {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Elements of its rows.
        row: u64,
        /// The types to choose from.
        types: Vec<GgmlType>,
    },
    /// A tensor of the model holds NaN or infinity, so nothing can be measured.
    SourceNotFinite {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The row it was found in.
        row: u64,
        /// The type it has.
        ty: GgmlType,
    },
    /// No types fit the size.
    Budget {
        /// What was asked for.
        asked: Limit,
        /// What the smallest types take, in the same unit.
        smallest: Limit,
        /// Whether there is no tensor whose type can be chosen.
        is_fixed: bool,
    },
}

impl Error {
    /// Whether the model or the matrix is the cause, as opposed to the system or the call.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Pipeline(e) => e.is_bad_input(),
            Error::Matrix(e) => e.is_bad_file(),
            Error::Mix { .. }
            | Error::NotAModel { .. }
            | Error::Prune { .. }
            | Error::Requantize { .. }
            | Error::NeedsMatrix { .. }
            | Error::MatrixAtFault { .. }
            | Error::SourceNotFinite { .. } => true,
            Error::NoCandidate { .. } | Error::Budget { .. } | Error::OverrideType { .. } => false,
        }
    }
}

/// What a file holds in place of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NothingToQuantize {
    /// An importance matrix.
    Matrix,
    /// A LoRA adapter.
    Adapter,
    /// Metadata and a vocabulary, without tensors.
    NoTensors,
}

impl fmt::Display for NothingToQuantize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NothingToQuantize::Matrix => "an importance matrix; give the model that it was measured on",
            NothingToQuantize::Adapter => {
                "a LoRA adapter, which llama.cpp applies as it is; quantize the model that it belongs to"
            }
            NothingToQuantize::NoTensors => {
                "a vocabulary without tensors: nothing to quantize; give a model with tensors"
            }
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pipeline(e) => write!(f, "{e}"),
            Error::Mix { path, source } => write!(f, "{}: {source}", path.display()),
            Error::NotAModel { path, what } => write!(f, "{}: {what}", path.display()),
            Error::Prune { path, source } => write!(f, "{}: {source}", path.display()),
            Error::OverrideType { path, key, given, expected } => {
                write!(f, "{}: {key}: expected a value of type {expected}, found {given}", path.display())
            }
            Error::Requantize { path, tensor, from } => write!(
                f,
                "{}: the tensor {tensor} is already {from}, and requantizing loses more than quantizing the original; use \
                    the model in f16, bf16 or f32",
                path.display()
            ),
            Error::NeedsMatrix { path, tensor, ty, given } => {
                write!(f, "{}: the tensor {tensor} would be {ty}, which needs an importance matrix", path.display())?;
                if *given { f.write_str(", and the given matrix has no entry for it") } else { Ok(()) }
            }
            Error::MatrixAtFault { path, finding, n_more, .. } => {
                match path {
                    Some(path) => write!(f, "{}: ", path.display())?,
                    None => f.write_str("the importance matrix: ")?,
                }
                if finding.place != Place::File {
                    write!(f, "{}: ", finding.place)?;
                }
                let Finding { message, code, expected, hint, .. } = &**finding;
                write!(f, "{message} ({code}); expected {expected}; {hint}")?;
                if *n_more > 0 { write!(f, "; and {n_more} more") } else { Ok(()) }
            }
            Error::Matrix(e) => write!(f, "{e}"),
            Error::NoCandidate { path, tensor, row, types } => {
                write!(f, "{}: the tensor {tensor} has rows of {row}, ", path.display())?;
                f.write_str("which are not whole blocks of any candidate:")?;
                for (i, ty) in types.iter().enumerate() {
                    write!(f, "{} {ty}", if i == 0 { "" } else { "," })?;
                    if let Some(info) = ty.info() {
                        write!(f, " (blocks of {})", info.block_len)?;
                    }
                }
                Ok(())
            }
            Error::SourceNotFinite { path, tensor, row, ty } => write!(
                f,
                "{}: the tensor {tensor}, which is {ty}, holds NaN or infinity in row {row}, so its error cannot be \
                    measured; fetch or convert the model again",
                path.display()
            ),
            Error::Budget { asked, smallest, is_fixed } => {
                write!(
                    f,
                    "the smallest file possible with the candidate types has {smallest}, but the budget is {asked}"
                )?;
                match is_fixed {
                    false => Ok(()),
                    true => f.write_str("; the types of all tensors are fixed"),
                }
            }
        }
    }
}

impl StdError for Error {
    /// What the cause itself was caused by: its own message is part of this one.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Pipeline(e) => e.source(),
            Error::Mix { source, .. } => source.source(),
            Error::Matrix(e) => e.source(),
            _ => None,
        }
    }
}

impl From<gguf_pipeline::Error> for Error {
    fn from(e: gguf_pipeline::Error) -> Error {
        Error::Pipeline(e)
    }
}

impl From<imatrix::Error> for Error {
    fn from(e: imatrix::Error) -> Error {
        Error::Matrix(Box::new(e))
    }
}

impl From<Cancelled> for Error {
    fn from(e: Cancelled) -> Error {
        Error::Pipeline(e.into())
    }
}
