//! The conversion of a checkpoint folder: all decisions that do not require reading the weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::check::{Finding, Place, Severity};
use gguf_format::sort::CompactSort as _;
use gguf_format::{ByteOrder, Dialect, GgmlType, Head, Kv, Version, keys};
use gguf_pipeline::plan::{Draft, Plan, Rounding, TensorPlan};
use gguf_pipeline::{Progress, RunOptions, RunSummary};
use serde_json::Value as Json;

use crate::adapter::{self, AdapterProblem};
use crate::arch::{self, Scope};
use crate::checkpoint::{Checkpoint, meta, mistral};
use crate::config::{self, Config};
use crate::dense;
use crate::draft::{self, DraftProblem};
use crate::error::Error;
use crate::facts::Fact;
use crate::files;
use crate::folder::Folder;
use crate::fuse;
use crate::image;
use crate::key_values::KeyValues;
use crate::location::{Found, Location};
use crate::metadata::{self, MetadataOptions, ModelMetadata, ParameterCounts};
use crate::model_plan::{NextTokens, OutType, PlanError, Skipped};
use crate::packed::{self, Unpacked, Weights};
use crate::peek;
use crate::reranker;
use crate::tokenizer::{self, TokenizerOptions};
use crate::tower;
use crate::warning::{ArchitectureWarning, Warning};

/// `general.quantization_version`: the generation of ggml's quantized types (`GGML_QNT_VERSION` in `ggml.h`).
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// The maximum number of findings about the planned header that are reported as separate warnings.
const MAX_DOUBTS: usize = 10;

/// Conversion options.
///
/// ```
/// use gguf_format::ByteOrder;
/// use gguf_hf::{Options, OutType};
///
/// let options = Options::default().ty(OutType::BF16).order(ByteOrder::Big).name(Some("My Model".into()));
/// assert_eq!(options.name.as_deref(), Some("My Model"));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Type of the matrices.
    pub ty: OutType,
    /// The model's name; overrides the name found in the folder's files.
    pub name: Option<String>,
    /// A JSON file of metadata that overrides the folder's metadata; see [`MetadataOptions::metadata`].
    pub metadata: Option<PathBuf>,
    /// Name of the pre-tokenizer of a BPE vocabulary; `None` to detect it.
    pub pre: Option<String>,
    /// Byte order of the output.
    pub order: ByteOrder,
    /// Whether to write only metadata and tokenizer, without tensors.
    pub vocab_only: bool,
    /// How to handle the multi-token prediction blocks.
    pub next_tokens: NextTokens,
    /// Whether to convert the image and audio encoders instead of the language model.
    pub projector: bool,
    /// For an adapter, the folder with the `config.json` of its base model; `None` for the adapter's folder.
    pub base: Option<Arc<dyn Folder>>,
    /// For a draft model, the folder of its target model.
    pub target: Option<Arc<dyn Folder>>,
    /// Whether to fuse queries, keys and values into one tensor per block, if llama.cpp supports it.
    pub fuse_qkv: bool,
    /// Whether to fuse the gate and up matrices of all experts into one tensor per block.
    pub fuse_gate_up_experts: bool,
    /// Whether to write matrices decoded from FP8 as Q8_0, unless the type is [`OutType::Lossless`].
    pub fp8_as_q8: bool,
    /// Whether to write the dense layers after the pooling, which are modules of sentence-transformers.
    pub dense_modules: bool,
    /// Whether to read Mistral's native layout (`params.json` and `consolidated*.safetensors`) even if there is a `config.json`. Without
    /// `config.json`, the layout is detected.
    pub mistral_format: bool,
    /// Whether to omit the chat template that a checkpoint in Mistral's native layout gets based on its tokenizer version.
    pub no_community_template: bool,
}

impl Options {
    /// Sets whether the image and audio encoders are converted instead of the language model.
    pub fn projector(mut self, projector: bool) -> Options {
        self.projector = projector;
        self
    }

    /// Sets the folder of an adapter's base model.
    pub fn base(mut self, base: Option<impl Folder + 'static>) -> Options {
        self.base = base.map(|base| Arc::new(base) as _);
        self
    }

    /// Sets the folder of a draft model's target model; see [`model_folder`] for one in the Hugging Face cache.
    pub fn target(mut self, target: Option<impl Folder + 'static>) -> Options {
        self.target = target.map(|target| Arc::new(target) as _);
        self
    }

    /// Sets whether queries, keys and values are fused into one tensor per block.
    pub fn fuse_qkv(mut self, fuse: bool) -> Options {
        self.fuse_qkv = fuse;
        self
    }

    /// Sets whether the gate and up matrices of all experts are fused into one tensor per block.
    pub fn fuse_gate_up_experts(mut self, fuse: bool) -> Options {
        self.fuse_gate_up_experts = fuse;
        self
    }

    /// Sets whether matrices decoded from FP8 are written as Q8_0.
    pub fn fp8_as_q8(mut self, as_q8: bool) -> Options {
        self.fp8_as_q8 = as_q8;
        self
    }

    /// Sets whether the dense layers after the pooling are written.
    pub fn dense_modules(mut self, write: bool) -> Options {
        self.dense_modules = write;
        self
    }

    /// Sets whether Mistral's native layout is read even if there is a `config.json`.
    pub fn mistral_format(mut self, is_mistral: bool) -> Options {
        self.mistral_format = is_mistral;
        self
    }

    /// Sets whether a checkpoint in Mistral's native layout gets only the chat template of its folder.
    pub fn no_community_template(mut self, leave_out: bool) -> Options {
        self.no_community_template = leave_out;
        self
    }

    /// Sets the type of the matrices.
    pub fn ty(mut self, ty: OutType) -> Options {
        self.ty = ty;
        self
    }

    /// Sets the model's name.
    pub fn name(mut self, name: Option<String>) -> Options {
        self.name = name;
        self
    }

    /// Sets the file of metadata that overrides the folder's metadata.
    pub fn metadata(mut self, file: Option<PathBuf>) -> Options {
        self.metadata = file;
        self
    }

    /// Sets the name of the pre-tokenizer.
    pub fn pre(mut self, pre: Option<String>) -> Options {
        self.pre = pre;
        self
    }

    /// Sets the byte order of the output.
    pub fn order(mut self, order: ByteOrder) -> Options {
        self.order = order;
        self
    }

    /// Sets how the multi-token prediction blocks are handled.
    pub fn next_tokens(mut self, next_tokens: NextTokens) -> Options {
        self.next_tokens = next_tokens;
        self
    }

    /// Whether only metadata and tokenizer are written.
    pub fn vocab_only(mut self, vocab_only: bool) -> Options {
        self.vocab_only = vocab_only;
        self
    }
}

/// The kind of output of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputKind {
    /// A model.
    Model,
    /// A low-rank adapter of a model.
    Adapter,
    /// The image and audio encoders of a multimodal model, with their projectors.
    Projector,
    /// An image or video generation model.
    Images,
}

/// A planned conversion.
#[derive(Debug)]
#[non_exhaustive]
pub struct Conversion {
    /// The output plan.
    pub plan: Plan,
    /// The kind of output.
    pub kind: OutputKind,
    /// The architecture name in GGUF.
    pub architecture: &'static str,
    /// Type of the matrices.
    pub ty: GgmlType,
    /// The checkpoint tensors that are not written.
    pub skipped: Vec<Skipped>,
    /// The checkpoint tensors that are stored in packed formats.
    pub unpacked: Vec<Unpacked>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Number of errors that the model check finds in the planned output; if it is not 0, llama.cpp does not load the file.
    pub n_errors: usize,
    /// The components of the output file name.
    pub metadata: ModelMetadata,
    /// How the multi-token prediction blocks are handled.
    pub next_tokens: NextTokens,
}

/// Converts the checkpoint in `dir` to a GGUF file at `out`; see [`Conversion::output_path`] for names of folders and templates.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let header = br#"{"double_blocks.0.img_attn.proj.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}}"#;
/// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 32]].concat();
/// # let checkpoint = folder.path().join("flux.safetensors");
/// # std::fs::write(&checkpoint, bytes).unwrap();
/// # let out = folder.path().join("model.gguf");
/// use gguf_hf::{Options, OutType};
///
/// let options = Options::default().ty(OutType::F32);
/// let summary = gguf_hf::convert(&checkpoint, &out, &options, &Default::default(), &())?;
/// assert_eq!(summary.paths, [out.clone()]);
/// # let file = gguf_io::ModelFile::open(&out).unwrap();
/// # assert_eq!(file.gguf().get_as::<&str>("general.architecture"), Ok("flux"));
/// # Ok::<(), gguf_hf::Error>(())
/// ```
///
/// # Errors
/// [`Error`]. On failure no output is left, and an existing file of that name is unchanged.
pub fn convert(
    dir: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &Options,
    run: &RunOptions,
    progress: &dyn Progress,
) -> Result<RunSummary, Error> {
    let conversion = plan(dir, options)?;
    Ok(conversion.plan.run(conversion.output_path(out.as_ref()), run, progress)?)
}

/// Plans the conversion of a checkpoint without reading its weights. `dir` is the checkpoint's folder, the model's folder in the Hugging
/// Face cache (`models--ORGANIZATION--NAME`; the revision in `refs/main` is used), or a single tensor file in the checkpoint's folder.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let header = br#"{"double_blocks.0.img_attn.proj.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}}"#;
/// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 32]].concat();
/// # let checkpoint = folder.path().join("flux.safetensors");
/// # std::fs::write(&checkpoint, bytes).unwrap();
/// use gguf_hf::{Options, OutType, OutputKind};
///
/// let conversion = gguf_hf::plan(&checkpoint, &Options::default().ty(OutType::F16))?;
/// for warning in &conversion.warnings {
///     eprintln!("{warning}");
/// }
/// for tensor in conversion.plan.tensors() {
///     println!("{}: {} because {}", tensor.shown(), tensor.ty, tensor.reason);
/// }
/// // The tensors are those of FLUX.
/// assert_eq!((conversion.architecture, conversion.kind), ("flux", OutputKind::Images));
/// # Ok::<(), gguf_hf::Error>(())
/// ```
///
/// # Errors
/// [`Error`], which names the file and the field or tensor.
pub fn plan(dir: impl AsRef<Path>, options: &Options) -> Result<Conversion, Error> {
    plan_at(&Found::at(dir.as_ref())?.location(), options)
}

/// As [`plan`], of a checkpoint in any [`Folder`]: in memory, or in one of the caller.
///
/// # Errors
/// As for [`plan`].
pub fn plan_folder(folder: &dyn Folder, options: &Options) -> Result<Conversion, Error> {
    plan_at(&Location { dir: folder, file: None, name: None }, options)
}

/// The folder of the checkpoint at a path that [`plan`] accepts: the current revision of a model's folder in the Hugging Face cache, or the
/// folder of a tensor file.
///
/// # Errors
/// If there is no checkpoint, or if a model in the cache has several revisions and none is current.
pub fn model_folder(path: impl AsRef<Path>) -> Result<PathBuf, Error> {
    Ok(Found::at(path.as_ref())?.dir)
}

fn plan_at(location: &Location<'_>, options: &Options) -> Result<Conversion, Error> {
    let dir = location.dir;
    if adapter::is_adapter(dir)? {
        return adapter::plan(dir, options.base.as_deref(), options);
    }
    if options.base.is_some() {
        return Err(Error::Adapter { path: dir.path().to_owned(), source: AdapterProblem::NotAnAdapter });
    }
    if options.projector {
        return tower::plan(dir, options);
    }
    if let Some(conversion) = image::plan(location, options)? {
        return Ok(conversion);
    }
    // Meta's layout has no config.json; its fields are derived from the parameters and the tensors.
    let is_part = location.file.is_none_or(|file| file.starts_with("consolidated."));
    let is_original = is_part && !files::has(dir, CONFIG)?;
    let meta = if is_original && !options.mistral_format { meta::open(dir)? } else { None };
    let is_meta = meta.is_some();
    let mistral = if !is_meta && (is_original || options.mistral_format) { mistral::open(dir)? } else { None };
    let is_mistral = mistral.is_some();
    if options.mistral_format && !is_mistral {
        return Err(Error::NotMistral { dir: dir.path().to_owned() });
    }
    let (document, original) = match meta.or(mistral) {
        Some((document, checkpoint)) => (document, Some(checkpoint)),
        None => match (config_json(dir), location.file) {
            (Err(Error::NoConfig { .. }), Some(_)) => {
                let source = PlanError::UnsupportedImages { supported: image::titles() };
                return Err(Error::Plan { path: location.path(), source });
            }
            (document, _) => (document?, None),
        },
    };
    let mut config = read_config(dir, document)?;
    if let Some(name) = options.next_tokens.name() {
        config.facts_mut().set(Fact::NextTokens, name);
    }
    // Formulas select a chat template by the name of the folder.
    let folder = dir.path().file_name().map(|name| name.to_string_lossy().into_owned());
    config.facts_mut().set(Fact::Folder, location.name.map(str::to_owned).or(folder));
    // A checkpoint can contain both a model and its draft model.
    config.facts_mut().set(Fact::HasTarget, options.target.is_some());
    let table = arch::of_checkpoint(&config).ok().map(|(_, table)| table);
    let draft = |source| Error::Draft { path: dir.path().to_owned(), source };
    let target = match (table.is_some_and(|table| table.is_draft), options.target.as_deref()) {
        (true, Some(target)) => Some(target),
        (true, None) => return Err(draft(DraftProblem::NoTarget)),
        (false, Some(_)) => return Err(draft(DraftProblem::NotADraft)),
        (false, None) => None,
    };
    if let Some(target) = target {
        draft::fields(dir, target, config_json(target)?, &mut config)?;
    }
    let opened = match (original, location.file) {
        (Some(checkpoint), _) => Ok(checkpoint),
        (None, Some(file)) => Checkpoint::open_file(dir, file),
        (None, None) => Checkpoint::open(dir),
    };
    let mut checkpoint = match opened {
        Err(Error::NoWeights { .. }) if options.vocab_only => Checkpoint::empty(),
        opened => opened?,
    };
    // Problems become metadata warnings.
    if let Ok(Some(document)) = files::read_json(dir, "generation_config.json") {
        config.facts_mut().set(Fact::GenerationConfig, document);
    }
    let mut unused = Vec::new();
    if options.no_community_template && !is_mistral {
        unused.push(ArchitectureWarning::NotMistralLayout);
    }
    if options.dense_modules {
        let n = match table {
            Some(table) if table.dense_modules => dense::add(dir, &mut checkpoint, &mut config)?,
            // Always written.
            Some(table) => table.dense.len(),
            None => 0,
        };
        unused.extend((n == 0).then_some(ArchitectureWarning::NoDenseModules));
    }
    if let Some(table) = table {
        for (path, before, usual) in table.dense {
            checkpoint.add_first(dir, path, before, usual)?;
        }
        peek::fields(dir, &mut config, &checkpoint, table)?;
    }
    // The stored data determines the type of the matrices, not the decoded values.
    let asked = options.ty;
    let ty = match table {
        Some(table) => asked.resolve(&arch::names::taken(table, checkpoint.tensors())),
        None => asked.resolve(checkpoint.tensors()),
    };
    let method = packed::Method::of(dir, &config)?;
    let mut weights = Weights::open(dir.path(), checkpoint, &method)?;
    if let Some(table) = table.filter(|table| !table.ids.is_empty()) {
        draft::absolute_ids(dir.path(), &mut weights, &mut config, table)?;
    }
    let plan_of = |source: PlanError| weights.error(dir.path(), source);
    let scope = if options.vocab_only { Scope::Keys } else { Scope::Whole };
    let is_fp8 = options.fp8_as_q8 && asked != OutType::Lossless;
    let as_q8 = if is_fp8 { weights.scaled_fp8() } else { Vec::new() };
    unused.extend((is_fp8 && as_q8.is_empty()).then_some(ArchitectureWarning::NoFp8));
    let bare = if options.vocab_only { Vec::new() } else { weights.bare_fp8() };
    unused.extend((!bare.is_empty()).then_some(ArchitectureWarning::BareFp8 { tensors: bare }));
    let stored = arch::Stored { asked, ty, file_type: method.file_type(options.ty), as_q8: &as_q8 };
    let mut model = arch::plan_parts(&config, weights.tensors(), stored, scope).map_err(plan_of)?;
    for (fusion, is_asked) in [(fuse::GATE_UP_EXPERTS, options.fuse_gate_up_experts), (fuse::QKV, options.fuse_qkv)] {
        if is_asked && !options.vocab_only {
            fusion.apply(&mut model).map_err(plan_of)?;
        }
    }
    let extra = weights.complete(&model.fields, &mut model.tensors);
    if is_meta {
        let key = keys::for_arch(keys::TENSOR_DATA_LAYOUT, model.architecture);
        model.parameters.push((key, meta::LAYOUT.into()));
    }
    for &index in &model.zero {
        if let Some(tensor) = weights.tensors().get(index)
            && !weights.is_zero(index)?
        {
            return Err(plan_of(PlanError::NotZero { tensor: tensor.name.clone(), architecture: model.architecture }));
        }
    }

    let counts = parameter_counts(&model.tensors);
    let overrides = MetadataOptions {
        model_name: options.name.clone(),
        metadata: options.metadata.clone(),
        folder: location.name.map(str::to_owned),
    };
    let metadata = metadata::key_values(dir, &overrides, &counts)?;
    // The model whose folder provides the tokenizer, and the table that defines how to read it.
    let tokenizer_dir = target.unwrap_or(dir);
    let mut tokenizer_table = model.checkpoint;
    if tokenizer_table.takes_tokenizer_class {
        let of_target = config_of(tokenizer_dir)?;
        let wrong = |source| Error::Plan { path: tokenizer_dir.path().to_owned(), source };
        (_, tokenizer_table) = arch::of_checkpoint(&of_target).map_err(wrong)?;
    }
    let (vocab, special_tokens) = (tokenizer_table.vocab, tokenizer_table.special_tokens);
    let community_template = !options.no_community_template;
    let template_file_first = tokenizer_table.template_file_first;
    let pre = options.pre.clone();
    let tokenizer_options = TokenizerOptions { pre, vocab, special_tokens, community_template, template_file_first };
    let fields = serde_json::Value::Object(model.fields.fields.clone());
    let mut tokenizer = tokenizer::key_values(tokenizer_dir, &fields, &tokenizer_options)?;
    for fact in [Fact::TokenizerConfig, Fact::GenerationConfig] {
        let document = match files::read_json(tokenizer_dir, &format!("{}.json", fact.name())) {
            // Problems are reported as metadata warnings.
            Err(_) if fact == Fact::GenerationConfig => None,
            document => document?,
        };
        if let Some(document) = document {
            model.fields.facts.set(fact, document);
        }
    }
    // The vocabulary type, for formulas of the key-values that follow.
    if let Some((_, kind)) = tokenizer.kvs.iter().find(|(key, _)| key == "tokenizer.ggml.model") {
        let kind = kind.as_ref().as_str().map(|kind| kind.to_string());
        model.fields.facts.set(Fact::TokenizerModel, kind);
    }
    let has_chat_template = tokenizer.kvs.iter().any(|(key, _)| key == "tokenizer.chat_template");
    model.fields.facts.set(Fact::HasChatTemplate, has_chat_template);
    let mut evaluate = |rows| arch::keys::evaluate(rows, model.architecture, &mut model.fields).map_err(plan_of);
    let (first, mut more) = (evaluate(tokenizer_table.tokenizer_first)?, evaluate(tokenizer_table.tokenizer_keys)?);
    if model.checkpoint.takes_tokenizer_class {
        more.extend(evaluate(model.checkpoint.tokenizer_keys)?);
    }

    let mut late = Vec::new();
    if let Some((_, tokens)) = tokenizer.kvs.iter().find(|(key, _)| key == "tokenizer.ggml.tokens")
        && let Some(tokens) = tokens.as_ref().as_array()
    {
        for (kind, text) in tokenizer_table.late_tokens {
            let id = tokens.iter().position(|token| token.as_str().is_some_and(|token| token == *text));
            let id = id.and_then(|id| u32::try_from(id).ok());
            late.extend(id.map(|id| (format!("tokenizer.ggml.{kind}_token_id"), id.into())));
        }
    }

    if let Some(n_tokens) = tokenizer.n_tokens {
        let types = tokenizer.kvs.iter().position(|(key, _)| key == keys::TOKENIZER_GGML_TOKEN_TYPE);
        let place = types.map_or(tokenizer.kvs.len(), |types| types + 1);
        tokenizer.kvs.insert(place, (keys::for_arch(keys::VOCAB_SIZE, model.architecture), n_tokens.into()));
    }
    let mut kvs = KeyValues::default();
    kvs.set("general.architecture", model.architecture);
    let version = ("general.quantization_version".to_owned(), QUANTIZATION_VERSION.into());
    let parameters = model.early.into_iter().chain(metadata.kvs.iter().cloned()).chain(model.parameters);
    let parameters = parameters.chain([version]).chain(extra).chain(first);
    for (key, value) in parameters.chain(tokenizer.kvs).chain(late).chain(more) {
        kvs.set(key, value);
    }
    let unpacked = if options.vocab_only { Vec::new() } else { weights.unpacked().to_vec() };
    let paths = weights.checkpoint().paths().map(Path::to_owned).collect();
    let plan = lay_out(dir.path(), dir, kvs, model.tensors, Arc::new(weights), paths, options)?;
    let mut warnings: Vec<Warning> = model.warnings.into_iter().chain(unused).map(Warning::Architecture).collect();
    warnings.extend(metadata.warnings.iter().cloned().map(Warning::Metadata));
    warnings.extend(tokenizer.warnings.into_iter().map(Warning::Tokenizer));
    let (n_errors, doubts) = doubts(&plan, |key| arch::keys::fields_of(key, model.checkpoint, &model.fields))?;
    let is_error = |w: &&Warning| matches!(w, Warning::Architecture(ArchitectureWarning::OnlyNextTokens { .. }));
    let n_errors = n_errors + warnings.iter().filter(is_error).count();
    warnings.extend(doubts);
    let (architecture, ty, skipped) = (model.architecture, model.ty, model.skipped);
    let next_tokens = options.next_tokens;
    let kind = OutputKind::Model;
    Ok(Conversion { unpacked, plan, kind, architecture, ty, skipped, warnings, n_errors, metadata, next_tokens })
}

/// Lays out the file for the key-values and tensors; data is read from `source`: the files `paths` in `dir`. `path` names the checkpoint.
pub(crate) fn lay_out(
    path: &Path,
    dir: &dyn Folder,
    kvs: KeyValues,
    tensors: Vec<TensorPlan>,
    source: Arc<dyn gguf_pipeline::Source>,
    paths: Vec<PathBuf>,
    options: &Options,
) -> Result<Plan, Error> {
    let kvs = kvs.into_vec().into_iter().map(|(key, value)| Kv { key: key.into_bytes(), value }).collect();
    let head = Head { dialect: Dialect::new(Version::V3).with_order(options.order), kvs, ..Head::default() };
    let mut inputs = files::small_files(dir);
    inputs.extend(options.target.iter().flat_map(|target| files::small_files(&**target)));
    inputs.extend(options.base.iter().flat_map(|base| files::small_files(&**base)));
    inputs.extend(paths);
    inputs.extend(options.metadata.as_ref().and_then(|file| file.canonicalize().ok()));
    let draft = Draft {
        path: path.to_owned(),
        head,
        tensors,
        source,
        rounding: Rounding::Converter,
        importance: None,
        inputs,
        input_bytes: None,
        is_split: false,
        is_vocab_only: options.vocab_only,
    };
    Ok(draft.lay_out()?)
}

/// Counts the parameters, with shared and per-expert counts (`GGUFWriter.get_total_parameter_count` of gguf-py).
pub(crate) fn parameter_counts(tensors: &[TensorPlan]) -> ParameterCounts {
    let mut counts = ParameterCounts::default();
    let (mut total, mut n_experts, mut n_tensors) = (0u64, 0u64, 0u64);
    for tensor in tensors {
        let n = tensor.n_elements();
        let name = String::from_utf8_lossy(&tensor.name);
        // If there are adapter tensors inside a model, all counts are zero, as in gguf-py.
        if name.ends_with(".lora_a") || name.ends_with(".lora_b") {
            return ParameterCounts::default();
        }
        let experts = tensor.shape.get(if name.contains(".bias") { 1 } else { 2 }).copied();
        match experts.filter(|_| name.contains("_exps.") && tensor.shape.len() >= 3) {
            Some(experts) => {
                counts.expert = counts.expert.saturating_add(n / experts.max(1));
                n_experts = n_experts.saturating_add(experts);
                n_tensors += 1;
            }
            None => counts.shared = counts.shared.saturating_add(n),
        }
        total = total.saturating_add(n);
    }
    counts.total = i64::try_from(total).unwrap_or(i64::MAX);
    counts.expert_count = n_experts.checked_div(n_tensors).unwrap_or(0);
    counts
}

/// Runs the model check on the planned header. Returns the number of errors, and up to [`MAX_DOUBTS`] warnings: every error, and every
/// warning about keys, values and tensors.
///
/// The output stays identical to the reference, which also writes such files, but the user learns of the problem before loading the model
/// fails.
///
/// `fields_of` returns the fields of `config.json` that a key comes from, which the finding of a missing key names.
///
/// # Errors
/// If the header cannot be encoded.
pub(crate) fn doubts(plan: &Plan, fields_of: impl Fn(&str) -> Vec<String>) -> Result<(usize, Vec<Warning>), Error> {
    let heads = plan.heads()?;
    let report = gguf_model::check::model(&heads.iter().collect::<Vec<_>>(), None);
    let matters = |f: &Finding| match f.severity {
        Severity::Error => true,
        Severity::Warning => ["key.", "value.", "tensor."].iter().any(|kind| f.code.starts_with(kind)),
        _ => false,
    };
    let mut found: Vec<Finding> = report.findings().filter(|f| matters(f)).map(|f| f.into_owned()).collect();
    for finding in found.iter_mut().filter(|finding| finding.code == "key.missing") {
        if let Place::Key { name, .. } = &finding.place
            && let Some((_, key)) = name.split_once('.')
            && let fields @ [_, ..] = fields_of(key).as_slice()
        {
            finding.expected = format!("{} of config.json", fields.join(" or ")).into();
        }
    }
    found.compact_sort_by_key(|f| core::cmp::Reverse(f.severity));
    let n_errors = found.iter().filter(|f| f.severity == Severity::Error).count();
    let more = found.len().saturating_sub(MAX_DOUBTS);
    let mut doubts: Vec<Warning> = found.into_iter().take(MAX_DOUBTS).map(Warning::Output).collect();
    doubts.extend((more > 0).then_some(Warning::MoreOutput(more)));
    Ok((n_errors, doubts))
}

/// The file of the configuration.
const CONFIG: &str = "config.json";

/// The configuration of the model in a folder.
pub(crate) fn config_of(dir: &dyn Folder) -> Result<Config, Error> {
    read_config(dir, config_json(dir)?)
}

fn config_json(dir: &dyn Folder) -> Result<Json, Error> {
    files::read_json(dir, CONFIG)?.ok_or_else(|| Error::NoConfig { dir: dir.path().to_owned() })
}

fn read_config(dir: &dyn Folder, document: Json) -> Result<Config, Error> {
    let wrong = |source: config::Error| Error::Config { file: dir.path().join(CONFIG), source };
    // The unchanged file determines the class, and therefore whether its defaults apply.
    let raw = Config::raw(document.clone()).ok();
    let as_written = document.clone();
    let is_raw = |raw: &Config| arch::of_checkpoint(raw).is_ok_and(|(_, checkpoint)| checkpoint.is_raw);
    let mut config = match raw.filter(is_raw) {
        Some(raw) => raw,
        None => Config::new(document).map_err(wrong)?,
    };
    // For formulas that need the original values, without defaults.
    config.facts_mut().set(Fact::Config, as_written);
    if let Some(pooling) = pooling(dir)? {
        config.facts_mut().set(Fact::SentencePooling, pooling);
    }
    // An unknown class causes an error later, which lists the known classes.
    if let Ok((_, checkpoint)) = arch::of_checkpoint(&config)
        && let Some(answers) = reranker::answers(dir, &config, checkpoint)?
    {
        config.facts_mut().set(Fact::Rerank, answers);
    }
    Ok(config)
}

/// The pooling mode of a sentence encoder, if the folder specifies it (`_try_set_pooling_type` in `conversion/base.py`).
fn pooling(dir: &dyn Folder) -> Result<Option<Json>, Error> {
    let Some(modules) = files::read_json(dir, "modules.json")? else { return Ok(None) };
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_pooling = |module: &&Json| module["type"].as_str().is_some_and(|ty| ty.ends_with("Pooling"));
    let path = modules.iter().find(is_pooling).and_then(|module| module["path"].as_str());
    let Some(path) = path.filter(|path| !path.is_empty() && !path.contains("..")) else { return Ok(None) };
    let Some(pooling) = files::read_json(dir, &format!("{path}/config.json"))? else { return Ok(None) };
    const FLAGS: [(&str, &str); 3] = [
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_lasttoken", "lasttoken"),
    ];
    let mode = FLAGS.iter().find(|(flag, _)| pooling[*flag] == true).map(|(_, mode)| Json::from(*mode));
    // Formulas accept the modes that llama.cpp knows.
    Ok(Some(mode.unwrap_or_else(|| pooling.get("pooling_mode").cloned().unwrap_or_else(|| "none".into()))))
}

impl Conversion {
    /// The output path for `out`: [`output_path_as`](Self::output_path_as) with the type of the matrices.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let header = br#"{"double_blocks.0.img_attn.proj.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}}"#;
    /// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 32]].concat();
    /// # let checkpoint = folder.path().join("flux.safetensors");
    /// # std::fs::write(&checkpoint, bytes).unwrap();
    /// use gguf_hf::{Options, OutType};
    ///
    /// let conversion = gguf_hf::plan(&checkpoint, &Options::default().ty(OutType::BF16))?;
    /// assert!(conversion.output_path("out/model-{ftype}.gguf").ends_with("out/model-bf16.gguf"));
    /// # Ok::<(), gguf_hf::Error>(())
    /// ```
    pub fn output_path(&self, out: impl AsRef<Path>) -> PathBuf {
        self.output_path_as(out, &self.ty.to_string())
    }

    /// The output path for `out` and a type named `ty`. If `out` is a folder, the result is the default file name in it, built from the
    /// model's name, size, version and type, with the prefix `mtp-` for a file that contains only multi-token prediction blocks. Otherwise
    /// the result is `out` with `{ftype}` and `{FTYPE}` in its last component replaced by the type.
    pub fn output_path_as(&self, out: impl AsRef<Path>, ty: &str) -> PathBuf {
        let out = out.as_ref();
        if out.is_dir() {
            let is_model = !self.plan.tensors().is_empty();
            let mut metadata = self.metadata.clone();
            if self.kind == OutputKind::Projector {
                metadata.size_label = None;
            }
            let name = metadata::default_file_name(&metadata, is_model.then_some(ty));
            let before = match (self.kind, self.next_tokens) {
                (OutputKind::Projector, _) => "mmproj-",
                (_, NextTokens::Only) => "mtp-",
                _ => "",
            };
            let name = match (self.kind, name.strip_suffix(".gguf")) {
                (OutputKind::Adapter, Some(stem)) => format!("{stem}-LoRA.gguf"),
                _ => name,
            };
            return out.join(format!("{before}{name}"));
        }
        match out.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.contains('{') => {
                let upper = ty.to_uppercase();
                let lower = ty.to_lowercase();
                let name = name.replace("{ftype}", &lower).replace("{outtype}", &lower);
                out.with_file_name(name.replace("{FTYPE}", &upper).replace("{OUTTYPE}", &upper))
            }
            _ => out.to_owned(),
        }
    }
}
