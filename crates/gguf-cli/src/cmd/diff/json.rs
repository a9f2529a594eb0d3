//! The JSON form of `gguf diff`.

use std::path::Path;

use gguf_edit::diff::{DataDiff, Diff, TensorDiff};
use gguf_format::{Str, ValueRef};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::super::planned::JsonError;
use crate::json::{self, List, Shown, Text};
use crate::text;

#[derive(Serialize)]
struct JsonDiff<'a, K, T> {
    a: Text<'a>,
    b: Text<'a>,
    same: bool,
    n_same_keys: usize,
    keys: K,
    tensors: T,
    /// Totals over all tensors compared as numbers.
    total: Option<JsonError>,
}

/// A key and its values on both sides, with the names of the sides as members.
pub struct JsonKey<'a> {
    key: Text<'a>,
    sides: [(&'static str, Option<JsonValue<'a>>); 2],
}

impl Serialize for JsonKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("key", &self.key)?;
        self.sides.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
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
    a: Option<JsonSide>,
    b: Option<JsonSide>,
    data: &'static str,
    first_different_byte: Option<u64>,
    error: Option<JsonError>,
}

#[derive(Serialize)]
struct JsonSide {
    shape: Vec<u64>,
    r#type: String,
}

/// The answer as a document: with whole arrays, or with their first elements.
pub fn document<'a>(a: &'a Path, b: &'a Path, diff: &'a Diff, full: bool) -> impl Serialize + use<'a> {
    let is_number = |t: &TensorDiff| matches!(t.data, DataDiff::Numbers(_));
    let mut total = diff.tensors.iter().any(is_number).then(|| JsonError::of(&diff.total(), None));
    if let Some(total) = &mut total {
        total.without_place();
    }
    JsonDiff {
        a: json::path(a),
        b: json::path(b),
        same: diff.is_same(),
        n_same_keys: diff.n_same_keys,
        keys: List(move || diff.keys.iter().map(move |key| JsonKey::of(diff.values(key), ["a", "b"], full))),
        tensors: List(move || diff.tensors.iter().map(|tensor| JsonTensor::of(diff, tensor))),
        total,
    }
}

impl<'a> JsonKey<'a> {
    /// A key with both values, and the names of the sides. Arrays are cut unless `full`.
    pub fn of(
        (key, [a, b]): (Str<'a>, [Option<ValueRef<'a>>; 2]),
        [first, second]: [&'static str; 2],
        full: bool,
    ) -> JsonKey<'a> {
        let value = |value: Option<ValueRef<'a>>| {
            value.map(|value| JsonValue { r#type: text::type_name(value), value: Shown { value, full } })
        };
        JsonKey { key: Text(key), sides: [(first, value(a)), (second, value(b))] }
    }
}

impl<'a> JsonTensor<'a> {
    fn of(diff: &'a Diff, tensor: &TensorDiff) -> JsonTensor<'a> {
        let (name, infos) = diff.infos(tensor);
        let [a, b] = infos.map(|info| Some(JsonSide { shape: info?.dims.collect(), r#type: info?.ty.to_string() }));
        let first_different_byte = tensor.first_different;
        let (data, error) = match &tensor.data {
            DataDiff::Same => ("same", None),
            DataDiff::Numbers(error) => ("different", Some(JsonError::of(error, None))),
            DataDiff::Bytes => ("different", None),
            _ => ("not_compared", None),
        };
        JsonTensor { name: Text(name), same: tensor.is_same(), a, b, data, first_different_byte, error }
    }
}
