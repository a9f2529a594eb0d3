//! Sources of tensor data.

use std::fmt;

use gguf_io::ModelFile;

use crate::error::Error;

/// Tensors that can be read at any position, from many threads at once.
pub trait Source: Send + Sync + fmt::Debug {
    /// Fills `buffer` with the little-endian bytes of tensor `index` starting at `offset`, the start of a block.
    ///
    /// # Errors
    /// [`Error::OutOfTensor`] if the tensor has fewer bytes, and errors of the system.
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;

    /// The place of tensor `index` in a GGUF file; `None`, which is the default, if it is not in one. A tensor that changes neither type
    /// nor byte order is then copied between files.
    fn stored(&self, _index: usize) -> Option<Stored<'_>> {
        None
    }
}

/// The place of a tensor's data in a file.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The file. The data has its byte order.
    pub file: &'a ModelFile,
    /// Offset of the data, from the start of the GGUF.
    pub start: u64,
    /// Size of the data.
    pub bytes: u64,
}
