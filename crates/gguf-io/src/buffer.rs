//! Memory for a head that is being read.
//!
//! The head of a small file, or of a stream of unknown length, is a vector that doubles. The head of a larger one is read into separate
//! anonymous memory, where pages can be faulted in batches and the kernel can provide huge ones: on a virtual machine, the page faults of a
//! vector cost more than reading and parsing the head together. Address space is reserved up to the length of the file; memory is committed
//! only as bytes arrive, and is at most three times the bytes read plus 64 KiB. The first huge page counts as read as soon as it is known that the
//! head has two fifths of it.

use std::io::{self, Read};

#[cfg(feature = "fs")]
use memmap2::{MmapMut, MmapOptions};

/// The smallest and the largest piece to read at once. The largest fits a core's cache, so that the parser finds the piece there.
const MIN_READ: usize = 32 << 10;
const MAX_READ: usize = 256 << 10;

#[cfg(feature = "fs")]
/// The file length from which the head has separate memory.
const LARGE: u64 = 1 << 20;

#[cfg(feature = "fs")]
/// The size of a huge page on most machines. Reservations of whole huge pages are aligned to them.
const HUGE_PAGE: usize = 2 << 20;

#[cfg(feature = "fs")]
/// The size of the small pages before the first huge one: once they are full, another huge page does not exceed the bound.
const SMALL_PAGES: usize = 1 << 20;

#[cfg(feature = "fs")]
/// The most address space reserved ahead.
const MAX_RESERVE: usize = 64 << 20;

/// The most memory reserved ahead by WebAssembly, which has a few gigabytes at most. Few heads are longer.
const WASM_RESERVE: usize = 16 << 20;

/// The bytes of a head read so far.
#[derive(Debug)]
pub(crate) enum Buffer {
    Vector(Vec<u8>),
    #[cfg(feature = "fs")]
    Memory(Memory),
}

#[cfg(feature = "fs")]
/// Anonymous memory; the bytes start [`SMALL_PAGES`] before its first huge page, or there.
#[derive(Debug)]
pub(crate) struct Memory {
    map: MmapMut,
    start: usize,
    len: usize,
}

#[cfg(feature = "fs")]
impl Memory {
    const START: usize = HUGE_PAGE - SMALL_PAGES;

    /// Memory for a stream of the given length, or for the start of it.
    fn reserve(total: u64) -> io::Result<Memory> {
        let bytes = usize::try_from(total).unwrap_or(MAX_RESERVE).min(MAX_RESERVE);
        let len = HUGE_PAGE + bytes.next_multiple_of(HUGE_PAGE);
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        #[cfg(target_os = "linux")]
        {
            advise(&map, memmap2::Advice::NoHugePage, 0, HUGE_PAGE);
            advise(&map, memmap2::Advice::HugePage, HUGE_PAGE, len);
        }
        Ok(Memory { map, start: Memory::START, len: 0 })
    }

    fn bytes(&self) -> &[u8] {
        self.map.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Moves the first bytes to the first huge page, if two fifths of it will be used: both together are then within the bound. Clearing it takes less
    /// time than faulting in as many small pages.
    fn expect(&mut self, bytes: u64) {
        if bytes >= HUGE_PAGE as u64 * 2 / 5
            && self.len <= SMALL_PAGES / 4
            && let Some((small, huge)) = self.map.split_at_mut_checked(HUGE_PAGE)
            && let Some(read) = small.get(self.start..self.start + self.len)
            && let Some(to) = huge.get_mut(..self.len)
        {
            to.copy_from_slice(read);
            self.start = HUGE_PAGE;
        }
    }

    /// The free space after the bytes read so far, at most `n` bytes.
    fn spare(&mut self, n: usize) -> &mut [u8] {
        let start = self.start + self.len;
        let end = (start + n).min(self.map.len());
        #[cfg(target_os = "linux")]
        if end <= HUGE_PAGE {
            // Faults in small pages all at once instead of one by one.
            advise(&self.map, memmap2::Advice::PopulateWrite, start, end);
        }
        self.map.get_mut(start..end).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        self.start + self.len >= self.map.len()
    }
}

/// Only advice: if it is ignored, the pages are small or faulted in one by one, and nothing else changes.
#[cfg(all(feature = "fs", target_os = "linux"))]
#[inline(never)]
fn advise(map: &MmapMut, advice: memmap2::Advice, start: usize, end: usize) {
    let _ = map.advise_range(advice, start, end - start);
}

impl Buffer {
    /// An empty buffer for a head in a stream of the given length, if known.
    pub(crate) fn new(total: Option<u64>) -> Buffer {
        #[cfg(feature = "fs")]
        if let Some(Ok(memory)) = total.filter(|&t| t >= LARGE).map(Memory::reserve) {
            return Buffer::Memory(memory);
        }
        // Unknown or small length, or no such memory on this system.
        let mut bytes = Vec::new();
        if cfg!(target_family = "wasm") {
            // An engine commits memory when it is used, as above, and its page faults are as dear.
            let likely = total.map_or(0, |t| usize::try_from(t).unwrap_or(usize::MAX).min(WASM_RESERVE));
            let _ = bytes.try_reserve_exact(likely);
        }
        Buffer::Vector(bytes)
    }

    /// Reads the next piece. The whole head has at least `least_bytes`. Returns whether the reader is at its end.
    pub(crate) fn fill(
        &mut self,
        reader: &mut impl Read,
        #[cfg_attr(not(feature = "fs"), allow(unused_variables, reason = "only pages depend on it"))] least_bytes: u64,
    ) -> io::Result<bool> {
        match self {
            #[cfg(feature = "fs")]
            Buffer::Memory(memory) if memory.is_full() => {
                // A head longer than the reservation continues in a vector.
                let read = memory.bytes();
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(2 * read.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
                bytes.extend_from_slice(read);
                *self = Buffer::Vector(bytes);
                self.fill(reader, least_bytes)
            }
            #[cfg(feature = "fs")]
            Buffer::Memory(memory) => {
                memory.expect(least_bytes);
                let spare = memory.spare(memory.len.clamp(MIN_READ, MAX_READ));
                let (got, n) = (read_full(reader, spare)?, spare.len());
                memory.len += got;
                Ok(got < n)
            }
            Buffer::Vector(bytes) => {
                let len = bytes.len();
                if bytes.capacity() - len < MIN_READ {
                    bytes.try_reserve_exact(MIN_READ.max(len)).map_err(|_| io::ErrorKind::OutOfMemory)?;
                }
                let room = (bytes.capacity() - len).min(MAX_READ);
                bytes.resize(len + room, 0);
                let read = read_full(reader, bytes.get_mut(len..).unwrap_or_default());
                bytes.truncate(len + *read.as_ref().unwrap_or(&0));
                Ok(read? < room)
            }
        }
    }

    /// Truncates the bytes to the given length and releases the rest.
    pub(crate) fn cut(&mut self, to: u64) {
        let to = usize::try_from(to).unwrap_or(usize::MAX);
        match self {
            #[cfg(feature = "fs")]
            Buffer::Memory(memory) => memory.len = to.min(memory.len),
            Buffer::Vector(bytes) => {
                bytes.truncate(to);
                bytes.shrink_to_fit();
            }
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match self {
            #[cfg(feature = "fs")]
            Buffer::Memory(memory) => memory.bytes(),
            Buffer::Vector(bytes) => bytes,
        }
    }
}

/// Reads until `buf` is full or the reader ends; returns the number of bytes read.
pub(crate) fn read_full(reader: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
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

#[cfg(all(test, feature = "fs"))]
mod tests {
    use super::*;

    /// The bytes are those of the stream, whenever it becomes known that the head is long.
    #[test]
    fn bytes_move_to_the_first_huge_page() {
        let stream: Vec<u8> = (0..5u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for known_after in [0, 1, 40_000, SMALL_PAGES / 4, SMALL_PAGES / 4 + 1, SMALL_PAGES, usize::MAX] {
            let mut reader = stream.as_slice();
            let mut buffer = Buffer::new(Some(stream.len() as u64));
            loop {
                let read = buffer.as_ref().len();
                let least_bytes = if read >= known_after { 3 << 20 } else { read };
                let ended = buffer.fill(&mut reader, least_bytes as u64).unwrap();
                assert!(buffer.as_ref() == &stream[..buffer.as_ref().len()], "known after {known_after}, {read} read");
                if ended {
                    break;
                }
            }
            assert_eq!(buffer.as_ref().len(), stream.len());
            let Buffer::Memory(memory) = buffer else { panic!("the reservation is large enough") };
            assert_eq!(memory.start == HUGE_PAGE, known_after <= SMALL_PAGES / 4, "known after {known_after}");
        }
    }
}
