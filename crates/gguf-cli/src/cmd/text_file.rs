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
    super::input(path)?.take(most + 1).read_to_end(&mut bytes).map_err(|e| fail(&format!("cannot read: {e}")))?;
    if bytes.starts_with(b"GGUF") {
        return Err(fail(&format!("expected {what}, found a model")));
    }
    if bytes.len() as u64 > most {
        return Err(fail(&format!("expected {what}, found more than {most} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|e| fail(&format!("not UTF-8 text: {}", e.utf8_error())))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
