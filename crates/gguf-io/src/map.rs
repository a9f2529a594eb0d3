//! The one memory map of the workspace.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A read-only mapping of a file's bytes.
///
/// The bytes are for reading as numbers, nothing else: another process that writes to the file changes them under the
/// reader's eyes, and one that truncates it makes a read fail with a signal. Strings and structure therefore never come
/// from a map; heads are copied to the heap. Code that serves untrusted folders reads with
/// [`ModelFile::read_at`](crate::ModelFile::read_at) instead.
#[derive(Debug)]
pub struct Map(memmap2::Mmap);

impl Map {
    /// Maps the whole file.
    ///
    /// # Errors
    /// What the operating system says.
    #[allow(unsafe_code, reason = "the one place that maps files")]
    pub fn new(file: &File) -> io::Result<Map> {
        // SAFETY: the mapping is private to this process and read-only. That nobody changes the file meanwhile is what
        // the caller accepts by choosing a map; the bytes are only ever taken as plain numbers, for which every bit
        // pattern is valid, so a concurrent write can spoil values but not types.
        unsafe { memmap2::Mmap::map(file) }.map(Map)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
