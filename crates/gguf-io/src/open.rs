//! One GGUF file, opened.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gguf_format::{Gguf, HeadBytes, HeadScan, Progress, TensorInfoRef};

use crate::buffer::Buffer;
use crate::{Error, Map};

/// An open GGUF file. The head is on the heap, so it stays what it was when it was checked; the payload stays in the file
/// and is read in pieces or mapped.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    file: File,
    start: u64,
    file_bytes: u64,
    gguf: Gguf<'static>,
    map: OnceLock<Map>,
}

impl ModelFile {
    /// Opens a file and parses its head.
    ///
    /// # Errors
    /// [`Error::Io`] from the operating system, [`Error::Head`] when the head cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelFile, Error> {
        ModelFile::open_at(path, 0)
    }

    /// Opens a GGUF that starts at byte `start` of a larger file and reaches to its end. All offsets, and the alignment,
    /// count from there.
    ///
    /// # Errors
    /// See [`open`](ModelFile::open).
    pub fn open_at(path: impl AsRef<Path>, start: u64) -> Result<ModelFile, Error> {
        let path = path.as_ref();
        // Before opening: to open a pipe would wait for its other end.
        if !std::fs::metadata(path).map_err(Error::io(path, "open"))?.is_file() {
            return Err(Error::NotAFile(path.to_owned()));
        }
        let mut file = File::open(path).map_err(Error::io(path, "open"))?;
        let meta = file.metadata().map_err(Error::io(path, "read"))?;
        let file_bytes = meta.len().saturating_sub(start);
        file.seek(SeekFrom::Start(start)).map_err(Error::io(path, "read"))?;
        let head = read_head(&mut file, Some(file_bytes)).map_err(Error::io(path, "read"))?;
        let gguf =
            head.into_gguf().map_err(|source| Error::Head { path: path.to_owned(), source: Box::new(source) })?;
        Ok(ModelFile { path: path.to_owned(), file, start, file_bytes, gguf, map: OnceLock::new() })
    }

    /// The file's path, as it was opened.
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

    /// Fills `buf` with the bytes from `offset` (from the start of the GGUF) on.
    ///
    /// # Errors
    /// [`Error::Io`], also when the file ends before `buf` is full.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let pos = self.start.checked_add(offset).ok_or(io::ErrorKind::UnexpectedEof.into());
        pos.and_then(|pos| read_exact_at(&self.file, buf, pos)).map_err(Error::io(&self.path, "read"))
    }

    /// A tensor's data, mapped. See [`Map`] for what that means.
    ///
    /// # Errors
    /// [`Error::Tensor`] when the size is unknown or the file ends inside the data.
    pub fn tensor_data(&self, tensor: &TensorInfoRef<'_>) -> Result<&[u8], Error> {
        let bad = |problem: String| Error::Tensor { path: self.path.clone(), name: tensor.name.to_string(), problem };
        let range = self.gguf.tensor_range(tensor).map_err(|e| bad(e.to_string()))?;
        if range.end > self.file_bytes {
            return Err(bad(format!(
                "its data ends at byte {}, the file at byte {}; {} bytes are missing",
                range.end,
                self.file_bytes,
                range.end - self.file_bytes
            )));
        }
        let map = match self.map.get() {
            Some(map) => map,
            None => {
                let map = Map::new(&self.file).map_err(Error::io(&self.path, "map"))?;
                self.map.get_or_init(|| map)
            }
        };
        let at = |pos: u64| usize::try_from(self.start + pos).ok();
        at(range.start)
            .zip(at(range.end))
            .and_then(|(start, end)| map.get(start..end))
            .ok_or_else(|| bad("its data is no longer in the file, which got shorter".into()))
    }
}

/// The head of a stream, as far as it could be read.
#[derive(Debug)]
pub struct HeadRead {
    bytes: Buffer,
    /// How far the bytes are sound.
    pub scan: HeadScan,
    /// What stopped the reading, if the head is not whole.
    pub error: Option<gguf_format::Error>,
}

impl HeadRead {
    /// The bytes read; they end with the head, if it is whole.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The parsed head.
    ///
    /// # Errors
    /// What stopped the reading, or an unusable alignment.
    pub fn into_gguf(self) -> Result<Gguf<'static>, gguf_format::Error> {
        match (self.error, self.bytes) {
            (Some(error), _) => Err(error),
            (None, Buffer::Vector(bytes)) => Gguf::from_scan(bytes, &self.scan),
            (None, memory) => Gguf::from_scan(HeadBytes::Shared(Arc::new(memory)), &self.scan),
        }
    }
}

/// Reads a head from a stream in pieces, into memory that at most doubles, so that a file that promises much and holds
/// little costs little. `total` is the length of the whole stream, if known.
///
/// # Errors
/// The reader's; what is wrong with the head is in [`HeadRead::error`].
pub fn read_head(reader: &mut impl Read, total: Option<u64>) -> io::Result<HeadRead> {
    let mut scan = HeadScan::new(total);
    let mut bytes = Buffer::new(total);
    let error = loop {
        let ended = bytes.fill(reader)?;
        match scan.advance(bytes.as_ref()) {
            Ok(Progress::Complete) => break None,
            Ok(Progress::Need(_)) if ended => break scan.end(bytes.as_ref()).err(),
            Ok(Progress::Need(_)) => {}
            Err(error) => break Some(error),
        }
    };
    if error.is_none() {
        bytes.cut(scan.head_bytes());
    }
    Ok(HeadRead { bytes, scan, error })
}

#[cfg(unix)]
fn read_at(file: &File, buf: &mut [u8], pos: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, pos)
}

#[cfg(windows)]
fn read_at(file: &File, buf: &mut [u8], pos: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, pos)
}

/// Fills `buf` from a position of the file on, without moving the file's own on Unix.
///
/// # Errors
/// The system's; [`io::ErrorKind::UnexpectedEof`] when the file ends before `buf` is full.
pub fn read_exact_at(file: &File, mut buf: &mut [u8], mut pos: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match read_at(file, buf, pos) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buf = buf.get_mut(n..).unwrap_or_default();
                pos += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
