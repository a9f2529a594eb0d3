//! Encoders of images and sound: the parts of a checkpoint that become a file beside that of the language model (`MmprojModel` in
//! `conversion/base.py`).
//!
//! They are tables like architectures (`gguf_model::arch::TOWERS`). Formulas see the configuration as it is, with `vision_config` and
//! `audio_config`, and the files of the preprocessors as `preprocessor`.

use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::arch::{self, Scope};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::convert::{Conversion, Options, OutputKind, QUANTIZATION_VERSION, doubts, lay_out, parameter_counts};
use crate::error::Error;
use crate::files;
use crate::key_values::KeyValues;
use crate::metadata::{self, MetadataOptions};
use crate::model_plan::PlanError;
use crate::warning::Warning;

/// Decides everything about the conversion of the encoders of the checkpoint in `dir`.
pub(crate) fn plan(dir: &Path, options: &Options) -> Result<Conversion, Error> {
    const FILE: &str = "config.json";
    let Some(document) = files::read_json(dir, FILE)? else {
        return Err(Error::NoConfig { dir: dir.to_owned() });
    };
    let mut config = Config::tower(document).map_err(|source| Error::Config { file: dir.join(FILE), source })?;
    config.set("preprocessor", preprocessor(dir)?);
    // A class without encoders is the first thing to say.
    let of_folder = |source| Error::Plan { path: dir.to_owned(), source };
    arch::of_tower(&config).map_err(of_folder)?;
    let checkpoint = Checkpoint::open(dir)?;
    let plan_of = |source: PlanError| {
        let file = source.tensor().and_then(|tensor| checkpoint.path_of(tensor)).and_then(Path::file_name);
        Error::Plan { path: file.map_or(dir.to_owned(), |file| dir.join(file)), source }
    };
    let model = arch::plan_parts(&config, checkpoint.tensors(), options.ty, Scope::Tower).map_err(plan_of)?;
    let overrides = MetadataOptions { model_name: options.name.clone(), metadata: options.metadata.clone() };
    let metadata = metadata::key_values(dir, &overrides, &parameter_counts(&model.tensors))?;
    let mut kvs = KeyValues::default();
    kvs.set("general.architecture", model.architecture);
    kvs.set("general.type", "mmproj");
    let named = metadata.kvs.iter().filter(|(key, _)| key != "general.type").cloned();
    let version = ("general.quantization_version".to_owned(), QUANTIZATION_VERSION.into());
    for (key, value) in named.chain(model.parameters).chain([version]) {
        kvs.set(key, value);
    }
    let plan = lay_out(dir, kvs, model.tensors, checkpoint, options)?;
    let mut warnings: Vec<Warning> = metadata.warnings.iter().cloned().map(Warning::Metadata).collect();
    let (n_errors, more) = doubts(&plan);
    warnings.extend(more);
    let (architecture, ty, skipped) = (model.architecture, model.ty, model.skipped);
    let (kind, next_tokens) = (OutputKind::Projector, options.next_tokens);
    Ok(Conversion { plan, kind, architecture, ty, skipped, warnings, n_errors, metadata, next_tokens })
}

/// What the files of the preprocessors say: `processor_config.json` takes precedence, and in each file what is said of images.
fn preprocessor(dir: &Path) -> Result<Json, Error> {
    let mut all = Map::new();
    for (file, inner) in [("preprocessor_config.json", "media_proc_cfg"), ("processor_config.json", "image_processor")]
    {
        let Some(Json::Object(document)) = files::read_json(dir, file)? else { continue };
        let nested = document.get(inner).and_then(Json::as_object).cloned();
        all.extend(document);
        all.extend(nested.unwrap_or_default());
    }
    Ok(Json::Object(all))
}
