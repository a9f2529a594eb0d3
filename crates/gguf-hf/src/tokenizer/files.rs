//! The files of a tokenizer.

use serde_json::Value as Json;

use super::hf::TokenizerJson;
use crate::files::{self, read_json};
use crate::folder::Folder;
use crate::folder_error::FolderError;
use crate::problem::{FileProblem, UnsupportedFeature};

/// The tokenizer files of a model folder.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    pub(crate) dir: &'a dyn Folder,
    /// `tokenizer.json`.
    pub(crate) tokenizer: Option<TokenizerJson>,
    /// `tokenizer_config.json`; null without one.
    pub(crate) tokenizer_config: Json,
    /// `config.json`; null without one.
    pub(crate) config: Json,
}

impl<'a> Files<'a> {
    pub(crate) fn open(dir: &'a dyn Folder) -> Result<Files<'a>, FolderError> {
        let file = dir.path().join("tokenizer.json");
        let tokenizer = match files::read_bytes(dir, "tokenizer.json")? {
            Some(bytes) => Some(serde_json::from_slice(&bytes).map_err(|source| FolderError::Json { file, source })?),
            None => None,
        };
        let optional = |name: &str| read_json(dir, name).map(Option::unwrap_or_default);
        let (tokenizer_config, config) = (optional("tokenizer_config.json")?, optional("config.json")?);
        Ok(Files { dir, tokenizer, tokenizer_config, config })
    }

    /// An error in one of the files.
    pub(crate) fn invalid(&self, file: &str, problem: FileProblem) -> FolderError {
        FolderError::Invalid { file: self.dir.path().join(file), problem }
    }

    /// An error for an unsupported feature of one of the files.
    pub(crate) fn unsupported(&self, file: &str, feature: UnsupportedFeature) -> FolderError {
        FolderError::Unsupported { file: self.dir.path().join(file), feature }
    }
}
