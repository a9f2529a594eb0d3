//! Memory for a head that is being read.
//!
//! Small heads are a plain vector that doubles. A large one, as vocabularies make them, moves into anonymous memory of its
//! own, where the kernel can hand out large pages: on a virtual machine the page faults of a vector cost more than reading
//! and walking the head together. Address space is reserved up to the length of the file, memory is taken only as bytes
//! arrive.

use std::io::{self, Read};

use memmap2::{MmapMut, MmapOptions};

/// The smallest and the largest piece to read at once. The larger is what a core's cache holds, so that the walk over a
/// piece finds it there.
const MIN_READ: usize = 32 << 10;
const MAX_READ: usize = 256 << 10;

/// From this length on a head has memory of its own: a large page of it is never more than three times what was read.
const LARGE: usize = 1 << 20;

/// What the kernel calls a huge page on most machines. Reservations of whole ones are placed where they can be used.
const HUGE_PAGE: usize = 2 << 20;

/// The most address space reserved ahead.
const MAX_RESERVE: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) enum Buffer {
    Small(Vec<u8>),
    Large { memory: MmapMut, len: usize },
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer::Small(Vec::new())
    }

    /// Reads on. Says whether the reader is at its end.
    pub(crate) fn fill(&mut self, reader: &mut impl Read, total: Option<u64>) -> io::Result<bool> {
        if let (len @ LARGE.., Some(total)) = (self.as_ref().len(), total) {
            self.enlarge(len, total);
        }
        match self {
            Buffer::Small(bytes) => {
                let len = bytes.len();
                if bytes.capacity() - len < MIN_READ {
                    bytes.reserve_exact(MIN_READ.max(len));
                }
                let room = (bytes.capacity() - len).min(MAX_READ);
                bytes.resize(len + room, 0);
                let read = read_full(reader, bytes.get_mut(len..).unwrap_or_default());
                bytes.truncate(len + *read.as_ref().unwrap_or(&0));
                Ok(read? < room)
            }
            Buffer::Large { memory, len } => {
                let room = memory.get_mut(*len..).unwrap_or_default();
                let n = room.len().min(MAX_READ);
                let got = read_full(reader, room.get_mut(..n).unwrap_or_default())?;
                *len += got;
                Ok(got < n)
            }
        }
    }

    /// Makes room in anonymous memory, if there is none left; where the system gives none, the vector goes on growing.
    fn enlarge(&mut self, len: usize, total: u64) {
        if matches!(self, Buffer::Large { memory, .. } if memory.len() > len) {
            return;
        }
        let want = total.min(MAX_RESERVE.max((len as u64).saturating_mul(2)));
        let Ok(want) = usize::try_from(want) else { return };
        let memory =
            MmapOptions::new().len(want.max(len + MIN_READ).next_multiple_of(HUGE_PAGE)).no_reserve_swap().map_anon();
        *self = match memory {
            Ok(mut memory) => {
                #[cfg(target_os = "linux")]
                let _ = memory.advise(memmap2::Advice::HugePage);
                if let Some(start) = memory.get_mut(..len) {
                    start.copy_from_slice(self.as_ref());
                }
                Buffer::Large { memory, len }
            }
            Err(_) => Buffer::Small(self.as_ref().to_vec()),
        };
    }

    /// Cuts the bytes to the given length and gives back what is left over.
    pub(crate) fn cut(&mut self, to: u64) {
        let to = usize::try_from(to).unwrap_or(usize::MAX);
        match self {
            Buffer::Small(bytes) => {
                bytes.truncate(to);
                bytes.shrink_to_fit();
            }
            Buffer::Large { len, .. } => *len = to.min(*len),
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match self {
            Buffer::Small(bytes) => bytes,
            Buffer::Large { memory, len } => memory.get(..*len).unwrap_or_default(),
        }
    }
}

/// Reads until `buf` is full or the reader ends; gives the number of bytes read.
fn read_full(reader: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
