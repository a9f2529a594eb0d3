//! The memory for data that is fetched before it is read.
//!
//! The bytes of a file that are in memory, or on their way, are its segments. A segment is removed when all of it was read.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::Error;

/// The memory for fetched data of all files of a client.
const BUDGET: u64 = 32 << 20;

/// The most buffers that are kept for other segments.
const SPARE: usize = 8;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file with segments.
pub(crate) trait Segmented: Send + Sync {
    /// Its segments.
    fn segments(&self) -> &Mutex<Segments>;

    /// The length, if it is known.
    fn length(&self) -> Option<u64>;

    /// Fetches a registered segment.
    fn fill(&self, range: &Range<u64>);
}

/// Bytes of a file that are in memory, on their way, or planned.
pub(crate) struct Segment {
    pub(crate) len: u64,
    pub(crate) state: State,
    /// The number of bytes that were not read yet.
    pub(crate) left: u64,
    /// Whether a plan says that it will be read.
    is_planned: bool,
    /// The age among all segments of the client.
    number: u64,
}

pub(crate) enum State {
    /// Nobody has requested it yet. The first who needs it does.
    Planned,
    Coming,
    Here(Arc<Buffer>),
    Failed(Error),
}

/// The bytes of a segment. Their memory is used again for other segments.
pub(crate) struct Buffer {
    /// At least `len` bytes: a shorter segment leaves the rest, so that a longer one after it need not set it again.
    bytes: Vec<u8>,
    len: usize,
    spare: Arc<Spare>,
}

impl Buffer {
    /// Exchanges the bytes for a vector of as many, whose memory is used for other segments.
    pub(crate) fn exchange(&mut self, other: &mut Vec<u8>) {
        self.bytes.truncate(self.len);
        std::mem::swap(&mut self.bytes, other);
    }
}

/// Memory that is not in use.
type Spare = Mutex<Vec<Vec<u8>>>;

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// The segments of a file by their start. They do not overlap.
pub(crate) type Segments = BTreeMap<u64, Segment>;

/// The memory for the segments of all files of a client.
#[derive(Default)]
pub(crate) struct Budget {
    used: Mutex<u64>,
    released: Condvar,
    next_number: AtomicU64,
    spare: Arc<Spare>,
    files: Mutex<Vec<(PathBuf, Weak<dyn Segmented>)>>,
}

impl Budget {
    pub(crate) fn add_file(&self, name: &Path, file: &Arc<dyn Segmented>) {
        let mut files = lock(&self.files);
        files.retain(|(_, file)| file.strong_count() > 0);
        files.push((name.to_owned(), Arc::downgrade(file)));
    }

    pub(crate) fn file(&self, name: &Path) -> Option<Arc<dyn Segmented>> {
        lock(&self.files).iter().rev().find(|(known, _)| known == name)?.1.upgrade()
    }

    fn open_files(&self) -> Vec<Arc<dyn Segmented>> {
        lock(&self.files).iter().filter_map(|(_, file)| file.upgrade()).collect()
    }

    /// Memory for a segment, with bytes of any value.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        let mut bytes = lock(&self.spare).pop().unwrap_or_default();
        if bytes.len() < len {
            bytes.reserve_exact(len - bytes.len());
            bytes.resize(len, 0);
        }
        Buffer { bytes, len, spare: Arc::clone(&self.spare) }
    }

    /// Takes memory if there is some.
    fn try_take(&self, bytes: u64) -> bool {
        let mut used = lock(&self.used);
        let fits = used.saturating_add(bytes) <= BUDGET;
        if fits {
            *used += bytes;
        }
        fits
    }

    /// Takes memory for bytes that are read at once. Data that was fetched ahead long ago makes room for them.
    pub(crate) fn take_now(&self, bytes: u64) {
        if !self.try_take(bytes) {
            self.evict(true);
            *lock(&self.used) += bytes;
        }
    }

    /// Waits for memory. Returns whether there is some, rather than the end of the work.
    pub(crate) fn take(&self, bytes: u64, is_over: &AtomicBool) -> bool {
        let mut used = lock(&self.used);
        while used.saturating_add(bytes) > BUDGET {
            if is_over.load(Ordering::Relaxed) {
                return false;
            }
            used = self.released.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        !is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn release(&self, bytes: u64) {
        let mut used = lock(&self.used);
        *used = used.saturating_sub(bytes);
        self.released.notify_all();
    }

    /// Removes the oldest segment in memory, of the unplanned ones or of all. Returns whether there was one.
    fn evict(&self, all: bool) -> bool {
        let files = self.open_files();
        let oldest = files.iter().filter_map(|file| {
            let segments = lock(file.segments());
            let is_here = |(_, segment): &(&u64, &Segment)| {
                (all || !segment.is_planned) && matches!(segment.state, State::Here(_))
            };
            let (start, segment) = segments.iter().filter(is_here).min_by_key(|(_, segment)| segment.number)?;
            Some((segment.number, *start, file))
        });
        let Some((number, start, file)) = oldest.min_by_key(|(number, ..)| *number) else { return false };
        let mut segments = lock(file.segments());
        // It may have been read in the meantime.
        if segments.get(&start).is_some_and(|segment| segment.number == number) {
            let len = segments.remove(&start).map_or(0, |segment| segment.len);
            drop(segments);
            self.release(len);
        }
        true
    }

    /// Adds a segment, unless another one has some of its bytes. Returns whether it was added.
    pub(crate) fn add(&self, file: &dyn Segmented, range: &Range<u64>, state: State) -> bool {
        let len = range.end - range.start;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let mut segments = lock(file.segments());
        let last = segments.range(..range.end).next_back();
        let is_free = last.is_none_or(|(start, segment)| start + segment.len <= range.start);
        if is_free {
            let is_planned = matches!(state, State::Planned);
            segments.insert(range.start, Segment { len, state, left: len, is_planned, number });
        }
        is_free
    }

    /// Fetches a window of bytes into a segment, if there is memory for it. Returns whether it was fetched.
    pub(crate) fn fetch(&self, file: &dyn Segmented, range: &Range<u64>) -> bool {
        let len = range.end - range.start;
        let has_memory = self.try_take(len) || self.evict(false) && self.try_take(len);
        if !has_memory {
            return false;
        }
        let is_added = self.add(file, range, State::Coming);
        match is_added {
            true => file.fill(range),
            false => self.release(len),
        }
        is_added
    }

    /// Ends waiting for memory. `set` is called while no thread is between looking and waiting.
    pub(crate) fn end(&self, set: impl FnOnce()) {
        let _used = lock(&self.used);
        set();
        self.released.notify_all();
    }

    /// Forgets what is planned.
    pub(crate) fn forget_plans(&self) {
        for file in self.open_files() {
            let mut segments = lock(file.segments());
            segments.retain(|_, segment| !matches!(segment.state, State::Planned));
            segments.values_mut().for_each(|segment| segment.is_planned = false);
        }
    }
}
