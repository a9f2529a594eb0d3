//! Finds the head of a damaged file.
//!
//! The first 24 bytes of a file contain the version and the size of its head. If they are damaged, everything after them may still be
//! intact and determine them: only the correct values give a valid head whose tensors fill the file exactly.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

use gguf_format::{ByteOrder, Field, Gguf, Head, HeadScan, Limits, Version};
use gguf_io::{MODEL_LIMITS, ReadAt, read_head_with};

use super::{Mend, packed};
use crate::EditError;

/// Bytes of magic, version and counts, since version 2.
const START: usize = 24;

/// The limits of a head with guessed counts: invalid data must not be read into memory by the gigabyte.
const LIMITS: Limits = Limits {
    tensors: MODEL_LIMITS.tensors,
    kvs: MODEL_LIMITS.kvs,
    string_bytes: 32 << 20,
    name_bytes: 64,
    elements: 8 << 20,
    levels: 2,
    dims: 4,
};

/// The number of pairs by which a scan may overrun into the tensor infos before it fails.
const TOO_FAR: u64 = 4;

/// A valid or repaired head.
#[derive(Debug)]
pub(super) struct MendedHead {
    pub(super) gguf: Gguf<'static>,
    /// The repaired damage.
    pub(super) mends: Vec<Mend>,
    /// The correct offsets of the tensors.
    pub(super) offsets: Vec<u64>,
}

impl MendedHead {
    /// The bytes of the repaired head, of the same length as the current one, with other names for some tensors: their indices, and names
    /// of the same length.
    pub(super) fn encoded(&self, names: &[(usize, Vec<u8>)]) -> Result<Vec<u8>, EditError> {
        let mut head = Head::from_gguf(&self.gguf);
        let is_moved = head.tensors.iter().zip(&self.offsets).any(|(tensor, right)| tensor.offset != *right);
        if !is_moved && names.is_empty() {
            return Ok(self.gguf.bytes().to_owned());
        }
        for (index, name) in names {
            if let Some(tensor) = head.tensors.get_mut(*index) {
                tensor.name.clone_from(name);
            }
        }
        for (tensor, right) in head.tensors.iter_mut().zip(&self.offsets) {
            tensor.offset = *right;
        }
        Ok(head.encode_as_read()?)
    }

    fn new(gguf: Gguf<'static>, mends: Vec<Mend>) -> MendedHead {
        MendedHead { gguf, mends, offsets: Vec::new() }
    }
}

/// The head of a file, and the problem that prevents reading it.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn find(file: &File, file_bytes: u64) -> io::Result<(Option<MendedHead>, Option<String>)> {
    let scan = HeadScan::new(Some(file_bytes)).within(MODEL_LIMITS);
    let read = read_head_with(&mut stream(file, 0)?, scan, |_, _| Ok::<(), io::Error>(()))?;
    let parsed = read.into_gguf();
    let mut found = [0; START];
    let has_start = file_bytes > START as u64 && file.read_exact_at(0, &mut found).is_ok();
    let guess = Guess { file, file_bytes, found };
    let problem = match parsed {
        // Too few tensors give a valid head, too; but it does not end where the data begins.
        Ok(gguf) if has_start && !guess.is_right(&gguf) => {
            return Ok(match guess.counts()? {
                Some(head) => (Some(head), Some("the tensors listed in the head do not fill the file".to_owned())),
                None => (Some(MendedHead::new(gguf, Vec::new())), None),
            });
        }
        Ok(gguf) => return Ok((Some(MendedHead::new(gguf, Vec::new())), None)),
        Err(e) if !has_start => return Ok((None, Some(e.to_string()))),
        Err(e) => e.to_string(),
    };
    Ok((guess.start()?.or(guess.counts()?), Some(problem)))
}

/// The file, starting at an offset.
fn stream(mut file: &File, at: u64) -> io::Result<impl Read> {
    file.seek(SeekFrom::Start(at))?;
    Ok(file)
}

/// Guesses the first bytes.
struct Guess<'a> {
    file: &'a File,
    file_bytes: u64,
    found: [u8; START],
}

/// The version word and the byte order of each dialect that has 24 bytes before its first key.
const DIALECTS: [(Version, ByteOrder); 3] =
    [(Version::V3, ByteOrder::Little), (Version::V2, ByteOrder::Little), (Version::V3, ByteOrder::Big)];

fn word(n: u32, order: ByteOrder) -> [u8; 4] {
    if order == ByteOrder::Big { n.to_be_bytes() } else { n.to_le_bytes() }
}

fn long(bytes: &[u8], order: ByteOrder) -> u64 {
    let bytes = bytes.first_chunk::<8>().copied().unwrap_or_default();
    if order == ByteOrder::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
}

impl Guess<'_> {
    /// The first bytes, with the given magic, version and counts.
    fn with(&self, version: Version, order: ByteOrder, counts: [u64; 2]) -> [u8; START] {
        let long = |n: u64| if order == ByteOrder::Big { n.to_be_bytes() } else { n.to_le_bytes() };
        let parts = [&b"GGUF"[..], &word(version.number(), order), &long(counts[0]), &long(counts[1])].concat();
        parts.first_chunk::<START>().copied().unwrap_or(self.found)
    }

    fn stated(&self, order: ByteOrder) -> [u64; 2] {
        [long(&self.found[8..16], order), long(&self.found[16..24], order)]
    }

    /// Reads the head with other first bytes; `Err` has the field at which it fails.
    fn read(&self, start: [u8; START]) -> io::Result<Result<Gguf<'static>, Option<Field>>> {
        let mut bytes = Cursor::new(start).chain(stream(self.file, START as u64)?);
        let scan = HeadScan::new(Some(self.file_bytes)).within(LIMITS);
        let read = read_head_with(&mut bytes, scan, |_, _| Ok::<(), io::Error>(()))?;
        let field = read.error.as_ref().map(|e| e.field);
        Ok(read.into_gguf().map_err(|_| field))
    }

    /// Whether the tensors of a head fill the file exactly.
    fn is_right(&self, gguf: &Gguf<'_>) -> bool {
        let offsets = gguf.tensors().map(|tensor| tensor.offset);
        packed(gguf).is_some_and(|packed| packed.fits(self.file_bytes) && offsets.eq(packed.offsets.iter().copied()))
    }

    fn mend(&self, right: [u8; START]) -> Option<Mend> {
        let part = |bytes: &[u8; START]| bytes.first_chunk::<8>().copied().unwrap_or_default();
        let (found, right) = (part(&self.found), part(&right));
        (found != right).then_some(Mend::Start { found, right })
    }

    /// Tries other magics and versions with the existing counts. If a head is valid with them, they are correct, even in a truncated file:
    /// a head is valid with only one byte order and width of counts.
    fn start(&self) -> io::Result<Option<MendedHead>> {
        for (version, order) in DIALECTS {
            let start = self.with(version, order, self.stated(order));
            let Ok(gguf) = self.read(start)? else { continue };
            if gguf.n_kv() + gguf.n_tensors() > 0 {
                return Ok(Some(MendedHead::new(gguf, self.mend(start).into_iter().collect())));
            }
        }
        Ok(None)
    }

    /// Tries other counts, by counting pairs and infos. They are correct only if the tensors fill the file.
    fn counts(&self) -> io::Result<Option<MendedHead>> {
        // Bounds from the minimum sizes of a pair and an info; larger counts would be rejected before the scan.
        let (most_kvs, most_tensors) = (self.file_bytes / 64, self.file_bytes / 128);
        for (version, order) in DIALECTS {
            let n_kvs = match self.read(self.with(version, order, [0, most_kvs]))? {
                Err(Some(Field::Key(n) | Field::ValueType(n) | Field::Value(n))) => n,
                _ => continue,
            };
            for n_kvs in (n_kvs.saturating_sub(TOO_FAR)..=n_kvs).rev() {
                let n_tensors = match self.read(self.with(version, order, [most_tensors, n_kvs]))? {
                    Err(Some(
                        Field::TensorName(n) | Field::TensorDims(n) | Field::TensorType(n) | Field::TensorOffset(n),
                    )) => n,
                    _ => continue,
                };
                for n_tensors in (n_tensors.saturating_sub(TOO_FAR).max(1)..=n_tensors).rev() {
                    let start = self.with(version, order, [n_tensors, n_kvs]);
                    let Ok(gguf) = self.read(start)? else { continue };
                    if self.is_right(&gguf) {
                        let counts = Mend::Counts { found: self.stated(order), right: [n_tensors, n_kvs] };
                        return Ok(Some(MendedHead::new(gguf, self.mend(start).into_iter().chain([counts]).collect())));
                    }
                }
            }
        }
        Ok(None)
    }
}
