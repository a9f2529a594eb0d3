//! SHA-256 of whole files, as computed by `sha256sum` and shown by the Hub.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gguf_format::sort::CompactSort as _;
use gguf_io::{FileState, ReadAt as _, open_regular};
use gguf_pipeline::{Event, Progress, workers};
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Bytes to read and hash at a time.
const PIECE: usize = 1 << 20;

/// The SHA-256 of each file, in hexadecimal digits. Several files are hashed in parallel by `threads` threads, by default the parallelism
/// of the machine.
///
/// # Errors
/// If a file cannot be read or has changed since it was opened, or the work is cancelled.
pub fn file_hashes<P: AsRef<Path>>(
    paths: &[P],
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<String>, Error> {
    let open = |path: &P| {
        let path = path.as_ref();
        let io = |source| gguf_io::Error::Io { path: path.to_owned(), action: "open", source };
        let file = open_regular(path)?;
        let state = FileState::of(&file).map_err(io)?;
        let bytes = file.size().map_err(io)?;
        Ok((path.to_owned(), file, state, bytes))
    };
    let files = paths.iter().map(open).collect::<Result<Vec<_>, gguf_io::Error>>()?;
    let read = |(path, file, ..): &(_, File, FileState, u64), at, piece: &mut [u8]| {
        let io = |source| gguf_io::Error::Io { path: std::path::PathBuf::clone(path), action: "read", source };
        file.read_exact_at(at, piece).map_err(io)
    };
    let hashes = sha256(&files, |(_, _, _, bytes)| *bytes, read, threads, progress)?;
    let changed = files.iter().find(|(_, file, state, _)| FileState::of(file).ok() != Some(*state));
    match changed {
        Some((path, ..)) => Err(gguf_io::Error::Changed(path.clone()).into()),
        None => Ok(hashes),
    }
}

/// The SHA-256 of each file, given functions for its length and its pieces.
pub(crate) fn sha256<F: Sync>(
    files: &[F],
    length: impl Fn(&F) -> u64 + Sync,
    read: impl Fn(&F, u64, &mut [u8]) -> Result<(), gguf_io::Error> + Sync,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<String>, Error> {
    let bytes = files.iter().map(&length).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: files.len(), bytes });
    let found: Mutex<Vec<(usize, String)>> = Mutex::default();
    workers::for_each(
        threads,
        files.iter().enumerate(),
        progress,
        || vec![0u8; PIECE],
        |buffer, (number, file)| {
            let (mut sha, mut at, end) = (Sha256::new(), 0, length(file));
            while at < end {
                if progress.is_cancelled() {
                    return Err(Error::from(gguf_pipeline::Error::Cancelled));
                }
                let left = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE);
                let piece = buffer.get_mut(..left).unwrap_or_default();
                read(file, at, piece)?;
                sha.update(&*piece);
                at += left as u64;
                progress.event(Event::Advanced { bytes: left as u64 });
            }
            let digits = sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            found.lock().unwrap_or_else(PoisonError::into_inner).push((number, digits));
            Ok(())
        },
    )?;
    progress.event(Event::Finished);
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.compact_sort_by(Ord::cmp);
    Ok(found.into_iter().map(|(_, digits)| digits).collect())
}
