//! The files of a tokenizer.

use std::sync::Arc;

use serde_json::Value as Json;

use super::hf::TokenizerJson;
use crate::documents::Documents;
use crate::folder_error::FolderError;
use crate::problem::{FileProblem, UnsupportedFeature};

/// The tokenizer files of a model folder.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    pub(crate) dir: &'a Documents<'a>,
    /// `tokenizer.json`.
    pub(crate) tokenizer: Option<Arc<TokenizerJson>>,
    /// `tokenizer_config.json`; null without one.
    pub(crate) tokenizer_config: Arc<Json>,
    /// `config.json`; null without one.
    pub(crate) config: Arc<Json>,
}

impl<'a> Files<'a> {
    pub(crate) fn open(dir: &'a Documents<'a>) -> Result<Files<'a>, FolderError> {
        let tokenizer = dir.tokenizer()?;
        let (tokenizer_config, config) = (dir.json_or_null("tokenizer_config.json")?, dir.json_or_null("config.json")?);
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
