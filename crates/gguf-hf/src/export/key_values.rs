//! Key-values of a GGUF file as values of JSON.

use gguf_format::{Gguf, ValueRef};
use gguf_model::arch::{Checkpoint, Key};
use serde_json::{Value as Json, json};

use super::TOKEN_IDS;
use crate::formula::Formula;

/// Whether the table has a special token itself, so that the files of the class do not name it: the default of the unknown token, or a
/// constant as its id.
pub(super) fn is_default(checkpoint: &Checkpoint, kind: &str) -> bool {
    let has_default = || checkpoint.tokenizer.special_tokens.iter().any(|(known, _)| *known == kind);
    let name = TOKEN_IDS.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
    let of_kind = |key: &str| {
        let stem = key.strip_prefix("tokenizer.ggml.").and_then(|own| own.strip_suffix("_token_id"));
        name.is_some() && stem == name
    };
    let mut keys = checkpoint.tokenizer.keys.iter().copied().flatten();
    kind == "unk" && has_default() || keys.any(|row| of_kind(row.key) && is_constant(row))
}

/// Whether the value of a key does not depend on the configuration.
pub(super) fn is_constant(row: &Key) -> bool {
    matches!(Formula::parse(row.formula), Ok(Formula::Constant(_)))
}

/// An integer that is not negative.
pub(super) fn number(gguf: &Gguf<'_>, key: &str) -> Option<u64> {
    gguf.get(key)?.as_integer().and_then(|n| u64::try_from(n).ok())
}

/// A value as JSON: floats as the shortest decimal number that gives them.
pub(super) fn json_of(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::F32(x) => short(x),
        ValueRef::F64(x) => json!(x),
        ValueRef::Bool(flag) => json!(flag != 0),
        ValueRef::String(text) => json!(text.to_string_lossy()),
        ValueRef::Array(array) => array.iter().map(json_of).collect(),
        other => match other.as_integer() {
            Some(n) => i64::try_from(n).map_or_else(|_| json!(u64::try_from(n).unwrap_or(u64::MAX)), |n| json!(n)),
            None => Json::Null,
        },
    }
}

/// The shortest decimal number that is rounded to a single-precision one.
pub(super) fn short(x: f32) -> Json {
    json!(x.to_string().parse::<f64>().unwrap_or(f64::from(x)))
}
