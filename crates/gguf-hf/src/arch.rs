//! The plan of a conversion, from the tables of the architecture (`gguf_model::arch`) and the configuration of a checkpoint.

use std::collections::{BTreeSet, HashSet};

use gguf_format::GgmlType;
use gguf_model::arch::{self, Architecture, Checkpoint};
use gguf_pipeline::plan::Op;

use crate::config::Config;
use crate::dtype::SourceTensor;
use crate::formula::Fields;
use crate::model_plan::{ModelPlan, NextTokens, OutType, PlanError};

mod blocks;
mod computed;
pub(crate) mod keys;
pub(crate) mod names;
#[cfg(test)]
mod tables;
mod tensors;
#[cfg(test)]
mod tests;

/// Makes the plan of a conversion.
///
/// `sources` are the checkpoint's tensors in the order in which they are written.
///
/// # Errors
/// [`PlanError`], which names the field or tensor.
pub fn plan(config: &Config, sources: &[SourceTensor], ty: OutType) -> Result<ModelPlan, PlanError> {
    let stored = Stored { asked: ty, ty: ty.resolve(sources), file_type: None, as_q8: &[] };
    plan_parts(config, sources, stored, Scope::Whole)
}

/// What the stored tensors decide, which packed weights are among.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a> {
    /// The type that is asked for.
    pub(crate) asked: OutType,
    /// The type of ordinary matrices.
    pub(crate) ty: GgmlType,
    /// `general.file_type`, where packed weights decide it.
    pub(crate) file_type: Option<u32>,
    /// Tensors, by number in ascending order, whose matrices become Q8_0 whatever the type of ordinary ones.
    pub(crate) as_q8: &'a [usize],
}

/// How much of a model a plan is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All tensors that the architecture needs.
    Whole,
    /// Those that there are.
    Parts,
    /// All tensors that an encoder of images or sound needs.
    Tower,
    /// The tensors that an adapter changes: nothing is computed, and keys only tell the sizes of tensors.
    Adapter,
}

/// As [`plan`], of as much of a model as `scope` says.
pub(crate) fn plan_parts(
    config: &Config,
    sources: &[SourceTensor],
    stored: Stored<'_>,
    scope: Scope,
) -> Result<ModelPlan, PlanError> {
    let is_tower = scope == Scope::Tower;
    let (architecture, checkpoint) = if is_tower { of_tower(config)? } else { of_checkpoint(config)? };
    let mut plan = ModelPlan {
        architecture: checkpoint.architecture(architecture),
        ty: stored.ty,
        as_q8: stored.as_q8.to_vec(),
        zero: Vec::new(),
        early: Vec::new(),
        parameters: Vec::new(),
        tensors: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        fields: if is_tower { raw_fields(config) } else { keys::fields(config)? },
        checkpoint,
    };
    let file_type = file_type(stored);
    plan.fields.fields.insert("file_type".to_owned(), file_type.into());
    plan.fields.fields.insert("appended_blocks".to_owned(), names::n_appended(checkpoint, sources).into());
    for (field, pattern) in checkpoint.present {
        let is_there = sources.iter().any(|source| names::matches(pattern, &source.name));
        plan.fields.fields.insert((*field).to_owned(), is_there.into());
    }
    for (field, pattern) in checkpoint.row_lens {
        let row_len = sources.iter().find(|s| names::matches(pattern, &s.name)).and_then(|source| source.shape.last());
        plan.fields.fields.insert((*field).to_owned(), row_len.copied().into());
    }
    if checkpoint.trims_embeddings {
        trim(sources, &mut plan.fields);
    }
    if NextTokens::of(&plan.fields) != NextTokens::Included && !checkpoint.separates_next_tokens {
        let what = "a file without, or of only, the blocks that predict further tokens";
        return Err(PlanError::Refused { architecture: plan.architecture, what });
    }
    for (formula, what) in checkpoint.refuse {
        if tensors::condition_holds(formula, what, &plan.fields)? {
            return Err(PlanError::Refused { architecture: plan.architecture, what });
        }
    }
    if is_tower && !sources.iter().any(|source| names::of_text_model(checkpoint, &[], &source.name).is_ok()) {
        return Err(PlanError::NoTower);
    }
    keys::parameters(checkpoint, scope, &mut plan)?;
    if scope != Scope::Adapter {
        computed::add(checkpoint, &mut plan)?;
    }
    tensors::add(architecture, checkpoint, sources, scope == Scope::Whole || is_tower, &mut plan)?;
    if scope == Scope::Adapter {
        plan.tensors.retain(|tensor| !matches!(tensor.op, Op::Computed(_)));
    }

    let mut names = HashSet::with_capacity(plan.tensors.len());
    for tensor in &plan.tensors {
        if !names.insert(tensor.name.as_slice()) {
            return Err(PlanError::Duplicate { name: tensor.shown() });
        }
    }
    Ok(plan)
}

/// Sets the field `vocab.rows` that patterns of embeddings use: as many rows as there are tokens, which is the field `vocab.tokens`, but no
/// more than there are.
fn trim(sources: &[SourceTensor], fields: &mut Fields) {
    let embeddings = sources.iter().find(|source| source.name.ends_with("embed_tokens.weight"));
    let rows = embeddings.and_then(|source| source.shape.first().copied()).unwrap_or(u64::MAX);
    let tokens = fields.number("vocab.tokens").unwrap_or(u64::MAX);
    fields.fields.insert("vocab".to_owned(), serde_json::json!({ "rows": rows.min(tokens) }));
}

/// `general.file_type` of a file of that type (`enum llama_ftype` in `llama.h`).
fn file_type(Stored { asked, ty, file_type, .. }: Stored<'_>) -> u32 {
    if let Some(number) = file_type {
        return number;
    }
    match (asked, ty) {
        (OutType::Q8_0, _) => 7,
        (OutType::TQ1_0, _) => 36,
        (OutType::TQ2_0, _) => 37,
        (_, GgmlType::F32) => 0,
        (_, GgmlType::BF16) => 32,
        _ => 1,
    }
}

/// The architecture of a checkpoint, and how it becomes that.
///
/// # Errors
/// When `config.json` names none, or one that is not in the list.
pub fn of_checkpoint(config: &Config) -> Result<(&'static Architecture, &'static Checkpoint), PlanError> {
    let class = config.architecture()?;
    let fields = keys::fields(config).unwrap_or_else(|_| raw_fields(config));
    for (architecture, checkpoint) in arch::all_of_class(class) {
        if tensors::condition_holds(checkpoint.when, checkpoint.architecture(architecture), &fields)? {
            return Ok((architecture, checkpoint));
        }
    }
    let supported: BTreeSet<&str> = supported().flat_map(|(_, checkpoint)| checkpoint.classes).copied().collect();
    Err(PlanError::UnsupportedArchitecture { class: class.to_owned(), supported: nearest(class, &supported) })
}

/// The encoder of images or sound of a checkpoint, whose configuration is that of [`Config::tower`].
///
/// # Errors
/// When `config.json` names no class, or one whose encoders are not in the list.
pub fn of_tower(config: &Config) -> Result<(&'static Architecture, &'static Checkpoint), PlanError> {
    let class = config.architecture()?;
    let fields = raw_fields(config);
    for (architecture, checkpoint) in arch::towers_of_class(class) {
        if tensors::condition_holds(checkpoint.when, "clip", &fields)? {
            return Ok((architecture, checkpoint));
        }
    }
    let supported: BTreeSet<&str> = supported_towers().flat_map(|checkpoint| checkpoint.classes).copied().collect();
    Err(PlanError::UnsupportedTower { class: class.to_owned(), supported: nearest(class, &supported) })
}

fn raw_fields(config: &Config) -> Fields {
    Fields { fields: config.hparams().as_object().cloned().unwrap_or_default(), n_blocks: 0 }
}

/// How encoders of images and sound are converted.
pub fn supported_towers() -> impl Iterator<Item = &'static Checkpoint> {
    arch::TOWERS.iter().flat_map(|arch| arch.checkpoints)
}

/// The type of the projector that a table of [`supported_towers`] writes.
pub fn projector_type(checkpoint: &Checkpoint) -> &'static str {
    let mut keys = checkpoint.keys.iter().copied().flatten();
    let row = keys.find(|row| row.key == "clip.projector_type");
    row.map_or("", |row| row.formula.trim_matches('\''))
}

/// Every architecture that can be converted, with the classes of checkpoints that become it.
pub fn supported() -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    arch::ARCHITECTURES.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)))
}

/// The classes whose names resemble `class` most.
fn nearest(class: &str, classes: &BTreeSet<&'static str>) -> Vec<&'static str> {
    const SHOWN: usize = 5;
    let pairs = |name: &str| {
        let lower = name.to_lowercase();
        lower.as_bytes().windows(2).map(<[u8]>::to_vec).collect::<BTreeSet<_>>()
    };
    let of_class = pairs(class.split("For").next().unwrap_or(class));
    let likeness = |name: &str| {
        let other = pairs(name.split("For").next().unwrap_or(name));
        let both = of_class.intersection(&other).count() as f64;
        2.0 * both / (of_class.len() + other.len()).max(1) as f64
    };
    let mut sorted: Vec<&str> = classes.iter().copied().collect();
    sorted.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    sorted.truncate(SHOWN);
    sorted
}
