//! Everything that can stop a conversion: which file, what was found, what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gguf_arch::config;
use gguf_arch::mix::MixError;
use gguf_arch::plan::PlanError;
use gguf_format::{GgmlType, LayoutError};
use gguf_quants::RowsError;
use gguf_quants::codec::CodecError;

use crate::imatrix;
use crate::quantize::PruneError;
use crate::quantize::budget::Limit;
use crate::source::safetensors::HeaderError;
use crate::tokenizer::ModelDirError;

/// Names for a message: the first few, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, name) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{name:?}", if i == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// `1,234,567`
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Why a conversion cannot be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    Io {
        /// What was tried: `open`, `read`, `list`.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// The folder has no `config.json`.
    NoConfig {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder has no tensors in a format that is read.
    NoWeights {
        /// The folder.
        dir: PathBuf,
        /// A file of weights in another format, if there is one.
        found: Option<String>,
    },
    /// Parts of the checkpoint are not there.
    MissingParts {
        /// The folder.
        dir: PathBuf,
        /// Their names.
        parts: Names,
    },
    /// A tensor file is not sound.
    Safetensors {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: Box<HeaderError>,
    },
    /// The index cannot be used.
    Index {
        /// The file.
        index: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The index and the files list different tensors.
    IndexMismatch {
        /// The file.
        index: PathBuf,
        /// Tensors of the index that no file has.
        missing: Names,
        /// Tensors of the files that the index does not have.
        extra: Names,
    },
    /// Two files have a tensor of the same name.
    DuplicateTensor {
        /// Its name.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// More bytes were asked of a tensor than it has.
    OutOfTensor {
        /// Its name.
        tensor: String,
        /// The bytes it has.
        bytes: u64,
    },
    /// `config.json` cannot be used.
    Config {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: config::Error,
    },
    /// There is no plan for the checkpoint.
    Plan {
        /// The folder.
        dir: PathBuf,
        /// Why.
        source: PlanError,
    },
    /// A conversion from one tensor type to another that is not known.
    NoCodec {
        /// The output tensor.
        tensor: String,
    },
    /// A GGUF that is read cannot be.
    Input(Box<gguf_io::Error>),
    /// There is no type for a tensor of the model.
    Mix {
        /// The model.
        path: PathBuf,
        /// Why.
        source: MixError,
    },
    /// What should be quantized is an importance matrix.
    NotAModel {
        /// The file.
        path: PathBuf,
    },
    /// Blocks cannot be left out.
    Prune {
        /// The model.
        path: PathBuf,
        /// Why.
        problem: PruneError,
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
    /// The importance matrix is not sound or not that of the model.
    MatrixAtFault {
        /// The matrix, if it is a file.
        path: Option<PathBuf>,
        /// The model.
        model: PathBuf,
        /// What is wrong.
        finding: String,
        /// What to do.
        hint: String,
        /// How many more such errors there are.
        n_more: u64,
    },
    /// The importance matrix cannot be read.
    Matrix(Box<imatrix::Error>),
    /// Rows cannot be decoded or encoded.
    Codec {
        /// The output tensor.
        tensor: String,
        /// The row from which on it was tried.
        row: u64,
        /// Why.
        source: CodecError,
    },
    /// The importance does not fit the tensor.
    Rows {
        /// The output tensor.
        tensor: String,
        /// What does not fit.
        source: RowsError,
    },
    /// A tensor holds NaN or infinity, or numbers too large for its new type.
    NotFinite {
        /// The output tensor.
        tensor: String,
        /// The row from which on it was found.
        row: u64,
        /// Its type before or after, whichever holds them.
        ty: GgmlType,
    },
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
    /// A tensor of the model holds NaN or infinity.
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
    /// No types fit the budget.
    Budget {
        /// What was asked for.
        asked: Limit,
        /// What the smallest types take, in the same unit.
        smallest: Limit,
        /// Whether there is no tensor whose type can be chosen.
        is_fixed: bool,
    },
    /// A chunk of the tensor does not fit into memory.
    OutOfMemory {
        /// The output tensor.
        tensor: String,
        /// The bytes that were asked for.
        bytes: u64,
    },
    /// The output would take the place of a file that is read for it.
    OverwritesInput {
        /// The output.
        path: PathBuf,
    },
    /// [`Progress::is_cancelled`](crate::Progress::is_cancelled) said so.
    Cancelled,
    /// The work ended early, and what is done of it is kept to be resumed.
    Kept {
        /// Why it ended.
        why: Box<Error>,
        /// The data so far; of several files, those of the first.
        partial: PathBuf,
        /// The journal beside it.
        journal: PathBuf,
        /// How many more such pairs there are.
        n_others: usize,
    },
    /// What is kept of interrupted work belongs to another plan.
    OtherPlan {
        /// The data so far.
        partial: PathBuf,
        /// The journal beside it.
        journal: PathBuf,
        /// How the plans differ, a few words each.
        differences: Vec<String>,
    },
    /// A file has the name of one that is kept of interrupted work, and is none.
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// There cannot be that many shards.
    TooManyShards {
        /// How many there would be.
        n_shards: usize,
    },
    /// The tokenizer, the model card or another small file of the folder cannot be used.
    ModelDir(ModelDirError),
    /// The result cannot be written as a GGUF file.
    Layout(LayoutError),
    /// The output cannot be written.
    Output(Box<gguf_io::Error>),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn input(source: gguf_io::Error) -> Error {
        Error::Input(Box::new(source))
    }

    /// Whether the checkpoint, the model or the matrix is at fault, as opposed to the machine, the output or the way of asking.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Input(e) => e.is_bad_file(),
            Error::Matrix(e) => !matches!(e.problem, imatrix::Problem::Io(_)),
            Error::Kept { why, .. } => why.is_bad_input(),
            Error::Io { .. }
            | Error::OtherPlan { .. }
            | Error::NotOurs { .. }
            | Error::OutOfMemory { .. }
            | Error::OverwritesInput { .. }
            | Error::Output(_)
            | Error::NoCodec { .. }
            | Error::Budget { .. }
            | Error::NoCandidate { .. }
            | Error::Cancelled => false,
            _ => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { action, path, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Error::NoConfig { dir } => {
                write!(f, "{}: no config.json in the folder; is it that of a checkpoint?", dir.display())
            }
            Error::NoWeights { dir, found: None } => {
                write!(f, "{}: no model*.safetensors in the folder; is it that of a checkpoint?", dir.display())
            }
            Error::NoWeights { dir, found: Some(found) } => write!(
                f,
                "{}: no model*.safetensors in the folder, but {found:?}; only safetensors are read, save the checkpoint in \
                 that format",
                dir.display()
            ),
            Error::MissingParts { dir, parts } => {
                write!(f, "{}: parts of the checkpoint are missing: {parts}; fetch them", dir.display())
            }
            Error::Safetensors { file, source } => write!(f, "{}: {source}", file.display()),
            Error::Index { index, what } => write!(f, "{}: {what}", index.display()),
            Error::IndexMismatch { index, missing, extra } => {
                write!(f, "{}: the index and the files do not list the same tensors", index.display())?;
                if !missing.0.is_empty() {
                    write!(f, "; in no file: {missing}")?;
                }
                if !extra.0.is_empty() {
                    write!(f, "; not in the index: {extra}")?;
                }
                f.write_str("; fetch the checkpoint again")
            }
            Error::DuplicateTensor { tensor, first, second } => write!(
                f,
                "the tensor {tensor:?} is there twice, in {} and {}; remove the file that does not belong to the checkpoint",
                first.display(),
                second.display()
            ),
            Error::OutOfTensor { tensor, bytes } => {
                write!(f, "the tensor {tensor:?} has {bytes} bytes, and more were asked for")
            }
            Error::Config { file, source } => write!(f, "{}: {source}", file.display()),
            Error::Plan { dir, source } => write!(f, "{}: {source}", dir.display()),
            Error::NoCodec { tensor } => write!(f, "the tensor {tensor}: no way from its format to its type"),
            Error::Input(e) => write!(f, "{e}"),
            Error::Mix { path, source } => write!(f, "{}: {source}", path.display()),
            Error::NotAModel { path } => write!(
                f,
                "{}: it is an importance matrix; give the model that it was measured on, and the matrix with --imatrix",
                path.display()
            ),
            Error::Prune { path, problem } => write!(f, "{}: {problem}", path.display()),
            Error::Requantize { path, tensor, from } => write!(
                f,
                "{}: the tensor {tensor} is {from} already, and quantizing it again loses more than quantizing the original once; \
                 take the model in f16, bf16 or f32, or allow it with --allow-requantize",
                path.display()
            ),
            Error::NeedsMatrix { path, tensor, ty, given: false } => write!(
                f,
                "{}: the tensor {tensor} would be {ty}, which needs an importance matrix; give one with --imatrix",
                path.display()
            ),
            Error::NeedsMatrix { path, tensor, ty, given: true } => write!(
                f,
                "{}: the tensor {tensor} would be {ty}, which needs an importance matrix, and the one given has nothing for it; \
                 give the tensor another type with --tensor-type, --token-embedding-type or --output-tensor-type, or a matrix that \
                 was made with this model",
                path.display()
            ),
            Error::MatrixAtFault { path, model, finding, hint, n_more } => {
                let path = path.as_ref().map(|path| path.display().to_string());
                match &path {
                    Some(path) => write!(f, "{path}: ")?,
                    None => f.write_str("the importance matrix: ")?,
                }
                write!(f, "{finding}; {hint}")?;
                if *n_more > 0 {
                    let (file, model) = (path.as_deref().unwrap_or("FILE"), model.display());
                    write!(f, "; and {n_more} more; `gguf imatrix check {file} {model}` shows all")?;
                }
                Ok(())
            }
            Error::Matrix(e) => write!(f, "{e}"),
            Error::Codec { tensor, row, source } => write!(f, "the tensor {tensor}, from row {row} on: {source}"),
            Error::Rows { tensor, source } => write!(f, "the tensor {tensor}: {source}"),
            Error::NotFinite { tensor, row, ty } => write!(
                f,
                "the tensor {tensor}: as {ty} there is NaN or infinity among the rows from {row} on; `gguf check --data` says \
                 whether it is in the input, or else numbers are too large for the new type"
            ),
            Error::NoCandidate { path, tensor, row, types } => {
                write!(f, "{}: the tensor {tensor} has rows of {row}, ", path.display())?;
                f.write_str("which are whole blocks of none of the candidates:")?;
                for (i, ty) in types.iter().enumerate() {
                    write!(f, "{} {ty}", if i == 0 { "" } else { "," })?;
                    if let Some(info) = ty.info() {
                        write!(f, " (blocks of {})", info.block_len)?;
                    }
                }
                f.write_str("; add one with --candidates that fits, or give the tensor a type with --tensor-type")
            }
            Error::SourceNotFinite { path, tensor, row, ty } => write!(
                f,
                "{}: the tensor {tensor}, which is {ty}, holds NaN or infinity in row {row}, so nothing can be measured; `gguf check \
                 --data` shows all such places; fetch or make the model again, or give the tensor its own type with --tensor-type",
                path.display()
            ),
            Error::Budget { asked, smallest, is_fixed } => {
                let said = |f: &mut fmt::Formatter<'_>, limit: &Limit| match limit {
                    Limit::FileBytes(n) => write!(f, "{} bytes", grouped(*n)),
                    // Rounded up: what is named here is enough.
                    Limit::BitsPerWeight(bits) => write!(f, "{} bits per weight", (bits * 1e4).ceil() / 1e4),
                };
                f.write_str("the smallest file that the candidate types can make has ")?;
                said(f, smallest)?;
                f.write_str(", and the budget is ")?;
                said(f, asked)?;
                f.write_str(match is_fixed {
                    false => "; give a larger budget, or smaller types with --candidates",
                    true => "; no tensor's type is left to choose: give a larger budget, or leave fewer of them fixed",
                })
            }
            Error::OutOfMemory { tensor, bytes } => {
                write!(f, "the tensor {tensor}: no memory for {bytes} bytes, which two of its rows take")
            }
            Error::OverwritesInput { path } => write!(
                f,
                "{}: the output would replace a file that it is made of; choose another name for the output",
                path.display()
            ),
            Error::Cancelled => f.write_str("interrupted; no output was written"),
            Error::Kept { why, partial, journal, n_others } => {
                // What has to be done before the same command continues, if anything.
                let mut first = "the same command continues from there";
                match why.as_ref() {
                    Error::Cancelled => f.write_str("interrupted")?,
                    Error::Output(e) if matches!(**e, gguf_io::Error::Exists(_)) => {
                        write!(f, "{}: a file of that name has appeared meanwhile", e.path().display())?;
                        first = "remove that file or add --force, and the same command continues from there";
                    }
                    why => write!(f, "{why}")?,
                }
                write!(f, "; what is done is kept in {} and {}", partial.display(), journal.display())?;
                if *n_others > 0 {
                    f.write_str(", and beside the other shards")?;
                }
                write!(f, "; {first}")
            }
            Error::OtherPlan { partial, journal, differences } => write!(
                f,
                "{} was begun with something else and cannot be continued: {}; give the command that it was begun with, or \
                 delete it and {}, or start anew with --force",
                partial.display(),
                differences.join("; "),
                journal.display()
            ),
            Error::NotOurs { path } => write!(
                f,
                "{}: work that can be resumed needs a file of that name, and the one there is not from such work; delete it, or \
                 replace it with --force",
                path.display()
            ),
            Error::TooManyShards { n_shards } => {
                write!(f, "the model has {n_shards} shards; a key of 16 bits has to hold that number")
            }
            Error::ModelDir(e) => write!(f, "{e}"),
            Error::Layout(e) => write!(f, "{e}"),
            Error::Output(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Safetensors { source, .. } => Some(source.as_ref()),
            Error::Config { source, .. } => Some(source),
            Error::Plan { source, .. } => Some(source),
            Error::ModelDir(e) => Some(e),
            Error::Layout(e) => Some(e),
            Error::Output(e) | Error::Input(e) => Some(e.as_ref()),
            Error::Codec { source, .. } => Some(source),
            Error::Rows { source, .. } => Some(source),
            Error::Mix { source, .. } => Some(source),
            Error::Matrix(e) => Some(e.as_ref()),
            Error::Kept { why, .. } => Some(why.as_ref()),
            _ => None,
        }
    }
}

impl From<ModelDirError> for Error {
    fn from(e: ModelDirError) -> Error {
        match e {
            ModelDirError::Read { file, source } => Error::Io { action: "read", path: file, source },
            e => Error::ModelDir(e),
        }
    }
}

impl From<imatrix::Error> for Error {
    fn from(e: imatrix::Error) -> Error {
        Error::Matrix(Box::new(e))
    }
}

impl From<LayoutError> for Error {
    fn from(e: LayoutError) -> Error {
        Error::Layout(e)
    }
}

impl From<gguf_io::Error> for Error {
    fn from(e: gguf_io::Error) -> Error {
        Error::Output(Box::new(e))
    }
}
