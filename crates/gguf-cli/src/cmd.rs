//! The subcommands, one file each, with an `Args` struct for the options and their help, and a `run` method.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use gguf_io::{Model, ModelFile, ReadAt as _};

use crate::failure::{Failure, Verdict};
use crate::open;
use crate::stdin;
use crate::ui::Ui;

pub mod add_tensor;
pub mod card;
pub mod cat;
pub mod check;
pub mod commit;
pub mod completions;
pub mod convert;
pub mod diff;
pub mod edit;
#[cfg(feature = "engine")]
pub mod engine;
pub mod estimate;
#[cfg(feature = "engine")]
pub mod evaluation;
pub mod export;
pub mod extract;
pub mod fleet;
pub mod float_type;
pub mod get;
pub mod graft;
pub mod hash;
pub mod html;
pub mod imatrix;
#[cfg(feature = "engine")]
pub mod kld;
pub mod lora;
pub mod man;
pub mod merge;
pub mod migrate;
pub mod name;
pub mod output;
pub mod part;
#[cfg(feature = "engine")]
pub mod perplexity;
pub mod planned;
pub mod preflight;
pub mod quantize;
pub mod recipe;
pub mod rename;
pub mod reorder;
pub mod repair;
pub mod rm_tensor;
#[cfg(feature = "engine")]
pub mod run;
#[cfg(feature = "engine")]
pub mod sensitivity;
pub mod set;
pub mod show;
pub mod size;
pub mod split;
pub mod swap;
pub mod templates;
pub mod text_file;
pub mod unset;
pub mod upgrade;
pub mod verify;
#[cfg(feature = "view")]
pub mod view;
pub mod writing;

/// Parses a byte offset from the command line: decimal, or hexadecimal with the prefix `0x`.
///
/// # Errors
/// Returns a message if the text is not an offset.
pub fn offset(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| e.to_string())
}

/// Checks that an offset lies within a file, before the file is opened.
///
/// # Errors
/// If the offset is past the end of the file.
pub fn within(path: &Path, at: u64) -> Result<(), Failure> {
    if at == 0 {
        return Ok(());
    }
    let bytes = match open::source(path)? {
        Some(source) => source.size().ok(),
        None => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|data| data.len()),
    };
    match bytes {
        Some(bytes) if at >= bytes => Err(Failure::CouldNotRun(format!(
            "{}: offset {at} is past the end of the file ({bytes} bytes); --at expects the byte at which the GGUF starts",
            path.display(),
        ))),
        // If the length is unknown, opening the file reports the error.
        _ => Ok(()),
    }
}

/// Opens a file of text, or standard input for `-`. Opening never blocks, so the file must not be a pipe.
///
/// # Errors
/// If the file cannot be opened, or is not a regular file.
pub fn input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    match gguf_io::open_regular(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(e @ gguf_io::Error::NotAFile(_)) if !path.is_dir() => {
            Err(Failure::CouldNotRun(format!("{e}; pass - to read standard input")))
        }
        Err(e) => Err(e.into()),
    }
}

/// Checks that the output is not standard output. `what` is the name of the option or argument in the message.
///
/// # Errors
/// If `out` is `-`.
pub fn not_stdout(what: &str, out: &Path) -> Result<(), Failure> {
    if out != Path::new("-") {
        return Ok(());
    }
    let problem = "a GGUF file cannot be written to standard output, because its parts are not written in order; pass a \
        file path (./- for a file of that name)";
    Err(Failure::CouldNotRun(format!("{what} -: {problem}")))
}

/// Checks that a folder exists.
///
/// # Errors
/// If the folder does not exist, or is not a folder.
pub fn expect_folder(dir: &Path, expected: &str) -> Result<(), Failure> {
    if dir.is_dir() {
        return Ok(());
    }
    let (kind, found) = if dir.exists() { ("failed", "is not a folder") } else { ("not_found", "no such folder") };
    let message = format!("{}: {found}; {expected}", dir.display());
    Err(Failure::of_file(Verdict::CouldNotRun, kind, dir, message))
}

/// Parses a number that must not be 0, such as that of threads.
///
/// # Errors
/// Returns a message if the text is not such a number.
pub fn at_least_one<T: FromStr>(text: &str) -> Result<T, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("must be at least 1".to_owned()),
        _ => text.parse().map_err(|_| "expected a whole number".to_owned()),
    }
}

/// Checks that a file or folder exists.
///
/// # Errors
/// If it does not exist.
pub fn expect_input(path: &Path, expected: &str) -> Result<(), Failure> {
    if open::exists(path) {
        return Ok(());
    }
    let message = format!("{}: no such file or folder; {expected}", path.display());
    Err(Failure::of_file(Verdict::CouldNotRun, "not_found", path, message))
}

/// The files of a model, the first shard first.
#[derive(Debug)]
pub enum Shards {
    /// All shards of the model.
    Whole(Model),
    /// A single file, which may be one shard of a split model.
    Lone(ModelFile),
}

impl Shards {
    /// The files.
    pub fn files(&self) -> &[ModelFile] {
        match self {
            Shards::Whole(model) => model.files(),
            Shards::Lone(file) => std::slice::from_ref(file),
        }
    }
}

/// Opens all shards of the model that a file belongs to. If shards are missing or do not match, prints a warning and opens only the
/// given file.
///
/// # Errors
/// If a file cannot be opened or read.
pub fn open_model(ui: &mut Ui, path: &Path, at: u64) -> Result<Shards, Failure> {
    let (shards, warning) = find_model(path, at)?;
    warning.iter().for_each(|warning| ui.warning(warning));
    Ok(shards)
}

/// Opens the model on standard input. Only its head is read.
///
/// # Errors
/// If the head cannot be read, or if `at` is not 0.
pub fn stdin_model(at: u64) -> Result<ModelFile, Failure> {
    match at {
        0 => stdin::open(),
        _ => Err(Failure::CouldNotRun("standard input has no offset; omit --at".to_owned())),
    }
}

/// Like [`open_model`], but returns the warning instead of printing it.
///
/// # Errors
/// If a file cannot be opened or read.
pub fn find_model(path: &Path, at: u64) -> Result<(Shards, Option<String>), Failure> {
    if stdin::is_stdin(path) {
        return Ok((Shards::Lone(stdin_model(at)?), None));
    }
    if at > 0 {
        within(path, at)?;
        return Ok((Shards::Lone(open::file(path, at)?), None));
    }
    match open::model(path) {
        Ok(model) => Ok((Shards::Whole(model), None)),
        Err(failure) if failure.kind() == "shards" => {
            Ok((Shards::Lone(open::file(path, 0)?), Some(format!("{failure}; only this file is read"))))
        }
        Err(failure) => Err(failure),
    }
}
