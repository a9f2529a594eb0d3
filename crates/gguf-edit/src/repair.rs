//! Diagnosis and repair of damaged files.
//!
//! [`Diagnosis::of`] examines a file without changing it. Damage that the rest of the file [determines](Diagnosis::mends) can be
//! [repaired](Diagnosis::mend) in place; the intact tensors can be [saved](Diagnosis::save) to a new file; and given an intact copy,
//! [`Comparison`] finds the bytes that differ and copies only those.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_format::{Dims, GgmlType, Gguf, Head, SizeError, Str, TensorInfoRef, Version, align_up};
use gguf_io::in_place::{self, EditLock};
use gguf_io::{FileState, ReadAt, open_regular};
use gguf_pipeline::{Event, Progress};

use crate::EditError;

mod compare;
mod head;
mod place;
mod save;

pub use compare::{BadRange, Comparison, Difference};

use head::MendedHead;
use place::Offsets;

/// The completeness of a tensor's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataState {
    /// Complete.
    Whole,
    /// The file ends inside it.
    Cut {
        /// Missing bytes at its end.
        missing: u64,
    },
    /// The file ends before it.
    Missing,
    /// The size is unknown.
    Unsized(SizeError),
    /// The offset is impossible, or that of another tensor is, and the rest of the file does not determine which.
    Unplaced,
}

/// A tensor of a damaged file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorState<'a> {
    /// The name.
    pub name: Str<'a>,
    /// The type.
    pub ty: GgmlType,
    /// The dimensions, the contiguous one first.
    pub shape: Dims<'a>,
    /// The range of its data in the file, possibly beyond the end.
    pub range: Range<u64>,
    /// The completeness of its data.
    pub state: DataState,
}

impl TensorState<'_> {
    /// The name, safe to print.
    pub fn shown(&self) -> String {
        gguf_format::check::shown(self.name)
    }

    /// Whether the data is complete.
    pub fn is_whole(&self) -> bool {
        self.state == DataState::Whole
    }
}

/// Damage that the rest of the file determines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mend {
    /// The first bytes of the file are wrong.
    Start {
        /// The current magic and version.
        found: [u8; 8],
        /// The correct bytes.
        right: [u8; 8],
    },
    /// The number of tensors or of key-value pairs is wrong.
    Counts {
        /// The current numbers: of tensors, and of pairs.
        found: [u64; 2],
        /// The correct numbers.
        right: [u64; 2],
    },
    /// A tensor's offset is impossible: not aligned, outside of the file, or inside of another tensor. The other tensors leave a single
    /// place for it.
    Offset {
        /// The tensor's name, safe to print.
        tensor: String,
        /// The current offset.
        found: u64,
        /// The correct offset.
        right: u64,
    },
    /// The padding after the last tensor is missing.
    Padding {
        /// Number of missing bytes.
        missing: u64,
    },
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mend::Start { found, right } => {
                write!(f, "the file begins with the bytes {}; expected {}", hex(found), hex(right))
            }
            Mend::Counts { found: [tensors, kvs], right: [right_tensors, right_kvs] } => write!(
                f,
                "the head states {tensors} tensors and {kvs} key-value pairs, but contains {right_tensors} and \
                 {right_kvs}"
            ),
            Mend::Offset { tensor, found, right } => {
                write!(f, "the offset of {tensor} is {found}; expected {right}")
            }
            Mend::Padding { missing } => write!(f, "{missing} bytes of padding are missing after the last tensor"),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// The intact parts and the damage of a file.
#[derive(Debug)]
pub struct Diagnosis {
    path: PathBuf,
    /// The file, and its state before it was examined.
    file: File,
    state: FileState,
    file_bytes: u64,
    problem: Option<String>,
    head: Option<MendedHead>,
    /// The completeness of each tensor of the head.
    states: Vec<DataState>,
    mends: Vec<Mend>,
    /// The expected length of the file.
    whole_bytes: Option<u64>,
}

impl Diagnosis {
    /// Examines a file, without reading tensor data.
    ///
    /// ```
    /// # fn main() -> Result<(), gguf_edit::EditError> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model.gguf");
    /// # let mut head = gguf_format::Head::default();
    /// # head.tensors = ["a", "b"].map(|n| gguf_format::TensorInfo::new(n, [8], gguf_format::GgmlType::F32)).into();
    /// # std::fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [[0u8; 32]; 2]).unwrap()).unwrap();
    /// # std::fs::File::options().write(true).open(&path).unwrap().set_len(std::fs::metadata(&path).unwrap().len() - 8).unwrap();
    /// use gguf_edit::repair::Diagnosis;
    ///
    /// let diagnosis = Diagnosis::of(&path)?;
    /// let whole = diagnosis.tensors().filter(|tensor| tensor.is_whole()).count();
    /// println!("{whole} of {} tensors are whole", diagnosis.tensors().count());
    /// # assert_eq!(whole, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the file cannot be read; [`gguf_io::Error::Changed`] if another program changes it meanwhile. Problems of its content are in the
    /// result.
    pub fn of(path: impl AsRef<Path>) -> Result<Diagnosis, EditError> {
        let path = path.as_ref();
        let io = |action| move |source| EditError::from(gguf_io::Error::Io { path: path.to_owned(), action, source });
        in_place::finish(path)?;
        let file = open_regular(path)?;
        let state = FileState::of(&file).map_err(io("read"))?;
        let file_bytes = file.size().map_err(io("read"))?;
        let (found, problem) = head::find(&file, file_bytes).map_err(io("read"))?;
        let mut diagnosis = Diagnosis {
            path: path.to_owned(),
            file,
            state,
            file_bytes,
            problem,
            head: None,
            states: Vec::new(),
            mends: Vec::new(),
            whole_bytes: None,
        };
        if let Some(found) = found {
            gguf_pipeline::check_memory(path, std::iter::once(&found.gguf))?;
            diagnosis.look_at(found);
        }
        diagnosis.check_unchanged()?;
        Ok(diagnosis)
    }

    /// What was read in the middle of an edit by another program is not damage.
    fn check_unchanged(&self) -> Result<(), EditError> {
        match FileState::of(&self.file).map_err(io_error(&self.path, "read"))? == self.state {
            true => Ok(()),
            false => Err(gguf_io::Error::Changed(self.path.clone()).into()),
        }
    }

    fn look_at(&mut self, mut head: MendedHead) {
        self.mends.append(&mut head.mends);
        let gguf = &head.gguf;
        let is_draft = gguf.dialect().version == Version::Draft;
        let mut offsets: Vec<u64> = gguf.tensors().map(|t| t.offset).collect();
        let mut unplaced = vec![false; offsets.len()];
        match place::of(gguf, self.file_bytes) {
            _ if is_draft => {}
            Offsets::Possible => {}
            Offsets::Determined(places) => {
                for (index, right) in places {
                    let Some((found, tensor)) = offsets.get_mut(index).zip(gguf.tensor_by_index(index as u64)) else {
                        continue;
                    };
                    let tensor = gguf_format::check::shown(tensor.name);
                    self.mends.push(Mend::Offset { tensor, found: std::mem::replace(found, right), right });
                }
            }
            Offsets::Unknown(indices) => {
                indices.iter().filter_map(|&i| unplaced.get_mut(i).map(|u| *u = true)).for_each(drop);
            }
        }
        let file_bytes = self.file_bytes;
        let state = |((tensor, offset), is_unplaced): ((TensorInfoRef<'_>, &u64), bool)| match tensor.n_bytes() {
            Err(e) => DataState::Unsized(e),
            Ok(_) if is_unplaced => DataState::Unplaced,
            Ok(n) => match range_of(gguf, &tensor, *offset).end.checked_sub(file_bytes) {
                None | Some(0) => DataState::Whole,
                Some(missing) if missing < n => DataState::Cut { missing },
                Some(_) => DataState::Missing,
            },
        };
        self.states = gguf.tensors().zip(&offsets).zip(unplaced).map(state).collect();
        let (base, alignment) = (base_of(gguf), gguf.alignment());
        head.offsets = offsets;
        self.head = Some(head);
        let is_placed = |tensor: &TensorState<'_>| tensor.state != DataState::Unplaced;
        let end = self.tensors().filter(is_placed).map(|tensor| tensor.range.end).max();
        self.whole_bytes =
            end.and_then(|end| align_up(end.saturating_sub(base), alignment)).map(|n| base.saturating_add(n));
        let missing = self.whole_bytes.unwrap_or(0).saturating_sub(self.file_bytes);
        if missing > 0 && self.are_all_whole() {
            self.mends.push(Mend::Padding { missing });
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The expected length of the file, if its head is known.
    pub fn whole_bytes(&self) -> Option<u64> {
        self.whole_bytes
    }

    /// The problem that prevents reading the head; its repairable parts are among the [mends](Diagnosis::mends).
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Whether the head is known: valid, or determined by the rest of the file.
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// The tensors, in the order of the head.
    pub fn tensors(&self) -> impl Iterator<Item = TensorState<'_>> + Clone {
        self.head.iter().flat_map(|MendedHead { gguf, offsets, .. }| {
            gguf.tensors().zip(offsets).zip(&self.states).map(|((tensor, offset), state)| TensorState {
                name: tensor.name,
                ty: tensor.ty,
                shape: tensor.dims,
                range: range_of(gguf, &tensor, *offset),
                state: *state,
            })
        })
    }

    fn are_all_whole(&self) -> bool {
        self.states.iter().all(|state| *state == DataState::Whole)
    }

    /// The damage that the rest of the file determines.
    pub fn mends(&self) -> &[Mend] {
        &self.mends
    }

    /// Whether the file is intact, as far as can be determined without another copy.
    pub fn is_whole(&self) -> bool {
        self.problem.is_none() && self.mends.is_empty() && self.has_head() && self.are_all_whole()
    }

    /// Repairs the fields that can be determined, in place, protected by a journal.
    ///
    /// # Errors
    /// [`EditError::NotDetermined`] if the head is unknown; [`gguf_io::Error::Busy`] if another process is editing the file, and
    /// [`gguf_io::Error::Changed`] if it has changed since it was examined; those of the system.
    pub fn mend(&self) -> Result<(), EditError> {
        let Some(head) = &self.head else {
            let problem = self.problem.clone().unwrap_or_default();
            return Err(EditError::NotDetermined { problem }.at(&self.path));
        };
        let io = |action| move |source| EditError::from(gguf_io::Error::Io { path: self.path.clone(), action, source });
        let (mut lock, file) = lock_for_writing(&self.path, &self.file, self.state)?;
        let new = head.encoded(&[])?;
        let mut old = vec![0; new.len()];
        self.file.read_exact_at(0, &mut old).map_err(io("read"))?;
        if old != new {
            lock.replace_start(&old, &new, &|_| ())?;
        }
        if let (true, Some(bytes)) =
            (self.mends.iter().any(|mend| matches!(mend, Mend::Padding { .. })), self.whole_bytes)
        {
            file.set_len(bytes).and_then(|()| file.sync_all()).map_err(io("write"))?;
        }
        check_name(&lock, &file)
    }

    /// Saves the key-values and the intact tensors to a new file.
    ///
    /// # Errors
    /// [`EditError::NothingWhole`], [`EditError::NotDetermined`]; those of a run. No output is left then.
    pub fn save(&self, out: &Path, force: bool, progress: &dyn Progress) -> Result<u64, EditError> {
        let Some(head) = &self.head else {
            let problem = self.problem.clone().unwrap_or_default();
            return Err(EditError::NotDetermined { problem }.at(&self.path));
        };
        if !(self.states.is_empty() || self.states.contains(&DataState::Whole)) {
            return Err(EditError::NothingWhole.at(&self.path));
        }
        save::save(self, head, out, force, progress)
    }

    fn head(&self) -> Option<Head> {
        self.head.as_ref().map(|head| Head::from_gguf(&head.gguf))
    }
}

/// Excludes other edits of a file, and opens it for writing; it must be `file`, in the same state.
fn lock_for_writing(path: &Path, file: &File, state: FileState) -> Result<(EditLock, File), EditError> {
    let lock = EditLock::new(path)?;
    let writable = File::options().read(true).write(true).open(lock.path());
    let writable = writable.map_err(io_error(path, "open for writing"))?;
    lock.check_file(file, state)?;
    Ok((lock, writable))
}

/// Checks that the written file still has its name.
fn check_name(lock: &EditLock, file: &File) -> Result<(), EditError> {
    let state = FileState::of(file).map_err(io_error(lock.path(), "read"))?;
    Ok(lock.check_file(file, state)?)
}

/// The offset in the file from which those of tensors count.
fn base_of(gguf: &Gguf<'_>) -> u64 {
    if gguf.dialect().version == Version::Draft { 0 } else { gguf.data_offset() }
}

/// The range in the file of a tensor at that offset; empty if its size is unknown.
fn range_of(gguf: &Gguf<'_>, tensor: &TensorInfoRef<'_>, offset: u64) -> Range<u64> {
    let start = base_of(gguf).saturating_add(offset);
    start..start.saturating_add(tensor.n_bytes().unwrap_or(0))
}

/// The offsets derived from the sizes, with consecutive tensors.
struct Packed {
    offsets: Vec<u64>,
    /// The end of the last tensor's data, from the start of the file, without and with padding.
    end: u64,
    padded_end: u64,
}

impl Packed {
    /// Whether a file of that length contains exactly these tensors.
    fn fits(&self, file_bytes: u64) -> bool {
        (self.end..=self.padded_end).contains(&file_bytes)
    }
}

fn packed(gguf: &Gguf<'_>) -> Option<Packed> {
    let (mut offsets, mut end, mut padded_end) = (Vec::new(), 0u64, 0u64);
    for tensor in gguf.tensors() {
        offsets.push(padded_end);
        end = padded_end.checked_add(tensor.n_bytes().ok()?)?;
        padded_end = align_up(end, gguf.alignment())?;
    }
    let base = gguf.data_offset();
    Some(Packed { offsets, end: base.checked_add(end)?, padded_end: base.checked_add(padded_end)? })
}

fn io_error(path: &Path, action: &'static str) -> impl Fn(io::Error) -> EditError {
    move |source| gguf_io::Error::Io { path: path.to_owned(), action, source }.into()
}

/// Reports finished bytes, and returns whether to continue.
fn advance(progress: &dyn Progress, bytes: u64) -> Result<(), EditError> {
    progress.event(Event::Advanced { bytes });
    if progress.is_cancelled() { Err(gguf_pipeline::Error::Cancelled.into()) } else { Ok(()) }
}
