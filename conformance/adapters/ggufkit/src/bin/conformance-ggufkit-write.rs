//! The writer of ggufkit: writes a model (`MODEL.json OUT`), or copies a file (`IN.gguf OUT`).

use ggufkit::format::{Array, Dialect};
use ggufkit::{ByteOrder, GgmlType, Head, ModelFile, TensorInfo, Value, ValueType, Version};
use serde_json::Value as Json;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const NAMES: [&str; 13] = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];

fn bytes(x: &Json) -> Result<Vec<u8>> {
    let digits = x.as_str().ok_or("not a string")?;
    (0..digits.len()).step_by(2).map(|i| Ok(u8::from_str_radix(&digits[i..i + 2], 16)?)).collect()
}

fn value(ty: &str, x: &Json) -> Result<Value> {
    let float = || x.as_f64().or_else(|| x.as_str()?.parse().ok()).ok_or("not a number");
    macro_rules! integer {
        ($variant:ident) => { Value::$variant(serde_json::from_value(x.clone())?) };
    }
    Ok(match ty {
        "u8" => integer!(U8),
        "i8" => integer!(I8),
        "u16" => integer!(U16),
        "i16" => integer!(I16),
        "u32" => integer!(U32),
        "i32" => integer!(I32),
        "u64" => integer!(U64),
        "i64" => integer!(I64),
        "f32" => Value::F32(float()? as f32),
        "f64" => Value::F64(float()?),
        "bool" => x.as_bool().ok_or("not a bool")?.into(),
        "string" => x.as_str().map_or_else(|| bytes(&x["hex"]).map(Value::String), |s| Ok(s.into()))?,
        _ => {
            let of = x["of"].as_str().ok_or("no type of elements")?;
            let number = NAMES.iter().position(|name| *name == of).ok_or("not a type")?;
            let mut array = Array::new(ValueType(number as u32));
            for item in x["items"].as_array().ok_or("no items")? {
                array.push(value(of, item)?.as_ref())?;
            }
            array.into()
        }
    })
}

/// A head, and the data of its tensors.
fn model(text: &str) -> Result<(Head, Vec<Vec<u8>>)> {
    let model: Json = serde_json::from_str(text)?;
    let version = if model["version"] == 2 { Version::V2 } else { Version::V3 };
    let order = if model["byte_order"] == "big" { ByteOrder::Big } else { ByteOrder::Little };
    let mut head = Head { dialect: Dialect::new(version).with_order(order), ..Head::default() };
    for pair in model["kv"].as_array().ok_or("no kv")? {
        let text = |field: &str| pair[field].as_str().ok_or("no text");
        head.set(text("key")?, value(text("type")?, &pair["value"])?);
    }
    let tensors = model["tensors"].as_array().ok_or("no tensors")?;
    for tensor in tensors {
        let shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone())?;
        let ty = GgmlType(serde_json::from_value(tensor["type"].clone())?);
        head.tensors.push(TensorInfo::new(tensor["name"].as_str().ok_or("no name")?, shape, ty));
    }
    Ok((head, tensors.iter().map(|t| bytes(&t["data"])).collect::<Result<_>>()?))
}

/// A file parsed and encoded again, with its tensors in their places.
fn copy(path: &str) -> Result<Vec<u8>> {
    let model = ModelFile::open(path)?;
    let mut out = Head::from(model.gguf()).encode_as_read()?;
    for tensor in model.tensors() {
        let at = model.gguf().data_offset() + tensor.info().offset;
        out.resize(usize::try_from(at)?, 0);
        out.extend(tensor.read()?);
    }
    Ok(out)
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, source, out] = &args[..] else { return Err("two names of files are needed".into()) };
    if source.ends_with(".json") {
        let (head, data) = model(&std::fs::read_to_string(source)?)?;
        return Ok(ggufkit::write(out, &head, data)?);
    }
    Ok(std::fs::write(out, copy(source)?)?)
}

fn main() {
    run().unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(1) });
}
