//! The contents of a journal: the bytes of the new start that differ from the old one, and the inserted range.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::{read_whole, space};
use crate::buffer::read_full;
use crate::pieces::{each_piece, has_at};
use crate::{Error, ReadAt};

/// The start of a journal: a name, and the version of the format.
const START: [u8; 16] = *b"GGUF edit\n\0\0\0\x01\0\0";

/// The following numbers, 8 bytes each, little-endian: length of the file before the edit, offset and length of the insertion, length of
/// the new start, offset and length of the journal's bytes.
const N_NUMBERS: usize = 6;

/// Bytes of a hash.
const HASH: usize = 16;

/// Bytes before the payload.
const HEAD: usize = START.len() + N_NUMBERS * 8 + HASH;

/// An inserted range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hole {
    /// The offset, a multiple of the file system's block size.
    pub(super) at: u64,
    /// The length.
    pub(super) len: u64,
}

/// An edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Length of the file before the edit.
    file_bytes: u64,
    /// The inserted range, inside the written range.
    pub(super) hole: Option<Hole>,
    /// Length of the new start.
    start_bytes: u64,
    /// The offset of the bytes, after the insertion.
    pub(super) at: u64,
    /// The bytes.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Hash of the rest of the new start, which the file already has.
    rest: u128,
}

/// The progress of an edit in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The file is not the edited one.
    Other,
    /// Some steps remain.
    Begun {
        /// Whether the insertion is done.
        is_inserted: bool,
    },
    /// All steps are done.
    Done,
}

impl<'a> Record<'a> {
    /// The edit that replaces the start `old` of a file by `new`.
    #[expect(
        clippy::indexing_slicing,
        reason = "the differing range lies in `new`, which is at least as long as `old`"
    )]
    pub(super) fn new(path: &Path, file: &File, old: &[u8], new: &'a [u8]) -> Result<Record<'a>, Error> {
        let fail = Error::io(path, "edit in place");
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
        let file_bytes = file.size().map_err(Error::io(path, "read"))?;
        if !has_at(file, 0, old).map_err(Error::io(path, "read"))? {
            return Err(Error::Changed(path.to_owned()));
        }
        let Some(len) = new.len().checked_sub(old.len()) else {
            return Err(fail(invalid("the new start is shorter than the old one")));
        };
        let pairs = old.iter().zip(new);
        let mut from = pairs.take_while(|(a, b)| a == b).count();
        let mut hole = None;
        if len > 0 {
            let block = space::block_bytes(path).map_err(Error::io(path, "read"))?;
            let at = from as u64 / block * block;
            if !(len as u64).is_multiple_of(block) || at >= file_bytes {
                return Err(fail(invalid("bytes are inserted in whole blocks, and before the end of the file")));
            }
            from = usize::try_from(at).unwrap_or(from);
            hole = Some(Hole { at, len: len as u64 });
        }
        // After the difference, and after the insertion.
        let most = old.len() - from;
        let same = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        let to = new.len() - same;
        let rest = hash_of_rest(&new[..from], &new[to..]);
        let bytes = Cow::Borrowed(&new[from..to]);
        Ok(Record { file_bytes, hole, start_bytes: new.len() as u64, at: from as u64, bytes, rest })
    }

    /// The end of the bytes.
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes.len() as u64)
    }

    /// The parts of a journal before the bytes, the bytes, and the part after them.
    pub(super) fn encode(&self) -> (Vec<u8>, &[u8], [u8; HASH]) {
        let hole = self.hole.unwrap_or(Hole { at: 0, len: 0 });
        let numbers = [self.file_bytes, hole.at, hole.len, self.start_bytes, self.at, self.bytes.len() as u64];
        let mut head = START.to_vec();
        head.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        head.extend(self.rest.to_le_bytes());
        let end = checksum(&head, &self.bytes).to_le_bytes();
        (head, &self.bytes, end)
    }

    /// Whether a file exists that begins like a journal, as far as it goes: an interrupted one may have any length.
    pub(super) fn is_journal(path: &Path) -> bool {
        if !std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
            return false;
        }
        // An unreadable file may be a journal.
        File::open(path).and_then(|mut file| begins_like_journal(&mut file)).unwrap_or(true)
    }

    /// Whether an open file begins like a journal, as far as it goes.
    pub(super) fn may_be_journal(file: &mut File) -> io::Result<bool> {
        file.seek(SeekFrom::Start(0))?;
        begins_like_journal(file)
    }

    /// The record of a journal; `None` if it is incomplete, which means that the edit never began.
    ///
    /// # Errors
    /// If it cannot be read, or has another version.
    pub(super) fn read(journal: &mut File) -> io::Result<Option<Record<'static>>> {
        let mut bytes = read_whole(journal)?;
        let Some((body, end)) = bytes.split_last_chunk::<HASH>() else { return Ok(None) };
        let Some((head, payload)) = body.split_at_checked(HEAD) else { return Ok(None) };
        if checksum(head, payload) != u128::from_le_bytes(*end) {
            return Ok(None);
        }
        if !head.starts_with(&START) {
            return Err(io::Error::other("the journal is not one of this version"));
        }
        let mut fields = head.get(START.len()..).unwrap_or_default();
        let mut number = || {
            let (first, after) = fields.split_first_chunk::<8>()?;
            fields = after;
            Some(u64::from_le_bytes(*first))
        };
        let numbers: Option<Vec<u64>> = (0..N_NUMBERS).map(|_| number()).collect();
        let rest = fields.first_chunk::<HASH>().map(|bytes| u128::from_le_bytes(*bytes));
        let (Some([file_bytes, hole_at, hole_len, start_bytes, at, n]), Some(rest)) = (numbers.as_deref(), rest) else {
            return Ok(None);
        };
        let hole = (*hole_len > 0).then_some(Hole { at: *hole_at, len: *hole_len });
        let (file_bytes, start_bytes, at, n) = (*file_bytes, *start_bytes, *at, *n);
        if n != payload.len() as u64 || !is_sound(file_bytes, hole, start_bytes, at, n) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the numbers in the journal contradict each other"));
        }
        bytes.truncate(bytes.len() - HASH);
        bytes.drain(..HEAD);
        Ok(Some(Record { file_bytes, hole, start_bytes, at, bytes: bytes.into(), rest }))
    }

    /// The progress of the edit.
    pub(super) fn look(&self, file: &File) -> io::Result<Found> {
        let len = file.size()?;
        let inserted = self.hole.map_or(0, |hole| hole.len);
        let is_inserted = len == self.file_bytes.saturating_add(inserted);
        if !is_inserted && len != self.file_bytes {
            return Ok(Found::Other);
        }
        let missing = if is_inserted { 0 } else { inserted };
        let mut hash = Xxh3::new();
        let mut add = |piece: &[u8]| hash.update(piece);
        each_piece(file, 0, self.at, &mut add)?;
        let (end, last) = (self.end().saturating_sub(missing), self.start_bytes.saturating_sub(missing));
        each_piece(file, end, last, &mut add)?;
        if hash.digest128() != self.rest {
            return Ok(Found::Other);
        }
        match is_inserted && has_at(file, self.at, &self.bytes)? {
            true => Ok(Found::Done),
            false => Ok(Found::Begun { is_inserted }),
        }
    }
}

/// Whether a file, from its position on, begins like a journal, as far as it goes.
fn begins_like_journal(file: &mut File) -> io::Result<bool> {
    let mut start = [0; START.len()];
    let n = read_full(file, &mut start)?;
    Ok(start.get(..n) == START.get(..n))
}

/// Returns whether the numbers of a record are consistent: the insertion lies inside the written range, and that inside the new start.
fn is_sound(file_bytes: u64, hole: Option<Hole>, start_bytes: u64, at: u64, n: u64) -> bool {
    let Some(end) = at.checked_add(n) else { return false };
    let len = hole.map_or(0, |hole| hole.len);
    let Some(whole) = file_bytes.checked_add(len) else { return false };
    let is_inside =
        |hole: Hole| hole.at >= at && hole.at < file_bytes && hole.at.checked_add(hole.len).is_some_and(|to| to <= end);
    end <= start_bytes && start_bytes <= whole && hole.is_none_or(is_inside)
}

fn checksum(head: &[u8], payload: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(head);
    hash.update(payload);
    hash.digest128()
}

fn hash_of_rest(before: &[u8], after: &[u8]) -> u128 {
    checksum(before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_contradict_each_other() {
        let hole = |at, len| Some(Hole { at, len });
        for (expected, file, hole, start, at, n) in [
            (true, 100, None, 50, 10, 20),
            (true, 100, None, 50, 0, 50),
            (true, 100, hole(0, 4096), 4146, 0, 4100),
            (false, 100, None, 50, 40, 20),
            (false, 100, None, 101, 40, 20),
            (false, 100, None, 50, u64::MAX, 20),
            (false, 100, hole(0, 4096), 4146, 1, 4100),
            (false, 100, hole(0, 4096), 4146, 0, 4095),
            (false, 100, hole(100, 4096), 4196, 100, 4096),
            (false, 100, hole(8, u64::MAX), 50, 0, 50),
            (false, u64::MAX, hole(8, 4), 50, 0, 50),
        ] {
            assert_eq!(is_sound(file, hole, start, at, n), expected, "{file} {hole:?} {start} {at} {n}");
        }
    }
}
