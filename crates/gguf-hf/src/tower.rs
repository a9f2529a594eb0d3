//! Image and audio encoders: the parts of a checkpoint that are written to a separate file beside the language model (`MmprojModel` in
//! `conversion/base.py`).
//!
//! They are defined by tables, like architectures (`gguf_model::arch::TOWERS`). Formulas read the unchanged configuration, with
//! `vision_config` and `audio_config`, and the preprocessor files as `@preprocessor`.

use std::path::Path;
use std::sync::Arc;

use gguf_format::Value;
use gguf_model::arch::Checkpoint;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::arch::{self, Scope, Stored};
use crate::checkpoint::TensorFiles;
use crate::config::Config;
use crate::config_file::{CONFIG, config_json};
use crate::conversion::OutputKind;
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;
use crate::formula;
use crate::key_values::KeyValues;
use crate::metadata::{self, MetadataOptions, ParameterCounts};
use crate::model_plan::PlanError;
use crate::output::QUANTIZATION_VERSION;
use crate::packed::{self, Weights};
use crate::request::Request;
use crate::strategy::{Keys, Strategy, TensorPlans};
use crate::warning::Warning;

/// The documents and tensor heads of the encoders.
#[derive(Debug)]
pub(crate) struct Encoders {
    config: Config,
    checkpoint: TensorFiles,
    table: &'static Checkpoint,
}

/// The key-values of the encoders and of packed weights.
#[derive(Debug)]
pub(crate) struct EncoderKeys {
    parameters: Vec<(String, Value)>,
    packed: Vec<(String, Value)>,
}

impl Strategy for Encoders {
    const KIND: OutputKind = OutputKind::Projector;
    type Planned = EncoderKeys;

    fn read(request: &Request<'_>, _: Option<TensorFiles>) -> Result<Encoders, Error> {
        let files = &request.files;
        let document = config_json(files)?;
        let invalid = |source| Error::Config { file: files.path().join(CONFIG), source };
        let mut config = Config::tower(document).map_err(invalid)?;
        // Tables are selected by the settings of the preprocessor, too.
        config.facts_mut().set(Fact::Preprocessor, preprocessor(files)?);
        // A class without encoders is reported before all other errors.
        let of_folder = |source| Error::Plan { path: files.path().to_owned(), source };
        let (_, table) = arch::of_tower(&config).map_err(of_folder)?;
        let checkpoint = TensorFiles::open(files)?;
        Ok(Encoders { config, checkpoint, table })
    }

    fn add_facts(&mut self, request: &Request<'_>) -> Result<(), Error> {
        if reads_added_tokens(self.table) {
            self.config.facts_mut().set(Fact::AddedTokens, added_tokens(&request.files)?);
        }
        Ok(())
    }

    fn plan_tensors(self, request: &Request<'_>) -> Result<(TensorPlans, EncoderKeys), Error> {
        let (files, options) = (&request.files, request.options);
        let Encoders { config, checkpoint, table } = self;
        // The stored data determines the type of the matrices, not the decoded values.
        let ty = options.ty.resolve(&arch::names::taken(table, checkpoint.tensors()));
        let method = packed::Method::of(files, &config)?;
        let weights = Weights::open(files.path(), checkpoint, &method)?;
        let stored = Stored { asked: options.ty, ty, file_type: method.encoder_file_type(options.ty), as_q8: &[] };
        let of_tensor = |source: PlanError| weights.error(files.path(), source);
        let mut model = arch::plan_parts(&config, weights.tensors(), stored, Scope::Tower).map_err(of_tensor)?;
        let packed = weights.complete(&model.fields, &mut model.tensors);
        let tensors = TensorPlans {
            architecture: model.architecture,
            ty: model.ty,
            tensors: model.tensors,
            skipped: model.skipped,
            unpacked: if options.vocab_only { Vec::new() } else { weights.unpacked().to_vec() },
            warnings: Vec::new(),
            paths: weights.checkpoint().paths().map(Path::to_owned).collect(),
            source: Arc::new(weights),
        };
        Ok((tensors, EncoderKeys { parameters: model.parameters, packed }))
    }

    fn keys(request: &Request<'_>, tensors: &TensorPlans, planned: EncoderKeys) -> Result<Keys, Error> {
        let overrides = MetadataOptions {
            model_name: request.options.name.clone(),
            metadata: request.options.metadata.clone(),
            ..MetadataOptions::default()
        };
        let counts = ParameterCounts::of_model(&tensors.tensors);
        let metadata = metadata::keys_from(&request.files, &overrides, &counts)?;
        let mut kvs = KeyValues::default();
        kvs.set("general.architecture", tensors.architecture);
        kvs.set("general.type", "mmproj");
        let named = metadata.kvs.iter().filter(|(key, _)| key != "general.type").cloned();
        let version = ("general.quantization_version".to_owned(), QUANTIZATION_VERSION.into());
        for (key, value) in named.chain(planned.parameters).chain([version]).chain(planned.packed) {
            kvs.set(key, value);
        }
        let warnings = metadata.warnings.iter().cloned().map(Warning::Metadata).collect();
        Ok(Keys { kvs, metadata, warnings, table: None })
    }
}

/// Whether formulas of the table read the added tokens of the tokenizer.
fn reads_added_tokens(table: &Checkpoint) -> bool {
    let keys = table.keys.iter().copied().flatten().map(|key| key.formula);
    let mut formulas = keys.chain(table.refuse.iter().map(|(formula, _)| *formula));
    formulas.any(|formula| formula::reads(formula, Fact::AddedTokens))
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
