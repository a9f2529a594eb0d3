//! Reading the small files of a model folder, none of them trusted: regular files only, bounded, UTF-8 or an error.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde_json::Value as Json;

use super::error::ModelDirError;

/// The most bytes that are read from one file. The largest tokenizers in use take some 35 MB.
const LIMIT: u64 = 256 << 20;

/// The bytes of a file; `None` when there is no such regular file.
pub(crate) fn read_bytes(file: &Path) -> Result<Option<Vec<u8>>, ModelDirError> {
    let read_error = |source| ModelDirError::Read { file: file.to_owned(), source };
    match std::fs::metadata(file) {
        Ok(m) if m.is_file() => {}
        Ok(_) => return Ok(None),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(read_error(e)),
    }
    let mut bytes = Vec::new();
    File::open(file).map_err(read_error)?.take(LIMIT + 1).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > LIMIT {
        return Err(ModelDirError::TooLarge { file: file.to_owned(), limit: LIMIT });
    }
    Ok(Some(bytes))
}

/// The text of a file; `None` when there is no such regular file.
pub(crate) fn read_text(file: &Path) -> Result<Option<String>, ModelDirError> {
    let Some(bytes) = read_bytes(file)? else { return Ok(None) };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(e) => Err(ModelDirError::NotUtf8 { file: file.to_owned(), at: e.utf8_error().valid_up_to() }),
    }
}

/// The text of a file with every line ending turned into `\n`, as Python's text mode reads it.
pub(crate) fn read_lines(file: &Path) -> Result<Option<String>, ModelDirError> {
    let text = read_text(file)?;
    Ok(text.map(|t| if t.contains('\r') { t.replace("\r\n", "\n").replace('\r', "\n") } else { t }))
}

/// The JSON value of a file; `None` when there is no such regular file. Nesting is bounded by the parser.
pub(crate) fn read_json(file: &Path) -> Result<Option<Json>, ModelDirError> {
    let Some(bytes) = read_bytes(file)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes).or_else(|error| match without_special_floats(&bytes) {
        Some(json) => serde_json::from_slice(&json),
        None => Err(error),
    });
    parsed.map(Some).map_err(|source| ModelDirError::Json { file: file.to_owned(), source })
}

/// The JSON with null for the numbers that only Python's writer knows: `NaN`, `Infinity` and `-Infinity`, which stand in
/// the configurations of Mamba models, for example. `None` when there are none.
fn without_special_floats(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len());
    let (mut rest, mut in_string, mut found) = (json, false, false);
    while let [first, tail @ ..] = rest {
        let special = [&b"NaN"[..], b"Infinity", b"-Infinity"].into_iter().find(|s| !in_string && rest.starts_with(s));
        if let Some(after) = special.and_then(|s| rest.strip_prefix(s)) {
            out.extend(b"null");
            (rest, found) = (after, true);
            continue;
        }
        out.push(*first);
        rest = tail;
        match (first, in_string, tail) {
            // What is escaped does not end the string.
            (b'\\', true, [escaped, after @ ..]) => {
                out.push(*escaped);
                rest = after;
            }
            (b'"', ..) => in_string = !in_string,
            _ => {}
        }
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_numbers_become_null() {
        let json = br#"{"a": NaN, "b": [0.0, Infinity, -Infinity], "NaN \" NaN \\": "Infinity"}"#;
        let fixed = br#"{"a": null, "b": [0.0, null, null], "NaN \" NaN \\": "Infinity"}"#;
        assert_eq!(without_special_floats(json).as_deref(), Some(&fixed[..]));
        assert_eq!(without_special_floats(br#"{"a": "NaN", "b": nan}"#), None);
        assert_eq!(without_special_floats(b"\"\\"), None);
    }
}
