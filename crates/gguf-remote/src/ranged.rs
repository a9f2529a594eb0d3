//! Files whose bytes are fetched in ranges: what was fetched before it is read, windows for small reads, and several requests for long ones.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::budget::{Budget, Buffer, Segmented, Segments, State, lock};
use crate::error::{Error, Problem};
use crate::sum::Sum;

/// The length of reads that make good use of a request.
pub(crate) const PREFERRED: usize = 4 << 20;

/// The first and the longest window of data that is fetched for small reads. It doubles while reads follow each other.
const FIRST_WINDOW: u64 = 64 << 10;
const LONGEST_WINDOW: u64 = PREFERRED as u64;

/// The part of a large read that one request fetches, and the number of such requests at once.
const PART: usize = 16 << 20;
const PARTS: usize = 4;

/// Fetches ranges of one file, with as many attempts as necessary.
pub(crate) trait Fetch: Send + Sync {
    /// The length, if it is known.
    fn length(&self) -> Option<u64>;

    /// Fills a buffer with the bytes from `start`.
    fn fetch(&self, start: u64, buf: &mut [u8]) -> Result<(), Error>;

    /// The URL for messages.
    fn url(&self) -> String;
}

/// What is in memory of a byte.
enum Arrived<'a> {
    /// Its segment.
    Segment { segments: MutexGuard<'a, Segments>, start: u64, bytes: Arc<Buffer> },
    /// Nothing; the next segment starts at `next`.
    None { next: u64 },
}

/// A file whose bytes are fetched in ranges.
pub(crate) struct Ranged<F> {
    budget: Arc<Budget>,
    name: PathBuf,
    segments: Mutex<Segments>,
    arrived: Condvar,
    /// The end of the last read that was in no segment, and the window after it.
    window: Mutex<(u64, u64)>,
    /// The expected SHA-256, and that of the bytes so far.
    sha256: Option<(String, Mutex<Sum>)>,
    pub(crate) ranges: F,
}

impl<F: Fetch + 'static> Ranged<F> {
    /// A file, perhaps with its SHA-256 in hexadecimal if its length is known. `name` is its name for planned reads.
    pub(crate) fn new(budget: &Arc<Budget>, name: &Path, sha256: Option<String>, ranges: F) -> Arc<Ranged<F>> {
        let sum = sha256.zip(ranges.length()).map(|(expected, length)| (expected, Mutex::new(Sum::new(length))));
        let file = Arc::new(Ranged {
            budget: Arc::clone(budget),
            name: name.to_owned(),
            segments: Mutex::default(),
            arrived: Condvar::new(),
            window: Mutex::default(),
            sha256: sum,
            ranges,
        });
        let any: Arc<dyn Segmented> = file.clone();
        budget.add_file(name, &any);
        file
    }
}

impl<F: Fetch> Segmented for Ranged<F> {
    fn segments(&self) -> &Mutex<Segments> {
        &self.segments
    }

    fn length(&self) -> Option<u64> {
        self.ranges.length()
    }

    fn fill(&self, range: &Range<u64>) {
        let fetched = usize::try_from(range.end - range.start).map(|len| {
            let mut bytes = self.budget.buffer(len);
            self.ranges.fetch(range.start, &mut bytes)?;
            let bytes = Arc::new(bytes);
            self.add_to_sum(|sum| sum.add_shared(range.start, &bytes))?;
            Ok(bytes)
        });
        let state = match fetched {
            Ok(Ok(bytes)) => State::Here(bytes),
            Ok(Err(e)) => State::Failed(e),
            Err(_) => {
                State::Failed(Error::new(self.ranges.url(), Problem::Length { found: format!("bytes {range:?}") }))
            }
        };
        if let Some(segment) = lock(&self.segments).get_mut(&range.start) {
            segment.state = state;
        }
        self.arrived.notify_all();
    }
}

impl<F: Fetch> Ranged<F> {
    /// Fetches the first byte, so that the length and the ETag are known.
    pub(crate) fn identify(&self) -> Result<(), Error> {
        self.ranges.fetch(0, &mut [0]).map_err(|e| Error { range: None, ..e })
    }

    /// Adds bytes to the hash, and compares it at the end of the file.
    pub(crate) fn add_to_sum(&self, add: impl FnOnce(&mut Sum) -> Option<String>) -> Result<(), Error> {
        let Some((expected, sum)) = &self.sha256 else { return Ok(()) };
        match add(&mut lock(sum)) {
            Some(found) if found != *expected => {
                Err(Error::new(self.ranges.url(), Problem::Sha256 { expected: expected.clone(), found }))
            }
            _ => Ok(()),
        }
    }

    /// The segment that has a byte, when it has arrived.
    fn arrived(&self, at: u64) -> Result<Arrived<'_>, Error> {
        let mut segments = lock(&self.segments);
        loop {
            let Some((&start, segment)) = segments.range_mut(..=at).next_back().filter(|(s, g)| **s + g.len > at)
            else {
                let next = segments.range(at..).next().map_or(u64::MAX, |(start, _)| *start);
                return Ok(Arrived::None { next });
            };
            match &segment.state {
                State::Planned => {
                    segment.state = State::Coming;
                    let range = start..start + segment.len;
                    drop(segments);
                    self.budget.take_now(range.end - range.start);
                    self.fill(&range);
                    segments = lock(&self.segments);
                }
                State::Coming => segments = self.arrived.wait(segments).unwrap_or_else(PoisonError::into_inner),
                State::Failed(e) => {
                    let (e, len) = (e.clone(), segment.len);
                    segments.remove(&start);
                    drop(segments);
                    self.budget.release(len);
                    return Err(e);
                }
                State::Here(bytes) => {
                    let bytes = Arc::clone(bytes);
                    return Ok(Arrived::Segment { segments, start, bytes });
                }
            }
        }
    }

    /// Copies bytes of a segment that has the first one, and waits if it is on its way. Otherwise returns the number of bytes before the
    /// next segment.
    fn copy(&self, at: u64, buf: &mut [u8]) -> Result<Result<usize, usize>, Error> {
        let (mut segments, start, bytes) = match self.arrived(at)? {
            Arrived::Segment { segments, start, bytes } => (segments, start, bytes),
            Arrived::None { next } => {
                return Ok(Err(usize::try_from(next - at).unwrap_or(usize::MAX).min(buf.len())));
            }
        };
        let from = usize::try_from(at - start).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
        let n = from.len().min(buf.len());
        let is_finished = segments.get_mut(&start).is_some_and(|segment| {
            segment.left = segment.left.saturating_sub(n as u64);
            segment.left == 0
        });
        if is_finished {
            segments.remove(&start);
        }
        // Other threads do not wait for the copy.
        drop(segments);
        if let (Some(to), Some(from)) = (buf.get_mut(..n), from.get(..n)) {
            to.copy_from_slice(from);
        }
        if is_finished {
            let len = bytes.len() as u64;
            drop(bytes);
            self.budget.release(len);
        }
        Ok(Ok(n))
    }

    /// Exchanges a vector for the bytes of the segment that has just the bytes to read; returns whether there was one.
    fn exchange(&self, at: u64, buf: &mut Vec<u8>) -> Result<bool, Error> {
        let Arrived::Segment { mut segments, start, bytes } = self.arrived(at)? else { return Ok(false) };
        if start != at || bytes.len() != buf.len() {
            return Ok(false);
        }
        segments.remove(&start);
        drop(segments);
        let len = bytes.len() as u64;
        match Arc::try_unwrap(bytes) {
            Ok(mut bytes) => bytes.exchange(buf),
            // Another thread reads it, or it waits to be hashed.
            Err(bytes) => buf.copy_from_slice(&bytes),
        }
        self.budget.release(len);
        Ok(true)
    }

    /// Reads bytes that are in no segment.
    fn read_missing(&self, at: u64, buf: &mut [u8], length: u64) -> Result<(), Error> {
        let len = buf.len() as u64;
        let window = {
            let mut window = lock(&self.window);
            let follows = at == window.0 && at > 0;
            window.1 = if follows { (window.1 * 2).min(LONGEST_WINDOW) } else { FIRST_WINDOW };
            window.0 = at + len.max(window.1).min(length - at);
            window.1
        };
        if len < window {
            let next = lock(&self.segments).range(at..).next().map_or(u64::MAX, |(start, _)| *start);
            let range = at..(at + window).min(length).min(next);
            if range.end - at > len && self.budget.fetch(self, &range) {
                return self.read(at, buf, length);
            }
        }
        if buf.len() <= PART {
            self.ranges.fetch(at, buf)?;
        } else {
            let mut from = at;
            for several in buf.chunks_mut(PART * PARTS) {
                let n = several.len();
                self.fetch_parts(from, several)?;
                from += n as u64;
            }
        }
        self.add_to_sum(|sum| sum.add(at, buf))
    }

    /// Fetches bytes with several requests at once.
    fn fetch_parts(&self, at: u64, buf: &mut [u8]) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let parts = (0..).zip(buf.chunks_mut(PART));
            let fetch = |(i, part)| scope.spawn(move || self.ranges.fetch(at + i * PART as u64, part));
            let fetching: Vec<_> = parts.map(fetch).collect();
            let mut fetched = fetching.into_iter().map(std::thread::ScopedJoinHandle::join);
            fetched.try_for_each(|fetched| fetched.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// See [`ReadAt::read_exact_at`](gguf_io::ReadAt::read_exact_at).
    pub(crate) fn read_exact_at(&self, at: u64, buf: &mut [u8], length: u64) -> io::Result<()> {
        if at.checked_add(buf.len() as u64).is_none_or(|end| end > length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read(at, buf, length).map_err(|e| self.io(e))
    }

    /// See [`ReadAt::read_vec_at`](gguf_io::ReadAt::read_vec_at).
    pub(crate) fn read_vec_at(&self, at: u64, buf: &mut Vec<u8>, length: u64) -> io::Result<()> {
        match self.exchange(at, buf) {
            Ok(true) => Ok(()),
            Ok(false) => self.read_exact_at(at, buf, length),
            Err(e) => Err(self.io(e)),
        }
    }

    /// Reads bytes within the file.
    fn read(&self, mut at: u64, mut buf: &mut [u8], length: u64) -> Result<(), Error> {
        while !buf.is_empty() {
            let n = match self.copy(at, buf)? {
                Ok(n) => n,
                Err(missing) => {
                    let part = buf.get_mut(..missing).unwrap_or_default();
                    self.read_missing(at, part, length)?;
                    missing
                }
            };
            buf = buf.get_mut(n..).unwrap_or_default();
            at += n as u64;
        }
        Ok(())
    }

    /// The error of a read, without the URL if it is the name of the file.
    pub(crate) fn io(&self, e: Error) -> io::Error {
        let is_name = Path::new(&e.url) == self.name;
        if is_name { Error { url: String::new(), ..e }.into() } else { e.into() }
    }
}

impl<F> Drop for Ranged<F> {
    fn drop(&mut self) {
        let segments = std::mem::take(self.segments.get_mut().unwrap_or_else(PoisonError::into_inner));
        let in_memory = segments.values().filter(|segment| !matches!(segment.state, State::Planned));
        self.budget.release(in_memory.map(|segment| segment.len).sum());
    }
}
