//! One GGUF file, opened.

use std::fmt;
use std::fs::File;
#[cfg(feature = "fs")]
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use gguf_format::{Gguf, HeadScan, Limits};

use crate::pieces::has_at;
use crate::tensor::{Tensor, nearest};
use crate::{Error, ReadAt, read_head_with};
#[cfg(feature = "fs")]
use crate::{Map, in_place};

/// Limits for heads of models: some hundred times the tensors and key-value pairs of the largest models, and the lengths of strings and
/// arrays that ggml accepts.
pub const MODEL_LIMITS: Limits = Limits {
    tensors: 1 << 18,
    kvs: 1 << 18,
    string_bytes: 1 << 30,
    name_bytes: u64::MAX,
    elements: 1 << 30,
    levels: usize::MAX,
    dims: u32::MAX,
};

/// An open GGUF file from any source of bytes. The head is on the heap, so it cannot change after its check; tensor data stays in the
/// source and is read on demand.
///
/// ```
/// # fn main() -> Result<(), gguf_io::Error> {
/// # let mut head = gguf_format::Head::default();
/// # head.set("general.architecture", "llama");
/// # head.tensors = vec![gguf_format::TensorInfo::new("output_norm.weight", [4], gguf_format::GgmlType::F32)];
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 16]]).unwrap();
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.gguf");
/// # std::fs::write(&path, bytes).unwrap();
/// use gguf_io::ModelFile;
///
/// let file = ModelFile::open(&path)?;
/// assert_eq!(file.gguf().get_as::<&str>("general.architecture"), Ok("llama"));
/// for tensor in file.tensors() {
///     println!("{} {:?} {}", tensor.name(), tensor.shape().collect::<Vec<_>>(), tensor.ty());
/// }
/// let norm = file.tensor("output_norm.weight")?.to_f32()?;
/// assert_eq!(norm.len(), 4);
/// # Ok(()) }
/// ```
pub struct ModelFile {
    path: PathBuf,
    source: Box<dyn ReadAt>,
    start: u64,
    file_bytes: u64,
    gguf: Gguf<'static>,
    /// The state of the source, if it is a file, before its head was read.
    state: Option<FileState>,
    /// The indexes of the tensors, sorted by name; made by the first look-up.
    by_name: OnceLock<Box<[u32]>>,
}

#[cfg(feature = "fs")]
/// The maximum number of times that a head is read while other processes edit the file.
const ATTEMPTS: usize = 10;

#[cfg(feature = "fs")]
impl ModelFile {
    /// Opens a file and parses its head.
    /// An interrupted edit [in place](in_place) is completed first.
    ///
    /// # Errors
    /// [`Error::Io`] from the operating system, [`Error::NotAFile`] for a folder, pipe or device, [`Error::Head`] when the
    /// head cannot be read, or is over [`MODEL_LIMITS`]. [`Error::Unfinished`], [`Error::OtherJournal`] and [`Error::Busy`]: see
    /// [`in_place::finish`].
    pub fn open(path: impl AsRef<Path>) -> Result<ModelFile, Error> {
        ModelFile::open_at(path, 0)
    }

    /// Opens a GGUF that starts at byte `start` of a larger file and extends to its end. All offsets and the alignment are relative to
    /// `start`.
    ///
    /// # Errors
    /// See [`open`](ModelFile::open).
    pub fn open_at(path: impl AsRef<Path>, start: u64) -> Result<ModelFile, Error> {
        let (path, head) = (path.as_ref(), ModelFile::open_unedited(path.as_ref(), start)?);
        let OpenHead { file, state, gguf, file_bytes } = head;
        Ok(ModelFile::new(path.to_owned(), Box::new(file), start, file_bytes, gguf, state))
    }

    /// Opens a file and reads its head, again if an edit in place begins in the meantime.
    fn open_unedited(path: &Path, start: u64) -> Result<OpenHead, Error> {
        let mut attempts = 0;
        loop {
            in_place::finish(path)?;
            let file = Opened(open_regular(path)?);
            let state = FileState::of(&file.0).ok();
            let head = read(&file, start, path);
            attempts += 1;
            let is_unedited = !in_place::may_be_edited(path) && FileState::of(&file.0).ok() == state;
            if is_unedited || attempts == ATTEMPTS {
                let (gguf, file_bytes) = head?;
                return Ok(OpenHead { file, state, gguf, file_bytes });
            }
        }
    }

    /// As [`open`](ModelFile::open), with tensor data mapped into memory, so that it can be borrowed instead of read: [`Tensor::as_bytes`],
    /// [`Tensor::as_slice`].
    ///
    /// # Errors
    /// See [`open`](ModelFile::open); also when the system cannot map the file.
    ///
    /// # Safety
    /// As for [`Map::new`]: while the file is open here, nothing may write to it or truncate it.
    #[allow(unsafe_code, reason = "passes the contract of a map on")]
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<ModelFile, Error> {
        // The head is read, which is faster than copying it from newly mapped pages.
        let (path, head) = (path.as_ref(), ModelFile::open_unedited(path.as_ref(), 0)?);
        let OpenHead { file, state, gguf, file_bytes } = head;
        // SAFETY: guaranteed by the caller.
        let map = unsafe { Map::new(&file.0) }.map_err(Error::io(path, "map"))?;
        Ok(ModelFile::new(path.to_owned(), Box::new(map), 0, file_bytes, gguf, state))
    }
}

impl ModelFile {
    fn new(
        path: PathBuf,
        source: Box<dyn ReadAt>,
        start: u64,
        file_bytes: u64,
        gguf: Gguf<'static>,
        state: Option<FileState>,
    ) -> ModelFile {
        ModelFile { path, source, start, file_bytes, gguf, state, by_name: OnceLock::new() }
    }

    /// Opens a GGUF in any source of bytes: an open file, memory, a [`Map`], a remote object. `name` identifies it in messages;
    /// [`path`](ModelFile::path) returns it, but it is never opened.
    ///
    /// ```
    /// # fn main() -> Result<(), gguf_io::Error> {
    /// # let bytes = gguf_io::Writer::write(Vec::new(), &gguf_format::Head::default(), [[0u8; 0]; 0]).unwrap();
    /// let file = gguf_io::ModelFile::from_source(bytes, "model in memory")?;
    /// assert_eq!(file.gguf().n_tensors(), 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] from the source, [`Error::NotAFile`] for an open folder, pipe or device, [`Error::Head`] when the head cannot be read.
    pub fn from_source(source: impl ReadAt + 'static, name: impl Into<PathBuf>) -> Result<ModelFile, Error> {
        ModelFile::from_source_at(source, 0, name)
    }

    /// As [`from_source`](ModelFile::from_source), for a GGUF that starts at byte `start` and extends to the end of the source.
    ///
    /// # Errors
    /// See [`from_source`](ModelFile::from_source).
    pub fn from_source_at(
        source: impl ReadAt + 'static,
        start: u64,
        name: impl Into<PathBuf>,
    ) -> Result<ModelFile, Error> {
        let path = name.into();
        // A pipe does not support positioned reads.
        if let Some(file) = source.as_file()
            && !file.metadata().map_err(Error::io(&path, "read"))?.is_file()
        {
            return Err(Error::NotAFile(path));
        }
        let state = source.as_file().and_then(|file| FileState::of(file).ok());
        let (gguf, file_bytes) = read(&source, start, &path)?;
        Ok(ModelFile::new(path, Box::new(source), start, file_bytes, gguf, state))
    }

    /// Uses a head that was read elsewhere, such as by an asynchronous reader with [`HeadScan`] and [`Gguf::from_scan`], and the source
    /// of the file, for the data. Nothing is read. `name` identifies it in messages.
    ///
    /// ```
    /// # let mut head = gguf_format::Head::default();
    /// # head.tensors = vec![gguf_format::TensorInfo::new("norm", [2], gguf_format::GgmlType::F32)];
    /// # let file = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 8]]).unwrap();
    /// use gguf_format::{Gguf, HeadScan, ScanState};
    /// use gguf_io::ModelFile;
    ///
    /// let mut scan = HeadScan::new(Some(file.len() as u64));
    /// assert_eq!(scan.advance(&file)?, ScanState::Complete);
    /// let gguf = Gguf::from_scan(file[..scan.head_bytes() as usize].to_vec(), &scan)?;
    /// let model = ModelFile::from_head(gguf, file, "model in memory")?;
    /// assert_eq!(model.tensor("norm")?.to_f32()?, [0.0; 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the size of the source is unknown.
    pub fn from_head(
        gguf: Gguf<'static>,
        source: impl ReadAt + 'static,
        name: impl Into<PathBuf>,
    ) -> Result<ModelFile, Error> {
        let path = name.into();
        let file_bytes = source.size().map_err(Error::io(&path, "read"))?;
        Ok(ModelFile::new(path, Box::new(source), 0, file_bytes, gguf, None))
    }

    /// The path of the file, or its given name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The head.
    pub fn gguf(&self) -> &Gguf<'static> {
        &self.gguf
    }

    /// Bytes from the start of the GGUF to the end of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The offset of the GGUF in its file or source; not 0 after [`open_at`](ModelFile::open_at).
    pub fn start(&self) -> u64 {
        self.start
    }

    #[cfg(any(feature = "fs", feature = "quants"))]
    pub(crate) fn source(&self) -> &dyn ReadAt {
        &*self.source
    }

    /// The open file; `None` for other sources.
    pub fn as_file(&self) -> Option<&File> {
        self.source.as_file()
    }

    /// Checks that the file has not changed since it was opened: its length, time of modification and head. A program that has copied data
    /// from it calls this at the end. Sources that are not files are not checked.
    ///
    /// # Errors
    /// [`Error::Changed`]; [`Error::Io`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        let Some(file) = self.as_file() else { return Ok(()) };
        let has_head = || has_at(file, self.start, self.gguf.bytes()).map_err(Error::io(&self.path, "read"));
        match FileState::of(file).ok() == self.state && has_head()? {
            true => Ok(()),
            false => Err(Error::Changed(self.path.clone())),
        }
    }

    /// What distinguishes the bytes of a remote file from those at other times; see [`ReadAt::version`].
    pub fn version(&self) -> Option<String> {
        self.source.version()
    }

    /// Fills `buf` with the bytes at `offset`, from the start of the GGUF.
    ///
    /// # Errors
    /// [`Error::Io`], also when the file ends before `buf` is full.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let pos = self.start.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof.into());
        pos.and_then(|pos| self.source.read_exact_at(pos, buf)).map_err(Error::io(&self.path, "read"))
    }

    /// As [`read_at`](ModelFile::read_at), for a vector; see [`ReadAt::read_vec_at`].
    ///
    /// # Errors
    /// As for [`read_at`](ModelFile::read_at).
    pub fn read_vec_at(&self, offset: u64, buf: &mut Vec<u8>) -> Result<(), Error> {
        let pos = self.start.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof.into());
        pos.and_then(|pos| self.source.read_vec_at(pos, buf)).map_err(Error::io(&self.path, "read"))
    }

    /// The `n` bytes at `offset`, from the start of the GGUF, if the source is in memory and long enough.
    pub(crate) fn bytes_at(&self, offset: u64, n: u64) -> Option<&[u8]> {
        let start = usize::try_from(self.start.checked_add(offset)?).ok()?;
        self.source.as_bytes()?.get(start..)?.get(..usize::try_from(n).ok()?)
    }

    /// The index in the head of the first tensor with that name. The first look-up sorts the names.
    pub fn index_of(&self, name: &str) -> Option<u64> {
        let name_of = |index: u32| self.gguf.tensor_by_index(index.into()).map(|info| info.name.as_bytes());
        let by_name = self.by_name.get_or_init(|| {
            let n_tensors = u32::try_from(self.gguf.n_tensors()).unwrap_or(u32::MAX);
            let mut indexes: Box<[u32]> = (0..n_tensors).collect();
            // A stable sort: of equal names, the first in the head comes first.
            indexes.sort_by_key(|&index| name_of(index));
            indexes
        });
        let at = by_name.partition_point(|&index| name_of(index) < Some(name.as_bytes()));
        let found = by_name.get(at).filter(|&&index| name_of(index) == Some(name.as_bytes()));
        found.map(|&index| index.into())
    }

    /// The first tensor with that name.
    ///
    /// # Errors
    /// [`Error::NoTensor`], with similar tensor names.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, Error> {
        match self.index_of(name).and_then(|index| self.tensor_by_index(index)) {
            Some(tensor) => Ok(tensor),
            None => Err(Error::NoTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                nearest: nearest(name, self.gguf.tensors().map(|t| t.name)),
            }),
        }
    }

    /// The tensor with that index in the head.
    pub fn tensor_by_index(&self, index: u64) -> Option<Tensor<'_>> {
        Some(Tensor::new(self, self.gguf.tensor_by_index(index)?))
    }

    /// All tensors, in the order of the head.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> + DoubleEndedIterator + Clone {
        self.gguf.tensors().map(move |info| Tensor::new(self, info))
    }
}

impl fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the source, which may be gigabytes of memory.
        f.debug_struct("ModelFile")
            .field("path", &self.path)
            .field("start", &self.start)
            .field("file_bytes", &self.file_bytes)
            .field("gguf", &self.gguf)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "fs")]
/// A file and its head, read while no edit in place was in progress.
struct OpenHead {
    file: Opened,
    /// The state before the head was read.
    state: Option<FileState>,
    gguf: Gguf<'static>,
    file_bytes: u64,
}

#[cfg(feature = "fs")]
/// A file opened by this crate. Its debug form is never shown, because [`ModelFile`] omits it; that of [`File`] would add 3 KB to each program.
struct Opened(File);

#[cfg(feature = "fs")]
impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

#[cfg(feature = "fs")]
impl ReadAt for Opened {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.0)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buf)
    }
}

/// What shows a change of a file: its length, and the time of its last modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    /// The current state of an open file.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn of(file: &File) -> io::Result<FileState> {
        let there = file.metadata()?;
        Ok(FileState { bytes: there.len(), modified: there.modified().ok() })
    }
}

#[cfg(feature = "fs")]
/// Opens a regular file for reading. The file type is checked after opening, which prevents races, and opening a pipe never blocks.
///
/// # Errors
/// [`Error::NotAFile`] for a folder, pipe or device; [`Error::Io`].
pub fn open_regular(path: impl AsRef<Path>) -> Result<File, Error> {
    let path = path.as_ref();
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let is_other = || std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    match options.open(path) {
        Ok(file) if file.metadata().map_err(Error::io(path, "open"))?.is_file() => Ok(file),
        Ok(_) => Err(Error::NotAFile(path.to_owned())),
        Err(_) if is_other() => Err(Error::NotAFile(path.to_owned())),
        Err(e) => Err(Error::io(path, "open")(e)),
    }
}

/// The head at byte `start` of a source, and the number of bytes from there.
fn read(source: &dyn ReadAt, start: u64, path: &Path) -> Result<(Gguf<'static>, u64), Error> {
    let file_bytes = source.size().map_err(Error::io(path, "read"))?.saturating_sub(start);
    let scan = HeadScan::new(Some(file_bytes)).within(MODEL_LIMITS);
    let head = source.stream(start).and_then(|mut stream| read_head_with(&mut stream, scan, |_, _| Ok(())));
    let head = head.map_err(Error::io(path, "read"))?;
    let gguf = head.into_gguf().map_err(|source| Error::Head { path: path.to_owned(), source: Box::new(source) })?;
    Ok((gguf, file_bytes))
}
