//! Files that appear complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, PathPersistError, TempPath};

use crate::disk::{folder, sync_folder, write_all_at};
use crate::in_place::EditLock;
use crate::lock::{is_still, open_or_create, open_present};
use crate::stale;
use crate::{Error, ModelFile, ReadAt};

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
    /// No name. Other processes may have inherited the second descriptor, which is read-only.
    #[cfg(target_os = "linux")]
    Unnamed { file: File, shared: Option<File> },
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
    /// link to one; [`Error::Io`] if its directory does not exist, or, on Windows, if files cannot have that name.
    pub fn may_write(path: &Path, replace: bool) -> Result<(), Error> {
        if let Some(problem) =
            path.file_name().filter(|_| cfg!(windows)).and_then(|name| forbidden(&name.to_string_lossy()))
        {
            return Err(Error::io(path, CREATE)(io::Error::new(io::ErrorKind::InvalidFilename, problem)));
        }
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
        stale::remove(path);
        let partial = long_form(Output::partial_path(path));
        let (file, _) = open_or_create(&partial)?;
        Ok(Output { temp: Temp::Kept(file, partial), path: path.to_owned(), replace })
    }

    /// Opens the unfinished file for `path`, as [`reopen`](Output::reopen) does, or returns `None` if there is no such file. Several processes may
    /// write different parts of it at once.
    ///
    /// # Errors
    /// [`Error::NotAFile`] if the partial name is not that of a regular file; [`Error::Io`].
    pub fn present(path: impl AsRef<Path>, replace: bool) -> Result<Option<Output>, Error> {
        let path = path.as_ref();
        let partial = long_form(Output::partial_path(path));
        match open_present(&partial, OpenOptions::new().read(true).write(true)) {
            Ok(file) => Ok(Some(Output { temp: Temp::Kept(file, partial), path: path.to_owned(), replace })),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens a file that earlier work has completed: it can be read back, and [`commit`](Output::commit) does nothing. Writing to it is an
    /// error.
    ///
    /// # Errors
    /// [`Error::NotAFile`] if the name is not that of a regular file; [`Error::Io`].
    pub fn finished(path: impl AsRef<Path>) -> Result<Output, Error> {
        let path = path.as_ref();
        stale::remove(path);
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
        matches!(self.temp, Temp::Unnamed { .. } | Temp::Passing(_))
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
        let prefix = stale::prefix(path).ok_or_else(|| Error::NotAFile(path.to_owned()))?;
        stale::remove(path);
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(stale::SUFFIX).rand_bytes(stale::RANDOM);
        let temp = builder.make_in(folder(&long_form(path.to_owned())), stale::create);
        let temp = temp.map_err(|e| Error::io(path, CREATE)(plain(e, folder(path))))?;
        Ok(Output { temp: Temp::Passing(temp), path: path.to_owned(), replace })
    }

    /// Like [`create`](Output::create), without even a temporary name before [`commit`](Output::commit), if the file system has such files (most
    /// of Linux have): nothing is left of a process that is killed. Use it for data that takes long, or never gets a name.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.gguf");
    /// use gguf_io::Output;
    ///
    /// let output = Output::unnamed(&path, false)?;
    /// output.write_at(0, b"content")?;
    /// if cfg!(target_os = "linux") {
    ///     assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    /// }
    /// output.commit()?;
    /// assert_eq!(std::fs::read(&path)?, b"content");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`create`](Output::create).
    pub fn unnamed(path: impl AsRef<Path>, replace: bool) -> Result<Output, Error> {
        let path = path.as_ref();
        #[cfg(target_os = "linux")]
        {
            Output::may_write(path, replace)?;
            stale::remove(path);
            if let Some(file) = unnamed::create(folder(path)) {
                return Ok(Output { temp: Temp::Unnamed { file, shared: None }, path: path.to_owned(), replace });
            }
        }
        Output::create(path, replace)
    }

    /// An absolute path by which this process, and processes that it starts from now on, can read the file before [`commit`](Output::commit). They
    /// inherit a descriptor of a file without a name.
    ///
    /// # Errors
    /// [`Error::Io`] if the system cannot pass the file on.
    pub fn share(&mut self) -> Result<PathBuf, Error> {
        let named = match &mut self.temp {
            #[cfg(target_os = "linux")]
            Temp::Unnamed { file, shared } => {
                let shared = match unnamed::inherited(file) {
                    Ok(file) => shared.insert(file),
                    Err(e) => return Err(self.io("pass on")(e)),
                };
                return Ok(unnamed::path_of(shared));
            }
            Temp::Passing(temp) => temp.path(),
            Temp::Kept(_, path) => path,
            Temp::Finished(_) => &self.path,
        };
        std::path::absolute(named).map_err(self.io("pass on"))
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for positioned or sequential writes.
    pub fn file(&self) -> &File {
        match &self.temp {
            #[cfg(target_os = "linux")]
            Temp::Unnamed { file, .. } => file,
            Temp::Passing(temp) => temp.as_file(),
            Temp::Kept(file, _) | Temp::Finished(file) => file,
        }
    }

    /// Sets the length of the file, before or after it is filled, and checks that the disk has enough space. Unwritten bytes read as zero.
    ///
    /// No space is allocated ahead: writing into preallocated space takes a quarter longer on ext4.
    ///
    /// # Errors
    /// [`Error::NoDiskSpace`] if the disk has insufficient space; [`Error::Io`].
    pub fn set_len(&self, bytes: u64) -> Result<(), Error> {
        crate::check_disk_space(std::iter::once((self, bytes)))?;
        self.file().set_len(bytes).map_err(|e| {
            let error = io::Error::new(e.kind(), format!("{e}; it takes {bytes} bytes"));
            Error::io(&self.path, "allocate space for the whole file")(error)
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

    /// Like [`commit`](Output::commit), for a file from [`create`](Output::create) that was made from `old`: its final name must still be that
    /// of `old`. The caller holds the [lock](crate::in_place::EditLock) of the file. Windows does not replace open files in all cases, so `old`
    /// is closed first there.
    ///
    /// # Errors
    /// [`Error::Changed`] if another program has replaced, renamed or removed `old`; [`Error::Io`]. The file that has the name keeps it.
    pub fn commit_over(self, old: ModelFile) -> Result<(), Error> {
        self.sync()?;
        let Output { temp: Temp::Passing(temp), path, .. } = self else { return self.commit() };
        // The file stays open, and thus locked, until it has its name.
        let (file, temp) = temp.into_parts();
        let is_replaced = replace(temp, old, &path).map_err(Error::io(&path, "rename"))?;
        drop(file);
        sync_folder(&path);
        if is_replaced { Ok(()) } else { Err(Error::Changed(path)) }
    }

    /// Syncs the file and gives it its final name.
    ///
    /// # Errors
    /// [`Error::Exists`] if a file with that name has appeared in the meantime and may not be replaced; [`Error::Io`]. The previous file is
    /// then unchanged. The temporary file is removed, unless it is kept for resuming. On Windows a file that is open or mapped anywhere
    /// cannot be replaced, which is an error here.
    pub fn commit(self) -> Result<(), Error> {
        commit_all(vec![self], &mut |_| ())
    }

    /// Gives the file its final name. With `keep_old`, a file that it replaces is kept under a temporary name, if the file system can.
    fn name(self, keep_old: bool) -> Result<Option<Named>, Error> {
        let Output { temp, path, replace } = self;
        let edit = if replace { crate::in_place::exclude(&path)? } else { None };
        let old = match replace && keep_old && path.symlink_metadata().is_ok() {
            true => Old::There(linked(&path)),
            false => Old::None,
        };
        let (temp, file, partial) = match temp {
            #[cfg(target_os = "linux")]
            Temp::Unnamed { file, .. } => match unnamed::link(&file, &path) {
                Ok(()) => return Ok(Some(Named { path, file: Some(file), partial: None, old, edit })),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !replace => return Err(Error::Exists(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    // A rename replaces the file that has the name; a link does not.
                    let temp =
                        temporary(&path, |link| unnamed::link(&file, link)).map_err(Error::io(&path, "rename"))?;
                    (temp, Some(file), None)
                }
                Err(e) => return Err(Error::io(&path, "rename")(e)),
            },
            // The file stays open, and thus locked, until all files have their names.
            Temp::Passing(temp) => {
                let (open, temp) = temp.into_parts();
                (temp, Some(open), None)
            }
            Temp::Kept(open, partial) => {
                drop(open);
                (TempPath::try_from_path(partial.clone()).map_err(Error::io(&path, "rename"))?, None, Some(partial))
            }
            Temp::Finished(_) => return Ok(None),
        };
        if let Err(e) = give_name(temp, &path, replace) {
            if partial.is_some() {
                let _ = e.path.keep();
            }
            if !replace && e.error.kind() == io::ErrorKind::AlreadyExists {
                return Err(Error::Exists(path));
            }
            return Err(Error::io(&path, "rename")(e.error));
        }
        Ok(Some(Named { path, file, partial, old, edit }))
    }
}

/// Syncs several files and gives them their final names, in order: either all of them, or none. `on_name` is called after each.
///
/// # Errors
/// As for [`Output::commit`]. No file then has its final name, except one that had it [before](Output::finished), and replaced files are
/// back; without hard links, a replaced file cannot be kept, and the new one stays.
pub fn commit_all(outputs: Vec<Output>, on_name: &mut dyn FnMut(&Path)) -> Result<(), Error> {
    for output in &outputs {
        output.sync()?;
    }
    let keep_old = outputs.len() > 1;
    let mut named: Vec<Named> = Vec::new();
    for output in outputs {
        let path = output.path.clone();
        match output.name(keep_old) {
            Ok(new) => named.extend(new),
            Err(e) => {
                named.into_iter().rev().for_each(Named::undo);
                return Err(e);
            }
        }
        on_name(&path);
    }
    for Named { path, .. } in &named {
        // An interrupted edit of the replaced file does not apply to the new one.
        crate::in_place::forget(path);
        sync_folder(path);
    }
    Ok(())
}

/// A file that has its final name, with what undoes that.
struct Named {
    path: PathBuf,
    file: Option<File>,
    /// The name to resume from.
    partial: Option<PathBuf>,
    old: Old,
    /// Excludes edits of the file that it replaces.
    edit: Option<EditLock>,
}

/// The file that another one has replaced.
enum Old {
    None,
    /// With its temporary name, if the file system supports a second one. It is removed on drop.
    There(Option<TempPath>),
}

impl Named {
    /// Takes the name from the file, and gives it back to the old one. Nothing more can be done about failures.
    fn undo(self) {
        let Named { path, file, partial, old, edit: _edit } = self;
        drop(file);
        if let Old::There(None) = old {
            return;
        }
        let taken = match (&partial, &old) {
            (Some(partial), Old::None) => fs::rename(&path, partial),
            (Some(partial), _) => fs::hard_link(&path, partial),
            (None, Old::None) => fs::remove_file(&path),
            (None, _) => Ok(()),
        };
        if let (Ok(()), Old::There(Some(old))) = (taken, old) {
            let _ = old.persist(&path);
        }
    }
}

/// A second, temporary name for a file.
fn linked(path: &Path) -> Option<TempPath> {
    temporary(path, |link| fs::hard_link(path, link)).ok()
}

/// A temporary name beside `path`, which `link` makes.
fn temporary(path: &Path, link: impl FnMut(&Path) -> io::Result<()>) -> io::Result<TempPath> {
    let prefix = stale::prefix(path).ok_or(io::ErrorKind::InvalidFilename)?;
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(stale::SUFFIX).rand_bytes(stale::RANDOM);
    Ok(builder.make_in(folder(path), link)?.into_temp_path())
}

/// Files without a name, which the system removes with the process.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::{FdFlags, fcntl_setfd};

    /// A file in a directory, if the file system supports it and the file can be opened by its descriptor. It is locked like one with a temporary name, so that it is
    /// in use once it has one.
    pub fn create(folder: &Path) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
        let _ = file.lock();
        path_of(&file).exists().then_some(file)
    }

    /// The path of a descriptor, in this process and in those that inherit it.
    pub fn path_of(file: &File) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }

    /// Gives the file a name that no other file has.
    pub fn link(file: &File, name: &Path) -> io::Result<()> {
        Ok(linkat(CWD, path_of(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// The file, opened for reading, which processes that are started from now on inherit.
    pub fn inherited(file: &File) -> io::Result<File> {
        let file = File::open(path_of(file))?;
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(file)
    }
}

/// Renames a complete file to its final name.
#[cfg(not(windows))]
fn give_name(temp: TempPath, path: &Path, replace: bool) -> Result<(), PathPersistError> {
    if replace { temp.persist(path) } else { temp.persist_noclobber(path) }
}

/// Renames a complete file to its final name. The rename of the standard library can replace a file while another program reads it, if
/// that program and the file system allow it; otherwise, this waits a second for that program.
#[cfg(windows)]
fn give_name(mut temp: TempPath, path: &Path, replace: bool) -> Result<(), PathPersistError> {
    if !replace {
        return temp.persist_noclobber(long_form(path.to_owned()));
    }
    let mut waits = 20;
    loop {
        match fs::rename(&temp, path) {
            Ok(()) => {
                temp.disable_cleanup(true);
                return Ok(());
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied && waits > 0 => {
                waits -= 1;
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            Err(error) => return Err(PathPersistError { error, path: temp }),
        }
    }
}

/// The form of a path that may have more than 260 bytes on Windows; elsewhere the path itself. The standard library does this for its own
/// functions.
fn long_form(path: PathBuf) -> PathBuf {
    match (path.file_name(), folder(&path).canonicalize()) {
        (Some(name), Ok(folder)) if cfg!(windows) => folder.join(name),
        _ => path,
    }
}

/// Why Windows has no files with that name. It reads `con.gguf` as the console, and writes to `m:v2.gguf` as a hidden part of `m`.
///
/// Source: "Naming Files, Paths, and Namespaces" in the documentation of the Win32 API.
fn forbidden(name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_numbered = |device: &str| {
        let number =
            stem.strip_prefix(device).and_then(|rest| rest.chars().next().filter(|c| c.len_utf8() == rest.len()));
        number.is_some_and(|number| "123456789¹²³".contains(number))
    };
    if let Some(c) = name.chars().find(|c| "<>:\"/\\|?*".contains(*c) || c.is_ascii_control()) {
        Some(format!("Windows does not allow {c:?} in file names"))
    } else if ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str())
        || ["COM", "LPT"].into_iter().any(is_numbered)
    {
        Some(format!("{stem} is the name of a device on Windows"))
    } else if name.ends_with(['.', ' ']) {
        Some("Windows removes dots and spaces at the end of file names".to_owned())
    } else {
        None
    }
}

/// Gives a temporary file the name of `old`, if `old` still has it.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn replace(temp: TempPath, old: ModelFile, path: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let exchange = || renameat_with(CWD, &*temp, CWD, path, RenameFlags::EXCHANGE);
    // The old file gets a temporary name, and must not look abandoned. Other processes lock no file that has its final name.
    let _locked = old.as_file().map(File::try_lock);
    if !old.as_file().is_some_and(|old| is_still(old, path)) {
        return Ok(false);
    }
    match exchange() {
        Ok(()) if old.as_file().is_some_and(|old| is_still(old, &temp)) => Ok(true),
        // Another program has given the name to another file, which gets it back.
        Ok(()) => exchange().map(|()| false).map_err(io::Error::from),
        // The file was removed or renamed.
        Err(Errno::NOENT) => Ok(false),
        // Some file systems cannot exchange names.
        Err(_) => replace_if_same(temp, old, path),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn replace(temp: TempPath, old: ModelFile, path: &Path) -> io::Result<bool> {
    replace_if_same(temp, old, path)
}

/// Like [`replace`], in two steps: another program could give the name to another file between them.
fn replace_if_same(temp: TempPath, old: ModelFile, path: &Path) -> io::Result<bool> {
    let is_same = old.as_file().is_some_and(|old| is_still(old, path));
    drop(old);
    match is_same {
        true => give_name(temp, path, true).map(|()| true).map_err(|e| e.error),
        false => Ok(false),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_forbids() {
        for name in [
            "con",
            "CON.gguf",
            "nul .txt",
            "Com1",
            "lpt9.gguf",
            "COM¹",
            "a:b.gguf",
            "a\\b",
            "a?",
            "a\n",
            "m.gguf.",
            "m ",
            "conin$",
        ] {
            assert!(forbidden(name).is_some(), "{name}");
        }
        for name in
            ["m.gguf", "console.gguf", "com.gguf", "com0", "com10", "lptx", "ü.gguf", ".gguf", "a b.gguf", "m.nul"]
        {
            assert_eq!(forbidden(name), None, "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_system_says_is_kept() {
        // Too many open files: an error kind without a name.
        let error = plain(io::Error::from_raw_os_error(24), Path::new("/")).to_string();
        assert!(error.contains("Too many open files"), "{error}");
        let error = Output::create("/proc/model.gguf", false).unwrap_err().to_string();
        assert!(error.contains("os error"), "{error}");
        let error = Output::create("/proc/none/model.gguf", false).unwrap_err().to_string();
        assert!(error.ends_with("there is no folder /proc/none"), "{error}");
    }
}
