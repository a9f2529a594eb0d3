//! JSON text in the order in which it is written, so that the manifest has the same bytes on every machine.

use super::judge::{Report, Tensor, Value};
use crate::corpus::bytes::{ARRAY, BOOL, F32, F64, I8, I16, I32, I64, STRING};

/// A string, escaped.
pub fn text(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..='\x1f' | '\x7f' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Bytes: text if they are UTF-8, hexadecimal digits otherwise, and `null` if there are thousands.
pub fn bytes(raw: &[u8]) -> String {
    match std::str::from_utf8(raw) {
        _ if raw.len() > MOST => "null".to_owned(),
        Ok(s) => text(s),
        Err(_) => format!("{{\"hex\":\"{}\"}}", hex(raw)),
    }
}

pub fn hex(raw: &[u8]) -> String {
    raw.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// An object of fields whose values are JSON.
pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// The name of a value type.
pub fn type_name(ty: u32) -> &'static str {
    ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"][ty as usize]
}

/// A number; infinities and NaN are strings.
pub fn float(x: impl Into<f64> + std::fmt::Debug + Copy) -> String {
    let wide: f64 = x.into();
    match wide {
        _ if wide.is_finite() => format!("{x:?}"),
        _ if wide.is_nan() => "\"nan\"".to_owned(),
        _ if wide > 0.0 => "\"inf\"".to_owned(),
        _ => "\"-inf\"".to_owned(),
    }
}

/// Arrays nested deeper are `null`. Each level has two of JSON, of which some parsers read no more than 128.
const DEEPEST: usize = 50;

/// A value of the metadata; `null` for one that the reader does not keep.
pub fn value(value: &Value) -> String {
    nested(value, 0)
}

/// A value in `depth` arrays.
fn nested(value: &Value, depth: usize) -> String {
    match value {
        Value::List(..) if depth == DEEPEST => "null".to_owned(),
        Value::Number(ty, n) => match *ty {
            BOOL => (*n != 0).to_string(),
            I8 => (*n as i8).to_string(),
            I16 => (*n as i16).to_string(),
            I32 => (*n as i32).to_string(),
            I64 => (*n as i64).to_string(),
            F32 => float(f32::from_bits(*n as u32)),
            F64 => float(f64::from_bits(*n)),
            _ => n.to_string(),
        },
        Value::Text(raw) => bytes(raw),
        Value::List(ty, items) => {
            object([("of", text(type_name(*ty))), ("items", list(items.iter().map(|item| nested(item, depth + 1))))])
        }
        Value::Long(_) => "null".to_owned(),
    }
}

fn type_of(value: &Value) -> u32 {
    match value {
        Value::Number(ty, _) | Value::Long(ty) => *ty,
        Value::Text(_) => STRING,
        Value::List(..) => ARRAY,
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::List(_, items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Text(raw) => 1 + raw.len() / 16,
        _ => 1,
    }
}

/// More items than this are only counted.
const MOST: usize = 2000;

/// A report; `values` has the decoded values of tensors.
pub fn report(report: &Report, values: impl Fn(&Tensor) -> Option<Vec<String>>) -> String {
    let mut fields = vec![
        ("version", report.version.to_string()),
        ("byte_order", text(if report.big { "big" } else { "little" })),
        ("alignment", report.alignment.to_string()),
        // A file without tensors has no data, and only some readers align the place where it would start.
        ("data_offset", if report.tensors.is_empty() { "null".to_owned() } else { report.data_at.to_string() }),
        ("n_kv", report.pairs.len().to_string()),
        ("n_tensors", report.tensors.len().to_string()),
    ];
    if report.pairs.iter().map(|p| size(&p.value)).sum::<usize>() <= MOST {
        let pair = |p: &super::judge::Pair| {
            object([("key", bytes(&p.key)), ("type", text(type_name(type_of(&p.value)))), ("value", value(&p.value))])
        };
        fields.push(("kv", list(report.pairs.iter().map(pair))));
    }
    if report.tensors.iter().map(|t| 1 + t.shape.len()).sum::<usize>() <= MOST {
        let tensor = |t: &Tensor| {
            let mut fields = vec![
                ("name", bytes(&t.name)),
                ("type", t.ty.to_string()),
                ("shape", list(t.shape.iter().map(u64::to_string))),
                ("offset", t.offset.to_string()),
            ];
            fields.extend(t.bytes.map(|n| ("bytes", n.to_string())));
            fields.extend(values(t).map(|v| ("values", list(v))));
            object(fields)
        };
        fields.push(("tensors", list(report.tensors.iter().map(tensor))));
    }
    object(fields)
}
