//! Arbitrary bytes are parsed or rejected, and every parsed head can be used.
#![no_main]

use gguf_test::corpus;

use gguf_format::{Gguf, Problem};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let len = data.len() as u64;
    match Gguf::parse_within(data, Some(len)) {
        Ok(gguf) => {
            corpus::accessors::exercise(&gguf);
            let without = Gguf::parse(data).expect("the file's length only limits");
            assert_eq!(without.head_bytes(), gguf.head_bytes());
        }
        Err(e) => {
            assert!(e.need().is_none() && !e.to_string().contains(char::is_control), "{e}");
            if let Problem::PastEnd { need, len: said } = e.problem {
                assert!(need > len && said == len, "{e}");
            }
            if let Ok(gguf) = Gguf::parse(data) {
                panic!("{e}, and without the length {gguf:?}");
            }
        }
    }
});
