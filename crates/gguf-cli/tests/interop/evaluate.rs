//! Evaluation through real libllama: what it computes, which libraries are refused, and what is left of a program that is killed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use gguf_quantize::imatrix::ImatrixFile;
use gguf_test::files::text;
use gguf_test::peers::{Peers, peers};
use gguf_test::program::{gguf, program};

/// Runs the program with the peers' library, on one thread: their library waits actively.
fn with_library(args: &[&str]) -> gguf_test::program::Run {
    let lib = peers().join("lib");
    gguf([args, &["--llama", text(&lib)]].concat())
}

/// The divergence of Q4_K_M side by side: nothing is raised, so the ratio is that of the perplexities, 441.49 and 436.02.
fn models_are_compared_side_by_side() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let (model, small) = (peers.data("glossary-bf16.gguf"), dir.path().join("q4.gguf"));
    let validation = peers.data("glossary/validation.txt");
    gguf(["quantize", text(&model), text(&small), "Q4_K_M", "-q"]).exits(0);
    let args = ["kld", text(&model), text(&small), text(&validation), "--chunks", "42", "-j", "1", "-q", "--json"];
    let answer = with_library(&args).exits(0).json();
    let found = &answer["models"][0];
    let ratio = found["ratio"]["value"].as_f64().unwrap();
    assert!((ratio - 1.0125).abs() < 0.0005, "{ratio}");
    assert_eq!(answer["tokens"], 42 * 255);
    let mean = found["kld"]["mean"]["value"].as_f64().unwrap();
    let limit = format!("{}", mean / 2.0);
    let args =
        ["kld", text(&model), text(&small), text(&validation), "--chunks", "2", "-j", "1", "-q", "--max-kld", &limit];
    with_library(&args).exits(1).says(&["the mean divergence is"]);

    // Through a file, in which small probabilities are raised, the original seems to be better than it is.
    let base = dir.path().join("base");
    let args = ["perplexity", text(&model), text(&validation), "--chunks", "42", "-j", "1", "-q", "--save-base"];
    with_library(&[&args[..], &[text(&base)]].concat()).exits(0);
    let args = ["kld", "--base", text(&base), text(&small), "-j", "1", "-q", "--json"];
    let answer = with_library(&args).exits(0).json();
    let ratio = answer["models"][0]["ratio"]["value"].as_f64().unwrap();
    assert!((ratio - 1.2777).abs() < 0.001, "{ratio}");
}

/// The matrix has the entries and counts of the one that llama-imatrix wrote. Sums of two builds of the library differ by up to 3.3e-4.
fn matrices_are_those_of_llama_imatrix() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.gguf");
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let args =
        ["imatrix", "compute", text(&model), text(&validation), "-o", text(&out), "-c", "128", "--chunks", "200"];
    with_library(&[&args[..], &["-j", "1", "-q"]].concat()).exits(0);
    let [ours, theirs] =
        [&out, &peers.data("glossary-imatrix.gguf")].map(|path| ImatrixFile::open(path).unwrap().load().unwrap());
    assert_eq!((ours.chunk_count, ours.chunk_size), (theirs.chunk_count, theirs.chunk_size));
    assert!(ours.entries.keys().eq(theirs.entries.keys()));
    for (ours, theirs) in ours.entries.values().zip(theirs.entries.values()) {
        assert_eq!(ours.counts, theirs.counts);
        for (a, b) in ours.sums.iter().zip(&theirs.sums) {
            assert!((a - b).abs() <= 1e-3 * b, "{a} {b}");
        }
    }
}

/// Libraries that cannot be used are refused, with the reason.
fn unusable_libraries_are_refused() {
    let lib = peers().join("lib");
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let refused = |folder: &Path, said: &str| {
        gguf(["engine", "--llama", text(folder)]).exits(2).says(&[said, "help: "]);
    };
    refused(&folder("empty"), "there is no libllama.so in this folder");
    let truncated = folder("truncated");
    let bytes = fs::read(lib.join("libllama.so")).unwrap();
    fs::write(truncated.join("libllama.so"), &bytes[..100_000]).unwrap();
    refused(&truncated, "the library cannot be opened");
    // Another library under its name stands for one that is too old.
    let other = folder("other");
    fs::copy(lib.join("libggml-base.so"), other.join("libllama.so")).unwrap();
    refused(&other, "the library has no function llama_backend_init");
    let without = folder("without-cpu");
    for entry in fs::read_dir(&lib).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap();
        if !name.contains("-cpu-") {
            fs::copy(&entry, without.join(name)).unwrap();
        }
    }
    refused(&without, "the library has no CPU backend");
    let answer = gguf(["engine", "--llama", text(&lib), "--json"]).exits(0).json();
    assert!(answer["devices"].as_array().is_some_and(|devices| !devices.is_empty()), "{answer}");
    assert!(!cfg!(target_os = "linux") || answer["denied"][0] == "network", "{answer}");
}

/// A program that is killed leaves no half file, and no process of the library.
fn nothing_is_left_of_a_killed_program() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.gguf");
    let lib = gguf_test::peers::peers().join("lib");
    let mark = format!("KILLED_BY_TEST={}", dir.path().display());
    let (name, value) = mark.split_once('=').unwrap();
    for milliseconds in [0, 200, 1000, 3000] {
        let mut command = program();
        command.env(name, value);
        command.args(["imatrix", "compute"]).arg(peers.data("glossary-bf16.gguf"));
        command.arg(peers.data("glossary/validation.txt")).arg("-o").arg(&out);
        command.args(["-j", "1", "-q", "--resume", "--llama"]).arg(&lib);
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!out.exists());
    }
    // The library's process notices the end of its input at once, even if it computes. Other tests have such processes, too.
    let is_left = || {
        fs::read_dir("/proc").unwrap().any(|entry| {
            let variables = fs::read(entry.unwrap().path().join("environ")).unwrap_or_default();
            variables.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
        })
    };
    let ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        !is_left()
    });
    assert!(ended);
}

gguf_test::tests! {
    [Peers, Shared] models_are_compared_side_by_side;
    [Peers, Shared] matrices_are_those_of_llama_imatrix;
    [Peers] unusable_libraries_are_refused;
    [Peers, Shared] nothing_is_left_of_a_killed_program;
}
