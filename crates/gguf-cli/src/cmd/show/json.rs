//! `gguf show --json`: one object with all information. Field names are stable.

use std::path::{Path, PathBuf};

use gguf_format::{Gguf, KvRef, keys};
use gguf_io::ModelFile;
use gguf_model::summary::{Span, Summary, summary};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::cmd::Shards;
use crate::failure::Failure;
use crate::json::{self, List, Shown, Text};
use crate::ui::Ui;

/// Number of indented levels: the object, its list of files, each file, its lists, and their objects.
const LEVELS: usize = 5;

/// Prints the object. `open` is called for each file in turn; if it fails, the failure is printed in place of the file.
pub fn print<'p>(
    ui: &mut Ui,
    paths: &'p [PathBuf],
    open: impl Fn(&'p Path) -> Result<Shards, Failure>,
    full: bool,
) -> std::io::Result<()> {
    let file = |path: &'p PathBuf| Opened { path, model: open(path), full };
    let files = List(|| paths.iter().map(file));
    json::print(ui, LEVELS, &Document { files })
}

#[derive(Serialize)]
struct Document<L> {
    files: L,
}

/// An opened file, or the reason why it could not be opened.
struct Opened<'a> {
    path: &'a Path,
    model: Result<Shards, Failure>,
    full: bool,
}

impl Serialize for Opened<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shards = match &self.model {
            Ok(shards) => shards.files(),
            Err(failure) => return json::Unopened::of(self.path, failure).serialize(serializer),
        };
        let ggufs: Vec<&Gguf<'_>> = shards.iter().map(ModelFile::gguf).collect();
        Everything { shards, summary: &summary(&ggufs), full: self.full }.serialize(serializer)
    }
}

/// All information about a model. Long lists are generated during serialization.
struct Everything<'a> {
    shards: &'a [ModelFile],
    summary: &'a Summary,
    full: bool,
}

impl Serialize for Everything<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(first) = self.shards.first() else { return serializer.serialize_unit() };
        let gguf = first.gguf();
        // A list in file order, because keys may be duplicated.
        let metadata = || gguf.kvs().map(|kv| Pair { kv, full: self.full });
        let tensors = || self.shards.iter().enumerate().flat_map(|(i, file)| tensors(file.gguf(), i));
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("path", &json::path(first.path()))?;
        object.serialize_entry("missing_bytes", &super::missing_bytes(self.shards))?;
        object.serialize_entry("format", &format(gguf))?;
        object.serialize_entry("summary", &Fields { gguf, s: self.summary })?;
        object.serialize_entry("shards", &List(|| self.shards.iter().map(Shard)))?;
        object.serialize_entry("metadata", &List(metadata))?;
        object.serialize_entry("tensors", &List(tensors))?;
        object.end()
    }
}

fn format(gguf: &Gguf<'_>) -> Value {
    let dialect = gguf.dialect();
    json!({
        "version": dialect.version.number(),
        "draft": dialect.version == gguf_format::Version::Draft,
        "byte_order": dialect.order.to_string(),
        "alignment": gguf.alignment(),
    })
}

/// All known values. Unknown values are omitted.
struct Fields<'a> {
    gguf: &'a Gguf<'a>,
    s: &'a Summary,
}

impl Fields<'_> {
    /// The unmodified text of a key; the summary's text is shortened and escaped for display.
    fn text(&self, key: &str) -> Option<Text<'_>> {
        let mut values = self.gguf.kvs().filter(|kv| kv.key == *key).map(|kv| kv.value.as_str());
        values.next_back().flatten().map(Text)
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let s = self.s;
        let span = |span: Option<Span>| {
            span.map(|s| if s.min == s.max { Value::from(s.min) } else { json!({ "min": s.min, "max": s.max }) })
        };
        let architecture = self.gguf.get_as::<&str>(keys::GENERAL_ARCHITECTURE).unwrap_or_default();
        let rope_scaling = keys::ROPE_SCALING_TYPE.replace("{arch}", architecture);
        let mut object = serializer.serialize_map(None)?;
        macro_rules! add {
            ($($name:literal: $value:expr,)*) => {
                $(if let Some(value) = $value {
                    object.serialize_entry($name, &value)?;
                })*
            };
        }
        add! {
            "type": self.text(keys::GENERAL_TYPE),
            "architecture": self.text(keys::GENERAL_ARCHITECTURE),
            "name": self.text(keys::GENERAL_NAME),
            "size_label": self.text(keys::GENERAL_SIZE_LABEL),
            "license": self.text(keys::GENERAL_LICENSE),
            "n_parameters": Some(s.n_params),
            "tensor_bytes": Some(s.tensor_bytes),
            "bits_per_weight": s.bits_per_weight(),
            "n_tensors": Some(s.n_tensors),
            "n_tensors_of_unknown_size": Some(s.n_unknown),
            "n_keys": Some(s.n_kv),
            "n_shards": Some(s.n_shards),
            "n_shards_expected": s.n_shards_expected,
            "file_type": s.file_type.map(|t| t.to_string()),
            "quantization_version": s.quantization_version,
            "types": Some(s.types.iter().map(share).collect::<Value>()),
            "context_length": s.context_length,
            "embedding_length": s.embedding_length,
            "block_count": s.block_count,
            "feed_forward_length": span(s.feed_forward_length),
            "head_count": span(s.head_count),
            "head_count_kv": span(s.head_count_kv),
            "expert_count": s.expert_count,
            "expert_used_count": span(s.expert_used_count),
            "rope_scaling": s.rope_scaling.as_ref().and_then(|_| self.text(&rope_scaling)),
            "rope_scaling_factor": s.rope_scaling_factor.map(Value::from),
            "rope_freq_base": s.rope_freq_base,
            "sliding_window": s.sliding_window,
            "vocabulary_size": s.vocab_size,
            "tokenizer_model": self.text(keys::TOKENIZER_GGML_MODEL),
            "tokenizer_pre": self.text(keys::TOKENIZER_GGML_PRE),
            "n_chat_templates": Some(s.n_chat_templates),
            "quantized_by": self.text(keys::GENERAL_QUANTIZED_BY),
            "base_model": self.text("general.base_model.0.name"),
            "imatrix": self.text(keys::QUANTIZE_IMATRIX_FILE),
            "lora_rank": span(s.lora_rank),
            "lora_alpha": s.lora_alpha,
        }
        object.end()
    }
}

fn share(t: &gguf_model::summary::TypeShare) -> Value {
    json!({ "type": t.ty.to_string(), "n_tensors": t.n_tensors, "n_parameters": t.n_params, "bytes": t.bytes })
}

struct Shard<'a>(&'a ModelFile);

impl Serialize for Shard<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let gguf = self.0.gguf();
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("path", &json::path(self.0.path()))?;
        object.serialize_entry("file_bytes", &self.0.file_bytes())?;
        object.serialize_entry("head_bytes", &gguf.head_bytes())?;
        object.serialize_entry("data_offset", &gguf.data_offset())?;
        object.serialize_entry("n_keys", &gguf.n_kv())?;
        object.serialize_entry("n_tensors", &gguf.n_tensors())?;
        object.end()
    }
}

struct Pair<'a> {
    kv: KvRef<'a>,
    full: bool,
}

impl Serialize for Pair<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.kv.value;
        let mut pair = serializer.serialize_map(None)?;
        pair.serialize_entry("key", &Text(self.kv.key))?;
        pair.serialize_entry("type", &value.value_type().to_string())?;
        if let Some(array) = value.as_array() {
            pair.serialize_entry("element_type", &array.elem_type().to_string())?;
            pair.serialize_entry("length", &array.len())?;
        }
        pair.serialize_entry("offset", &self.kv.offset)?;
        pair.serialize_entry("value", &Shown { value, full: self.full })?;
        pair.end()
    }
}

struct Tensor<'a> {
    name: Text<'a>,
    /// The other fields, all of them short.
    rest: Map<String, Value>,
}

impl Serialize for Tensor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("name", &self.name)?;
        for (name, value) in &self.rest {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

fn tensors<'a>(gguf: &'a Gguf<'a>, shard: usize) -> impl Iterator<Item = Tensor<'a>> {
    gguf.tensors().map(move |t| {
        let rest = [
            ("shape", t.dims.collect::<Value>()),
            ("type", t.ty.to_string().into()),
            ("type_id", t.ty.0.into()),
            ("bytes", t.n_bytes().ok().into()),
            ("offset", gguf.tensor_start(&t).into()),
            ("shard", shard.into()),
        ];
        Tensor { name: Text(t.name), rest: rest.map(|(name, value)| (name.to_owned(), value)).into_iter().collect() }
    })
}
