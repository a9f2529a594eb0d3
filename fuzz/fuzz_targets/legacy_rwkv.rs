//! Arbitrary bytes as files of rwkv.cpp.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../legacy.rs"]
mod legacy;

fuzz_target!(|data: &[u8]| {
    legacy::exercise(b"fmgg\x64\0\0\0", data);
});
