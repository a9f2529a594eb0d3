//! Files that appear complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

use crate::leftover;
use crate::lock::{open_or_create, open_present};
use crate::{Error, ReadAt};

/// An output file under construction. It has a temporary name in the directory of its final one until [`commit`](Output::commit), which
/// syncs and renames it. At every instant, the final name refers to the old file, the new one, or nothing, if there was none.
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
/// Without [`commit`](Output::commit), dropping it removes a file from [`create`](Output::create). A file from [`reopen`](Output::reopen)
/// is kept, under a fixed name, for a later attempt.
#[derive(Debug)]
pub struct Output {
    temp: Temp,
    path: PathBuf,
    replace: bool,
}

/// What fails if the directory of an output is missing.
const CREATE: &str = "create a file there";

#[derive(Debug)]
enum Temp {
    /// A temporary name; removed on drop.
    Passing(NamedTempFile),
    /// The name from [`Output::partial_path`].
    Kept(File, PathBuf),
    /// The final name; read-only.
    Finished(File),
}

impl Output {
    /// Checks whether a file may be written at `path`, before work begins; the answer may change until it is done.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file and `replace` is false; [`Error::NotAFile`] if the path is a directory, a device, a pipe, or a
    /// link to one; [`Error::Io`] if its directory does not exist.
    pub fn may_write(path: &Path, replace: bool) -> Result<(), Error> {
        match fs::symlink_metadata(path) {
            Ok(_) if !replace => Err(Error::Exists(path.to_owned())),
            // Directories, devices, pipes and links to them are never replaced, because other programs rely on them. A link to a file is
            // replaced, but not its target.
            Ok(there) if there.is_symlink() && leads_elsewhere(path) => Err(Error::NotAFile(path.to_owned())),
            Ok(there) if !there.is_file() && !there.is_symlink() => Err(Error::NotAFile(path.to_owned())),
            _ if path.file_name().is_none() => Err(Error::NotAFile(path.to_owned())),
            _ => match fs::metadata(folder(path)) {
                Ok(there) if there.is_dir() => Ok(()),
                Ok(_) => Err(Error::io(path, CREATE)(io::ErrorKind::NotADirectory.into())),
                Err(e) => Err(Error::io(path, CREATE)(plain(e, folder(path)))),
            },
        }
    }

    /// The name of an unfinished file that is kept for resuming: `out.gguf.partial` for `out.gguf`.
    pub fn partial_path(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        name.into()
    }

    /// Continues an unfinished file for `path` with its [partial name](Output::partial_path), or starts a new one. The caller must prevent
    /// concurrent use by two processes.
    ///
    /// # Errors
    /// As [`create`](Output::create), and [`Error::NotAFile`] if the partial name is not that of a regular file.
    pub fn reopen(path: impl AsRef<Path>, replace: bool) -> Result<Output, Error> {
        let path = path.as_ref();
        Output::may_write(path, replace)?;
        let partial = Output::partial_path(path);
        let file = open_or_create(&partial)?;
        Ok(Output { temp: Temp::Kept(file, partial), path: path.to_owned(), replace })
    }

    /// Opens a file that earlier work has completed: it can be read back, and [`commit`](Output::commit) does nothing. Writing to it is an
    /// error.
    ///
    /// # Errors
    /// [`Error::NotAFile`] if the name is not that of a regular file; [`Error::Io`].
    pub fn finished(path: impl AsRef<Path>) -> Result<Output, Error> {
        let path = path.as_ref();
        let file = open_present(path, OpenOptions::new().read(true))?;
        Ok(Output { temp: Temp::Finished(file), path: path.to_owned(), replace: false })
    }

    /// Whether the file already has its final name.
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

    /// Starts a file for `path`. Temporary files of killed processes for the same name are removed.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file and `replace` is false; [`Error::Io`] if the directory is not writable.
    pub fn create(path: impl AsRef<Path>, replace: bool) -> Result<Output, Error> {
        let path = path.as_ref();
        Output::may_write(path, replace)?;
        let name = path.file_name().ok_or_else(|| Error::NotAFile(path.to_owned()))?;
        // Long enough to recognize the name, and short enough for file systems.
        let prefix = format!(".{}.", name.to_string_lossy().chars().take(48).collect::<String>());
        leftover::remove(folder(path), &prefix);
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(leftover::SUFFIX).rand_bytes(leftover::RANDOM);
        let temp = builder.make_in(folder(path), leftover::create);
        let temp = temp.map_err(|e| Error::io(path, CREATE)(plain(e, folder(path))))?;
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

    /// Sets the length of the file, before or after it is filled, and checks that the disk has enough space. Unwritten bytes read as zero.
    ///
    /// No space is allocated ahead: writing into preallocated space takes a quarter longer on ext4.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if the disk has insufficient space; [`Error::Io`].
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
    /// [`Error::Io`], also if the file ends before `buf` is full.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.file().read_exact_at(offset, buf).map_err(Error::io(&self.path, "read back"))
    }

    /// Syncs the written data to disk. [`commit`](Output::commit) does so as well.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<(), Error> {
        match &self.temp {
            // The file was synced before it was renamed, and a read-only handle cannot sync.
            Temp::Finished(_) => Ok(()),
            _ => self.file().sync_all().map_err(Error::io(&self.path, "sync")),
        }
    }

    /// Discards the file, even one that would be kept.
    pub fn discard(self) {
        if let Temp::Kept(file, partial) = self.temp {
            drop(file);
            let _ = fs::remove_file(partial);
        }
    }

    /// Syncs the file and gives it its final name.
    ///
    /// # Errors
    /// [`Error::Exists`] if a file with that name has appeared in the meantime and may not be replaced; [`Error::Io`]. The previous file is
    /// then unchanged. The temporary file is removed, unless it is kept for resuming. On Windows a file that is open or mapped anywhere
    /// cannot be replaced, which is an error here.
    pub fn commit(self) -> Result<(), Error> {
        self.sync()?;
        let Output { temp, path, replace } = self;
        let mut file = None;
        let (temp, is_kept) = match temp {
            // The file stays open, and thus locked, until it has its name.
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
        // Makes the name in the directory durable as well. Some file systems do not support this, and the file is complete anyway.
        if let Ok(folder) = File::open(folder(&path)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

/// Whether the target of a link is not a file: a device, a pipe, or an entry of a process in `/proc`, such as `/dev/stdout`.
fn leads_elsewhere(link: &Path) -> bool {
    fs::metadata(link).is_ok_and(|there| !there.is_file())
        || fs::read_link(link).is_ok_and(|to| to.starts_with("/proc"))
}

/// The system's error for a new file in a directory; a missing directory is named.
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
        // Too many open files: an error kind without a name.
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

/// Targets without positioned writes in the standard library have no files, as for reading.
#[cfg(not(any(unix, windows)))]
pub(crate) fn write_all_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
