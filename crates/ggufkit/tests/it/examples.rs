//! Runs the example programs and checks their output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

static BUILT: Once = Once::new();

/// Builds all examples as the tests were built: in the same folder, with the same profile and target.
fn build() {
    let tests = std::env::current_exe().unwrap();
    let folders: Vec<&str> =
        tests.ancestors().skip(2).take(2).map(|at| at.file_name().unwrap().to_str().unwrap()).collect();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--examples"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    match folders[0] {
        "debug" => {}
        profile => {
            cargo.args(["--profile", profile]);
        }
    }
    // `target/debug`, or with `--target` `target/x86_64-unknown-linux-gnu/debug`.
    let mut target = tests.ancestors().nth(3).unwrap();
    if folders[1].matches('-').count() >= 2 {
        cargo.args(["--target", folders[1]]);
        target = target.parent().unwrap();
    }
    assert!(cargo.env("CARGO_TARGET_DIR", target).status().unwrap().success());
}

/// Runs an example, which `cargo test -p ggufkit` has built.
fn run(name: &str, args: &[&Path]) -> Output {
    let tests = std::env::current_exe().unwrap();
    let programs = tests.ancestors().nth(2).unwrap().join("examples");
    let program = programs.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let changed = |path: PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    let is_current = || changed(program.clone()) > changed(folder().join(name).with_extension("rs"));
    // With `--test it` alone, cargo builds no examples.
    if !is_current() {
        BUILT.call_once(build);
    }
    assert!(is_current(), "{} is missing or old: run cargo build --examples", program.display());
    Command::new(program).args(args).output().unwrap()
}

/// The standard output of an example that succeeds.
fn output(name: &str, args: &[&Path]) -> String {
    let output = run(name, args);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn has_lines(output: &str, lines: &[&str]) {
    for line in lines {
        assert!(output.lines().any(|l| l == *line), "no line {line:?} in:\n{output}");
    }
}

#[test]
fn examples_that_read() {
    let out = output("metadata", &[]);
    has_lines(&out, &["general.architecture: llama", "llama.block_count: 1", "tokenizer.ggml.tokens: [string; 29]"]);
    has_lines(&out, &["output_norm.weight: 32 of type f32", "blk.0.ffn_down.weight: 64 x 32 of type bf16"]);

    let out = output("tensor_stats", &[]);
    has_lines(
        &out,
        &[
            "token_embd.weight: 29 rows of 32 in bf16",
            "928 values from -0.125 to 0.12402344, mean 0.002501, rms 0.072402",
        ],
    );

    has_lines(
        &output("load", &[]),
        &["1 blocks, 2 heads, 2 of keys, base 10000, 29 tokens", "block 0: 10304 values, rows of up to 64"],
    );

    let out = output("shards", &[]);
    has_lines(&out, &["tiny-00001-of-00002.gguf: 6 tensors, 7936 bytes", "  blk.0.ffn_gate.weight"]);

    has_lines(&output("folder", &[]), &["llama: 29 tensors, 3117504 bytes"]);
    has_lines(&output("sink", &[]), &["12 tensors, 15392 bytes of 26656"]);

    let out = output("read_at", &[]);
    has_lines(&out, &["64 bytes read for a row of token_embd.weight", "12 tensors in memory"]);

    let out = output("tokenize", &[]);
    has_lines(&out, &["llama: 29 tokens", "bos: 1", "    21 \"s\"", "<s><unk><unk><unk>small"]);

    let out = output("quantize_values", &[]);
    has_lines(&out, &["f16: 16.00 bits a weight, relative rms error 0.00000"]);
    assert!(out.contains("\nq8_0: 8.50 bits a weight, relative rms error 0.00"), "{out}");
    assert!(out.contains("\nq6_K: a row of 32 values is not"), "{out}");
}

#[test]
fn what_is_not_there_is_named() {
    let output = run("tensor_stats", &[&folder().join("tiny.gguf"), Path::new("token_embed.weight")]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("token_embd.weight"), "{message}");
}

#[test]
fn inspect_tells_whole_files_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let out = output("inspect", &[]);
    has_lines(&out, &["Tiny: llama, 12192 parameters in 12 tensors", "sound, 0 warnings"]);
    let split = folder().join("tiny-00002-of-00002.gguf");
    has_lines(&output("inspect", &[&split]), &["sound, 0 warnings"]);

    let bytes = fs::read(folder().join("tiny.gguf")).unwrap();
    let (cut, other) = (dir.path().join("cut.gguf"), dir.path().join("other.gguf"));
    fs::write(&cut, &bytes[..bytes.len() - 1000]).unwrap();
    fs::write(&other, "<html>").unwrap();
    for (path, text) in [(&cut, "blk.0.ffn_down.weight"), (&other, "an HTML page")] {
        let output = run("inspect", &[path]);
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{out}");
        assert!(out.contains(text), "{out}");
    }
}

#[test]
fn examples_that_write() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let read = |path: &Path| fs::read(path).unwrap();
    let tiny = folder().join("tiny.gguf");

    // Two of the examples write the files beside them.
    output("write", &[&at("tiny.gguf")]);
    assert!(read(&at("tiny.gguf")) == read(&tiny));
    output("split", &[&tiny, Path::new("6"), &at("tiny")]);
    for name in ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"] {
        assert!(read(&at(name)) == read(&folder().join(name)), "{name}");
    }

    fs::write(at("template"), "{{ bos_token }}").unwrap();
    output("chat_template", &[&tiny, &at("template"), &at("edited.gguf")]);
    assert_eq!(output("chat_template", &[&at("edited.gguf")]), "{{ bos_token }}\n");

    let plan = output("convert", &[]);
    has_lines(&plan, &["blk.0.attn_q.weight: [256, 256], bf16 to bf16"]);
    let glossary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    let converted = output("convert", &[&glossary, dir.path()]);
    let converted = Path::new(converted.lines().last().unwrap());

    let done = run("quantize", &[converted, Path::new("Q4_K_M"), &at("q4.gguf")]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8(done.stderr).unwrap().ends_with("\r100 %\n"));
    assert!(read(&at("q4.gguf")).len() * 2 < read(converted).len());
    has_lines(&output("inspect", &[&at("q4.gguf")]), &["sound, 0 warnings"]);
}

/// Every example is tested: this list is that of the tests above.
#[test]
fn all_examples_are_run() {
    let all = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let programs = all.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> = programs.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    let run =
        ["chat_template", "convert", "folder", "inspect", "load", "metadata", "quantize", "quantize_values", "read_at"];
    assert_eq!(names, [run.as_slice(), &["shards", "sink", "split", "tensor_stats", "tokenize", "write"]].concat());
}
