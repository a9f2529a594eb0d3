//! Parsing arbitrary bytes as the head of a safetensors file terminates with bounded memory. The tensors of an accepted head cover the data
//! without gap or overlap. The first two bytes are the length of the data.
#![no_main]

use gguf_hf::safetensors::{MAX_DIMS, header_bytes, parse_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((prefix, _)) = data.split_first_chunk::<8>()
        && let Ok(n) = header_bytes(*prefix, data.len() as u64)
    {
        assert!(n + 8 <= data.len() as u64);
    }
    let [a, b, json @ ..] = data else { return };
    let data_bytes = u64::from(u16::from_le_bytes([*a, *b]));
    match parse_header(json, data_bytes) {
        Ok(mut entries) => {
            assert!(entries.windows(2).all(|w| w[0].name < w[1].name), "names in order, each once");
            entries.sort_by_key(|e| (e.offset, e.bytes));
            let mut end = 0;
            for entry in &entries {
                assert_eq!(entry.offset, end);
                assert!(entry.shape.len() <= MAX_DIMS);
                end += entry.bytes;
            }
            assert_eq!(end, data_bytes);
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
