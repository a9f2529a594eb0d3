//! The conversion of a checkpoint folder: all decisions that do not require reading the weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::keys;
use gguf_pipeline::{Progress, RunOptions, RunSummary};

use crate::adapter;
use crate::adapter::problem::AdapterProblem;
use crate::arch::{self, Scope};
use crate::checkpoint::{Checkpoint, meta, mistral};
use crate::config_file::{CONFIG, config_json, config_of, read_config};
use crate::conversion::{Conversion, OutputKind};
use crate::dense;
use crate::documents::Documents;
use crate::draft;
use crate::draft::problem::DraftProblem;
use crate::error::Error;
use crate::facts::Fact;
use crate::folder::Folder;
use crate::fuse;
use crate::image;
use crate::key_values::KeyValues;
use crate::location::{Found, Location};
use crate::metadata::{self, MetadataOptions, ParameterCounts};
use crate::model_plan::{OutType, PlanError};
use crate::options::Options;
use crate::output::{QUANTIZATION_VERSION, check_planned_head, lay_out};
use crate::packed::{self, Weights};
use crate::peek;
use crate::tokenizer::{self, TokenizerOptions};
use crate::tower;
use crate::warning::{ArchitectureWarning, Warning};

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
    let files = Documents::new(location.dir);
    let dir = &files;
    let location = &Location { dir, ..*location };
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
    let is_original = is_part && !dir.has(CONFIG)?;
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
    let target = options.target.as_deref().map(|target| Documents::new(target));
    let target = match (table.is_some_and(|table| table.is_draft), target.as_ref()) {
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
    if let Ok(Some(document)) = dir.json("generation_config.json") {
        config.facts_mut().set(Fact::GenerationConfig, (*document).clone());
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

    let counts = ParameterCounts::of_model(&model.tensors);
    let overrides = MetadataOptions {
        model_name: options.name.clone(),
        metadata: options.metadata.clone(),
        folder: location.name.map(str::to_owned),
    };
    let metadata = metadata::keys_from(dir, &overrides, &counts)?;
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
    let mut tokenizer = tokenizer::keys_from(tokenizer_dir, &fields, &tokenizer_options)?;
    for fact in [Fact::TokenizerConfig, Fact::GenerationConfig] {
        let document = match tokenizer_dir.json(&format!("{}.json", fact.name())) {
            // Problems are reported as metadata warnings.
            Err(_) if fact == Fact::GenerationConfig => None,
            document => document?,
        };
        if let Some(document) = document {
            model.fields.facts.set(fact, (*document).clone());
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
    let (n_errors, findings) =
        check_planned_head(&plan, |key| arch::keys::fields_of(key, model.checkpoint, &model.fields))?;
    let is_error = |w: &&Warning| matches!(w, Warning::Architecture(ArchitectureWarning::OnlyNextTokens { .. }));
    let n_errors = n_errors + warnings.iter().filter(is_error).count();
    warnings.extend(findings);
    let (architecture, ty, skipped) = (model.architecture, model.ty, model.skipped);
    let next_tokens = options.next_tokens;
    let kind = OutputKind::Model;
    Ok(Conversion { unpacked, plan, kind, architecture, ty, skipped, warnings, n_errors, metadata, next_tokens })
}
