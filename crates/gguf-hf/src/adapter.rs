//! LoRA adapters in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors` or `.bin` become a GGUF adapter.
//!
//! An adapter does not record its architecture. The name of each matrix identifies a tensor of the base model, whose `config.json` selects
//! the architecture's table row for it; the row's transformation is applied to both factors ([`factors`]). The rules follow
//! `convert_lora_to_gguf.py` of llama.cpp, and also cover rank-stabilized scaling, patterns of alpha, and transposed matrices, which that
//! script ignores.

mod factors;
pub(crate) mod problem;
mod settings;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use gguf_format::{Array, GgmlType, ValueRef, ValueType};
use gguf_pipeline::plan::{Op, Reason, TensorPlan};

use self::factors::{Factor, Obstacle, Pair};
use self::problem::AdapterProblem;
use self::settings::Settings;
use crate::arch::{self, Scope, Stored};
use crate::checkpoint::Checkpoint;
use crate::config_file::config_of;
use crate::conversion::{Conversion, OutputKind};
use crate::documents::Documents;
use crate::dtype::{Dtype, SourceTensor};
use crate::error::Error;
use crate::folder::Folder;
use crate::key_values::KeyValues;
use crate::metadata::{self, MetadataOptions, ParameterCounts};
use crate::model_plan::{OutType, PlanError, Skipped, asked_type, float_input};
use crate::options::Options;
use crate::output::{QUANTIZATION_VERSION, check_planned_head, lay_out};
use crate::warning::{AdapterWarning, Warning};

/// The name of the weights file.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// Returns whether a folder holds an adapter: it has an `adapter_config.json` and no model.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn is_adapter(dir: &Documents<'_>) -> Result<bool, Error> {
    Ok(dir.has(settings::FILE)? && !crate::checkpoint::has_model(dir)?)
}

/// Plans the conversion of the adapter in `dir`.
pub(crate) fn plan(dir: &Documents<'_>, base: Option<&dyn Folder>, options: &Options) -> Result<Conversion, Error> {
    let fail = |file: &str, source| Error::Adapter { path: dir.path().join(file), source };
    let document = dir.json_or_null(settings::FILE)?;
    let settings = Settings::new(&document).map_err(|problem| fail(settings::FILE, problem))?;
    let base = base.map(|base| Documents::new(base));
    let base = match &base {
        Some(base) => base,
        None if dir.has("config.json")? => dir,
        None => return Err(fail(settings::FILE, AdapterProblem::NoBase { named: settings::base_of(&document) })),
    };
    let config = config_of(base)?;
    let mut weights = None;
    for name in WEIGHTS {
        if weights.is_none() && dir.has(name)? {
            weights = Some(name);
        }
    }
    let Some(weights) = weights else {
        let found = crate::checkpoint::other_weights(dir);
        return Err(Error::Adapter { path: dir.path().to_owned(), source: AdapterProblem::NoWeights { found } });
    };
    let mut checkpoint = Checkpoint::open_file(dir, weights)?;
    if weights == WEIGHTS[0] {
        checkpoint.sort_by_data();
    }
    let in_weights = |problem| fail(weights, problem);
    let plan_of = |source: PlanError| match source.tensor() {
        Some(_) => Error::Plan { path: dir.path().join(weights), source },
        None => Error::Plan { path: base.path().to_owned(), source },
    };
    let ty = match options.ty {
        OutType::Auto => GgmlType::F32,
        ty => ty.resolve(checkpoint.tensors()),
    };
    if matches!(options.ty, OutType::TQ1_0 | OutType::TQ2_0) {
        return Err(Error::Adapter { path: dir.path().to_owned(), source: AdapterProblem::Type(ty) });
    }
    let matrices = matrices(checkpoint.tensors(), &settings).map_err(in_weights)?;
    let sources: Vec<SourceTensor> = matrices.iter().map(|matrix| matrix.source.clone()).collect();
    let stored = Stored { asked: options.ty, ty: options.ty.resolve(&sources), file_type: None, as_q8: &[] };
    let model = arch::plan_parts(&config, &sources, stored, Scope::Adapter).map_err(plan_of)?;
    let mut warnings = Vec::new();
    if let Some(unused) = model.skipped.iter().find(|skipped| skipped.name == HEAD) {
        let (tensor, reason) = (unused.name.clone(), unused.reason);
        return Err(in_weights(AdapterProblem::Unused { tensor, reason }));
    }

    let mut tensors = Vec::new();
    for planned in &model.tensors {
        let pairs: Option<Result<Vec<Pair>, PlanError>> = planned
            .op
            .inputs()
            .iter()
            .map(|input| matrices.get(input.index())?.pair(checkpoint.tensors(), &settings))
            .collect();
        let name = planned.shown();
        let Some(pairs) = pairs else {
            // Without factors: only norms are supported.
            if planned.shape.len() != 1 || !name.ends_with("_norm.weight") {
                let tensor = planned.op.inputs().first().map_or(name, |input| input.name.to_string());
                return Err(in_weights(AdapterProblem::Unexpected { tensor }));
            }
            let op = real(&planned.op, &matrices);
            let mut norm = planned.clone();
            norm.origin_mut().op = op;
            norm.ty = GgmlType::F32;
            tensors.push(norm);
            warnings.push(Warning::Adapter(AdapterWarning::Norm { name }));
            continue;
        };
        let pairs = pairs.map_err(plan_of)?;
        let is_embedding = name.ends_with("token_embd.weight");
        let (first, second) = factors::apply(&planned.op, &planned.shape, &pairs, is_embedding).map_err(|obstacle| {
            let why = match obstacle {
                Obstacle::Operation => "the conversion of the base model takes the matrix apart in a way that its factors cannot follow",
                Obstacle::Ranks => "the matrices that are stacked have different ranks",
                Obstacle::Formats => "the matrices that are stacked have different number formats",
            };
            in_weights(AdapterProblem::NotAProduct { name: name.clone(), why })
        })?;
        for (suffix, (shape, op)) in [(".lora_a", first), (".lora_b", second)] {
            let (ty, reason) = if shape.len() < 2 { (GgmlType::F32, Reason::Vector) } else { asked_type(&shape, ty) };
            let name = format!("{name}{suffix}");
            tensors.push(TensorPlan::new(name, shape, ty, reason, op).at(planned.place));
        }
    }
    if config.hparams().get("tie_word_embeddings").is_some_and(|tied| *tied == true)
        && tensors.iter().any(|tensor| tensor.name.starts_with(b"output.weight."))
    {
        warnings.push(Warning::Adapter(AdapterWarning::TiedHead));
    }

    let overrides = MetadataOptions {
        model_name: options.name.clone(),
        metadata: options.metadata.clone(),
        ..MetadataOptions::default()
    };
    let metadata = metadata::keys_from(dir, &overrides, &ParameterCounts::of_adapter(&tensors))?;
    let mut kvs = KeyValues::default();
    kvs.set("general.architecture", model.architecture);
    kvs.set("general.type", "adapter");
    kvs.set("adapter.type", "lora");
    for (key, value) in metadata.kvs.iter().filter(|(key, _)| key != "general.type").cloned() {
        kvs.set(key, value);
    }
    kvs.set("adapter.lora.alpha", settings.alpha);
    if !settings.invocation.is_empty() {
        let mut tokens = Array::new(ValueType::U32);
        for id in &settings.invocation {
            // The type matches, and the array is short.
            let pushed = tokens.push(ValueRef::U32(*id));
            debug_assert!(pushed.is_ok());
        }
        kvs.set("adapter.alora.invocation_tokens", tokens);
    }
    kvs.set("general.quantization_version", QUANTIZATION_VERSION);
    let paths = checkpoint.paths().map(Path::to_owned).collect();
    let plan = lay_out(dir.path(), dir, kvs, tensors, Arc::new(checkpoint), paths, options)?;
    warnings.extend(metadata.warnings.iter().cloned().map(Warning::Metadata));
    let (n_errors, more) = check_planned_head(&plan, |_| Vec::new())?;
    warnings.extend(more);
    let skipped: Vec<Skipped> = model.skipped;
    let (architecture, next_tokens) = (model.architecture, options.next_tokens);
    let kind = OutputKind::Adapter;
    Ok(Conversion {
        unpacked: Vec::new(),
        plan,
        kind,
        architecture,
        ty,
        skipped,
        warnings,
        n_errors,
        metadata,
        next_tokens,
    })
}

/// The tensor that many models tie to their embeddings.
const HEAD: &str = "lm_head.weight";

/// A matrix that the adapter updates, or a tensor that it replaces.
#[derive(Debug)]
struct Matrix {
    /// The tensor of the base model, with the shape deduced from the adapter.
    source: SourceTensor,
    content: Content,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    /// A replacement tensor, by its index in the file.
    Whole(usize),
    /// The two low-rank factors.
    Factors { first: usize, second: usize, is_transposed: bool },
}

/// Parses the name of an adapter tensor into the name of the base model's tensor, whether this is the second factor, and whether rows and
/// columns are swapped. Returns `None` if the tensor is not a factor.
fn factor_of(name: &str) -> Option<(String, bool, bool)> {
    const ENDINGS: [(&str, bool, bool); 4] = [
        (".lora_A.weight", false, false),
        (".lora_B.weight", true, false),
        (".lora_embedding_A", false, true),
        (".lora_embedding_B", true, true),
    ];
    let (stem, _, is_second, is_transposed) = ENDINGS
        .iter()
        .find_map(|(ending, is_second, flip)| Some((name.strip_suffix(ending)?, ending, *is_second, *flip)))?;
    Some((format!("{stem}.weight"), is_second, is_transposed))
}

/// Lists the adapter's changes: first the replaced tensors, then the matrices in the order of their first factor in the file
/// (`LoraModel.get_tensors`).
fn matrices(tensors: &[SourceTensor], settings: &Settings) -> Result<Vec<Matrix>, AdapterProblem> {
    const ROOT: &str = "base_model.model.";
    let mut pairs: Vec<(String, [Option<usize>; 2], bool)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        let name = tensor.name.replace(ROOT, "");
        if let Some((name, is_second, is_embedding)) = factor_of(&name) {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                pairs.push((name, [None; 2], is_embedding));
                pairs.len() - 1
            });
            if let Some((_, pair, _)) = pairs.get_mut(place)
                && let Some(slot) = pair.get_mut(usize::from(is_second))
            {
                *slot = Some(index);
            }
        } else if name.contains(".base_layer.") {
            // A replacement for the base model's tensor.
        } else if name.contains("lora_magnitude_vector") {
            return Err(AdapterProblem::Unsupported { what: "magnitudes of weights (DoRA)" });
        } else if name.contains("norm") {
            found.push(Matrix { source: SourceTensor { name, ..tensor.clone() }, content: Content::Whole(index) });
        } else {
            return Err(AdapterProblem::Unexpected { tensor: tensor.name.clone() });
        }
    }
    for (name, pair, is_embedding) in pairs {
        let tensor = |index: usize| tensors.get(index).map_or_else(String::new, |tensor| tensor.name.clone());
        let (first, second) = match pair {
            [Some(first), Some(second)] => (first, second),
            [Some(one), None] => return Err(AdapterProblem::Unpaired { tensor: tensor(one), missing: "lora_B" }),
            [None, other] => {
                let tensor = other.map(tensor).unwrap_or_default();
                return Err(AdapterProblem::Unpaired { tensor, missing: "lora_A" });
            }
        };
        let shape = |index: usize| tensors.get(index).map_or(&[][..], |tensor| tensor.shape.as_slice());
        let (&[rank, columns], &[rows, steps]) = (shape(first), shape(second)) else {
            let (first, second, tensor) = (shape(first).to_vec(), shape(second).to_vec(), tensor(first));
            return Err(AdapterProblem::Factors { tensor, first, second });
        };
        if rank != steps || rank == 0 || rows == 0 || columns == 0 {
            let (first, second, tensor) = (shape(first).to_vec(), shape(second).to_vec(), tensor(first));
            return Err(AdapterProblem::Factors { tensor, first, second });
        }
        // Embeddings are stored with one row per token, but their factors describe a matrix with one column per token.
        let is_transposed = is_embedding || settings.is_transposed;
        let shape = if is_transposed { vec![columns, rows] } else { vec![rows, columns] };
        let source = SourceTensor { name, dtype: Dtype::F32, shape };
        found.push(Matrix { source, content: Content::Factors { first, second, is_transposed } });
    }
    Ok(found)
}

impl Matrix {
    /// The factors; `None` for a tensor that the adapter replaces.
    fn pair(&self, tensors: &[SourceTensor], settings: &Settings) -> Option<Result<Pair, PlanError>> {
        let Content::Factors { first, second, is_transposed } = self.content else { return None };
        let (a, b) = (tensors.get(first)?, tensors.get(second)?);
        let (&[rank, a_columns], &[b_rows, _]) = (a.shape.as_slice(), b.shape.as_slice()) else { return None };
        let module = self.source.name.strip_suffix(".weight").unwrap_or(&self.source.name);
        let inputs = float_input(first, a).and_then(|a| Ok((a, float_input(second, b)?)));
        Some(inputs.map(|(a, b)| {
            let a = Factor { input: a, stride: 1, rank_stride: a_columns };
            let b = Factor { input: b, stride: rank, rank_stride: 1 };
            let (rows, columns, n_columns) = if is_transposed { (a, b, b_rows) } else { (b, a, a_columns) };
            Pair { columns, rows, n_columns, rank, scale: settings.scale_of(module, rank) }
        }))
    }
}

/// An operation on replacement tensors, given their indices in the file.
fn real(op: &Op, matrices: &[Matrix]) -> Op {
    let mut op = op.clone();
    for input in op.inputs_mut() {
        if let Some(Content::Whole(index)) = matrices.get(input.index()).map(|matrix| matrix.content) {
            input.set_index(index);
        }
    }
    op
}
