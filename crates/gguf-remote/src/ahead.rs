//! Planned reads, which are fetched before they are read.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::budget::{Budget, Segmented, State, lock};
use crate::client::Client;

/// The longest segment of planned reads. Those of a run are not longer, so that each is in one segment.
const SEGMENT: u64 = 4 << 20;

/// Gaps between planned reads that are fetched with them, such as padding.
const GAP: u64 = 4 << 10;

/// Requests in flight.
const REQUESTS: usize = 8;

/// The number of planned segments that are known before they are fetched.
const LOOK_AHEAD: usize = 64;

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
        self.1.end(|| self.0.store(true, Ordering::Relaxed));
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
    let mut segments = lock(file.segments());
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
    queue: VecDeque<(Arc<dyn Segmented>, Range<u64>)>,
}

impl<I: Iterator<Item = (PathBuf, Range<u64>)>> Planned<I> {
    /// Adds segments, so that reads do not come before their plan.
    fn look_ahead(&mut self, budget: &Budget) {
        while self.queue.len() < LOOK_AHEAD {
            let Some((name, range)) = self.reads.next() else { return };
            let Some(file) = budget.file(&name) else { continue };
            let range = range.start..range.end.min(file.length().unwrap_or(u64::MAX));
            if !range.is_empty() && budget.add(&*file, &range, State::Planned) {
                self.queue.push_back((file, range));
            }
        }
    }
}

/// Joins planned reads that follow each other in a file, as long as they fit into a segment, and divides longer ones.
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
            if !follows || after.1.end.saturating_sub(range.start) > SEGMENT {
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
            // Not in one segment with the next.
            read("c", 0..10),
            read("c", 10..10 + SEGMENT),
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
            read("c", 0..10),
            read("c", 10..10 + SEGMENT),
        ];
        assert_eq!(joined, expected);
    }
}
