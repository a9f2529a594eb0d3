//! Dense layers after the pooling of a sentence encoder, as modules of sentence-transformers: folders with a configuration and one file
//! of tensors each (`EmbeddingGemma` in `conversion/gemma.py` of llama.cpp).

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;

/// Inserts the tensors of the dense layers listed in `modules.json` before all others, and sets the facts `dense_2` and `dense_3` to their
/// configurations. Returns the number of inserted tensors.
pub(crate) fn add(files: &Documents<'_>, checkpoint: &mut Checkpoint, config: &mut Config) -> Result<usize, Error> {
    let Some(modules) = files.json("modules.json")? else { return Ok(0) };
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_dense = |module: &&serde_json::Value| module["type"].as_str().is_some_and(|ty| ty.ends_with("Dense"));
    let paths = modules.iter().filter(is_dense).filter_map(|module| module["path"].as_str());
    let before = checkpoint.tensors().len();
    // Each layer is inserted before the existing tensors.
    for path in paths.collect::<Vec<_>>().into_iter().rev().filter(|path| !path.is_empty()) {
        let fact = if path == "2_Dense" { Fact::Dense2 } else { Fact::Dense3 };
        checkpoint.add_first(files, &format!("{path}/model.safetensors"), "linear.", &format!("{}.", fact.name()))?;
        if let Some(document) = files.json(&format!("{path}/config.json"))? {
            config.facts_mut().set(fact, (*document).clone());
        }
    }
    Ok(checkpoint.tensors().len() - before)
}
