//! Reasons why a model cannot be quantized with the given options.

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

/// Reasons why a quantization cannot be planned. A message includes that of its cause.
///
/// ```
/// use gguf_pipeline::Draft;
/// use gguf_quantize::{Error, NothingToQuantize, QuantizeOptions, mix::Target, plan};
///
/// # let mut head = gguf_format::Head::default();
/// # head.set("general.architecture", "llama");
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0])?;
/// let vocabulary = Draft::copy_of(gguf_io::Model::from_source(bytes, "vocab.gguf")?)?;
/// let error = plan(vocabulary, None, &QuantizeOptions::default(), &Target::parse("Q8_0")?).unwrap_err();
/// assert!(matches!(error, Error::NotAModel { what: NothingToQuantize::NoTensors, .. }));
/// assert!(error.is_bad_input());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Reading, laying out or measuring failed.
    Pipeline(gguf_pipeline::Error),
    /// No type fits a tensor of the model.
    Mix {
        /// The model.
        path: PathBuf,
        /// The cause.
        source: MixError,
    },
    /// The file to quantize does not contain a model.
    NotAModel {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        what: NothingToQuantize,
    },
    /// Blocks cannot be removed.
    Prune {
        /// The model.
        path: PathBuf,
        /// The cause.
        source: PruneError,
    },
    /// A value has a type that is not valid for its key.
    OverrideType {
        /// The model.
        path: PathBuf,
        /// The key.
        key: String,
        /// The type of the value.
        given: String,
        /// The types that are valid for the key.
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
        /// The type chosen for it.
        ty: GgmlType,
        /// Whether a matrix was given, but has no entry for the tensor.
        given: bool,
    },
    /// The importance matrix is invalid or belongs to another model.
    MatrixAtFault {
        /// The matrix, if it is a file.
        path: Option<PathBuf>,
        /// The model.
        model: PathBuf,
        /// The first problem.
        finding: Box<Finding>,
        /// The number of further errors.
        n_more: u64,
    },
    /// The importance matrix cannot be read.
    Matrix(Box<imatrix::Error>),
    /// The rows of a tensor are not whole blocks of any candidate type.
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
    /// A tensor of the model contains NaN or infinity, so it cannot be measured.
    SourceNotFinite {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The first such row.
        row: u64,
        /// The type it has.
        ty: GgmlType,
    },
    /// None of the tensors whose types are chosen has a measured sensitivity.
    OtherSensitivities {
        /// The model.
        path: PathBuf,
    },
    /// Even the smallest types exceed the limit.
    Budget {
        /// The limit.
        asked: Limit,
        /// The size with the smallest types, in the same unit.
        smallest: Limit,
        /// Whether all types are determined by options or rules.
        is_fixed: bool,
    },
}

impl Error {
    /// Whether the model or the matrix is the cause, not the system or the caller.
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
            | Error::OtherSensitivities { .. }
            | Error::SourceNotFinite { .. } => true,
            Error::NoCandidate { .. } | Error::Budget { .. } | Error::OverrideType { .. } => false,
        }
    }
}

/// The content of a file without a model.
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
            NothingToQuantize::Matrix => "an importance matrix; pass the model that it was measured on",
            NothingToQuantize::Adapter => {
                "a LoRA adapter, which llama.cpp applies without quantizing it; quantize the model that it belongs to"
            }
            NothingToQuantize::NoTensors => {
                "a vocabulary without tensors: nothing to quantize; pass a model with tensors"
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
                "{}: the tensor {tensor} is already {from}, and requantizing loses more than quantizing the original; \
                 use the model in f16, bf16 or f32",
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
            Error::OtherSensitivities { path } => write!(
                f,
                "{}: no tensor whose type is chosen has a measured sensitivity: the sensitivities are of another model",
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
    /// The cause of the cause: the cause's own message is part of this one.
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
