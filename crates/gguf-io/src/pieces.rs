//! Reading ranges of files piece by piece.

use std::fs::File;
use std::io;

use crate::ReadAt;

/// Bytes to read at once.
const PIECE: usize = 256 << 10;

/// Reads a range in pieces.
pub(crate) fn each_piece(file: &File, mut from: u64, to: u64, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; PIECE.min(usize::try_from(to.saturating_sub(from)).unwrap_or(PIECE))];
    while from < to {
        let n = buffer.len().min(usize::try_from(to - from).unwrap_or(usize::MAX));
        let piece = buffer.get_mut(..n).unwrap_or_default();
        file.read_exact_at(from, piece)?;
        take(piece);
        from += n as u64;
    }
    Ok(())
}

/// Whether a file contains the bytes at that offset.
pub(crate) fn has_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<bool> {
    let Some(end) = at.checked_add(bytes.len() as u64).filter(|end| file.size().is_ok_and(|len| *end <= len)) else {
        return Ok(false);
    };
    let (mut rest, mut is_same) = (bytes, true);
    each_piece(file, at, end, &mut |piece| {
        let (now, later) = rest.split_at_checked(piece.len()).unwrap_or((rest, &[]));
        is_same &= now == piece;
        rest = later;
    })?;
    Ok(is_same)
}
