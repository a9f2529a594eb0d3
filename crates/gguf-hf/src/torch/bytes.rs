//! Bytes of a part of a file, one after the other, of which no more is in memory than a piece.

use gguf_io::ReadAt;

use super::error::{PickleError, PickleProblem, TorchError};

/// Bytes that are read at once.
const PIECE: u64 = 64 << 10;

/// The bytes of a part of a file, from the first to the last.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    source: &'a dyn ReadAt,
    /// The next byte, from the start of the file.
    at: u64,
    /// The end of the part.
    end: u64,
    piece: Vec<u8>,
    /// Where the piece starts.
    piece_at: u64,
}

impl<'a> Bytes<'a> {
    /// The bytes from `at` to `end`; no reading goes further.
    pub(super) fn new(source: &'a dyn ReadAt, at: u64, end: u64) -> Bytes<'a> {
        Bytes { source, at, end, piece: Vec::new(), piece_at: at }
    }

    /// The place of the next byte, from the start of the file.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    fn truncated(&self, wanted: u64) -> TorchError {
        let problem = PickleProblem::Truncated { wanted, left: self.left() };
        PickleError { at: self.at, problem }.into()
    }

    /// The next byte.
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

    /// The next bytes, as many as the array has.
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

    /// The next `n` bytes; checks that they exist before memory is reserved.
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

    /// Steps over the next `n` bytes.
    pub(super) fn skip(&mut self, n: u64) -> Result<(), TorchError> {
        if n > self.left() {
            return Err(self.truncated(n));
        }
        self.at += n;
        Ok(())
    }

    /// The bytes up to the next line feed, which is read too. Names are short.
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
