//! `gguf diff` and `gguf hash`: output and exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Head};
use gguf_test::files::{folder, glossary, head, small, text, write};
use gguf_test::program::gguf;
use serde_json::Value;

/// The small model with changes.
fn changed(dir: &Path, name: &str, change: impl FnOnce(&mut Head)) -> PathBuf {
    let mut head =
        head(&[("token_embd.weight", &[32, 1000], GgmlType::F16), ("output_norm.weight", &[32], GgmlType::F32)]);
    change(&mut head);
    let path = dir.join(name);
    write(&path, &head, &[&[], &1.5f32.to_le_bytes()]);
    path
}

#[test]
fn diff_says_what_differs_and_by_how_much() {
    let dir = folder();
    let a = small(dir.path(), "a.gguf");
    let same = small(dir.path(), "same.gguf");
    let run = gguf(["diff", text(&a), text(&same)]).exits(0).silently();
    assert_eq!(run.out, "keys: 8 the same\ntensors: 2 the same\n");
    gguf(["diff", text(&a), text(&same), "--all"]).exits(0).prints(&["=  token_embd.weight   f16  f16\n"]);
    let b = changed(dir.path(), "b.gguf", |head| {
        head.set("general.name", "Other");
        head.remove("llama.big");
        head.set("general.license", "mit");
        head.tensors.swap(0, 1);
        head.tensors.rotate_left(1);
    });
    let run = gguf(["diff", text(&a), text(&b)]).exits(1).silently();
    run.prints(&[
        "~  general.name     string  Small                 Other\n",
        "-  llama.big        u64     18446744073709551615\n",
        "+  general.license  string                        mit\n",
        "~  output_norm.weight  f32  f32  0.265     inf %    0.00     1.50  row 0, column 0\n",
        "keys: 6 the same, 1 different, 1 only in A, 1 only in B\n",
        "tensors: 1 the same, 1 different\n",
        "1 tensor compared as numbers: RMSE 0.265, relative inf %, cosine 0.00\n",
    ]);
    let run = gguf(["diff", text(&a), text(&b), "-q"]).exits(1).silently();
    assert_eq!(run.out, "");
    gguf(["diff", text(&a), text(&b), "--metadata"]).exits(1).prints(&["tensors: 2 the same; data not compared\n"]);
    let json = gguf(["diff", text(&a), text(&b), "--json"]).exits(1).silently().json();
    assert_eq!((&json["same"], &json["n_same_keys"]), (&false.into(), &6.into()));
    assert_eq!(json["keys"][1]["a"]["value"], u64::MAX);
    assert_eq!(json["keys"][1]["b"], Value::Null);
    assert_eq!(json["tensors"][1]["error"]["largest"]["error"], 1.5);
    assert_eq!(json["tensors"][1]["error"]["relative"], "Infinity");
    assert_eq!(json["tensors"][0]["data"], "same");
    gguf(["diff", text(&a), "missing.gguf"]).exits(2).says(&["missing.gguf: cannot open"]);
}

#[test]
fn templates_are_compared_line_by_line() {
    let dir = folder();
    let template = |middle: &str| format!("one\ntwo\nthree\nfour\n{middle}\nsix\nseven\neight\nnine\x1b[31m\n");
    let with = |name: &str, middle: &str| {
        changed(dir.path(), name, |head| head.set("tokenizer.chat_template", template(middle)))
    };
    let (a, b) = (with("a.gguf", "{{ a }}"), with("b.gguf", "{{ b }}"));
    let run = gguf(["diff", text(&a), text(&b)]).exits(1);
    run.prints(&[
        "\ntokenizer.chat_template\n  two\n  three\n  four\n- {{ a }}\n+ {{ b }}\n  six\n  seven\n  eight\n\n",
    ]);
    let (a, b) = (with("a.gguf", "x"), with("b.gguf", "x\x1b[2J"));
    assert!(!gguf(["diff", text(&a), text(&b)]).exits(1).out.contains('\x1b'));
    let (a, b) = (
        changed(dir.path(), "a.gguf", |head| head.set("list", vec![1u32, 2, 3])),
        changed(dir.path(), "b.gguf", |head| head.set("list", vec![1u32, 5, 3, 4])),
    );
    gguf(["diff", text(&a), text(&b)])
        .exits(1)
        .prints(&["\nlist: 3 and 4 elements, 1 different; the first at 1: 2 and 5\n"]);
}

/// The figures of a comparison between a model and its quantization are those of the quantization's report.
#[test]
fn diff_of_a_quantization_is_its_report() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let (model, quantized) = (path("model.gguf"), path("q.gguf"));
    gguf(["convert", text(&glossary()), "-o", text(&model), "-q"]).exits(0);
    for ty in ["Q4_K_M", "Q8_0", "IQ4_XS"] {
        let args = ["quantize", text(&model), text(&quantized), ty, "--report", "--json", "-fq"];
        let report = gguf(args).exits(0).json();
        let figures = ["not_finite", "rmse", "relative", "cosine", "largest"];
        let diff = gguf(["diff", text(&model), text(&quantized), "--json"]).exits(1).json();
        let compared: Vec<&Value> =
            diff["tensors"].as_array().unwrap().iter().filter(|t| t["error"] != Value::Null).collect();
        let reported = report["tensors"].as_array().unwrap();
        assert_eq!(compared.len(), reported.len());
        assert!(reported.len() > 20);
        for a in compared {
            let b = reported.iter().find(|b| a["name"] == b["name"]).unwrap();
            for figure in figures {
                assert_eq!(a["error"][figure], b[figure], "{ty} {} {figure}", a["name"]);
            }
        }
        for figure in figures {
            assert_eq!(diff["total"][figure], report["total"][figure], "{ty} {figure}");
        }
        // Sorted in descending order.
        let sorted = gguf(["diff", text(&model), text(&quantized), "--json", "--sort", "error"]).exits(1).json();
        let errors: Vec<f64> =
            sorted["tensors"].as_array().unwrap().iter().filter_map(|t| t["error"]["relative"].as_f64()).collect();
        assert!(errors.len() > 20 && errors.is_sorted_by(|a, b| a >= b), "{errors:?}");
    }
}

/// A tensor name cannot forge a line of a manifest.
#[test]
fn a_name_with_the_end_of_a_line_is_one_line() {
    let dir = folder();
    let model = dir.path().join("model.gguf");
    let forged = format!("a\nxxh64     {}  model.gguf", "0".repeat(16));
    for name in ["a\nb", "a\rb", &forged] {
        let other = "x".repeat(name.len());
        let mut bytes = head(&[(&other, &[32], GgmlType::F32)]).encode_as_read().unwrap();
        let at = bytes.windows(name.len()).rposition(|w| w == other.as_bytes()).unwrap();
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(32) + 128, 0);
        fs::write(&model, &bytes).unwrap();
        let run = gguf(["hash", text(&model)]).exits(0);
        assert_eq!(run.out.lines().count(), 2, "{}", run.out);
        assert!(run.out.starts_with("\\xxh64     ") && !run.out.contains('\r'), "{}", run.out);
        let manifest = dir.path().join("manifest");
        fs::write(&manifest, &run.out).unwrap();
        let check = ["hash", text(&model), "--check", text(&manifest)];
        gguf(check).exits(0).says(&["2 ok"]);
        // Its own output can be checked again.
        fs::write(&manifest, gguf(check).exits(0).out).unwrap();
        gguf(check).exits(0).says(&["2 ok"]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&model, &bytes).unwrap();
        gguf(check).exits(1).says(&["2 differ"]);
    }
}

#[test]
fn hashes_are_printed_and_checked() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let name = text(&model);
    let run = gguf(["hash", name]).exits(0).silently();
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].starts_with("xxh64     ") && lines[0].ends_with(&format!("  {name}:token_embd.weight")),
        "{}",
        run.out
    );
    assert!(lines[2].ends_with(&format!("  {name}")));
    assert_eq!(gguf(["hash", name, "--all", "--uuid"]).exits(0).out.lines().count(), 2 * 3 + 4);
    assert_eq!(gguf(["hash", name, "--sha256", "--no-layer"]).exits(0).out.lines().count(), 1);
    assert_eq!(gguf(["hash", name, "--sha256", "--no-model"]).exits(0).out.lines().count(), 2);
    assert_eq!(gguf(["hash", name, "--content"]).exits(0).out.lines().count(), 4);
    let json = gguf(["hash", name, "--all", "--json"]).exits(0).json();
    assert_eq!(json["hashes"]["xxh64"], lines[2].split_whitespace().nth(1).unwrap());
    assert_eq!(json["tensors"][0]["hashes"].as_object().unwrap().len(), 3);

    let manifest = dir.path().join("manifest");
    fs::write(&manifest, gguf(["hash", name, "--all", "--uuid"]).exits(0).out).unwrap();
    let check = |file: &Path, more: &[&str]| gguf(["hash", text(file), "--check", text(&manifest)].iter().chain(more));
    let run = check(&model, &[]).exits(0).says(&["manifest: good: 3 ok\n"]);
    assert!(run.out.lines().all(|line| line.starts_with("sha256  ") && line.ends_with("  -  Ok")), "{}", run.out);
    assert_eq!(check(&model, &["--all", "--uuid"]).exits(0).out.lines().count(), 10);
    let quiet = check(&model, &["-q"]).exits(0).silently();
    assert_eq!(quiet.out, "");

    let other = changed(dir.path(), "other.gguf", |head| head.set("general.name", "Other"));
    let run = check(&other, &["-q"]).exits(1);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    run.prints(&["other.gguf:output_norm.weight  -  Mismatch\n", "other.gguf  -  Mismatch\n"]);
    let json = check(&other, &["--json"]).exits(1).json();
    assert_eq!(json["good"], false);
    assert_eq!(json["hashes"][1]["status"], "mismatch");
    check(&other, &["--content"]).exits(1).says(&["no content or metadata hash of "]);

    // The content digest distinguishes metadata and tensors.
    fs::write(&manifest, gguf(["hash", name, "--content"]).exits(0).out).unwrap();
    let renamed = dir.path().join("renamed.gguf");
    let mut new =
        head(&[("token_embd.weight", &[32, 1000], GgmlType::F16), ("output_norm.weight", &[32], GgmlType::F32)]);
    new.set("general.name", "Another");
    write(&renamed, &new, &[]);
    let run = check(&renamed, &["-q"]).exits(1);
    let kinds: Vec<&str> = run.out.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(kinds, ["content", "metadata"], "{}", run.out);

    fs::write(&manifest, "hello\n").unwrap();
    check(&model, &[]).exits(1).says(&["manifest: no line with a known hash"]);
    fs::write(&manifest, "sha1  00  model.gguf\n").unwrap();
    check(&model, &[]).exits(1).says(&["manifest: line 1: expected a sha1 hash of 40 characters"]);
    gguf(["hash", name, "--check", name]).exits(2).says(&["expected a manifest, found a model"]);
}

#[test]
fn shards_are_hashed_as_one_model() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let prefix = dir.path().join("s");
    gguf(["split", text(&model), text(&prefix), "--max-tensors", "1", "-q"]).exits(0);
    let hash = |file: &Path, more: &[&str]| {
        let run = gguf(["hash", text(file), "--content", "--xxh64"].iter().chain(more)).exits(0);
        run.out.replace(text(file), "model")
    };
    let second = dir.path().join("s-00002-of-00002.gguf");
    assert_eq!(hash(&second, &[]), hash(&model, &[]));
    assert_eq!(hash(&second, &["--lone"]).lines().count(), 2 + 3);
}
