//! Encodes numbers, strings, values and heads, in any dialect. The same code computes sizes and writes, so both always agree.

use alloc::vec::Vec;
use core::fmt;

use crate::header::{ByteOrder, Dialect, MAGIC, REVERSED_MAGIC};
use crate::value::{ArrayRef, ValueRef};

/// A destination of encoded bytes.
pub(crate) trait Out {
    fn bytes(&mut self, bytes: &[u8]);
}

impl Out for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts instead of writing.
#[derive(Default)]
pub(crate) struct Count(pub(crate) u64);

impl Out for Count {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

/// A count, length or dimension that does not fit in the version's 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooWide(pub u64);

impl fmt::Display for TooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not fit the 32 bits of format version 1", self.0)
    }
}

impl core::error::Error for TooWide {}

macro_rules! number {
    ($out:expr, $d:expr, $v:expr) => {
        match $d.order {
            ByteOrder::Little => $out.bytes(&$v.to_le_bytes()),
            ByteOrder::Big => $out.bytes(&$v.to_be_bytes()),
        }
    };
}

pub(crate) fn u32(out: &mut impl Out, v: u32, d: Dialect) {
    number!(out, d, v);
}

pub(crate) fn u64(out: &mut impl Out, v: u64, d: Dialect) {
    number!(out, d, v);
}

pub(crate) fn len(out: &mut impl Out, v: u64, d: Dialect) -> Result<(), TooWide> {
    if d.version.is_wide() {
        u64(out, v, d);
    } else {
        u32(out, u32::try_from(v).map_err(|_| TooWide(v))?, d);
    }
    Ok(())
}

pub(crate) fn string(out: &mut impl Out, s: &[u8], d: Dialect) -> Result<(), TooWide> {
    len(out, s.len() as u64 + u64::from(d.nul_strings), d)?;
    out.bytes(s);
    if d.nul_strings {
        out.bytes(&[0]);
    }
    Ok(())
}

/// The header of a file, up to the first key.
pub(crate) fn header(out: &mut impl Out, n_tensors: u64, n_kv: u64, d: Dialect) -> Result<(), TooWide> {
    out.bytes(if d.reversed_magic { &REVERSED_MAGIC } else { &MAGIC });
    u32(out, d.version.number(), d);
    len(out, n_tensors, d)?;
    len(out, n_kv, d)
}

/// A value without its type.
pub(crate) fn value(out: &mut impl Out, v: ValueRef<'_>, d: Dialect) -> Result<(), TooWide> {
    match v {
        ValueRef::U8(v) | ValueRef::Bool(v) => out.bytes(&[v]),
        ValueRef::I8(v) => number!(out, d, v),
        ValueRef::U16(v) => number!(out, d, v),
        ValueRef::I16(v) => number!(out, d, v),
        ValueRef::U32(v) => number!(out, d, v),
        ValueRef::I32(v) => number!(out, d, v),
        ValueRef::U64(v) => number!(out, d, v),
        ValueRef::I64(v) => number!(out, d, v),
        ValueRef::F32(v) => number!(out, d, v),
        ValueRef::F64(v) => number!(out, d, v),
        ValueRef::String(s) => string(out, s.as_bytes(), d)?,
        ValueRef::Array(a) => array(out, a, d)?,
    }
    Ok(())
}

fn array(out: &mut impl Out, a: ArrayRef<'_>, d: Dialect) -> Result<(), TooWide> {
    if d.array_type_first() {
        u32(out, a.elem.0, d);
        len(out, a.len, d)?;
    } else {
        len(out, a.len, d)?;
        u32(out, a.elem.0, d);
    }
    if same_elements(a.dialect, d) {
        out.bytes(a.bytes);
        return Ok(());
    }
    a.iter().try_for_each(|v| value(out, v, d))
}

/// Whether array elements have the same encoding in both dialects.
fn same_elements(a: Dialect, b: Dialect) -> bool {
    a.order == b.order
        && a.version.is_wide() == b.version.is_wide()
        && a.nul_strings == b.nul_strings
        && a.array_type_first() == b.array_type_first()
}

/// A key, the type of its value and the value.
pub(crate) fn kv(out: &mut impl Out, key: &[u8], v: ValueRef<'_>, d: Dialect) -> Result<(), TooWide> {
    string(out, key, d)?;
    if d.is_draft() {
        u32(out, u32::try_from(draft_value_len(v, d)?).unwrap_or(u32::MAX), d);
    }
    u32(out, v.value_type().0, d);
    value(out, v, d)
}

/// The `value_len` of the draft: the payload alone, or including the length fields inside, depending on the dialect.
pub(crate) fn draft_value_len(v: ValueRef<'_>, d: Dialect) -> Result<u64, TooWide> {
    let mut n = Count::default();
    value(&mut n, v, d)?;
    let inner = match v {
        _ if d.draft.value_len_is_inclusive => 0,
        ValueRef::String(_) => d.len_bytes(),
        ValueRef::Array(_) => d.len_bytes() + 4,
        _ => 0,
    };
    Ok(n.0 - inner)
}
