//! Sources of tensor data.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use gguf_format::ByteOrder;
use gguf_io::{ModelFile, ReadAt};

use crate::error::Error;

/// Tensors that can be read at any position, from many threads at once.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [8], gguf_format::GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 32]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_pipeline::{Draft, Error, MemorySink, RunOptions, Source};
///
/// /// Fills every tensor with the same byte.
/// #[derive(Debug)]
/// struct Filled;
///
/// impl Source for Filled {
///     fn read(&self, _index: usize, _offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
///         buffer.fill(0x3c);
///         Ok(())
///     }
/// }
///
/// let mut draft = Draft::copy_of(model)?;
/// draft.source = std::sync::Arc::new(Filled);
/// let mut sink = MemorySink::new();
/// draft.lay_out()?.run_to(&mut sink, &RunOptions::default(), &())?;
/// assert!(sink.into_outputs()[0].ends_with(&[0x3c; 32]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Source: Send + Sync + fmt::Debug {
    /// Fills `buffer` with the little-endian bytes of tensor `index` starting at `offset`, the start of a block.
    ///
    /// # Errors
    /// [`Error::OutOfTensor`] if the tensor has fewer bytes, and errors of the system.
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;

    /// As [`read`](Source::read), which is the default, for a vector. A source may exchange it for one that has the bytes, of the same length;
    /// see [`ReadAt::read_vec_at`](gguf_io::ReadAt::read_vec_at).
    ///
    /// # Errors
    /// As for [`read`](Source::read).
    fn read_vec(&self, index: usize, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.read(index, offset, buffer)
    }

    /// The place of tensor `index` in a GGUF file; `None`, which is the default, if it is not in one. A tensor that changes neither type
    /// nor byte order is then copied between files.
    fn stored(&self, _index: usize) -> Option<Stored<'_>> {
        None
    }

    /// The place of tensor `index` in a file, if its bytes there are those that [`read`](Source::read) gives, apart from the byte order. Work
    /// that is [divided among machines](crate::fleet) needs the places of all tensors. By default, that of a tensor that is
    /// [stored](Source::stored) in a GGUF file, and none otherwise.
    fn place(&self, index: usize) -> Option<FilePlace> {
        let stored = self.stored(index)?;
        let start = stored.file.start().checked_add(stored.start)?;
        let range = start..start.checked_add(stored.bytes)?;
        Some(FilePlace { path: stored.file.path().to_owned(), range, order: stored.file.gguf().dialect().order })
    }

    /// The reads of files that [`read`](Source::read) makes for the bytes `range` of tensor `index`, in order; see
    /// [`Plan::reads`](crate::Plan::reads). By default, that of a tensor that is [stored](Source::stored) in a GGUF file, and none otherwise.
    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        let read = |stored: Stored<'_>| {
            let at = |offset: u64| stored.file.start().saturating_add(stored.start).saturating_add(offset);
            SourceRead::new(stored.file.path(), at(range.start)..at(range.end))
        };
        self.stored(index).map(read).into_iter().collect()
    }

    /// Checks that the data is still that from when the source was opened. A run calls this before it gives its files their names. By
    /// default, nothing is checked.
    ///
    /// # Errors
    /// [`gguf_io::Error::Changed`] as the [cause](Error::Input), and errors of the system.
    fn check_unchanged(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The versions of files that are not local; see [`ReadAt::version`](gguf_io::ReadAt::version). A run continues an earlier one only if all
    /// are the same. By default, there are none.
    fn versions(&self) -> Vec<SourceVersion> {
        Vec::new()
    }
}

/// The version of a file that is not local.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceVersion {
    /// The name of the file.
    pub path: PathBuf,
    /// The length in bytes.
    pub bytes: u64,
    /// What [`ReadAt::version`](gguf_io::ReadAt::version) says.
    pub version: String,
}

impl SourceVersion {
    /// The version of a file; `None` for a local one.
    pub fn of(path: impl Into<PathBuf>, source: &(impl ReadAt + ?Sized)) -> Option<SourceVersion> {
        Some(SourceVersion::new(path, source.size().unwrap_or(0), source.version()?))
    }

    /// The version of a file.
    pub fn new(path: impl Into<PathBuf>, bytes: u64, version: impl Into<String>) -> SourceVersion {
        SourceVersion { path: path.into(), bytes, version: version.into() }
    }
}

/// The place of a tensor's data in a file.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The file. The data has its byte order.
    pub file: &'a ModelFile,
    /// Offset of the data, from the start of the GGUF.
    pub start: u64,
    /// Size of the data.
    pub bytes: u64,
}

/// The place of a tensor in a file of any format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePlace {
    /// The path of the file, or its given name.
    pub path: PathBuf,
    /// The bytes, from the start of the file.
    pub range: Range<u64>,
    /// Their byte order.
    pub order: ByteOrder,
}

impl FilePlace {
    /// The bytes `range` of a file, in little-endian order.
    pub fn new(path: impl Into<PathBuf>, range: Range<u64>) -> FilePlace {
        FilePlace { path: path.into(), range, order: ByteOrder::Little }
    }
}

/// A read of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceRead {
    /// The path of the file, or its given name.
    pub path: PathBuf,
    /// The bytes, from the start of the file.
    pub range: Range<u64>,
}

impl SourceRead {
    /// A read of the bytes `range` of a file.
    pub fn new(path: impl Into<PathBuf>, range: Range<u64>) -> SourceRead {
        SourceRead { path: path.into(), range }
    }
}
