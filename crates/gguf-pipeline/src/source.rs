//! Where tensor data comes from.

use std::fmt;

use gguf_io::ModelFile;

use crate::error::Error;

/// Tensors that can be read by position, from many threads at once.
pub trait Source: Send + Sync + fmt::Debug {
    /// Fills `buffer` with the little-endian bytes of tensor `index` from `offset` on, which is the start of a block.
    ///
    /// # Errors
    /// [`Error::OutOfTensor`] if the tensor has fewer bytes, and errors of the system.
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;

    /// Where the bytes of tensor `index` lie in a GGUF file; `None`, which is the default, where they do not. A tensor that changes
    /// neither type nor byte order is then copied from file to file.
    fn stored(&self, _index: usize) -> Option<Stored<'_>> {
        None
    }
}

/// Where the data of a tensor lies in a file.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The file, whose byte order the data has.
    pub file: &'a ModelFile,
    /// Where the data starts, from the start of the GGUF.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
}
