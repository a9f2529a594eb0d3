//! ggus: `conformance-ggus FILE`. It needs the whole file in memory.

use ggus::{GGuf, GGufMetaDataValueType as Type, GGufMetaKV};
use serde_json::{Value, json};

fn float(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { x.to_string().to_lowercase().into() }
}

/// Strings and numbers; arrays are left out.
fn value(kv: &GGufMetaKV<'_>) -> Value {
    let mut reader = kv.value_reader();
    macro_rules! number {
        ($ty:ty) => { json!(reader.read::<$ty>().unwrap()) };
    }
    match kv.ty() {
        Type::U8 => number!(u8),
        Type::I8 => number!(i8),
        Type::U16 => number!(u16),
        Type::I16 => number!(i16),
        Type::U32 => number!(u32),
        Type::I32 => number!(i32),
        Type::U64 => number!(u64),
        Type::I64 => number!(i64),
        Type::F32 => float(reader.read::<f32>().unwrap().into()),
        Type::F64 => float(reader.read::<f64>().unwrap()),
        Type::Bool => json!(reader.read_bool().unwrap()),
        Type::String => json!(reader.read_str().unwrap()),
        Type::Array => Value::Null,
    }
}

fn main() {
    let bytes = std::fs::read(std::env::args().nth(1).expect("the name of a file")).expect("a file");
    let gguf = GGuf::new(&bytes).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(1) });
    let name = |kv: &GGufMetaKV<'_>| match kv.ty() { Type::String => "string", Type::Array => "array", ty => ty.name() };
    let kv = gguf.meta_kvs.values().map(|kv| json!({ "key": kv.key(), "type": name(kv), "value": value(kv) }));
    let tensors = gguf.tensors.iter().map(|(name, tensor)| {
        let info = tensor.to_info();
        json!({ "name": name, "type": info.ty() as u32, "shape": info.shape(), "offset": info.offset(), "bytes": info.nbytes() })
    });
    println!("{}", json!({ "version": gguf.header.version, "alignment": gguf.alignment, "kv": kv.collect::<Vec<_>>(), "tensors": tensors.collect::<Vec<_>>() }));
}
