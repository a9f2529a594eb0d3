//! Warnings about the metadata of a model folder.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::CardProblem;
use crate::folder_error::FolderError;

/// A problem in the metadata of a model folder that does not prevent writing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum MetadataWarning {
    /// The model card is ignored because it cannot be read.
    Card(CardProblem),
    /// A list of the model card is ignored because it is too long.
    CardList(CardProblem),
    /// A key of the model card is ignored because its value is a list or a mapping.
    CardValue {
        /// The key.
        key: &'static str,
    },
    /// A base model or dataset of the model card is neither an id nor a mapping.
    CardOrigin,
    /// `generation_config.json` is ignored because it cannot be read.
    GenerationConfig(Arc<FolderError>),
    /// A sampling parameter is ignored because its value cannot be written.
    Sampling {
        /// The name in `generation_config.json`.
        key: &'static str,
        /// The value found, as JSON, shortened.
        found: String,
    },
    /// A key in the file of overrides is ignored because it is not general metadata.
    NotGeneral {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
    },
    /// A key in the file of overrides is ignored because it cannot be overridden.
    NotOverridable {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
    },
}

impl fmt::Display for MetadataWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataWarning::Card(problem) => write!(f, "README.md: {problem}: the model card is ignored"),
            MetadataWarning::CardList(problem) => write!(f, "README.md: {problem}: the list is ignored"),
            MetadataWarning::CardValue { key } => write!(f, "README.md: {key} is not a single value: ignored"),
            MetadataWarning::CardOrigin => {
                f.write_str("README.md: a base model or dataset is neither an id nor a mapping")
            }
            MetadataWarning::GenerationConfig(e) => write!(f, "{e}: ignored"),
            MetadataWarning::Sampling { key, found } => {
                write!(f, "generation_config.json: {key} is {found}: ignored")
            }
            MetadataWarning::NotGeneral { file, key } => {
                write!(f, "{}: {key} is not a key of general metadata: ignored", file.display())
            }
            MetadataWarning::NotOverridable { file, key } => {
                write!(f, "{}: {key} cannot be overridden: ignored", file.display())
            }
        }
    }
}
