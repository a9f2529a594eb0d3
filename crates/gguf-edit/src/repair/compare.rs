//! Compares a damaged file with an intact copy, and copies only the bytes that differ.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gguf_format::shard::ShardKeys;
use gguf_format::sort::CompactSort as _;
use gguf_format::{Gguf, Head, Str, TensorInfoRef};
use gguf_io::{FileState, Model, ModelFile, ReadAt};
use gguf_pipeline::{Event, Progress};

use super::{DataState, Diagnosis, MendedHead, TensorState, advance, check_name, io_error, lock_for_writing};
use crate::EditError;
use crate::diff::{KeyDiff, diff_keys};

/// Bytes to compare at a time.
const PIECE: usize = 1 << 20;

/// The granularity of comparing and copying.
const UNIT: usize = 4096;

/// The maximum gap between differences in one range.
const GAP: u64 = 64 << 10;

/// Bytes that differ from the copy, or are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadRange {
    /// The offset in the damaged file.
    pub at: u64,
    /// The length.
    pub len: u64,
    /// The tensor that contains them; `None` for the head and the space between tensors.
    pub tensor: Option<Vec<u8>>,
    /// The file of the copy with the correct bytes, and the offset there.
    source: (usize, u64),
}

/// A difference from the copy that a repair does not change.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// A key has another value, or only one of the files has it.
    Key {
        /// The key.
        key: Vec<u8>,
        /// Whether the file and the copy have it.
        has: [bool; 2],
    },
    /// The heads differ in version, byte order, or the order of keys or tensors.
    Head,
    /// Only the copy has the tensor.
    NoTensor {
        /// The name.
        name: Vec<u8>,
    },
    /// The file has bytes after its last tensor.
    Trailing {
        /// The number of bytes after the last tensor.
        bytes: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &[u8]| gguf_format::check::shown(Str(name));
        match self {
            Difference::Key { key, has: [true, true] } => write!(f, "{}: the value differs", name(key)),
            Difference::Key { key, has: [_, false] } => write!(f, "{}: not in the copy", name(key)),
            Difference::Key { key, .. } => write!(f, "{}: only in the copy", name(key)),
            Difference::Head => f.write_str("another version, byte order, or order of keys or tensors"),
            Difference::NoTensor { name: tensor } => write!(f, "{}: a tensor that only the copy has", name(tensor)),
            Difference::Trailing { bytes } => write!(f, "{bytes} bytes after the last tensor"),
        }
    }
}

/// The differences between a damaged file and an intact copy.
#[derive(Debug)]
pub struct Comparison {
    path: PathBuf,
    /// The file, and its state before it was examined.
    file: File,
    state: FileState,
    other: PathBuf,
    sources: Vec<ModelFile>,
    bad: Vec<BadRange>,
    compared: u64,
    /// Total size of the existing units that differ.
    differing: u64,
    /// The current and the resulting length of the file.
    file_bytes: [u64; 2],
    /// The repaired head, if it is written in place of the current one.
    head: Option<Vec<u8>>,
    /// The damaged and the restored names of tensors.
    names: Vec<[Vec<u8>; 2]>,
    differences: Vec<Difference>,
}

/// A range to compare.
struct Part {
    at: u64,
    len: u64,
    tensor: Option<Vec<u8>>,
    source: (usize, u64),
}

impl Comparison {
    /// Compares a damaged file with an intact copy. If the head of the file is valid or can be repaired, tensors are matched by name, so
    /// the copy may have other key-values, another order, or shards; otherwise it must be the same file. A name that differs from an
    /// unmatched one of the copy in a single bit is restored. Key-values are compared, but not changed.
    ///
    /// # Errors
    /// [`EditError::OtherDamaged`], and [`EditError::NotACopy`] if the copy lacks tensors or has other types or shapes, or if more than
    /// half of the bytes differ; [`gguf_io::Error::Changed`] if the file has changed since it was examined; those of the system.
    pub fn new(diagnosis: &Diagnosis, other: &Path, progress: &dyn Progress) -> Result<Comparison, EditError> {
        // A tensor without a place can only be restored with the head.
        let has_places = diagnosis.tensors().all(|tensor| tensor.state != DataState::Unplaced);
        let head = diagnosis.head.as_ref().filter(|_| has_places);
        Comparison::of_unchanged(diagnosis, head, other, progress)
    }

    /// As [`new`](Comparison::new), with the copy in one file: the repair makes the damaged file the same, byte for byte.
    ///
    /// # Errors
    /// As for [`new`](Comparison::new).
    pub fn exact(diagnosis: &Diagnosis, other: &Path, progress: &dyn Progress) -> Result<Comparison, EditError> {
        Comparison::of_unchanged(diagnosis, None, other, progress)
    }

    /// Compares, and checks that neither the result nor a refusal is about a file that another program was changing.
    fn of_unchanged(
        diagnosis: &Diagnosis,
        head: Option<&MendedHead>,
        other: &Path,
        progress: &dyn Progress,
    ) -> Result<Comparison, EditError> {
        let compared = Comparison::between(diagnosis, head, other, progress);
        diagnosis.check_unchanged()?;
        compared
    }

    /// Compares a file that keeps a head, or is the same as the copy.
    fn between(
        diagnosis: &Diagnosis,
        head: Option<&MendedHead>,
        other: &Path,
        progress: &dyn Progress,
    ) -> Result<Comparison, EditError> {
        let path = diagnosis.path().to_owned();
        if other.canonicalize().ok().is_some_and(|other| path.canonicalize().is_ok_and(|path| path == other)) {
            return Err(EditError::SameFile.at(other));
        }
        let mut sources = open_whole(other, head.is_some())?;
        // A shard is compared with the same shard of the copy.
        let shard = head.map(|head| ShardKeys::of(&head.gguf)).filter(|shard| shard.count > Some(1));
        let is_same_shard = |file: &ModelFile| Some(ShardKeys::of(file.gguf())) == shard;
        if sources.iter().any(is_same_shard) {
            sources.retain(is_same_shard);
        }
        let is_alike = matches!(sources.as_slice(), [one] if one.file_bytes() == diagnosis.file_bytes());
        let not_a_copy =
            |problem: String, is_alike| EditError::NotACopy { other: other.to_owned(), problem, is_alike }.at(&path);
        let file = || diagnosis.file.try_clone().map_err(io_error(&path, "open"));
        let mut comparison = Comparison {
            path: path.clone(),
            file: file()?,
            state: diagnosis.state,
            other: other.to_owned(),
            sources,
            bad: Vec::new(),
            compared: 0,
            differing: 0,
            file_bytes: [diagnosis.file_bytes(); 2],
            head: None,
            names: Vec::new(),
            differences: Vec::new(),
        };
        let parts = match head {
            Some(head) => comparison.keeping(diagnosis, head, |problem| not_a_copy(problem, is_alike))?,
            None => comparison.whole_copy(0),
        };
        progress.event(Event::Started { n_tensors: parts.len(), bytes: parts.iter().map(|part| part.len).sum() });
        let file = file()?;
        let there = file.size().map_err(io_error(&path, "read"))?;
        for (index, part) in parts.iter().enumerate() {
            if let Some(name) = &part.tensor {
                progress.event(Event::Tensor { index, name: &String::from_utf8_lossy(name) });
            }
            comparison.compare(&file, there, part, progress)?;
        }
        // Missing bytes are not a sign of another model.
        let differing = comparison.differing;
        if differing > comparison.compared / 2 {
            return Err(not_a_copy(format!("{differing} of {} bytes differ", comparison.compared), false));
        }
        Ok(comparison)
    }

    /// The parts of a file that keeps its head.
    fn keeping(
        &mut self,
        diagnosis: &Diagnosis,
        head: &MendedHead,
        not_a_copy: impl Fn(String) -> EditError,
    ) -> Result<Vec<Part>, EditError> {
        let matches = self.by_tensor(diagnosis, head).map_err(not_a_copy)?;
        let renamed: Vec<(usize, Vec<u8>)> = matches.renamed;
        self.names = renamed
            .iter()
            .filter_map(|(index, right)| {
                let damaged = head.gguf.tensor_by_index(*index as u64)?;
                Some([damaged.name.as_bytes().to_owned(), right.clone()])
            })
            .collect();
        let encoded = head.encoded(&renamed)?;
        let is_same_head = |file: &ModelFile| {
            file.gguf().bytes().get(..encoded.len()) == Some(encoded.as_slice()) && self.sources.len() == 1
        };
        let is_same = self.sources.first().is_some_and(is_same_head);
        if !diagnosis.mends().is_empty() || !renamed.is_empty() {
            self.head = Some(encoded);
        }
        if is_same {
            return Ok(self.whole_copy(head.gguf.head_bytes()));
        }
        let is_shard = |gguf: &Gguf<'_>| ShardKeys::of(gguf).count > Some(1);
        let are_shards = self.sources.iter().any(|file| is_shard(file.gguf()));
        if let Some(copy) = self.sources.first() {
            let (keys, _) = diff_keys(&head.gguf, copy.gguf());
            self.differences.extend(keys.into_iter().filter_map(|KeyDiff { a, b }| {
                let own = a.and_then(|index| head.gguf.kv_by_index(index));
                let kv = own.or_else(|| copy.gguf().kv_by_index(b?))?;
                Some(Difference::Key { key: kv.key.as_bytes().to_vec(), has: [a.is_some(), b.is_some()] })
            }));
        }
        self.differences.extend(matches.missing.into_iter().map(|name| Difference::NoTensor { name }));
        if is_shard(&head.gguf) != are_shards {
            // Each shard has only some of the keys and tensors.
            self.differences.retain(|what| matches!(what, Difference::Key { has: [true, true], .. }));
        } else if self.differences.is_empty() {
            self.differences.push(Difference::Head);
        }
        let whole = diagnosis.whole_bytes().unwrap_or(0);
        let trailing = diagnosis.file_bytes().saturating_sub(whole);
        if trailing > 0 {
            self.differences.push(Difference::Trailing { bytes: trailing });
        }
        self.file_bytes[1] = whole.max(diagnosis.file_bytes());
        Ok(matches.parts)
    }

    /// The parts of the copy after its first bytes, for a file that is the same.
    fn whole_copy(&mut self, from: u64) -> Vec<Part> {
        let Some(copy) = self.sources.first() else { return Vec::new() };
        self.file_bytes[1] = copy.file_bytes();
        let part = |at: u64, end: u64, tensor| Part { at, len: end.saturating_sub(at), tensor, source: (0, at) };
        let ranges = copy
            .gguf()
            .tensors()
            .filter_map(|tensor| Some((copy.gguf().tensor_range(&tensor).ok()?, tensor.name.as_bytes().to_owned())));
        let mut ranges: Vec<_> = ranges.collect();
        ranges.compact_sort_by_key(|(range, _)| (range.start, range.end));
        let (mut parts, mut at) = (Vec::new(), from);
        for (range, name) in ranges {
            // The head, and padding.
            parts.push(part(at, range.start, None));
            parts.push(part(range.start.max(at), range.end, Some(name)));
            at = at.max(range.end);
        }
        parts.push(part(at, copy.file_bytes(), None));
        parts.retain(|part| part.len > 0);
        parts
    }

    /// The tensors of the file, each with its place in the copy.
    fn by_tensor(&self, diagnosis: &Diagnosis, head: &MendedHead) -> Result<Matches, String> {
        let mut there = Vec::new();
        for (number, file) in self.sources.iter().enumerate() {
            for tensor in file.gguf().tensors() {
                let range = file.gguf().tensor_range(&tensor).map_err(|e| e.to_string())?;
                there.push((number, range.start, tensor));
            }
        }
        let mut by_name: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (i, (_, _, tensor)) in there.iter().enumerate() {
            by_name.entry(tensor.name.as_bytes()).or_default().push(i);
        }
        let mut here: HashMap<&[u8], usize> = HashMap::new();
        for tensor in diagnosis.tensors() {
            *here.entry(tensor.name.as_bytes()).or_default() += 1;
        }
        let is_like = |tensor: &TensorState<'_>, found: &TensorInfoRef<'_>| {
            found.ty == tensor.ty && Iterator::eq(found.dims, tensor.shape)
        };
        let mut taken = vec![false; there.len()];
        let mut found: Vec<Option<usize>> = Vec::new();
        for (tensor, offset) in diagnosis.tensors().zip(&head.offsets) {
            let named = by_name.get(tensor.name.as_bytes()).map(Vec::as_slice).unwrap_or_default();
            let like = |i: &&usize| there.get(**i).is_some_and(|(_, _, found)| is_like(&tensor, found));
            // A damaged name may be that of another tensor, which is in the same place in the copy.
            let is_duplicate = here.get(tensor.name.as_bytes()).is_some_and(|n| *n > named.len());
            let in_place =
                |i: &&usize| !is_duplicate || there.get(**i).is_some_and(|(_, _, found)| found.offset == *offset);
            let chosen = named.iter().filter(like).filter(in_place).find(|i| taken.get(**i) == Some(&false)).copied();
            if chosen.is_none() && !named.is_empty() && !is_duplicate {
                return Err(format!("{} has a different type or shape in the copy", tensor.shown()));
            }
            chosen.and_then(|i| taken.get_mut(i)).into_iter().for_each(|taken| *taken = true);
            found.push(chosen);
        }
        let mut matches = Matches { parts: Vec::new(), renamed: Vec::new(), missing: Vec::new() };
        for (index, tensor) in diagnosis.tensors().enumerate() {
            let at = match found.get(index).copied().flatten() {
                Some(at) => at,
                None => {
                    let mut near = there.iter().enumerate().filter(|(i, (_, _, found))| {
                        taken.get(*i) == Some(&false)
                            && is_like(&tensor, found)
                            && bits_apart(tensor.name.as_bytes(), found.name.as_bytes()) == Some(1)
                    });
                    let (Some((at, (_, _, right))), None) = (near.next(), near.next()) else {
                        return Err(format!("it has no tensor {}", tensor.shown()));
                    };
                    matches.renamed.push((index, right.name.as_bytes().to_owned()));
                    taken.get_mut(at).into_iter().for_each(|taken| *taken = true);
                    at
                }
            };
            let Some((number, start, right)) = there.get(at) else { continue };
            let len = tensor.range.end.saturating_sub(tensor.range.start);
            let name = Some(right.name.as_bytes().to_owned());
            matches.parts.push(Part { at: tensor.range.start, len, tensor: name, source: (*number, *start) });
        }
        matches.parts.compact_sort_by_key(|part| part.at);
        let missing = there.iter().zip(&taken).filter(|(_, taken)| !**taken);
        matches.missing = missing.map(|((_, _, tensor), _)| tensor.name.as_bytes().to_owned()).collect();
        Ok(matches)
    }

    fn compare(&mut self, file: &File, there: u64, part: &Part, progress: &dyn Progress) -> Result<(), EditError> {
        let (number, start) = part.source;
        let Some(source) = self.sources.get(number) else { return Ok(()) };
        let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
        let mut done = 0;
        let mut bad: Vec<BadRange> = Vec::new();
        while done < part.len {
            let n = usize::try_from(part.len - done).unwrap_or(PIECE).min(PIECE);
            let at = part.at + done;
            let readable = usize::try_from(there.saturating_sub(at)).unwrap_or(PIECE).min(n);
            let (ours, theirs) = (ours.get_mut(..n).unwrap_or_default(), theirs.get_mut(..n).unwrap_or_default());
            // Tensors without any data need no comparison.
            if readable > 0 {
                file.read_exact_at(at, ours.get_mut(..readable).unwrap_or_default())
                    .map_err(io_error(&self.path, "read"))?;
                source.read_at(start + done, theirs)?;
            }
            self.compared += readable as u64;
            let units = ours.chunks(UNIT).zip(theirs.chunks(UNIT)).enumerate();
            for (i, (a, b)) in units {
                let from = i * UNIT;
                let there = a.len().min(readable.saturating_sub(from));
                if a.get(..there) != b.get(..there) {
                    self.differing += there as u64;
                }
                if from + a.len() <= readable && a == b {
                    continue;
                }
                let (at, len) = (at + from as u64, a.len() as u64);
                match bad.last_mut() {
                    Some(last) if at - (last.at + last.len) <= GAP => last.len = at + len - last.at,
                    _ => bad.push(BadRange {
                        at,
                        len,
                        tensor: part.tensor.clone(),
                        source: (number, start + done + from as u64),
                    }),
                }
            }
            done += n as u64;
            advance(progress, n as u64)?;
        }
        self.bad.append(&mut bad);
        Ok(())
    }

    /// The ranges that differ or are missing, in the order of the file.
    pub fn bad(&self) -> &[BadRange] {
        &self.bad
    }

    /// Total size of these ranges.
    pub fn bad_bytes(&self) -> u64 {
        self.bad.iter().map(|bad| bad.len).sum()
    }

    /// Bytes that were compared.
    pub fn compared_bytes(&self) -> u64 {
        self.compared
    }

    /// Whether there is nothing to repair. There may be [differences](Comparison::differences) that a repair does not change.
    pub fn is_same(&self) -> bool {
        let [before, after] = self.file_bytes;
        self.bad.is_empty() && self.head.is_none() && before == after
    }

    /// The differences that the repair does not change; none if it makes the file the same as the copy.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// The damaged names of tensors, each with the right one.
    pub fn names(&self) -> &[[Vec<u8>; 2]] {
        &self.names
    }

    /// Bytes after the end of the copy, which the repair removes.
    pub fn cut_bytes(&self) -> u64 {
        let [before, after] = self.file_bytes;
        before.saturating_sub(after)
    }

    /// Copies the ranges from the copy, in place. After an interruption the file is less damaged, and the repair can be repeated.
    ///
    /// # Errors
    /// [`gguf_io::Error::Busy`] if another process is editing the file, and [`gguf_io::Error::Changed`] if it has changed since it was
    /// examined; those of the system.
    pub fn repair(&self, progress: &dyn Progress) -> Result<(), EditError> {
        let fail = |action| io_error(&self.path, action);
        let (mut lock, file) = lock_for_writing(&self.path, &self.file, self.state)?;
        progress.event(Event::Started { n_tensors: self.bad.len(), bytes: self.bad_bytes() });
        if let Some(new) = &self.head {
            let mut old = vec![0; new.len()];
            file.read_exact_at(0, &mut old).map_err(fail("read"))?;
            if old != *new {
                lock.replace_start(&old, new, &|_| ())?;
            }
        }
        let mut buffer = vec![0; PIECE];
        for bad in &self.bad {
            let (number, start) = bad.source;
            let Some(source) = self.sources.get(number) else { continue };
            let mut done = 0;
            while done < bad.len {
                let n = usize::try_from(bad.len - done).unwrap_or(PIECE).min(PIECE);
                let piece = buffer.get_mut(..n).unwrap_or_default();
                source.read_at(start + done, piece)?;
                write_at(&file, bad.at + done, piece).map_err(fail("write"))?;
                done += n as u64;
                advance(progress, n as u64)?;
            }
        }
        let len = file.size().map_err(fail("read"))?;
        let [_, right] = self.file_bytes;
        if len != right {
            file.set_len(right).map_err(fail("write"))?;
        }
        file.sync_all().map_err(fail("sync"))?;
        check_name(&lock, &file)?;
        progress.event(Event::Finished);
        Ok(())
    }

    /// The copy.
    pub fn other(&self) -> &Path {
        &self.other
    }
}

/// The tensors of a file, and those of the copy.
struct Matches {
    parts: Vec<Part>,
    /// The indices of tensors with damaged names, and the right ones.
    renamed: Vec<(usize, Vec<u8>)>,
    /// Tensors that only the copy has.
    missing: Vec<Vec<u8>>,
}

/// The number of different bits of two names of the same length.
fn bits_apart(a: &[u8], b: &[u8]) -> Option<u32> {
    (a.len() == b.len()).then(|| a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum())
}

#[cfg(unix)]
fn write_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Opens the copy: all its shards, if tensors are matched by name. It must be intact.
fn open_whole(other: &Path, with_shards: bool) -> Result<Vec<ModelFile>, EditError> {
    let damaged = |problem: String| EditError::OtherDamaged { other: other.to_owned(), problem };
    let first = match ModelFile::open(other) {
        Ok(file) => file,
        Err(gguf_io::Error::Head { source, .. }) => return Err(damaged(source.to_string())),
        Err(e) => return Err(e.into()),
    };
    let paths: Vec<PathBuf> = match with_shards.then(|| Model::open(other)) {
        Some(Ok(model)) => model.files().iter().map(|file| file.path().to_owned()).collect(),
        // Missing shards only matter if a tensor is missing.
        Some(Err(gguf_io::Error::Shards { .. })) | None => vec![first.path().to_owned()],
        Some(Err(e)) => return Err(e.into()),
    };
    let mut files = Vec::new();
    for path in paths {
        let diagnosis = Diagnosis::of(&path)?;
        let cut = diagnosis.tensors().find(|tensor| !tensor.is_whole());
        if let Some(tensor) = cut {
            return Err(damaged(format!("the data of {} is incomplete", tensor.shown())));
        }
        files.push(ModelFile::open(&path)?);
    }
    Ok(files)
}

impl Diagnosis {
    /// The key-values and tensors, if the head is known.
    pub fn known_head(&self) -> Option<Head> {
        self.head()
    }
}
