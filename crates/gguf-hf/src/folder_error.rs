//! Errors in a model folder's small files: the tokenizer, the configuration, the model card.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::problem::{FileProblem, UnsupportedFeature};

/// The reason why the tokenizer or the metadata of a model folder cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum FolderError {
    /// The operating system could not read the file.
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is a link to a file outside the model.
    LeadsOut {
        /// The link.
        file: PathBuf,
        /// The link's target.
        target: PathBuf,
    },
    /// Another file replaced the file while it was opened.
    Replaced {
        /// Its path.
        file: PathBuf,
    },
    /// The path is not a regular file but a folder, a pipe or a device.
    NotAFile {
        /// Its path.
        file: PathBuf,
    },
    /// The file exceeds the size limit.
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not UTF-8.
    NotUtf8 {
        /// The file.
        file: PathBuf,
        /// The position of the first byte that is not UTF-8.
        at: usize,
    },
    /// The file is not valid JSON, or does not have the required structure.
    Json {
        /// The file.
        file: PathBuf,
        /// The position and the error.
        source: serde_json::Error,
    },
    /// The file is well-formed, but its content is invalid.
    Invalid {
        /// The file.
        file: PathBuf,
        /// The error.
        problem: FileProblem,
    },
    /// The file is valid, but describes an unsupported feature.
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The unsupported feature.
        feature: UnsupportedFeature,
    },
    /// The folder has no tokenizer.
    NoTokenizer {
        /// The folder.
        dir: PathBuf,
        /// The files of which this class of checkpoints needs one.
        expected: Vec<&'static str>,
    },
    /// The pre-tokenizer of a BPE vocabulary is unknown.
    UnknownPre {
        /// The file that defines it.
        file: PathBuf,
        /// The hash of the check text's token ids, if it could be computed.
        hash: Option<String>,
        /// The most similar names of known pre-tokenizers.
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
                write!(f, "{}: no tokenizer found; expected ", dir.display())?;
                for (i, file) in expected.iter().enumerate() {
                    let separator = if i == 0 {
                        ""
                    } else if i + 1 < expected.len() {
                        ", "
                    } else {
                        " or "
                    };
                    write!(f, "{separator}{file}")?;
                }
                Ok(())
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
