//! Metadata values: typed views into a head ([`ValueRef`]), and the owned twin for writing ([`Value`]).
//!
//! Arrays stay encoded in both: a view decodes them on demand, an owned array is one buffer. A vocabulary of 400,000 strings needs no
//! allocation per string.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::cursor::{Cursor, Need};
use crate::header::Dialect;

mod owned;

pub use owned::{Array, ArrayElement, Value};

/// The maximum nesting of arrays. The specification has no limit; llama.cpp rejects nesting.
pub const MAX_NESTING: usize = 64;

/// A metadata value type, as its number in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueType(pub u32);

macro_rules! value_types {
    ($($id:literal $konst:ident $name:literal $size:expr),* $(,)?) => {
        impl ValueType {
            $(#[doc = concat!("`", $name, "`")] pub const $konst: ValueType = ValueType($id);)*
        }
        /// Name and encoded size (where it is fixed) of the value types, in the order of their ids.
        const VALUE_TYPES: &[(&str, Option<u64>)] = &[$(($name, $size)),*];
    };
}

value_types! {
    0 U8 "u8" Some(1), 1 I8 "i8" Some(1), 2 U16 "u16" Some(2), 3 I16 "i16" Some(2), 4 U32 "u32" Some(4), 5 I32 "i32" Some(4),
    6 F32 "f32" Some(4), 7 BOOL "bool" Some(1), 8 STRING "string" None, 9 ARRAY "array" None, 10 U64 "u64" Some(8),
    11 I64 "i64" Some(8), 12 F64 "f64" Some(8),
}

impl ValueType {
    /// Whether the specification defines this type.
    #[inline]
    pub fn is_known(self) -> bool {
        (self.0 as usize) < VALUE_TYPES.len()
    }

    /// Size of one value, for types with a fixed size.
    #[inline]
    pub fn fixed_bytes(self) -> Option<u64> {
        VALUE_TYPES.get(self.0 as usize)?.1
    }

    /// The minimum encoded size of a value of this type.
    #[inline]
    pub(crate) fn min_bytes(self, dialect: Dialect) -> u64 {
        match self.fixed_bytes() {
            Some(n) => n,
            None if self == ValueType::ARRAY => 4 + dialect.len_bytes(),
            None => dialect.len_bytes(),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match VALUE_TYPES.get(self.0 as usize) {
            Some((name, _)) => f.pad(name),
            None => write!(f, "value type {}", self.0),
        }
    }
}

impl fmt::Debug for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A string of the file: bytes, usually but not necessarily UTF-8.
///
/// `Display` is safe for a terminal: control characters, bidirectional overrides and bytes that are not UTF-8 are escaped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Str<'a>(pub &'a [u8]);

impl<'a> Str<'a> {
    /// The bytes, without a counted trailing NUL of files from August 2023.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text.
    ///
    /// # Errors
    /// The position of the first byte that is not UTF-8.
    #[inline]
    pub fn to_str(self) -> Result<&'a str, core::str::Utf8Error> {
        core::str::from_utf8(self.0)
    }

    /// The text, with a replacement character for bytes that are not UTF-8.
    pub fn to_string_lossy(self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }

    #[inline]
    pub(crate) fn new(raw: &'a [u8], dialect: Dialect) -> Str<'a> {
        match raw {
            [text @ .., 0] if dialect.nul_strings => Str(text),
            _ => Str(raw),
        }
    }
}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Str<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<Str<'_>> for str {
    fn eq(&self, other: &Str<'_>) -> bool {
        self.as_bytes() == other.0
    }
}

impl PartialEq<Str<'_>> for &str {
    fn eq(&self, other: &Str<'_>) -> bool {
        self.as_bytes() == other.0
    }
}

impl AsRef<[u8]> for Str<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Str<'a> {
        Str(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Str<'a> {
    fn from(bytes: &'a [u8]) -> Str<'a> {
        Str(bytes)
    }
}

impl<'a> TryFrom<Str<'a>> for &'a str {
    type Error = core::str::Utf8Error;

    fn try_from(text: Str<'a>) -> Result<&'a str, core::str::Utf8Error> {
        text.to_str()
    }
}

impl Str<'_> {
    /// Writes the text, with escapes for what is unsafe to print.
    fn write_escaped(self, out: &mut impl fmt::Write) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' => out.write_str("\\n")?,
                    '\r' => out.write_str("\\r")?,
                    '\t' => out.write_str("\\t")?,
                    '\\' => out.write_str("\\\\")?,
                    c if is_unsafe_to_print(c) => write!(out, "\\u{{{:x}}}", c as u32)?,
                    c => out.write_char(c)?,
                }
            }
            for b in chunk.invalid() {
                write!(out, "\\x{b:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return self.write_escaped(f);
        }
        let mut text = String::new();
        self.write_escaped(&mut text)?;
        f.pad(&text)
    }
}

/// Control characters, and invisible characters that reorder or hide surrounding text.
fn is_unsafe_to_print(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// One metadata value, viewed in place.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant is the value type of that name")]
pub enum ValueRef<'a> {
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
    /// 0 or 1 in a valid file; other bytes are preserved and rejected by [`FromValue`] for `bool`.
    Bool(u8),
    String(Str<'a>),
    Array(ArrayRef<'a>),
}

impl<'a> ValueRef<'a> {
    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            ValueRef::U8(_) => ValueType::U8,
            ValueRef::I8(_) => ValueType::I8,
            ValueRef::U16(_) => ValueType::U16,
            ValueRef::I16(_) => ValueType::I16,
            ValueRef::U32(_) => ValueType::U32,
            ValueRef::I32(_) => ValueType::I32,
            ValueRef::U64(_) => ValueType::U64,
            ValueRef::I64(_) => ValueType::I64,
            ValueRef::F32(_) => ValueType::F32,
            ValueRef::F64(_) => ValueType::F64,
            ValueRef::Bool(_) => ValueType::BOOL,
            ValueRef::String(_) => ValueType::STRING,
            ValueRef::Array(_) => ValueType::ARRAY,
        }
    }

    /// Converts the value to another type, if it can be represented without loss of range: integers of any width and sign into any other
    /// that can hold them, floats into floats, other types into themselves.
    ///
    /// # Errors
    /// [`ValueError`] with the type found and the requested type.
    pub fn get<T: FromValue<'a>>(self) -> Result<T, ValueError> {
        T::from_value(self)
    }

    /// The value as an integer wide enough for all integer types; `None` for anything else (floats, bools, strings).
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            ValueRef::U8(v) => v.into(),
            ValueRef::I8(v) => v.into(),
            ValueRef::U16(v) => v.into(),
            ValueRef::I16(v) => v.into(),
            ValueRef::U32(v) => v.into(),
            ValueRef::I32(v) => v.into(),
            ValueRef::U64(v) => v.into(),
            ValueRef::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<Str<'a>> {
        match *self {
            ValueRef::String(s) => Some(s),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<ArrayRef<'a>> {
        match *self {
            ValueRef::Array(a) => Some(a),
            _ => None,
        }
    }
}

/// A number, `true` or `false`, a text as displayed by [`Str`], and for an array its element type and length: `[string; 32000]`.
impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueRef::U8(v) => v.fmt(f),
            ValueRef::I8(v) => v.fmt(f),
            ValueRef::U16(v) => v.fmt(f),
            ValueRef::I16(v) => v.fmt(f),
            ValueRef::U32(v) => v.fmt(f),
            ValueRef::I32(v) => v.fmt(f),
            ValueRef::U64(v) => v.fmt(f),
            ValueRef::I64(v) => v.fmt(f),
            ValueRef::F32(v) => v.fmt(f),
            ValueRef::F64(v) => v.fmt(f),
            ValueRef::Bool(0) => f.pad("false"),
            ValueRef::Bool(1) => f.pad("true"),
            ValueRef::Bool(byte) => write!(f, "bool {byte}"),
            ValueRef::String(text) => text.fmt(f),
            ValueRef::Array(array) => fmt::Debug::fmt(array, f),
        }
    }
}

/// Reads one value of type `ty`; arrays are viewed without decoding, and extend to the end of the cursor's bytes.
pub(crate) fn read_value<'a>(c: &mut Cursor<'a>, ty: ValueType, left: u64) -> Result<Option<ValueRef<'a>>, Need> {
    Ok(Some(match ty {
        ValueType::U8 => ValueRef::U8(c.u8()?),
        ValueType::I8 => ValueRef::I8(c.i8()?),
        ValueType::U16 => ValueRef::U16(c.u16()?),
        ValueType::I16 => ValueRef::I16(c.i16()?),
        ValueType::U32 => ValueRef::U32(c.u32()?),
        ValueType::I32 => ValueRef::I32(c.i32()?),
        ValueType::U64 => ValueRef::U64(c.u64()?),
        ValueType::I64 => ValueRef::I64(c.i64()?),
        ValueType::F32 => ValueRef::F32(c.f32()?),
        ValueType::F64 => ValueRef::F64(c.f64()?),
        ValueType::BOOL => ValueRef::Bool(c.u8()?),
        ValueType::STRING => ValueRef::String(Str::new(c.string()?, c.dialect)),
        ValueType::ARRAY => {
            let start = c.pos() as u64;
            let (elem, len) = read_array_header(c)?;
            let header = c.pos() as u64 - start;
            let bytes = c.take(left.saturating_sub(header))?;
            ValueRef::Array(ArrayRef { elem, len, bytes, dialect: c.dialect })
        }
        _ => return Ok(None),
    }))
}

/// Element type and length of an array, in the dialect's order.
pub(crate) fn read_array_header(c: &mut Cursor<'_>) -> Result<(ValueType, u64), Need> {
    if c.dialect.array_type_first() {
        let elem = ValueType(c.u32()?);
        Ok((elem, c.len()?))
    } else {
        let len = c.len()?;
        Ok((ValueType(c.u32()?), len))
    }
}

/// Skips a value with a validated encoding, without recursion; `None` if it is invalid after all.
pub(crate) fn skip_value(c: &mut Cursor<'_>, ty: ValueType) -> Option<()> {
    if let Some(n) = ty.fixed_bytes() {
        return c.take(n).ok().map(drop);
    }
    if ty == ValueType::STRING {
        return c.string().ok().map(drop);
    }
    let mut stack = [(ValueType::U8, 0u64); MAX_NESTING];
    *stack.first_mut()? = read_array_header(c).ok()?;
    let mut depth = 1usize;
    while let Some(top) = depth.checked_sub(1).and_then(|i| stack.get_mut(i)) {
        let (elem, left) = *top;
        if left == 0 {
            depth -= 1;
        } else if let Some(n) = elem.fixed_bytes() {
            c.take(left.checked_mul(n)?).ok()?;
            depth -= 1;
        } else {
            top.1 -= 1;
            if elem == ValueType::STRING {
                c.string().ok()?;
            } else {
                *stack.get_mut(depth)? = read_array_header(c).ok()?;
                depth += 1;
            }
        }
    }
    Some(())
}

/// An array of the file, still encoded.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a> {
    pub(crate) elem: ValueType,
    pub(crate) len: u64,
    pub(crate) bytes: &'a [u8],
    pub(crate) dialect: Dialect,
}

impl<'a> ArrayRef<'a> {
    /// The type of the elements.
    pub fn elem_type(&self) -> ValueType {
        self.elem
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Size of the encoded elements, without the array's own type and length.
    pub fn encoded_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements in order, each viewed in place.
    pub fn iter(&self) -> ArrayIter<'a> {
        ArrayIter { cursor: Cursor::new(self.bytes, 0, self.dialect), elem: self.elem, left: self.len }
    }

    /// The element at `index`. Constant time for elements of fixed size, linear for strings and arrays.
    pub fn get(&self, index: u64) -> Option<ValueRef<'a>> {
        if index >= self.len {
            return None;
        }
        match self.elem.fixed_bytes() {
            Some(n) => {
                let pos = usize::try_from(index.checked_mul(n)?).ok()?;
                read_value(&mut Cursor::new(self.bytes, pos, self.dialect), self.elem, n).ok()?
            }
            None => self.iter().nth(usize::try_from(index).ok()?),
        }
    }

    /// The elements, if they are strings.
    pub fn strings(&self) -> Option<Strings<'a>> {
        (self.elem == ValueType::STRING)
            .then(|| Strings { cursor: Cursor::new(self.bytes, 0, self.dialect), left: self.len })
    }

    /// The elements with an index for random access, if they are strings. Building it scans the array once; it stores one number for each
    /// string, and no text.
    pub fn index_strings(&self) -> Option<StringIndex<'a>> {
        let mut strings = self.strings()?;
        let mut starts = Vec::with_capacity(strings.len());
        loop {
            let start = strings.cursor.pos();
            match strings.next() {
                Some(_) => starts.push(start),
                None => return Some(StringIndex { bytes: self.bytes, starts, dialect: self.dialect }),
            }
        }
    }

    /// All elements as `T`, for example `to_vec::<f32>()`; every element must convert (see [`ValueRef::get`]).
    ///
    /// # Errors
    /// [`ValueError::Element`], for the first element that does not convert.
    pub fn to_vec<T: FromValue<'a>>(&self) -> Result<Vec<T>, ValueError> {
        let element = |(value, index): (ValueRef<'a>, u64)| {
            value.get().map_err(|e| ValueError::Element { index, problem: Box::new(e) })
        };
        self.iter().zip(0..).map(element).collect()
    }
}

impl PartialEq for ArrayRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.elem == other.elem
            && self.len == other.len
            && if self.dialect == other.dialect { self.bytes == other.bytes } else { self.iter().eq(other.iter()) }
    }
}

impl fmt::Debug for ArrayRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}; {}]", self.elem, self.len)
    }
}

impl<'a> IntoIterator for ArrayRef<'a> {
    type Item = ValueRef<'a>;
    type IntoIter = ArrayIter<'a>;
    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

/// The elements of an array in order; see [`ArrayRef::iter`].
#[derive(Debug, Clone)]
pub struct ArrayIter<'a> {
    cursor: Cursor<'a>,
    elem: ValueType,
    left: u64,
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        let start = self.cursor.pos();
        let mut end = self.cursor;
        skip_value(&mut end, self.elem)?;
        let value = read_value(&mut self.cursor, self.elem, (end.pos() - start) as u64).ok()?;
        self.cursor = end;
        value
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An element has at least one byte, so their number fits in memory.
        let n = usize::try_from(self.left).unwrap_or(usize::MAX);
        (n, Some(n))
    }
}

/// The exact length of the array. An array to write may be nested deeper than [`MAX_NESTING`], which readers reject; iterating over the
/// outermost of its arrays ends early.
impl ExactSizeIterator for ArrayIter<'_> {}

/// The strings of an array in order; see [`ArrayRef::strings`].
#[derive(Debug, Clone)]
pub struct Strings<'a> {
    cursor: Cursor<'a>,
    left: u64,
}

impl Default for Strings<'_> {
    /// No strings.
    fn default() -> Self {
        Strings { cursor: Cursor::new(&[], 0, Dialect::default()), left: 0 }
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = Str<'a>;

    #[inline]
    fn next(&mut self) -> Option<Str<'a>> {
        self.left = self.left.checked_sub(1)?;
        let raw = self.cursor.string().ok()?;
        Some(Str::new(raw, self.cursor.dialect))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = usize::try_from(self.left).unwrap_or(usize::MAX);
        (n, Some(n))
    }
}

impl ExactSizeIterator for Strings<'_> {}

/// The strings of an array with an index, for random access; see [`ArrayRef::index_strings`].
///
/// ```
/// use gguf_format::Array;
///
/// let array: Array = ["<s>", "</s>", "hello"].into_iter().collect();
/// let tokens = array.as_ref().index_strings().ok_or("not an array of strings")?;
/// assert_eq!(tokens.len(), 3);
/// assert_eq!(tokens.get(2), Some("hello".into()));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct StringIndex<'a> {
    bytes: &'a [u8],
    starts: Vec<usize>,
    dialect: Dialect,
}

impl Default for StringIndex<'_> {
    /// No strings.
    fn default() -> Self {
        StringIndex { bytes: &[], starts: Vec::new(), dialect: Dialect::default() }
    }
}

impl<'a> StringIndex<'a> {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The string at `index`, in constant time.
    pub fn get(&self, index: usize) -> Option<Str<'a>> {
        let mut cursor = Cursor::new(self.bytes, *self.starts.get(index)?, self.dialect);
        Some(Str::new(cursor.string().ok()?, self.dialect))
    }

    /// The strings in order.
    pub fn iter(&self) -> Strings<'a> {
        Strings { cursor: Cursor::new(self.bytes, 0, self.dialect), left: self.starts.len() as u64 }
    }
}

impl<'a> IntoIterator for &StringIndex<'a> {
    type Item = Str<'a>;
    type IntoIter = Strings<'a>;

    fn into_iter(self) -> Strings<'a> {
        self.iter()
    }
}

impl fmt::Debug for StringIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[string; {}]", self.len())
    }
}

/// Why a value does not have the requested type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The type of the value cannot be converted to the requested one.
    WrongType {
        /// The requested type.
        asked: &'static str,
        /// The type found.
        found: ValueType,
    },
    /// An integer that does not fit the requested type.
    OutOfRange {
        /// The requested type.
        asked: &'static str,
        /// The integer found.
        found: i128,
    },
    /// A bool whose byte is neither 0 nor 1.
    NotABool(u8),
    /// A string that is not UTF-8, starting at this byte.
    NotUtf8(usize),
    /// An array with an element that does not have the requested type.
    Element {
        /// Index of the element.
        index: u64,
        /// Why the element cannot be converted.
        problem: Box<ValueError>,
    },
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::WrongType { asked, found } => write!(f, "is of type {found}, not {asked}"),
            ValueError::OutOfRange { asked, found } => write!(f, "is {found}, which does not fit {asked}"),
            ValueError::NotABool(b) => write!(f, "is a bool with the byte {b}, not 0 or 1"),
            ValueError::NotUtf8(at) => write!(f, "is not UTF-8 from byte {at} on"),
            ValueError::Element { index, problem } => write!(f, "element {index} {problem}"),
        }
    }
}

impl core::error::Error for ValueError {}

/// Types that a value can be read as; see [`ValueRef::get`] and [`Gguf::get_as`](crate::Gguf::get_as).
///
/// Integers convert into every integer type that can hold them, floats into floats, arrays into vectors. With `Option<T>` a missing key is
/// `None`; a value of another type is still an error.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.set("llama.block_count", 32u32);
/// # head.set("tokenizer.ggml.tokens", ["<s>", "</s>"]);
/// # let bytes = head.encode()?;
/// let gguf = gguf_format::Gguf::parse(&bytes)?;
/// let layers: usize = gguf.get_as("llama.block_count")?;
/// let tokens: Vec<&str> = gguf.get_as("tokenizer.ggml.tokens")?;
/// let experts: Option<u32> = gguf.get_as("llama.expert_count")?;
/// assert_eq!((layers, tokens.len(), experts), (32, 2, None));
/// assert!(gguf.get_as::<Option<&str>>("llama.block_count").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FromValue<'a>: Sized {
    /// Converts the value, or returns the error.
    ///
    /// # Errors
    /// [`ValueError`], if the value has another type or does not fit.
    fn from_value(value: ValueRef<'a>) -> Result<Self, ValueError>;

    /// The result for a missing key; `None` if it is an error.
    fn from_missing() -> Option<Self> {
        None
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    fn from_value(value: ValueRef<'a>) -> Result<Option<T>, ValueError> {
        T::from_value(value).map(Some)
    }

    fn from_missing() -> Option<Option<T>> {
        Some(None)
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Vec<T> {
    fn from_value(value: ValueRef<'a>) -> Result<Vec<T>, ValueError> {
        ArrayRef::from_value(value)?.to_vec()
    }
}

impl<'a> FromValue<'a> for String {
    fn from_value(value: ValueRef<'a>) -> Result<String, ValueError> {
        <&str>::from_value(value).map(String::from)
    }
}

impl<'a> FromValue<'a> for ValueRef<'a> {
    fn from_value(value: ValueRef<'a>) -> Result<ValueRef<'a>, ValueError> {
        Ok(value)
    }
}

macro_rules! try_from_value {
    ($($ty:ty),* $(,)?) => { $(
        impl<'a> TryFrom<ValueRef<'a>> for $ty {
            type Error = ValueError;

            fn try_from(value: ValueRef<'a>) -> Result<$ty, ValueError> {
                value.get()
            }
        }
    )* };
}
try_from_value! { u8, i8, u16, i16, u32, i32, u64, i64, usize, f32, f64, bool, String, &'a str, Str<'a>, ArrayRef<'a> }

impl<'a, T: FromValue<'a>> TryFrom<ValueRef<'a>> for Vec<T> {
    type Error = ValueError;

    fn try_from(value: ValueRef<'a>) -> Result<Vec<T>, ValueError> {
        value.get()
    }
}

macro_rules! value_ref_from {
    ($($ty:ty => $variant:ident),* $(,)?) => { $(
        impl<'a> From<$ty> for ValueRef<'a> {
            fn from(v: $ty) -> ValueRef<'a> {
                ValueRef::$variant(v.into())
            }
        }
    )* };
}
value_ref_from! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
    bool => Bool, &'a str => String, Str<'a> => String, ArrayRef<'a> => Array,
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> ValueRef<'a> {
        value.as_ref()
    }
}

macro_rules! integers {
    ($($ty:ident)*) => { $(
        impl<'a> FromValue<'a> for $ty {
            fn from_value(value: ValueRef<'a>) -> Result<$ty, ValueError> {
                let asked = stringify!($ty);
                let found = value.as_integer().ok_or(ValueError::WrongType { asked, found: value.value_type() })?;
                $ty::try_from(found).map_err(|_| ValueError::OutOfRange { asked, found })
            }
        }
    )* };
}
integers! { u8 i8 u16 i16 u32 i32 u64 i64 usize }

impl<'a> FromValue<'a> for f64 {
    fn from_value(value: ValueRef<'a>) -> Result<f64, ValueError> {
        match value {
            ValueRef::F32(v) => Ok(v.into()),
            ValueRef::F64(v) => Ok(v),
            v => Err(ValueError::WrongType { asked: "f64", found: v.value_type() }),
        }
    }
}

impl<'a> FromValue<'a> for f32 {
    /// A double is rounded to the nearest single, as other consumers of such a key do.
    #[expect(clippy::cast_possible_truncation, reason = "doubles are rounded")]
    fn from_value(value: ValueRef<'a>) -> Result<f32, ValueError> {
        match value {
            ValueRef::F32(v) => Ok(v),
            ValueRef::F64(v) => Ok(v as f32),
            v => Err(ValueError::WrongType { asked: "f32", found: v.value_type() }),
        }
    }
}

impl<'a> FromValue<'a> for bool {
    fn from_value(value: ValueRef<'a>) -> Result<bool, ValueError> {
        match value {
            ValueRef::Bool(0) => Ok(false),
            ValueRef::Bool(1) => Ok(true),
            ValueRef::Bool(b) => Err(ValueError::NotABool(b)),
            v => Err(ValueError::WrongType { asked: "bool", found: v.value_type() }),
        }
    }
}

impl<'a> FromValue<'a> for Str<'a> {
    fn from_value(value: ValueRef<'a>) -> Result<Str<'a>, ValueError> {
        value.as_str().ok_or(ValueError::WrongType { asked: "string", found: value.value_type() })
    }
}

impl<'a> FromValue<'a> for &'a str {
    fn from_value(value: ValueRef<'a>) -> Result<&'a str, ValueError> {
        Str::from_value(value)?.to_str().map_err(|e| ValueError::NotUtf8(e.valid_up_to()))
    }
}

impl<'a> FromValue<'a> for ArrayRef<'a> {
    fn from_value(value: ValueRef<'a>) -> Result<ArrayRef<'a>, ValueError> {
        value.as_array().ok_or(ValueError::WrongType { asked: "array", found: value.value_type() })
    }
}
