//! Metadata as text for display: one line, escaped, and shortened to a limit with the original length appended.

use gguf_format::{ArrayRef, Str, ValueRef};

use crate::ui::{cut_end, grouped, text_width};

/// The type of a value, such as `u32` or `string[32000]`.
pub fn type_name(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Array(a) => format!("{}[{}]", a.elem_type(), a.len()),
        value => value.value_type().to_string(),
    }
}

/// Formats dimensions, the contiguous one first, as in `4096 x 32000`.
pub fn shape(dims: impl Iterator<Item = u64>) -> String {
    let dims: Vec<String> = dims.map(|d| d.to_string()).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join(" x ") }
}

/// Formats a value in at most `limit` columns, or in full.
pub fn value(value: ValueRef<'_>, limit: Option<usize>) -> String {
    match value {
        ValueRef::U8(v) => v.to_string(),
        ValueRef::I8(v) => v.to_string(),
        ValueRef::U16(v) => v.to_string(),
        ValueRef::I16(v) => v.to_string(),
        ValueRef::U32(v) => v.to_string(),
        ValueRef::I32(v) => v.to_string(),
        ValueRef::U64(v) => v.to_string(),
        ValueRef::I64(v) => v.to_string(),
        // `Debug` uses an exponent if that is shorter, as in 1e-5.
        ValueRef::F32(v) => format!("{v:?}"),
        ValueRef::F64(v) => format!("{v:?}"),
        ValueRef::Bool(0) => "false".to_owned(),
        ValueRef::Bool(1) => "true".to_owned(),
        ValueRef::Bool(b) => format!("bool with byte {b}"),
        ValueRef::String(s) => string(s, limit),
        ValueRef::Array(a) => array(a, limit),
    }
}

/// Formats a string, in quotation marks if it is empty or starts or ends with white space.
fn string(s: Str<'_>, limit: Option<usize>) -> String {
    let bytes = s.as_bytes();
    let is_space = |b: Option<&u8>| b.is_none_or(u8::is_ascii_whitespace);
    let show = |s| if is_space(bytes.first()) || is_space(bytes.last()) { quoted(s) } else { Str::to_string(&s) };
    let Some(limit) = limit else { return show(s) };
    // A character takes at most 4 bytes, so this many bytes fill the line.
    let start = Str(before_cut_character(bytes, limit.saturating_mul(4).saturating_add(4)));
    let text = show(start);
    if start.as_bytes().len() == bytes.len() && text_width(&text) <= limit {
        return text;
    }
    let length = format!(" ({} bytes)", grouped(bytes.len() as u64));
    let mut text = cut_end(&Str::to_string(&start), limit.saturating_sub(length.len()).max(1));
    if !text.ends_with('…') {
        text.push('…');
    }
    text + &length
}

/// The first `n` bytes, without the bytes of a character that the cut would split.
fn before_cut_character(bytes: &[u8], n: usize) -> &[u8] {
    let Some(start) = bytes.get(..n) else { return bytes };
    match std::str::from_utf8(start) {
        Err(e) if e.error_len().is_none() => start.get(..e.valid_up_to()).unwrap_or_default(),
        _ => start,
    }
}

fn quoted(s: Str<'_>) -> String {
    format!("\"{}\"", s.to_string().replace('"', "\\\""))
}

/// Formats an array as `[1, 2, 3]` or `[1, 2, … 998 more]`.
fn array(a: ArrayRef<'_>, limit: Option<usize>) -> String {
    let mut out = String::from("[");
    let mut width = 1;
    let mut shown = 0u64;
    for element in a.iter() {
        let text = match element {
            ValueRef::String(s) if limit.is_none() => quoted(s),
            ValueRef::String(s) => quoted(Str(before_cut_character(s.as_bytes(), 256))),
            v => value(v, limit),
        };
        let left = a.len().saturating_sub(shown + 1);
        let end = if left == 0 { 1 } else { text_width(&more(left)) };
        let separator = if shown == 0 { "" } else { ", " };
        let next = width + separator.len() + text_width(&text);
        if limit.is_some_and(|limit| next + end > limit) {
            break;
        }
        out += separator;
        out += &text;
        width = next;
        shown += 1;
    }
    match a.len().saturating_sub(shown) {
        0 => out.push(']'),
        left if shown == 0 => out += &format!("… {} elements]", grouped(left)),
        left => out += &more(left),
    }
    out
}

fn more(left: u64) -> String {
    format!(", … {} more]", grouped(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::{Array, Value};

    #[test]
    fn values_fit_the_limit_and_say_their_length() {
        let text = |v: &Value, limit| value(v.as_ref(), limit);
        let numbers = Value::Array((0u32..1000).collect());
        let words = Value::Array(["<s>", "a\"b", "\x1b"].into_iter().collect());
        let long: Value = "日本語".repeat(50).into();
        let cases: &[(&Value, Option<usize>, &str)] = &[
            (&numbers, Some(28), "[0, 1, 2, 3, 4, … 995 more]"),
            (&numbers, Some(3), "[… 1,000 elements]"),
            (&words, None, r#"["<s>", "a\"b", "\u{1b}"]"#),
            (&words, Some(17), r#"["<s>", … 2 more]"#),
            (&Value::Array(Array::new(gguf_format::ValueType::F32)), Some(5), "[]"),
            (&long, Some(22), "日本語日… (450 bytes)"),
            (&"short".into(), Some(5), "short"),
            (&"".into(), Some(5), "\"\""),
            (&" a".into(), None, "\" a\""),
            (&"two\nlines".into(), None, "two\\nlines"),
            (&1e-5f32.into(), None, "1e-5"),
            (&10000f32.into(), None, "10000.0"),
            (&Value::Bool(1), None, "true"),
            (&Value::Bool(9), None, "bool with byte 9"),
        ];
        for (v, limit, expected) in cases {
            assert_eq!(text(v, *limit), *expected);
        }
    }

    #[test]
    fn types() {
        let words = Value::Array(["a", "b"].into_iter().collect());
        assert_eq!(type_name(words.as_ref()), "string[2]");
        assert_eq!(type_name(ValueRef::F64(0.0)), "f64");
    }
}
