//! Stable sorting with one small compiled sort for all types.
//!
//! The sort of the standard library is compiled for each type and comparison, 4 KB at a time, which is worth it for long lists. The crates of
//! the workspace have fifty sorts of short ones: they sort the places of the items, and compare through a pointer to a function.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;

/// Sorts of slices in little code. The order is that of the methods of `slice` with similar names.
pub trait CompactSort<T> {
    /// Sorts as [`sort_by`](slice::sort_by) does.
    fn compact_sort_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts as [`sort_by_key`](slice::sort_by_key) does.
    fn compact_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.compact_sort_by(|a, b| key(a).cmp(&key(b)));
    }

    /// Sorts as [`sort_by_cached_key`](slice::sort_by_cached_key) does.
    fn compact_sort_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> CompactSort<T> for [T] {
    #[expect(clippy::indexing_slicing, reason = "the places are those of the elements")]
    fn compact_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let order = sorted_places(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        arrange(self, order);
    }

    #[expect(clippy::indexing_slicing, reason = "there is a key for each element")]
    fn compact_sort_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        let keys: Vec<K> = self.iter().map(key).collect();
        let order = sorted_places(self.len(), &mut |a, b| keys[a].cmp(&keys[b]));
        arrange(self, order);
    }
}

/// Moves each item from the place in `order` to that of the entry.
#[expect(clippy::indexing_slicing, reason = "the places are those of the items, each once")]
fn arrange<T>(items: &mut [T], mut order: Vec<usize>) {
    for start in 0..items.len() {
        // Follows the cycle that begins here; places that are done refer to themselves.
        let mut to = start;
        loop {
            let from = mem::replace(&mut order[to], to);
            if from == to || from == start {
                break;
            }
            items.swap(to, from);
            to = from;
        }
    }
}

/// The places of the items in their sorted order: a merge sort, which takes a tenth of the code of `slice::sort_by`.
fn sorted_places(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    let mut merged = places.clone();
    let mut width = 1;
    while width < len {
        merged.clear();
        for pair in places.chunks(2 * width) {
            let (mut first, mut second) = pair.split_at(width.min(pair.len()));
            // Of sorted lists, only the ends are compared.
            if let (Some(&a), Some(&b)) = (first.last(), second.first())
                && compare(a, b).is_gt()
            {
                while let (Some((&a, after_a)), Some((&b, after_b))) = (first.split_first(), second.split_first()) {
                    if compare(a, b).is_le() {
                        merged.push(a);
                        first = after_a;
                    } else {
                        merged.push(b);
                        second = after_b;
                    }
                }
            }
            merged.extend_from_slice(first);
            merged.extend_from_slice(second);
        }
        mem::swap(&mut places, &mut merged);
        width *= 2;
    }
    places
}
