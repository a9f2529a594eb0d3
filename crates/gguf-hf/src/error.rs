//! Conversion errors: the file, the problem, and the remedy.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gguf_format::FileKind;

use crate::adapter::problem::AdapterProblem;
use crate::checkpoint::index::IndexProblem;
use crate::config;
use crate::draft_model::problem::DraftModelProblem;
use crate::export::problem::ExportProblem;
use crate::folder_error::FolderError;
use crate::model_plan::PlanError;
use crate::safetensors::HeaderError;
use crate::torch::TorchError;

/// Formats names for a message: the first few, and the number of the rest.
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

/// The reason why a checkpoint cannot be converted. The message includes the message of the source error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    Io {
        /// The operation: `open`, `read`, `list`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder has no `config.json`.
    NoConfig {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder has no checkpoint in Mistral's native layout.
    NotMistral {
        /// The folder.
        dir: PathBuf,
    },
    /// The file is neither a checkpoint nor a part of one.
    NotACheckpoint {
        /// The file.
        path: PathBuf,
        /// The kind of file; `None` if it is not a regular file.
        kind: Option<FileKind>,
    },
    /// The file is already a GGUF file.
    Gguf {
        /// The file.
        path: PathBuf,
    },
    /// A model in the cache of the Hugging Face hub has no current revision.
    Revisions {
        /// The folder of the revisions.
        dir: PathBuf,
        /// The names of the existing revisions.
        revisions: Names,
    },
    /// The folder has no tensors in a supported format.
    NoWeights {
        /// The folder.
        dir: PathBuf,
        /// A weights file in an unsupported format, if there is one.
        found: Option<String>,
    },
    /// Parts of the checkpoint are missing.
    MissingParts {
        /// The folder.
        dir: PathBuf,
        /// Their names.
        parts: Names,
    },
    /// A tensor file is invalid.
    Safetensors {
        /// The file.
        file: PathBuf,
        /// The error.
        source: Box<HeaderError>,
    },
    /// A PyTorch file is invalid or has unsupported content.
    Torch {
        /// The file.
        file: PathBuf,
        /// The error.
        source: Box<TorchError>,
    },
    /// The index is invalid.
    Index {
        /// The file.
        index: PathBuf,
        /// The error.
        problem: IndexProblem,
    },
    /// The index and the files list different tensors.
    IndexMismatch {
        /// The file.
        index: PathBuf,
        /// Tensors of the index that are in no file.
        missing: Names,
        /// Tensors of the files that are missing from the index.
        extra: Names,
    },
    /// Two files contain tensors of the same name.
    DuplicateTensor {
        /// The tensor's name.
        tensor: String,
        /// The first file.
        first: PathBuf,
        /// The second file.
        second: PathBuf,
    },
    /// `config.json` is invalid.
    Config {
        /// The file.
        file: PathBuf,
        /// The error.
        source: config::Error,
    },
    /// The conversion cannot be planned.
    Plan {
        /// The file of the affected tensor, or the folder.
        path: PathBuf,
        /// The reason.
        source: PlanError,
    },
    /// The folder holds an adapter that cannot be converted.
    Adapter {
        /// The affected file, or the folder.
        path: PathBuf,
        /// The reason.
        source: AdapterProblem,
    },
    /// The target model of a draft model is missing, or a target is given for another model.
    DraftModel {
        /// The folder.
        path: PathBuf,
        /// The error.
        source: DraftModelProblem,
    },
    /// The tokenizer, the model card or another small file of the folder is invalid.
    Folder(FolderError),
    /// A GGUF file cannot be exported.
    Export {
        /// The file, or the folder of the export.
        path: PathBuf,
        /// The reason.
        problem: Box<ExportProblem>,
    },
    /// The output cannot be laid out.
    Pipeline(gguf_pipeline::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }

    /// Whether the checkpoint is the cause, rather than the system or the call.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Pipeline(e) => e.is_bad_input(),
            // An I/O error does not make the checkpoint invalid.
            Error::Io { .. } | Error::Folder(FolderError::Read { .. }) => false,
            Error::Export { problem, .. } => !matches!(**problem, ExportProblem::OtherFile { .. }),
            // Options that do not apply to the checkpoint.
            Error::Plan { source: PlanError::NotSeparate { .. } | PlanError::NoMtp { .. }, .. } => false,
            Error::NoConfig { .. }
            | Error::NotMistral { .. }
            | Error::NotACheckpoint { .. }
            | Error::Gguf { .. }
            | Error::Revisions { .. }
            | Error::NoWeights { .. }
            | Error::MissingParts { .. }
            | Error::Safetensors { .. }
            | Error::Torch { .. }
            | Error::Index { .. }
            | Error::IndexMismatch { .. }
            | Error::DuplicateTensor { .. }
            | Error::Config { .. }
            | Error::Plan { .. }
            | Error::Adapter { .. }
            | Error::DraftModel { .. }
            | Error::Folder(_) => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { action, path, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Error::NoConfig { dir } => {
                write!(f, "{}: no config.json in the folder; is it a checkpoint?", dir.display())
            }
            Error::NotMistral { dir } => write!(
                f,
                "{}: not in Mistral's own layout; expected params.json with Mistral's parameters, and consolidated*.safetensors",
                dir.display()
            ),
            Error::NotACheckpoint { path, kind: None } => {
                write!(
                    f,
                    "{}: not a regular file, expected a checkpoint: a folder, or a file of tensors",
                    path.display()
                )
            }
            Error::NotACheckpoint { path, kind: Some(FileKind::Safetensors | FileKind::Zip | FileKind::Pickle) } => {
                write!(
                    f,
                    "{}: the name of a file of tensors ends in .safetensors, .bin, .pt, .pth or .ckpt; rename the file",
                    path.display()
                )
            }
            Error::NotACheckpoint { path, kind: Some(kind) } => write!(
                f,
                "{}: {kind}, expected a checkpoint: a folder with config.json in it, or a file of tensors",
                path.display()
            ),
            Error::Gguf { path } => write!(f, "{}: is already GGUF", path.display()),
            Error::Revisions { dir, revisions } if revisions.0.is_empty() => {
                write!(f, "{}: no revision of the model in the cache; fetch it", dir.display())
            }
            Error::Revisions { dir, revisions } => write!(
                f,
                "{}: several revisions of the model and no current one in refs/main; give the folder of one of them: {revisions}",
                dir.display()
            ),
            Error::NoWeights { dir, found: None } => {
                write!(
                    f,
                    "{}: no model*.safetensors and no pytorch_model*.bin in the folder; is it a checkpoint?",
                    dir.display()
                )
            }
            Error::NoWeights { dir, found: Some(found) } => write!(
                f,
                "{}: no model*.safetensors and no pytorch_model*.bin in the folder, but {found:?}; if the model is in that file, \
                 convert the file itself",
                dir.display()
            ),
            Error::MissingParts { dir, parts } => {
                write!(f, "{}: parts of the checkpoint are missing: {parts}; fetch them", dir.display())
            }
            Error::Safetensors { file, source } => write!(f, "{}: {source}", file.display()),
            Error::Torch { file, source } => write!(f, "{}: {source}", file.display()),
            Error::Index { index, problem } => write!(f, "{}: {problem}", index.display()),
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
                "duplicate tensor {tensor:?}, in {} and {}; remove the file that does not belong to the checkpoint",
                first.display(),
                second.display()
            ),
            Error::Config { file, source } => write!(f, "{}: {source}", file.display()),
            Error::Plan { path, source } => write!(f, "{}: {source}", path.display()),
            Error::DraftModel { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Adapter { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Export { path, problem } => write!(f, "{}: {problem}", path.display()),
            Error::Folder(e) => write!(f, "{e}"),
            Error::Pipeline(e) => write!(f, "{e}"),
        }
    }
}

impl StdError for Error {
    /// The source of the inner error, because this error's message already includes the inner message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Io { source, .. } => source.source(),
            Error::Safetensors { source, .. } => source.source(),
            Error::Torch { source, .. } => source.source(),
            Error::Config { source, .. } => source.source(),
            Error::Plan { source, .. } => source.source(),
            Error::Folder(e) => e.source(),
            Error::Pipeline(e) => e.source(),
            _ => None,
        }
    }
}

impl From<FolderError> for Error {
    fn from(e: FolderError) -> Error {
        match e {
            FolderError::Read { file, source } => Error::Io { action: "read", path: file, source },
            e => Error::Folder(e),
        }
    }
}

impl From<gguf_pipeline::Error> for Error {
    fn from(e: gguf_pipeline::Error) -> Error {
        Error::Pipeline(e)
    }
}
