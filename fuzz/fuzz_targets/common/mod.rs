//! A folder for targets that read files, in memory where the system has such a place.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder of this process alone.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let create = || {
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        tempfile::tempdir_in(parent).expect("a folder")
    };
    FOLDER.get_or_init(create).path()
}

/// What stands between the files in the input of a target.
#[allow(dead_code, reason = "not every target has several files")]
pub const SEPARATOR: &[u8] = b"\n=FILE=\n";

/// Writes files of those names, as far as there are any in the data; the others are removed.
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
