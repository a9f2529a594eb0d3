//! Dense layers after the pooling of a sentence encoder, as modules of sentence-transformers: folders with a configuration and one file
//! of tensors each (`EmbeddingGemma` in `conversion/gemma.py` of llama.cpp).

use serde_json::Value as Json;

use crate::checkpoint::TensorFiles;
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;

/// The dense layers of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct DenseModules {
    /// The number of tensors.
    pub(crate) n_tensors: usize,
    /// The configurations of the layers, as facts.
    pub(crate) configs: Vec<(Fact, Json)>,
}

/// Inserts the tensors of the dense layers listed in `modules.json` before all others. The configurations become the facts `dense_2` and
/// `dense_3`.
pub(crate) fn add(files: &Documents<'_>, checkpoint: &mut TensorFiles) -> Result<DenseModules, Error> {
    let modules = files.json_or_null("modules.json")?;
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_dense = |module: &&Json| module["type"].as_str().is_some_and(|ty| ty.ends_with("Dense"));
    let paths = modules.iter().filter(is_dense).filter_map(|module| module["path"].as_str());
    let n_before = checkpoint.tensors().len();
    let mut configs = Vec::new();
    // Each layer is inserted before the existing tensors.
    for path in paths.collect::<Vec<_>>().into_iter().rev().filter(|path| !path.is_empty()) {
        let fact = if path == "2_Dense" { Fact::Dense2 } else { Fact::Dense3 };
        checkpoint.add_first(files, &format!("{path}/model.safetensors"), "linear.", &format!("{}.", fact.name()))?;
        if let Some(document) = files.json(&format!("{path}/config.json"))? {
            configs.push((fact, (*document).clone()));
        }
    }
    Ok(DenseModules { n_tensors: checkpoint.tensors().len() - n_before, configs })
}
