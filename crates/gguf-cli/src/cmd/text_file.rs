//! Text files that commands read: rules, templates, cards.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;

use crate::failure::Failure;

/// Reads a text file, or standard input for `-`. A byte order mark is ignored. `what` describes the expected content in messages.
///
/// # Errors
/// If the file cannot be read, is longer than `most` bytes, or is not text.
pub fn read_text_of(path: &Path, most: u64, what: &str) -> Result<String, Failure> {
    let fail = |e: &dyn Display| Failure::CouldNotRun(format!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    append(path, most, &mut bytes, what)?;
    if bytes.len() as u64 > most {
        return Err(fail(&format!("expected {what}, found more than {most} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|e| fail(&format!("not UTF-8 text: {}", e.utf8_error())))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Appends the bytes of a file, or of standard input for `-`, and one byte more than `most` if it is longer.
///
/// # Errors
/// If the file cannot be read or is a model, which is not read: it may be large.
pub fn append(path: &Path, most: u64, bytes: &mut Vec<u8>, what: &str) -> Result<(), Failure> {
    let fail = |e: &dyn Display| Failure::CouldNotRun(format!("{}: {e}", path.display()));
    let start = bytes.len();
    let mut input = super::input(path)?.take(most.saturating_add(1));
    let mut read = |most: u64| {
        let read = input.by_ref().take(most).read_to_end(bytes);
        read.map_err(|e| fail(&format!("cannot read: {e}"))).map(|_| bytes.get(start..) == Some(b"GGUF"))
    };
    if read(4)? {
        return Err(fail(&format!("expected {what}, found a model")));
    }
    read(u64::MAX).map(drop)
}
