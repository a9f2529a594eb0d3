//! Files of other formats: each is identified, with a hint.

use std::fs;
use std::path::Path;

use gguf_test::files::{folder, glossary, text};
use gguf_test::program::{gguf, words};

const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n";

/// The first block of a tar archive.
fn tar() -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..6].copy_from_slice(b"m.gguf");
    block[257..262].copy_from_slice(b"ustar");
    block
}

fn matrix() -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, 21, 0, 0, 0];
    bytes.extend(b"blk.0.ffn_down.weight");
    bytes.extend([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0x3f]);
    bytes
}

#[test]
fn wrong_files_are_named_with_what_to_do() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    let model = at("model.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&model), "-q"]).exits(0);
    let bytes = fs::read(&model).unwrap();
    let half = bytes.len() / 2;
    let manifest = b"{\"schemaVersion\":2,\"layers\":[]}";
    let cases: &[(&str, &[u8], &[&str])] = &[
        ("a", POINTER, &["a git-lfs pointer", "git lfs pull"]),
        ("a", b"Entry not found", &["the text of an error message", "check the link and the access rights"]),
        ("a", b"{\"error\":\"Repository not found\"}", &["a JSON text", "check the link"]),
        ("a", b"<!doctype html>", &["an HTML page", "check the link"]),
        ("a", b"", &["an empty file", "fetch the file again"]),
        ("a", &tar(), &["a tar archive", "unpack it"]),
        ("a", b"\xfd7zXZ\0......", &["an xz archive", "unpack it"]),
        ("a", b"BZh9......", &["a bzip2 archive", "unpack it"]),
        ("a", b"\x28\xb5\x2f\xfd......", &["a zstd archive", "unpack it"]),
        ("a", b"\x1f\x8b\x08......", &["a gzip archive", "unpack it"]),
        ("a.dat", &matrix(), &["an importance matrix in the .dat format", "gguf imatrix show ", "--imatrix"]),
        ("Modelfile", b"FROM llama3.2:1b\n", &["an Ollama Modelfile", "ollama://llama3.2:1b"]),
        ("Modelfile", b"# Mine\nFROM ./llama.gguf\n", &["an Ollama Modelfile", "\nhelp: pass ./llama.gguf\n"]),
        ("manifest", manifest, &["a manifest of Ollama", "blobs folder"]),
        ("model.gguf.part1of2", &bytes[..half], &["truncated", "a piece of a file", "gguf merge "]),
        ("model.gguf.part2of2", &bytes[half..], &["a piece of a file", "gguf merge "]),
        ("cut.gguf", &bytes[..3], &["GGUF"]),
        ("cut.gguf", &bytes[..10], &["truncated"]),
        ("cut.gguf", &bytes[..1000], &["truncated"]),
        ("cut.gguf", &bytes[..40_000], &["truncated"]),
        ("cut.gguf", &bytes[..half], &["truncated", "fetch it again"]),
    ];
    for (name, content, said) in cases {
        fs::write(at(name), content).unwrap();
        gguf(["show", "--kv", text(&at(name))]).exits(1).says(said);
    }
    // A summary needs one line.
    gguf(["show", text(&at("model.gguf.part1of2"))]).exits(1).prints(&["  Incomplete     ", "gguf merge "]);
    gguf(["show", text(&at("cut.gguf"))]).exits(1).prints(&["  Incomplete     ", "`gguf check` has the details"]);
    fs::write(at("pointer"), POINTER).unwrap();
    let (out, pointer) = (at("out.gguf"), at("pointer"));
    gguf(["quantize", text(&model), text(&out), "q4_0", "--imatrix", text(&pointer)])
        .exits(1)
        .says(&["a git-lfs pointer", "git lfs pull"]);
    gguf(["imatrix", "show", text(&at("pointer"))]).exits(1).says(&["a git-lfs pointer", "git lfs pull"]);
    assert!(!at("out.gguf").exists());
}

#[test]
fn files_of_a_checkpoint_are_named_too() {
    for name in ["config.json", "tokenizer_config.json", "tokenizer.model", "model.safetensors"] {
        for (content, said) in [
            (POINTER, &["git-lfs pointer", "git lfs pull"]),
            (b"Entry not found", &["the text of an error message", "check the link and the access rights"]),
            (b"<html>", &["an HTML page", "check the link and the access rights"]),
            (b"", &["an empty file", "fetch the file again"]),
        ] {
            let dir = folder();
            copy(&glossary(), dir.path());
            fs::write(dir.path().join(name), content).unwrap();
            let run = gguf(["convert", text(dir.path()), "--dry-run"]);
            // A tokenizer configuration is optional.
            if name != "tokenizer_config.json" {
                run.exits(1).says(&[name]).says(said);
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn folders_and_words_lead_to_the_right_command() {
    let dir = folder();
    let lora = dir.path().join("lora");
    fs::create_dir(&lora).unwrap();
    fs::write(lora.join("adapter_config.json"), "{}").unwrap();
    gguf(["show", text(&lora)]).exits(2).says(&["it holds a LoRA adapter", "gguf convert "]);
    gguf(["check", text(&glossary())]).exits(2).says(&["it holds a checkpoint", "gguf convert "]);
    let models = dir.path().join("models");
    fs::create_dir(&models).unwrap();
    fs::write(models.join("b.gguf"), "").unwrap();
    fs::write(models.join("a.gguf"), "").unwrap();
    gguf(["get", text(&models), "x"]).exits(2).says(&["pass a file in it, such as ", "a.gguf"]);
    for (word, tip) in [
        (text(&models.join("a.gguf")), "to see what a file is: gguf show "),
        (text(&lora), "gguf convert "),
        ("info", "the command is gguf show\n"),
        ("dump", "the command is gguf show\n"),
        ("validate", "the command is gguf check\n"),
        ("requantize", "the command is gguf quantize\n"),
        ("quantise", "the command is gguf quantize\n"),
        ("splt", "split"),
    ] {
        let run = gguf(words(word)).exits(2).says(&[tip]);
        assert_eq!(run.err.matches("tip: ").count(), 1, "{}", run.err);
    }
}

/// Names chosen by the program have no findings; others do, with a better name and the command.
#[test]
fn chosen_names_are_no_findings() {
    let dir = folder();
    let run = gguf(["convert", text(&glossary()), "-o", text(dir.path()), "-q"]).exits(0);
    let model = run.out.trim_end().to_owned();
    gguf(["quantize", &model, text(dir.path()), "Q4_K_M", "-q"]).exits(0);
    gguf(["split", &model, model.trim_end_matches(".gguf"), "--max-tensors", "15", "-q"]).exits(0);
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        gguf(["check", text(&path)]).exits(0).prints(&["good, no findings"]);
        gguf(["name", text(&path)]).exits(0).prints(&["  Standard    yes\n"]);
    }
    let matrix = glossary().join("../imatrix.gguf");
    let checked = gguf(["check", text(&matrix)]).exits(0);
    assert!(!checked.out.contains("name."), "{}", checked.out);
    gguf(["name", text(&matrix)]).exits(0).prints(&["  Standard    yes\n"]);
    // Dots in numbers need no other name.
    let dotted = dir.path().join("Gloss-3.1-2.9M-BF16.gguf");
    fs::copy(&model, &dotted).unwrap();
    gguf(["check", text(&dotted)])
        .exits(0)
        .prints(&["'Gloss-3.1' in the file name has a dot", "hint: no action needed"]);
    let run = gguf(["name", text(&dotted)])
        .exits(0)
        .prints(&["  Standard    yes\n", "  Note        'Gloss-3.1' in the file name has a dot in a number"]);
    assert!(!run.out.contains("Suggestion"), "{}", run.out);
    fs::remove_file(&dotted).unwrap();
    let other = dir.path().join("other.gguf");
    fs::rename(&model, &other).unwrap();
    gguf(["check", text(&other)]).exits(0).prints(&[
        "if you publish the file, rename it to Glossary-2.9M-BF16.gguf; gguf name FILE --rename renames the file\n",
    ]);
}

/// Numbers that must not be 0 are refused in words, not in terms of types.
#[test]
fn zero_is_refused_in_words() {
    for line in
        ["quantize a b Q4_0 -j 0", "hash a -j 0", "split a b --max-tensors 0", "convert a -o b --split-max-tensors 0"]
    {
        let run = gguf(words(line)).exits(2);
        assert!(run.err.contains("must be at least 1"), "{line}: {}", run.err);
    }
    gguf(words("hash a -j x")).exits(2).says(&["expected a whole number"]);
}
