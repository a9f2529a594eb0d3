//! The conformance suite: its sentences are those of the documents, and llama.cpp does what the manifest says.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use gguf_test::conformance::rules::{DOCUMENTS, RULES};
use gguf_test::conformance::{self, Observed};
use gguf_test::peers;
use tempfile::TempDir;

gguf_test::tests! {
    [Shared] every_sentence_is_in_its_document;
    [Peers] llama_cpp_does_what_the_manifest_says;
    [Peers] known_failures_are_those_of_the_list;
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

/// The sources of the suite.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

fn python() -> PathBuf {
    peers::peers().join("venv/bin/python")
}

/// A folder with the files of the suite whose names have one of these parts.
fn made(of: &[&str]) -> TempDir {
    let made = tempfile::tempdir().unwrap();
    fs::create_dir(made.path().join("files")).unwrap();
    for file in conformance::files().iter().filter(|f| of.iter().any(|part| f.name.contains(part))) {
        let mut out = File::create(made.path().join(file.path())).unwrap();
        out.write_all(&file.start).unwrap();
        out.set_len(file.len).unwrap();
    }
    made
}

/// A reader that accepts everything, and lists of its failures.
fn known_failures_are_those_of_the_list() {
    let made = made(&["bool-"]);
    let list = made.path().join("known.txt");
    let run = |options: &[&str]| {
        let mut command = Command::new(python());
        command.arg(suite().join("run.py")).args(["--only", "bool-", "--files"]).arg(made.path());
        let output = command.args(options).arg("true").output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let with = |text: &str| {
        fs::write(&list, text).unwrap();
        run(&["--known-failures", list.to_str().unwrap()])
    };
    let (code, failures, _) = run(&["--failures"]);
    assert_eq!(code, Some(1));
    assert!(failures.lines().count() > 5 && failures.lines().all(|line| line.ends_with(" accept")), "{failures}");

    let (code, out, _) = with(&format!("# all of them\n\n{failures}"));
    let n = failures.lines().count();
    let all = format!("known failures: {n} of {n}, others: 0, known ones that pass: 0");
    assert_eq!((code, out.lines().last()), (Some(0), Some(&*all)), "{out}");

    let (first, rest) = failures.split_once('\n').unwrap();
    let name = first.split(' ').next().unwrap();
    let (code, out, _) = with(rest);
    assert!(code == Some(1) && out.contains(&format!("{name}: accept, which is not in ")), "{out}");
    let (code, out, _) = with(&format!("{name} crash\n{rest}"));
    assert!(code == Some(1) && out.contains(&format!("{name}: accept, and crash in ")), "{out}");
    // Whether a limit is exceeded depends on the machine; a file that was accepted has not exceeded it.
    let (code, out, _) = with(&format!("{name} time\n{rest}"));
    assert!(code == Some(1) && out.contains(&format!("{name}: accept, and time in ")), "{out}");
    let (code, out, _) = with(&format!("{failures}files/bool-1.gguf reject\n"));
    assert!(code == Some(1) && out.contains("files/bool-1.gguf: passes; remove it from "), "{out}");
    let (code, out, _) = with(&format!("{failures}files/bool-1.gguf memory\n"));
    assert_eq!(code, Some(0), "{out}");
    for (text, problem) in [
        ("files/no-such.gguf accept", "known.txt:1: this version of the suite has no files/no-such.gguf"),
        ("files/bool-1.gguf", "known.txt:1: expected a file and an outcome"),
        ("files/bool-1.gguf fails", "known.txt:1: expected a file and an outcome"),
    ] {
        let (code, _, err) = with(text);
        assert!(code == Some(1) && err.contains(problem), "{err}");
    }
}

fn llama_cpp_does_what_the_manifest_says() {
    let suite = suite();
    let observed = Observed::of(&fs::read_to_string(suite.join("manifest.json")).unwrap());
    let made = made(&["data-", "align-", "bool-"]);
    let python = python();
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
