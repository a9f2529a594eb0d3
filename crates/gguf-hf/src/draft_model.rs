//! Draft models for speculative decoding, which take their tokenizer and some key-values from their target model.

pub(crate) mod problem;

use std::collections::HashSet;
use std::path::Path;

use gguf_format::GgmlType;
use gguf_model::arch::Checkpoint;
use gguf_pipeline::Source;
use serde_json::Value as Json;

use self::problem::DraftModelProblem;
use crate::config::Config;
use crate::config_file::{CONFIG, config_json};
use crate::error::Error;
use crate::facts::Fact;
use crate::model_plan::PlanError;
use crate::number::to_index;
use crate::packed::Weights;
use crate::request::Request;

/// The maximum size of a draft vocabulary.
const MAX_IDS: u64 = 1 << 22;

/// The file of the embedding of the mask token, if it is separate.
pub(crate) const MASK_EMBEDDING: &str = "mask_embedding.pt";

/// The configuration of a draft model's target; `None` for other models.
///
/// # Errors
/// If a draft model has no target or another model has one, or if the target's configuration cannot be read.
pub(crate) fn target_config(request: &Request<'_>, table: Option<&Checkpoint>) -> Result<Option<Json>, Error> {
    let wrong = |source| Err(Error::DraftModel { path: request.files.path().to_owned(), source });
    let target = match (table.is_some_and(|table| table.is_draft), &request.target) {
        (true, Some(target)) => target,
        (true, None) => return wrong(DraftModelProblem::NoTarget),
        (false, Some(_)) => return wrong(DraftModelProblem::NotADraft),
        (false, None) => return Ok(None),
    };
    let invalid = |source| Error::Config { file: target.path().join(CONFIG), source };
    let config = Config::raw(config_json(target)?).map_err(invalid)?;
    Ok(Some(config.hparams().clone()))
}

/// Adds its index to each element of the table's tensor of token ids, as llama.cpp expects. The fact `token_ids` holds the ids.
pub(crate) fn absolute_ids(
    dir: &Path,
    weights: &mut Weights,
    config: &mut Config,
    table: &Checkpoint,
) -> Result<(), Error> {
    let place = weights.tensors().iter().position(|tensor| tensor.name == table.facts.ids);
    let Some((index, tensor)) = place.and_then(|index| Some((index, weights.tensors().get(index)?.clone()))) else {
        return Ok(());
    };
    let fail = |source| Error::Plan { path: dir.to_owned(), source };
    if tensor.dtype.ggml != Some(GgmlType::I64) {
        return Err(fail(PlanError::Dtype { tensor: tensor.name, dtype: tensor.dtype }));
    }
    let wrong = |problem: String| {
        fail(PlanError::Pattern { tensor: tensor.name.clone(), shape: tensor.shape.clone(), problem })
    };
    let n = tensor.shape.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim)).filter(|n| *n <= MAX_IDS);
    let n = n.ok_or_else(|| wrong(format!("expected at most {MAX_IDS} numbers")))?;
    let fields = config.hparams();
    let target = config.facts().get(Fact::Target);
    let all = if table.tokenizer.takes_target_class { Some(fields) } else { target };
    let n_tokens = all.unwrap_or(&Json::Null)["vocab_size"].as_u64().unwrap_or(u64::MAX);
    if let Some(expected) = fields["draft_vocab_size"].as_u64().filter(|expected| *expected != n) {
        return Err(wrong(format!("expected {expected} numbers (draft_vocab_size)")));
    }
    let mut data = vec![0; to_index(n) * 8];
    weights.read(index, 0, &mut data)?;
    let (mut ids, mut seen) = (Vec::new(), HashSet::new());
    for (place, bytes) in data.chunks_exact_mut(8).enumerate() {
        let mut number = [0; 8];
        number.copy_from_slice(bytes);
        let id = i64::from_le_bytes(number).checked_add(place as i64);
        let id = id.filter(|id| u64::try_from(*id).is_ok_and(|id| id < n_tokens));
        let id = id.ok_or_else(|| wrong(format!("number {place} is not a token id below {n_tokens}")))?;
        if !seen.insert(id) {
            return Err(wrong(format!("number {place} repeats the token id {id}")));
        }
        bytes.copy_from_slice(&id.to_le_bytes());
        ids.push(id);
    }
    weights.replace(index, data);
    config.facts_mut().set(Fact::TokenIds, ids);
    Ok(())
}
