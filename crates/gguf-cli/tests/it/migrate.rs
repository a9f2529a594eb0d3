//! `gguf migrate`: questions, options, outputs and errors.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gguf_format::{FromValue, GgmlType};
use gguf_io::ModelFile;
use gguf_test::files::{folder, glossary, text};
use gguf_test::legacy::{self, Form, Legacy, Parts};
use gguf_test::program::gguf;

/// A legacy Llama in a directory.
fn llama(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, legacy::llama(legacy::GGJT1, 2, 2).write("", "").bytes).unwrap();
    path
}

fn get<T: for<'a> FromValue<'a>>(path: &Path, key: &str) -> T {
    let file = ModelFile::open(path).unwrap();
    T::from_value(file.gguf().get(key).unwrap_or_else(|| panic!("no {key}"))).unwrap()
}

#[test]
fn without_a_terminal_questions_are_an_error_that_says_what_to_pass() {
    let dir = folder();
    let file = llama(dir.path(), "tiny.ggmlv3.q4_0.bin");
    let run = gguf(["migrate", text(&file)]).exits(2);
    run.says(&["--context-length 2048", "--eps 1e-6", "--config DIR", "--yes"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");
    let run = gguf(["migrate", text(&file), "--context-length", "512"]).exits(2);
    assert!(!run.err.contains("--context-length"), "{}", run.err);
    run.says(&["--eps 1e-6"]);
    // The given answers suffice.
    let out = dir.path().join("tiny.ggmlv3.q4_0.gguf");
    let run = gguf(["migrate", text(&file), "--context-length", "512", "--eps", "1e-5"]).exits(0);
    assert_eq!(run.out, format!("{}\n", out.display()));
    run.says(&["guessed base of the rotary frequencies: 10000", "GGJT version 1, llama"]);
    assert_eq!(get::<u32>(&out, "llama.context_length"), 512);
    assert_eq!(get::<f32>(&out, "llama.attention.layer_norm_rms_epsilon"), 1e-5);
    assert_eq!(get::<String>(&out, "general.name"), "tiny");
    gguf(["check", text(&out)]).exits(0);
    // The output exists now, and the file needs no migration.
    gguf(["migrate", text(&file), "--yes"]).exits(2).says(&["already exists"]);
    gguf(["migrate", text(&file), "--yes", "-f", "-q"]).exits(0);
    gguf(["migrate", text(&out), "-o", text(&dir.path().join("x.gguf"))]).exits(2).says(&["already GGUF version 3"]);
}

#[test]
fn questions_are_asked_on_a_terminal() {
    if !cfg!(target_os = "linux") || Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no script (util-linux) to make a terminal with");
        return;
    }
    let dir = folder();
    let file = llama(dir.path(), "model.bin");
    let line = format!("{} migrate {}", env!("CARGO_BIN_EXE_gguf"), text(&file));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The first answer is the default, the second is first invalid.
    child.stdin.take().unwrap().write_all(b"\nmany\n1e-5\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("context length [2048]:") && said.contains("expected a number between 0 and 1"), "{said}");
    let out = dir.path().join("model.gguf");
    assert_eq!(get::<u32>(&out, "llama.context_length"), 2048, "{said}");
    assert_eq!(get::<f32>(&out, "llama.attention.layer_norm_rms_epsilon"), 1e-5);
}

#[test]
fn a_dry_run_shows_what_becomes_of_each_tensor() {
    let dir = folder();
    let file = llama(dir.path(), "model.bin");
    let run = gguf(["migrate", text(&file), "--yes", "--dry-run"]).exits(0);
    run.prints(&[
        "blk.0.attn_q.weight",
        "levels reordered, f16 scales",
        "ROUNDED",
        " %",
        "output_norm.weight",
        "copied",
    ]);
    let run = gguf(["migrate", text(&file), "--yes", "--dry-run", "--json"]).exits(0);
    let json = run.json();
    assert_eq!(json["container"], "GGJT version 1");
    assert_eq!(json["tensors"][0]["source"], "tok_embeddings.weight");
    assert_eq!(json["tensors"][0]["n_scales"], 80);
    assert_eq!(json["tensors"][1]["treatment"], "copied");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");
    let written = gguf(["migrate", text(&file), "--yes", "--json", "-q"]).exits(0).json();
    assert!(written["files"][0]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn other_commands_name_this_one() {
    let dir = folder();
    let file = llama(dir.path(), "model.bin");
    let said = ["a legacy model (GGJT version 1, llama, Q4_0)", "gguf migrate"];
    gguf(["show", text(&file)]).exits(1).says(&said);
    gguf(["check", text(&file)]).exits(1).says(&said);
    gguf(["quantize", text(&file), "out.gguf", "Q8_0"]).exits(1).says(&said);
    let cut = dir.path().join("cut.bin");
    fs::write(&cut, &fs::read(&file).unwrap()[..5000]).unwrap();
    gguf(["show", text(&cut)]).exits(1).says(&["llama", "cut short after", "fetch it again"]);
    gguf(["migrate", text(&cut)]).exits(1).says(&["the file is incomplete, fetch it again", "byte "]);
    let page = dir.path().join("page.bin");
    fs::write(&page, "<!DOCTYPE html>").unwrap();
    gguf(["migrate", text(&page)]).exits(1).says(&["an HTML page"]);
    gguf(["migrate", text(dir.path())]).exits(2).says(&["is not a regular file"]);
    gguf(["migrate", text(&dir.path().join("none.bin"))]).exits(2).says(&["cannot open"]);
}

#[test]
fn types_can_be_chosen() {
    let dir = folder();
    let path = dir.path().join("model.bin");
    fs::write(&path, legacy::llama(legacy::GGJT1, 4, 2).write("", "").bytes).unwrap();
    let out = dir.path().join("model.gguf");
    let ty = || ModelFile::open(&out).unwrap().tensor("blk.0.attn_q.weight").unwrap().ty();
    for (args, expected) in [
        (&[][..], GgmlType::Q8_0),
        (&["--recode-as", "f32"], GgmlType::F32),
        (&["--recode-as", "q5_1"], GgmlType::Q5_1),
        // Rows of 64 are not whole blocks of 256.
        (&["--recode-as", "q6_K"], GgmlType::F16),
        (&["--type", "Q5_0"], GgmlType::Q5_0),
        (&["--type", "F16"], GgmlType::F16),
    ] {
        gguf([&["migrate", text(&path), "--yes", "-f"], args].concat()).exits(0);
        assert_eq!(ty(), expected, "{args:?}");
    }
    gguf(["migrate", text(&path), "--yes", "--recode-as", "iq2_xxs"]).exits(2);
    gguf(["migrate", text(&path), "--yes", "--pure"]).exits(2).says(&["--type, such as Q4_K_M"]);
}

#[test]
fn parts_are_joined() {
    let dir = folder();
    let whole = legacy::llama(legacy::GGMF, 1, 2);
    let data = |code, shape: &[u32]| legacy::GGMF.data(code, shape);
    // Each part has half of the columns or rows of every matrix, and all of every vector.
    let mut parts = [whole.write("", ""), whole.write("", "")];
    let start = parts[0].tensors[0];
    for (n, part) in parts.iter_mut().enumerate() {
        part.bytes.truncate(start);
        for (name, code, shape) in &whole.tensors {
            let bytes = data(*code, shape);
            let is_columns = ["tok_embeddings", "attention.wo", "feed_forward.w2"].iter().any(|s| name.contains(s));
            let (bytes, shape) = match shape.as_slice() {
                [row, rows] if is_columns => {
                    let half = *row as usize;
                    let piece = bytes.chunks(2 * half).flat_map(|r| r[n * half..][..half].to_vec()).collect();
                    (piece, vec![row / 2, *rows])
                }
                [row, rows] => (bytes[n * bytes.len() / 2..][..bytes.len() / 2].to_vec(), vec![*row, rows / 2]),
                _ => (bytes, shape.clone()),
            };
            part.tensor(legacy::GGMF, name, *code, &shape, &bytes);
        }
    }
    let path = |name: &str| dir.path().join(name);
    fs::write(path("whole.bin"), whole.write("", "").bytes).unwrap();
    fs::write(path("parts.bin"), &parts[0].bytes).unwrap();
    let run =
        |name: &str| gguf(["migrate", text(&path(name)), "--yes", "-f", "--name", "x", "-o", text(&path("out.gguf"))]);
    run("parts.bin").exits(2).says(&["in 2 parts", "parts.bin.1 is missing"]);
    fs::write(path("parts.bin.1"), &parts[1].bytes[..4000]).unwrap();
    run("parts.bin").exits(1).says(&["parts.bin.1", "the file ends at byte 4000"]);
    let mut other = parts[1].bytes.clone();
    other[12] ^= 1;
    fs::write(path("parts.bin.1"), other).unwrap();
    run("parts.bin").exits(1).says(&["does not belong to the first part: its hyperparameters differ"]);
    fs::write(path("parts.bin.1"), &parts[1].bytes).unwrap();
    run("whole.bin").exits(0);
    let expected = fs::read(path("out.gguf")).unwrap();
    // Any part can be given.
    for name in ["parts.bin", "parts.bin.1"] {
        run(name).exits(0);
        assert!(fs::read(path("out.gguf")).unwrap() == expected, "{name}");
    }
    let run = gguf(["migrate", text(&path("parts.bin")), "--yes", "-f", "-o", text(&path("parts.bin.1"))]);
    run.exits(2).says(&["would overwrite an input file"]);
}

#[test]
fn what_contradicts_the_file_is_refused() {
    let dir = folder();
    let file = llama(dir.path(), "model.bin");
    let refuses = |args: &[&str], said: &[&str]| {
        gguf([&["migrate", text(&file), "--yes"], args].concat()).exits(2).says(said);
    };
    refuses(&["--gqa", "8"], &["query heads for each key head is 1 in the file, but 8 was given"]);
    refuses(&["--config", text(&glossary())], &["llama.embedding_length is 64 in the file, but 256 was given"]);
    refuses(&["--tokenizer", text(&glossary())], &["the number of tokens"]);
    refuses(&["--eps", "2"], &["a number between 0 and 1"]);
    refuses(&["--arch", "llamas"], &["expected one of llama, bloom"]);
    let run = gguf(["migrate", text(&file), "--yes", "--arch", "mpt"]).exits(1);
    assert!(run.err.contains("as a GGJT version 1 file"), "{}", run.err);
}

/// The example model, as written by llama.cpp's converter in April 2023.
fn glossary_in_ggjt(dir: &Path) -> (PathBuf, PathBuf) {
    let gguf_path = dir.join("reference.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&gguf_path), "--type", "f16"]).exits(0);
    let file = ModelFile::open(&gguf_path).unwrap();
    let int = |key: &str| get::<u32>(&gguf_path, key);
    let (width, heads) = (int("llama.embedding_length"), int("llama.attention.head_count"));
    let tokens: Vec<String> = get(&gguf_path, "tokenizer.ggml.tokens");
    let hparams = vec![tokens.len() as u32, width, 256, heads, int("llama.block_count"), width / heads, 1];
    let tokens = tokens.iter().map(|token| token.replace('\u{2581}', " ").into_bytes()).collect();
    let form: Form = legacy::GGJT1;
    let (between, merges, tensors) = (Vec::new(), Vec::new(), Vec::new());
    let parts = Parts { form, hparams, counts_again: false, between, tokens, merges, tensors };
    let mut legacy: Legacy = parts.write("", "");
    for tensor in file.tensors() {
        let mut name = tensor.name().to_string_lossy();
        for (old, new) in [
            ("blk.", "layers."),
            ("token_embd", "tok_embeddings"),
            ("output_norm", "norm"),
            ("attn_norm", "attention_norm"),
            ("attn_q", "attention.wq"),
            ("attn_k", "attention.wk"),
            ("attn_v", "attention.wv"),
            ("attn_output", "attention.wo"),
            ("ffn_gate", "feed_forward.w1"),
            ("ffn_down", "feed_forward.w2"),
            ("ffn_up", "feed_forward.w3"),
        ] {
            name = name.replace(old, new);
        }
        let shape: Vec<u32> = tensor.shape().map(|d| d as u32).collect();
        let data: Vec<u8> = tensor.read().unwrap();
        legacy.tensor(form, &name, tensor.ty().0, &shape, &data);
    }
    let path = dir.join("glossary.bin");
    fs::write(&path, legacy.bytes).unwrap();
    (path, gguf_path)
}

#[test]
fn the_original_folder_answers_everything() {
    let dir = folder();
    let (legacy, reference) = glossary_in_ggjt(dir.path());
    let out = dir.path().join("out.gguf");
    let run = gguf(["migrate", text(&legacy), "--config", text(&glossary()), "-o", text(&out)]).exits(0);
    assert!(!run.err.contains("guessed"), "{}", run.err);
    // The file is equal to the converted original: all tensors, and all keys, except for those about its origin.
    let (ours, theirs) = (ModelFile::open(&out).unwrap(), ModelFile::open(&reference).unwrap());
    for tensor in theirs.tensors() {
        let name = tensor.name().to_string_lossy();
        let other = ours.tensor(&name).unwrap();
        assert_eq!(other.ty(), tensor.ty(), "{name}");
        assert!(other.read().unwrap() == tensor.read().unwrap(), "{name}");
    }
    for kv in theirs.gguf().kvs() {
        let key = kv.key.to_string_lossy();
        assert_eq!(ours.gguf().get(&key), Some(kv.value), "{key}");
    }
    // Windows does not replace open files in all cases.
    drop(ours);
    let tokenizer = gguf(["migrate", text(&legacy), "--tokenizer", text(&glossary()), "--yes", "-f", "-o", text(&out)]);
    tokenizer.exits(0);
    let ours = ModelFile::open(&out).unwrap();
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"] {
        assert!(ours.gguf().get(key) == theirs.gguf().get(key), "{key}");
    }
}
