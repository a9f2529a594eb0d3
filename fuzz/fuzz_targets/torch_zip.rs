//! Parsing arbitrary bytes as a file of `torch.save` terminates with bounded memory. Accepted tensors are inside the file.
#![no_main]

use gguf_hf::torch::tensors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match tensors(&data.to_vec()) {
        Ok(entries) => {
            for entry in entries {
                assert!(entry.offset + entry.storage_bytes <= data.len() as u64, "{entry:?}");
                assert!(entry.shape.len() == entry.strides.len() && entry.shape.len() <= 64, "{entry:?}");
            }
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
