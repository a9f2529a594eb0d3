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

use gguf_format::GgmlType;
use gguf_pipeline::plan::{Op, Reason, TensorPlan};

use self::factors::{Factor, Obstacle, Pair};
use self::problem::AdapterProblem;
use self::settings::Settings;
use crate::arch::{self, Scope, Stored};
use crate::checkpoint::TensorFiles;
use crate::config::Config;
use crate::config_file::{CONFIG, config_of};
use crate::conversion::OutputKind;
use crate::documents::Documents;
use crate::dtype::{Dtype, SourceTensor};
use crate::error::Error;
use crate::key_values::KeyValues;
use crate::metadata::{self, MetadataOptions, ParameterCounts};
use crate::model_plan::{OutType, PlanError, asked_type, float_input};
use crate::output::QUANTIZATION_VERSION;
use crate::request::Request;
use crate::strategy::{Keys, Strategy, TensorPlans};
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

/// The settings, the configuration of the base model and the tensor heads of an adapter.
#[derive(Debug)]
pub(crate) struct Adapter {
    settings: Settings,
    config: Config,
    /// The name of the weights file.
    weights: &'static str,
    checkpoint: TensorFiles,
}

impl Strategy for Adapter {
    const KIND: OutputKind = OutputKind::Adapter;
    type Planned = Settings;

    fn read(request: &Request<'_>, _: Option<TensorFiles>) -> Result<Adapter, Error> {
        let files = &request.files;
        let fail = |source| Error::Adapter { path: files.path().join(settings::FILE), source };
        let document = files.json_or_null(settings::FILE)?;
        let settings = Settings::new(&document).map_err(fail)?;
        if request.base.is_none() && !files.has(CONFIG)? {
            return Err(fail(AdapterProblem::NoBase { named: settings::base_of(&document) }));
        }
        let config = config_of(base_of(request))?;
        let mut found = None;
        for name in WEIGHTS {
            if found.is_none() && files.has(name)? {
                found = Some(name);
            }
        }
        let Some(weights) = found else {
            let found = crate::checkpoint::other_weights(files);
            return Err(Error::Adapter { path: files.path().to_owned(), source: AdapterProblem::NoWeights { found } });
        };
        let mut checkpoint = TensorFiles::open_file(files, weights)?;
        if weights == WEIGHTS[0] {
            checkpoint.sort_by_data();
        }
        Ok(Adapter { settings, config, weights, checkpoint })
    }

    /// The rows of the base model apply with the facts of its configuration.
    fn add_facts(&mut self, _: &Request<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn plan_tensors(self, request: &Request<'_>) -> Result<(TensorPlans, Settings), Error> {
        let (files, asked) = (&request.files, request.options.ty);
        let Adapter { settings, config, weights, checkpoint } = self;
        let in_weights = |source| Error::Adapter { path: files.path().join(weights), source };
        let of_plan = |source: PlanError| match source.tensor() {
            Some(_) => Error::Plan { path: files.path().join(weights), source },
            None => Error::Plan { path: base_of(request).path().to_owned(), source },
        };
        let ty = match asked {
            OutType::Auto => GgmlType::F32,
            ty => ty.resolve(checkpoint.tensors()),
        };
        if matches!(asked, OutType::TQ1_0 | OutType::TQ2_0) {
            return Err(Error::Adapter { path: files.path().to_owned(), source: AdapterProblem::Type(ty) });
        }
        let matrices = matrices(checkpoint.tensors(), &settings).map_err(in_weights)?;
        let sources: Vec<SourceTensor> = matrices.iter().map(|matrix| matrix.source.clone()).collect();
        let stored = Stored { asked, ty: asked.resolve(&sources), file_type: None, as_q8: &[] };
        let model = arch::plan_parts(&config, &sources, stored, Scope::Adapter).map_err(of_plan)?;
        if let Some(unused) = model.skipped.iter().find(|skipped| skipped.name == HEAD) {
            let (tensor, reason) = (unused.name.clone(), unused.reason);
            return Err(in_weights(AdapterProblem::Unused { tensor, reason }));
        }

        let (mut tensors, mut warnings) = (Vec::new(), Vec::new());
        for planned in &model.tensors {
            match pairs_of(planned, &matrices, checkpoint.tensors(), &settings) {
                Some(pairs) => tensors.extend(factors(planned, &pairs.map_err(of_plan)?, ty).map_err(in_weights)?),
                None => {
                    tensors.push(replacement(planned, &matrices).map_err(in_weights)?);
                    warnings.push(Warning::Adapter(AdapterWarning::Norm { name: planned.shown() }));
                }
            }
        }
        if config.hparams().get("tie_word_embeddings").is_some_and(|tied| *tied == true)
            && tensors.iter().any(|tensor| tensor.name.starts_with(b"output.weight."))
        {
            warnings.push(Warning::Adapter(AdapterWarning::TiedHead));
        }
        let tensors = TensorPlans {
            architecture: model.architecture,
            ty,
            tensors,
            skipped: model.skipped,
            unpacked: Vec::new(),
            warnings,
            paths: checkpoint.paths().map(Path::to_owned).collect(),
            source: Arc::new(checkpoint),
        };
        Ok((tensors, settings))
    }

    fn keys(request: &Request<'_>, tensors: &TensorPlans, settings: Settings) -> Result<Keys, Error> {
        let overrides = MetadataOptions {
            model_name: request.options.name.clone(),
            metadata: request.options.metadata.clone(),
            ..MetadataOptions::default()
        };
        let counts = ParameterCounts::of_adapter(&tensors.tensors);
        let metadata = metadata::keys_from(&request.files, &overrides, &counts)?;
        let mut kvs = KeyValues::default();
        kvs.set("general.architecture", tensors.architecture);
        kvs.set("general.type", "adapter");
        kvs.set("adapter.type", "lora");
        for (key, value) in metadata.kvs.iter().filter(|(key, _)| key != "general.type").cloned() {
            kvs.set(key, value);
        }
        kvs.set("adapter.lora.alpha", settings.alpha);
        kvs.u32s("adapter.alora.invocation_tokens", &settings.invocation);
        kvs.set("general.quantization_version", QUANTIZATION_VERSION);
        let warnings = metadata.warnings.iter().cloned().map(Warning::Metadata).collect();
        Ok(Keys { kvs, metadata, warnings, table: None })
    }
}

/// The files of the base model: of its own folder if it is given, otherwise of the adapter's.
fn base_of<'a>(request: &'a Request<'a>) -> &'a Documents<'a> {
    request.base.as_ref().unwrap_or(&request.files)
}

/// The factors of the matrices from which an output tensor is made; `None` for a tensor without factors.
fn pairs_of(
    planned: &TensorPlan,
    matrices: &[Matrix],
    tensors: &[SourceTensor],
    settings: &Settings,
) -> Option<Result<Vec<Pair>, PlanError>> {
    let inputs = planned.op.inputs();
    inputs.iter().map(|input| matrices.get(input.index())?.pair(tensors, settings)).collect()
}

/// The two output tensors whose product is the change of a planned tensor.
fn factors(planned: &TensorPlan, pairs: &[Pair], ty: GgmlType) -> Result<[TensorPlan; 2], AdapterProblem> {
    let name = planned.shown();
    let is_embedding = name.ends_with("token_embd.weight");
    let product = factors::apply(&planned.op, &planned.shape, pairs, is_embedding).map_err(|obstacle| {
        let why = match obstacle {
            Obstacle::Operation => {
                "the conversion of the base model takes the matrix apart in a way that its factors cannot follow"
            }
            Obstacle::Ranks => "the matrices that are stacked have different ranks",
            Obstacle::Formats => "the matrices that are stacked have different number formats",
        };
        AdapterProblem::NotAProduct { name: name.clone(), why }
    })?;
    let (first, second) = product;
    Ok([(".lora_a", first), (".lora_b", second)].map(|(suffix, (shape, op))| {
        let (ty, reason) = if shape.len() < 2 { (GgmlType::F32, Reason::Vector) } else { asked_type(&shape, ty) };
        TensorPlan::new(format!("{name}{suffix}"), shape, ty, reason, op).at(planned.place)
    }))
}

/// The output tensor for a tensor of the base model that the adapter replaces. Only norms are supported.
fn replacement(planned: &TensorPlan, matrices: &[Matrix]) -> Result<TensorPlan, AdapterProblem> {
    let name = planned.shown();
    if planned.shape.len() != 1 || !name.ends_with("_norm.weight") {
        let tensor = planned.op.inputs().first().map_or(name, |input| input.name.to_string());
        return Err(AdapterProblem::Unexpected { tensor });
    }
    let mut norm = planned.clone();
    norm.origin_mut().op = with_stored_inputs(&planned.op, matrices);
    norm.ty = GgmlType::F32;
    Ok(norm)
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
    Replacement(usize),
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
            found
                .push(Matrix { source: SourceTensor { name, ..tensor.clone() }, content: Content::Replacement(index) });
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

/// An operation whose inputs are replaced tensors, with their indices in the file instead of those of `matrices`.
fn with_stored_inputs(op: &Op, matrices: &[Matrix]) -> Op {
    let mut op = op.clone();
    for input in op.inputs_mut() {
        if let Some(Content::Replacement(index)) = matrices.get(input.index()).map(|matrix| matrix.content) {
            input.set_index(index);
        }
    }
    op
}
