//! The one memory map of the workspace.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A read-only mapping of a whole file, as a [`ReadAt`](crate::ReadAt) whose bytes are in memory.
///
/// A map is the fastest way to a model's data: nothing is copied, and processes share the pages. It is also a promise
/// about what all other processes do, so [`Map::new`] is unsafe. Reading through [`ReadAt`](crate::ReadAt) from the
/// [`File`] needs no promise.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use gguf_io::{Map, ModelFile};
///
/// let file = std::fs::File::open("model.gguf")?;
/// // SAFETY: nobody writes to the files of this folder.
/// let map = unsafe { Map::new(&file) }?;
/// let model = ModelFile::from_reader(map, "model.gguf")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Map(memmap2::Mmap);

impl Map {
    /// Maps the whole file.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Safety
    /// As long as the map lives, nobody changes the mapped file: neither this process nor another one writes to it or
    /// truncates it. A write changes bytes behind a shared reference, which is undefined behaviour; a read beyond the new
    /// end of a truncated file is a signal that ends the process. To remove the file, or to replace it by renaming
    /// another one, changes nothing: the map keeps the old one.
    #[allow(unsafe_code, reason = "the one place that maps files")]
    pub unsafe fn new(file: &File) -> io::Result<Map> {
        // SAFETY: the caller vouches for it that the file does not change.
        unsafe { memmap2::Mmap::map(file) }.map(Map)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
