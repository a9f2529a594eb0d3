//! Arbitrary bytes as LoRA adapters (GGLA).
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../legacy.rs"]
mod legacy;

fuzz_target!(|data: &[u8]| {
    legacy::exercise(b"algg\x01\0\0\0", data);
});
