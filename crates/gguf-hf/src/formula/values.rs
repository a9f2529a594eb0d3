//! JSON values as operands: fields, elements and truth.

use std::borrow::Cow;

use serde_json::Value;

/// The value of a field of an object; an error for a value that is not an object.
pub(super) fn field<'v>(object: Cow<'v, Value>, name: &str) -> Result<Option<Cow<'v, Value>>, Cow<'v, Value>> {
    match object {
        Cow::Borrowed(Value::Object(object)) => Ok(object.get(name).map(Cow::Borrowed)),
        Cow::Owned(Value::Object(mut object)) => Ok(object.remove(name).map(Cow::Owned)),
        other => Err(other),
    }
}

/// An element of a list.
pub(super) fn element(list: Cow<'_, Value>, place: usize) -> Option<Cow<'_, Value>> {
    match list {
        Cow::Borrowed(list) => list.get(place).map(Cow::Borrowed),
        Cow::Owned(Value::Array(mut list)) => (place < list.len()).then(|| Cow::Owned(list.swap_remove(place))),
        Cow::Owned(_) => None,
    }
}

/// The truth value in Python.
pub(crate) fn is_true(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(b)) => *b,
        Some(Value::Number(n)) => n.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(items)) => !items.is_empty(),
    }
}
