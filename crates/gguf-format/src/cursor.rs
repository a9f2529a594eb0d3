//! The only code that turns bytes into numbers: checked, and aware of byte order and width.

use crate::header::{ByteOrder, Dialect};

/// Not enough bytes: the head must be at least this long for the read to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need(pub(crate) u64);

/// A place in a head. Reads advance; a failed read says how long the head must be and leaves the place as it was.
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

    /// Moves over up to `n` strings and says how many remain, and what the next one needs if the bytes end before it does.
    /// The hot loop of opening a file: the length is read, checked and added, nothing else.
    #[inline]
    pub(crate) fn skip_strings(&mut self, n: u64) -> (u64, Option<Need>) {
        match (self.dialect.version.is_wide(), self.dialect.order) {
            (true, ByteOrder::Little) => self.skip_with(n, u64::from_le_bytes),
            (true, ByteOrder::Big) => self.skip_with(n, u64::from_be_bytes),
            (false, ByteOrder::Little) => self.skip_with(n, |raw| u32::from_le_bytes(raw).into()),
            (false, ByteOrder::Big) => self.skip_with(n, |raw| u32::from_be_bytes(raw).into()),
        }
    }

    #[inline]
    fn skip_with<const N: usize>(&mut self, n: u64, len: impl Fn([u8; N]) -> u64) -> (u64, Option<Need>) {
        let (mut pos, mut left) = (self.pos, n);
        let mut short = None;
        while left > 0 {
            let Some(raw) = self.bytes.get(pos..).and_then(|rest| rest.first_chunk::<N>()) else {
                short = Some(Need((pos as u64).saturating_add(N as u64)));
                break;
            };
            let text = pos + N;
            // Both terms are at most the length of the bytes when the string is inside them, so the sum cannot wrap
            // unnoticed: what is compared is what is left.
            let len = len(*raw);
            if len > (self.bytes.len() - text) as u64 {
                short = Some(Need((text as u64).saturating_add(len)));
                break;
            }
            pos = text + len as usize;
            left -= 1;
        }
        self.pos = pos;
        (left, short)
    }

    /// A string with its length in front, as it stands in the file (a counted trailing NUL included).
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Need> {
        let start = self.pos;
        let n = self.len()?;
        self.take(n).inspect_err(|_| self.pos = start)
    }
}
