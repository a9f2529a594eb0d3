//! `gguf repair` and `gguf estimate`: output, changes and exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Head};
use gguf_test::files::{folder, glossary, head, names, small, text, write};
use gguf_test::legacy;
use gguf_test::program::gguf;

/// An intact file, and a truncated one.
fn damaged(dir: &Path) -> (PathBuf, PathBuf, Vec<u8>) {
    let whole = small(dir, "whole.gguf");
    let bytes = fs::read(&whole).unwrap();
    let path = dir.join("m.gguf");
    fs::write(&path, &bytes[..bytes.len() - 10_000]).unwrap();
    (path, whole, bytes)
}

#[test]
fn repair_says_what_is_whole() {
    let dir = folder();
    let (path, whole, _) = damaged(dir.path());
    let run = gguf(["repair", text(&path)]).exits(1).silently();
    run.prints(&[
        " bytes; 10.0 kB missing\n",
        "  Head     sound\n",
        "  Tensors  0 of 2 intact\n",
        "  token_embd.weight   32 x 1000  f16 ",
        "9.87 kB missing\n",
        "  output_norm.weight  32         f32 ",
        "--from COPY copies missing data from an intact copy",
    ]);
    gguf(["repair", text(&whole)])
        .exits(0)
        .silently()
        .prints(&["  Tensors  2 of 2 intact\n", "structure intact; names, keys and weights were not checked"]);
    let json = gguf(["repair", "--json", text(&path)]).exits(1).silently().json();
    assert_eq!(
        (&json["whole"], &json["head"], &json["tensors"][1]["data"]),
        (&false.into(), &true.into(), &"missing".into())
    );
    gguf(["repair", text(&dir.path().join("none.gguf"))]).exits(2).says(&["none.gguf: cannot open: "]);
}

#[test]
fn repair_copies_from_a_whole_copy() {
    let dir = folder();
    let (path, whole, bytes) = damaged(dir.path());
    let before = fs::read(&path).unwrap();
    let run = gguf(["repair", text(&path), "--from", text(&whole), "-n"]).exits(1);
    run.prints(&["OFFSET  BYTES  TENSOR\n", "  token_embd.weight\n", "  output_norm.weight\n"])
        .says(&[" would be copied\n"]);
    assert!(fs::read(&path).unwrap() == before);
    let run = gguf(["repair", text(&path), "--from", text(&whole)]).exits(0);
    assert_eq!(run.out, format!("{}\n", text(&path)));
    run.says(&[" in 2 ranges copied; all tensors match the copy\n"]);
    assert!(fs::read(&path).unwrap() == bytes);
    gguf(["repair", text(&path), "--from", text(&whole)]).exits(0).says(&["no differences from the copy\n"]);
    gguf(["repair", text(&path), "--from", text(&path)])
        .exits(2)
        .says(&["is the damaged file itself\nhelp: pass another file\n"]);
    let other = dir.path().join("other.gguf");
    write(&other, &head(&[("a", &[32], GgmlType::F32)]), &[]);
    gguf(["repair", text(&path), "--from", text(&other)])
        .exits(1)
        .says(&["other.gguf is not a copy of this file: it has no tensor token_embd.weight\n"]);
    assert!(fs::read(&path).unwrap() == bytes);
}

/// Keys, values, names, padding, and bytes after the end.
#[test]
fn repair_compares_everything_with_the_copy() {
    let dir = folder();
    let (path, whole, bytes) = damaged(dir.path());
    let at = |needle: &[u8]| bytes.windows(needle.len()).position(|w| w == needle).unwrap();
    let repair = |more: &[&str]| {
        let line = ["repair", "--json", text(&path), "--from", text(&whole)];
        gguf(line.iter().chain(more))
    };
    // A value, a key, and a value that is not text.
    for (damage, said) in [
        (at(b"Small") + 2, "general.name: the value differs"),
        (at(b"general.name") + 9, "general.n`me: not in the copy"),
        (at(b"llama.embedding_length") + 22 + 4, "llama.embedding_length: the value differs"),
        (at(b"token 500") + 8, "tokenizer.ggml.tokens: the value differs"),
    ] {
        let mut wrong = bytes.clone();
        wrong[damage] ^= 1;
        fs::write(&path, &wrong).unwrap();
        for more in [&["-n"][..], &[]] {
            let run = repair(more).exits(1).says(&[said, "--exact"]);
            assert_eq!(run.json()["whole"], false);
            assert!(run.json()["differences"][0].as_str().unwrap().contains(said), "{}", run.out);
            assert!(fs::read(&path).unwrap() == wrong);
        }
        let run = repair(&["--exact", "-n"]).exits(1);
        assert_eq!((&run.json()["whole"], &run.json()["bad_ranges"][0]["tensor"]), (&false.into(), &().into()));
        assert!(fs::read(&path).unwrap() == wrong);
        repair(&["--exact"]).exits(0);
        assert!(fs::read(&path).unwrap() == bytes, "{said}");
        assert_eq!(repair(&[]).exits(0).says(&["no differences"]).json()["whole"], true);
    }
    // The name of a tensor.
    let mut wrong = bytes.clone();
    wrong[at(b"output_norm") + 4] ^= 4;
    fs::write(&path, &wrong).unwrap();
    repair(&["-n"]).exits(1).says(&["output_norm.weight"]);
    assert!(fs::read(&path).unwrap() == wrong);
    let run = repair(&[]).exits(0).says(&["output_norm.weight"]);
    assert_eq!((&run.json()["whole"], &run.json()["whole_after"]), (&false.into(), &true.into()));
    assert!(fs::read(&path).unwrap() == bytes);
    // Bytes after the end.
    fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    let run = repair(&["-n"]).exits(1).says(&["4 bytes after the end"]);
    assert_eq!(run.json()["whole"], false);
    repair(&[]).exits(0).says(&["4 bytes after the end"]);
    assert!(fs::read(&path).unwrap() == bytes);
    // Padding.
    let mut wrong = bytes.clone();
    let head = gguf_format::Gguf::parse(bytes.as_slice()).unwrap();
    let (end, data) = (head.head_bytes() as usize, head.data_offset() as usize);
    assert!(end < data);
    wrong[data - 1] = 7;
    fs::write(&path, &wrong).unwrap();
    repair(&["-n"]).exits(1);
    repair(&[]).exits(0);
    assert!(fs::read(&path).unwrap() == bytes);
}

#[test]
fn repair_mends_and_saves() {
    let dir = folder();
    let (path, _, bytes) = damaged(dir.path());
    let mut wrong = bytes.clone();
    wrong[..4].copy_from_slice(b"XXXX");
    fs::write(&path, &wrong).unwrap();
    gguf(["repair", text(&path)]).exits(1).prints(&["Repairs  the file begins with the bytes 58 58 58 58"]);
    gguf(["repair", text(&path), "--mend"]).exits(0).says(&["repaired: the file begins with the bytes 58 58 58 58"]);
    assert!(fs::read(&path).unwrap() == bytes);
    gguf(["repair", text(&path), "--mend"]).exits(0).says(&["nothing can be repaired without an intact copy\n"]);

    fs::write(&path, &bytes[..bytes.len() - 128]).unwrap();
    let out = dir.path().join("out.gguf");
    let run = gguf(["repair", text(&path), "--output", text(&out)]).exits(0);
    run.says(&["1 of 2 tensors saved, ", "not saved: output_norm.weight\n"]);
    gguf(["show", "--tensors", text(&out)]).exits(0).prints(&["token_embd.weight"]);
    gguf(["repair", text(&path), "--output", text(&out)]).exits(2).says(&["already exists\nhelp: use --force"]);
    gguf(["repair", text(&path), "--output", text(&path), "--force"]).exits(2).says(&["m.gguf"]);
    assert!(fs::read(&path).unwrap() == bytes[..bytes.len() - 128]);

    fs::write(&path, "<!DOCTYPE html>").unwrap();
    gguf(["repair", text(&path)]).exits(1).prints(&["damaged: byte 0: magic: not a GGUF file but an HTML page"]);
    gguf(["repair", text(&path), "--mend"]).exits(1).says(&["an intact copy is needed\nhelp: pass one with --from\n"]);
    assert_eq!(names(dir.path()), ["m.gguf", "out.gguf", "whole.gguf"]);
}

fn model(dir: &Path) -> PathBuf {
    let path = dir.join("glossary.gguf");
    gguf(["convert", text(&glossary()), "-q", "-o", text(&path)]).exits(0);
    path
}

#[test]
fn estimate_says_that_a_file_is_no_model() {
    let dir = folder();
    let matrix = dir.path().join("imatrix.gguf");
    fs::copy(glossary().join("../imatrix.gguf"), &matrix).unwrap();
    gguf(["estimate", text(&matrix)])
        .exits(1)
        .says(&["imatrix.gguf: is an importance matrix; expected a model, such as the one that it was measured on\n"]);
    gguf(["set", text(&matrix), "general.type=adapter", "--allow-invalid", "-q"]).exits(0);
    gguf(["estimate", text(&matrix)]).exits(1).says(&[
        "imatrix.gguf: is a LoRA adapter; expected its base model, to which it adds about the size of its file\n",
    ]);
}

/// A step computes no more tokens than a batch, nor a batch more than the context, which is a multiple of 256.
#[test]
fn estimate_limits_batches() {
    let dir = folder();
    let path = model(dir.path());
    let print = |options: &[&str], line: &str| {
        gguf(["estimate", text(&path)].iter().chain(options)).exits(0).prints(&[line]);
    };
    print(&["-c", "128"], "  Context  128 tokens (trained on 512)\n");
    print(&["-c", "128"], "* batch 256, micro-batch 256; no pipeline parallelism\n");
    print(&["-c", "4096", "-b", "96"], "* batch 96, micro-batch 96; no pipeline parallelism\n");
    print(&["-c", "4096"], "* batch 2048, micro-batch 512; no pipeline parallelism\n");
}

/// A file of the size that is advised fits.
#[test]
fn estimate_says_how_a_model_fits() {
    let dir = folder();
    let (path, out) = (model(dir.path()), dir.path().join("out.gguf"));
    let options = ["--ctx", "512", "--memory", "10MB"];
    let run = gguf([&["estimate", text(&path)], &options[..]].concat()).exits(1);
    let advice = run.out.lines().find_map(|line| line.strip_prefix("to fit: gguf ")).expect("advice");
    let words = advice.split(' ').map(|word| if word == "OUT" { text(&out) } else { word });
    gguf(words.chain(["-q"])).exits(0);
    gguf([&["estimate", text(&out)], &options[..]].concat()).exits(0).prints(&["fits in 10.0 MB; "]);
    gguf(["estimate", text(&path), "--memory", "5MB"])
        .exits(1)
        .prints(&["without weights, 8.15 MB are needed: use a smaller --ctx or --ubatch, or --kv q8_0"]);
    // Of two quantizations, only that of the original is of use; and none is that small.
    gguf([&["estimate", text(&out)], &["--ctx", "512", "--memory", "9500000"][..]].concat())
        .exits(1)
        .prints(&["to fit: quantize the original in f16, bf16 or f32 with --target-size "]);
    gguf([&["estimate", text(&out)], &["--ctx", "512", "--memory", "8500000"][..]].concat())
        .exits(1)
        .prints(&["without weights, "]);
}

#[test]
fn estimate_says_what_a_model_takes() {
    let dir = folder();
    let path = model(dir.path());
    let run = gguf(["estimate", text(&path), "--ctx", "4096"]).exits(0).silently();
    // llama.cpp's report: 6.00 MiB of caches, 10.51 MiB of compute buffers.
    run.prints(&[
        "  Context  4,096 tokens (trained on 512; longer texts need RoPE scaling)\n",
        "  MEMORY       HOST\n  weights   5.77 MB\n  KV cache  6.29 MB\n  compute   11.0 MB\n",
        "* flash attention is used\n",
    ]);
    let json = gguf(["estimate", "--json", text(&path), "-c", "4096", "--kv", "q8_0"]).exits(0).silently().json();
    assert_eq!(json["host"]["kv_cache"], 4096 * 2 * 3 * (128 / 32 * 34));
    assert_eq!(json["host"]["weights"], 5_774_336);
    assert_eq!((&json["gpu"]["total"], &json["fits"]), (&0.into(), &serde_json::Value::Null));
    // Layers move to the GPU, the last ones first.
    let part = |layers: &str, place: &str, what: &str| {
        let run = gguf(["estimate", "--json", text(&path), "-g", layers]).exits(0);
        run.json()[place][what].as_u64().unwrap()
    };
    assert_eq!(part("0", "gpu", "weights"), 0);
    assert!(part("1", "gpu", "weights") > 0 && part("1", "gpu", "kv_cache") == 0);
    assert_eq!(part("2", "gpu", "kv_cache") * 2, part("2", "host", "kv_cache"));
    assert_eq!(part("99", "host", "kv_cache"), 0);
    // The embeddings are also the output matrix, so both devices have them.
    assert_eq!(part("99", "host", "weights") + part("99", "gpu", "weights"), 5_774_336 + 2048 * 256 * 2);
    // Other spellings, those of llama.cpp's tools among them.
    let json = |args: &[&str]| gguf([&["estimate", "--json", text(&path)], args].concat()).exits(0).json();
    assert_eq!(json(&["-c", "4k"]), json(&["--ctx-size", "4096"]));
    assert_eq!(json(&["-c", "0"]), json(&[]));
    for all in ["all", "-1", "99"] {
        assert_eq!(json(&["-ngl", all]), json(&["--gpu-layers", "4"]), "{all}");
    }
    assert_eq!(json(&["-ub", "64", "-np", "2"]), json(&["--ubatch-size", "64", "--parallel", "2"]));
    assert_eq!(json(&["-ctk", "q8_0", "-ctv", "q4_0"]), json(&["--cache-type-k", "q8_0", "--kv-v", "q4_0"]));
    for wrong in [["-c", "8q"], ["-ngl", "some"], ["-ngl", "-2"]] {
        gguf([&["estimate", text(&path)], &wrong[..]].concat()).exits(2).says(&["expected a number of"]);
    }
    gguf(["estimate", text(&path), "--memory", "10GiB"]).exits(0).prints(&["fits in 10.7 GB; "]);
    gguf(["estimate", text(&path), "--memory", "1MiB"]).exits(1).prints(&["does not fit in 1.05 MB; "]);
}

#[test]
fn estimate_refuses_what_it_does_not_know() {
    let dir = folder();
    let sound = model(dir.path());
    let path = dir.path().join("m.gguf");
    for (args, said) in [
        (&["--kv", "q3_K"][..], "expected one of the cache types f32, f16, "),
        (&["--ctx", "8kk"], "expected a number of tokens, such as 8192 or 8k"),
        (&["--ctx", "99999999999999"], "invalid setup: a context of 99999999999999 tokens"),
        (&["--batch", "0"], "invalid setup: a batch of 0"),
        (&["--kv", "q8_0", "--no-flash"], "quantized values in the cache need flash attention"),
    ] {
        gguf([&["estimate", text(&sound)], args].concat()).exits(2).says(&[said]);
    }
    let bad = |change: fn(&mut Head), code: i32, said: &str| {
        let mut head = head(&[("token_embd.weight", &[32, 1000], GgmlType::F16)]);
        head.set("llama.block_count", 1u32);
        head.set("llama.attention.head_count", 4u32);
        change(&mut head);
        write(&path, &head, &[]);
        gguf(["estimate", text(&path)]).exits(code).says(&[said]);
    };
    bad(|head| _ = head.remove("llama.block_count"), 1, "the key llama.block_count is missing; the estimate needs it");
    bad(
        |head| head.set("llama.block_count", u32::MAX),
        1,
        "llama.block_count is 4294967295, and no model has more than 512",
    );
    bad(|head| head.set("llama.block_count", 0u32), 1, "llama.block_count is 0");
    bad(|head| head.set("llama.attention.head_count", -1i32), 1, "llama.attention.head_count is -1");
    bad(|head| _ = head.remove("general.architecture"), 1, "the key general.architecture is missing");
}

/// A legacy file is not a damaged GGUF file.
#[test]
fn a_legacy_file_is_left_to_migrate() {
    let dir = folder();
    let path = dir.path().join("m.bin");
    fs::write(&path, legacy::llama(legacy::GGJT1, 2, 2).write("", "").bytes).unwrap();
    let saved = dir.path().join("saved.gguf");
    for more in [&[][..], &["--mend"], &["--output", text(&saved)]] {
        let run = gguf([&["repair", text(&path)], more].concat()).exits(1);
        run.says(&["m.bin: nothing to repair: ", "GGJT", "`gguf migrate "]).prints(&[]);
    }
    assert_eq!(names(dir.path()), ["m.bin"]);
}
