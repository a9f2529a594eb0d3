//! Valid files re-encode to the same bytes: unchanged, with every array rebuilt, and by way of another dialect.
#![no_main]

use gguf_test::corpus;

use corpus::rewrite::{plain_dialects, rebuilt, through};
use gguf_format::Gguf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(gguf) = Gguf::parse(data) else { return };
    let read = &data[..gguf.head_bytes() as usize];
    let head = corpus::accessors::round_trip(&gguf);
    assert!(rebuilt(&head).encode_as_read().expect("a head that was read") == read);
    for dialect in plain_dialects() {
        let back = through(&head, dialect);
        assert!(back.is_none_or(|back| back == read), "by way of {dialect:?}");
    }
});
