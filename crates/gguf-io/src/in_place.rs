//! Replacing the start of a file in place, so that it is always the old one or the new one.
//!
//! An edit is noted in a journal beside the file (`model.gguf.edit` for `model.gguf`) before the file is touched: the bytes that
//! change, and how many bytes are inserted where. As long as the journal is incomplete, the file is the old one. Once it is complete
//! and on the disk, the edit is certain: if it is interrupted, whoever opens the file next with this crate finishes it, because
//! everything that is left to do is in the journal and can be done twice. [`ModelFile::open`](crate::ModelFile::open) does so.
//!
//! A journal is believed only if its checksum is right and if everything in the file's start that it does not replace is as it was:
//! a file that has been changed or replaced since is never touched.
//!
//! Inserting is left to the file system (`FALLOC_FL_INSERT_RANGE` of Linux: ext4 and XFS), which moves no data. A process that is
//! killed cannot interrupt it; what a loss of power within that one call leaves is up to the file system and its own journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::lock::open_locked;
use crate::output::{folder, write_all_at};
use crate::{Error, ReadAt};

mod record;
pub mod space;

use record::{Found, Record};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;

/// A step of an edit in place, in their order. The process may end at any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditStep {
    /// The journal exists, and nothing is in it.
    Opened,
    /// A piece of the journal was written.
    Noted,
    /// The journal is complete and durable. From here on, the edit will be completed.
    Durable,
    /// The file system has inserted bytes, which read as zero.
    Inserted,
    /// A piece of the new start was written.
    Wrote,
    /// The new start is durable.
    Synced,
    /// The journal is gone.
    Finished,
}

/// The journal of a file: `model.gguf.edit` for `model.gguf`.
pub fn journal_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".edit");
    name.into()
}

/// The file that a path leads to: a journal lies beside the file itself, not beside a link to it.
fn real(path: &Path) -> Result<PathBuf, Error> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => path.canonicalize().map_err(Error::io(path, "open")),
        _ => Ok(path.to_owned()),
    }
}

/// Replaces the first `old.len()` bytes of a file by `new`, in place. `new` is as long, or longer by a number of bytes that the file
/// system can insert: a multiple of [`space::block_bytes`], where [`space::can_insert`]. Only what differs is written, so the time
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
/// [`Error::Changed`] when the file does not start with `old`; [`Error::Busy`] when another process edits it; [`Error::Io`], for
/// example when the disk is full, the file may not be written, or the file system cannot insert
/// ([`io::ErrorKind::Unsupported`]). The file is then as it was. Only when it cannot be put back either, the journal stays and the
/// error is [`Error::Unfinished`].
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
        // Somebody may have begun an edit since the file was opened.
        finish_locked(&path, &mut journal, on)?;
        let record = Record::new(&path, &file, old, new)?;
        on(EditStep::Opened);
        journal.write(&record, on).map_err(Error::io(&journal.path, "write"))?;
        Ok(record)
    })();
    let record = match begun {
        Ok(record) => record,
        // A journal that belongs to another file is not ours to remove.
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

/// Finishes an edit of the file that was interrupted, if there is one; returns whether there was. Opening a model does so.
///
/// # Errors
/// [`Error::Unfinished`] when it cannot be finished, for example because the file may not be written; [`Error::OtherJournal`] when
/// the journal is of another file, or the file has changed since; [`Error::Busy`] when another process is editing it.
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
    // Whatever else has the name is somebody's own, and no reason not to read the file.
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
            // What may not be written may still be as it should be.
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

/// Does what the journal says is left to do; returns whether that was anything. The journal stays.
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
        // Nothing was done to the file before, so it is the old one.
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
        // Where the name can be removed while the file is locked, nobody gets it in between. Elsewhere it cannot be.
        if !cfg!(unix) {
            drop(file);
        }
        let _ = fs::remove_file(&path);
        sync_folder(&path);
    }
}

/// Makes the names in the folder of a file durable. Not every file system can.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder(path)) {
        let _ = folder.sync_all();
    }
}

impl Record<'_> {
    /// Does the edit, from wherever it was interrupted.
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

    /// Puts the file back that began with `old`.
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

/// All bytes of a file, which is as long as it says: nothing is reserved that it does not have.
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
