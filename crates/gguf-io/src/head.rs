//! Reading a head from a stream.

use std::io::{self, Read};

use gguf_format::{Gguf, HeadScan, ScanState};

use crate::buffer::Buffer;

/// The head of a stream, as far as it was read.
#[non_exhaustive]
#[derive(Debug)]
pub struct HeadRead {
    bytes: Buffer,
    /// The extent of the valid bytes.
    pub scan: HeadScan,
    /// The error that ended reading, if the head is incomplete.
    pub error: Option<gguf_format::Error>,
}

impl HeadRead {
    /// The bytes of the head; all bytes read, if it is not complete.
    pub fn bytes(&self) -> &[u8] {
        self.parts().0
    }

    /// The bytes after the head that were read with it: the start of the data.
    pub fn surplus(&self) -> &[u8] {
        self.parts().1
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes.as_ref();
        match self.error {
            None => {
                let head = usize::try_from(self.scan.head_bytes()).ok();
                head.and_then(|head| bytes.split_at_checked(head)).unwrap_or((bytes, &[]))
            }
            Some(_) => (bytes, &[]),
        }
    }

    /// The parsed head.
    ///
    /// # Errors
    /// The error that ended reading, or an invalid alignment.
    pub fn into_gguf(mut self) -> Result<Gguf<'static>, gguf_format::Error> {
        self.bytes.cut(self.scan.head_bytes());
        match (self.error, self.bytes) {
            (Some(error), _) => Err(error),
            (None, Buffer::Vector(bytes)) => Gguf::from_scan(bytes, &self.scan),
            #[cfg(feature = "fs")]
            (None, memory @ Buffer::Memory(_)) => {
                Gguf::from_scan(gguf_format::HeadBytes::Shared(std::sync::Arc::new(memory)), &self.scan)
            }
        }
    }
}

/// Reads a head from a stream in pieces, into memory that at most doubles: large claims in a small file allocate little. `total` is the
/// length of the whole stream, if known.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.set("general.architecture", "llama");
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [[0u8; 0]; 0]).unwrap();
/// // A stream of unknown length, such as a download or a pipe.
/// let mut stream = bytes.as_slice();
/// let gguf = gguf_io::read_head(&mut stream, None)?.into_gguf()?;
/// assert_eq!(gguf.get_as::<&str>("general.architecture")?, "llama");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Errors of the reader; problems of the head are in [`HeadRead::error`].
pub fn read_head(reader: &mut impl Read, total: Option<u64>) -> io::Result<HeadRead> {
    read_head_with(reader, HeadScan::new(total), |_, _| Ok(()))
}

/// As [`read_head`], with a new scan. After each piece `look` gets the bytes so far and the progress of the scan, and may reject the rest.
///
/// # Errors
/// If the reader or `look` fails; [`io::ErrorKind::OutOfMemory`] if memory is not available.
pub fn read_head_with<E: From<io::Error>>(
    reader: &mut impl Read,
    mut scan: HeadScan,
    mut look: impl FnMut(&[u8], &HeadScan) -> Result<(), E>,
) -> Result<HeadRead, E> {
    let mut bytes = Buffer::new(scan.total());
    let error = loop {
        let ended = bytes.fill(reader, scan.least_bytes())?;
        match scan.advance(bytes.as_ref()) {
            Ok(ScanState::Complete) => break None,
            Ok(ScanState::Need(_)) if ended => break scan.end(bytes.as_ref()).err(),
            Ok(ScanState::Need(_)) => look(bytes.as_ref(), &scan)?,
            Err(error) => break Some(error),
        }
    };
    Ok(HeadRead { bytes, scan, error })
}
