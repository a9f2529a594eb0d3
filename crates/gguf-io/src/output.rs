//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::Error;

/// A file in the making. It has a temporary name in the folder of its final one until [`commit`](Output::commit), which
/// syncs it and renames it. Dropped before that, it is removed. Whatever happens at whatever instant, the final name
/// shows the old file, the new one, or nothing, as it was before.
#[derive(Debug)]
pub struct Output {
    temp: NamedTempFile,
    path: PathBuf,
    replace: bool,
}

impl Output {
    /// Starts a file that is to be called `path`.
    ///
    /// # Errors
    /// [`Error::Exists`] when there is one and `replace` is false; [`Error::Io`] when the folder cannot be written.
    pub fn create(path: impl AsRef<Path>, replace: bool) -> Result<Output, Error> {
        let path = path.as_ref();
        match fs::symlink_metadata(path) {
            Ok(_) if !replace => return Err(Error::Exists(path.to_owned())),
            // Folders, devices and pipes are not replaced, whatever is allowed; a link is, but not what it leads to.
            Ok(there) if !there.is_file() && !there.is_symlink() => return Err(Error::NotAFile(path.to_owned())),
            _ => {}
        }
        let name = path.file_name().ok_or_else(|| Error::NotAFile(path.to_owned()))?;
        // So much of the name that it can be told, and stays short of what file systems allow.
        let prefix = format!(".{}.", name.to_string_lossy().chars().take(48).collect::<String>());
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(".partial");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temp = builder.tempfile_in(folder(path)).map_err(|e| Error::io(path, "create a file there")(plain(e)))?;
        Ok(Output { temp, path: path.to_owned(), replace })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for positioned or sequential writes.
    pub fn file(&self) -> &File {
        self.temp.as_file()
    }

    /// Gives the file its length, before or after it is filled, and takes the space on the disk for it, so far as the file system
    /// can do that. The bytes not written yet read as zero.
    ///
    /// # Errors
    /// [`Error::Io`]; among others when the disk has no room for so much.
    pub fn set_len(&self, bytes: u64) -> Result<(), Error> {
        let sized = self.file().set_len(bytes).and_then(|()| reserve(self.file(), bytes));
        let said = |e: io::Error| io::Error::new(e.kind(), format!("{e}; it takes {bytes} bytes"));
        sized.map_err(said).map_err(Error::io(&self.path, "make room for the whole file"))
    }

    /// Writes all of `buf` at `offset`. May be called from several threads at once.
    ///
    /// # Errors
    /// [`Error::Io`], for example when the disk is full.
    pub fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        write_all_at(self.file(), buf, offset).map_err(Error::io(&self.path, "write"))
    }

    /// Makes the file durable and gives it its final name.
    ///
    /// # Errors
    /// [`Error::Exists`] when a file of that name has appeared meanwhile and may not be replaced; [`Error::Io`]. The
    /// temporary file is gone then, and what stood under the final name still stands there.
    pub fn commit(self) -> Result<(), Error> {
        let Output { temp, path, replace } = self;
        temp.as_file().sync_all().map_err(Error::io(&path, "sync"))?;
        let renamed = if replace { temp.persist(&path) } else { temp.persist_noclobber(&path) };
        if let Err(e) = renamed {
            if !replace && e.error.kind() == io::ErrorKind::AlreadyExists {
                return Err(Error::Exists(path));
            }
            return Err(Error::io(&path, "rename")(e.error));
        }
        // The name is in the folder; make that durable as well. Not every file system can, and the file is whole anyway.
        if let Ok(folder) = File::open(folder(&path)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

/// Takes the space that a file's length needs, where the file system knows how; elsewhere a full disk is met when it is full.
#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(e.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// What the operating system said, without the temporary name that is wrapped around it.
fn plain(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::Other => e,
        kind => kind.into(),
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, buf: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, buf, offset)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
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
