//! Replaces the start of a file in place, atomically: the file is always the old one or the new one.
//!
//! An edit is first recorded in a journal beside the file (`model.gguf.edit` for `model.gguf`): the bytes that change, and the number and
//! position of inserted bytes. While the journal is incomplete, the file is the old one. Once it is complete and on the disk, the edit is
//! committed: if it is interrupted, the next open of the file with this crate completes it, because the journal contains all remaining
//! steps, and repeating them is harmless. [`ModelFile::open`](crate::ModelFile::open) does this.
//!
//! A journal is valid only if its checksum is correct and the rest of the file's start is unchanged: a file that has been changed or
//! replaced since is never touched.
//!
//! The file system inserts bytes (`FALLOC_FL_INSERT_RANGE` of Linux: ext4 and XFS) without moving data. Killing the process cannot
//! interrupt this; after a loss of power within that one call, the state depends on the file system and its journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::lock::open_locked;
use crate::output::{folder, write_all_at};
use crate::{Error, ReadAt};

mod record;
pub mod space;

use record::{Found, Record};

/// Bytes to write at once.
const PIECE: usize = 256 << 10;

/// A step of an edit in place, in order. The process may end at any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditStep {
    /// The journal exists, and is empty.
    Opened,
    /// A piece of the journal was written.
    Noted,
    /// The journal is complete and durable. From here on, the edit is committed.
    Durable,
    /// The file system has inserted bytes, which read as zero.
    Inserted,
    /// A piece of the new start was written.
    Wrote,
    /// The new start is durable.
    Synced,
    /// The journal is removed.
    Finished,
}

/// The journal of a file: `model.gguf.edit` for `model.gguf`.
pub fn journal_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".edit");
    name.into()
}

/// The file that a path refers to: a journal is beside the file itself, not beside a link to it.
fn real(path: &Path) -> Result<PathBuf, Error> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => path.canonicalize().map_err(Error::io(path, "open")),
        _ => Ok(path.to_owned()),
    }
}

/// Replaces the first `old.len()` bytes of a file by `new`, in place. `new` has the same length, or is longer by a number of bytes that the
/// file system can insert: a multiple of [`space::block_bytes`], if [`space::can_insert`]. Only the difference is written, so the time
/// depends on `old` and `new` and not on the length of the file.
///
/// ```
/// # fn main() -> Result<(), gguf_io::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("file");
/// # std::fs::write(&path, "old start, and more").unwrap();
/// gguf_io::in_place::replace_start(&path, b"old start", b"new start", &|_| ())?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"new start, and more");
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`Error::Changed`] if the file does not start with `old`; [`Error::Busy`] if another process is editing it; [`Error::Io`], for example
/// if the disk is full, the file is read-only, or the file system cannot insert bytes ([`io::ErrorKind::Unsupported`]). The file is then
/// unchanged. If it cannot be restored either, the journal is kept and the error is [`Error::Unfinished`].
pub fn replace_start(path: &Path, old: &[u8], new: &[u8], on: &dyn Fn(EditStep)) -> Result<(), Error> {
    let path = real(path)?;
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(Error::io(&path, "open for writing"))?;
    let name = journal_path(&path);
    if fs::symlink_metadata(&name).is_ok_and(|there| there.is_file()) && !Record::is_journal(&name) {
        let taken = io::Error::new(io::ErrorKind::AlreadyExists, "the file is something else; move it away");
        return Err(Error::io(&name, "be used as the journal of the edit")(taken));
    }
    let mut journal = Journal { file: open_locked(&name)?, path: name };
    let begun = (|| {
        // Another edit may have begun since the file was opened.
        finish_locked(&path, &mut journal, on)?;
        let record = Record::new(&path, &file, old, new)?;
        on(EditStep::Opened);
        journal.write(&record, on).map_err(Error::io(&journal.path, "write"))?;
        Ok(record)
    })();
    let record = match begun {
        Ok(record) => record,
        // Keeps the journal of another file.
        Err(e @ (Error::Unfinished { .. } | Error::OtherJournal { .. })) => return Err(e),
        Err(e) => {
            journal.remove();
            return Err(e);
        }
    };
    on(EditStep::Durable);
    let mut is_inserted = record.hole.is_none();
    match record.apply(&file, &mut is_inserted, on) {
        Ok(()) => {
            journal.remove();
            on(EditStep::Finished);
            Ok(())
        }
        Err(e) => {
            let is_undone = record.undo(&file, is_inserted, old);
            match is_undone {
                Ok(()) => journal.remove(),
                Err(_) => return Err(Error::Unfinished { path, journal: journal.path, source: e }),
            }
            Err(Error::io(&path, "edit in place")(e))
        }
    }
}

/// Completes an interrupted edit of the file, if any; returns whether there was one. Opening a model calls this.
///
/// # Errors
/// [`Error::Unfinished`] if it cannot be completed, for example because the file is read-only; [`Error::OtherJournal`] if the journal
/// belongs to another file, or the file has changed since; [`Error::Busy`] if another process is editing it.
pub fn finish(path: &Path) -> Result<bool, Error> {
    finish_with(path, &|_| ())
}

/// Like [`finish`], and reports each step.
///
/// # Errors
/// See [`finish`].
pub fn finish_with(path: &Path, on: &dyn Fn(EditStep)) -> Result<bool, Error> {
    let path = real(path)?;
    let name = journal_path(&path);
    // Any other file with this name belongs to the user and does not prevent reading.
    if !Record::is_journal(&name) {
        return Ok(false);
    }
    match open_locked(&name) {
        Ok(file) => {
            let mut journal = Journal { file, path: name };
            let is_finished = finish_locked(&path, &mut journal, on)?;
            journal.remove();
            if is_finished {
                on(EditStep::Finished);
            }
            Ok(is_finished)
        }
        Err(Error::Io { source, .. }) => {
            // A read-only file may already be in its final state.
            let is_whole = File::open(&name).and_then(|mut journal| {
                let Some(record) = Record::read(&mut journal)? else { return Ok(true) };
                Ok(record.look(&File::open(&path)?)? == Found::Done)
            });
            match is_whole {
                Ok(true) => Ok(false),
                _ => Err(Error::Unfinished { path, journal: name, source }),
            }
        }
        Err(e) => Err(e),
    }
}

/// Performs the remaining steps of the journal; returns whether there were any. The journal is kept.
fn finish_locked(path: &Path, journal: &mut Journal, on: &dyn Fn(EditStep)) -> Result<bool, Error> {
    let unfinished = |source| Error::Unfinished { path: path.to_owned(), journal: journal.path.clone(), source };
    let Some(record) = Record::read(&mut journal.file).map_err(unfinished)? else { return Ok(false) };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(unfinished)?;
    let mut is_inserted = match record.look(&file).map_err(unfinished)? {
        Found::Other => return Err(Error::OtherJournal { path: path.to_owned(), journal: journal.path.clone() }),
        Found::Done => return file.sync_all().map(|()| false).map_err(unfinished),
        Found::Begun { is_inserted } => is_inserted,
    };
    match record.apply(&file, &mut is_inserted, on) {
        Ok(()) => Ok(true),
        // The file has not been touched, so it is the old one.
        Err(e) if !is_inserted && e.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(e) => Err(unfinished(e)),
    }
}

/// An open journal, locked.
struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Writes the record, and makes it and its name durable.
    fn write(&mut self, record: &Record<'_>, on: &dyn Fn(EditStep)) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        let (head, payload, end) = record.encode();
        self.file.write_all(&head)?;
        on(EditStep::Noted);
        for piece in payload.chunks(PIECE) {
            self.file.write_all(piece)?;
            on(EditStep::Noted);
        }
        self.file.write_all(&end)?;
        self.file.sync_all()?;
        sync_folder(&self.path);
        Ok(())
    }

    fn remove(self) {
        let Journal { file, path } = self;
        // On Unix the name is removed while the file is locked, which prevents races. Elsewhere a locked file cannot be removed.
        if !cfg!(unix) {
            drop(file);
        }
        let _ = fs::remove_file(&path);
        sync_folder(&path);
    }
}

/// Makes the names in the directory of a file durable. Some file systems do not support this.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder(path)) {
        let _ = folder.sync_all();
    }
}

impl Record<'_> {
    /// Performs the edit, starting at the step of the interruption.
    fn apply(&self, file: &File, is_inserted: &mut bool, on: &dyn Fn(EditStep)) -> io::Result<()> {
        if let Some(hole) = self.hole.as_ref().filter(|_| !*is_inserted) {
            space::insert(file, hole.at, hole.len)?;
            *is_inserted = true;
            on(EditStep::Inserted);
        }
        write_pieces(file, self.at, &self.bytes, on)?;
        file.sync_all()?;
        on(EditStep::Synced);
        Ok(())
    }

    /// Restores the file that began with `old`.
    fn undo(&self, file: &File, is_inserted: bool, old: &[u8]) -> io::Result<()> {
        let (mut from, mut to) = (self.at, self.end());
        if let Some(hole) = &self.hole {
            if !is_inserted {
                return Ok(());
            }
            space::collapse(file, hole.at, hole.len)?;
            (from, to) = (hole.at, to.saturating_sub(hole.len));
        }
        let part = usize::try_from(from).ok().zip(usize::try_from(to).ok()).and_then(|(from, to)| old.get(from..to));
        write_pieces(file, from, part.unwrap_or_default(), &|_| ())?;
        file.sync_all()
    }
}

fn write_pieces(file: &File, mut at: u64, bytes: &[u8], on: &dyn Fn(EditStep)) -> io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        write_all_at(file, piece, at)?;
        at += piece.len() as u64;
        on(EditStep::Wrote);
    }
    Ok(())
}

/// All bytes of a file; reserves no more memory than its length.
fn read_whole(file: &mut File) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.size()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.seek(SeekFrom::Start(0))?;
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes the journal of a file that was replaced.
pub(crate) fn forget(path: &Path) {
    let name = journal_path(path);
    if Record::is_journal(&name) {
        let _ = fs::remove_file(&name);
    }
}
