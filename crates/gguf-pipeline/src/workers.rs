//! The worker loop: distributes items among threads; the first error or a cancellation ends it early.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::progress::{Cancelled, Progress};

/// Upper limit of the number of threads: more gain nothing, and each needs memory for a few chunks.
pub const MAX_THREADS: usize = 256;

/// Calls `work` for each item on several threads, `None` for the parallelism of the machine. Each thread creates a `state` that it reuses
/// for all its items. Items are taken in order; there are never more threads than items or than [`MAX_THREADS`], and fewer if the system
/// cannot start them.
///
/// # Errors
/// The first error of a thread, or [`Cancelled`] if [`Progress::is_cancelled`] returns true before an item. The other threads finish their
/// current items.
pub fn for_each<T, S, E: From<Cancelled> + Send>(
    threads: Option<NonZeroUsize>,
    items: impl Iterator<Item = T> + Clone + Send,
    progress: &dyn Progress,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let available = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let n_items = items.clone().take(MAX_THREADS).count();
    let threads = threads.unwrap_or_else(available).get().min(n_items);
    let items = Mutex::new(items);
    let stop = AtomicBool::new(false);
    let first_error = Mutex::new(None);
    run_on(threads, &|| {
        let mut state = state();
        while !stop.load(Ordering::Relaxed) {
            let next = items.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(item) = next else { break };
            let done = match progress.is_cancelled() {
                true => Err(Cancelled.into()),
                false => work(&mut state, item),
            };
            if let Err(e) = done {
                stop.store(true, Ordering::Relaxed);
                first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
            }
        }
    });
    first_error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Calls `worker` on that many threads, one of which is the caller's. Not generic: the threads of all loops are the same code.
fn run_on(threads: usize, worker: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        worker();
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Event;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicUsize;

    #[derive(Debug, PartialEq)]
    enum Ended {
        Cancelled,
        At(usize),
    }

    impl From<Cancelled> for Ended {
        fn from(_: Cancelled) -> Ended {
            Ended::Cancelled
        }
    }

    #[test]
    fn every_item_is_worked_on_once_by_no_more_threads_than_there_are_items() {
        for (asked, n_items, most) in
            [(1, 9, 1), (3, 9, 3), (100_000, 3, 3), (9, 0, 1), (usize::MAX, 1000, MAX_THREADS)]
        {
            let (states, done) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
            let state = || states.fetch_add(1, Ordering::Relaxed);
            let work = |_: &mut usize, item| match done.lock().unwrap().insert(item) {
                true => Ok(()),
                false => Err(Ended::At(item)),
            };
            for_each(NonZeroUsize::new(asked), 0..n_items, &(), state, work).unwrap();
            assert_eq!(done.into_inner().unwrap().len(), n_items);
            assert!(states.into_inner() <= most, "{asked} for {n_items}");
        }
    }

    #[test]
    fn an_error_or_a_cancellation_ends_all_threads() {
        for threads in [1, 2, 7] {
            let n = AtomicUsize::new(0);
            let work = |(): &mut (), item| {
                n.fetch_add(1, Ordering::Relaxed);
                if item == 5 { Err(Ended::At(item)) } else { Ok(()) }
            };
            let result = for_each(NonZeroUsize::new(threads), 0..1_000_000, &(), || (), work);
            assert_eq!(result, Err(Ended::At(5)));
            assert!(n.into_inner() < 1_000_000, "the others went on");
        }
        struct Stop;
        impl Progress for Stop {
            fn event(&self, _: Event<'_>) {}
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let never = |(): &mut (), item| Err(Ended::At(item));
        assert_eq!(for_each(NonZeroUsize::new(2), 0..9, &Stop, || (), never), Err(Ended::Cancelled));
    }
}
