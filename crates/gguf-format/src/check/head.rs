//! Problems that prevent reading a head, and the rules for keys and values.

use crate::check::rules::*;
use crate::check::{At, Report, repeats, shown};
use crate::cursor::Cursor;
use crate::error::{AlignmentError, Error, Field, Problem};
use crate::file::{Gguf, KvRef, alignment_of};
use crate::header::{ALIGNMENT_KEY, Version};
use crate::limits::MAX_KEY;
use crate::scan::HeadScan;
use crate::value::{ArrayRef, MAX_NESTING, Str, ValueRef, ValueType, read_array_header};

/// Reports the error that ended a scan, and a length or a count beyond its limit.
pub(super) fn fatal(error: &Error, head: &[u8], scan: &HeadScan, report: &mut Report) {
    let rule = match &error.problem {
        Problem::NotGguf(kind) => {
            report.add_with(&FILE_KIND, At::Offset(0), format_args!("{kind}"), FILE_KIND.expected, kind.hint());
            return;
        }
        Problem::UnknownVersion(_) => &FILE_VERSION,
        Problem::UnknownValueType(_) => &VALUE_TYPE,
        Problem::TooDeep => &VALUE_NESTING,
        Problem::DraftLength { .. } => &DRAFT_LENGTH,
        Problem::DraftElements { .. } => &DRAFT_ELEMENTS,
        Problem::DraftPadding => &DRAFT_PADDING,
        Problem::Truncated { .. } | Problem::PastEnd { .. } if error.field == Field::Counts => &HEAD_COUNTS,
        // Checking sets no limits.
        Problem::Truncated { .. } | Problem::PastEnd { .. } | Problem::OverLimit { .. } => &HEAD_PAST_END,
        // Scanning ignores the alignment.
        Problem::Alignment(_) => &ALIGNMENT_VALUE,
    };
    let at = match (&error.name, error.field) {
        (Some(name), Field::ValueType(_) | Field::Value(_)) => At::Key(Str(name), Some(error.offset)),
        (Some(name), _) => At::Tensor(Str(name), Some(error.offset)),
        (None, _) => At::Offset(error.offset),
    };
    report.add(rule, at, format_args!("{}: {}", error.field, error.problem));
    if !matches!(rule.code, "head.past_end") {
        return;
    }
    let mut c = Cursor::new(head, usize::try_from(error.offset).unwrap_or(usize::MAX), scan.dialect);
    match error.field {
        Field::Key(_) => {
            if let Ok(n) = c.len()
                && n > MAX_KEY as u64
            {
                report.add(&KEY_LENGTH, at, format_args!("{} of {n} bytes", error.field));
            }
        }
        Field::TensorName(_) => {
            if let Ok(n) = c.len()
                && n > 64
            {
                report.add(&TENSOR_NAME_LENGTH, at, format_args!("{} of {n} bytes", error.field));
            }
        }
        Field::TensorDims(_) => {
            if let Ok(n) = c.u32()
                && n > 4
            {
                report.add(&TENSOR_DIMS, at, format_args!("{n} dimensions"));
            }
        }
        _ => {}
    }
}

/// The structural rules for keys and values. Returns the alignment, if it is valid.
pub(super) fn keys(gguf: &Gguf<'_>, report: &mut Report) -> Option<u64> {
    let mut alignment = Some(gguf.alignment());
    let mut saw_alignment = false;
    for kv in gguf.kvs() {
        let n = kv.key.as_bytes().len();
        if n == 0 {
            report.add(&KEY_EMPTY, &kv, format_args!("pair {} has an empty key", kv.index));
        } else if n > MAX_KEY {
            report.add(&KEY_LENGTH, &kv, format_args!("the key has {n} bytes"));
        }
        match kv.value {
            ValueRef::Bool(b @ 2..) => report.add(&VALUE_BOOL, &kv, format_args!("the byte is {b}")),
            ValueRef::Array(a) => {
                if let Some((at, b)) = bad_bool(a) {
                    report.add(&VALUE_BOOL, &kv, format_args!("element {at} has the byte {b}"));
                }
            }
            _ => {}
        }
        if kv.key != *ALIGNMENT_KEY && c_str(kv.key) == *ALIGNMENT_KEY && gguf.dialect().version != Version::Draft {
            report.add(
                &ALIGNMENT_ALIAS,
                &kv,
                format_args!("to readers that end a key at a NUL this is {ALIGNMENT_KEY}, to others it is not"),
            );
        }
        // Both readers that use the first pair of a key and readers that reject duplicates are considered.
        if kv.key == *ALIGNMENT_KEY && gguf.dialect().version != Version::Draft && !saw_alignment {
            saw_alignment = true;
            if !check_alignment(&kv, report) {
                alignment = None;
            }
        }
    }
    repeats(gguf.kvs().map(|kv| (c_str(kv.key), kv.offset)), |r| {
        report.add(&KEY_DUPLICATE, At::Key(r.text, Some(r.again)), format_args!("already defined at byte {}", r.first));
    });
    alignment
}

/// A name as a C string: up to the first NUL, like the comparisons of `gguf_find_key` and `gguf_find_tensor`.
pub(super) fn c_str(name: Str<'_>) -> Str<'_> {
    Str(name.as_bytes().split(|&b| b == 0).next().unwrap_or_default())
}

/// Whether the alignment is valid.
fn check_alignment(kv: &KvRef<'_>, report: &mut Report) -> bool {
    let usable = match alignment_of(kv.value) {
        Ok(_) => true,
        Err(AlignmentError::Type(e)) => {
            report.add(&ALIGNMENT_TYPE, kv, format_args!("{ALIGNMENT_KEY} {e}"));
            return false;
        }
        Err(e @ AlignmentError::Value(_)) => {
            report.add(&ALIGNMENT_VALUE, kv, format_args!("{ALIGNMENT_KEY} {e}"));
            false
        }
    };
    let ty = kv.value.value_type();
    if ty != ValueType::U32 {
        report.add(&ALIGNMENT_TYPE, kv, format_args!("{ALIGNMENT_KEY} is of type {ty}"));
    }
    usable
}

/// The first invalid bool in an array, at any depth: its index among all innermost elements, and its byte. A single pass over the bytes,
/// without recursion.
fn bad_bool(a: ArrayRef<'_>) -> Option<(u64, u8)> {
    if a.elem_type() != ValueType::BOOL && a.elem_type() != ValueType::ARRAY {
        return None;
    }
    let mut c = Cursor::new(a.encoded_bytes(), 0, a.dialect);
    let mut stack = [(ValueType::U8, 0u64); MAX_NESTING];
    *stack.first_mut()? = (a.elem_type(), a.len());
    let mut depth = 1usize;
    let mut before = 0u64;
    while let Some(top) = depth.checked_sub(1).and_then(|i| stack.get_mut(i)) {
        let (elem, left) = *top;
        if left == 0 {
            depth -= 1;
        } else if let Some(size) = elem.fixed_bytes() {
            let bytes = c.take(left.checked_mul(size)?).ok()?;
            if elem == ValueType::BOOL
                && let Some(at) = bytes.iter().position(|&b| b > 1)
            {
                return Some((before.saturating_add(at as u64), *bytes.get(at)?));
            }
            before = before.saturating_add(left);
            depth -= 1;
        } else {
            top.1 -= 1;
            if elem == ValueType::STRING {
                c.string().ok()?;
                before = before.saturating_add(1);
            } else {
                *stack.get_mut(depth)? = read_array_header(&mut c).ok()?;
                depth += 1;
            }
        }
    }
    None
}

/// Readable heads that violate the specification.
pub(super) fn style(gguf: &Gguf<'_>, report: &mut Report) {
    let d = gguf.dialect();
    if d.version == Version::Draft {
        report.add(&FILE_DRAFT, At::Offset(4), format_args!("the draft of version 1"));
    }
    if d.nul_strings {
        report.add(&FILE_NUL_STRINGS, At::File, format_args!("every string counts a trailing NUL"));
    }
    if d.reversed_magic {
        report.add(&FILE_MAGIC_REVERSED, At::Offset(0), format_args!("the magic is reversed"));
    }
    for kv in gguf.kvs() {
        key_style(&kv, report);
        let text = match kv.value {
            ValueRef::String(s) => s,
            ValueRef::U32(v @ (1 | 2 | 4)) if kv.key == *ALIGNMENT_KEY => {
                report.add(&ALIGNMENT_SMALL, &kv, format_args!("the alignment is {v}"));
                continue;
            }
            _ => continue,
        };
        if let Err(e) = text.to_str() {
            report.add(&STRING_UTF8, &kv, format_args!("the text is not UTF-8 from byte {} on", e.valid_up_to()));
        }
        if let Some(at) = text.as_bytes().iter().position(|&b| b == 0) {
            report.add(&STRING_NUL, &kv, format_args!("the text has a NUL at byte {at} of {}", text.as_bytes().len()));
        }
    }
}

/// At most one finding for a key: the worst.
fn key_style(kv: &KvRef<'_>, report: &mut Report) {
    let key = kv.key.as_bytes();
    if let Some(at) = key.iter().position(|&b| b == 0) {
        report.add(&KEY_NUL, kv, format_args!("the key has a NUL at byte {at}"));
    } else if let Some(at) = key.iter().position(|&b| !(b' '..=b'~').contains(&b)) {
        report.add(&KEY_ASCII, kv, format_args!("the key {} is not plain ASCII at byte {at}", shown(kv.key)));
    } else if !key.is_empty() && !key.split(|&b| b == b'.').all(is_segment) {
        report.add(&KEY_SPELLING, kv, format_args!("the key is spelled {}", shown(kv.key)));
    }
}

/// A part of a key between dots. The names of architectures, with which keys begin, may also contain hyphens.
fn is_segment(part: &[u8]) -> bool {
    !part.is_empty() && part.iter().all(|&b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}
