//! A head that arrives in pieces gives the same result as at once. The last byte is the size of the pieces, the one before it their growth.
#![no_main]

use gguf_test::corpus;

use corpus::growth::{scan, scan_as_needed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [data @ .., grow, first] = data else { return };
    for total in [None, Some(data.len() as u64)] {
        let at_once = scan(data, total, []);
        let (mut size, mut given) = (usize::from(*first), 0);
        let pieces = std::iter::from_fn(|| {
            given += size + 1;
            size = (size + usize::from(*grow)) % 512;
            (given < data.len()).then_some(given)
        });
        assert_eq!(scan(data, total, pieces), at_once);
        assert_eq!(scan_as_needed(data, total), at_once);
    }
});
