//! Named pipes in place of files: opening one never blocks.
#![cfg(unix)]

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gguf_test::files::{folder, glossary, small, text};
use gguf_test::legacy;
use gguf_test::program::program;

/// Every option and argument that names an input file. P is a pipe, M a model, C a checkpoint, L a legacy file, and OUT an output.
const COMMANDS: &[&str] = &[
    "show P",
    "check P",
    "check --data P",
    "get P general.name",
    "name P",
    "cat P a",
    "estimate P",
    "extract P * -o OUT.npy",
    "edit P",
    "set P general.name=x",
    "set M --from P",
    "set M --chat-template-file P",
    "unset P general.name",
    "rename P a=b",
    "diff P M",
    "diff M P",
    "hash P",
    "hash M --check P",
    "card P",
    "card M --check P",
    "recipe show P",
    "recipe apply P M OUT",
    "quantize P OUT Q8_0",
    "quantize M OUT Q8_0 --imatrix P",
    "quantize M OUT Q8_0 --tensor-type-file P",
    "imatrix show P",
    "imatrix check P M",
    "imatrix merge P P -o OUT",
    "imatrix convert P OUT",
    "split P OUT --max-tensors 1",
    "merge P -o OUT",
    "merge P P -o OUT",
    "reorder P OUT --like M",
    "reorder M OUT --like P",
    "swap P OUT",
    "upgrade P OUT",
    "rm-tensor P OUT a",
    "add-tensor M OUT new P",
    "add-tensor P OUT new P",
    "graft M OUT --from P --tensors *",
    "repair P",
    "repair M --from P",
    "convert P -o OUT",
    "convert C -o OUT --metadata P",
    "migrate P -o OUT",
    "migrate L -o OUT --config P",
    "migrate L -o OUT --tokenizer P",
    "migrate L -o OUT --chat-template-file P",
    "quantize M OUT Q4_0 --chat-template-file P",
];

#[test]
fn no_input_blocks() {
    let dir = folder();
    let model = small(dir.path(), "m.gguf");
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let out = dir.path().join("out.gguf");
    let old = dir.path().join("old.bin");
    fs::write(&old, legacy::llama(legacy::GGJT1, 2, 2).write("", "").bytes).unwrap();
    let of = |word: &str| match word {
        "P" => text(&pipe).to_owned(),
        "M" => text(&model).to_owned(),
        "C" => text(&glossary()).to_owned(),
        "L" => text(&old).to_owned(),
        "OUT" => text(&out).to_owned(),
        "OUT.npy" => format!("{}.npy", text(&out)),
        other => other.to_owned(),
    };
    let mut wrong = Vec::new();
    for line in COMMANDS {
        let mut command = program();
        command.args(line.split(' ').map(of)).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A blocked command would wait forever.
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            match child.try_wait().unwrap() {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                status => break status,
            }
        };
        if status.is_none() {
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let is_said = ["not a regular file", "is not a folder"].iter().any(|what| said.contains(what));
        if !is_said || status.is_none_or(|status| !matches!(status.code(), Some(1 | 2))) {
            wrong.push(format!("{line}: {:?}: {said}", status.map(|status| status.code())));
        }
        assert!(!out.exists(), "{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
