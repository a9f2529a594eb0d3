//! The crates depend on each other in one direction only: types, views, knowledge, execution, surfaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that each crate may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("gguf-format", &[]),
    ("gguf-quants", &["gguf-format"]),
    ("gguf-io", &["gguf-format", "gguf-quants"]),
    ("gguf-model", &["gguf-format"]),
    ("gguf-pipeline", &["gguf-format", "gguf-quants", "gguf-io", "gguf-model"]),
    ("gguf-quantize", &["gguf-format", "gguf-quants", "gguf-io", "gguf-pipeline"]),
    ("gguf-hf", &["gguf-format", "gguf-quants", "gguf-io", "gguf-model", "gguf-pipeline"]),
    ("gguf-legacy", &["gguf-format", "gguf-quants", "gguf-io", "gguf-model", "gguf-pipeline"]),
    ("gguf-edit", &["gguf-format", "gguf-quants", "gguf-io", "gguf-model", "gguf-pipeline"]),
    ("gguf-remote", &["gguf-format", "gguf-io", "gguf-hf", "gguf-pipeline"]),
    ("gguf-engine", &["gguf-quantize"]),
    ("ggufkit", LIBRARIES),
    ("gguf-cli", ALL),
    ("gguf-capi", &["gguf-format", "gguf-quants", "gguf-io", "gguf-model"]),
    ("gguf-python", &["gguf-format", "gguf-quants", "ggufkit"]),
    ("gguf-wasm", &["ggufkit"]),
    // For tests only: in no other list.
    ("gguf-test", &["gguf-format", "gguf-quants", "gguf-io", "gguf-capi"]),
];

/// All crates below the surfaces.
const ALL: &[&str] = &[
    "gguf-format",
    "gguf-quants",
    "gguf-io",
    "gguf-model",
    "gguf-pipeline",
    "gguf-quantize",
    "gguf-hf",
    "gguf-legacy",
    "gguf-edit",
    "gguf-remote",
    "gguf-engine",
    "ggufkit",
];

/// All crates below the facade.
const LIBRARIES: &[&str] = ALL.split_at(ALL.len() - 1).0;

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
            if dependency.starts_with("gguf") {
                assert!(may.contains(&dependency), "{name} imports {dependency}");
            } else {
                let is_optional = line.contains("optional = true");
                let is_free = name != "gguf-format" || dependency.is_empty() || is_optional;
                assert!(is_free, "{name} depends on {dependency}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, MAY_IMPORT.len());
}

/// Libraries do not refer to the command line: neither to the options of the program nor to its commands. `gguf-cli/src/hints.rs` has the
/// hints in these terms.
#[test]
fn libraries_name_no_option_of_the_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let options = options_of(&crates.join("gguf-cli/src"));
    assert!(options.len() > 40 && options.contains("--imatrix"), "{options:?}");
    let mut found = Vec::new();
    for name in ALL {
        for file in sources(&crates.join(name).join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for (i, line) in text.lines().enumerate() {
                let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let is_option = words.clone().any(|word| options.contains(word));
                if is_option || line.contains("`gguf ") {
                    found.push(format!("{}:{}: {}", file.display(), i + 1, line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The names of the program's options: the fields with `#[arg(long)]`.
fn options_of(folder: &Path) -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    for file in sources(folder) {
        let text = fs::read_to_string(file).unwrap();
        for (_, rest) in text.match_indices("#[arg(").map(|(at, _)| text.split_at(at)) {
            let (attribute, rest) = rest.split_at(rest.find(")]").unwrap_or(0));
            if !attribute.contains("long") {
                continue;
            }
            let field = rest.trim_start_matches([')', ']']).trim_start();
            let field = field.strip_prefix("pub ").unwrap_or(field).split(':').next().unwrap();
            let given = attribute.split("long = \"").nth(1).and_then(|rest| rest.split('"').next());
            let name = given.map_or_else(|| field.replace('_', "-"), str::to_owned);
            options.insert(format!("--{name}"));
        }
    }
    options
}

/// All sources in a directory.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.extension() {
            _ if path.is_dir() => out.extend(sources(&path)),
            Some(extension) if extension == "rs" => out.push(path),
            _ => {}
        }
    }
    out
}
