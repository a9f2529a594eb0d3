//! Data that is fetched before it is read, within a budget of memory.
//!
//! The bytes of a file that are in memory, or on their way, are its segments. A segment is removed when all of it was read.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::client::Client;
use crate::error::Error;
use crate::ranged::{Fetch, Ranged};

/// The memory for fetched data of all files of a client.
const BUDGET: u64 = 32 << 20;

/// The length of a segment of planned reads.
const SEGMENT: u64 = 4 << 20;

/// Gaps between planned reads that are fetched with them, such as padding.
const GAP: u64 = 4 << 10;

/// Requests in flight.
const REQUESTS: usize = 8;

/// The number of planned segments that are known before they are fetched.
const LOOK_AHEAD: usize = 64;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of any kind.
pub(crate) type AnyFile = Ranged<dyn Fetch>;

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
    bytes: Vec<u8>,
    spare: Arc<Spare>,
}

/// Memory that is not in use.
type Spare = Mutex<Vec<Vec<u8>>>;

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut spare = lock(&self.spare);
        if spare.len() < REQUESTS {
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
    files: Mutex<Vec<(PathBuf, Weak<AnyFile>)>>,
}

impl Budget {
    pub(crate) fn add_file(&self, name: &Path, file: &Arc<AnyFile>) {
        let mut files = lock(&self.files);
        files.retain(|(_, file)| file.strong_count() > 0);
        files.push((name.to_owned(), Arc::downgrade(file)));
    }

    fn file(&self, name: &Path) -> Option<Arc<AnyFile>> {
        lock(&self.files).iter().rev().find(|(known, _)| known == name)?.1.upgrade()
    }

    fn open_files(&self) -> Vec<Arc<AnyFile>> {
        lock(&self.files).iter().filter_map(|(_, file)| file.upgrade()).collect()
    }

    /// Memory for a segment, with bytes of any value.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        let mut bytes = lock(&self.spare).pop().unwrap_or_default();
        bytes.resize(len, 0);
        Buffer { bytes, spare: Arc::clone(&self.spare) }
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
    fn take(&self, bytes: u64, is_over: &AtomicBool) -> bool {
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
            let segments = lock(&file.segments);
            let is_here = |(_, segment): &(&u64, &Segment)| {
                (all || !segment.is_planned) && matches!(segment.state, State::Here(_))
            };
            let (start, segment) = segments.iter().filter(is_here).min_by_key(|(_, segment)| segment.number)?;
            Some((segment.number, *start, file))
        });
        let Some((number, start, file)) = oldest.min_by_key(|(number, ..)| *number) else { return false };
        let mut segments = lock(&file.segments);
        // It may have been read in the meantime.
        if segments.get(&start).is_some_and(|segment| segment.number == number) {
            let len = segments.remove(&start).map_or(0, |segment| segment.len);
            drop(segments);
            self.release(len);
        }
        true
    }

    /// Adds a segment, unless another one has some of its bytes. Returns whether it was added.
    fn add(&self, file: &Ranged<impl Fetch + ?Sized>, range: &Range<u64>, state: State) -> bool {
        let len = range.end - range.start;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let mut segments = lock(&file.segments);
        let last = segments.range(..range.end).next_back();
        let is_free = last.is_none_or(|(start, segment)| start + segment.len <= range.start);
        if is_free {
            let is_planned = matches!(state, State::Planned);
            segments.insert(range.start, Segment { len, state, left: len, is_planned, number });
        }
        is_free
    }

    /// Forgets what is planned.
    fn forget_plans(&self) {
        for file in self.open_files() {
            let mut segments = lock(&file.segments);
            segments.retain(|_, segment| !matches!(segment.state, State::Planned));
            segments.values_mut().for_each(|segment| segment.is_planned = false);
        }
    }
}

/// Fetches a window of bytes into a segment, if there is memory for it. Returns whether it was fetched.
pub(crate) fn fetch_window(client: &Client, file: &Ranged<impl Fetch + ?Sized>, range: &Range<u64>) -> bool {
    let (budget, len) = (client.budget(), range.end - range.start);
    let has_memory = budget.try_take(len) || budget.evict(false) && budget.try_take(len);
    if !has_memory {
        return false;
    }
    let is_added = budget.add(file, range, State::Coming);
    match is_added {
        true => file.fill(range),
        false => budget.release(len),
    }
    is_added
}

impl Client {
    /// Runs `work`, and meanwhile fetches the bytes that it will read, in nearly the given order: names of files of this client, and ranges.
    /// Other files are ignored. Reads that are not planned are requests of their own. At most 32 MiB are in memory or on their way.
    pub fn ahead<T>(&self, reads: impl Iterator<Item = (PathBuf, Range<u64>)> + Send, work: impl FnOnce() -> T) -> T {
        let budget = self.budget();
        let mut planned = Planned { reads: Joined { reads, next: None }, queue: VecDeque::new() };
        planned.look_ahead(budget);
        if planned.queue.is_empty() {
            return work();
        }
        let (planned, is_over) = (Mutex::new(planned), AtomicBool::new(false));
        let done = std::thread::scope(|scope| {
            let _over = Over(&is_over, budget);
            let fetch = || while fetch_next(budget, &planned, &is_over) {};
            for _ in 0..REQUESTS {
                let thread = std::thread::Builder::new().name("read-ahead".into()).stack_size(512 << 10);
                // Without threads, the work itself requests its data.
                let _ = thread.spawn_scoped(scope, fetch);
            }
            work()
        });
        budget.forget_plans();
        done
    }
}

/// Ends the threads, also if the work panics.
struct Over<'a>(&'a AtomicBool, &'a Budget);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // With the lock, so that no thread is between looking and waiting.
        let _used = lock(&self.1.used);
        self.0.store(true, Ordering::Relaxed);
        self.1.released.notify_all();
    }
}

/// Fetches the next planned segment. Returns whether there may be others.
fn fetch_next<I>(budget: &Budget, planned: &Mutex<Planned<I>>, is_over: &AtomicBool) -> bool
where
    I: Iterator<Item = (PathBuf, Range<u64>)>,
{
    // The lock is held while waiting for memory: segments get it in order.
    let mut planned = lock(planned);
    planned.look_ahead(budget);
    let Some((file, range)) = planned.queue.pop_front() else { return false };
    let len = range.end - range.start;
    if !budget.take(len, is_over) {
        return false;
    }
    drop(planned);
    let mut segments = lock(&file.segments);
    match segments.get_mut(&range.start).filter(|segment| matches!(segment.state, State::Planned)) {
        Some(segment) => {
            segment.state = State::Coming;
            drop(segments);
            file.fill(&range);
        }
        // It was needed already.
        None => {
            drop(segments);
            budget.release(len);
        }
    }
    true
}

/// Planned reads, and the segments that were made of the next ones.
struct Planned<I> {
    reads: Joined<I>,
    queue: VecDeque<(Arc<AnyFile>, Range<u64>)>,
}

impl<I: Iterator<Item = (PathBuf, Range<u64>)>> Planned<I> {
    /// Adds segments, so that reads do not come before their plan.
    fn look_ahead(&mut self, budget: &Budget) {
        while self.queue.len() < LOOK_AHEAD {
            let Some((name, range)) = self.reads.next() else { return };
            let Some(file) = budget.file(&name) else { continue };
            let range = range.start..range.end.min(file.ranges.length().unwrap_or(u64::MAX));
            if !range.is_empty() && budget.add(&file, &range, State::Planned) {
                self.queue.push_back((file, range));
            }
        }
    }
}

/// Joins planned reads that follow each other in a file, up to the length of a segment, and divides longer ones.
struct Joined<I> {
    reads: I,
    next: Option<(PathBuf, Range<u64>)>,
}

impl<I: Iterator<Item = (PathBuf, Range<u64>)>> Iterator for Joined<I> {
    type Item = (PathBuf, Range<u64>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, mut range) = self.next.take().or_else(|| self.reads.next())?;
        while range.end.saturating_sub(range.start) < SEGMENT {
            let Some(after) = self.reads.next() else { break };
            let follows = after.0 == name && after.1.start >= range.end && after.1.start - range.end <= GAP;
            if !follows {
                self.next = Some(after);
                break;
            }
            range.end = after.1.end.max(range.end);
        }
        if range.end.saturating_sub(range.start) > SEGMENT {
            let cut = range.start + SEGMENT;
            // The rest comes first; what follows it was not taken from the reads.
            self.next = Some((name.clone(), cut..range.end));
            range.end = cut;
        }
        Some((name, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_joined_and_divided() {
        let read = |name: &str, range| (PathBuf::from(name), range);
        let reads = [
            read("a", 0..10),
            read("a", 10..20),
            read("a", 52..60),
            read("b", 60..70),
            read("a", 70..80),
            read("a", 10_000..10_000 + SEGMENT * 2 + 5),
            read("a", 10_000 + SEGMENT * 2 + 5..10_000 + SEGMENT * 2 + 7),
            read("a", 5..6),
        ];
        let joined: Vec<_> = Joined { reads: reads.into_iter(), next: None }.collect();
        let long = 10_000;
        let expected = [
            read("a", 0..60),
            read("b", 60..70),
            read("a", 70..80),
            read("a", long..long + SEGMENT),
            read("a", long + SEGMENT..long + SEGMENT * 2),
            read("a", long + SEGMENT * 2..long + SEGMENT * 2 + 7),
            read("a", 5..6),
        ];
        assert_eq!(joined, expected);
    }
}
