//! Key-values as editable text, and the edits derived from it.
//!
//! A line is `KEY: TYPE = VALUE`. A string is quoted as in JSON, or on separate lines between `<<END` and `END`; an array is a list as in
//! JSON. Long arrays and very long strings are hidden: `…` replaces them and keeps them. Lines that begin with `#` are comments.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use gguf_format::keys::KeyType;
use gguf_format::{Head, Str, Value, ValueRef, ValueType};
use serde_json::Value as Json;

use crate::typed::{Assignment, json_of_value, kind_of_value, kind_text, parse_kind, value_of_text};
use crate::{Edit, EditError};

/// The maximum number of elements of a displayed array.
const SHOWN: u64 = 64;

/// The maximum length of a displayed string in bytes. As text, each byte may take six.
const LONGEST: usize = 1 << 20;

/// The placeholder for a hidden value.
const ELIDED: char = '…';

/// Introduces a multi-line string.
const LINES: &str = "<<";

/// The key-values of a head.
pub fn text_of(head: &Head) -> String {
    let mut text = String::new();
    for kv in &head.kvs {
        let value = kv.value.as_ref();
        let kind = kind_text(kind_of_value(value));
        let Some(key) = std::str::from_utf8(&kv.key).ok().filter(|key| is_plain(key)) else {
            let _ = writeln!(text, "# {}: {kind}; its name cannot be edited as text", Str(&kv.key));
            continue;
        };
        let _ = write!(text, "{key}: {kind} = ");
        write_value(&mut text, value);
        text.push('\n');
    }
    text
}

/// Whether a key can be at the start of a line.
fn is_plain(key: &str) -> bool {
    !key.starts_with('#') && key.trim() == key && !key.contains([':', '=']) && !key.chars().any(char::is_control)
}

fn write_value(text: &mut String, value: ValueRef<'_>) {
    match value {
        ValueRef::String(string) if string.as_bytes().len() > LONGEST => {
            let _ = write!(text, "{ELIDED} {} bytes", string.as_bytes().len());
        }
        ValueRef::String(string) => match string.to_str() {
            Ok(string)
                if string.contains('\n') && string.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()) =>
            {
                let mut end = "END".to_owned();
                while string.lines().any(|line| line == end) {
                    end.push('_');
                }
                let _ = write!(text, "{LINES}{end}\n{string}\n{end}");
            }
            Ok(string) => text.push_str(&Json::from(string).to_string()),
            Err(_) => {
                let _ = write!(text, "{ELIDED} {} bytes that are not UTF-8", string.as_bytes().len());
            }
        },
        ValueRef::Array(array) if array.len() > SHOWN || array.elem_type() == ValueType::ARRAY => {
            let _ = write!(text, "{ELIDED} {} elements", array.len());
        }
        ValueRef::Bool(byte @ 2..) => {
            let _ = write!(text, "{ELIDED} the byte {byte}");
        }
        ValueRef::F32(v) => {
            let _ = write!(text, "{v:?}");
        }
        ValueRef::F64(v) => {
            let _ = write!(text, "{v:?}");
        }
        value => {
            let _ = write!(text, "{}", json_of_value(value));
        }
    }
}

/// The edits that turn a head's key-values into those of a text. The order in the text is ignored.
///
/// ```
/// use gguf_edit::Edit;
/// use gguf_edit::text::{edits_of, text_of};
/// use gguf_format::Head;
///
/// let mut head = Head::default();
/// head.set("general.name", "Old");
/// let text = text_of(&head);
/// assert!(edits_of(&text, &head)?.is_empty());
/// let edits = edits_of(&text.replace("Old", "New"), &head)?;
/// assert_eq!(edits, [Edit::Set { key: "general.name".into(), value: "New".into() }]);
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
///
/// # Errors
/// [`EditError::Line`], with the error in the line.
pub fn edits_of(text: &str, head: &Head) -> Result<Vec<Edit>, EditError> {
    let mut edits = Vec::new();
    let mut seen = HashSet::new();
    // A search of the head for each line would take minutes for the maximum number of keys. Of duplicate keys, the first counts.
    let present: HashMap<&[u8], &Value> = head.kvs.iter().rev().map(|kv| (kv.key.as_slice(), &kv.value)).collect();
    let present = |key: &str| present.get(key.as_bytes()).map(|value| value.as_ref());
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).enumerate();
    while let Some((i, line)) = lines.next() {
        let at = |error: EditError| EditError::Line { number: i + 1, error: Box::new(error) };
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let (left, value) = line.split_once('=').ok_or_else(|| at(EditError::NotALine))?;
        let (key, stated) = match left.split_once(':') {
            Some((key, kind)) => (key.trim(), Some(kind.trim())),
            None => (left.trim(), None),
        };
        if !seen.insert(key) {
            return Err(at(EditError::Twice { key: key.to_owned() }));
        }
        let value = value.trim();
        if value.starts_with(ELIDED) {
            let is_there = |there| stated.is_none_or(|kind| kind == kind_text(kind_of_value(there)));
            let is_there = present(key).is_some_and(is_there);
            if !is_there {
                return Err(at(EditError::NotShown { key: key.to_owned() }));
            }
            continue;
        }
        let stated = stated.map(parse_kind).transpose().map_err(at)?;
        let lines = value.strip_prefix(LINES).map(|end| {
            let mut string: Option<String> = None;
            for (_, line) in lines.by_ref() {
                if line == end {
                    return Ok(string.unwrap_or_default());
                }
                match &mut string {
                    Some(string) => {
                        string.push('\n');
                        string.push_str(line);
                    }
                    None => string = Some(line.to_owned()),
                }
            }
            Err(EditError::NoEnd { end: end.to_owned() })
        });
        let edit = match lines {
            Some(string) => string.map(|string| Edit::Set { key: key.to_owned(), value: string.into() }),
            None => edit_of(key, stated, value, head),
        };
        let edit = edit.map_err(at)?;
        if !matches!(&edit, Edit::Set { key, value } if present(key) == Some(value.as_ref())) {
            edits.push(edit);
        }
    }
    let gone = head.kvs.iter().filter_map(|kv| std::str::from_utf8(&kv.key).ok());
    let gone: HashSet<&str> = gone.filter(|key| is_plain(key) && !seen.contains(key)).collect();
    let unset = head.kvs.iter().filter_map(|kv| std::str::from_utf8(&kv.key).ok()).filter(|key| gone.contains(key));
    edits.splice(0..0, unset.map(|key| Edit::Unset { key: key.to_owned() }));
    Ok(edits)
}

/// The edit of a line.
fn edit_of(key: &str, stated: Option<KeyType>, value: &str, head: &Head) -> Result<Edit, EditError> {
    // Strings are quoted, so that blanks at their ends are visible.
    let string = value.starts_with('"').then(|| serde_json::from_str::<String>(value).ok()).flatten();
    let assignment = Assignment { key: key.to_owned(), kind: stated, text: value.to_owned() };
    match (stated, string) {
        (Some(KeyType::Scalar(ValueType::STRING)) | None, Some(string)) => {
            let assignment = Assignment { kind: Some(KeyType::Scalar(ValueType::STRING)), text: string, ..assignment };
            match stated {
                Some(_) => assignment.edit(head),
                // The key's own type decides, if it has one.
                None => Assignment { kind: None, ..assignment.clone() }.edit(head).or_else(|e| match e {
                    EditError::UnknownKey { .. } => assignment.edit(head),
                    e => Err(e),
                }),
            }
        }
        (Some(kind @ KeyType::Scalar(ValueType::STRING)), None) => {
            Err(EditError::Value { key: key.to_owned(), kind, found: value.chars().take(60).collect() })
        }
        (Some(kind), _) => Ok(Edit::Set { key: key.to_owned(), value: value_of_text(key, kind, value)? }),
        (None, None) => assignment.edit(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::{Array, Kv};

    fn head() -> Head {
        let mut head = Head::default();
        let odd: [(&str, Value); 15] = [
            ("general.architecture", "llama".into()),
            ("general.name", " \"quoted\" ".into()),
            ("general.description", "two\nlines\n".into()),
            ("own.end", "a\nEND\nEND_\n\nb".into()),
            ("own.return", "a\r\nb".into()),
            ("own.bytes", Value::String(b"\xff".to_vec())),
            ("own.float", f32::NAN.into()),
            ("own.double", 1e300f64.into()),
            ("own.short", [1u64, u64::MAX].into()),
            ("own.long", (0..65u32).collect::<Vec<u32>>().into()),
            ("own.nested", Value::Array([Array::new(ValueType::U8)].into_iter().collect())),
            ("own.bool", Value::Bool(2)),
            ("own.empty", "".into()),
            ("own.none", Value::Array(Array::new(ValueType::STRING))),
            ("own:odd=key", 1u8.into()),
        ];
        for (key, value) in odd {
            head.set(key, value);
        }
        head
    }

    #[test]
    fn a_text_that_is_not_edited_changes_nothing() {
        let text = text_of(&head());
        // A NaN is not equal to itself.
        let edits: Vec<Edit> = edits_of(&text, &head()).unwrap();
        assert!(matches!(edits.as_slice(), [Edit::Set { key, .. }] if key == "own.float"), "{text}{edits:?}");
    }

    #[test]
    fn a_very_long_string_is_hidden_and_kept() {
        for (len, is_hidden) in [(LONGEST, false), (LONGEST + 1, true)] {
            let mut head = Head::default();
            head.set("general.description", "\u{1}".repeat(len));
            let text = text_of(&head);
            assert_eq!(text.contains(&format!("{ELIDED} {len} bytes\n")), is_hidden, "{len}");
            assert_eq!(edits_of(&text, &head).unwrap(), [], "{len}");
        }
    }

    /// Takes minutes if each line searches the head.
    #[test]
    fn a_text_of_the_maximum_number_of_keys_is_read_in_linear_time() {
        let kv = |i: u64| Kv { key: format!("own.{i}").into_bytes(), value: "".into() };
        let head = Head { kvs: (0..gguf_io::MODEL_LIMITS.kvs).map(kv).collect(), ..Head::default() };
        let text = text_of(&head).replacen("own.0:", "own.new:", 1);
        let edits = edits_of(&text, &head).unwrap();
        let new = Edit::Set { key: "own.new".into(), value: "".into() };
        assert_eq!(edits, [Edit::Unset { key: "own.0".into() }, new]);
    }

    #[test]
    fn lines_are_changed_added_and_removed() {
        let mut head = head();
        head.remove("own.float");
        let text = text_of(&head)
            .replace("own.double: f64 = 1e300", "own.double: f64 = 2.5")
            .replace("own.empty: string = \"\"\n", "")
            .replace("two\nlines", "three\n\nlines");
        let text = text + "llama.context_length = 99\ngeneral.author = \"me\"\nown.new: [i8] = [-1]\n# comment\n\n";
        let set = |key: &str, value: Value| Edit::Set { key: key.into(), value };
        assert_eq!(
            edits_of(&text, &head).unwrap(),
            [
                Edit::Unset { key: "own.empty".into() },
                set("general.description", "three\n\nlines\n".into()),
                set("own.double", 2.5f64.into()),
                set("llama.context_length", 99u32.into()),
                set("general.author", "me".into()),
                set("own.new", [-1i8].into()),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (line, message) in [
            ("nonsense", "line 2: expected KEY: TYPE = VALUE"),
            ("a: b = c", "line 2: unknown type \"b\""),
            ("a: u8 = 256", "line 2: a: expected a value of type u8, found 256"),
            ("a: string = b", "line 2: a: expected a value of type string, found b"),
            ("a: string = <<E\nb", "line 2: unterminated string; expected a line E"),
            ("general.name: string = \"\"\ngeneral.name = \"\"", "line 3: duplicate key general.name"),
            ("a: [u8] = … 3 elements", "line 2: the file has no value of a to keep"),
            ("own.long: [u8] = … 65 elements", "line 2: the file has no value of own.long to keep"),
        ] {
            let error = edits_of(&format!("# first\n{line}"), &head()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{line}: {error}");
        }
    }
}
