//! Arbitrary bytes as GGJT files; the first byte selects the version.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../legacy.rs"]
mod legacy;

fuzz_target!(|data: &[u8]| {
    let Some((version, data)) = data.split_first() else { return };
    legacy::exercise(&[b't', b'j', b'g', b'g', 1 + version % 3, 0, 0, 0], data);
});
