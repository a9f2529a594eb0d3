//! The crates depend on each other in one direction only: types, views, knowledge, execution, surfaces.

use std::fs;
use std::path::Path;

/// What each crate may import of the others.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("gguf-format", &[]),
    ("gguf-quants", &["gguf-format"]),
    ("gguf-arch", &["gguf-format"]),
    ("gguf-io", &["gguf-format"]),
    ("gguf-convert", &["gguf-format", "gguf-quants", "gguf-arch", "gguf-io"]),
    ("gguf-cli", &["gguf-format", "gguf-quants", "gguf-arch", "gguf-io", "gguf-convert"]),
    ("gguf-capi", &["gguf-format", "gguf-quants", "gguf-arch", "gguf-io"]),
];

#[test]
fn crates_import_downwards() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let (_, may) = MAY_IMPORT.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} is not listed"));
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        for line in dependencies.lines() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if dependency.starts_with("gguf-") {
                assert!(may.contains(&dependency), "{name} imports {dependency}");
            } else {
                assert!(name != "gguf-format" || dependency.is_empty(), "{name} depends on {dependency}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, MAY_IMPORT.len());
}
