//! Arbitrary bytes as GGCC files.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../legacy.rs"]
mod legacy;

fuzz_target!(|data: &[u8]| {
    legacy::exercise(b"ccgg\x0a\0\0\0", data);
});
