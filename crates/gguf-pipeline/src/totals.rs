//! Facts about whole rows and tensors, which their chunks share.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gguf_quants::RowSquares;

use crate::error::Error;
use crate::progress::Progress;

/// What a run knows about whole rows and tensors. The first thread that needs a fact determines it; the others wait.
pub(crate) struct Totals<'a> {
    /// The squares of rows that are encoded in parts, by tensor and row, for types that depend on whole rows.
    squares: Mutex<BTreeMap<(usize, u64), RowSquares>>,
    /// The means of the absolute values of tensors that are rounded to three values.
    means: Mutex<BTreeMap<usize, f32>>,
    progress: &'a dyn Progress,
}

impl<'a> Totals<'a> {
    pub(crate) fn new(progress: &'a dyn Progress) -> Totals<'a> {
        Totals { squares: Mutex::default(), means: Mutex::default(), progress }
    }

    /// The squares of a row of the tensor with that index.
    ///
    /// # Errors
    /// Errors of `find`.
    pub(crate) fn squares(
        &self,
        index: usize,
        row: u64,
        find: impl FnOnce() -> Result<RowSquares, Error>,
    ) -> Result<RowSquares, Error> {
        find_once(&self.squares, (index, row), find)
    }

    /// The mean of the absolute values of the tensor with that index.
    ///
    /// # Errors
    /// Errors of `find`.
    pub(crate) fn mean(&self, index: usize, find: impl FnOnce() -> Result<f32, Error>) -> Result<f32, Error> {
        find_once(&self.means, index, find)
    }

    /// Checks that the work is not cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn check_cancelled(&self) -> Result<(), Error> {
        if self.progress.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// The known fact, or the one that `find` determines while others wait.
fn find_once<K: Ord, T: Copy>(
    known: &Mutex<BTreeMap<K, T>>,
    key: K,
    find: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(fact) = known.get(&key) {
        return Ok(*fact);
    }
    let fact = find()?;
    known.insert(key, fact);
    Ok(fact)
}
