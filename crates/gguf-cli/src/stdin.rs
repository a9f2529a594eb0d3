//! A model on standard input.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gguf_format::HeadScan;
use gguf_io::{Error, MODEL_LIMITS, ModelFile, ReadAt, read_head_with};

use crate::failure::Failure;

/// The name of standard input in messages.
pub const NAME: &str = "standard input";

/// Whether an argument stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// A model on standard input. The head has been read, and the data follows.
#[derive(Debug)]
struct Piped {
    /// The head, and any data read along with it.
    start: Vec<u8>,
    /// The size of the file according to the head.
    bytes: u64,
    /// The number of bytes read so far.
    position: Mutex<u64>,
}

impl ReadAt for Piped {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    /// Reads forward only: bytes before the offset are skipped and cannot be read later.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let n = self.stream(offset)?.read(buf)?;
        let rest = buf.get_mut(n..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        let offset = offset.saturating_add(n as u64);
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(skipped) = offset.checked_sub(*position) else {
            return Err(io::Error::other(
                "the tensor data is not in order and cannot be read from a pipe; save it to a file",
            ));
        };
        let mut stdin = io::stdin().lock();
        *position += io::copy(&mut (&mut stdin).take(skipped), &mut io::sink())?;
        let mut filled = 0;
        while let Some(free @ [_, ..]) = rest.get_mut(filled..) {
            match stdin.read(free) {
                Ok(0) => {
                    let problem = format!(
                        "truncated: {} of at least {} bytes; fetch it again",
                        *position,
                        offset + rest.len() as u64
                    );
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
                }
                Ok(n) => {
                    filled += n;
                    *position += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Streams only the bytes that were read along with the head.
    fn stream(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(Box::new(self.start.get(start..).unwrap_or_default()))
    }
}

/// Opens the model on standard input. Only its head is read; tensor data can be read once, in file order.
///
/// # Errors
/// If standard input cannot be read, or is not the head of a GGUF file.
pub fn open() -> Result<ModelFile, Failure> {
    let failed = |source| Error::Io { path: NAME.into(), action: "read", source };
    let scan = HeadScan::new(None).within(MODEL_LIMITS);
    let read = read_head_with(&mut io::stdin().lock(), scan, |_, _| Ok::<_, io::Error>(())).map_err(failed)?;
    let start = [read.bytes(), read.surplus()].concat();
    let gguf = read.into_gguf().map_err(|e| Error::Head { path: NAME.into(), source: Box::new(e) })?;
    let ends = gguf.tensors().filter_map(|t| Some(gguf.tensor_range(&t).ok()?.end));
    let bytes = ends.max().unwrap_or(0).max(start.len() as u64);
    let position = Mutex::new(start.len() as u64);
    Ok(ModelFile::from_source(Piped { start, bytes, position }, NAME)?)
}
