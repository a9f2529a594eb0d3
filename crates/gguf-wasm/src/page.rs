//! The answers to the questions of the page about one model.

use std::sync::Arc;

#[cfg(feature = "model")]
use ggufkit::format::Problem;
use ggufkit::format::shard::ShardName;
use ggufkit::format::{Limits, keys};
use ggufkit::io::{self as gguf_io, HeadRead, MODEL_LIMITS, read_head_with};
use ggufkit::model::summary::{Span, summary};
use ggufkit::{Gguf, HeadScan, ModelFile, ReadAt, Str, TensorInfoRef, ValueRef};
use serde_json::{Map, Value, json};

/// Number of bytes of a string in a list. The page asks for the whole text.
const SHOWN: usize = 400;

/// What a tab has the memory and its user the patience for: longer names and texts, and a longer head, are not read.
pub(crate) const LIMITS: Limits = Limits { string_bytes: 1 << 24, name_bytes: 1 << 16, ..MODEL_LIMITS };
pub(crate) const HEAD_BYTES: usize = 48 << 20;

/// Reads a head, as far as the page does.
fn read_head(source: &dyn ReadAt) -> std::io::Result<HeadRead> {
    let scan = HeadScan::new(Some(source.size()?)).within(LIMITS);
    read_head_with(&mut source.stream(0)?, scan, |bytes, _| match bytes.len() {
        0..=HEAD_BYTES => Ok(()),
        _ => Err(std::io::Error::other("the head has more than 48 MiB: too much for this page; use the program")),
    })
}

/// Fails if the head of a source is longer than what the page reads.
#[cfg(feature = "model")]
pub(crate) fn check_length(source: &dyn ReadAt) -> std::io::Result<()> {
    match read_head(source)?.error {
        Some(error) if matches!(error.problem, Problem::OverLimit { .. }) => {
            Err(std::io::Error::other(format!("{error}: too much for this page; use the program")))
        }
        _ => Ok(()),
    }
}

fn open_file(source: &Arc<dyn ReadAt>, name: &str) -> Result<ModelFile, gguf_io::Error> {
    let failed = |source| gguf_io::Error::Io { path: name.into(), action: "read", source };
    let head = read_head(source).map_err(failed)?.into_gguf();
    let gguf = head.map_err(|source| gguf_io::Error::Head { path: name.into(), source: Box::new(source) })?;
    ModelFile::from_head(gguf, Arc::clone(source), name)
}

/// A file that the page offers: its name and its bytes.
pub type Offered = (String, Arc<dyn ReadAt>);

/// The order of a list of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorOrder {
    /// The order of the file, and of the shards.
    File,
    /// The name.
    Name,
    /// The type, by its number.
    Type,
    /// The number of elements.
    Elements,
    /// The bytes of the data.
    Bytes,
}

/// One open model, whole or in part.
pub struct Page {
    name: String,
    pub(crate) files: Vec<ModelFile>,
    pub(crate) missing: Vec<String>,
    #[cfg(feature = "model")]
    pub(crate) tokens: crate::model::TokensOnce,
}

impl Page {
    /// Opens the model that the named file belongs to, with the other shards among the offered files.
    ///
    /// # Errors
    /// The message, if no file of the model can be read.
    pub fn open(offered: &[Offered], name: &str) -> Result<Page, String> {
        let siblings: Vec<String> = match ShardName::parse(name) {
            Some(shard) if shard.siblings().any(|sibling| sibling == name) => shard.siblings().collect(),
            _ => vec![name.to_owned()],
        };
        let (mut files, mut missing) = (Vec::new(), Vec::new());
        for sibling in siblings {
            match offered.iter().find(|(offered, _)| *offered == sibling) {
                Some((_, source)) => {
                    files.push(open_file(source, &sibling).map_err(|e| text_of(&e))?);
                }
                None => missing.push(sibling),
            }
        }
        let name = name.to_owned();
        Ok(Page {
            name,
            files,
            missing,
            #[cfg(feature = "model")]
            tokens: Default::default(),
        })
    }

    pub(crate) fn first(&self) -> Option<&Gguf<'static>> {
        self.files.first().map(ModelFile::gguf)
    }

    /// What the first screen shows: files, format, summary, and the numbers of rows.
    pub fn overview(&self) -> Value {
        let Some(gguf) = self.first() else { return json!({}) };
        let ggufs: Vec<&Gguf<'_>> = self.files.iter().map(ModelFile::gguf).collect();
        let s = summary(&ggufs);
        let span = |span: Option<Span>| span.map(|s| s.to_string());
        let files = self.files.iter().map(|file| {
            json!({
                "name": file.path().to_string_lossy(),
                "file_bytes": number(file.file_bytes()),
                "head_bytes": number(file.gguf().head_bytes()),
                "data_offset": number(file.gguf().data_offset()),
                "n_keys": file.gguf().n_kv(),
                "n_tensors": file.gguf().n_tensors(),
            })
        });
        let types = s.types.iter().map(|t| {
            json!({ "type": t.ty.to_string(), "n_tensors": t.n_tensors, "n_parameters": number(t.n_params), "bytes": number(t.bytes) })
        });
        let tokens = gguf.get("tokenizer.ggml.tokens").and_then(|value| value.as_array()).map(|tokens| tokens.len());
        let templates = gguf.kvs().filter(|kv| kv.key.as_bytes().starts_with(keys::TOKENIZER_CHAT_TEMPLATE.as_bytes()));
        json!({
            "name": self.name,
            "files": files.collect::<Vec<_>>(),
            "missing": self.missing,
            "format": {
                "version": gguf.dialect().version.number(),
                "draft": gguf.dialect().version == ggufkit::Version::Draft,
                "byte_order": gguf.dialect().order.to_string(),
                "alignment": number(gguf.alignment()),
            },
            "summary": {
                "type": s.kind, "architecture": s.architecture, "name": s.name, "size_label": s.size_label, "license": s.license,
                "n_parameters": number(s.n_params), "tensor_bytes": number(s.tensor_bytes),
                "bits_per_weight": s.bits_per_weight(), "n_tensors": s.n_tensors,
                "n_tensors_of_unknown_size": s.n_unknown, "n_keys": s.n_kv,
                "n_shards": s.n_shards, "n_shards_expected": s.n_shards_expected,
                "file_type": s.file_type.map(|t| t.to_string()), "quantization_version": s.quantization_version,
                "types": types.collect::<Vec<_>>(),
                "context_length": s.context_length.map(number), "embedding_length": s.embedding_length.map(number),
                "block_count": s.block_count.map(number), "feed_forward_length": span(s.feed_forward_length),
                "head_count": span(s.head_count), "head_count_kv": span(s.head_count_kv),
                "expert_count": s.expert_count.map(number), "expert_used_count": span(s.expert_used_count),
                "rope_scaling": s.rope_scaling, "rope_scaling_factor": s.rope_scaling_factor, "rope_freq_base": s.rope_freq_base,
                "sliding_window": s.sliding_window.map(number), "vocabulary_size": s.vocab_size.map(number),
                "tokenizer_model": s.tokenizer_model, "tokenizer_pre": s.tokenizer_pre,
                "quantized_by": s.quantized_by, "base_model": s.base_model, "imatrix": s.imatrix,
                "lora_rank": span(s.lora_rank), "lora_alpha": s.lora_alpha,
            },
            "n_tokens": tokens.unwrap_or(0),
            "n_templates": templates.count(),
        })
    }

    /// The key-value pairs whose key contains `part`, in any case: the index of each. They are those of the first shard, which has the model's.
    pub fn find_kvs(&self, part: &str) -> Vec<u32> {
        let part = part.to_lowercase();
        let kvs = self.first().into_iter().flat_map(Gguf::kvs).zip(0u32..);
        kvs.filter(|(kv, _)| part.is_empty() || has(kv.key.as_bytes(), &part)).map(|(_, i)| i).collect()
    }

    /// The rows of key-value pairs.
    pub fn kvs(&self, indices: &[u32]) -> Value {
        let Some(gguf) = self.first() else { return json!([]) };
        let architecture = gguf.get_as::<&str>(keys::GENERAL_ARCHITECTURE).ok();
        let kvs = indices.iter().filter_map(|i| gguf.kv_by_index((*i).into()));
        let row = |kv: ggufkit::KvRef<'_>| {
            let mut row = Map::new();
            row.insert("index".into(), kv.index.into());
            row.insert("key".into(), kv.key.to_string().into());
            row.insert("type".into(), kv.value.value_type().to_string().into());
            row.insert("offset".into(), number(kv.offset));
            match kv.value {
                ValueRef::Array(array) => {
                    let first = array.iter().take(8).map(|value| shown(value)).collect::<Vec<_>>();
                    row.insert("element_type".into(), array.elem_type().to_string().into());
                    row.insert("length".into(), number(array.len()));
                    row.insert("value".into(), first.join(", ").into());
                }
                ValueRef::String(text) => {
                    row.insert("bytes".into(), text.as_bytes().len().into());
                    row.insert("value".into(), shown(kv.value).into());
                }
                value => drop(row.insert("value".into(), shown(value).into())),
            }
            if let Some(info) = kv.key.to_str().ok().and_then(|key| keys::lookup(key, architecture)) {
                row.insert("doc".into(), info.doc.into());
                row.insert("unit".into(), info.unit.into());
            }
            Value::Object(row)
        };
        kvs.map(row).collect()
    }

    /// The whole text of a string value, with other bytes than UTF-8 replaced; empty for other values.
    pub fn text(&self, kv: u64) -> String {
        let value = self.first().and_then(|gguf| gguf.kv_by_index(kv)).map(|kv| kv.value);
        value
            .and_then(|value| value.as_str())
            .map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
            .unwrap_or_default()
    }

    /// Elements of an array.
    pub fn elements(&self, kv: u64, from: u64, n: u64) -> Value {
        let value = self.first().and_then(|gguf| gguf.kv_by_index(kv)).map(|kv| kv.value);
        let Some(array) = value.and_then(|value| value.as_array()) else { return json!([]) };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        array.iter().skip(from).take(n).map(shown).collect()
    }

    fn tensor(&self, (shard, index): (u32, u32)) -> Option<(&ModelFile, TensorInfoRef<'_>)> {
        let file = self.files.get(shard as usize)?;
        Some((file, file.gguf().tensor_by_index(index.into())?))
    }

    /// The tensors whose name or type contains `part`, in any case, in an order: shard and index of each.
    pub fn find_tensors(&self, part: &str, order: TensorOrder, is_descending: bool) -> Vec<(u32, u32)> {
        let part = part.to_lowercase();
        let mut rows = Vec::new();
        for (file, shard) in self.files.iter().zip(0u32..) {
            for (tensor, i) in file.gguf().tensors().zip(0u32..) {
                if part.is_empty()
                    || has(tensor.name.as_bytes(), &part)
                    || tensor.ty.to_string().to_lowercase().contains(&part)
                {
                    rows.push((shard, i));
                }
            }
        }
        let info = |row: &(u32, u32)| self.tensor(*row).map(|(_, tensor)| tensor);
        match order {
            TensorOrder::File => {}
            TensorOrder::Name => rows.sort_by_cached_key(|row| info(row).map(|t| t.name.as_bytes())),
            TensorOrder::Type => rows.sort_by_cached_key(|row| info(row).map(|t| t.ty)),
            TensorOrder::Elements => rows.sort_by_cached_key(|row| info(row).and_then(|t| t.n_elements())),
            TensorOrder::Bytes => rows.sort_by_cached_key(|row| info(row).and_then(|t| t.n_bytes().ok())),
        }
        if is_descending {
            rows.reverse();
        }
        rows
    }

    /// The rows of tensors.
    pub fn tensors(&self, rows: &[(u32, u32)]) -> Value {
        let row = |row: &(u32, u32)| {
            let (file, t) = self.tensor(*row)?;
            Some(json!({
                "name": t.name.to_string(),
                "shape": t.dims.map(number).collect::<Vec<_>>(),
                "type": t.ty.to_string(),
                "type_id": t.ty.0,
                "n_elements": t.n_elements().map(number),
                "bytes": t.n_bytes().ok().map(number),
                "offset": file.gguf().tensor_start(&t).map(number),
                "shard": row.0,
                "index": row.1,
            }))
        };
        rows.iter().filter_map(row).collect()
    }

    /// The chat templates, each with its name; the first is the default one.
    pub fn templates(&self) -> Value {
        let Some(gguf) = self.first() else { return json!([]) };
        let mut templates = Vec::new();
        for kv in gguf.kvs() {
            let Ok(key) = kv.key.to_str() else { continue };
            let name = match key.strip_prefix(keys::TOKENIZER_CHAT_TEMPLATE) {
                Some("") => "",
                Some(rest) if rest.starts_with('.') => &rest[1..],
                _ => continue,
            };
            if let Some(text) = kv.value.as_str() {
                templates.push(json!({ "name": name, "text": String::from_utf8_lossy(text.as_bytes()) }));
            }
        }
        Value::Array(templates)
    }
}

/// An integer with all its digits. Numbers of JavaScript have 53 bits.
pub(crate) fn number(n: u64) -> Value {
    n.to_string().into()
}

/// A value on one line; a long string is cut.
pub(crate) fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::F32(v) => format!("{v:?}"),
        ValueRef::F64(v) => format!("{v:?}"),
        ValueRef::String(text) if text.as_bytes().len() > SHOWN => {
            let mut end = SHOWN;
            // Not within a character.
            while text.as_bytes().get(end).is_some_and(|b| b & 0xc0 == 0x80) && end > SHOWN - 4 {
                end -= 1;
            }
            format!("{}…", Str(text.as_bytes().get(..end).unwrap_or_default()))
        }
        ValueRef::Array(array) => format!("{}[{}]", array.elem_type(), array.len()),
        value => value.to_string(),
    }
}

/// Whether bytes contain a text in lower case.
pub(crate) fn has(bytes: &[u8], part: &str) -> bool {
    if bytes.is_ascii() {
        let part = part.as_bytes();
        return bytes.windows(part.len().max(1)).any(|window| window.eq_ignore_ascii_case(part));
    }
    String::from_utf8_lossy(bytes).to_lowercase().contains(part)
}

/// The message of an error and of its causes.
pub(crate) fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
