//! candle: `conformance-candle FILE`. Its metadata and tensors have no order.

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Result};
use serde_json::{Value as Json, json};

fn float(x: f64) -> Json {
    if x.is_finite() { json!(x) } else { x.to_string().to_lowercase().into() }
}

/// The type's name, and the value.
fn value(v: &Value) -> (&'static str, Json) {
    match v {
        Value::U8(x) => ("u8", json!(x)),
        Value::I8(x) => ("i8", json!(x)),
        Value::U16(x) => ("u16", json!(x)),
        Value::I16(x) => ("i16", json!(x)),
        Value::U32(x) => ("u32", json!(x)),
        Value::I32(x) => ("i32", json!(x)),
        Value::U64(x) => ("u64", json!(x)),
        Value::I64(x) => ("i64", json!(x)),
        Value::F32(x) => ("f32", float((*x).into())),
        Value::F64(x) => ("f64", float(*x)),
        Value::Bool(x) => ("bool", json!(x)),
        Value::String(s) => ("string", json!(s)),
        Value::Array(items) if items.len() > 1 << 16 => ("array", Json::Null),
        Value::Array(items) => ("array", json!({ "items": items.iter().map(|v| value(v).1).collect::<Vec<_>>() })),
    }
}

fn read(path: &str) -> Result<Json> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let kv = content.metadata.iter().map(|(key, v)| json!({ "key": key, "type": value(v).0, "value": value(v).1 })).collect::<Vec<_>>();
    let mut tensors = Vec::new();
    for (name, info) in &content.tensor_infos {
        let shape: Vec<usize> = info.shape.dims().iter().rev().copied().collect();
        let tensor = content.tensor(&mut file, name, &Device::Cpu)?;
        let values = tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
        let values = (values.len() < 1 << 12).then(|| values.into_iter().map(|x| float(x.into())).collect::<Vec<_>>());
        tensors.push(json!({ "name": name, "shape": shape, "offset": info.offset, "values": values }));
    }
    Ok(json!({ "data_offset": content.tensor_data_offset, "kv": kv, "tensors": tensors }))
}

fn main() {
    let report = read(&std::env::args().nth(1).expect("the name of a file"));
    println!("{}", report.unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(1) }));
}
