//! Files locked by one process at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;

/// Opens a file for reading and writing and locks it; creates it if it does not exist. The lock is released when the file is closed.
///
/// # Errors
/// [`Error::Busy`] if another process has locked it, or is removing it on Windows; [`Error::NotAFile`] if the name is not that of a regular
/// file; [`Error::Io`].
pub fn open_locked(path: &Path) -> Result<File, Error> {
    create_locked(path).map(|(file, _)| file)
}

/// Like [`open_locked`]; also returns whether this call has created the file.
///
/// # Errors
/// See [`open_locked`].
pub fn create_locked(path: &Path) -> Result<(File, bool), Error> {
    loop {
        let (file, is_new) = open_or_create(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy(path.to_owned())),
            Err(TryLockError::Error(e)) => return Err(Error::io(path, "lock")(e)),
        }
        // Between opening and locking, the previous holder of the lock may have removed the file. The lock of an unnamed file protects
        // nothing.
        if is_still(&file, path) {
            return Ok((file, is_new));
        }
    }
}

/// Time between two attempts to lock a file.
const PAUSE: Duration = Duration::from_millis(2);

/// Like [`open_locked`], but waits for another process for up to `patience`.
///
/// # Errors
/// See [`open_locked`].
pub(crate) fn open_locked_within(path: &Path, patience: Duration) -> Result<File, Error> {
    let end = Instant::now() + patience;
    loop {
        match open_locked(path) {
            Err(Error::Busy(_)) if Instant::now() < end => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}

/// Whether Windows does not open a file (`ERROR_SHARING_VIOLATION`) because another process is removing it, or has it for itself alone.
fn is_not_shared(e: &io::Error) -> bool {
    cfg!(windows) && e.raw_os_error() == Some(32)
}

/// Opens a file for reading and writing, or creates it, which the result says; never follows a link.
///
/// # Errors
/// [`Error::Busy`] if Windows does not open it because another process is removing it; [`Error::NotAFile`] if the name is not that of a
/// regular file; [`Error::Io`].
pub(crate) fn open_or_create(path: &Path) -> Result<(File, bool), Error> {
    loop {
        let there = fs::symlink_metadata(path);
        if there.as_ref().is_ok_and(|there| !there.is_file()) {
            return Err(Error::NotAFile(path.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // Denies removal and renaming; readers and writers are allowed.
        #[cfg(windows)]
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 3);
        if there.is_ok() {
            match open_present(path, &mut options) {
                // Another process has just removed it.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
                Err(Error::Io { source, .. }) if is_not_shared(&source) => return Err(Error::Busy(path.to_owned())),
                opened => return Ok((opened?, false)),
            }
        }
        match options.create_new(true).open(path) {
            // Another process created it first.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            opened => return Ok((opened.map_err(Error::io(path, "open for writing"))?, true)),
        }
    }
}

/// Opens an existing file, but not through a link. The file type is checked after opening, which prevents races.
///
/// # Errors
/// [`Error::NotAFile`] if the name is not that of a regular file; [`Error::Io`].
pub(crate) fn open_present(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // Opening a pipe would otherwise block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits() as i32);
    }
    let is_other = || fs::symlink_metadata(path).is_ok_and(|there| !there.is_file());
    match options.open(path) {
        Ok(file) if file.metadata().map_err(Error::io(path, "open"))?.is_file() => Ok(file),
        Ok(_) => Err(Error::NotAFile(path.to_owned())),
        Err(_) if is_other() => Err(Error::NotAFile(path.to_owned())),
        Err(e) => Err(Error::io(path, "open")(e)),
    }
}

/// Whether the file still has the name.
#[cfg(unix)]
pub(crate) fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |m: &fs::Metadata| (m.dev(), m.ino());
    matches!((file.metadata(), fs::symlink_metadata(path)), (Ok(a), Ok(b)) if id(&a) == id(&b))
}

/// Whether the file still has the name, as far as its times and its length show.
#[cfg(windows)]
pub(crate) fn is_still(file: &File, path: &Path) -> bool {
    use std::os::windows::fs::MetadataExt;
    let id = |m: &fs::Metadata| (m.creation_time(), m.last_write_time(), m.file_size());
    matches!((file.metadata(), fs::symlink_metadata(path)), (Ok(a), Ok(b)) if id(&a) == id(&b))
}

/// Always true: other targets have no files.
#[cfg(not(any(unix, windows)))]
pub(crate) fn is_still(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let first = open_locked(&path).unwrap();
        assert!(matches!(open_locked(&path), Err(Error::Busy(busy)) if busy == path));
        drop(first);
        assert!(matches!(create_locked(&path), Ok((_, false))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(create_locked(&path), Ok((_, true))));
        assert!(matches!(open_locked(dir.path()), Err(Error::NotAFile(_))));
    }

    /// The previous holder of the lock removes the file when it is done, which takes an instant.
    #[cfg(windows)]
    #[test]
    fn a_file_that_is_being_removed_is_busy() {
        use std::os::windows::fs::OpenOptionsExt;
        /// The right to remove a file: `DELETE`.
        const REMOVAL: u32 = 0x1_0000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let removal = OpenOptions::new().access_mode(REMOVAL).open(&path).unwrap();
        assert!(matches!(open_locked(&path), Err(Error::Busy(busy)) if busy == path));
        drop(removal);
        assert!(open_locked(&path).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_and_pipes_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let mut options = OpenOptions::new();
        for name in ["link", "pipe", "."] {
            let opened = open_present(&path(name), options.read(true));
            assert!(matches!(opened, Err(Error::NotAFile(_))), "{name}: {opened:?}");
        }
        assert!(open_present(&path("file"), options.read(true)).is_ok());
        assert!(matches!(open_present(&path("none"), options.read(true)), Err(Error::Io { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_removed_meanwhile_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        match open_locked(&path) {
                            Ok(file) => {
                                assert!(is_still(&file, &path));
                                fs::remove_file(&path).unwrap();
                            }
                            Err(e) => assert!(matches!(e, Error::Busy(_)), "{e}"),
                        }
                    }
                });
            }
        });
    }

    /// The previous holder of the lock removes the file when it is done.
    #[test]
    fn a_file_that_lost_its_name_is_not_the_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = open_locked(&path).unwrap();
        assert!(is_still(&file, &path));
        if cfg!(unix) {
            fs::remove_file(&path).unwrap();
            assert!(!is_still(&file, &path));
            fs::write(&path, "another").unwrap();
            assert!(!is_still(&file, &path));
        }
    }
}
