//! Text models, including sentence encoders and draft models.

mod tokenizer_keys;

use std::path::Path;
use std::sync::Arc;

use gguf_format::{Value, keys};
use gguf_model::arch::Checkpoint;
use serde_json::Value as Json;

use self::tokenizer_keys::TokenizerPart;
use crate::arch::{self, Scope};
use crate::checkpoint::{TensorFiles, meta, mistral};
use crate::config::Config;
use crate::config_file::{CONFIG, config_json, read_config};
use crate::conversion::OutputKind;
use crate::dense::{self, DenseModules};
use crate::draft_model;
use crate::error::Error;
use crate::facts::Fact;
use crate::fuse;
use crate::image;
use crate::key_values::KeyValues;
use crate::metadata::{self, MetadataOptions, ParameterCounts};
use crate::model_plan::{ModelPlan, OutType, PlanError};
use crate::output::QUANTIZATION_VERSION;
use crate::packed::{self, Weights};
use crate::peek;
use crate::request::Request;
use crate::strategy::{Keys, Strategy, TensorPlans};
use crate::warning::{ArchitectureWarning, Warning};

/// The layout of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Transformers,
    Meta,
    Mistral,
}

/// The documents and tensor heads of a text model.
#[derive(Debug)]
pub(crate) struct TextModel {
    layout: Layout,
    config: Config,
    /// The table of the class; `None` for an unknown class, which planning the tensors reports.
    table: Option<&'static Checkpoint>,
    /// The configuration of a draft model's target.
    target_config: Option<Json>,
    checkpoint: TensorFiles,
    dense: DenseModules,
    warnings: Vec<ArchitectureWarning>,
}

/// The plan of a text model's tensors and parameters.
#[derive(Debug)]
pub(crate) struct PlannedText {
    model: ModelPlan,
    weights: Arc<Weights>,
    /// Key-values about packed weights.
    packed_keys: Vec<(String, Value)>,
}

impl Strategy for TextModel {
    const KIND: OutputKind = OutputKind::Model;
    type Planned = PlannedText;

    fn read(request: &Request<'_>, checkpoint: Option<TensorFiles>) -> Result<TextModel, Error> {
        let (files, options) = (&request.files, request.options);
        let (layout, document, original) = read_layout(request)?;
        let mut config = read_config(files, document)?;
        // Tables are selected by these facts, too.
        if let Some(name) = options.mtp.name() {
            config.facts_mut().set(Fact::Mtp, name);
        }
        // Formulas select a chat template by the name of the folder.
        let folder = files.path().file_name().map(|name| name.to_string_lossy().into_owned());
        config.facts_mut().set(Fact::Folder, request.name.map(str::to_owned).or(folder));
        // A checkpoint can contain both a model and its draft model.
        config.facts_mut().set(Fact::HasTarget, request.target.is_some());
        let table = arch::of_checkpoint(&config).ok().map(|(_, table)| table);
        let target_config = draft_model::target_config(request, table)?;

        let mut checkpoint = open_weights(request, original.or(checkpoint))?;
        let mut warnings = Vec::new();
        if options.no_community_template && layout != Layout::Mistral {
            warnings.push(ArchitectureWarning::NotMistralLayout);
        }
        let mut dense = DenseModules::default();
        if options.dense_modules {
            if table.is_some_and(|table| table.dense_modules) {
                dense = dense::add(files, &mut checkpoint)?;
            }
            // Dense layers that a table lists are always written.
            let is_none =
                dense.n_tensors == 0 && table.is_none_or(|table| table.dense_modules || table.dense.is_empty());
            warnings.extend(is_none.then_some(ArchitectureWarning::NoDenseModules));
        }
        for (path, before, usual) in table.map_or(&[][..], |table| table.dense) {
            checkpoint.add_first(files, path, before, usual)?;
        }
        Ok(TextModel { layout, config, table, target_config, checkpoint, dense, warnings })
    }

    fn add_facts(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let files = &request.files;
        let facts = self.config.facts_mut();
        if let Some(target) = self.target_config.take() {
            facts.set(Fact::Target, target);
            facts.set(Fact::HasMaskEmbedding, files.has(draft_model::MASK_EMBEDDING)?);
        }
        // Problems become metadata warnings.
        if let Ok(Some(document)) = files.json("generation_config.json") {
            facts.set(Fact::GenerationConfig, (*document).clone());
        }
        for (fact, document) in self.dense.configs.drain(..) {
            facts.set(fact, document);
        }
        match self.table {
            Some(table) => peek::fields(files, &mut self.config, &self.checkpoint, table),
            None => Ok(()),
        }
    }

    fn plan_tensors(self, request: &Request<'_>) -> Result<(TensorPlans, PlannedText), Error> {
        let (files, options) = (&request.files, request.options);
        let TextModel { layout, mut config, table, checkpoint, mut warnings, .. } = self;
        // The stored data determines the type of the matrices, not the decoded values.
        let asked = options.ty;
        let ty = match table {
            Some(table) => asked.resolve(&arch::names::taken(table, checkpoint.tensors())),
            None => asked.resolve(checkpoint.tensors()),
        };
        let method = packed::Method::of(files, &config)?;
        let mut weights = Weights::open(files.path(), checkpoint, &method)?;
        if let Some(table) = table.filter(|table| !table.facts.ids.is_empty()) {
            draft_model::absolute_ids(files.path(), &mut weights, &mut config, table)?;
        }
        let scope = if options.vocab_only { Scope::Keys } else { Scope::Model };
        let is_fp8 = options.fp8_as_q8 && asked != OutType::Lossless;
        let as_q8 = if is_fp8 { weights.scaled_fp8() } else { Vec::new() };
        warnings.extend((is_fp8 && as_q8.is_empty()).then_some(ArchitectureWarning::NoFp8));
        let bare = if options.vocab_only { Vec::new() } else { weights.bare_fp8() };
        warnings.extend((!bare.is_empty()).then_some(ArchitectureWarning::BareFp8 { tensors: bare }));

        let of_tensor = |source: PlanError| weights.error(files.path(), source);
        let file_type = if options.vocab_only { None } else { method.file_type(asked) };
        let stored = arch::Stored { asked, ty, file_type, as_q8: &as_q8 };
        let mut model = arch::plan_parts(&config, weights.tensors(), stored, scope).map_err(of_tensor)?;
        let fusions = [(fuse::GATE_UP_EXPERTS, options.fuse_gate_up_experts), (fuse::QKV, options.fuse_qkv)];
        for (fusion, _) in fusions.into_iter().filter(|(_, is_asked)| *is_asked && !options.vocab_only) {
            fusion.apply(&mut model).map_err(of_tensor)?;
        }
        let packed_keys = weights.complete(&model.fields, &mut model.tensors);
        if layout == Layout::Meta {
            let key = keys::for_arch(keys::TENSOR_DATA_LAYOUT, model.architecture);
            model.parameters.push((key, meta::LAYOUT.into()));
        }
        check_zeros(&model, &weights, files.path())?;

        let weights = Arc::new(weights);
        let warnings = std::mem::take(&mut model.warnings).into_iter().chain(warnings);
        let tensors = TensorPlans {
            architecture: model.architecture,
            ty: model.ty,
            tensors: std::mem::take(&mut model.tensors),
            skipped: std::mem::take(&mut model.skipped),
            unpacked: if options.vocab_only { Vec::new() } else { weights.unpacked().to_vec() },
            warnings: warnings.map(Warning::Architecture).collect(),
            paths: weights.checkpoint().paths().map(Path::to_owned).collect(),
            source: Arc::clone(&weights) as _,
        };
        Ok((tensors, PlannedText { model, weights, packed_keys }))
    }

    fn keys(request: &Request<'_>, tensors: &TensorPlans, planned: PlannedText) -> Result<Keys, Error> {
        let PlannedText { mut model, weights, packed_keys } = planned;
        let overrides = MetadataOptions {
            model_name: request.options.name.clone(),
            metadata: request.options.metadata.clone(),
            folder: request.name.map(str::to_owned),
        };
        let counts = ParameterCounts::of_model(&tensors.tensors);
        let metadata = metadata::keys_from(&request.files, &overrides, &counts)?;
        let TokenizerPart { first, kvs: of_tokenizer, last, warnings: of_tokens } =
            TokenizerPart::new(request, &mut model, |source| weights.error(request.files.path(), source))?;

        let mut kvs = KeyValues::default();
        kvs.set("general.architecture", model.architecture);
        let version = ("general.quantization_version".to_owned(), QUANTIZATION_VERSION.into());
        let general = model.early.into_iter().chain(metadata.kvs.iter().cloned()).chain(model.parameters);
        let general = general.chain([version]).chain(packed_keys);
        for (key, value) in general.chain(first).chain(of_tokenizer).chain(last) {
            kvs.set(key, value);
        }
        let mut warnings: Vec<Warning> = metadata.warnings.iter().cloned().map(Warning::Metadata).collect();
        warnings.extend(of_tokens.into_iter().map(Warning::Tokenizer));
        Ok(Keys { kvs, metadata, warnings, table: Some((model.checkpoint, model.fields)) })
    }
}

/// Reads the configuration, and in the layouts of Meta and Mistral the tensor heads with it.
fn read_layout(request: &Request<'_>) -> Result<(Layout, Json, Option<TensorFiles>), Error> {
    let (files, asks_mistral) = (&request.files, request.options.mistral_format);
    // Meta's layout has no config.json; its fields are derived from the parameters and the tensors.
    let is_part = request.file.is_none_or(|file| file.starts_with("consolidated."));
    let is_original = is_part && !files.has(CONFIG)?;
    if is_original
        && !asks_mistral
        && let Some((document, checkpoint)) = meta::open(files)?
    {
        return Ok((Layout::Meta, document, Some(checkpoint)));
    }
    if (is_original || asks_mistral)
        && let Some((document, checkpoint)) = mistral::open(files)?
    {
        return Ok((Layout::Mistral, document, Some(checkpoint)));
    }
    if asks_mistral {
        return Err(Error::NotMistral { dir: files.path().to_owned() });
    }
    match config_json(files) {
        Err(Error::NoConfig { .. }) if request.file.is_some() => Err(image::unknown(request)),
        document => Ok((Layout::Transformers, document?, None)),
    }
}

/// The tensor heads, unless they have been read; none for a vocabulary without tensors.
fn open_weights(request: &Request<'_>, opened: Option<TensorFiles>) -> Result<TensorFiles, Error> {
    let opened = match (opened, request.file) {
        (Some(checkpoint), _) => Ok(checkpoint),
        (None, Some(file)) => TensorFiles::open_file(&request.files, file),
        (None, None) => TensorFiles::open(&request.files),
    };
    match opened {
        Err(Error::NoWeights { .. }) if request.options.vocab_only => Ok(TensorFiles::empty()),
        opened => opened,
    }
}

/// Checks the tensors that are left out on condition that they are zero.
fn check_zeros(model: &ModelPlan, weights: &Weights, dir: &Path) -> Result<(), Error> {
    for &index in &model.zero {
        if let Some(tensor) = weights.tensors().get(index)
            && !weights.is_zero(index)?
        {
            let (tensor, architecture) = (tensor.name.clone(), model.architecture);
            return Err(weights.error(dir, PlanError::NotZero { tensor, architecture }));
        }
    }
    Ok(())
}
