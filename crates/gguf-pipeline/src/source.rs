//! Where tensor data comes from.

use std::fmt;

use crate::error::Error;

/// Tensors that can be read by position, from many threads at once.
pub trait Source: Send + Sync + fmt::Debug {
    /// Fills `buffer` with the little-endian bytes of tensor `index` from `offset` on, which is the start of a block.
    ///
    /// # Errors
    /// [`Error::OutOfTensor`] when the tensor has fewer bytes, and what the system says when they cannot be read.
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;
}
