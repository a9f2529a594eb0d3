//! ggufkit: `conformance-ggufkit FILE`.

use std::process::ExitCode;

use ggufkit::{ByteOrder, CheckOptions, ModelFile, Str, ValueRef};
use serde_json::{Value, json};

fn text(s: Str<'_>) -> Value {
    let hex = || s.as_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>();
    s.to_str().map_or_else(|_| json!({ "hex": hex() }), Value::from)
}

fn value(v: ValueRef<'_>) -> Value {
    match v {
        ValueRef::String(s) if s.as_bytes().len() > 2000 => Value::Null, // it is not compared
        ValueRef::String(s) => text(s),
        // JSON has neither NaN nor infinity.
        ValueRef::F32(x) if !x.is_finite() => x.to_string().to_lowercase().into(),
        ValueRef::F64(x) if !x.is_finite() => x.to_string().to_lowercase().into(),
        ValueRef::Array(a) if a.len() > 1 << 16 => Value::Null,
        ValueRef::Array(a) => json!({ "of": a.elem_type().to_string(), "items": a.iter().map(value).collect::<Vec<_>>() }),
        other => json!(other),
    }
}

fn read(path: &str) -> Result<Value, Box<dyn std::error::Error>> {
    if !ggufkit::check_with(path, &CheckOptions::default().structure(true))?.is_sound() {
        return Err("the check has errors".into());
    }
    let model = ModelFile::open(path)?;
    let gguf = model.gguf();
    let is_big = gguf.dialect().order == ByteOrder::Big;
    let kv: Vec<Value> = gguf.kvs().map(|kv| json!({ "key": text(kv.key), "type": kv.value.value_type().to_string(), "value": value(kv.value) })).collect();
    let tensors = model.tensors().map(|t| {
        let info = t.info();
        // Integers of 64 bits are not f32.
        let values = info.n_elements().filter(|n| *n < 1 << 12 && info.ty.0 != 27).and_then(|_| t.to_f32().ok());
        let values = values.map(|v| v.into_iter().map(|x| value(ValueRef::F32(x))).collect::<Vec<_>>());
        json!({ "name": text(info.name), "type": info.ty.0, "shape": info.dims.collect::<Vec<_>>(), "offset": info.offset, "bytes": info.n_bytes().ok(), "values": values })
    });
    Ok(json!({ "version": gguf.dialect().version.number(), "byte_order": if is_big { "big" } else { "little" }, "alignment": gguf.alignment(),
        "data_offset": gguf.data_offset(), "n_kv": gguf.n_kv(), "n_tensors": gguf.n_tensors(), "kv": kv, "tensors": tensors.collect::<Vec<_>>() }))
}

fn main() -> ExitCode {
    let report = read(&std::env::args().nth(1).expect("the name of a file"));
    report.as_ref().map_or_else(|e| eprintln!("{e}"), |report| println!("{report}"));
    ExitCode::from(u8::from(report.is_err()))
}
