//! Metadata as JSON, without loss.
//!
//! Integers keep all 64 bits. A float is written with the shortest decimal that reads back as the same number of its
//! width; those that JSON has no form for become the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. A string that is
//! not UTF-8 becomes an object `{"hex": "..."}` of its bytes, and a bool that is neither 0 nor 1 becomes that number.

use gguf_format::{ArrayRef, Str, ValueRef};
use serde_json::{Map, Value, json};

/// Elements of an array that are shown when it is not shown in full.
const FIRST: usize = 8;

/// A string of the file.
pub fn string(s: Str<'_>) -> Value {
    match s.to_str() {
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": s.as_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>() }),
    }
}

/// A value; arrays with all their elements, or as `{"type", "length", "first"}`.
pub fn value(value: ValueRef<'_>, full: bool) -> Value {
    match value {
        ValueRef::U8(v) => v.into(),
        ValueRef::I8(v) => v.into(),
        ValueRef::U16(v) => v.into(),
        ValueRef::I16(v) => v.into(),
        ValueRef::U32(v) => v.into(),
        ValueRef::I32(v) => v.into(),
        ValueRef::U64(v) => v.into(),
        ValueRef::I64(v) => v.into(),
        // The shortest text of the single, not of the double that it widens to.
        ValueRef::F32(v) => float(v.into(), v.to_string().parse().unwrap_or(f64::from(v))),
        ValueRef::F64(v) => float(v, v),
        ValueRef::Bool(0) => false.into(),
        ValueRef::Bool(1) => true.into(),
        ValueRef::Bool(b) => b.into(),
        ValueRef::String(s) => string(s),
        ValueRef::Array(a) if full => a.iter().map(|v| self::value(v, full)).collect(),
        ValueRef::Array(a) => cut_array(a),
    }
}

fn float(v: f64, shortest: f64) -> Value {
    match v {
        v if v.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => shortest.into(),
    }
}

fn cut_array(a: ArrayRef<'_>) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), a.elem_type().to_string().into());
    object.insert("length".to_owned(), a.len().into());
    object.insert("first".to_owned(), a.iter().take(FIRST).map(|v| value(v, false)).collect());
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let cases: &[(ValueRef<'_>, &str)] = &[
            (ValueRef::U64(u64::MAX), "18446744073709551615"),
            (ValueRef::I64(i64::MIN), "-9223372036854775808"),
            (ValueRef::F32(1e-5), "0.00001"),
            (ValueRef::F32(0.1), "0.1"),
            (ValueRef::F64(0.1f32.into()), "0.10000000149011612"),
            (ValueRef::F32(f32::MAX), "3.4028235e+38"),
            (ValueRef::F32(f32::NAN), "\"NaN\""),
            (ValueRef::F64(f64::NEG_INFINITY), "\"-Infinity\""),
            (ValueRef::Bool(1), "true"),
            (ValueRef::Bool(7), "7"),
            (ValueRef::String(Str(b"a\x1b\n")), r#""a\u001b\n""#),
            (ValueRef::String(Str(b"a\xff")), r#"{"hex":"61ff"}"#),
        ];
        for (v, text) in cases {
            assert_eq!(value(*v, true).to_string(), *text);
        }
    }

    #[test]
    fn long_arrays_are_cut_unless_asked_for() {
        let array: gguf_format::Array = (0u32..10).collect();
        let v = ValueRef::Array(array.as_ref());
        assert_eq!(value(v, true).to_string(), "[0,1,2,3,4,5,6,7,8,9]");
        assert_eq!(value(v, false).to_string(), r#"{"type":"u32","length":10,"first":[0,1,2,3,4,5,6,7]}"#);
    }
}
