//! Buffered sequential reading of a byte range of a file.

use gguf_io::ReadAt;

use super::error::{PickleError, PickleProblem, TorchError};

/// Size of the buffer.
const PIECE: u64 = 64 << 10;

/// Reads a byte range of a file sequentially.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    source: &'a dyn ReadAt,
    /// The offset of the next byte in the file.
    at: u64,
    /// The offset of the end of the range.
    end: u64,
    piece: Vec<u8>,
    /// The offset of the buffer in the file.
    piece_at: u64,
}

impl<'a> Bytes<'a> {
    /// Reads the bytes from `at` to `end`, and none beyond `end`.
    pub(super) fn new(source: &'a dyn ReadAt, at: u64, end: u64) -> Bytes<'a> {
        Bytes { source, at, end, piece: Vec::new(), piece_at: at }
    }

    /// The offset of the next byte in the file.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The number of remaining bytes.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    fn truncated(&self, wanted: u64) -> TorchError {
        let problem = PickleProblem::Truncated { wanted, left: self.left() };
        PickleError { at: self.at, problem }.into()
    }

    /// Reads the next byte.
    pub(super) fn byte(&mut self) -> Result<u8, TorchError> {
        loop {
            let index = usize::try_from(self.at.wrapping_sub(self.piece_at)).unwrap_or(usize::MAX);
            if let Some(byte) = self.piece.get(index).filter(|_| self.at < self.end) {
                self.at += 1;
                return Ok(*byte);
            }
            let wanted = self.left().min(PIECE);
            if wanted == 0 {
                return Err(self.truncated(1));
            }
            self.piece.resize(wanted as usize, 0);
            self.piece_at = self.at;
            self.source.read_exact_at(self.at, &mut self.piece).map_err(TorchError::Io)?;
        }
    }

    /// Reads the next bytes into an array.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], TorchError> {
        if self.left() < N as u64 {
            return Err(self.truncated(N as u64));
        }
        let mut array = [0; N];
        for slot in &mut array {
            *slot = self.byte()?;
        }
        Ok(array)
    }

    /// Reads the next `n` bytes, after checking that they exist, before memory is allocated.
    pub(super) fn take(&mut self, n: u64) -> Result<Vec<u8>, TorchError> {
        if n > self.left() {
            return Err(self.truncated(n));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < n {
            bytes.push(self.byte()?);
        }
        Ok(bytes)
    }

    /// Skips the next `n` bytes.
    pub(super) fn skip(&mut self, n: u64) -> Result<(), TorchError> {
        if n > self.left() {
            return Err(self.truncated(n));
        }
        self.at += n;
        Ok(())
    }

    /// Reads the bytes up to the next line feed, and consumes the line feed. Names are short.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, TorchError> {
        const LONGEST: usize = 4096;
        let (start, mut line) = (self.at, Vec::new());
        loop {
            match self.byte()? {
                b'\n' => return Ok(line),
                byte if line.len() < LONGEST => line.push(byte),
                _ => return Err(PickleError { at: start, problem: PickleProblem::LongLine { max: LONGEST } }.into()),
            }
        }
    }
}
