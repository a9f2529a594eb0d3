//! Compact sorts order like those of the standard library.

use gguf_format::sort::CompactSort;

#[test]
fn compact_sorts_are_the_sorts_of_slices() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for len in 0..200 {
        // Few keys, so that many are equal, and items that are not `Copy`, with their places.
        let items: Vec<(u64, String)> = (0..len).map(|place| (random() % (1 + len / 3), place.to_string())).collect();
        let (mut sorted, mut compact) = (items.clone(), items.clone());
        sorted.sort_by_key(|(key, _)| *key);
        compact.compact_sort_by_key(|(key, _)| *key);
        assert_eq!(compact, sorted);
        compact.compact_sort_by_cached_key(|(key, place)| (key % 3, place.to_string()));
        sorted.sort_by_cached_key(|(key, place)| (key % 3, place.to_string()));
        assert_eq!(compact, sorted);
        sorted.sort_by(|a, b| b.1.cmp(&a.1));
        compact.compact_sort_by(|a, b| b.1.cmp(&a.1));
        assert_eq!(compact, sorted);
    }
}
