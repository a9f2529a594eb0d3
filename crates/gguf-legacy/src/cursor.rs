//! Sequential reading of numbers and bytes, with their offsets.

use std::io;

use gguf_io::ReadAt;

use crate::malformed::{Field, Malformed, Problem};

/// The first read, and the first one after a jump: enough for the head of a tensor.
const FIRST: usize = 4 << 10;
/// The longest read: sequential bytes are read in increasingly large pieces.
const MOST: usize = 256 << 10;

/// The reason why reading stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    Io(io::Error),
    Bad(Malformed),
}

impl From<Malformed> for Stop {
    fn from(e: Malformed) -> Stop {
        Stop::Bad(e)
    }
}

/// A position in a file.
pub(crate) struct Cursor<'a> {
    source: &'a dyn ReadAt,
    len: u64,
    pos: u64,
    /// The bytes from `start`, as far as they have been read.
    window: Vec<u8>,
    start: u64,
    ahead: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a source of `len` bytes.
    pub(crate) fn new(source: &'a dyn ReadAt, len: u64) -> Cursor<'a> {
        Cursor { source, len, pos: 0, window: Vec::new(), start: 0, ahead: FIRST }
    }

    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    /// Length of the source.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.pos >= self.len
    }

    /// Moves to a position that is not past the end.
    pub(crate) fn seek(&mut self, pos: u64) {
        self.pos = pos;
        self.ahead = FIRST;
    }

    /// The next `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize, field: &Field) -> Result<&[u8], Stop> {
        let end = self.end(n as u64, field)?;
        let at = |window_start: u64, pos: u64| usize::try_from(pos.checked_sub(window_start)?).ok();
        let inside = at(self.start, self.pos).filter(|at| at.saturating_add(n) <= self.window.len());
        let at = match inside {
            Some(at) => at,
            None => {
                let left = usize::try_from(self.len - self.pos).unwrap_or(usize::MAX);
                let read = self.ahead.max(n).min(left);
                self.window.resize(read, 0);
                self.source.read_exact_at(self.pos, &mut self.window).map_err(Stop::Io)?;
                self.start = self.pos;
                self.ahead = (self.ahead * 4).min(MOST);
                0
            }
        };
        self.pos = end;
        Ok(self.window.get(at..at + n).unwrap_or_default())
    }

    /// Skips `n` bytes.
    pub(crate) fn skip(&mut self, n: u64, field: &Field) -> Result<(), Stop> {
        let end = self.end(n, field)?;
        self.seek(end);
        Ok(())
    }

    pub(crate) fn u32(&mut self, field: &Field) -> Result<u32, Stop> {
        let bytes = self.bytes(4, field)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    pub(crate) fn f32(&mut self, field: &Field) -> Result<f32, Stop> {
        Ok(f32::from_bits(self.u32(field)?))
    }

    /// The end of the next `n` bytes, if the source has them.
    fn end(&self, n: u64, field: &Field) -> Result<u64, Stop> {
        match self.pos.checked_add(n) {
            Some(end) if end <= self.len => Ok(end),
            end => {
                let problem = Problem::PastEnd { need: end.unwrap_or(u64::MAX), len: self.len };
                Err(Malformed { field: field.clone(), offset: self.pos, problem }.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_place() {
        let data: Vec<u8> = (0..20_000u32).flat_map(u32::to_le_bytes).collect();
        let mut cursor = Cursor::new(&data, data.len() as u64);
        let field = Field::Magic;
        for i in 0..5000 {
            assert_eq!(cursor.u32(&field).unwrap(), i);
        }
        cursor.skip(4 * 7000, &field).unwrap();
        assert_eq!(cursor.u32(&field).unwrap(), 12_000);
        cursor.seek(4);
        let expected: Vec<u8> = data[4..40_004].to_vec();
        assert_eq!(cursor.bytes(40_000, &field).unwrap(), expected);
        cursor.seek(79_998);
        let Err(Stop::Bad(e)) = cursor.u32(&field) else { panic!("the file ends before") };
        assert_eq!((e.offset, e.problem), (79_998, Problem::PastEnd { need: 80_002, len: 80_000 }));
        let Err(Stop::Bad(e)) = cursor.skip(u64::MAX, &field) else { panic!("the file ends before") };
        assert!(e.is_truncated());
        assert!(!cursor.is_at_end());
        cursor.skip(2, &field).unwrap();
        assert!(cursor.is_at_end());
    }
}
