//! `Serialize` for the feature `serde`: plain values, and names where they exist.
//!
//! * A string is a string if it is UTF-8, and bytes otherwise ([`Serializer::serialize_bytes`], in JSON an array of
//!   numbers), so nothing is lost or replaced.
//! * A bool is a bool if its byte is 0 or 1, and the byte otherwise.
//! * An array is a sequence; one that is nested deeper than [`MAX_NESTING`](crate::MAX_NESTING) ends early.
//! * Types of tensors and values are their names, unknown ones their numbers.

use serde_core::ser::{Serialize, SerializeMap, Serializer};

use crate::check::{Finding, Place, Severity};
use crate::file::{Gguf, KvRef};
use crate::header::{ByteOrder, Version};
use crate::layout::Kv;
use crate::tensor::{Dims, TensorInfo, TensorInfoRef};
use crate::types::GgmlType;
use crate::value::{Array, ArrayRef, Str, Value, ValueRef, ValueType};

impl Serialize for Str<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.to_str() {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_bytes(self.as_bytes()),
        }
    }
}

impl Serialize for ValueRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            ValueRef::U8(v) => serializer.serialize_u8(v),
            ValueRef::I8(v) => serializer.serialize_i8(v),
            ValueRef::U16(v) => serializer.serialize_u16(v),
            ValueRef::I16(v) => serializer.serialize_i16(v),
            ValueRef::U32(v) => serializer.serialize_u32(v),
            ValueRef::I32(v) => serializer.serialize_i32(v),
            ValueRef::U64(v) => serializer.serialize_u64(v),
            ValueRef::I64(v) => serializer.serialize_i64(v),
            ValueRef::F32(v) => serializer.serialize_f32(v),
            ValueRef::F64(v) => serializer.serialize_f64(v),
            ValueRef::Bool(v @ 0..=1) => serializer.serialize_bool(v == 1),
            ValueRef::Bool(v) => serializer.serialize_u8(v),
            ValueRef::String(v) => v.serialize(serializer),
            ValueRef::Array(v) => v.serialize(serializer),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().serialize(serializer)
    }
}

impl Serialize for ArrayRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Serialize for Array {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().serialize(serializer)
    }
}

/// The name; the number of an unknown type.
impl Serialize for ValueType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_known() { serializer.collect_str(self) } else { serializer.serialize_u32(self.0) }
    }
}

/// ggml's name; the number of an unknown type.
impl Serialize for GgmlType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.info() {
            Some(info) => serializer.serialize_str(info.name),
            None => serializer.serialize_u32(self.0),
        }
    }
}

/// `little` or `big`.
impl Serialize for ByteOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            ByteOrder::Little => "little",
            ByteOrder::Big => "big",
        })
    }
}

/// The number; `1 (draft)` for the draft of version 1.
impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Version::Draft => serializer.collect_str(self),
            version => serializer.serialize_u32(version.number()),
        }
    }
}

fn pair<S: Serializer>(serializer: S, key: Str<'_>, value: ValueRef<'_>) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("key", &key)?;
    map.serialize_entry("type", &value.value_type())?;
    map.serialize_entry("value", &value)?;
    map.end()
}

/// `key`, `type` and `value`.
impl Serialize for KvRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pair(serializer, self.key, self.value)
    }
}

/// As [`KvRef`].
impl Serialize for Kv {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pair(serializer, Str(&self.key), self.value.as_ref())
    }
}

impl Serialize for Dims<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(*self)
    }
}

fn tensor<S: Serializer>(
    serializer: S,
    name: Str<'_>,
    shape: &impl Serialize,
    ty: GgmlType,
    offset: u64,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(4))?;
    map.serialize_entry("name", &name)?;
    map.serialize_entry("shape", shape)?;
    map.serialize_entry("type", &ty)?;
    map.serialize_entry("offset", &offset)?;
    map.end()
}

/// `name`, `shape` (the contiguous dimension first), `type` and `offset`.
impl Serialize for TensorInfoRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        tensor(serializer, self.name, &self.dims, self.ty, self.offset)
    }
}

/// As [`TensorInfoRef`].
impl Serialize for TensorInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        tensor(serializer, Str(&self.name), &self.shape, self.ty, self.offset)
    }
}

struct Sequence<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Sequence<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// `version`, `byte_order`, `alignment`, `data_offset`, `key_values` and `tensors`, each in file order.
impl Serialize for Gguf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("version", &self.dialect().version)?;
        map.serialize_entry("byte_order", &self.dialect().order)?;
        map.serialize_entry("alignment", &self.alignment())?;
        map.serialize_entry("data_offset", &self.data_offset())?;
        map.serialize_entry("key_values", &Sequence(self.kvs()))?;
        map.serialize_entry("tensors", &Sequence(self.tensors()))?;
        map.end()
    }
}

/// `note`, `warning` or `error`.
impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The place as `kind`, `name` and `offset`, absent ones as null.
impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", self.kind())?;
        map.serialize_entry("name", &self.name())?;
        map.serialize_entry("offset", &self.offset())?;
        map.end()
    }
}

/// All fields under their names.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("code", self.code)?;
        map.serialize_entry("severity", &self.severity)?;
        map.serialize_entry("structural", &self.structural)?;
        map.serialize_entry("place", &self.place)?;
        map.serialize_entry("message", &self.message)?;
        map.serialize_entry("expected", &self.expected)?;
        map.serialize_entry("hint", &self.hint)?;
        map.end()
    }
}
