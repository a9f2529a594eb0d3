//! A model on standard input, of which only the head is read.

use std::io::{self, Read};
use std::path::Path;

use gguf_format::HeadScan;
use gguf_io::{Error, MODEL_LIMITS, ModelFile, ReadAt, read_head_with};

use crate::failure::Failure;

/// The name of standard input in messages.
pub const NAME: &str = "standard input";

/// Whether an argument stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// A model whose head was read, and its length in bytes according to the head.
#[derive(Debug)]
struct HeadOnly {
    head: Vec<u8>,
    bytes: u64,
}

impl ReadAt for HeadOnly {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.head.get(start..start.checked_add(buf.len())?));
        match bytes {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    /// What there is of them: the head.
    fn stream(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(Box::new(self.head.get(start..).unwrap_or_default()))
    }
}

/// Reads the head of the model on standard input, and no more. The size of the file is what the head says.
///
/// # Errors
/// When it cannot be read, or is not the head of a GGUF.
pub fn open() -> Result<ModelFile, Failure> {
    let failed = |source| Error::Io { path: NAME.into(), action: "read", source };
    let scan = HeadScan::new(None).within(MODEL_LIMITS);
    let read = read_head_with(&mut io::stdin().lock(), scan, |_, _| Ok::<_, io::Error>(())).map_err(failed)?;
    let head = read.bytes().to_vec();
    let gguf = read.into_gguf().map_err(|e| Error::Head { path: NAME.into(), source: Box::new(e) })?;
    let ends = gguf.tensors().filter_map(|t| Some(gguf.tensor_range(&t).ok()?.end));
    let bytes = ends.max().unwrap_or(0).max(head.len() as u64);
    Ok(ModelFile::from_reader(HeadOnly { head, bytes }, NAME)?)
}
