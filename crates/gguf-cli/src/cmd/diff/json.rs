//! The JSON form of `gguf diff`.

use std::io;
use std::path::Path;

use gguf_edit::diff::{DataDiff, Diff, KeyDiff, Side, TensorDiff};
use gguf_format::Str;
use serde::Serialize;

use super::super::quantize::JsonError;
use super::shown;
use crate::json::{self, Shown, Text};
use crate::text;
use crate::ui::Ui;

#[derive(Serialize)]
struct JsonDiff<'a> {
    a: Text<'a>,
    b: Text<'a>,
    same: bool,
    n_same_keys: usize,
    keys: Vec<JsonKey<'a>>,
    tensors: Vec<JsonTensor<'a>>,
    /// Totals over all tensors compared as numbers.
    total: Option<JsonError>,
}

#[derive(Serialize)]
struct JsonKey<'a> {
    key: Text<'a>,
    a: Option<JsonValue<'a>>,
    b: Option<JsonValue<'a>>,
}

#[derive(Serialize)]
struct JsonValue<'a> {
    r#type: String,
    value: Shown<'a>,
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: Text<'a>,
    same: bool,
    a: Option<JsonSide<'a>>,
    b: Option<JsonSide<'a>>,
    data: &'static str,
    first_different_byte: Option<u64>,
    error: Option<JsonError>,
}

#[derive(Serialize)]
struct JsonSide<'a> {
    shape: &'a [u64],
    r#type: String,
}

pub fn print(ui: &mut Ui, a: &Path, b: &Path, diff: &Diff) -> io::Result<()> {
    let is_number = |t: &TensorDiff| matches!(t.data, DataDiff::Numbers(_));
    let mut total = diff.tensors.iter().any(is_number).then(|| JsonError::of(&diff.total(), None));
    if let Some(total) = &mut total {
        total.without_place();
    }
    let document = JsonDiff {
        a: json::path(a),
        b: json::path(b),
        same: diff.is_same(),
        n_same_keys: diff.n_same_keys,
        keys: diff.keys.iter().map(JsonKey::of).collect(),
        tensors: diff.tensors.iter().map(JsonTensor::of).collect(),
        total,
    };
    json::print(ui, 3, &document)
}

impl<'a> JsonKey<'a> {
    fn of(key: &'a KeyDiff) -> JsonKey<'a> {
        let value = |value: &'a Option<gguf_format::Value>| {
            let value = value.as_ref()?.as_ref();
            Some(JsonValue { r#type: text::type_name(value), value: shown(value) })
        };
        JsonKey { key: Text(Str(&key.key)), a: value(&key.a), b: value(&key.b) }
    }
}

impl<'a> JsonTensor<'a> {
    fn of(tensor: &'a TensorDiff) -> JsonTensor<'a> {
        let side = |side: &'a Option<Side>| {
            side.as_ref().map(|side| JsonSide { shape: &side.shape, r#type: side.ty.to_string() })
        };
        let (data, first_different_byte, error) = match &tensor.data {
            DataDiff::Same => ("same", None, None),
            DataDiff::Numbers(error) => ("different", None, Some(JsonError::of(error, None))),
            DataDiff::Bytes(at) => ("different", *at, None),
            _ => ("not_compared", None, None),
        };
        JsonTensor {
            name: Text(Str(&tensor.name)),
            same: tensor.is_same(),
            a: side(&tensor.a),
            b: side(&tensor.b),
            data,
            first_different_byte,
            error,
        }
    }
}
