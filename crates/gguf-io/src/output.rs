//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

use crate::leftover;
use crate::lock::{open_or_create, open_present};
use crate::{Error, ReadAt};

/// A file in the making. It has a temporary name in the folder of its final one until [`commit`](Output::commit), which
/// syncs it and renames it. At every instant, the final name refers to the old file, the new one, or
/// nothing, as it was before.
///
/// ```
/// # fn main() -> Result<(), gguf_io::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.gguf");
/// use gguf_io::Output;
///
/// let output = Output::create(&path, false)?;
/// output.write_at(4, b"second")?;
/// output.write_at(0, b"1st ")?;
/// assert!(!path.exists());
/// output.commit()?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"1st second");
/// # Ok(()) }
/// ```
///
/// Without [`commit`](Output::commit), the file of [`create`](Output::create) is removed when it is dropped. That of
/// [`reopen`](Output::reopen) stays, under a name that is always the same, for a later attempt.
#[derive(Debug)]
pub struct Output {
    temp: Temp,
    path: PathBuf,
    replace: bool,
}

#[derive(Debug)]
enum Temp {
    /// Has a temporary name; removed on drop.
    Passing(NamedTempFile),
    /// Under the name that [`Output::partial_path`] gives.
    Kept(File, PathBuf),
    /// Under its final name already; only read.
    Finished(File),
}

impl Output {
    /// Whether a file may come to be called `path`: asked before work begins, as the answer may change until it is done.
    ///
    /// # Errors
    /// [`Error::Exists`] when there is one and `replace` is false; [`Error::NotAFile`] when something else has the name: a
    /// folder, a device, a pipe, or a link to one.
    pub fn may_write(path: &Path, replace: bool) -> Result<(), Error> {
        match fs::symlink_metadata(path) {
            Ok(_) if !replace => Err(Error::Exists(path.to_owned())),
            // Folders, devices, pipes and links to them are never replaced, because other programs rely on them.
            // A link to a file is, but not what it leads to.
            Ok(there) if there.is_symlink() && leads_elsewhere(path) => Err(Error::NotAFile(path.to_owned())),
            Ok(there) if !there.is_file() && !there.is_symlink() => Err(Error::NotAFile(path.to_owned())),
            _ if path.file_name().is_none() => Err(Error::NotAFile(path.to_owned())),
            _ => Ok(()),
        }
    }

    /// The name of a file in the making that is kept when the work is interrupted: `out.gguf.partial` for `out.gguf`.
    pub fn partial_path(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        name.into()
    }

    /// Goes on with the file that is to be called `path` and has its [partial name](Output::partial_path) so far, with what is in
    /// it; starts it when there is none. Nothing keeps two processes from doing so at once but the caller.
    ///
    /// # Errors
    /// As [`create`](Output::create), and [`Error::NotAFile`] when the partial name is that of something else.
    pub fn reopen(path: impl AsRef<Path>, replace: bool) -> Result<Output, Error> {
        let path = path.as_ref();
        Output::may_write(path, replace)?;
        let partial = Output::partial_path(path);
        let file = open_or_create(&partial)?;
        Ok(Output { temp: Temp::Kept(file, partial), path: path.to_owned(), replace })
    }

    /// A file that got its final name from earlier work: it can be read back, and [`commit`](Output::commit) has nothing more to
    /// do. Writing to it is an error.
    ///
    /// # Errors
    /// [`Error::NotAFile`] when something else has the name; [`Error::Io`].
    pub fn finished(path: impl AsRef<Path>) -> Result<Output, Error> {
        let path = path.as_ref();
        let file = open_present(path, OpenOptions::new().read(true))?;
        Ok(Output { temp: Temp::Finished(file), path: path.to_owned(), replace: false })
    }

    /// Whether this is a file that has its final name already.
    pub fn is_finished(&self) -> bool {
        matches!(self.temp, Temp::Finished(_))
    }

    /// Whether this value created the file, which then contains only data written through this value.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.temp, Temp::Passing(_))
    }

    pub(crate) fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        Error::io(&self.path, action)
    }

    /// Starts a file that is to be called `path`. Temporary files that processes left for the same name when they were killed are
    /// removed.
    ///
    /// # Errors
    /// [`Error::Exists`] when there is one and `replace` is false; [`Error::Io`] when the folder cannot be written.
    pub fn create(path: impl AsRef<Path>, replace: bool) -> Result<Output, Error> {
        let path = path.as_ref();
        Output::may_write(path, replace)?;
        let name = path.file_name().ok_or_else(|| Error::NotAFile(path.to_owned()))?;
        // So much of the name that it can be told, and stays short of what file systems allow.
        let prefix = format!(".{}.", name.to_string_lossy().chars().take(48).collect::<String>());
        leftover::remove(folder(path), &prefix);
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(leftover::SUFFIX).rand_bytes(leftover::RANDOM);
        let temp = builder.make_in(folder(path), leftover::create);
        let temp = temp.map_err(|e| Error::io(path, "create a file there")(plain(e, folder(path))))?;
        Ok(Output { temp: Temp::Passing(temp), path: path.to_owned(), replace })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for positioned or sequential writes.
    pub fn file(&self) -> &File {
        match &self.temp {
            Temp::Passing(temp) => temp.as_file(),
            Temp::Kept(file, _) | Temp::Finished(file) => file,
        }
    }

    /// Gives the file its length, before or after it is filled, and checks that the disk has room for it. The bytes not written
    /// yet read as zero.
    ///
    /// No space is taken before it is needed: writing into space that was taken beforehand costs a quarter more time on ext4.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when the disk has no room for so much; [`Error::Io`].
    pub fn set_len(&self, bytes: u64) -> Result<(), Error> {
        crate::check_room(std::iter::once((self, bytes)))?;
        self.file().set_len(bytes).map_err(|e| {
            let said = io::Error::new(e.kind(), format!("{e}; it takes {bytes} bytes"));
            Error::io(&self.path, "make room for the whole file")(said)
        })
    }

    /// Writes all of `buf` at `offset`. May be called from several threads at once.
    ///
    /// # Errors
    /// [`Error::Io`], for example when the disk is full.
    pub fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        write_all_at(self.file(), buf, offset).map_err(Error::io(&self.path, "write"))
    }

    /// Reads back the bytes at `offset` into `buf`.
    ///
    /// # Errors
    /// [`Error::Io`], also when the file ends before `buf` is full.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.file().read_exact_at(offset, buf).map_err(Error::io(&self.path, "read back"))
    }

    /// Syncs the written data to disk. [`commit`](Output::commit) does so as well.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<(), Error> {
        match &self.temp {
            // It was made durable before it was renamed, and cannot be through a handle that only reads.
            Temp::Finished(_) => Ok(()),
            _ => self.file().sync_all().map_err(Error::io(&self.path, "sync")),
        }
    }

    /// Gives the file up, and removes it even if it is one that is kept.
    pub fn discard(self) {
        if let Temp::Kept(file, partial) = self.temp {
            drop(file);
            let _ = fs::remove_file(partial);
        }
    }

    /// Makes the file durable and gives it its final name.
    ///
    /// # Errors
    /// [`Error::Exists`] when a file of that name has appeared during the run and may not be replaced; [`Error::Io`]. What stood
    /// under the final name still stands there then. The temporary file is gone, unless it is one that is kept. On Windows a
    /// file that is open or mapped anywhere cannot be replaced, which is an error here.
    pub fn commit(self) -> Result<(), Error> {
        self.sync()?;
        let Output { temp, path, replace } = self;
        let mut file = None;
        let (temp, is_kept) = match temp {
            // The file stays open, and with that locked, until it has its name.
            Temp::Passing(temp) => {
                let (open, temp) = temp.into_parts();
                file = Some(open);
                (temp, false)
            }
            Temp::Kept(open, partial) => {
                drop(open);
                let temp = TempPath::try_from_path(partial).map_err(Error::io(&path, "rename"))?;
                (temp, true)
            }
            Temp::Finished(_) => return Ok(()),
        };
        let renamed = if replace { temp.persist(&path) } else { temp.persist_noclobber(&path) };
        if let Err(e) = renamed {
            if is_kept {
                let _ = e.path.keep();
            }
            if !replace && e.error.kind() == io::ErrorKind::AlreadyExists {
                return Err(Error::Exists(path));
            }
            return Err(Error::io(&path, "rename")(e.error));
        }
        // An interrupted edit of the replaced file does not apply to the new one.
        crate::in_place::forget(&path);
        drop(file);
        // The name is in the folder; make that durable as well. Not every file system can, and the file is whole anyway.
        if let Ok(folder) = File::open(folder(&path)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

/// Whether a link leads to something that is not a file: a device, a pipe, or what `/proc` shows of a process, as `/dev/stdout` does.
fn leads_elsewhere(link: &Path) -> bool {
    fs::metadata(link).is_ok_and(|there| !there.is_file())
        || fs::read_link(link).is_ok_and(|to| to.starts_with("/proc"))
}

/// The error of the operating system for a new file in a folder; a missing folder is named.
fn plain(e: io::Error, folder: &Path) -> io::Error {
    match e.kind() {
        io::ErrorKind::NotFound if !folder.exists() => {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display()))
        }
        _ => e,
    }
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_kept() {
        // Too many open files: a kind of error without a name.
        let said = plain(io::Error::from_raw_os_error(24), Path::new("/")).to_string();
        assert!(said.contains("Too many open files"), "{said}");
        let error = Output::create("/proc/model.gguf", false).unwrap_err().to_string();
        assert!(error.contains("os error"), "{error}");
        let error = Output::create("/proc/none/model.gguf", false).unwrap_err().to_string();
        assert!(error.ends_with("there is no folder /proc/none"), "{error}");
    }
}

#[cfg(unix)]
pub(crate) fn write_all_at(file: &File, buf: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, buf, offset)
}

#[cfg(windows)]
pub(crate) fn write_all_at(file: &File, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, buf, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                buf = buf.get(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Without positioned writes in the standard library, and without files: as for reading.
#[cfg(not(any(unix, windows)))]
pub(crate) fn write_all_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
