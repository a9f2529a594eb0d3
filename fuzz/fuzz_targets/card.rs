//! Parsing arbitrary files as a model card, generation settings and configuration terminates with bounded memory. The files are separated
//! by a separator.
#![no_main]

mod common;

use gguf_hf::metadata::{MetadataOptions, ParameterCounts, key_values};
use libfuzzer_sys::fuzz_target;

const FILES: &[&str] = &["README.md", "generation_config.json", "config.json", "metadata.json"];

fuzz_target!(|data: &[u8]| {
    common::write_files(FILES, data);
    let metadata = Some(common::folder().join("metadata.json")).filter(|path| path.exists());
    let options = MetadataOptions { metadata, ..MetadataOptions::default() };
    match key_values(&common::folder().to_owned(), &options, &ParameterCounts::default()) {
        Ok(found) => {
            found.warnings.iter().for_each(|warning| assert!(!warning.to_string().is_empty()));
            let mut keys: Vec<&str> = found.kvs.iter().map(|(key, _)| key.as_str()).collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|w| w[0] != w[1]), "duplicate key");
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
