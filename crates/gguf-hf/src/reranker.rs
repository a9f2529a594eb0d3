//! Rerankers: Qwen 3 models that answer "yes" or "no" to whether a document is relevant. Only the name distinguishes them from other
//! models, not `config.json` (`Qwen3Model._is_qwen3_reranker` in `conversion/qwen.py`).

use gguf_model::arch::Checkpoint;
use serde_json::{Value as Json, json};

use crate::config::Config;
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;
use crate::folder::Folder as _;
use crate::folder_error::FolderError;
use crate::formula;
use crate::problem::FileProblem;
use crate::tokenizer;

/// The lowercase parts of names that identify these models.
const NAMES: [&str; 2] = ["qwen3-reranker", "qwen3-vl-reranker"];

/// The ids of the tokens `yes` and `no`, if the model in the folder is a reranker of a supported class.
pub(crate) fn answers(files: &Documents<'_>, config: &Config, checkpoint: &Checkpoint) -> Result<Option<Json>, Error> {
    let is_known = checkpoint.names.rename_if.iter().any(|(.., formula)| formula::reads(formula, Fact::Rerank));
    if !is_known || !(is_named(files, config) || is_titled(files)?) {
        return Ok(None);
    }
    let tokens = tokenizer::ids(files, &["yes", "no"])?;
    let id = |token: &'static str| {
        tokens.get(token).copied().ok_or_else(|| {
            let problem = FileProblem::NoAnswer { token };
            FolderError::Invalid { file: files.path().join("tokenizer.json"), problem }
        })
    };
    Ok(Some(json!({ "yes": id("yes")?, "no": id("no")? })))
}

/// Whether the name of the folder or in the configuration identifies a reranker.
fn is_named(files: &Documents<'_>, config: &Config) -> bool {
    let fields = ["_name_or_path", "model_type"].map(|field| config.hparams()[field].as_str().map(str::to_owned));
    let mut names = fields.into_iter().chain([files.real_name()]).flatten().map(|name| name.to_lowercase());
    names.any(|name| NAMES.iter().any(|part| name.contains(part)))
}

/// Whether a heading of the model card identifies a reranker.
fn is_titled(files: &Documents<'_>) -> Result<bool, FolderError> {
    let card = files.bytes("README.md")?.unwrap_or_default();
    let card = String::from_utf8_lossy(&card).to_lowercase();
    Ok(NAMES.iter().any(|name| card.contains(&format!("# {name}"))))
}
