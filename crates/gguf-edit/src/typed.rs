//! Values from text and JSON, with the types of their keys.
//!
//! The type of a value is the given one, else that in the table of known keys, else that of the current value. Among the types that the
//! table allows, the current one is preferred. Nothing is guessed: a new unknown key needs an explicit type, unless its value in JSON is a
//! string, a boolean, or a list of them.

use gguf_format::keys::{self, Fit, GENERAL_ARCHITECTURE, KeyType};
use gguf_format::{Array, Head, Str, Value, ValueRef, ValueType};
use serde_json::Value as Json;

use crate::edits::{array, value_of};
use crate::{Edit, EditError};

/// A key, or an element of an array as `KEY[INDEX]`, and a value as text, with an optional type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The key.
    pub key: String,
    /// The given type.
    pub kind: Option<KeyType>,
    /// The value.
    pub text: String,
}

impl Assignment {
    /// Parses `KEY=VALUE` or `KEY:TYPE=VALUE`. Everything after the first `=` is the value, unchanged.
    ///
    /// ```
    /// use gguf_edit::typed::Assignment;
    /// use gguf_format::Head;
    ///
    /// let mut head = Head::default();
    /// head.set("general.architecture", "llama");
    /// let edit = Assignment::parse("llama.context_length=4096")?.edit(&head)?;
    /// # let gguf_edit::Edit::Set { value, .. } = edit else { unreachable!() };
    /// assert_eq!(value, gguf_format::Value::U32(4096));
    /// # Ok::<(), gguf_edit::EditError>(())
    /// ```
    ///
    /// # Errors
    /// If it has neither form, or the type is unknown.
    pub fn parse(text: &str) -> Result<Assignment, EditError> {
        let wrong = || EditError::Assignment { text: text.to_owned() };
        let (left, value) = text.split_once('=').ok_or_else(wrong)?;
        let (key, kind) = match left.rsplit_once(':') {
            Some((key, kind)) => (key, Some(parse_kind(kind)?)),
            None => (left, None),
        };
        if key.is_empty() {
            return Err(wrong());
        }
        Ok(Assignment { key: key.to_owned(), kind, text: value.to_owned() })
    }

    /// The edit that sets the key in a head, or the element of an array.
    ///
    /// # Errors
    /// If the type is neither given nor known, the value does not have the type, or the key of an element is missing or not an array.
    pub fn edit(&self, head: &Head) -> Result<Edit, EditError> {
        if self.key == crate::PAD_KEY {
            return Err(EditError::PadKey);
        }
        if let Some((key, index)) = element(&self.key).filter(|_| value_of(head, &self.key).is_none()) {
            let kind = KeyType::Scalar(array(head, key)?.elem_type());
            if let Some(given) = self.kind.filter(|given| *given != kind) {
                return Err(EditError::TypeChange { key: self.key.clone(), given, expected: kind_text(kind) });
            }
            let value = value_of_text(&self.key, kind, &self.text)?;
            return Ok(Edit::SetElement { key: key.to_owned(), index, value });
        }
        let is_list = self.text.trim_start().starts_with('[');
        let kind = match kind_of(&self.key, self.kind, head, is_list) {
            Some(kind) => kind,
            None => return Err(unknown(&self.key, head)),
        };
        Ok(Edit::Set { key: self.key.clone(), value: value_of_text(&self.key, kind, &self.text)? })
    }
}

/// Splits `KEY[INDEX]`.
fn element(text: &str) -> Option<(&str, u64)> {
    let (key, index) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((key, index.parse().ok()?))
}

/// The edits for a JSON object of keys and values. A value has the form of `serde_json`, or is `null` to remove the key, or an object with
/// `type` and `value`; a string that is not UTF-8 is an object with `hex`. Instead of the object, a list of objects with `key`, `type` and
/// `value` is accepted. The padding key is skipped, so that the metadata of one file can be applied to another.
///
/// # Errors
/// If it has neither form, the type of a key is neither given nor known, or a value does not have its type.
pub fn edits_of_json(json: &Json, head: &Head) -> Result<Vec<Edit>, EditError> {
    let wrong = || EditError::Json {
        problem: "expected an object of keys and values, or a list of objects with key, type and value".into(),
    };
    match json {
        Json::Object(object) => {
            let keys = object.iter().filter(|(key, _)| *key != crate::PAD_KEY);
            let mut edits = keys.map(|(key, value)| edit_of_json(key, value, head)).collect::<Result<Vec<_>, _>>()?;
            // Indexes are those of the keys when all of them are there.
            edits.sort_by_key(|edit| match edit {
                Edit::SetAt { index, .. } => Some(*index),
                _ => None,
            });
            Ok(edits)
        }
        Json::Array(list) => list
            .iter()
            .filter(|item| item.get("key").and_then(Json::as_str) != Some(crate::PAD_KEY))
            .map(|item| edit_of_json(item.get("key").and_then(Json::as_str).ok_or_else(wrong)?, item, head))
            .collect(),
        _ => Err(wrong()),
    }
}

fn edit_of_json(key: &str, json: &Json, head: &Head) -> Result<Edit, EditError> {
    let (mut stated, mut json, index) = (None, json, json.get("index").and_then(Json::as_u64));
    if let (Some(ty), Some(value)) = (json.get("type"), json.get("value")) {
        let ty =
            ty.as_str().ok_or(EditError::JsonValue { key: key.to_owned(), problem: "the type is not a string" })?;
        stated = Some((ty == "array").then(|| array_kind(json)).flatten().map_or_else(|| parse_kind(ty), Ok)?);
        json = value;
    }
    if json.is_null() {
        return Ok(Edit::Unset { key: key.to_owned() });
    }
    let kind =
        kind_of(key, stated, head, json.is_array()).or_else(|| evident(json)).ok_or_else(|| unknown(key, head))?;
    let (key, value) = (key.to_owned(), value_of_json(key, kind, json)?);
    Ok(match index.filter(|_| stated.is_some()) {
        Some(index) => Edit::SetAt { key, value, index },
        None => Edit::Set { key, value },
    })
}

/// The type of an array with a separate type of its elements.
fn array_kind(json: &Json) -> Option<KeyType> {
    match parse_kind(json.get("element_type")?.as_str()?).ok()? {
        KeyType::Scalar(ty) => Some(KeyType::Array(ty)),
        KeyType::Array(_) => None,
    }
}

/// The type of a value, if it is unambiguous in JSON.
fn evident(json: &Json) -> Option<KeyType> {
    match json {
        Json::String(_) => Some(KeyType::Scalar(ValueType::STRING)),
        Json::Bool(_) => Some(KeyType::Scalar(ValueType::BOOL)),
        Json::Array(list) if !list.is_empty() && list.iter().all(Json::is_string) => {
            Some(KeyType::Array(ValueType::STRING))
        }
        Json::Array(list) if !list.is_empty() && list.iter().all(Json::is_boolean) => {
            Some(KeyType::Array(ValueType::BOOL))
        }
        _ => None,
    }
}

/// The names of value types.
const TYPES: [(&str, ValueType); 13] = [
    ("u8", ValueType::U8),
    ("i8", ValueType::I8),
    ("u16", ValueType::U16),
    ("i16", ValueType::I16),
    ("u32", ValueType::U32),
    ("i32", ValueType::I32),
    ("f32", ValueType::F32),
    ("bool", ValueType::BOOL),
    ("string", ValueType::STRING),
    ("str", ValueType::STRING),
    ("u64", ValueType::U64),
    ("i64", ValueType::I64),
    ("f64", ValueType::F64),
];

/// Parses a type: `u32`, `string`; `[u32]`, `u32[]` or `u32[8]` for an array.
///
/// ```
/// use gguf_edit::typed::{kind_text, parse_kind, value_of_text};
/// use gguf_format::Value;
///
/// let kind = parse_kind("[u32]")?;
/// assert_eq!(kind_text(kind), "[u32]");
/// assert_eq!(value_of_text("my.sizes", kind, "[1, 2]")?, Value::from([1u32, 2]));
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
///
/// # Errors
/// If the text is not the name of a type.
pub fn parse_kind(text: &str) -> Result<KeyType, EditError> {
    let find = |name: &str| TYPES.iter().find(|(known, _)| *known == name.trim()).map(|(_, ty)| *ty);
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let before = || {
        let (name, len) = text.strip_suffix(']')?.split_once('[')?;
        len.bytes().all(|b| b.is_ascii_digit()).then_some(name)
    };
    let kind = match inner.or_else(before).or_else(|| text.strip_prefix("array of ")) {
        Some(elem) => find(elem).map(KeyType::Array),
        None => find(text).map(KeyType::Scalar),
    };
    kind.ok_or_else(|| EditError::UnknownType { text: text.to_owned() })
}

/// Formats a type for [`parse_kind`].
pub fn kind_text(kind: KeyType) -> String {
    match kind {
        KeyType::Scalar(ty) => ty.to_string(),
        KeyType::Array(ty) => format!("[{ty}]"),
    }
}

/// The type of a value.
pub fn kind_of_value(value: ValueRef<'_>) -> KeyType {
    match value {
        ValueRef::Array(array) => KeyType::Array(array.elem_type()),
        value => KeyType::Scalar(value.value_type()),
    }
}

fn arch(head: &Head) -> Option<&str> {
    head.get(GENERAL_ARCHITECTURE).and_then(|value| value.as_str()).and_then(|arch| arch.to_str().ok())
}

/// The type for a value of the key; `is_list` is whether it looks like an array.
fn kind_of(key: &str, stated: Option<KeyType>, head: &Head, is_list: bool) -> Option<KeyType> {
    if stated.is_some() {
        return stated;
    }
    let present = value_of(head, key).map(kind_of_value);
    let Some(row) = keys::lookup(key, arch(head)) else { return present };
    if let Some(present) =
        present.filter(|kind| row.kinds.contains(kind) && matches!(kind, KeyType::Array(_)) == is_list)
    {
        return Some(present);
    }
    let fits = |kind: &&KeyType| matches!(kind, KeyType::Array(_)) == is_list;
    row.kinds.iter().find(fits).or(row.kinds.first()).copied()
}

/// The types allowed by the table of known keys, if they exclude the given type.
pub fn contradicts(key: &str, kind: KeyType, head: &Head) -> Option<String> {
    let row = keys::lookup(key, arch(head))?;
    (row.fit(kind) != Fit::Exact).then(|| row.expected().to_string())
}

/// Checks that values have types that are valid for their keys: known keys by the table, because llama.cpp converts none, existing arrays by
/// their own type.
///
/// # Errors
/// [`EditError::TypeChange`] for the first value of an invalid type.
pub fn check_types(edits: &[Edit], head: &Head) -> Result<(), EditError> {
    let set = edits.iter().filter_map(|edit| match edit {
        Edit::Set { key, value } => Some((key, value.as_ref())),
        _ => None,
    });
    let new_arch = set.clone().rfind(|(key, _)| *key == GENERAL_ARCHITECTURE);
    let new_arch = new_arch.and_then(|(_, value)| value.as_str()).and_then(|arch| arch.to_str().ok());
    let arch = new_arch.or_else(|| arch(head));
    for (key, value) in set {
        let (given, present) = (kind_of_value(value), value_of(head, key).map(kind_of_value));
        let exact = keys::lookup(key, arch).filter(|row| row.fit(given) != Fit::Exact);
        let expected = exact.map(|row| row.expected().to_string());
        if let Some(expected) = expected.or_else(|| keys::expected_instead(key, arch, given, present)) {
            return Err(EditError::TypeChange { key: key.clone(), given, expected });
        }
    }
    Ok(())
}

fn unknown(key: &str, head: &Head) -> EditError {
    let near = keys::nearest(key).map(|row| match arch(head) {
        Some(arch) => row.for_arch(arch),
        None => row.pattern.to_owned(),
    });
    EditError::UnknownKey { key: key.to_owned(), nearest: near.filter(|near| near != key) }
}

/// The maximum number of characters of a value in a message.
const SHOWN: usize = 60;

fn wrong(key: &str, kind: KeyType, found: &str) -> EditError {
    let mut shown: String = found.chars().take(SHOWN).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    EditError::Value { key: key.to_owned(), kind, found: shown }
}

/// A value from text: a string unchanged, numbers in decimal or after `0x`, booleans as `true` or `false`, arrays as JSON.
///
/// # Errors
/// If the text is not a value of the type.
pub fn value_of_text(key: &str, kind: KeyType, text: &str) -> Result<Value, EditError> {
    let ty = match kind {
        KeyType::Scalar(ValueType::STRING) => return Ok(text.into()),
        KeyType::Scalar(ty) => ty,
        KeyType::Array(_) => {
            let json: Json = serde_json::from_str(text).map_err(|_| wrong(key, kind, text))?;
            return value_of_json(key, kind, &json);
        }
    };
    let text = text.trim();
    let value = match ty {
        ValueType::F32 => text.parse().ok().map(Value::F32),
        ValueType::F64 => text.parse().ok().map(Value::F64),
        ValueType::BOOL => text.parse::<bool>().ok().map(Value::from),
        ty => parse_integer(text).and_then(|n| integer(ty, n)),
    };
    value.ok_or_else(|| wrong(key, kind, text))
}

fn parse_integer(text: &str) -> Option<i128> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
        None => text.parse().ok(),
    }
}

/// A number as an integer of a type, if it fits.
fn integer(ty: ValueType, n: i128) -> Option<Value> {
    match ty {
        ValueType::U8 => u8::try_from(n).ok().map(Value::U8),
        ValueType::I8 => i8::try_from(n).ok().map(Value::I8),
        ValueType::U16 => u16::try_from(n).ok().map(Value::U16),
        ValueType::I16 => i16::try_from(n).ok().map(Value::I16),
        ValueType::U32 => u32::try_from(n).ok().map(Value::U32),
        ValueType::I32 => i32::try_from(n).ok().map(Value::I32),
        ValueType::U64 => u64::try_from(n).ok().map(Value::U64),
        ValueType::I64 => i64::try_from(n).ok().map(Value::I64),
        _ => None,
    }
}

/// A value from JSON. Non-finite floats are the strings `NaN`, `Infinity` and `-Infinity`; strings that are not UTF-8 are objects with
/// `hex`.
///
/// # Errors
/// If the JSON is not a value of the type.
pub fn value_of_json(key: &str, kind: KeyType, json: &Json) -> Result<Value, EditError> {
    match kind {
        KeyType::Scalar(ty) => scalar_of_json(ty, json).ok_or_else(|| wrong(key, kind, &json.to_string())),
        KeyType::Array(elem) => {
            let list = json.as_array().ok_or_else(|| wrong(key, kind, &json.to_string()))?;
            let mut array = Array::new(elem);
            for item in list {
                let value = scalar_of_json(elem, item).ok_or_else(|| wrong(key, kind, &item.to_string()))?;
                array.push(value.as_ref()).map_err(|_| wrong(key, kind, &item.to_string()))?;
            }
            Ok(Value::Array(array))
        }
    }
}

fn scalar_of_json(ty: ValueType, json: &Json) -> Option<Value> {
    match ty {
        ValueType::STRING => match json {
            Json::String(text) => Some(text.into()),
            _ => bytes_of_hex(json.get("hex")?.as_str()?).map(Value::String),
        },
        ValueType::BOOL => json.as_bool().map(Value::from),
        // Parsed as the target type: the shortest decimal of an f32 gives the same f32.
        ValueType::F32 => float_text(json)?.parse().ok().map(Value::F32),
        ValueType::F64 => float_text(json)?.parse().ok().map(Value::F64),
        ty => {
            let n = json.as_u64().map(i128::from).or_else(|| json.as_i64().map(i128::from))?;
            integer(ty, n)
        }
    }
}

fn float_text(json: &Json) -> Option<String> {
    match json {
        Json::Number(number) => Some(number.to_string()),
        Json::String(text) if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) => Some(text.clone()),
        _ => None,
    }
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// A value as JSON, in the form of [`value_of_json`].
pub fn json_of_value(value: ValueRef<'_>) -> Json {
    let float = |v: f64, text: String| match v {
        f64::INFINITY => Json::from("Infinity"),
        f64::NEG_INFINITY => Json::from("-Infinity"),
        v if v.is_nan() => Json::from("NaN"),
        _ => serde_json::from_str(&text).unwrap_or(Json::Null),
    };
    match value {
        ValueRef::U8(v) => v.into(),
        ValueRef::I8(v) => v.into(),
        ValueRef::U16(v) => v.into(),
        ValueRef::I16(v) => v.into(),
        ValueRef::U32(v) => v.into(),
        ValueRef::I32(v) => v.into(),
        ValueRef::U64(v) => v.into(),
        ValueRef::I64(v) => v.into(),
        ValueRef::F32(v) => float(v.into(), format!("{v:?}")),
        ValueRef::F64(v) => float(v, format!("{v:?}")),
        ValueRef::Bool(v) => (v != 0).into(),
        ValueRef::String(Str(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => serde_json::json!({ "hex": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>() }),
        },
        ValueRef::Array(array) => array.iter().map(json_of_value).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        head.set("llama.feed_forward_length", [1i32, 2]);
        head.set("llama.block_count", 2u64);
        head.set("own.number", 7i64);
        head
    }

    fn set(text: &str) -> Result<Value, String> {
        let edit = Assignment::parse(text).and_then(|a| a.edit(&head())).map_err(|e| e.to_string())?;
        let Edit::Set { value, .. } = edit else { panic!("{edit:?}") };
        Ok(value)
    }

    #[test]
    fn types_are_stated_known_or_present() {
        let cases: &[(&str, Value)] = &[
            ("general.name=a=b: c", "a=b: c".into()),
            ("general.name=", "".into()),
            ("llama.context_length=4096", 4096u32.into()),
            ("llama.context_length=0x1000", 4096u32.into()),
            ("llama.context_length:u64=4096", 4096u64.into()),
            // The table's type, even if the file has another.
            ("llama.block_count=3", 3u32.into()),
            ("llama.feed_forward_length=[3, 4]", [3i32, 4].into()),
            ("llama.feed_forward_length=5", 5u32.into()),
            ("llama.rope.freq_base=1e6", 1e6f32.into()),
            ("tokenizer.ggml.add_bos_token=true", true.into()),
            ("own.number=-8", (-8i64).into()),
            ("own.list:[f32]=[1, 0.5, \"-Infinity\"]", [1f32, 0.5, f32::NEG_INFINITY].into()),
            ("own.words:string[]=[\"a\", {\"hex\": \"ff\"}]", {
                let mut array = Array::new(ValueType::STRING);
                array.push("a".into()).unwrap();
                array.push(ValueRef::String(Str(b"\xff"))).unwrap();
                Value::Array(array)
            }),
            ("general.tags=[]", Value::Array(Array::new(ValueType::STRING))),
        ];
        for (text, value) in cases {
            assert_eq!(set(text).as_ref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("general.name", "\"general.name\" is not KEY=VALUE or KEY:TYPE=VALUE"),
            ("=1", "\"=1\" is not KEY=VALUE or KEY:TYPE=VALUE"),
            ("a:u31=1", "unknown type \"u31\"; expected u8, "),
            ("llama.context_length=-1", "llama.context_length: expected a value of type u32, found -1"),
            ("llama.context_length=4096.0", "llama.context_length: expected a value of type u32, found 4096.0"),
            ("tokenizer.ggml.add_bos_token=1", "tokenizer.ggml.add_bos_token: expected a value of type bool, found 1"),
            ("general.tags=a", "general.tags: expected a value of type array of string, found a"),
            ("general.tags=[1]", "general.tags: expected a value of type array of string, found 1"),
            ("own.bytes:[u8]=[256]", "own.bytes: expected a value of type array of u8, found 256"),
            ("llama.contxt_length=1", "; did you mean llama.context_length?"),
            (
                "own.new=1",
                "unknown type of own.new: the key is neither in the file nor in the table of known keys; specify a \
                 type",
            ),
        ] {
            let error = set(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn json_states_or_implies() {
        let json = serde_json::json!({
            "general.name": "N",
            "own.text": "t",
            "own.flags": [true, false],
            "own.float": { "type": "f64", "value": 0.1 },
            "own.number": null,
            "llama.context_length": 8,
        });
        let edits = edits_of_json(&json, &head()).unwrap();
        let set = |key: &str, value: Value| Edit::Set { key: key.into(), value };
        assert_eq!(
            edits,
            [
                set("general.name", "N".into()),
                set("own.text", "t".into()),
                set("own.flags", [true, false].into()),
                set("own.float", 0.1f64.into()),
                Edit::Unset { key: "own.number".into() },
                set("llama.context_length", 8u32.into()),
            ]
        );
        let list = serde_json::json!([{ "key": "a", "type": "u8", "value": 1 }]);
        assert_eq!(edits_of_json(&list, &head()).unwrap(), [set("a", 1u8.into())]);
        for wrong in [serde_json::json!(1), serde_json::json!([1]), serde_json::json!({ "own.new": 1 })] {
            assert!(edits_of_json(&wrong, &head()).is_err(), "{wrong}");
        }
    }

    /// Every value, including special ones, round-trips through JSON.
    #[test]
    fn json_keeps_values() {
        let values: &[Value] = &[
            0.1f32.into(),
            f32::MIN_POSITIVE.into(),
            16_777_217f64.into(),
            0.1f64.into(),
            f64::INFINITY.into(),
            u64::MAX.into(),
            i64::MIN.into(),
            Value::String(b"\xff\0".to_vec()),
            [1e-45f32, -0.0, 3.5].into(),
        ];
        for value in values {
            let kind = kind_of_value(value.as_ref());
            let back = value_of_json("k", kind, &json_of_value(value.as_ref())).unwrap();
            assert_eq!(format!("{back:?}"), format!("{value:?}"));
        }
    }
}
