//! A counting allocator, and its limit: at every instant at most three times the bytes read so far plus 64 KiB are allocated.
//!
//! Reallocation counts the old and the new memory together, because both exist during the copy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// Currently allocated bytes, and the maximum excess over the limit.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);
static READ: AtomicUsize = AtomicUsize::new(0);
static EXCESS: AtomicUsize = AtomicUsize::new(0);
/// Number of allocations, and the maximum allocated since the start of the count.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

const SLACK: usize = 64 << 10;

/// There is one count at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The system's allocator, counted. It counts for all threads, so the tests that use it are a program of their own.
pub struct Counting;

fn took(n: usize) {
    let live = LIVE.fetch_add(n, SeqCst) + n;
    let allowed = BASE.load(SeqCst).saturating_add(READ.load(SeqCst).saturating_mul(3)).saturating_add(SLACK);
    EXCESS.fetch_max(live.saturating_sub(allowed), SeqCst);
    COUNT.fetch_add(1, SeqCst);
    MOST.fetch_max(live, SeqCst);
}

// SAFETY: every request is forwarded to the system's allocator unchanged, and so is its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's guarantee about `layout` is the required one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's guarantee about `layout` is the required one.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: `ptr` came from this allocator, which is the system's, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        took(new_size);
        LIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: `ptr` came from this allocator, which is the system's, with this layout; the caller guarantees the size.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

/// Records that more bytes were read.
pub fn read(n: usize) {
    READ.fetch_add(n, SeqCst);
}

/// Runs a closure; returns the number of allocations and the peak of allocated bytes.
pub fn count(run: impl FnOnce()) -> (usize, usize) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = LIVE.load(SeqCst);
    COUNT.store(0, SeqCst);
    MOST.store(before, SeqCst);
    run();
    (COUNT.load(SeqCst), MOST.load(SeqCst).saturating_sub(before))
}

/// Runs a closure after `read` bytes have been read.
///
/// # Errors
/// The maximum number of bytes by which the limit was exceeded.
pub fn law(read: usize, run: impl FnOnce()) -> Result<(), String> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    READ.store(read, SeqCst);
    BASE.store(LIVE.load(SeqCst), SeqCst);
    EXCESS.store(0, SeqCst);
    run();
    let excess = EXCESS.load(SeqCst);
    BASE.store(usize::MAX, SeqCst);
    if excess == 0 { Ok(()) } else { Err(format!("{excess} bytes too many with {} read", READ.load(SeqCst))) }
}
