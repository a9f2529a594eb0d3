//! What can be wrong with a model folder's small files: the tokenizer, the configuration, the model card.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::problem::{FileProblem, UnsupportedFeature};

/// Why the tokenizer or the metadata of a model folder could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum FolderError {
    /// The operating system refused to read the file.
    Read {
        /// The file.
        file: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// The file is a link to a file elsewhere, which does not belong to the model.
    LeadsOut {
        /// The link.
        file: PathBuf,
        /// What it leads to.
        target: PathBuf,
    },
    /// Another file took the file's place while it was opened.
    Replaced {
        /// Its path.
        file: PathBuf,
    },
    /// What should be a file is something else: a folder, a pipe, a device.
    NotAFile {
        /// Its path.
        file: PathBuf,
    },
    /// The file is larger than anything of its kind.
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// The file is not UTF-8.
    NotUtf8 {
        /// The file.
        file: PathBuf,
        /// The first byte that is not UTF-8.
        at: usize,
    },
    /// The file is not valid JSON, or not of the shape that it must have.
    Json {
        /// The file.
        file: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The file is readable, but what it says cannot be right.
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// The file is right, but describes something that is not supported.
    Unsupported {
        /// The file.
        file: PathBuf,
        /// What is not supported.
        feature: UnsupportedFeature,
    },
    /// The folder has no tokenizer.
    NoTokenizer {
        /// The folder.
        dir: PathBuf,
        /// The files of which the class of checkpoints needs one.
        expected: &'static str,
    },
    /// The pre-tokenizer of a BPE vocabulary is unknown.
    UnknownPre {
        /// The file that defines it.
        file: PathBuf,
        /// The hash of the token ids of the check text, where it could be computed.
        hash: Option<String>,
        /// Names of the known pre-tokenizers that resemble it most.
        nearest: Vec<&'static str>,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::Read { file, source } => write!(f, "{}: {source}", file.display()),
            FolderError::LeadsOut { file, target } => write!(
                f,
                "{}: a link that leaves the checkpoint folder, to {}; copy the file into the folder if this is intended",
                file.display(),
                target.display()
            ),
            FolderError::Replaced { file } => {
                write!(f, "{}: replaced by another file while it was opened; not read", file.display())
            }
            FolderError::NotAFile { file } => write!(f, "{}: not a regular file", file.display()),
            FolderError::TooLarge { file, limit } => {
                write!(f, "{}: larger than {limit} bytes, which no file of this kind is", file.display())
            }
            FolderError::NotUtf8 { file, at } => write!(f, "{}: not UTF-8 from byte {at} on", file.display()),
            FolderError::Json { file, source } => write!(f, "{}: {source}", file.display()),
            FolderError::Invalid { file, problem } => write!(f, "{}: {problem}", file.display()),
            FolderError::Unsupported { file, feature } => write!(f, "{}: {feature}", file.display()),
            FolderError::NoTokenizer { dir, expected } => {
                write!(f, "{}: no tokenizer found; expected {expected}", dir.display())
            }
            FolderError::UnknownPre { file, hash, nearest } => {
                write!(f, "{}: unknown pre-tokenizer", file.display())?;
                if let Some(hash) = hash {
                    write!(f, " (check hash {hash})")?;
                }
                if !nearest.is_empty() {
                    write!(f, "; the nearest known ones are {}", nearest.join(", "))?;
                }
                f.write_str("; name the right one")
            }
        }
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FolderError::Read { source, .. } => source.source(),
            FolderError::Json { source, .. } => source.source(),
            FolderError::Invalid { problem, .. } => problem.source(),
            FolderError::Unsupported { feature, .. } => feature.source(),
            _ => None,
        }
    }
}
