//! The central directory of a zip archive, limited to the features that `torch.save` uses: stored members and sizes of up to 64 bits.
//!
//! The layout follows PKWARE's APPNOTE, sections 4.3 and 4.5.3. Ambiguous archives are refused: a directory that does not end at the start of
//! the end record, members that overlap or share a name, and local headers that disagree with the directory.

use std::collections::HashSet;

use gguf_format::sort::CompactSort as _;
use gguf_io::ReadAt;

use super::error::{TorchError, ZipProblem};
use crate::number::to_index;

/// The maximum size of the central directory. It takes some 100 bytes per tensor.
const MAX_DIRECTORY: u64 = 16 << 20;

const END: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: u64 = 22;
const END_64: [u8; 4] = *b"PK\x06\x06";
const END_64_BYTES: u64 = 56;
const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_BYTES: u64 = 20;
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
const LOCAL: [u8; 4] = *b"PK\x03\x04";
const LOCAL_BYTES: u64 = 30;

/// A file in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Its path, with `/` as separator.
    pub(super) name: String,
    /// The offset of its data in the archive.
    pub(super) offset: u64,
    /// The size of its data in bytes.
    pub(super) bytes: u64,
}

/// The members of an archive, in directory order. Each lies inside the archive, and no two overlap.
pub(super) fn members(source: &dyn ReadAt, file_bytes: u64) -> Result<Vec<Member>, TorchError> {
    let directory = find_directory(source, file_bytes)?;
    if directory.bytes > MAX_DIRECTORY {
        return Err(ZipProblem::DirectoryTooLarge { found: directory.bytes, max: MAX_DIRECTORY }.into());
    }
    let raw = read(source, directory.at, directory.bytes)?;
    let mut rest = raw.as_slice();
    let (mut members, mut headers, mut names) = (Vec::new(), Vec::new(), HashSet::new());
    while !rest.is_empty() {
        let at = directory.at + (raw.len() - rest.len()) as u64;
        let (entry, after) = entry(rest, at)?;
        rest = after;
        let (data, name) = (local_data(source, &entry, directory.at)?, entry.name);
        if !names.insert(name.clone()) {
            return Err(ZipProblem::Duplicate { name }.into());
        }
        headers.push(entry.header);
        members.push(Member { name, offset: data, bytes: entry.bytes });
    }
    if members.len() as u64 != directory.n_entries {
        return Err(ZipProblem::Count { found: members.len() as u64, expected: directory.n_entries }.into());
    }
    refuse_overlap(&members, &headers)?;
    Ok(members)
}

/// Reads a small member into memory.
pub(super) fn read_member(source: &dyn ReadAt, member: &Member, max: u64) -> Result<Vec<u8>, TorchError> {
    if member.bytes > max {
        return Err(ZipProblem::TooLarge { name: member.name.clone(), found: member.bytes, max }.into());
    }
    read(source, member.offset, member.bytes)
}

/// Reads a bounded number of bytes.
fn read(source: &dyn ReadAt, at: u64, n: u64) -> Result<Vec<u8>, TorchError> {
    let mut bytes = Vec::new();
    let len = usize::try_from(n).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(len).map_err(|_| TorchError::Io(std::io::ErrorKind::OutOfMemory.into()))?;
    bytes.resize(len, 0);
    source.read_exact_at(at, &mut bytes).map_err(TorchError::Io)?;
    Ok(bytes)
}

/// The location of the central directory.
#[derive(Debug)]
struct Directory {
    at: u64,
    bytes: u64,
    n_entries: u64,
}

/// A cursor over the little-endian numbers of a record.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> u16 {
        self.0.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
    }

    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
    }
}

fn find_directory(source: &dyn ReadAt, file_bytes: u64) -> Result<Directory, TorchError> {
    // The end record is followed by a comment of at most 65,535 bytes.
    let tail_bytes = file_bytes.min(END_BYTES + u64::from(u16::MAX));
    let tail_at = file_bytes - tail_bytes;
    let tail = read(source, tail_at, tail_bytes)?;
    let is_end = |start: &usize| {
        let record = tail.get(*start..).unwrap_or_default();
        record.starts_with(&END) && record.len() as u64 == END_BYTES + u64::from(Fields(record).u16(20))
    };
    let last = tail.len().checked_sub(to_index(END_BYTES)).ok_or(ZipProblem::NoEnd)?;
    let start = (0..=last).rev().find(is_end).ok_or(ZipProblem::NoEnd)?;
    let end_at = tail_at + start as u64;
    let end = Fields(tail.get(start..).unwrap_or_default());
    let (disk, first_disk) = (end.u16(4), end.u16(6));
    let mut found = Directory { at: end.u32(16).into(), bytes: end.u32(12).into(), n_entries: end.u16(10).into() };
    let mut directory_end = end_at;
    if let Some(locator_at) = end_at.checked_sub(LOCATOR_BYTES) {
        let locator = read(source, locator_at, LOCATOR_BYTES)?;
        if locator.starts_with(&LOCATOR) {
            let at = Fields(&locator).u64(8);
            let what = "the 64-bit end record";
            if at.checked_add(END_64_BYTES).is_none_or(|end| end > locator_at) {
                return Err(ZipProblem::Truncated { at, what }.into());
            }
            let end = read(source, at, END_64_BYTES)?;
            if !end.starts_with(&END_64) {
                return Err(ZipProblem::Signature { at, what }.into());
            }
            let end = Fields(&end);
            if end.u32(16) != 0 || end.u32(20) != 0 || Fields(&locator).u32(16) > 1 {
                return Err(ZipProblem::Spanned.into());
            }
            found = Directory { at: end.u64(48), bytes: end.u64(40), n_entries: end.u64(32) };
            directory_end = at;
        }
    }
    if disk != first_disk || (disk != 0 && disk != u16::MAX) {
        return Err(ZipProblem::Spanned.into());
    }
    if found.at.checked_add(found.bytes) != Some(directory_end) {
        return Err(ZipProblem::Directory { at: found.at, bytes: found.bytes, end: directory_end }.into());
    }
    Ok(found)
}

/// A directory entry.
struct Entry {
    name: String,
    bytes: u64,
    /// The offset of the local header.
    header: u64,
}

/// Parses the first entry of a directory and returns the rest. `at` is its offset.
fn entry(directory: &[u8], at: u64) -> Result<(Entry, &[u8]), TorchError> {
    let what = "an entry of the directory";
    if !directory.starts_with(&ENTRY) {
        return Err(ZipProblem::Signature { at, what }.into());
    }
    let (record, rest) = directory.split_at_checked(ENTRY_BYTES).ok_or(ZipProblem::Truncated { at, what })?;
    let fields = Fields(record);
    let lens = [fields.u16(28), fields.u16(30), fields.u16(32)].map(usize::from);
    let [name_len, extra_len, comment_len] = lens;
    let split = |bytes: &'_ [u8], len: usize| bytes.len() >= len;
    if !split(rest, name_len + extra_len + comment_len) {
        return Err(ZipProblem::Truncated { at, what }.into());
    }
    let (name, rest) = rest.split_at(name_len);
    let (extra, rest) = rest.split_at(extra_len);
    let (_, rest) = rest.split_at(comment_len);
    let name = String::from_utf8(name.to_vec()).map_err(|_| ZipProblem::Name { at })?;
    let (flags, method) = (fields.u16(8), fields.u16(10));
    if flags & 1 != 0 {
        return Err(ZipProblem::Encrypted { name }.into());
    }
    if method != 0 {
        return Err(ZipProblem::Compressed { name, method }.into());
    }
    let mut wide = Fields(extra_field(extra, 1).unwrap_or_default()).0;
    let mut number = |short: u32| match (short, wide.split_first_chunk()) {
        (u32::MAX, Some((long, after))) => {
            wide = after;
            u64::from_le_bytes(*long)
        }
        _ => short.into(),
    };
    let size = number(fields.u32(24));
    let stored = number(fields.u32(20));
    let header = number(fields.u32(42));
    if stored != size {
        return Err(ZipProblem::Sizes { name, stored, size }.into());
    }
    Ok((Entry { name, bytes: size, header }, rest))
}

/// Finds the content of an extra field.
fn extra_field(mut extra: &[u8], wanted: u16) -> Option<&[u8]> {
    while extra.len() >= 4 {
        let (id, len) = (Fields(extra).u16(0), usize::from(Fields(extra).u16(2)));
        let content = extra.get(4..4 + len)?;
        if id == wanted {
            return Some(content);
        }
        extra = extra.get(4 + len..)?;
    }
    None
}

/// The offset of a member's data, which follows a local header with the same name and lies before the directory.
fn local_data(source: &dyn ReadAt, entry: &Entry, directory: u64) -> Result<u64, TorchError> {
    let wrong = || TorchError::from(ZipProblem::LocalHeader { at: entry.header, name: entry.name.clone() });
    let fits = |end: Option<u64>| end.filter(|end| *end <= directory).ok_or_else(wrong);
    let fixed = fits(entry.header.checked_add(LOCAL_BYTES))?;
    let header = read(source, entry.header, LOCAL_BYTES)?;
    let fields = Fields(&header);
    let name_len = u64::from(fields.u16(26));
    if !header.starts_with(&LOCAL) || fields.u16(8) != 0 || name_len != entry.name.len() as u64 {
        return Err(wrong());
    }
    let data = fits(fixed.checked_add(name_len + u64::from(fields.u16(28))))?;
    if read(source, fixed, name_len)? != entry.name.as_bytes() {
        return Err(wrong());
    }
    fits(data.checked_add(entry.bytes))?;
    Ok(data)
}

/// Refuses members that overlap, headers included.
fn refuse_overlap(members: &[Member], headers: &[u64]) -> Result<(), TorchError> {
    let mut order: Vec<(u64, &Member)> = headers.iter().copied().zip(members).collect();
    order.compact_sort_by_key(|(header, _)| *header);
    for pair in order.windows(2) {
        if let [(_, first), (at, second)] = pair
            && first.offset + first.bytes > *at
        {
            let (first, second) = (first.name.clone(), second.name.clone());
            return Err(ZipProblem::Overlap { first, second, at: *at }.into());
        }
    }
    Ok(())
}
