//! The `general.*` key-values of a model folder: name, version, license, base models and the rest.
//!
//! The rules follow llama.cpp's converter (gguf-py/gguf/metadata.py, `Metadata.load` and `set_gguf_meta_model`). Each field is taken from
//! the first source that provides it: the file of overrides, the front matter of the model card `README.md`, `_name_or_path` in
//! `config.json`, the name of the folder. `generation_config.json` provides the sampling parameters.

mod card;
mod name;
mod size;
mod warning;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::Value;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value as Json};

pub use self::card::{CardProblem, front_matter_fields};
pub use self::name::default_file_name;
use self::name::{NameParts, title};
pub use self::size::ParameterCounts;
pub use self::warning::MetadataWarning;
use crate::config::shortened;
use crate::documents::Documents;
use crate::files::read_json_anywhere;
use crate::folder::Folder;
use crate::folder_error::FolderError;
use crate::key_values::KeyValues;
use crate::number::{to_f32, to_u32};
use crate::problem::FileProblem;

/// The error type, which the tokenizer shares.
pub type MetadataError = FolderError;

/// Metadata options.
#[derive(Debug, Clone, Default)]
pub struct MetadataOptions {
    /// The model's name; takes precedence over all other sources.
    pub model_name: Option<String>,
    /// A JSON file of overrides: the keys are GGUF keys (`general.author`), and `general.base_models` and
    /// `general.datasets` are lists of objects.
    pub metadata: Option<PathBuf>,
    /// The folder name to use instead of the actual one, for a model in a cache, where folders have other names.
    pub folder: Option<String>,
}

/// The `general.*` key-values, and the components of the output file name.
#[non_exhaustive]
#[derive(Debug, Clone, Default)]
pub struct ModelMetadata {
    /// The key-values in output order: `general.type` to `general.languages`.
    pub kvs: Vec<(String, Value)>,
    /// `general.name`.
    pub name: Option<String>,
    /// `general.basename`.
    pub basename: Option<String>,
    /// `general.finetune`.
    pub finetune: Option<String>,
    /// `general.version`.
    pub version: Option<String>,
    /// `general.size_label`.
    pub size_label: Option<String>,
    /// Warnings about ignored or questionable metadata.
    pub warnings: Vec<MetadataWarning>,
}

/// Sampling parameters in the order of their keys: name in GGUF (`general.sampling.…`), name in `generation_config.json`.
pub(crate) const SAMPLING: [(&str, &str); 12] = [
    ("sequence", "sequence"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("xtc_probability", "xtc_probability"),
    ("xtc_threshold", "xtc_threshold"),
    ("temp", "temperature"),
    ("penalty_last_n", "penalty_last_n"),
    ("penalty_repeat", "penalty_repeat"),
    ("mirostat", "mirostat"),
    ("mirostat_tau", "mirostat_tau"),
    ("mirostat_eta", "mirostat_eta"),
];

/// The older name of `penalty_repeat`.
const REPETITION_PENALTY: &str = "repetition_penalty";

/// The text fields in the order of their keys (`general.…`), without the license.
const TEXTS: [&str; 19] = [
    "name",
    "author",
    "version",
    "organization",
    "finetune",
    "basename",
    "description",
    "quantized_by",
    "size_label",
    "license",
    "license.name",
    "license.link",
    "url",
    "doi",
    "uuid",
    "repo_url",
    "source.url",
    "source.doi",
    "source.uuid",
];

/// The last of the text fields.
const SOURCE_REPO_URL: &str = "source.repo_url";

/// The fields of a base model or dataset, in key order.
pub(crate) const ORIGIN: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// Model card keys for a text field, in lookup order.
pub(crate) const CARD_TEXTS: [(&str, &str); 28] = [
    ("name", "name"),
    ("author", "author"),
    ("version", "version"),
    ("organization", "organization"),
    ("description", "description"),
    ("finetune", "finetune"),
    ("basename", "basename"),
    ("size_label", "size_label"),
    ("source.url", "url"),
    ("source.doi", "doi"),
    ("source.uuid", "uuid"),
    ("source.repo_url", "repo_url"),
    ("name", "model_name"),
    ("author", "model_author"),
    ("version", "model_version"),
    ("organization", "model_organization"),
    ("description", "model_description"),
    ("finetune", "model_finetune"),
    ("basename", "model_basename"),
    ("size_label", "model_size_label"),
    ("source.url", "model_url"),
    ("source.doi", "model_doi"),
    ("source.uuid", "model_uuid"),
    ("source.repo_url", "model_repo_url"),
    ("author", "model_creator"),
    ("basename", "model_type"),
    ("license.name", "license_name"),
    ("license.link", "license_link"),
];

/// The `general.*` key-values of the model in `dir`. `size` counts the parameters that will be written; it is all zero if no tensors are
/// written.
///
/// # Errors
/// [`FolderError`] if a file of overrides cannot be read or has a value of the wrong type, or if a file of the folder cannot be read.
/// Errors in the content of the model card and of `generation_config.json` are warnings, because neither affects how the model runs.
pub fn key_values(
    dir: &dyn Folder,
    overrides: &MetadataOptions,
    size: &ParameterCounts,
) -> Result<ModelMetadata, MetadataError> {
    keys_from(&Documents::new(dir), overrides, size)
}

/// The key-values of [`key_values`], from files that the conversion may have read already.
pub(crate) fn keys_from(
    documents: &Documents<'_>,
    overrides: &MetadataOptions,
    size: &ParameterCounts,
) -> Result<ModelMetadata, FolderError> {
    let mut m = Metadata::default();
    let card = m.read_card(documents)?;
    m.take_card(&card, size.total);
    let config = documents.json_or_null("config.json")?;
    let id = config.get("_name_or_path").and_then(Json::as_str);
    // A value with more than one slash is a local path.
    if let Some(id) = id.filter(|id| id.matches('/').count() <= 1) {
        m.take_id(id, size.total);
    }
    let folder = overrides.folder.clone().unwrap_or_else(|| folder_name(documents));
    m.take_id(&folder, size.total);
    m.read_generation_config(documents)?;
    if let Some(file) = &overrides.metadata {
        m.take_overrides(file)?;
    }
    if let Some(name) = &overrides.model_name {
        m.set("name", Some(name.clone()));
    }
    if m.get("name").is_none() {
        m.set("name", Some(folder));
    }
    if m.get("size_label").is_none() {
        m.set("size_label", size.label());
    }
    Ok(m.finish())
}

/// The folder's name; paths such as `.` are resolved first.
fn folder_name(dir: &dyn Folder) -> String {
    let name = dir.path().file_name().map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| dir.real_name()).unwrap_or_default()
}

/// A base model or dataset: its texts, keyed by the names of [`ORIGIN`].
type Origin = Vec<(&'static str, String)>;

/// The collected fields.
#[derive(Debug, Default)]
struct Metadata {
    sampling: Map<String, Json>,
    texts: Vec<(&'static str, String)>,
    base_models: Option<Vec<Origin>>,
    datasets: Option<Vec<Origin>>,
    tags: Vec<String>,
    languages: Vec<String>,
    warnings: Vec<MetadataWarning>,
}

impl Metadata {
    fn get(&self, key: &str) -> Option<&String> {
        self.texts.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    fn set(&mut self, key: &'static str, value: Option<String>) {
        self.texts.retain(|(k, _)| *k != key);
        self.texts.extend(value.map(|v| (key, v)));
    }

    /// Sets a field that has no value yet.
    fn offer(&mut self, key: &'static str, value: Option<String>) {
        if self.get(key).is_none() {
            self.set(key, value);
        }
    }

    fn read_card(&mut self, documents: &Documents<'_>) -> Result<card::Card, FolderError> {
        let Some(bytes) = documents.start(card::MAX_README, "README.md")? else { return Ok(card::Card::default()) };
        // The last character may be incomplete.
        let card = match std::str::from_utf8(&bytes) {
            Ok(text) => card::Card::parse(text),
            Err(e) if e.error_len().is_none() && bytes.len() == card::MAX_README => {
                card::Card::parse(&String::from_utf8_lossy(&bytes))
            }
            Err(e) => Err(CardProblem::NotUtf8 { at: e.valid_up_to() }),
        };
        Ok(card.unwrap_or_else(|problem| {
            self.warnings.push(MetadataWarning::Card(problem));
            card::Card::default()
        }))
    }

    fn take_card(&mut self, card: &card::Card, total: i64) {
        for (key, card_key) in CARD_TEXTS {
            let text = self.card_text(card, card_key);
            self.offer(key, text);
        }
        let too_many = |key: &'static str, node: &card::Node| match node {
            card::Node::List(list) if list.len() > card::MAX_ORIGINS => {
                let (found, max) = (list.len(), card::MAX_ORIGINS);
                Some(MetadataWarning::CardList(CardProblem::TooManyOrigins { key, found, max }))
            }
            _ => None,
        };
        if let Some(ids) = card.first(&["base_model", "base_models", "base_model_sources"]) {
            match too_many("base_model", ids) {
                Some(warning) => self.warnings.push(warning),
                None => self.base_models = Some(self.origins(ids, total)),
            }
        }
        if let Some(ids) = card.first(&["datasets", "dataset", "dataset_sources"]) {
            match too_many("datasets", ids) {
                Some(warning) => self.warnings.push(warning),
                None => self.datasets = Some(self.origins(ids, total)),
            }
        }
        let license = match card.get("license") {
            Some(card::Node::List(list)) => {
                Some(list.iter().filter_map(card::Node::text).collect::<Vec<_>>().join(","))
            }
            _ => self.card_text(card, "license"),
        };
        self.offer("license", license);
        for (list, keys) in
            [(&mut self.tags, ["tags", "pipeline_tag"]), (&mut self.languages, ["languages", "language"])]
        {
            for key in keys {
                match card.get(key) {
                    Some(card::Node::Scalar(s)) if s.is_text() => list.push(s.text.clone()),
                    Some(card::Node::List(nodes)) => {
                        list.extend(nodes.iter().filter_map(card::Node::text).map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
    }

    fn card_text(&mut self, card: &card::Card, key: &'static str) -> Option<String> {
        match card.get(key)? {
            card::Node::Scalar(s) => s.written().map(str::to_owned),
            _ => {
                self.warnings.push(MetadataWarning::CardValue { key });
                None
            }
        }
    }

    /// The base models or datasets in a card: by id, by URL or as objects.
    fn origins(&mut self, node: &card::Node, total: i64) -> Vec<Origin> {
        let entries = match node {
            card::Node::List(list) => list.as_slice(),
            card::Node::Scalar(s) if s.is_text() => std::slice::from_ref(node),
            _ => &[],
        };
        let mut origins = Vec::new();
        for entry in entries {
            origins.push(match entry {
                card::Node::Scalar(s) if s.is_text() => origin_of_id(&s.text, total),
                card::Node::Map(map) => {
                    let text = |key: &str| map.iter().rev().find(|(k, _)| k == key).and_then(|(_, v)| v.text());
                    ORIGIN.iter().filter_map(|&key| Some((key, text(key)?.to_owned()))).collect()
                }
                _ => {
                    self.warnings.push(MetadataWarning::CardOrigin);
                    Origin::new()
                }
            });
        }
        origins
    }

    /// Sets fields from the parts of a model id, such as `mistralai/Mistral-7B-v0.1`.
    fn take_id(&mut self, id: &str, total: i64) {
        let parts = NameParts::of(id, total);
        self.offer("name", Some(title(&parts.name)));
        self.offer("organization", parts.organization.as_deref().map(title));
        self.offer("basename", parts.basename);
        self.offer("finetune", parts.finetune);
        self.offer("version", parts.version);
        self.offer("size_label", parts.size_label);
    }

    fn read_generation_config(&mut self, documents: &Documents<'_>) -> Result<(), FolderError> {
        let Sampling(config) = match sampling_of(documents) {
            Err(e @ (FolderError::Json { .. } | FolderError::Read { .. } | FolderError::TooLarge { .. })) => {
                self.warnings.push(MetadataWarning::GenerationConfig(Arc::new(e)));
                return Ok(());
            }
            config => config?,
        };
        for (key, hf_key) in SAMPLING {
            let mut value = config.get(hf_key);
            if value.is_none() && key == "penalty_repeat" {
                value = config.get(REPETITION_PENALTY);
            }
            let Some(value) = value.filter(|v| !v.is_null()) else { continue };
            match sampling_value(key, value) {
                Some(_) => drop(self.sampling.insert(key.to_owned(), value.clone())),
                None => self.warnings.push(MetadataWarning::Sampling { key: hf_key, found: shortened(value) }),
            }
        }
        Ok(())
    }

    fn take_overrides(&mut self, file: &Path) -> Result<(), FolderError> {
        let invalid = |problem| FolderError::Invalid { file: file.to_owned(), problem };
        let json = read_json_anywhere(file)?.ok_or_else(|| FolderError::Read {
            file: file.to_owned(),
            source: io::Error::new(io::ErrorKind::NotFound, "no such file"),
        })?;
        let map = json.as_object().ok_or_else(|| invalid(FileProblem::NotAnObject))?;
        for (key, value) in map {
            let wrong = |expected| invalid(FileProblem::Value { key: key.clone(), found: shortened(value), expected });
            let text = || match value {
                Json::Null => Ok(None),
                Json::String(s) => Ok(Some(s.clone())),
                _ => Err(wrong("a string")),
            };
            let list = || match value {
                Json::Null => Ok(Vec::new()),
                _ => string_list(value).ok_or_else(|| wrong("a list of strings")),
            };
            let origins = || match value {
                Json::Null => Ok(None),
                _ => origin_list(value).map(Some).ok_or_else(|| wrong("a list of objects whose values are strings")),
            };
            let Some(name) = key.strip_prefix("general.") else {
                self.warnings.push(MetadataWarning::NotGeneral { file: file.to_owned(), key: key.clone() });
                continue;
            };
            let sampling = name.strip_prefix("sampling.").filter(|s| SAMPLING.iter().any(|(k, _)| k == s));
            let known = TEXTS.into_iter().chain([SOURCE_REPO_URL]).find(|k| *k == name && name != "license");
            match (name, sampling, known) {
                (_, Some(key), _) => {
                    if !value.is_null() && sampling_value(key, value).is_none() {
                        return Err(wrong(match key {
                            "sequence" => "a string",
                            key if is_sampling_integer(key) => "an integer of 32 bits",
                            _ => "a number in the range of 32-bit floats",
                        }));
                    }
                    self.sampling.insert(key.to_owned(), value.clone());
                }
                (_, _, Some(key)) => self.set(key, text()?),
                ("tags", ..) => self.tags = list()?,
                ("languages", ..) => self.languages = list()?,
                ("base_models", ..) => self.base_models = origins()?,
                ("datasets", ..) => self.datasets = origins()?,
                // llama.cpp's converter has no such override either.
                _ => self.warnings.push(MetadataWarning::NotOverridable { file: file.to_owned(), key: key.clone() }),
            }
        }
        Ok(())
    }

    fn finish(self) -> ModelMetadata {
        let mut kvs = KeyValues::default();
        kvs.set("general.type", "model");
        for (key, _) in SAMPLING {
            match self.sampling.get(key).and_then(|value| sampling_value(key, value)) {
                Some(Value::String(s)) if s.is_empty() => {}
                Some(value) => kvs.set(format!("general.sampling.{key}"), value),
                None => {}
            }
        }
        for key in TEXTS.into_iter().chain([SOURCE_REPO_URL]) {
            if let Some(text) = self.get(key) {
                kvs.string(format!("general.{key}"), text);
            }
        }
        for (kind, origins) in [("base_model", &self.base_models), ("dataset", &self.datasets)] {
            let Some(origins) = origins else { continue };
            kvs.set(format!("general.{kind}.count"), to_u32(origins.len()));
            for (i, origin) in origins.iter().enumerate() {
                for key in ORIGIN {
                    if let Some((_, text)) = origin.iter().find(|(k, _)| *k == key) {
                        kvs.string(format!("general.{kind}.{i}.{key}"), text);
                    }
                }
            }
        }
        kvs.strings("general.tags", &self.tags);
        kvs.strings("general.languages", &self.languages);
        let [name, basename, finetune, version, size_label] =
            ["name", "basename", "finetune", "version", "size_label"].map(|key| self.get(key).cloned());
        let (kvs, warnings) = (kvs.into_vec(), self.warnings);
        ModelMetadata { kvs, name, basename, finetune, version, size_label, warnings }
    }
}

/// Whether a sampling parameter is an integer.
fn is_sampling_integer(key: &str) -> bool {
    matches!(key, "top_k" | "penalty_last_n" | "mirostat")
}

/// A sampling parameter in the type of its key: `i32` for integers, `f32` for other numbers. `None` if the value does not fit.
fn sampling_value(key: &str, value: &Json) -> Option<Value> {
    match key {
        "sequence" => value.as_str().map(Value::from),
        key if is_sampling_integer(key) => Some(Value::I32(i32::try_from(value.as_i64()?).ok()?)),
        _ => Some(to_f32(value.as_f64()?)).filter(|v| v.is_finite()).map(Value::F32),
    }
}

/// The sampling parameters of `generation_config.json`, by their names in that file. Other fields are ignored.
#[derive(Debug, Default)]
struct Sampling(Map<String, Json>);

impl<'de> Deserialize<'de> for Sampling {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Sampling, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Sampling;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of settings")
            }
            fn visit_unit<E>(self) -> Result<Sampling, E> {
                Ok(Sampling::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sampling, A::Error> {
                let mut found = Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    let wanted = key == REPETITION_PENALTY || SAMPLING.iter().any(|(_, name)| *name == key);
                    if wanted {
                        let SamplingValue(value) = map.next_value()?;
                        found.insert(key, value);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Sampling(found))
            }
        }
        d.deserialize_any(V)
    }
}

/// The sampling parameters of a folder; none without `generation_config.json`.
fn sampling_of(documents: &Documents<'_>) -> Result<Sampling, FolderError> {
    const NAME: &str = "generation_config.json";
    if let Ok(document) = documents.json_or_null(NAME)
        && let Ok(sampling) = Sampling::deserialize(&*document)
    {
        return Ok(sampling);
    }
    // The other settings may exceed the limits of a document; otherwise, this finds the position of the error.
    Ok(documents.json_as(NAME)?.unwrap_or_default())
}

/// The value of a sampling parameter, of any type.
#[derive(Deserialize)]
struct SamplingValue(#[serde(deserialize_with = "crate::json::bounded::<1000, _>")] Json);

fn string_list(value: &Json) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|v| v.as_str().map(str::to_owned)).collect()
}

fn origin_list(value: &Json) -> Option<Vec<Origin>> {
    let origin = |entry: &Json| {
        let entry = entry.as_object()?;
        let fields = ORIGIN.iter().filter_map(|&key| Some((key, entry.get(key)?)));
        fields.map(|(key, v)| Some((key, v.as_str()?.to_owned()))).collect::<Option<Origin>>()
    };
    value.as_array()?.iter().map(origin).collect()
}

/// A base model or dataset with a known id (`org/name`) or URL.
fn origin_of_id(id: &str, total: i64) -> Origin {
    let is_url = ["http://", "https://", "ssh://"].iter().any(|scheme| id.starts_with(scheme));
    let hub_id = match is_url {
        true => id.strip_prefix("https://").or(id.strip_prefix("http://")).and_then(hub_path),
        false => Some(id),
    };
    let mut origin = Origin::new();
    if is_url {
        origin.push(("repo_url", id.to_owned()));
    }
    let Some(hub_id) = hub_id else { return origin };
    let parts = NameParts::of(hub_id, total);
    origin.push(("name", title(&parts.name)));
    if let Some(organization) = &parts.organization {
        origin.push(("organization", title(organization)));
        if !is_url {
            origin.push(("repo_url", format!("https://huggingface.co/{organization}/{}", parts.name)));
        }
    }
    origin.extend(parts.version.map(|v| ("version", v)));
    origin
}

/// The `org/name` of a URL without its scheme, if it is the URL of a Hugging Face Hub repository without further path components.
fn hub_path(address: &str) -> Option<&str> {
    let path = address.strip_prefix("huggingface.co/")?;
    let (org, name) = path.split_once('/')?;
    (!org.is_empty() && !name.is_empty() && !name.contains('/')).then_some(path)
}
