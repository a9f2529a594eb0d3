//! Metadata values from and to Python.

use ggufkit::edit::typed;
use ggufkit::{Edit, Head, Str, Value, ValueRef, ValueType};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use serde_json::Value as Json;

use crate::error::raise;

/// A string. Bytes that are not UTF-8 are surrogates, as in names of files.
pub fn text<'py>(py: Python<'py>, text: Str<'_>) -> PyResult<Bound<'py, PyString>> {
    match text.to_str() {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => {
            let bytes = PyBytes::new(py, text.as_bytes());
            Ok(bytes.call_method1("decode", ("utf-8", "surrogateescape"))?.cast_into()?)
        }
    }
}

/// The bytes of a string, which may have surrogates for bytes that are not UTF-8.
pub fn bytes_of(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    match text.to_str() {
        Ok(text) => Ok(text.as_bytes().to_vec()),
        Err(_) => text.call_method1("encode", ("utf-8", "surrogateescape"))?.extract(),
    }
}

/// A value as a Python object; an array as a list, with its elements and those within them.
pub fn object<'py>(py: Python<'py>, value: ValueRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ValueRef::U8(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::I8(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::U16(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::I16(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::U32(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::I32(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::U64(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::I64(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::F32(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::F64(v) => v.into_pyobject(py)?.into_any(),
        ValueRef::Bool(v) => PyBool::new(py, v != 0).to_owned().into_any(),
        ValueRef::String(v) => text(py, v)?.into_any(),
        ValueRef::Array(array) => list(py, array.iter())?.into_any(),
    })
}

/// Values as a list.
pub fn list<'py, 'v>(py: Python<'py>, values: impl Iterator<Item = ValueRef<'v>>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for value in values {
        list.append(object(py, value)?)?;
    }
    Ok(list)
}

/// The value of a key from Python.
///
/// The type is the given one (`u32`, `[string]`), that of a NumPy scalar or array, else that of the table of known keys, else that of the
/// current value. A new key that is not known needs a type, unless the value is a string, a boolean, or a list of them.
pub fn value(key: &str, object: &Bound<'_, PyAny>, ty: Option<&str>, head: &Head) -> PyResult<Value> {
    if ty.is_none()
        && let Some(value) = numpy_value(object)?
    {
        return Ok(value);
    }
    let mut json = json(object)?;
    if let Some(ty) = ty {
        json = serde_json::json!({ "type": ty, "value": json });
    }
    let mut pair = serde_json::Map::new();
    pair.insert(key.to_owned(), json);
    let edits = typed::edits_of_json(&Json::Object(pair), head).map_err(raise)?;
    match edits.into_iter().next() {
        Some(Edit::Set { value, .. }) => Ok(value),
        _ => Err(PyValueError::new_err(format!("{key}: None is not a value; use `del` to remove the key"))),
    }
}

/// A Python object as JSON, for the rules that give values their types.
fn json(object: &Bound<'_, PyAny>) -> PyResult<Json> {
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Json::Bool(value.is_true()));
    }
    if let Ok(value) = object.cast::<PyString>() {
        let bytes = bytes_of(value)?;
        return Ok(match String::from_utf8(bytes) {
            Ok(text) => Json::String(text),
            Err(e) => serde_json::json!({ "hex": e.as_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>() }),
        });
    }
    if object.is_instance_of::<PyInt>() {
        let unsigned = object.extract::<u64>().map(Json::from);
        return unsigned.or_else(|_| object.extract::<i64>().map(Json::from));
    }
    if object.is_instance_of::<PyFloat>() {
        let value: f64 = object.extract()?;
        let name = if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        return Ok(serde_json::Number::from_f64(value).map_or(Json::from(name), Json::Number));
    }
    if object.is_none() {
        return Ok(Json::Null);
    }
    // Lists, tuples and arrays of this module; a NumPy scalar has `item`.
    if let Ok(item) = object.call_method0("item")
        && !object.hasattr("__len__")?
    {
        return json(&item);
    }
    let is_mapping = object.is_instance_of::<PyDict>() || object.is_instance_of::<PyBytes>();
    if !is_mapping && let Ok(items) = object.try_iter() {
        return items.map(|item| json(&item?)).collect::<PyResult<Vec<Json>>>().map(Json::Array);
    }
    let class = object.get_type().name()?.to_string();
    let message = format!("a metadata value is a str, int, float, bool, or a list or NumPy array of them, not {class}");
    Err(PyTypeError::new_err(message))
}

/// The value of a NumPy scalar or array of one dimension, which has a type of its own; `None` for other objects.
fn numpy_value(object: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    let py = object.py();
    let numpy = py.import("numpy")?;
    let is_scalar = object.is_instance(&numpy.getattr("generic")?)?;
    if !is_scalar && !object.is_instance(&numpy.getattr("ndarray")?)? {
        return Ok(None);
    }
    let array = numpy.call_method1("atleast_1d", (object,))?;
    macro_rules! of {
        ($($ty:ty),*) => {$(
            if let Ok(array) = array.cast::<PyArray1<$ty>>() {
                let values: PyReadonlyArray1<'_, $ty> = array.try_readonly()?;
                let values: Vec<$ty> = values.as_array().to_vec();
                return Ok(match values.first().filter(|_| is_scalar) {
                    Some(value) => Some(Value::from(*value)),
                    None => Some(Value::from(values)),
                });
            }
        )*};
    }
    of!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool);
    Ok(None)
}

/// The name of a value's type: `u32`, `string`, `[f32]`.
pub fn type_name(value: ValueRef<'_>) -> String {
    typed::kind_text(typed::kind_of_value(value))
}

/// The type code of NumPy for elements of an array; `None` for strings and arrays.
pub fn dtype(ty: ValueType) -> Option<&'static str> {
    Some(match ty {
        ValueType::U8 => "u1",
        ValueType::I8 => "i1",
        ValueType::U16 => "u2",
        ValueType::I16 => "i2",
        ValueType::U32 => "u4",
        ValueType::I32 => "i4",
        ValueType::U64 => "u8",
        ValueType::I64 => "i8",
        ValueType::F32 => "f4",
        ValueType::F64 => "f8",
        ValueType::BOOL => "?",
        _ => return None,
    })
}
