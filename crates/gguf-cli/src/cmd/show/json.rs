//! `gguf show --json`: one object with everything. The names of its fields stay.

use std::io::Write;

use gguf_arch::summary::{Span, Summary};
use gguf_format::Gguf;
use gguf_io::ModelFile;
use serde_json::{Map, Value, json};

use super::start_of;
use crate::json;
use crate::ui::Ui;

/// Prints the object.
pub fn print(ui: &mut Ui, shards: &[ModelFile], s: &Summary, full: bool) -> std::io::Result<()> {
    let Some(first) = shards.first() else { return Ok(()) };
    let object = json!({
        "path": first.path().display().to_string(),
        "format": format(first.gguf()),
        "summary": summary(s),
        "shards": shards.iter().map(shard).collect::<Vec<_>>(),
        "metadata": metadata(first.gguf(), full),
        "tensors": shards.iter().enumerate().flat_map(|(i, file)| tensors(file.gguf(), i)).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut ui.out, &object)?;
    writeln!(ui.out)
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

/// Everything that is known; what is not known is left out.
fn summary(s: &Summary) -> Value {
    let span = |span: Option<Span>| {
        span.map(|s| if s.min == s.max { Value::from(s.min) } else { json!({ "min": s.min, "max": s.max }) })
    };
    let fields = [
        ("type", s.kind.clone().map(Value::from)),
        ("architecture", s.architecture.clone().map(Value::from)),
        ("name", s.name.clone().map(Value::from)),
        ("size_label", s.size_label.clone().map(Value::from)),
        ("license", s.license.clone().map(Value::from)),
        ("n_parameters", Some(s.n_params.into())),
        ("tensor_bytes", Some(s.tensor_bytes.into())),
        ("bits_per_weight", s.bits_per_weight().map(Value::from)),
        ("n_tensors", Some(s.n_tensors.into())),
        ("n_tensors_of_unknown_size", Some(s.n_unknown.into())),
        ("n_keys", Some(s.n_kv.into())),
        ("n_shards", Some(s.n_shards.into())),
        ("n_shards_expected", s.n_shards_expected.map(Value::from)),
        ("file_type", s.file_type.map(|t| t.to_string().into())),
        ("quantization_version", s.quantization_version.map(Value::from)),
        ("types", Some(s.types.iter().map(share).collect())),
        ("context_length", s.context_length.map(Value::from)),
        ("embedding_length", s.embedding_length.map(Value::from)),
        ("block_count", s.block_count.map(Value::from)),
        ("feed_forward_length", span(s.feed_forward_length)),
        ("head_count", span(s.head_count)),
        ("head_count_kv", span(s.head_count_kv)),
        ("expert_count", s.expert_count.map(Value::from)),
        ("expert_used_count", span(s.expert_used_count)),
        ("rope_scaling", s.rope_scaling.clone().map(Value::from)),
        ("rope_scaling_factor", s.rope_scaling_factor.map(Value::from)),
        ("vocabulary_size", s.vocab_size.map(Value::from)),
        ("tokenizer_model", s.tokenizer_model.clone().map(Value::from)),
        ("tokenizer_pre", s.tokenizer_pre.clone().map(Value::from)),
        ("n_chat_templates", Some(s.n_chat_templates.into())),
    ];
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}

fn share(t: &gguf_arch::summary::TypeShare) -> Value {
    json!({ "type": t.ty.to_string(), "n_tensors": t.n_tensors, "n_parameters": t.n_params, "bytes": t.bytes })
}

fn shard(file: &ModelFile) -> Value {
    let gguf = file.gguf();
    json!({
        "path": file.path().display().to_string(),
        "file_bytes": file.file_bytes(),
        "head_bytes": gguf.head_bytes(),
        "data_offset": gguf.data_offset(),
        "n_keys": gguf.n_kv(),
        "n_tensors": gguf.n_tensors(),
    })
}

/// In the order of the file, and a list, because a key may be there twice.
fn metadata(gguf: &Gguf<'_>, full: bool) -> Vec<Value> {
    let pair = |kv: gguf_format::KvRef<'_>| {
        let mut pair = Map::new();
        pair.insert("key".to_owned(), json::string(kv.key));
        pair.insert("type".to_owned(), kv.value.value_type().to_string().into());
        if let Some(array) = kv.value.as_array() {
            pair.insert("element_type".to_owned(), array.elem_type().to_string().into());
            pair.insert("length".to_owned(), array.len().into());
        }
        pair.insert("offset".to_owned(), kv.offset.into());
        pair.insert("value".to_owned(), json::value(kv.value, full));
        Value::Object(pair)
    };
    gguf.kvs().map(pair).collect()
}

fn tensors(gguf: &Gguf<'_>, shard: usize) -> impl Iterator<Item = Value> {
    gguf.tensors().map(move |t| {
        json!({
            "name": json::string(t.name),
            "shape": t.dims.collect::<Vec<u64>>(),
            "type": t.ty.to_string(),
            "type_id": t.ty.0,
            "bytes": t.n_bytes().ok(),
            "offset": start_of(gguf, &t),
            "shard": shard,
        })
    })
}
