//! What encoders weight errors by.

use std::fmt;
use std::ops::Range;

use crate::error::Error;

/// The importance of the columns of tensors, kept wherever it is until a chunk needs it.
pub trait Importance: Send + Sync + fmt::Debug {
    /// The weights of some columns of an entry. A stack of matrices has its columns matrix after matrix: those of matrix `m` start at
    /// `m` times the length of a row. `None` when there are no such columns.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read, [`Error::Importance`] when they cannot be used.
    fn weights(&self, entry: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, Error>;
}
