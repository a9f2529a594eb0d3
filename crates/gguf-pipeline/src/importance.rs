//! The weights of errors in encoders.

use std::fmt;
use std::ops::Range;

use crate::error::Error;

/// The importance of the columns of tensors, loaded when a chunk needs it.
pub trait Importance: Send + Sync + fmt::Debug {
    /// The weights of some columns of an entry. The columns of stacked matrices are consecutive: those of matrix `m` start at `m` times the
    /// length of a row. `None` if the columns do not exist.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read, [`Error::Importance`] if they are invalid.
    fn weights(&self, entry: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, Error>;
}
