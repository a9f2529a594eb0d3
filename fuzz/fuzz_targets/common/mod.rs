//! A directory for targets that read files, in memory if possible.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A directory used only by this process.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let create = || {
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        tempfile::tempdir_in(parent).expect("a folder")
    };
    FOLDER.get_or_init(create).path()
}

/// The separator between the files in the input of a target.
#[allow(dead_code, reason = "not every target has several files")]
pub const SEPARATOR: &[u8] = b"\n=FILE=\n";

/// Writes files with those names, as many as the data contains; removes the others.
#[allow(dead_code, reason = "not every target has several files")]
pub fn write_files(names: &[&str], mut data: &[u8]) {
    for (i, name) in names.iter().enumerate() {
        let path = folder().join(name);
        let end = data.windows(SEPARATOR.len()).position(|w| w == SEPARATOR).filter(|_| i + 1 < names.len());
        let (file, rest) = match end {
            Some(end) => (&data[..end], &data[end + SEPARATOR.len()..]),
            None => (data, &b""[..]),
        };
        data = rest;
        match file {
            [] => _ = std::fs::remove_file(path),
            file => std::fs::write(path, file).expect("a file"),
        }
    }
}
