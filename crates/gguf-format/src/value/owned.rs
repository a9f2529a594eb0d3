//! Values to write: [`Value`], and [`Array`] as one buffer of encoded elements.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{ArrayRef, Str, ValueError, ValueRef, ValueType};
use crate::encode;
use crate::header::{Dialect, Version};

impl ValueRef<'_> {
    /// An owned copy; an array keeps its encoding, so that writing it again in the same dialect gives the same bytes.
    pub fn to_owned(&self) -> Value {
        match *self {
            ValueRef::U8(v) => Value::U8(v),
            ValueRef::I8(v) => Value::I8(v),
            ValueRef::U16(v) => Value::U16(v),
            ValueRef::I16(v) => Value::I16(v),
            ValueRef::U32(v) => Value::U32(v),
            ValueRef::I32(v) => Value::I32(v),
            ValueRef::U64(v) => Value::U64(v),
            ValueRef::I64(v) => Value::I64(v),
            ValueRef::F32(v) => Value::F32(v),
            ValueRef::F64(v) => Value::F64(v),
            ValueRef::Bool(v) => Value::Bool(v),
            ValueRef::String(s) => Value::String(s.0.to_owned()),
            ValueRef::Array(a) => Value::Array(Array::from_parts(a.elem, a.len, a.bytes.to_owned(), a.dialect)),
        }
    }
}

/// One metadata value to write.
///
/// Numbers, bools and texts convert into values; arrays, slices and vectors of them into array values. Text that is not UTF-8 is a
/// `Value::String` of its bytes. The variants are the value types of the specification; a new one would require a new version of the
/// format.
///
/// ```
/// use gguf_format::{Value, ValueType};
///
/// assert_eq!(Value::from(7u32), Value::U32(7));
/// assert_eq!(Value::from("llama"), Value::String(b"llama".to_vec()));
/// let languages = Value::from(["de", "en"]);
/// assert_eq!(languages.as_ref().value_type(), ValueType::ARRAY);
/// assert_eq!(languages.as_ref().get::<Vec<String>>()?, ["de", "en"]);
/// # Ok::<(), gguf_format::ValueError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is the value type of that name")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    /// 0 or 1; other bytes only in a copy of a file that contains them.
    Bool(u8),
    String(Vec<u8>),
    Array(Array),
}

impl Value {
    /// A view of the value.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::U8(v) => ValueRef::U8(*v),
            Value::I8(v) => ValueRef::I8(*v),
            Value::U16(v) => ValueRef::U16(*v),
            Value::I16(v) => ValueRef::I16(*v),
            Value::U32(v) => ValueRef::U32(*v),
            Value::I32(v) => ValueRef::I32(*v),
            Value::U64(v) => ValueRef::U64(*v),
            Value::I64(v) => ValueRef::I64(*v),
            Value::F32(v) => ValueRef::F32(*v),
            Value::F64(v) => ValueRef::F64(*v),
            Value::Bool(v) => ValueRef::Bool(*v),
            Value::String(s) => ValueRef::String(Str(s)),
            Value::Array(a) => ValueRef::Array(a.as_ref()),
        }
    }
}

macro_rules! value_from {
    ($($ty:ident $variant:ident)*) => { $(
        impl From<$ty> for Value {
            fn from(v: $ty) -> Value {
                Value::$variant(v)
            }
        }
    )* };
}
value_from! { u8 U8  i8 I8  u16 U16  i16 I16  u32 U32  i32 I32  u64 U64  i64 I64  f32 F32  f64 F64  Array Array }

impl From<bool> for Value {
    fn from(v: bool) -> Value {
        Value::Bool(v.into())
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Value {
        Value::String(v.as_bytes().to_owned())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Value {
        Value::String(v.into_bytes())
    }
}

impl From<Str<'_>> for Value {
    fn from(v: Str<'_>) -> Value {
        Value::String(v.0.to_owned())
    }
}

impl From<&String> for Value {
    fn from(v: &String) -> Value {
        v.as_str().into()
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(v: ValueRef<'_>) -> Value {
        v.to_owned()
    }
}

impl<T: ArrayElement> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Value {
        v.as_slice().into()
    }
}

impl<T: ArrayElement, const N: usize> From<[T; N]> for Value {
    fn from(v: [T; N]) -> Value {
        v.as_slice().into()
    }
}

impl<T: ArrayElement, const N: usize> From<&[T; N]> for Value {
    fn from(v: &[T; N]) -> Value {
        v.as_slice().into()
    }
}

impl<T: ArrayElement> From<&[T]> for Value {
    fn from(v: &[T]) -> Value {
        Value::Array(Array::from_elements::<T>(v))
    }
}

/// Types that can be elements of arrays to write: numbers, `bool`, texts, and arrays.
pub trait ArrayElement: sealed::Element {}

impl<T: sealed::Element> ArrayElement for T {}

mod sealed {
    use super::{Array, Str, String, ValueRef, ValueType};

    pub trait Element {
        const TYPE: ValueType;
        fn value(&self) -> ValueRef<'_>;
    }

    macro_rules! elements {
        ($($ty:ty, $konst:ident, $v:ident => $value:expr;)*) => { $(
            impl Element for $ty {
                const TYPE: ValueType = ValueType::$konst;
                fn value(&self) -> ValueRef<'_> {
                    let $v = self;
                    ValueRef::from($value)
                }
            }
        )* };
    }
    elements! {
        u8, U8, v => *v; i8, I8, v => *v; u16, U16, v => *v; i16, I16, v => *v; u32, U32, v => *v; i32, I32, v => *v;
        u64, U64, v => *v; i64, I64, v => *v; f32, F32, v => *v; f64, F64, v => *v; bool, BOOL, v => *v;
        &str, STRING, v => *v; &String, STRING, v => v.as_str(); String, STRING, v => v.as_str(); Str<'_>, STRING, v => *v;
        Array, ARRAY, v => v.as_ref();
    }
}

impl<T: ArrayElement> FromIterator<T> for Array {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Array {
        Array::from_elements::<T>(values)
    }
}

/// An array to write: one buffer of encoded elements.
///
/// Elements of a statically known type can be collected; others are pushed one by one.
///
/// ```
/// use gguf_format::{Array, ValueType};
///
/// let scores: Array = (0..3).map(|i| i as f32 / 2.0).collect();
/// assert_eq!(scores.as_ref().to_vec::<f32>()?, [0.0, 0.5, 1.0]);
///
/// let mut tokens = Array::new(ValueType::STRING);
/// tokens.push("<s>".into())?;
/// assert!(tokens.push(1u32.into()).is_err());
/// # Ok::<(), gguf_format::ValueError>(())
/// ```
#[derive(Clone)]
pub struct Array {
    // Boxed, because most values are no arrays, and a head can have many values.
    parts: Box<Parts>,
}

#[derive(Clone)]
struct Parts {
    elem: ValueType,
    len: u64,
    bytes: Vec<u8>,
    dialect: Dialect,
}

impl Array {
    /// An empty array of the given element type.
    pub fn new(elem: ValueType) -> Array {
        Array::from_parts(elem, 0, Vec::new(), Dialect::new(Version::V3))
    }

    pub(super) fn from_parts(elem: ValueType, len: u64, bytes: Vec<u8>, dialect: Dialect) -> Array {
        Array { parts: Box::new(Parts { elem, len, bytes, dialect }) }
    }

    fn from_elements<T: ArrayElement>(values: impl IntoIterator<Item = impl core::borrow::Borrow<T>>) -> Array {
        let mut array = Array::new(T::TYPE);
        let Parts { bytes, len, dialect, .. } = &mut *array.parts;
        let values = values.into_iter();
        let width = T::TYPE.fixed_bytes().and_then(|width| usize::try_from(width).ok()).unwrap_or(0);
        // A hint: if this much memory is not available, the vector grows with each element.
        let _ = bytes.try_reserve_exact(values.size_hint().0.saturating_mul(width));
        for v in values {
            // The lengths of version 3 can represent any length.
            let encoded = encode::value(bytes, v.borrow().value(), *dialect);
            *len += u64::from(encoded.is_ok());
        }
        array
    }

    /// Appends an element.
    ///
    /// # Errors
    /// If the value does not have the array's element type.
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<(), ValueError> {
        let Parts { elem, len, bytes, dialect } = &mut *self.parts;
        if value.value_type() != *elem {
            return Err(ValueError::WrongType { asked: "the array's element type", found: value.value_type() });
        }
        encode::value(bytes, value, *dialect)
            .map_err(|_| ValueError::OutOfRange { asked: "a 32-bit length", found: i128::from(u32::MAX) + 1 })?;
        *len += 1;
        Ok(())
    }

    /// A view of the array.
    pub fn as_ref(&self) -> ArrayRef<'_> {
        let Parts { elem, len, bytes, dialect } = &*self.parts;
        ArrayRef { elem: *elem, len: *len, bytes, dialect: *dialect }
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}
