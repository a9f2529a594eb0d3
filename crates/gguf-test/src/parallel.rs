//! Work on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of `work` for each item, in the order of the items. Each thread has a state of its own, which `state` makes. A panic in `work`
/// fails the test.
pub fn map_with<T: Sync, S, R: Send>(
    items: &[T],
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let n_threads = thread::available_parallelism().map_or(1, |n| n.get()).min(items.len());
    let run = || {
        let (mut state, mut results) = (state(), Vec::new());
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return results };
            results.push((i, work(&mut state, item)));
        }
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// As [`map_with`], without a state.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_with(items, || (), |(), item| work(item))
}
