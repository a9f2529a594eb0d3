//! The conformance suite: its sentences are those of the documents, and llama.cpp does what the manifest says.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use gguf_test::conformance::rules::{DOCUMENTS, RULES};
use gguf_test::conformance::{self, Observed};
use gguf_test::peers;

gguf_test::tests! {
    [Shared] every_sentence_is_in_its_document;
    [Peers] llama_cpp_does_what_the_manifest_says;
}

/// Text without the signs of comments and of lists, and with single spaces.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !matches!(*word, "//" | "///" | "-" | "•" | "`" | "|---|"));
    words.collect::<Vec<_>>().join(" ")
}

fn every_sentence_is_in_its_document() {
    let spec = peers::folder(peers::SHARED).unwrap().join("spec");
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let text = plain(&fs::read_to_string(spec.join(document.file)).unwrap());
        for rule in RULES.iter().filter(|rule| rule.document == document.id) {
            if !text.contains(&plain(rule.sentence)) {
                missing.push(format!("{}: {:?} is not in {}", rule.id, rule.sentence, document.file));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(RULES.iter().all(|rule| DOCUMENTS.iter().any(|document| document.id == rule.document)));
}

fn llama_cpp_does_what_the_manifest_says() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let observed = Observed::of(&fs::read_to_string(suite.join("manifest.json")).unwrap());
    let made = tempfile::tempdir().unwrap();
    fs::create_dir(made.path().join("files")).unwrap();
    let files = conformance::files();
    for file in &files {
        let mut out = File::create(made.path().join(file.path())).unwrap();
        out.write_all(&file.start).unwrap();
        out.set_len(file.len).unwrap();
    }
    let python = peers::peers().join("venv/bin/python");
    let mut n = 0;
    for only in ["data-", "align-", "bool-"] {
        let output = Command::new(&python)
            .arg(suite.join("run.py"))
            .args(["--json", "--only", only, "--files"])
            .arg(made.path())
            .arg(&python)
            .arg(suite.join("adapters/llama_cpp.py"))
            .output()
            .unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{e}: {}", String::from_utf8_lossy(&output.stderr));
        });
        for (path, result) in said["files"].as_object().unwrap() {
            assert_eq!(result["outcome"].as_str(), observed.outcome(path, "llama.cpp"), "{path}: {result}");
            n += 1;
        }
    }
    assert!(n > 150, "{n} files");
}
