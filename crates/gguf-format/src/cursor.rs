//! The only code that decodes bytes to numbers: bounds-checked, and aware of byte order and width.

use crate::header::{ByteOrder, Dialect};

/// Too few bytes: the minimum length of the head for the read to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need(pub(crate) u64);

/// A position in a head. Reads advance; a failed read returns the required length of the head and leaves the position unchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    pub(crate) dialect: Dialect,
}

macro_rules! read_numbers {
    ($($name:ident $ty:ident)*) => { $(
        #[inline]
        pub(crate) fn $name(&mut self) -> Result<$ty, Need> {
            let raw = self.array()?;
            Ok(match self.dialect.order {
                ByteOrder::Little => $ty::from_le_bytes(raw),
                ByteOrder::Big => $ty::from_be_bytes(raw),
            })
        }
    )* };
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], pos: usize, dialect: Dialect) -> Cursor<'a> {
        Cursor { bytes, pos, dialect }
    }

    #[inline]
    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Need> {
        match self.bytes.get(self.pos..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(raw) => {
                self.pos += N;
                Ok(*raw)
            }
            None => Err(Need((self.pos as u64).saturating_add(N as u64))),
        }
    }

    read_numbers! { u8 u8  i8 i8  u16 u16  i16 i16  u32 u32  i32 i32  u64 u64  i64 i64  f32 f32  f64 f64 }

    /// A count, length or dimension: 64 bits wide, 32 before version 2.
    #[inline]
    pub(crate) fn len(&mut self) -> Result<u64, Need> {
        if self.dialect.version.is_wide() { self.u64() } else { self.u32().map(u64::from) }
    }

    /// The next `n` bytes.
    #[inline]
    pub(crate) fn take(&mut self, n: u64) -> Result<&'a [u8], Need> {
        let need = Need((self.pos as u64).saturating_add(n));
        let end = usize::try_from(n).ok().and_then(|n| self.pos.checked_add(n)).ok_or(need)?;
        let taken = self.bytes.get(self.pos..end).ok_or(need)?;
        self.pos = end;
        Ok(taken)
    }

    /// Skips up to `n` strings and returns the number of remaining ones, and the length that the next one needs if it is incomplete.
    #[inline]
    pub(crate) fn skip_strings(&mut self, n: u64) -> (u64, Option<Need>) {
        match (self.dialect.version.is_wide(), self.dialect.order) {
            (true, ByteOrder::Little) => {
                let n = n - self.skip_in_parallel(n);
                self.skip_with(n, u64::from_le_bytes)
            }
            (true, ByteOrder::Big) => self.skip_with(n, u64::from_be_bytes),
            (false, ByteOrder::Little) => self.skip_with(n, |raw| u32::from_le_bytes(raw).into()),
            (false, ByteOrder::Big) => self.skip_with(n, |raw| u32::from_be_bytes(raw).into()),
        }
    }

    /// Sequentially: the length is read, checked and added.
    #[inline]
    fn skip_with<const N: usize>(&mut self, n: u64, len: impl Fn([u8; N]) -> u64) -> (u64, Option<Need>) {
        let mut left = n;
        while left > 0 {
            match next_string(self.bytes, self.pos, &len) {
                Ok(next) => self.pos = next,
                Err(need) => return (left, Some(need)),
            }
            left -= 1;
        }
        (left, None)
    }

    /// Skips at most `n` strings of a long array, and returns how many; the rest is left to the sequential scan.
    ///
    /// A sequential scan must read each length before it can locate the next, which dominates the time of opening a large vocabulary. So a
    /// piece of the array is scanned from several places at once. The start of a string in the middle of the piece is guessed, from the
    /// zeros in its length. A guess is used only if the scan from the previous place arrives exactly there, so the result is that of a
    /// sequential scan.
    fn skip_in_parallel(&mut self, n: u64) -> u64 {
        const WALKS: usize = 4;
        // Small if inputs are small.
        const PIECE: usize = if cfg!(fuzzing) { 256 } else { 32 << 10 };
        let mut done = 0;
        while n - done > (PIECE / 8) as u64 && self.bytes.len().saturating_sub(self.pos) > 2 * PIECE {
            let mut starts = [self.pos; WALKS + 1];
            for (k, start) in starts.iter_mut().enumerate().skip(1) {
                match guess_string(self.bytes, self.pos + k * (PIECE / WALKS)) {
                    Some(guess) => *start = guess,
                    None => return done,
                }
            }
            let (ends, counts) = walk_four(self.bytes, starts);
            for ((end, count), next) in ends.into_iter().zip(counts).zip(starts.into_iter().skip(1)) {
                if count == 0 || done + count > n {
                    return done;
                }
                self.pos = end;
                done += count;
                if end != next {
                    break;
                }
            }
        }
        done
    }

    /// A string with its length prefix, as stored in the file (including a counted trailing NUL).
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Need> {
        let start = self.pos;
        let n = self.len()?;
        self.take(n).inspect_err(|_| self.pos = start)
    }
}

/// The end of the string that starts at `pos`.
#[expect(clippy::cast_possible_truncation, reason = "the length is compared with that of the bytes first")]
#[inline(always)]
fn next_string<const N: usize>(bytes: &[u8], pos: usize, len: impl Fn([u8; N]) -> u64) -> Result<usize, Need> {
    let Some(raw) = bytes.get(pos..).and_then(|rest| rest.first_chunk::<N>()) else {
        return Err(Need((pos as u64).saturating_add(N as u64)));
    };
    let (text, len) = (pos + N, len(*raw));
    // The comparison uses the remaining length, so nothing can overflow.
    if len > (bytes.len() - text) as u64 {
        return Err(Need((text as u64).saturating_add(len)));
    }
    Ok(text + len as usize)
}

/// Scans from each of four places up to the next one, or beyond it, or the end of the bytes; returns where each scan arrived and its number
/// of strings. All four advance together while none is finished.
fn walk_four(bytes: &[u8], starts: [usize; 5]) -> ([usize; 4], [u64; 4]) {
    let step = |at: usize| next_string(bytes, at, u64::from_le_bytes).unwrap_or(usize::MAX);
    let [mut a, mut b, mut c, mut d, end] = starts;
    let [_, end_a, end_b, end_c, _] = starts;
    let mut steps = 0u64;
    loop {
        let next = (step(a), step(b), step(c), step(d));
        if next.0 > end_a || next.1 > end_b || next.2 > end_c || next.3 > end {
            break;
        }
        (a, b, c, d) = next;
        steps += 1;
    }
    let rest = |mut at: usize, end: usize| {
        let mut count = steps;
        while at < end {
            match next_string(bytes, at, u64::from_le_bytes) {
                Ok(next) => at = next,
                Err(_) => break,
            }
            count += 1;
        }
        (at, count)
    };
    let walks = [rest(a, end_a), rest(b, end_b), rest(c, end_c), rest(d, end)];
    (walks.map(|w| w.0), walks.map(|w| w.1))
}

/// A likely start of a string soon after `from`: a length below 256 is one byte and seven zeros.
fn guess_string(bytes: &[u8], from: usize) -> Option<usize> {
    let window = bytes.get(from..)?;
    let window = window.get(..4096).unwrap_or(window);
    window.windows(8).position(|w| matches!(w, [1..=255, 0, 0, 0, 0, 0, 0, 0])).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Scanning an array in pieces gives the same result as string by string, regardless of the strings and of the ends of the array and
    /// the bytes.
    #[test]
    fn walks_from_several_places_agree_with_one() {
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let mut passed = 0;
        for kind in 0..6 {
            let mut bytes = Vec::new();
            let n = 40_000;
            for i in 0..n {
                let len = match kind {
                    0 => random(12),
                    1 => random(2) * random(300),
                    // Long strings, over several pieces.
                    2 if i % 5000 == 4999 => 200_000,
                    3 => 0,
                    _ => random(20),
                };
                bytes.extend_from_slice(&len.to_le_bytes());
                for _ in 0..len {
                    // Texts that resemble lengths, or text.
                    bytes.push(if kind >= 4 { (random(8) / 7) as u8 } else { b'a' + random(26) as u8 });
                }
            }
            let end = bytes.len();
            // The bytes after the array resemble more of it.
            bytes.extend_from_within(..end.min(300_000));
            for n in [n, n - 1, n / 2, 9000, 100, 0] {
                for cut in [bytes.len(), end, end - 1, end / 2, 140_000] {
                    let bytes = bytes.get(..cut.min(bytes.len())).unwrap();
                    let mut plain = Cursor::new(bytes, 0, Dialect::default());
                    let mut fast = plain;
                    let expected = plain.skip_with(n, u64::from_le_bytes);
                    passed += { fast }.skip_in_parallel(n);
                    assert_eq!(fast.skip_strings(n), expected, "kind {kind}, {n} strings, {cut} bytes");
                    assert_eq!(fast.pos(), plain.pos(), "kind {kind}, {n} strings, {cut} bytes");
                }
            }
        }
        assert!(passed > 100_000, "only {passed} strings were passed in parallel");
    }
}
