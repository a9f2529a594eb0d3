//! Parsing arbitrary bytes as the pickle of a PyTorch file terminates with bounded memory. Accepted tensors are inside their storage.
#![no_main]

use gguf_hf::torch::tensors;
use gguf_test::torch::file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let storages = [("0", vec![0; 24]), ("1", vec![0; 6]), ("2", Vec::new())];
    let file = file(data, &storages);
    match tensors(&file) {
        Ok(entries) => {
            for entry in entries {
                let width = u64::from(entry.dtype.bits / 8);
                let n: u64 = entry.shape.iter().product();
                let steps = entry.shape.iter().zip(&entry.strides);
                // A tensor without elements may have any strides.
                let last =
                    steps.map(|(n, stride)| n.saturating_sub(1).saturating_mul(*stride)).fold(0, u64::saturating_add);
                assert!(n == 0 || last.saturating_add(1).saturating_mul(width) <= entry.storage_bytes, "{entry:?}");
                assert!(entry.storage_bytes <= 24 && entry.offset + entry.storage_bytes <= file.len() as u64);
            }
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
