//! Image and audio encoders: the parts of a checkpoint that are written to a separate file beside the language model (`MmprojModel` in
//! `conversion/base.py`).
//!
//! They are defined by tables, like architectures (`gguf_model::arch::TOWERS`). Formulas read the unchanged configuration, with
//! `vision_config` and `audio_config`, and the preprocessor files as `@preprocessor`.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::arch::{self, Scope, Stored};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::conversion::{Conversion, OutputKind};
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;
use crate::formula;
use crate::key_values::KeyValues;
use crate::metadata::{self, MetadataOptions, ParameterCounts};
use crate::model_plan::PlanError;
use crate::options::Options;
use crate::output::{QUANTIZATION_VERSION, check_planned_head, lay_out};
use crate::packed::{self, Weights};
use crate::warning::Warning;

/// Plans the conversion of the encoders of the checkpoint in `dir`.
pub(crate) fn plan(dir: &Documents<'_>, options: &Options) -> Result<Conversion, Error> {
    const FILE: &str = "config.json";
    let Some(document) = dir.json(FILE)? else {
        return Err(Error::NoConfig { dir: dir.path().to_owned() });
    };
    let mut config =
        Config::tower((*document).clone()).map_err(|source| Error::Config { file: dir.path().join(FILE), source })?;
    config.facts_mut().set(Fact::Preprocessor, preprocessor(dir)?);
    // A class without encoders is reported before all other errors.
    let of_folder = |source| Error::Plan { path: dir.path().to_owned(), source };
    let (_, table) = arch::of_tower(&config).map_err(of_folder)?;
    let formulas = table.keys.iter().copied().flatten().map(|key| key.formula);
    let mut formulas = formulas.chain(table.refuse.iter().map(|(formula, _)| *formula));
    if formulas.any(|formula| formula::reads(formula, Fact::AddedTokens)) {
        config.facts_mut().set(Fact::AddedTokens, added_tokens(dir)?);
    }
    let checkpoint = Checkpoint::open(dir)?;
    // The stored data determines the type of the matrices, not the decoded values.
    let ty = options.ty.resolve(&arch::names::taken(table, checkpoint.tensors()));
    let method = packed::Method::of(dir, &config)?;
    let weights = Weights::open(dir.path(), checkpoint, &method)?;
    let stored = Stored { asked: options.ty, ty, file_type: method.encoder_file_type(options.ty), as_q8: &[] };
    let plan_of = |source: PlanError| weights.error(dir.path(), source);
    let mut model = arch::plan_parts(&config, weights.tensors(), stored, Scope::Tower).map_err(plan_of)?;
    let extra = weights.complete(&model.fields, &mut model.tensors);
    let overrides = MetadataOptions {
        model_name: options.name.clone(),
        metadata: options.metadata.clone(),
        ..MetadataOptions::default()
    };
    let metadata = metadata::keys_from(dir, &overrides, &ParameterCounts::of_model(&model.tensors))?;
    let mut kvs = KeyValues::default();
    kvs.set("general.architecture", model.architecture);
    kvs.set("general.type", "mmproj");
    let named = metadata.kvs.iter().filter(|(key, _)| key != "general.type").cloned();
    let version = ("general.quantization_version".to_owned(), QUANTIZATION_VERSION.into());
    for (key, value) in named.chain(model.parameters).chain([version]).chain(extra) {
        kvs.set(key, value);
    }
    let unpacked = if options.vocab_only { Vec::new() } else { weights.unpacked().to_vec() };
    let paths = weights.checkpoint().paths().map(Path::to_owned).collect();
    let plan = lay_out(dir.path(), dir, kvs, model.tensors, Arc::new(weights), paths, options)?;
    let mut warnings: Vec<Warning> = metadata.warnings.iter().cloned().map(Warning::Metadata).collect();
    let (n_errors, more) = check_planned_head(&plan, |_| Vec::new())?;
    warnings.extend(more);
    let (architecture, ty, skipped) = (model.architecture, model.ty, model.skipped);
    let (kind, next_tokens) = (OutputKind::Projector, options.next_tokens);
    Ok(Conversion { unpacked, plan, kind, architecture, ty, skipped, warnings, n_errors, metadata, next_tokens })
}

/// The added tokens of the tokenizer, by id.
fn added_tokens(files: &Documents<'_>) -> Result<Json, Error> {
    #[derive(Deserialize)]
    struct Tokenizer {
        #[serde(default)]
        added_tokens: Vec<Token>,
    }
    #[derive(Deserialize)]
    struct Token {
        id: u64,
        content: String,
    }
    let mut all = Map::new();
    if let Some(document) = files.json("tokenizer_config.json")?
        && let Some(tokens) = document.get("added_tokens_decoder").and_then(Json::as_object)
    {
        all.extend(tokens.clone());
    }
    if let Some(tokenizer) = files.json_as::<Tokenizer>("tokenizer.json")? {
        for token in tokenizer.added_tokens {
            all.entry(token.id.to_string()).or_insert_with(|| json!({ "content": token.content }));
        }
    }
    Ok(Json::Object(all))
}

/// The preprocessor settings: `processor_config.json` takes precedence, and in each file the image settings do.
fn preprocessor(files: &Documents<'_>) -> Result<Json, Error> {
    let mut all = Map::new();
    for (file, inner) in [("preprocessor_config.json", "media_proc_cfg"), ("processor_config.json", "image_processor")]
    {
        let document = files.json_or_null(file)?;
        let Json::Object(document) = &*document else { continue };
        let nested = document.get(inner).and_then(Json::as_object).cloned();
        all.extend(document.clone());
        all.extend(nested.unwrap_or_default());
    }
    Ok(Json::Object(all))
}
