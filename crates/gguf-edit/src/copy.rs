//! Copies ranges of files, in the kernel if possible.

use gguf_io::in_place::space::copy_range;
use gguf_io::{ModelFile, Output};
use gguf_pipeline::{Event, Progress};

use crate::EditError;

/// Bytes to copy between two checks for cancellation.
const PIECE: u64 = 64 << 20;

/// As [`PIECE`], from a source that is not a file.
const REMOTE_PIECE: u64 = 4 << 20;

/// Copies a range of a model into an output.
///
/// # Errors
/// Errors of the operating system, and if the work is cancelled.
pub(crate) fn copy(
    from: &ModelFile,
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
        let copied = match from.as_file() {
            Some(file) => copy_range(file, at, output.file(), to_at, left.min(PIECE)).map_err(|source| {
                gguf_io::Error::Io { path: output.path().to_owned(), action: "copy the data", source }
            })?,
            None => {
                let piece = left.min(REMOTE_PIECE);
                from.copy_to(at..at + piece, output, to_at)?;
                piece
            }
        };
        (at, to_at, left) = (at + copied, to_at + copied, left.saturating_sub(copied));
        progress.event(Event::Advanced { bytes: copied });
    }
    Ok(())
}
