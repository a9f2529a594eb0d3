//! Arbitrary bytes as GGML files.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../legacy.rs"]
mod legacy;

fuzz_target!(|data: &[u8]| {
    legacy::exercise(b"lmgg", data);
});
