//! Checkpoints in Mistral's own layout: `params.json`, tensors in `consolidated*.safetensors`, and `tekken.json`.
//!
//! Parameters and tensors have Mistral's names, which the architecture tables include. The rows of queries and keys are already in llama.cpp's
//! order (`MistralModel` in `conversion/mistral.py`).

use serde_json::{Value as Json, json};

use super::{Files, TensorFiles, list_parts, meta::PARAMS};
use crate::config::shortened;
use crate::documents::Documents;
use crate::error::Error;
use crate::folder_error::FolderError;
use crate::json::set_field;
use crate::problem::FileProblem;

/// The tensor files.
const FILES: Files =
    Files { index: "consolidated.safetensors.index.json", prefix: "consolidated", suffix: ".safetensors" };

/// The configuration field that is true for such a checkpoint.
pub(crate) const FIELD: &str = "mistral_params";

/// Parameters present in both Mistral's and Meta's files.
const NEEDED: [&str; 4] = ["dim", "n_layers", "n_heads", "norm_eps"];

/// Reads the configuration and the tensors of such a checkpoint; `None` if the folder has none.
///
/// # Errors
/// If a file is invalid, or the model has experts or an unsupported weight format.
pub(crate) fn open(files: &Documents<'_>) -> Result<Option<(Json, TensorFiles)>, Error> {
    if list_parts(files, &FILES)?.is_empty() {
        return Ok(None);
    }
    let Some(document) = files.json(PARAMS)? else { return Ok(None) };
    let mut document = (*document).clone();
    if NEEDED.iter().any(|key| document.get(key).is_none()) {
        return Ok(None);
    }
    let invalid = |key: &str, found: &Json, expected| {
        let problem = FileProblem::Value { key: key.to_owned(), found: shortened(found), expected };
        Error::from(FolderError::Invalid { file: files.path().join(PARAMS), problem })
    };
    if let Some(experts) = document.get("moe").filter(|moe| !moe.is_null()) {
        return Err(invalid(
            "moe",
            experts,
            "a model without experts; for models with experts, convert the Hugging Face layout",
        ));
    }
    if let Some(quantization) = document.get("quantization").filter(|value| !value.is_null()) {
        if quantization["qformat_weight"] != "fp8_e4m3" {
            return Err(invalid("quantization", quantization, "\"qformat_weight\": \"fp8_e4m3\""));
        }
        let fp8 = json!({ "quant_method": "fp8", "activation_scheme": "static" });
        set_field(&mut document, "quantization_config", fp8);
    }
    // Newer models scale the attention temperature.
    let class = if document.get("llama_4_scaling").is_some() { "Ministral3ForCausalLM" } else { "MistralForCausalLM" };
    if let Some(yarn) = document.get("yarn").cloned() {
        set_field(&mut document, "yarn_params", yarn);
    }
    set_field(&mut document, "architectures", json!([class]));
    set_field(&mut document, FIELD, json!(true));
    match TensorFiles::open_files(files, &FILES)? {
        Some(checkpoint) => Ok(Some((document, checkpoint))),
        None => Ok(None),
    }
}
