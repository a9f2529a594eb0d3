//! Copies ranges of files, in the kernel if possible.

use std::fs::File;

use gguf_io::Output;
use gguf_io::in_place::space::copy_range;
use gguf_pipeline::{Event, Progress};

use crate::EditError;

/// Bytes to copy between two checks for cancellation.
const PIECE: u64 = 64 << 20;

/// Copies a range of a file into an output.
///
/// # Errors
/// Errors of the operating system, and if the work is cancelled.
pub(crate) fn copy(
    from: &File,
    mut at: u64,
    output: &Output,
    mut to_at: u64,
    mut left: u64,
    progress: &dyn Progress,
) -> Result<(), EditError> {
    while left > 0 {
        if progress.is_cancelled() {
            return Err(gguf_pipeline::Error::Cancelled.into());
        }
        let copied = copy_range(from, at, output.file(), to_at, left.min(PIECE))
            .map_err(|source| gguf_io::Error::Io { path: output.path().to_owned(), action: "copy the data", source })?;
        (at, to_at, left) = (at + copied, to_at + copied, left.saturating_sub(copied));
        progress.event(Event::Advanced { bytes: copied });
    }
    Ok(())
}
