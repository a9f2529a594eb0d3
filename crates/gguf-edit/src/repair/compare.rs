//! Compares a damaged file with an intact copy, and copies only the bytes that differ.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gguf_format::Head;
use gguf_io::in_place::{self, replace_start};
use gguf_io::{Model, ModelFile, ReadAt};
use gguf_pipeline::{Event, Progress};

use super::{Diagnosis, advance, io_error};
use crate::EditError;

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

/// The differences between a damaged file and an intact copy.
#[derive(Debug)]
pub struct Comparison {
    path: PathBuf,
    other: PathBuf,
    sources: Vec<ModelFile>,
    bad: Vec<BadRange>,
    compared: u64,
    /// Total size of the existing units that differ.
    differing: u64,
    /// The resulting length of the file.
    file_bytes: u64,
    /// The repaired head, if it is written in place of the current one.
    head: Option<Vec<u8>>,
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
    /// the copy may have other key-values, another order, or shards; otherwise it must be the same file.
    ///
    /// # Errors
    /// [`EditError::OtherDamaged`], and [`EditError::NotACopy`] if the copy lacks tensors or has other types or shapes, or if more than
    /// half of the bytes differ; those of the system.
    pub fn new(diagnosis: &Diagnosis, other: &Path, progress: &dyn Progress) -> Result<Comparison, EditError> {
        let path = diagnosis.path().to_owned();
        if other.canonicalize().ok().is_some_and(|other| path.canonicalize().is_ok_and(|path| path == other)) {
            return Err(EditError::SameFile.at(other));
        }
        let sources = open_whole(other, diagnosis.has_head())?;
        let not_a_copy = |problem: String| EditError::NotACopy { other: other.to_owned(), problem }.at(&path);
        let mut comparison = Comparison {
            path: path.clone(),
            other: other.to_owned(),
            sources,
            bad: Vec::new(),
            compared: 0,
            differing: 0,
            file_bytes: diagnosis.file_bytes(),
            head: None,
        };
        let parts = match &diagnosis.head {
            Some(head) => {
                if !diagnosis.mends().is_empty() {
                    comparison.head = Some(head.encoded()?);
                }
                comparison.file_bytes = diagnosis.whole_bytes().unwrap_or(0).max(comparison.file_bytes);
                comparison.by_tensor(diagnosis).map_err(not_a_copy)?
            }
            None => {
                let len = comparison.sources.first().map_or(0, ModelFile::file_bytes);
                comparison.file_bytes = len;
                vec![Part { at: 0, len, tensor: None, source: (0, 0) }]
            }
        };
        progress.event(Event::Started { n_tensors: parts.len(), bytes: parts.iter().map(|part| part.len).sum() });
        let file = File::open(&path).map_err(io_error(&path, "open"))?;
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
            return Err(not_a_copy(format!("{differing} of {} bytes differ", comparison.compared)));
        }
        Ok(comparison)
    }

    /// The tensors of the file, each with its place in the copy.
    fn by_tensor(&self, diagnosis: &Diagnosis) -> Result<Vec<Part>, String> {
        let mut there = std::collections::HashMap::new();
        for (number, file) in self.sources.iter().enumerate() {
            for tensor in file.gguf().tensors() {
                let range = file.gguf().tensor_range(&tensor).map_err(|e| e.to_string())?;
                there.insert(tensor.name.as_bytes().to_owned(), (number, range.start, tensor));
            }
        }
        let mut parts = Vec::new();
        for tensor in diagnosis.tensors() {
            let Some((number, start, found)) = there.get(&tensor.name) else {
                return Err(format!("it has no tensor {}", tensor.shown()));
            };
            if found.ty != tensor.ty || !found.dims.eq(tensor.shape.iter().copied()) {
                return Err(format!("{} has another type or shape there", tensor.shown()));
            }
            let len = tensor.range.end.saturating_sub(tensor.range.start);
            let (at, name) = (tensor.range.start, Some(tensor.name.clone()));
            parts.push(Part { at, len, tensor: name, source: (*number, *start) });
        }
        parts.sort_by_key(|part| part.at);
        Ok(parts)
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

    /// Whether there is nothing to repair.
    pub fn is_same(&self, diagnosis: &Diagnosis) -> bool {
        self.bad.is_empty() && self.head.is_none() && self.file_bytes == diagnosis.file_bytes()
    }

    /// Copies the ranges from the copy, in place. After an interruption the file is less damaged, and the repair can be repeated.
    ///
    /// # Errors
    /// Those of the system.
    pub fn repair(&self, progress: &dyn Progress) -> Result<(), EditError> {
        let fail = |action| io_error(&self.path, action);
        progress.event(Event::Started { n_tensors: self.bad.len(), bytes: self.bad_bytes() });
        if let Some(new) = &self.head {
            let mut old = vec![0; new.len()];
            let file = File::open(&self.path).map_err(fail("open"))?;
            file.read_exact_at(0, &mut old).map_err(fail("read"))?;
            drop(file);
            if old != *new {
                replace_start(&self.path, &old, new, &|_| ())?;
            }
        }
        in_place::finish(&self.path)?;
        let file = File::options().read(true).write(true).open(&self.path).map_err(fail("open for writing"))?;
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
        if len != self.file_bytes && (len < self.file_bytes || self.is_same_file()) {
            file.set_len(self.file_bytes).map_err(fail("write"))?;
        }
        file.sync_all().map_err(fail("sync"))?;
        progress.event(Event::Finished);
        Ok(())
    }

    /// Whether the whole file is compared, including the head, so that it gets the length of the copy.
    fn is_same_file(&self) -> bool {
        self.bad.first().is_some_and(|bad| bad.tensor.is_none())
    }

    /// The copy.
    pub fn other(&self) -> &Path {
        &self.other
    }
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
        let cut = diagnosis.tensors().iter().find(|tensor| !tensor.is_whole());
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
