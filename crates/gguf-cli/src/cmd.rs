//! The subcommands, one file each: an `Args` with the options and their help, and its `run`.

use std::path::Path;

use gguf_io::ModelFile;

use crate::failure::Failure;

pub mod check;
pub mod completions;
pub mod convert;
pub mod get;
pub mod man;
pub mod name;
pub mod show;

/// A byte offset on the command line, in decimal or after `0x` in hexadecimal.
///
/// # Errors
/// What is wrong with it.
pub fn offset(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| e.to_string())
}

/// All shards of the model that a file belongs to; a file that is not split is its own only shard.
///
/// # Errors
/// When a file cannot be opened or read.
pub fn open_model(path: &Path, at: u64) -> Result<Vec<ModelFile>, Failure> {
    Ok(vec![ModelFile::open_at(path, at)?])
}
