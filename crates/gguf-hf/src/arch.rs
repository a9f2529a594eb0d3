//! The list of architectures. Adding one is a file and a line here.

use std::collections::{BTreeSet, HashSet};

use crate::config::{self, Config};
use crate::dtype::SourceTensor;
use crate::model_plan::{ModelPlan, OutType, PlanError};

mod llama;
mod names;
mod parameters;
mod table;

pub use table::Architecture;

/// Every architecture that can be converted.
pub const ARCHITECTURES: &[Architecture] = &[llama::ARCHITECTURE];

/// Makes the plan of a conversion.
///
/// `sources` are the checkpoint's tensors in the order in which they are written.
///
/// # Errors
/// [`PlanError`], which names the field or tensor.
pub fn plan(config: &Config, sources: &[SourceTensor], ty: OutType) -> Result<ModelPlan, PlanError> {
    let architecture = of_checkpoint(config)?;
    if let Some(method) = quantization_of(config)? {
        return Err(PlanError::Quantized(method));
    }
    let ty = ty.resolve(sources);
    let mut plan = ModelPlan {
        architecture: architecture.name,
        ty,
        parameters: Vec::new(),
        tensors: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
    };
    (architecture.plan)(config, sources, &mut plan)?;
    let mut names = HashSet::with_capacity(plan.tensors.len());
    for tensor in &plan.tensors {
        if !names.insert(tensor.name.as_slice()) {
            return Err(PlanError::Duplicate { name: tensor.shown() });
        }
    }
    Ok(plan)
}

/// The method with which a checkpoint's weights are packed, where `config.json` says that they are.
fn quantization_of(config: &Config) -> Result<Option<String>, config::Error> {
    const FIELD: &str = "quantization_config";
    if config.fields().find(&[FIELD]).is_none() {
        return Ok(None);
    }
    let inner = config::Fields::inner(config.hparams().get(FIELD), FIELD)?;
    Ok(Some(inner.str(&["quant_method"])?.unwrap_or("unnamed").to_owned()))
}

/// The architecture of a checkpoint.
///
/// # Errors
/// When `config.json` names none, or one that is not in the list.
pub fn of_checkpoint(config: &Config) -> Result<&'static Architecture, PlanError> {
    let class = config.architecture()?;
    let found = ARCHITECTURES.iter().find(|a| a.classes.contains(&class));
    found.ok_or_else(|| {
        let supported: BTreeSet<&str> = ARCHITECTURES.iter().flat_map(|a| a.classes).copied().collect();
        PlanError::UnsupportedArchitecture { class: class.to_owned(), supported: supported.into_iter().collect() }
    })
}
