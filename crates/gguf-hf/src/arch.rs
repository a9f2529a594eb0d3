//! Plans a conversion from the architecture tables (`gguf_model::arch`) and the configuration of a checkpoint.

use std::collections::{BTreeSet, HashSet};

use gguf_format::GgmlType;
use gguf_format::sort::CompactSort as _;
use gguf_model::arch::{self, Architecture, Checkpoint};
use gguf_pipeline::plan::Op;

use crate::config::Config;
use crate::dtype::SourceTensor;
use crate::facts::Fact;
use crate::formula::{self, Fields};
use crate::model_plan::{ModelPlan, Mtp, OutType, PlanError};
use crate::warning::ArchitectureWarning;

mod blocks;
#[allow(clippy::cast_possible_truncation, reason = "numbers of configurations are rounded as in Python")]
pub(crate) mod computed;
#[cfg(test)]
mod effort;
mod formulas;
#[allow(clippy::cast_possible_truncation, reason = "numbers of configurations are rounded as in Python")]
pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod rows;
pub(crate) mod slot;
#[cfg(test)]
mod table_formulas;
#[cfg(test)]
mod tables;
mod tensors;
#[cfg(test)]
mod tests;

/// Plans a conversion.
///
/// `sources` are the checkpoint's tensors in output order.
///
/// # Errors
/// [`PlanError`], which names the field or tensor.
pub fn plan(config: &Config, sources: &[SourceTensor], ty: OutType) -> Result<ModelPlan, PlanError> {
    let (_, checkpoint) = of_checkpoint(config)?;
    let resolved = ty.resolve(&names::taken(checkpoint, sources));
    let stored = Stored { asked: ty, ty: resolved, file_type: None, as_q8: &[] };
    plan_parts(config, sources, stored, Scope::Model)
}

/// Settings that depend on the stored tensors, including packed weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a> {
    /// The requested type.
    pub(crate) asked: OutType,
    /// The type of ordinary matrices.
    pub(crate) ty: GgmlType,
    /// `general.file_type`, if packed weights determine it.
    pub(crate) file_type: Option<u32>,
    /// Tensors whose matrices become Q8_0 regardless of `ty`, as ascending indices.
    pub(crate) as_q8: &'a [usize],
}

/// The part of a model that a plan covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All tensors that the architecture needs.
    Model,
    /// The tensors that are present.
    #[cfg(test)]
    Parts,
    /// No tensors: only key-values.
    Keys,
    /// All tensors that an image or audio encoder needs.
    Tower,
    /// The tensors that an adapter changes: nothing is computed, and keys only determine tensor sizes.
    Adapter,
}

/// Plans the part `scope` of a conversion.
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
    let facts = &mut plan.fields.facts;
    facts.set(Fact::FileType, file_type);
    facts.set(Fact::AppendedBlocks, names::n_appended(checkpoint, sources));
    for (fact, pattern) in checkpoint.facts.present {
        let is_there = sources.iter().any(|source| names::matches(pattern, &source.name));
        facts.set_named(fact, is_there);
    }
    let shape_of = |pattern: &str| {
        let found = sources.iter().find(|source| names::matches(pattern, &source.name));
        found.map_or(&[][..], |source| source.shape.as_slice())
    };
    if scope != Scope::Keys {
        for (fact, pattern) in checkpoint.facts.row_lens {
            facts.set_named(fact, shape_of(pattern).last().copied());
        }
    }
    for (fact, pattern) in checkpoint.facts.row_counts {
        facts.set_named(fact, shape_of(pattern).first().copied());
    }
    if checkpoint.tokenizer.trims_embeddings {
        trim(sources, &mut plan.fields);
    }
    let asked = Mtp::of(&plan.fields);
    if asked != Mtp::Included && !checkpoint.separates_mtp {
        return Err(PlanError::NotSeparate { architecture: plan.architecture, asked });
    }
    if asked == Mtp::Only && checkpoint.keeps_main_blocks {
        plan.warnings.push(ArchitectureWarning::OnlyMtp { architecture: plan.architecture });
    }
    for (formula, what) in checkpoint.refuse {
        if formulas::condition_holds(formula, what, &plan.fields)? {
            let is_about_next = asked != Mtp::Included && formula::reads(formula, Fact::Mtp);
            return Err(match is_about_next {
                true => PlanError::NotSeparate { architecture: plan.architecture, asked },
                false => PlanError::Refused { architecture: plan.architecture, what },
            });
        }
    }
    if is_tower && !sources.iter().any(|source| names::of_text_model(checkpoint, &[], &source.name).is_ok()) {
        return Err(PlanError::NoTower);
    }
    keys::parameters(checkpoint, scope, &mut plan)?;
    if scope == Scope::Keys {
        return Ok(plan);
    }
    if scope != Scope::Adapter {
        computed::add(checkpoint, &mut plan)?;
    }
    let added = tensors::add(architecture, checkpoint, sources, scope == Scope::Model || is_tower, &mut plan);
    added.map_err(|e| e.with_fields(|key| keys::fields_of(key, checkpoint, &plan.fields)))?;
    if scope == Scope::Adapter {
        plan.tensors.retain(|tensor| !matches!(tensor.op, Op::Computed(_)));
    }

    let mut names = HashSet::with_capacity(plan.tensors.len());
    for tensor in &plan.tensors {
        if !names.insert(&*tensor.name) {
            return Err(PlanError::Duplicate { name: tensor.shown() });
        }
    }
    Ok(plan)
}

/// Sets the fact `vocab.rows`, which patterns of embeddings use: the number of tokens, `vocab.tokens`, limited to the rows of the embedding
/// matrix.
fn trim(sources: &[SourceTensor], fields: &mut Fields) {
    let embeddings = sources.iter().find(|source| source.name.ends_with("embed_tokens.weight"));
    let rows = embeddings.and_then(|source| source.shape.first().copied()).unwrap_or(u64::MAX);
    let tokens = fields.number("@vocab.tokens").unwrap_or(u64::MAX);
    fields.facts.set(Fact::Vocab, serde_json::json!({ "rows": rows.min(tokens) }));
}

/// The `general.file_type` for a tensor type (`enum llama_ftype` in `llama.h`).
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

/// The architecture of a checkpoint, and its table.
///
/// ```
/// use gguf_hf::PlanError;
/// use gguf_hf::config::Config;
/// use serde_json::json;
///
/// let config = Config::new(json!({"architectures": ["Qwen2ForCausalLM"]}))?;
/// let (architecture, checkpoint) = gguf_hf::arch::of_checkpoint(&config)?;
/// assert_eq!(checkpoint.architecture(architecture), "qwen2");
///
/// let unknown = Config::new(json!({"architectures": ["Qwen2ForCausal"]}))?;
/// let error = gguf_hf::arch::of_checkpoint(&unknown).unwrap_err();
/// assert!(matches!(error, PlanError::UnsupportedArchitecture { .. }));
/// # Ok::<(), PlanError>(())
/// ```
///
/// # Errors
/// If `config.json` names no class, or an unsupported one.
pub fn of_checkpoint(config: &Config) -> Result<(&'static Architecture, &'static Checkpoint), PlanError> {
    let class = config.architecture()?;
    let fields = keys::fields(config).unwrap_or_else(|_| raw_fields(config));
    for (architecture, checkpoint) in arch::all_of_class(class) {
        if formulas::condition_holds(checkpoint.when, checkpoint.architecture(architecture), &fields)? {
            return Ok((architecture, checkpoint));
        }
    }
    let supported: BTreeSet<&str> = supported().flat_map(|(_, checkpoint)| checkpoint.classes).copied().collect();
    Err(PlanError::UnsupportedArchitecture { class: class.to_owned(), supported: nearest(class, &supported) })
}

/// The image or audio encoder of a checkpoint, whose configuration is [`Config::tower`].
///
/// # Errors
/// If `config.json` names no class, or one without a supported encoder.
pub fn of_tower(config: &Config) -> Result<(&'static Architecture, &'static Checkpoint), PlanError> {
    let class = config.architecture()?;
    let fields = raw_fields(config);
    for (architecture, checkpoint) in arch::towers_of_class(class) {
        if formulas::condition_holds(checkpoint.when, "clip", &fields)? {
            return Ok((architecture, checkpoint));
        }
    }
    let supported: BTreeSet<&str> = supported_towers().flat_map(|checkpoint| checkpoint.classes).copied().collect();
    Err(PlanError::UnsupportedTower { class: class.to_owned(), supported: nearest(class, &supported) })
}

/// The fields of a configuration, and no others.
pub(crate) fn raw_fields(config: &Config) -> Fields {
    Fields {
        fields: config.hparams().as_object().cloned().unwrap_or_default(),
        facts: config.facts().clone(),
        n_blocks: 0,
    }
}

/// The tables of image and audio encoders.
pub fn supported_towers() -> impl Iterator<Item = &'static Checkpoint> {
    arch::TOWERS.iter().flat_map(|arch| arch.checkpoints)
}

/// The projector types that a table of [`supported_towers`] writes: one, or one for images and one for sound, separated by a comma.
pub fn projector_type(checkpoint: &Checkpoint) -> String {
    let keys = checkpoint.keys.iter().copied().flatten();
    let types = keys.filter(|row| row.key.ends_with("projector_type")).map(|row| row.formula.trim_matches('\''));
    types.collect::<Vec<_>>().join(", ")
}

/// All supported architectures, with their checkpoint classes.
pub fn supported() -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    arch::ARCHITECTURES.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)))
}

/// The supported classes with the names most similar to `class`.
fn nearest(class: &str, classes: &BTreeSet<&'static str>) -> Vec<&'static str> {
    const SHOWN: usize = 5;
    let pairs = |name: &str| {
        let lower = name.to_lowercase();
        lower.as_bytes().windows(2).map(<[u8]>::to_vec).collect::<BTreeSet<_>>()
    };
    let of_class = pairs(class.split("For").next().unwrap_or(class));
    let similarity = |name: &str| {
        let other = pairs(name.split("For").next().unwrap_or(name));
        let both = of_class.intersection(&other).count() as f64;
        2.0 * both / (of_class.len() + other.len()).max(1) as f64
    };
    let mut sorted: Vec<&str> = classes.iter().copied().collect();
    sorted.compact_sort_by(|a, b| similarity(b).total_cmp(&similarity(a)));
    sorted.truncate(SHOWN);
    sorted
}
