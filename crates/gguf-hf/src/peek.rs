//! The parts of a checkpoint's data that a plan depends on: the values of some tensors, and the number of tokens.

use std::collections::BTreeMap;

use gguf_format::GgmlType;
use gguf_model::arch::Checkpoint;
use gguf_pipeline::Source;
use serde_json::{Value as Json, json};

use crate::arch::names;
use crate::checkpoint::TensorFiles;
use crate::config::Config;
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;
use crate::model_plan::PlanError;
use crate::number::to_index;
use crate::tokenizer;

/// The maximum number of elements of a tensor whose values become facts.
const MAX_ELEMENTS: usize = 65536;

/// Sets the facts that depend on the data, as requested by the table of the class.
pub(crate) fn fields(
    files: &Documents<'_>,
    config: &mut Config,
    checkpoint: &TensorFiles,
    table: &Checkpoint,
) -> Result<(), Error> {
    // The values of each block.
    let mut lists: BTreeMap<&str, Vec<Json>> = BTreeMap::new();
    for (index, tensor) in checkpoint.tensors().iter().enumerate() {
        let Ok(name) = names::of_text_model(table, &[], &tensor.name) else { continue };
        let Some((fact, block)) = names::peeked(table, &name) else { continue };
        let values = Json::from(values(files, checkpoint, index)?);
        match block {
            None => config.facts_mut().set_named(fact, values),
            Some(block) => {
                let list = lists.entry(fact).or_default();
                let place = usize::try_from(block).unwrap_or(usize::MAX);
                if place < MAX_ELEMENTS {
                    list.resize(list.len().max(place + 1), Json::Null);
                    if let Some(slot) = list.get_mut(place) {
                        *slot = values;
                    }
                }
            }
        }
    }
    for (fact, list) in lists {
        config.facts_mut().set_named(fact, list);
    }
    // The width of a layer after the pooling.
    if let Some((_, _, usual)) = table.dense.first()
        && let Some(rows) = checkpoint.tensors().iter().find(|tensor| tensor.name == format!("{usual}weight"))
        && let Some(rows) = rows.shape.first()
    {
        config.facts_mut().set(Fact::DenseRows, *rows);
    }
    if table.facts.lists_zero_rows
        && let Some(tokenizer) = files.tokenizer()?
    {
        let vocab = &tokenizer.model.vocab;
        let n_own = if vocab.is_list() { 0 } else { vocab.n_tokens() };
        config.facts_mut().set(Fact::ZeroRows, zero_rows(checkpoint, n_own)?);
    }
    if table.tokenizer.trims_embeddings
        && let Some(tokens) = n_tokens(files, config, table)?
    {
        config.facts_mut().set(Fact::Vocab, json!({ "tokens": tokens }));
    }
    Ok(())
}

/// The embedding rows, starting at row `first`, that are zero.
fn zero_rows(checkpoint: &TensorFiles, first: u64) -> Result<Vec<u64>, Error> {
    const PIECE: usize = 1 << 20;
    let embeddings = checkpoint.tensors().iter().position(|tensor| tensor.name.ends_with("embed_tokens.weight"));
    let Some((index, tensor)) = embeddings.and_then(|index| Some((index, checkpoint.tensors().get(index)?))) else {
        return Ok(Vec::new());
    };
    let (Some(n), Some(bytes)) = (tensor.shape.first().copied(), tensor.dtype.tensor_bytes(&tensor.shape)) else {
        return Ok(Vec::new());
    };
    let row_bytes = bytes.checked_div(n).unwrap_or(0);
    let width = tensor.dtype.tensor_bytes(&[1]).and_then(|width| usize::try_from(width).ok()).unwrap_or(1).max(1);
    let mut rows = Vec::new();
    let mut piece = vec![0; PIECE.min(to_index(row_bytes))];
    for row in first..n {
        let mut is_zero = true;
        let mut at = 0;
        while is_zero && at < row_bytes {
            let len = to_index(row_bytes - at).min(piece.len());
            let piece = piece.get_mut(..len).unwrap_or_default();
            checkpoint.read(index, row * row_bytes + at, piece)?;
            // The sign bit is ignored.
            let is_nothing = |value: &[u8]| {
                value.split_last().is_none_or(|(last, rest)| last & 0x7f == 0 && rest.iter().all(|b| *b == 0))
            };
            is_zero = piece.chunks(width).all(is_nothing);
            at += len as u64;
        }
        rows.extend(is_zero.then_some(row));
    }
    Ok(rows)
}

/// The values of a small tensor of floats or 64-bit integers.
fn values(files: &Documents<'_>, checkpoint: &TensorFiles, index: usize) -> Result<Vec<Json>, Error> {
    let Some(tensor) = checkpoint.tensors().get(index) else { return Ok(Vec::new()) };
    let plan = |source| Error::Plan { path: files.path().to_owned(), source };
    let n = to_index(tensor.shape.iter().product());
    if n > MAX_ELEMENTS {
        let problem = format!("at most {MAX_ELEMENTS} elements are expected");
        return Err(plan(PlanError::Pattern { tensor: tensor.name.clone(), shape: tensor.shape.clone(), problem }));
    }
    if tensor.dtype.ggml == Some(GgmlType::I64) {
        let mut packed = vec![0; n * 8];
        checkpoint.read(index, 0, &mut packed)?;
        let (numbers, _) = packed.as_chunks::<8>();
        return Ok(numbers.iter().map(|number| i64::from_le_bytes(*number).into()).collect());
    }
    let codec = tensor.dtype.ggml.and_then(gguf_quants::codec);
    let (Some(codec), Some(width)) = (codec, codec.and_then(|codec| codec.packed_bytes(n))) else {
        return Err(plan(PlanError::Dtype { tensor: tensor.name.clone(), dtype: tensor.dtype }));
    };
    let (mut packed, mut values) = (vec![0; width], vec![0.0f32; n]);
    checkpoint.read(index, 0, &mut packed)?;
    if codec.decode(&packed, &mut values).is_err() {
        return Err(plan(PlanError::Dtype { tensor: tensor.name.clone(), dtype: tensor.dtype }));
    }
    Ok(values.into_iter().map(|value| f64::from(value).into()).collect())
}

/// The number of tokens: of `tokenizer.model` with its added tokens, otherwise of the vocabulary and the added tokens of `tokenizer.json`
/// (`Gemma3Model.modify_tensors` in `conversion/gemma.py`).
fn n_tokens(files: &Documents<'_>, config: &Config, table: &Checkpoint) -> Result<Option<u64>, Error> {
    if files.has("tokenizer.model")? {
        return Ok(tokenizer::n_tokens(files, config.hparams(), table.tokenizer.vocab)?.map(|n| n as u64));
    }
    let Some(tokenizer) = files.tokenizer()? else { return Ok(None) };
    Ok(Some(tokenizer.model.vocab.n_tokens().saturating_add(tokenizer.added_tokens.len() as u64)))
}
