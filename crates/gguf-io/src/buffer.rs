//! Memory for a head that is being read.
//!
//! The head of a small file, or of a stream of unknown length, is a vector that doubles. The head of a larger one is read into separate
//! anonymous memory, where pages can be faulted in batches and the kernel can provide huge ones: on a virtual machine, the page faults of a
//! vector cost more than reading and parsing the head together. Address space is reserved up to the length of the file; memory is committed
//! only as bytes arrive, and is at most three times the bytes read plus 64 KiB.

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
const MAX_RESERVE: u64 = 64 << 20;

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
/// Anonymous memory; the bytes start [`SMALL_PAGES`] before its first huge page.
#[derive(Debug)]
pub(crate) struct Memory {
    map: MmapMut,
    len: usize,
}

#[cfg(feature = "fs")]
impl Memory {
    const START: usize = HUGE_PAGE - SMALL_PAGES;

    fn reserve(bytes: u64) -> io::Result<Memory> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let len = Memory::START.saturating_add(bytes).next_multiple_of(HUGE_PAGE);
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        // Only advice: if it is ignored, the pages are small, and nothing else changes.
        #[cfg(target_os = "linux")]
        {
            let _ = map.advise_range(memmap2::Advice::NoHugePage, 0, HUGE_PAGE);
            if len > HUGE_PAGE {
                let _ = map.advise_range(memmap2::Advice::HugePage, HUGE_PAGE, len - HUGE_PAGE);
            }
        }
        Ok(Memory { map, len: 0 })
    }

    fn bytes(&self) -> &[u8] {
        self.map.get(Memory::START..Memory::START + self.len).unwrap_or_default()
    }

    /// The free space after the bytes read so far, at most `n` bytes.
    fn spare(&mut self, n: usize) -> &mut [u8] {
        let start = Memory::START + self.len;
        let end = start.saturating_add(n).min(self.map.len());
        #[cfg(target_os = "linux")]
        if end <= HUGE_PAGE {
            // Faults in small pages all at once instead of one by one.
            let _ = self.map.advise_range(memmap2::Advice::PopulateWrite, start, end - start);
        }
        self.map.get_mut(start..end).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        Memory::START + self.len >= self.map.len()
    }
}

impl Buffer {
    /// An empty buffer for a head in a stream of the given length, if known.
    pub(crate) fn new(total: Option<u64>) -> Buffer {
        #[cfg(feature = "fs")]
        if let Some(Ok(memory)) = total.filter(|&t| t >= LARGE).map(|t| Memory::reserve(t.min(MAX_RESERVE))) {
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

    /// Reads the next piece. Returns whether the reader is at its end.
    pub(crate) fn fill(&mut self, reader: &mut impl Read) -> io::Result<bool> {
        match self {
            #[cfg(feature = "fs")]
            Buffer::Memory(memory) if memory.is_full() => {
                // A head longer than the reservation continues in a vector.
                let read = memory.bytes();
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(read.len().saturating_mul(2)).map_err(|_| io::ErrorKind::OutOfMemory)?;
                bytes.extend_from_slice(read);
                *self = Buffer::Vector(bytes);
                self.fill(reader)
            }
            #[cfg(feature = "fs")]
            Buffer::Memory(memory) => {
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
