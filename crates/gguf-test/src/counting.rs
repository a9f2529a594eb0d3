//! An allocator that counts, and the law that it judges: at every instant at most three times the bytes read so far and
//! 64 KiB are allocated.
//!
//! Growing counts the old and the new memory together, as both exist while one is copied to the other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Allocated now, and the most that was beyond what the bytes read allow.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);
static READ: AtomicUsize = AtomicUsize::new(0);
static EXCESS: AtomicUsize = AtomicUsize::new(0);
/// Number of allocations, and the most that was allocated since the count began.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

const SLACK: usize = 64 << 10;

/// The system's allocator, counted.
pub struct Counting;

fn took(n: usize) {
    let live = LIVE.fetch_add(n, SeqCst) + n;
    let allowed = BASE.load(SeqCst).saturating_add(READ.load(SeqCst).saturating_mul(3)).saturating_add(SLACK);
    EXCESS.fetch_max(live.saturating_sub(allowed), SeqCst);
    COUNT.fetch_add(1, SeqCst);
    MOST.fetch_max(live, SeqCst);
}

// SAFETY: every request is passed on to the system's allocator as it came, and its answer is given back as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise about `layout` is the one that is asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise about `layout` is the one that is asked for here.
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
        // SAFETY: `ptr` came from this allocator, which is the system's, with this layout; the caller answers for the size.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

/// Says that more bytes were read.
pub fn read(n: usize) {
    READ.fetch_add(n, SeqCst);
}

/// Runs something; gives how often it allocated, and the most bytes that it had at once.
pub fn count(run: impl FnOnce()) -> (usize, usize) {
    let before = LIVE.load(SeqCst);
    COUNT.store(0, SeqCst);
    MOST.store(before, SeqCst);
    run();
    (COUNT.load(SeqCst), MOST.load(SeqCst).saturating_sub(before))
}

/// Runs something for which `read` bytes were read already.
///
/// # Errors
/// How many bytes were allocated at some instant beyond what the law allows.
pub fn law(read: usize, run: impl FnOnce()) -> Result<(), String> {
    READ.store(read, SeqCst);
    BASE.store(LIVE.load(SeqCst), SeqCst);
    EXCESS.store(0, SeqCst);
    run();
    let excess = EXCESS.load(SeqCst);
    BASE.store(usize::MAX, SeqCst);
    if excess == 0 { Ok(()) } else { Err(format!("{excess} bytes too many with {} read", READ.load(SeqCst))) }
}
