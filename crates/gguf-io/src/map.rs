//! The one memory map of the workspace.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A read-only mapping of a whole file, as a [`ReadAt`](crate::ReadAt) whose bytes are in memory.
///
/// A map is the fastest access to a model's data: nothing is copied, and processes share the pages. It is also an assumption about all
/// other processes, so [`Map::new`] is unsafe. Reading from the [`File`] through [`ReadAt`](crate::ReadAt) is safe.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use gguf_io::{Map, ModelFile};
///
/// let file = std::fs::File::open("model.gguf")?;
/// // SAFETY: nothing writes to the files of this directory.
/// let map = unsafe { Map::new(&file) }?;
/// let model = ModelFile::from_source(map, "model.gguf")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Map(memmap2::Mmap);

impl Map {
    /// Maps the whole file.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Safety
    /// While the map exists, nothing may change the mapped file: no process, including this one, may write to it or truncate it. A write
    /// changes bytes behind a shared reference, which is undefined behaviour; a read beyond the new end of a truncated file raises a signal
    /// that ends the process. Removing the file, or replacing it by renaming another one, is allowed: the map keeps the old one.
    #[allow(unsafe_code, reason = "the one place that maps files")]
    pub unsafe fn new(file: &File) -> io::Result<Map> {
        // SAFETY: the caller guarantees that the file does not change.
        unsafe { memmap2::Mmap::map(file) }.map(Map)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
