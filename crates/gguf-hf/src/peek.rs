//! Small parts of a checkpoint's data that decide about the plan: the values of some tensors, and the number of tokens.

use std::path::Path;

use gguf_model::arch::Checkpoint as Table;
use gguf_pipeline::Source;
use serde_json::{Value as Json, json};

use crate::arch::names;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::model_plan::PlanError;
use crate::tokenizer::{self, TokenizerOptions};

/// The most elements of a tensor whose values become fields.
const MAX_ELEMENTS: u64 = 65536;

/// Sets the fields that follow from the data, as the table of the class asks.
pub(crate) fn fields(dir: &Path, config: &mut Config, checkpoint: &Checkpoint, table: &Table) -> Result<(), Error> {
    for (index, tensor) in checkpoint.tensors().iter().enumerate() {
        let Ok(name) = names::of_text_model(table, &[], &tensor.name) else { continue };
        let Some((field, block)) = names::peeked(table, &name) else { continue };
        let values = Json::from(values(dir, checkpoint, index)?);
        match block {
            None => config.set(field, values),
            Some(block) => {
                let mut list = config.hparams()[field].as_array().cloned().unwrap_or_default();
                let place = usize::try_from(block).unwrap_or(usize::MAX);
                if place < MAX_ELEMENTS as usize {
                    list.resize(list.len().max(place + 1), Json::Null);
                    if let Some(slot) = list.get_mut(place) {
                        *slot = values;
                    }
                }
                config.set(field, Json::Array(list));
            }
        }
    }
    // The width of a layer after the pooling.
    if let Some((_, _, usual)) = table.dense.first()
        && let Some(rows) = checkpoint.tensors().iter().find(|tensor| tensor.name == format!("{usual}weight"))
        && let Some(rows) = rows.shape.first()
    {
        config.set("dense_rows", json!(rows));
    }
    if table.trims_embeddings
        && let Some(tokens) = n_tokens(dir, config, table)?
    {
        config.set("vocab", json!({ "tokens": tokens }));
    }
    Ok(())
}

/// The values of a small tensor of floats.
fn values(dir: &Path, checkpoint: &Checkpoint, index: usize) -> Result<Vec<f64>, Error> {
    let Some(tensor) = checkpoint.tensors().get(index) else { return Ok(Vec::new()) };
    let plan = |source| Error::Plan { path: dir.to_owned(), source };
    let n: u64 = tensor.shape.iter().product();
    if n > MAX_ELEMENTS {
        let problem = format!("at most {MAX_ELEMENTS} elements are expected");
        return Err(plan(PlanError::Pattern { tensor: tensor.name.clone(), shape: tensor.shape.clone(), problem }));
    }
    let codec = tensor.dtype.ggml.and_then(gguf_quants::codec);
    let (Some(codec), Some(width)) = (codec, codec.and_then(|codec| codec.packed_bytes(n as usize))) else {
        return Err(plan(PlanError::Dtype { tensor: tensor.name.clone(), dtype: tensor.dtype }));
    };
    let (mut packed, mut values) = (vec![0; width], vec![0.0f32; n as usize]);
    checkpoint.read(index, 0, &mut packed)?;
    if codec.decode(&packed, &mut values).is_err() {
        return Err(plan(PlanError::Dtype { tensor: tensor.name.clone(), dtype: tensor.dtype }));
    }
    Ok(values.into_iter().map(f64::from).collect())
}

/// The number of tokens: of a `tokenizer.model` with what is added to it, else of the vocabulary and the added tokens of
/// `tokenizer.json` (`Gemma3Model.modify_tensors` in `conversion/gemma.py`).
fn n_tokens(dir: &Path, config: &Config, table: &Table) -> Result<Option<u64>, Error> {
    if files::open(dir, "tokenizer.model")?.is_some() {
        let options = TokenizerOptions { vocab: table.vocab, ..TokenizerOptions::default() };
        let tokenizer = tokenizer::key_values(dir, config.hparams(), &options)?;
        let tokens = tokenizer.kvs.iter().find(|(key, _)| key == "tokenizer.ggml.tokens");
        return Ok(tokens.and_then(|(_, value)| Some(value.as_ref().as_array()?.len())));
    }
    let Some(json) = files::read_json(dir, "tokenizer.json")? else { return Ok(None) };
    let len = |value: &Json| value.as_object().map(|o| o.len()).or(value.as_array().map(Vec::len)).unwrap_or(0) as u64;
    Ok(Some(len(&json["model"]["vocab"]).saturating_add(len(&json["added_tokens"]))))
}
