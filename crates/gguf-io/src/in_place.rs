//! Replaces the start of a file in place, atomically: the file is always the old one or the new one.
//!
//! An edit is first recorded in a journal beside the file (`model.gguf.edit` for `model.gguf`): the bytes that change, and the number and
//! position of inserted bytes. While the journal is incomplete, the file is the old one. Once it is complete and on the disk, the edit is
//! committed: if it is interrupted, the next open of the file with this crate completes it, because the journal contains all remaining
//! steps, and repeating them is harmless. [`ModelFile::open`](crate::ModelFile::open) does this.
//!
//! The journal is also the [lock](EditLock) of an edit: two edits of a file exclude each other.
//!
//! A journal is valid only if its checksum is correct and the rest of the file's start is unchanged: a file that has been changed or
//! replaced since is never touched.
//!
//! The file system inserts bytes (`FALLOC_FL_INSERT_RANGE` of Linux: ext4 and XFS) without moving data. Killing the process cannot
//! interrupt this; after a loss of power within that one call, the state depends on the file system and its journal.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::buffer::read_full;
use crate::disk::{sync_folder, write_all_at};
use crate::file::open_regular;
use crate::lock::{is_still, open_locked, open_locked_within};
use crate::{Error, FileState, ModelFile, ReadAt};

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
    /// The journal is empty or removed.
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

/// Time to wait for a process that is completing an edit.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time to wait for a process that holds the lock only to look for an interrupted edit.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);

/// Time between two looks at a journal in use.
const PAUSE: Duration = Duration::from_millis(2);

/// Excludes all other edits of a file until it is dropped, those of other processes included. An edit that is computed from the file's
/// content holds the lock from reading that content to its end.
///
/// The lock is that of the [journal](journal_path), which is empty while the file is unchanged. It does not prevent reading. Programs that do
/// not know the journal can still change or replace the file, so an edit also [checks](EditLock::check) that the file is the one it has read.
///
/// ```
/// # fn main() -> Result<(), gguf_io::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("file");
/// # std::fs::write(&path, "old start, and more").unwrap();
/// use gguf_io::Error;
/// use gguf_io::in_place::EditLock;
///
/// let mut lock = EditLock::new(&path)?;
/// assert!(matches!(EditLock::new(&path), Err(Error::Busy(_))));
/// lock.replace_start(b"old start", b"new start", &|_| ())?;
/// drop(lock);
/// assert_eq!(std::fs::read(&path).unwrap(), b"new start, and more");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct EditLock {
    /// The file itself.
    path: PathBuf,
    /// `None` if an error has ended the lock.
    journal: Option<Journal>,
}

impl EditLock {
    /// Locks a file for an edit, and completes an interrupted one.
    ///
    /// # Errors
    /// [`Error::Busy`] if another edit holds the lock; [`Error::Io`] if the file cannot be opened or its journal cannot be created;
    /// [`Error::Unfinished`] and [`Error::OtherJournal`]: see [`finish`].
    pub fn new(path: impl AsRef<Path>) -> Result<EditLock, Error> {
        let path = real(path.as_ref())?;
        drop(open_regular(&path)?);
        let name = journal_path(&path);
        let mut file = open_locked_within(&name, SHORT_PATIENCE).map_err(|e| match e {
            Error::Busy(_) => Error::Busy(path.clone()),
            e => e,
        })?;
        // Checked under the lock: another process may just have removed its journal.
        if !Record::may_be_journal(&mut file).map_err(Error::io(&name, "read"))? {
            let taken = io::Error::new(io::ErrorKind::AlreadyExists, "that file is not a journal; move it elsewhere");
            return Err(Error::io(&name, "be used as the journal of the edit")(taken));
        }
        let mut journal = Journal { file, path: name };
        match finish_locked(&path, &mut journal, &|_| ()).and_then(|_| journal.clear()) {
            Ok(()) => Ok(EditLock { path, journal: Some(journal) }),
            // The journal is kept: it may be that of another file.
            Err(e) => Err(e),
        }
    }

    /// The path of the file itself, not of a link to it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the model still has the path, and that its head, length and time of modification are those from when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] if not; [`Error::Io`].
    pub fn check(&self, model: &ModelFile) -> Result<(), Error> {
        match model.as_file().is_some_and(|file| self.is_of(file)) {
            true => model.check_unchanged(),
            false => Err(Error::Changed(self.path.clone())),
        }
    }

    /// Checks that an open file still has the path, and that its state is the same.
    ///
    /// # Errors
    /// [`Error::Changed`] if not; [`Error::Io`].
    pub fn check_file(&self, file: &File, state: FileState) -> Result<(), Error> {
        match self.is_of(file) && FileState::of(file).map_err(Error::io(&self.path, "read"))? == state {
            true => Ok(()),
            false => Err(Error::Changed(self.path.clone())),
        }
    }

    /// Whether this is a lock of the file.
    fn is_of(&self, file: &File) -> bool {
        self.journal.is_some() && is_still(file, &self.path)
    }

    /// Replaces the first `old.len()` bytes of the file by `new`, in place; see [`replace_start`].
    ///
    /// # Errors
    /// See [`replace_start`].
    pub fn replace_start(&mut self, old: &[u8], new: &[u8], on: &dyn Fn(EditStep)) -> Result<(), Error> {
        let path = self.path.as_path();
        let Some(journal) = &mut self.journal else { return Err(Error::Changed(path.to_owned())) };
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(Error::io(path, "open for writing"))?;
        let record = Record::new(path, &file, old, new)?;
        on(EditStep::Opened);
        if let Err(e) = journal.write(&record, on) {
            let e = Error::io(&journal.path, "write")(e);
            self.end_edit();
            return Err(e);
        }
        on(EditStep::Durable);
        let mut is_inserted = record.hole.is_none();
        if let Err(e) = record.apply(&file, &mut is_inserted, on) {
            return Err(match record.undo(&file, is_inserted, old) {
                Ok(()) => {
                    self.end_edit();
                    Error::io(&self.path, "edit in place")(e)
                }
                Err(_) => {
                    let (path, journal) = (self.path.clone(), journal.path.clone());
                    // The journal is kept.
                    self.journal = None;
                    Error::Unfinished { path, journal, source: e }
                }
            });
        }
        // Another program may have given the name to another file, which is unchanged.
        let has_name = is_still(&file, path);
        self.end_edit();
        on(EditStep::Finished);
        if has_name { Ok(()) } else { Err(Error::Changed(self.path.clone())) }
    }

    /// Empties the journal. If that fails, its removal ends the lock as well.
    fn end_edit(&mut self) {
        if let Some(mut journal) = self.journal.take() {
            match journal.clear() {
                Ok(()) => self.journal = Some(journal),
                Err(_) => journal.remove(),
            }
        }
    }
}

impl Drop for EditLock {
    fn drop(&mut self) {
        // The journal is empty, durably.
        if let Some(journal) = self.journal.take() {
            journal.remove_name();
        }
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
/// [`Error::Changed`] if the file does not start with `old`, or another program has replaced it in the meantime; [`Error::Busy`] if another
/// process is editing it; [`Error::Io`], for example if the disk is full, the file is read-only, or the file system cannot insert bytes
/// ([`io::ErrorKind::Unsupported`]). The file is then unchanged. If it cannot be restored either, the journal is kept and the error is
/// [`Error::Unfinished`].
pub fn replace_start(path: &Path, old: &[u8], new: &[u8], on: &dyn Fn(EditStep)) -> Result<(), Error> {
    EditLock::new(path)?.replace_start(old, new, on)
}

/// Completes an interrupted edit of the file, if any; returns whether there was one. Opening a model calls this. If another process is
/// writing to the file, this waits a few seconds for it to finish.
///
/// # Errors
/// [`Error::Unfinished`] if it cannot be completed, for example because the file is read-only; [`Error::OtherJournal`] if the journal
/// belongs to another file, or the file has changed since; [`Error::Busy`] if another process is still writing to it.
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
    let end = Instant::now() + PATIENCE;
    loop {
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
                return Ok(is_finished);
            }
            // The file is unchanged as long as the journal of an edit is empty. The journal is gone if the edit has just ended.
            Err(Error::Busy(_)) if len_of(&name) == 0 => return Ok(false),
            Err(Error::Busy(_)) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(Error::Busy(_)) => return Err(Error::Busy(path)),
            Err(Error::Io { source, .. }) => match is_complete(&path, &name) {
                Ok(true) => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => std::thread::sleep(PAUSE),
                _ => return Err(Error::Unfinished { path, journal: name, source }),
            },
            Err(e) => return Err(e),
        }
    }
}

/// Whether a file needs no write to be complete, for a journal that may only be read: it is in its old or its final state.
///
/// # Errors
/// If the system cannot open or lock the file; [`io::ErrorKind::WouldBlock`] while another process writes to it.
fn is_complete(path: &Path, journal: &Path) -> io::Result<bool> {
    let mut journal = match File::open(journal) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        journal => journal?,
    };
    let is_free = match journal.try_lock_shared() {
        Err(TryLockError::WouldBlock) => false,
        // Some file systems have no locks.
        _ => true,
    };
    if !is_free && journal.size()? > 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    match Record::read(&mut journal)? {
        Some(record) => Ok(record.look(&File::open(path)?)? == Found::Done),
        None => Ok(true),
    }
}

/// The length of a file; 0 if there is none.
fn len_of(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |there| there.len())
}

/// Whether an edit of the file may be in progress: its journal is not empty.
pub(crate) fn may_be_edited(path: &Path) -> bool {
    let name = real(path).map(|path| journal_path(&path));
    name.is_ok_and(|name| len_of(&name) > 0 && Record::is_journal(&name))
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
#[derive(Debug)]
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

    /// Empties the journal, durably if it had content.
    fn clear(&mut self) -> Result<(), Error> {
        let cleared = self.file.size().and_then(|len| match len {
            0 => Ok(()),
            _ => self.file.set_len(0).and_then(|()| self.file.sync_all()),
        });
        cleared.map_err(Error::io(&self.path, "write"))
    }

    /// Removes the journal, durably.
    fn remove(self) {
        let path = self.path.clone();
        self.remove_name();
        sync_folder(&path);
    }

    fn remove_name(self) {
        let Journal { file, path } = self;
        // On Unix the name is removed while the file is locked, which prevents races. Elsewhere a locked file cannot be removed.
        if !cfg!(unix) {
            drop(file);
        }
        let _ = fs::remove_file(&path);
    }
}

impl Record<'_> {
    /// Performs the edit, starting at the step of the interruption.
    fn apply(&self, file: &File, is_inserted: &mut bool, on: &dyn Fn(EditStep)) -> io::Result<()> {
        if let Some(hole) = self.hole.as_ref().filter(|_| !*is_inserted) {
            space::insert(file, hole.at, hole.len)?;
            *is_inserted = true;
            // The bytes belong behind the insertion. If they were on the disk before it, a loss of power would leave neither file.
            file.sync_all()?;
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
    bytes.resize(len, 0);
    file.seek(SeekFrom::Start(0))?;
    let n = read_full(file, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Removes the journal of a file that was replaced. An edit in progress keeps it, and notices that the file is another one.
pub(crate) fn forget(path: &Path) {
    let name = journal_path(path);
    if Record::is_journal(&name)
        && let Ok(file) = open_locked(&name)
    {
        Journal { file, path: name }.remove();
    }
}

/// Excludes edits of a file while another one replaces it, where an edit could replace the new one unnoticed: where names cannot be
/// exchanged.
///
/// # Errors
/// [`Error::Busy`] if the file is being edited.
pub(crate) fn exclude(path: &Path) -> Result<Option<EditLock>, Error> {
    if cfg!(unix) || !path.is_file() {
        return Ok(None);
    }
    match EditLock::new(path) {
        Err(Error::Busy(path)) => Err(Error::Busy(path)),
        lock => Ok(lock.ok()),
    }
}
