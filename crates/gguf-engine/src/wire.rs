//! Messages between processes: a length, then fields in the byte order of x86.

use std::io::{self, Read, Write};

/// The longest message: 64 GiB, far above the scores of a batch.
const LONGEST: u64 = 1 << 36;

/// A message that is written.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Starts a message with its kind.
    pub fn new(kind: u8) -> Message {
        Message(vec![kind])
    }

    /// Whether the message is of a kind.
    pub fn is(&self, kind: u8) -> bool {
        self.0.first() == Some(&kind)
    }

    /// Adds a number.
    pub fn number(mut self, n: u64) -> Message {
        self.0.extend(n.to_le_bytes());
        self
    }

    /// Adds counts, with their number.
    pub fn numbers(self, counts: &[i64]) -> Message {
        let message = self.number(counts.len() as u64);
        counts.iter().fold(message, |message, count| message.number(count.unsigned_abs()))
    }

    /// Adds bytes, with their length.
    pub fn bytes(self, bytes: &[u8]) -> Message {
        let mut message = self.number(bytes.len() as u64);
        message.0.extend_from_slice(bytes);
        message
    }

    /// Adds numbers of 32 bits, with their count.
    pub fn words(self, words: impl ExactSizeIterator<Item = [u8; 4]>) -> Message {
        let mut message = self.number(words.len() as u64);
        message.0.extend(words.flatten());
        message
    }

    /// Sends the message.
    pub fn send(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&(self.0.len() as u64).to_le_bytes())?;
        out.write_all(&self.0)?;
        out.flush()
    }
}

/// A message that is read.
#[derive(Debug)]
pub struct Received {
    bytes: Vec<u8>,
    at: usize,
}

/// Receives a message; `None` at the end of the stream.
pub fn receive(from: &mut impl Read) -> io::Result<Option<Received>> {
    let mut length = [0; 8];
    let mut filled = 0;
    while filled < length.len() {
        match from.read(length.get_mut(filled..).unwrap_or_default()) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Received { bytes, at: 0 }))
}

fn short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message is too short")
}

impl Received {
    fn take(&mut self, n: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(n).ok_or_else(short)?;
        let bytes = self.bytes.get(self.at..end).ok_or_else(short)?;
        self.at = end;
        Ok(bytes)
    }

    /// Whether the message is of a kind, before anything is read of it.
    pub fn is(&self, kind: u8) -> bool {
        self.bytes.first() == Some(&kind)
    }

    /// The kind of the message.
    pub fn kind(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    /// A number.
    pub fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?.first_chunk().copied();
        bytes.map(u64::from_le_bytes).ok_or_else(short)
    }

    /// A number that fits a narrower type.
    pub fn narrow<T: TryFrom<u64>>(&mut self) -> io::Result<T> {
        T::try_from(self.number()?).map_err(|_| short())
    }

    /// Counts with their number.
    pub fn numbers(&mut self) -> io::Result<Vec<i64>> {
        let n = self.number()?;
        (0..n).map(|_| self.narrow()).collect()
    }

    /// Bytes with their length.
    pub fn bytes(&mut self) -> io::Result<&[u8]> {
        let length = self.narrow()?;
        self.take(length)
    }

    /// Bytes as text; invalid UTF-8 is replaced.
    pub fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// Numbers of 32 bits with their count.
    pub fn words<T>(&mut self, decode: impl Fn([u8; 4]) -> T) -> io::Result<Vec<T>> {
        let n: usize = self.narrow()?;
        let bytes = self.take(n.checked_mul(4).ok_or_else(short)?)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| decode(*word)).collect())
    }
}
