//! All JSON output: the lossless representation of metadata, and the serialization.
//!
//! Integers keep all 64 bits. A float is written as the shortest decimal that reads back as the same number of its
//! width; NaN and infinities become the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. A string that is
//! not UTF-8 becomes an object `{"hex": "..."}` of its bytes, and a bool that is neither 0 nor 1 becomes that number.
//!
//! Control characters, and characters that hide or reorder text, are escaped as `\uXXXX`, so the output is safe to show
//! on a terminal and parses to the same string. Values are written as they are read, so memory does not grow with a file's
//! metadata. Only the outer levels are indented, so that nested arrays do not inflate the output.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use gguf_format::{Str, ValueRef};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::Formatter;

use crate::failure::Failure;
use crate::ui::{Ui, is_hidden};

/// Number of elements shown of an abbreviated array.
const FIRST: usize = 8;

/// The top-level object that every command prints: the name and version of its schema, then the members of a struct or map.
#[derive(Serialize)]
struct Envelope<'a, T> {
    schema: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints the answer of a command, a struct or map, as the top-level object. The outer `levels` of lists and objects are indented.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(ui: &mut Ui, levels: usize, content: &impl Serialize) -> io::Result<()> {
    let Some(schema) = ui.schema.take() else { return Ok(()) };
    write(&mut ui.out, levels, &Envelope { schema: &schema, content })
}

/// The answer of a command, as [`print`] prints it, without line breaks inside.
///
/// # Errors
/// If a text cannot be serialized.
pub fn document(schema: &str, content: &impl Serialize) -> io::Result<String> {
    let mut out = Vec::new();
    write(&mut out, 0, &Envelope { schema, content })?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// Prints the failure of a command as the top-level object, if JSON is requested and nothing has been printed yet.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_failure(ui: &mut Ui, failure: &Failure) -> io::Result<()> {
    match failure {
        Failure::PipeClosed => Ok(()),
        failure => print(ui, 2, &Failed { error: Error(failure) }),
    }
}

/// The answer of a command that failed.
#[derive(Serialize)]
struct Failed<'a> {
    error: Error<'a>,
}

/// A failure as an object: its kind and message, and the help, file, byte offset and tensors if known.
#[derive(Debug, Clone, Copy)]
pub struct Error<'a>(pub &'a Failure);

impl Serialize for Error<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("kind", self.0.kind())?;
        object.serialize_entry("message", &self.0.to_string())?;
        if let Some(help) = self.0.help() {
            object.serialize_entry("help", help)?;
        }
        if let Some(path) = self.0.path() {
            object.serialize_entry("path", &self::path(path))?;
        }
        if let Some(offset) = self.0.offset() {
            object.serialize_entry("offset", &offset)?;
        }
        if !self.0.tensors().is_empty() {
            object.serialize_entry("tensors", self.0.tensors())?;
        }
        object.end()
    }
}

/// The list item for a file that could not be opened.
#[derive(Serialize)]
pub struct Unopened<'a> {
    path: Text<'a>,
    error: Error<'a>,
}

impl<'a> Unopened<'a> {
    /// Creates the item from a path and the failure.
    pub fn of(path: &'a Path, failure: &'a Failure) -> Unopened<'a> {
        Unopened { path: self::path(path), error: Error(failure) }
    }
}

/// Writes a value and a line break. The outer `levels` of lists and objects are indented; inner ones are compact. Any writer is one type here, so
/// that answers are compiled once.
fn write(out: &mut dyn Write, levels: usize, value: &impl Serialize) -> io::Result<()> {
    let layout = Layout { levels, depth: 0, has_items: false };
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, layout))?;
    writeln!(out)
}

/// The serde_json formatter for line breaks and escapes.
struct Layout {
    levels: usize,
    depth: usize,
    /// Whether the innermost list or object has items so far.
    has_items: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_items = false;
        out.write_all(bracket)
    }

    fn item<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        self.line(out, self.depth, self.depth)
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let inner = self.depth;
        self.depth = inner.saturating_sub(1);
        if self.has_items {
            self.line(out, inner, self.depth)?;
        }
        // The closed list or object is itself an item of the enclosing one.
        self.has_items = true;
        out.write_all(bracket)
    }

    /// Starts a new line in a list or object at depth `of`, unless it is compact.
    fn line<W: ?Sized + Write>(&self, out: &mut W, of: usize, indent: usize) -> io::Result<()> {
        if of > self.levels {
            return Ok(());
        }
        out.write_all(b"\n")?;
        (0..indent).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.item(out, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.item(out, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.depth > self.levels { b":" } else { b": " })
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            let (before, after) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }
}

/// A list whose items are generated during serialization.
pub struct List<F>(pub F);

impl<F, I> Serialize for List<F>
where
    F: Fn() -> I,
    I: IntoIterator,
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A string from a file.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub Str<'a>);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_map([("hex", Hex(self.0.as_bytes()))]),
        }
    }
}

/// A path. Like a string from a file, it may not be UTF-8.
pub fn path(path: &Path) -> Text<'_> {
    Text(Str(path.as_os_str().as_encoded_bytes()))
}

/// [`path`] as a serde function for struct fields.
///
/// # Errors
/// If the serializer fails.
pub fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    self::path(path).serialize(serializer)
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A metadata value from a file.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The value itself.
    pub value: ValueRef<'a>,
    /// Whether arrays are written completely; otherwise they become `{"type", "length", "first"}`.
    pub full: bool,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            ValueRef::U8(v) => serializer.serialize_u8(v),
            ValueRef::I8(v) => serializer.serialize_i8(v),
            ValueRef::U16(v) => serializer.serialize_u16(v),
            ValueRef::I16(v) => serializer.serialize_i16(v),
            ValueRef::U32(v) => serializer.serialize_u32(v),
            ValueRef::I32(v) => serializer.serialize_i32(v),
            ValueRef::U64(v) => serializer.serialize_u64(v),
            ValueRef::I64(v) => serializer.serialize_i64(v),
            ValueRef::F32(v) if v.is_finite() => serializer.serialize_f32(v),
            ValueRef::F32(v) => serializer.serialize_str(not_finite(v.into())),
            ValueRef::F64(v) if v.is_finite() => serializer.serialize_f64(v),
            ValueRef::F64(v) => serializer.serialize_str(not_finite(v)),
            ValueRef::Bool(b @ (0 | 1)) => serializer.serialize_bool(b == 1),
            ValueRef::Bool(b) => serializer.serialize_u8(b),
            ValueRef::String(s) => Text(s).serialize(serializer),
            ValueRef::Array(a) => {
                let element = |value| Shown { value, full: self.full };
                if self.full {
                    return serializer.collect_seq(a.iter().map(element));
                }
                let mut object = serializer.serialize_map(None)?;
                object.serialize_entry("type", &a.elem_type().to_string())?;
                object.serialize_entry("length", &a.len())?;
                object.serialize_entry("first", &List(|| a.iter().take(FIRST).map(element)))?;
                object.end()
            }
        }
    }
}

fn not_finite(v: f64) -> &'static str {
    match v {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(levels: usize, value: &impl Serialize) -> String {
        let mut out = Vec::new();
        write(&mut out, levels, value).unwrap();
        String::from_utf8(out).unwrap().trim_end().to_owned()
    }

    #[test]
    fn nothing_is_lost() {
        let cases: &[(ValueRef<'_>, &str)] = &[
            (ValueRef::U64(u64::MAX), "18446744073709551615"),
            (ValueRef::I64(i64::MIN), "-9223372036854775808"),
            (ValueRef::F32(1e-5), "0.00001"),
            (ValueRef::F32(0.1), "0.1"),
            (ValueRef::F64(0.1f32.into()), "0.10000000149011612"),
            (ValueRef::F32(f32::MAX), "3.4028235e+38"),
            (ValueRef::F32(f32::NAN), "\"NaN\""),
            (ValueRef::F64(f64::NEG_INFINITY), "\"-Infinity\""),
            (ValueRef::Bool(1), "true"),
            (ValueRef::Bool(7), "7"),
            (ValueRef::String(Str(b"a\x1b\n")), r#""a\u001b\n""#),
            (ValueRef::String(Str(b"a\xff")), r#"{"hex":"61ff"}"#),
            (
                ValueRef::String(Str("é\u{7f}\u{9b}日\u{202e}\u{e0041}b\\".as_bytes())),
                r#""é\u007f\u009b日\u202e\udb40\udc41b\\""#,
            ),
        ];
        for &(value, text) in cases {
            assert_eq!(written(0, &Shown { value, full: true }), text);
        }
    }

    #[test]
    fn long_arrays_are_cut_unless_asked_for() {
        let array: gguf_format::Array = (0u32..10).collect();
        let value = ValueRef::Array(array.as_ref());
        assert_eq!(written(0, &Shown { value, full: true }), "[0,1,2,3,4,5,6,7,8,9]");
        let cut = r#"{"type":"u32","length":10,"first":[0,1,2,3,4,5,6,7]}"#;
        assert_eq!(written(0, &Shown { value, full: false }), cut);
    }

    #[test]
    fn only_the_outer_levels_are_indented() {
        let value = serde_json::json!({ "a": [], "b": [[1, 2], {}], "c": { "d": [] } });
        let expected = "{\n  \"a\": [],\n  \"b\": [\n    [1,2],\n    {}\n  ],\n  \"c\": {\n    \"d\": []\n  }\n}";
        assert_eq!(written(2, &value), expected);
        assert_eq!(written(0, &value), value.to_string());
        assert_eq!(written(9, &value), format!("{value:#}"));
    }
}
