//! Every command on a valid, a damaged and a missing file: its output, streams and exit code.

use std::fs;
use std::process::Stdio;

use gguf_format::GgmlType;
#[cfg(unix)]
use gguf_test::files::hostile;
use gguf_test::files::{folder, glossary, head, names, small, text, write};
use gguf_test::program::{gguf, program, words};

#[test]
fn show_summarizes() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let run = gguf(["show", text(&file)]).exits(0).silently();
    run.prints(&[
        "Name           Small\n",
        "Architecture   llama\n",
        "Parameters     32.0 K (32,032)\n",
        "Weights        16.02 bits per weight\n",
        "Context        128 tokens, rotary base 0.00001\n",
        "Vocabulary     1,000 tokens, model llama\n",
        "Chat template  no\n",
        "Format         GGUF version 3, little-endian, alignment 32\n",
        "Contents       8 keys, 2 tensors\n",
        "  TYPE  TENSORS    BYTES   SHARE\n  f16         1  64.0 kB  99.8 %\n  f32         1    128 B   0.2 %\n",
    ]);
}

#[test]
fn show_lists_metadata_and_tensors() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let run = gguf(["show", "--kv", text(&file)]).exits(0).prints(&[
        "KEY                     TYPE          VALUE\n",
        "llama.big               u64           18446744073709551615\n",
        "llama.rope.freq_base    f32           1e-5\n",
        "string[1000]  [\"token 0\", \"token 1\", ",
        " more]\n",
    ]);
    assert!(!run.out.contains("token 999"));
    gguf(["show", "--kv", "--full", text(&file)]).exits(0).prints(&["\"token 999\"]\n"]);
    gguf(["show", "--tensors", text(&file)]).exits(0).prints(&[
        "TENSOR              SHAPE      TYPE  WEIGHTS   BITS  BYTES  OFFSET\n",
        "token_embd.weight   32 x 1000  f16    32.0 K  16.00  64000   ",
        "output_norm.weight  32         f32        32  32.00    128   ",
    ]);
    let names = |options: &[&str]| {
        let out = gguf([&["show", text(&file)][..], options].concat()).exits(0).out;
        out.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--tensors=*norm*"]), ["output_norm.weight"]);
    assert_eq!(names(&["--tensors", "--sort", "name"]), ["output_norm.weight", "token_embd.weight"]);
    assert_eq!(names(&["--tensors", "--sort=size"]), ["token_embd.weight", "output_norm.weight"]);
    assert_eq!(names(&["--kv=llama.rope.*"]), ["llama.rope.freq_base"]);
}

#[test]
fn show_tells_where_a_pattern_belongs() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    for (args, said) in [
        (&["--tensors", "blk.0.*"][..], "; a pattern follows an equals sign, as in --tensors='blk.0.*'\n"),
        (&["--kv", "*rope*"], "; a pattern follows an equals sign, as in --kv='*rope*'\n"),
        (&["*.gguf"], "*.gguf: cannot open: "),
    ] {
        gguf([&["show", text(&file)], args].concat()).exits(2).says(&[said]);
    }
    // A file with such a name may exist, except on Windows.
    if cfg!(unix) {
        let odd = small(dir.path(), "a*b.gguf");
        gguf(["show", "--tensors", text(&odd)]).exits(0).prints(&["output_norm.weight"]);
    }
}

#[test]
fn show_json_is_exact() {
    let dir = folder();
    let file = dir.path().join("odd.gguf");
    let mut odd = head(&[]);
    odd.kvs.push(gguf_format::Kv { key: b"not.utf8".to_vec(), value: gguf_format::Value::String(b"a\xff".to_vec()) });
    write(&file, &odd, &[]);
    let shown = gguf(["show", "--json", text(&file)]).exits(0).silently().json();
    let object = &shown["files"][0];
    let find = |key: &str| object["metadata"].as_array().unwrap().iter().find(|kv| kv["key"] == key).unwrap().clone();
    assert_eq!(find("llama.big")["value"], u64::MAX);
    assert_eq!(find("not.utf8")["value"]["hex"], "61ff");
    let tokens = find("tokenizer.ggml.tokens");
    assert_eq!((&tokens["length"], &tokens["value"]["length"]), (&1000.into(), &1000.into()));
    assert_eq!(tokens["value"]["first"].as_array().unwrap().len(), 8);
    assert_eq!(object["summary"]["architecture"], "llama");
    assert_eq!(object["shards"][0]["file_bytes"], fs::metadata(&file).unwrap().len());
    let full = gguf(["show", "--json", "--full", text(&file)]).exits(0).json();
    let tokens = full["files"][0]["metadata"]
        .as_array()
        .unwrap()
        .iter()
        .find(|kv| kv["key"] == "tokenizer.ggml.tokens")
        .unwrap();
    assert_eq!(tokens["value"][999], "token 999");
}

#[test]
fn show_of_several_files_goes_on_after_a_bad_one() {
    let dir = folder();
    let good = small(dir.path(), "small.gguf");
    let bad = dir.path().join("bad.gguf");
    fs::write(&bad, "<!DOCTYPE html><html>").unwrap();
    let missing = dir.path().join("missing.gguf");
    gguf(["show", text(&bad)])
        .exits(1)
        .says(&["gguf: error: ", "bad.gguf: byte 0: magic: not a GGUF file but an HTML page"]);
    let run = gguf(["show", text(&bad), text(&good), text(&missing)]).exits(2);
    run.prints(&["small.gguf  llama"]).says(&["HTML page", "missing.gguf: cannot open: "]);
}

#[test]
fn show_tells_what_is_missing() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 10_000]).unwrap();
    gguf(["show", text(&file)])
        .exits(1)
        .prints(&["Incomplete     10.0 kB of tensor data missing; `gguf check` has the details\n"]);
}

#[test]
fn an_embedded_file_is_found_at_its_offset() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let outer = dir.path().join("outer.bin");
    fs::write(&outer, [vec![7; 4096], fs::read(&file).unwrap()].concat()).unwrap();
    for at in ["4096", "0x1000"] {
        gguf(["show", "--at", at, text(&outer)]).exits(0).prints(&["Name           Small\n"]);
        gguf(["get", "--at", at, text(&outer), "general.name"]).exits(0).prints(&["Small\n"]);
        gguf(["check", "--structure", "--at", at, text(&outer)]).exits(0);
    }
    gguf(["show", text(&outer)]).exits(1);
    gguf(["show", "--at", "x", text(&outer)]).exits(2);
}

/// A model in two shards, `<prefix>-0000X-of-00002.gguf`.
fn shards(dir: &std::path::Path, prefix: &str) -> [std::path::PathBuf; 2] {
    let tensors: [(&str, &[u64], GgmlType); 2] =
        [("token_embd.weight", &[32, 1000], GgmlType::F16), ("output_norm.weight", &[32], GgmlType::F32)];
    [0u16, 1].map(|no| {
        let mut head = if no == 0 { head(&tensors[..1]) } else { gguf_format::Head { ..Default::default() } };
        if no == 1 {
            head.tensors = tensors[1..].iter().map(|(n, s, t)| gguf_format::TensorInfo::new(*n, *s, *t)).collect();
        }
        head.set("split.no", no);
        head.set("split.count", 2u16);
        head.set("split.tensors.count", 2i32);
        let path = dir.join(format!("{prefix}-{:05}-of-00002.gguf", no + 1));
        write(&path, &head, &[]);
        path
    })
}

#[test]
fn shards_are_one_model() {
    let dir = folder();
    let [first, second] = shards(dir.path(), "small");
    for file in [&first, &second] {
        let run = gguf(["show", text(file)]).exits(0).silently();
        run.prints(&["Name           Small\n", ", in 2 shards\n", "11 keys, 2 tensors\n"]);
    }
    gguf(["show", "--tensors", text(&second)]).exits(0).prints(&["SHARD\ntoken_embd", "  1\noutput_norm", "  2\n"]);
    gguf(["check", text(&first), text(&second), "--json"]).json()["files"].as_array().unwrap().iter().for_each(|f| {
        assert!(!f["findings"].to_string().contains("split."), "{f}");
    });
    gguf(["get", text(&second), "general.name"]).exits(1).says(&["this is shard 2 of a split model"]);
    fs::remove_file(&first).unwrap();
    gguf(["show", text(&second)])
        .exits(0)
        .says(&["gguf: warning: ", "shard 1 of 2 is missing"])
        .prints(&["1 of 2 shards\n"]);
    gguf(["check", text(&second)]).exits(1).prints(&["error split.file\n", "00001-of-00002.gguf"]);
    gguf(["check", "--strict", text(&second)]).exits(1);
    gguf(["check", "--structure", "--strict", text(&second)]).exits(0);
}

#[test]
fn check_judges() {
    let dir = folder();
    let glossary_file = dir.path().join("Glossary-2.9M-v1.0-BF16.gguf");
    gguf(["convert", text(&glossary()), "-q", "-o", text(&glossary_file)]).exits(0);
    gguf(["check", "--strict", "--data", text(&glossary_file)]).exits(0).silently().prints(&[": good, no findings\n"]);
    gguf(["check", "-q", text(&glossary_file)]).exits(0).silently();

    let bytes = fs::read(&glossary_file).unwrap();
    let cut = dir.path().join("cut.gguf");
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    let run = gguf(["check", text(&cut)]).exits(1).silently();
    assert!(run.out.starts_with("error file.truncated\n"), "{}", run.out);
    run.prints(&[
        "the file lacks 100 of ",
        "tensor output_norm.weight (byte ",
        "    expected: ",
        "    hint: ",
        ": bad, 2 errors",
    ]);
    let json = gguf(["check", "--structure", "--json", text(&cut)]).exits(1).json();
    assert_eq!((&json["good"], &json["files"][0]["errors"]), (&false.into(), &2.into()));
    assert_eq!(json["files"][0]["safe"], false);
    assert_eq!(gguf(["check", "-q", text(&cut)]).exits(1).out, "");
}

#[test]
fn check_names_what_is_no_gguf() {
    let dir = folder();
    let cases: &[(&[u8], &str)] = &[
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a git-lfs pointer"),
        (b"PK\x03\x04xxxxxxxx", "a zip archive or PyTorch checkpoint"),
        (b"GGUF\x09\0\0\0", "version 9"),
        (b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0\0", "error head.counts"),
    ];
    for (bytes, expected) in cases {
        let file = dir.path().join("file");
        fs::write(&file, bytes).unwrap();
        for options in [&["check"][..], &["check", "--data"], &["check", "--structure"]] {
            let run = gguf(options.iter().copied().chain([text(&file)])).exits(1).silently();
            run.prints(&[expected, ": bad, 1 error"]);
        }
        for command in ["show", "name"] {
            gguf([command, text(&file)]).exits(1).says(&["gguf: error: ", "byte "]);
        }
        gguf(["get", text(&file), "general.name"]).exits(1).says(&["gguf: error: "]);
    }
    let missing = dir.path().join("missing");
    for command in ["show", "check", "name"] {
        gguf([command, text(&missing)]).exits(2).says(&["missing: cannot open"]);
        gguf([command, text(dir.path())]).exits(2).says(&["gguf: error: "]);
    }
    gguf(["get", text(&missing), "x"]).exits(2);
    // An invalid file and a missing one: the higher exit code is returned.
    gguf(["check", text(&dir.path().join("file")), text(&missing)]).exits(2);
}

#[test]
fn check_data_finds_numbers_that_are_not_finite() {
    let dir = folder();
    let file = dir.path().join("nan.gguf");
    let tensors: [(&str, &[u64], GgmlType); 3] = [
        ("token_embd.weight", &[32, 100_000], GgmlType::F16),
        ("blk.0.attn_q.weight", &[32, 4], GgmlType::Q4_0),
        ("output_norm.weight", &[32], GgmlType::F32),
    ];
    // NaN and infinity in the first, an infinite block scale in the second, nothing in the third.
    write(&file, &head(&tensors), &[&[0, 0, 0x01, 0x7c, 0x00, 0x7c], &[0x00, 0xfc]]);
    let code = gguf(["check", text(&file)]).code;
    let run = gguf(["check", "--data", text(&file)]).exits(1).silently();
    assert!(!run.out.contains("tensor output_norm.weight (byte 27"));
    run.prints(&[
        "error data.finite\n",
        ": 1 NaN and 1 infinite of 3,200,000 values; the first at byte ",
        ": 1 infinite of 4 block scales; the first at byte ",
    ]);
    assert!(code <= 1);
    fs::write(&file, &fs::read(&file).unwrap()[..5000]).unwrap();
    gguf(["check", "--data", text(&file)])
        .exits(1)
        .prints(&["the data was not read, because the file is not safe to read"]);
}

/// Zeros in matrices are warnings, since some models have them; vectors may well be zero.
#[test]
fn check_data_finds_zeros() {
    let dir = folder();
    let path = dir.path().join("file.gguf");
    let tensors: [(&str, &[u64], GgmlType); 8] = [
        ("token_embd.weight", &[2048, 700], GgmlType::F16),
        ("blk.0.attn_q.weight", &[2048, 512], GgmlType::F16),
        ("blk.0.attn_k.weight", &[2048, 64], GgmlType::Q8_0),
        ("blk.0.attn_v.weight", &[2048, 64], GgmlType::F16),
        ("blk.0.attn_v.bias", &[2048, 64], GgmlType::F16),
        ("blk.0.attn_norm.weight", &[4096], GgmlType::F32),
        ("output_norm.weight", &[4096], GgmlType::F32),
        ("blk.0.ids", &[2048, 64], GgmlType::I32),
    ];
    let mut head = head(&tensors);
    head.set("llama.embedding_length", 2048u32);
    let random = |n: u64| (0..n).map(|i| (i * 7919 % 119) as u8 + 1).collect::<Vec<u8>>();
    let mut data: Vec<Vec<u8>> = head.tensors.iter().map(|t| random(t.n_bytes().unwrap())).collect();
    let check = |data: &[Vec<u8>], expected: &[&str]| {
        fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
        let found = gguf(["check", "--data", "--json", text(&path)]).json();
        let findings = found["files"][0]["findings"].as_array().unwrap();
        let mut found: Vec<String> = Vec::new();
        for finding in findings.iter().filter(|f| f["code"].as_str().unwrap().starts_with("data.")) {
            let part = |name: &str| finding[name].as_str().unwrap();
            found.push(format!(
                "{} {} {}",
                part("severity"),
                part("code"),
                finding["name"].as_str().unwrap_or_default()
            ));
        }
        assert_eq!(found, expected);
    };
    check(&data, &[]);
    // Biases, norms and tensors of integers; and a padded vocabulary.
    data[4].fill(0);
    data[5].fill(0);
    data[6] = 1f32.to_le_bytes().repeat(4096);
    data[7].fill(0);
    data[0][680 * 4096..].fill(0);
    check(&data, &["note data.zero_rows token_embd.weight"]);
    // Two MiB of a download, from the middle of a row; whole matrices; and a matrix of ones.
    data[1][100_002..100_002 + (1 << 20)].fill(0);
    data[2].fill(0);
    data[3] = [0, 0x3c].repeat(2048 * 64);
    let expected = [
        "note data.zero_rows token_embd.weight",
        "warning data.hole blk.0.attn_q.weight",
        "warning data.zero blk.0.attn_k.weight",
        "note data.constant blk.0.attn_v.weight",
    ];
    check(&data, &expected);
    gguf(["check", "--data", text(&path)])
        .prints(&["1,048,576 of 2,097,152 bytes are zero: ", "all 139,264 bytes are zero"]);
}

#[test]
fn check_lists_its_rules() {
    gguf(["check", "--rules"]).exits(0).prints(&[
        "tensor.overlap",
        "error, structural",
        "key.missing",
        "data.finite",
        "gguf.md",
    ]);
    let rules = gguf(["check", "--rules", "--json"]).exits(0).json();
    let codes: Vec<&str> = rules["rules"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap()).collect();
    let mut unique = codes.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), codes.len(), "duplicate code");
}

#[test]
fn get_prints_values_raw() {
    let dir = folder();
    let file = dir.path().join("file.gguf");
    let mut head = head(&[]);
    head.set("tokenizer.chat_template", "{{ a }}\n\x1b\\n é");
    write(&file, &head, &[]);
    let get = |line: &str| gguf(["get".to_owned(), text(&file).to_owned()].into_iter().chain(words(line)));
    assert_eq!(get("tokenizer.chat_template").exits(0).silently().out, "{{ a }}\n\x1b\\n é\n");
    assert_eq!(get("llama.big").exits(0).out, "18446744073709551615\n");
    assert_eq!(get("llama.big --json").exits(0).json()["values"]["llama.big"], u64::MAX);
    assert_eq!(get("llama.rope.freq_base").exits(0).out, "1e-5\n");
    assert_eq!(get("tokenizer.ggml.tokens").exits(0).out.lines().count(), 1000);
    assert_eq!(get("tokenizer.ggml.tokens -i 42").exits(0).out, "token 42\n");
    assert_eq!(get("tokenizer.ggml.tokens --type").exits(0).out, "string[1000]\n");
    assert_eq!(get("general.name llama.big").exits(0).out, "general.name\tSmall\nllama.big\t18446744073709551615\n");
    assert_eq!(get("*template").exits(0).out, "tokenizer.chat_template\t{{ a }}\\n\\u{1b}\\\\n é\n");
    assert_eq!(get("general.* --json").exits(0).json()["values"]["general.name"], "Small");
    get("tokenizer.ggml.tokens -i 1000").exits(1).says(&["the array has 1000 elements"]);
    get("general.name -i 0").exits(1).says(&["expected an array for --index, found string"]);
    get("general.nam").exits(1).says(&["there is no key general.nam; did you mean general.name?"]);
    get("context_length").exits(1).says(&["did you mean llama.context_length?"]);
    get("zzz").exits(1).says(&["`gguf show --kv` lists"]);
    get("general.name zzz").exits(1).prints(&["general.name\tSmall\n"]);
    get("").exits(2).says(&["<KEY>"]);
}

#[test]
fn name_judges_and_renames() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let good = "Small-32K.gguf";
    let run = gguf(["name", text(&file)]).exits(1).silently();
    run.prints(&[
        "  Base name   small\n",
        "no: the file name has no size, such as 7B or 8x7B\n",
        &format!("  Suggestion  {good}\n"),
    ]);
    let json = gguf(["name", "--json", text(&file)]).exits(1).json();
    assert_eq!((&json["files"][0]["standard"], &json["files"][0]["suggestion"]), (&false.into(), &good.into()));
    assert_eq!(names(dir.path()), ["small.gguf"]);

    fs::write(dir.path().join(good), "other").unwrap();
    gguf(["name", "--rename", text(&file)]).exits(2).says(&["already exists\nhelp: use --force"]);
    assert_eq!(names(dir.path()), [good, "small.gguf"]);
    gguf(["name", "--rename", "--force", text(&file)]).exits(0).prints(&["  Renamed to  "]);
    assert_eq!(names(dir.path()), [good]);
    gguf(["name", text(&dir.path().join(good))]).exits(0).prints(&["  Size label  32K\n", "  Standard    yes\n"]);

    let file = small(dir.path(), "again.gguf");
    fs::remove_file(dir.path().join(good)).unwrap();
    gguf(["name", "--rename", text(&file)]).exits(0);
    assert_eq!(names(dir.path()), [good]);
}

#[test]
fn convert_writes_once() {
    let dir = folder();
    let out = dir.path().join("out.gguf");
    let convert =
        |line: &str| gguf(["convert".to_owned(), text(&glossary()).to_owned()].into_iter().chain(words(line)));
    let to = format!("-o {}", text(&out));
    let run = convert(&to)
        .exits(0)
        .says(&["llama, bf16: 29 tensors, 2.89 M weights, 5.82 MB to 5.82 MB (16.01 bits per weight) in "]);
    assert_eq!(run.out, format!("{}\n", text(&out)));
    assert_eq!(names(dir.path()), ["out.gguf"]);
    gguf(["check", "--data", text(&out)]).exits(0);
    let bytes = fs::read(&out).unwrap();
    convert(&to).exits(2).says(&["out.gguf: already exists\nhelp: use --force to overwrite it"]);
    convert(&format!("{to} --force --type f32 -q -j 1")).exits(0).silently();
    assert!(fs::read(&out).unwrap().len() > bytes.len());
    convert(&format!("{to} --force --big-endian -q")).exits(0);
    gguf(["show", text(&out)]).exits(0).prints(&["big-endian"]);
    convert(&format!("{to} --force --vocab-only -q")).exits(0);
    gguf(["show", text(&out)]).exits(0).prints(&[", 0 tensors\n", "2,048 tokens"]);
    // Into a directory, and by a template.
    fs::remove_file(&out).unwrap();
    let run = convert(&format!("-o {} --type f16 -q", text(dir.path()))).exits(0);
    assert!(run.out.ends_with("-F16.gguf\n"), "{}", run.out);
    convert(&format!("-o {} -q", text(&dir.path().join("x-{ftype}.gguf")))).exits(0).prints(&["x-bf16.gguf\n"]);
    assert_eq!(fs::read(dir.path().join("x-bf16.gguf")).unwrap(), bytes);
}

#[test]
fn convert_dry_run_writes_nothing() {
    let dir = folder();
    let out = dir.path().join("out.gguf");
    let run = gguf(["convert", text(&glossary()), "--dry-run", "--type", "f16", "-o", text(&out)]).exits(0).silently();
    run.prints(&[
        "TENSOR                    SHAPE       FROM  TO     BYTES  REASON\n",
        "token_embd.weight         256 x 2048  bf16  f16  1048576  requested type\n",
        "output_norm.weight        256         bf16  f32     1024  vector\n",
        "llama, f16: 29 tensors, 2.89 M weights, 32 keys, 5.82 MB (5,821,120 bytes), 16.01 bits per weight\n",
        "out.gguf\n",
    ]);
    assert_eq!(names(dir.path()), [""; 0]);
    gguf(["convert", text(&glossary()), "--dry-run"]).exits(0);
}

#[test]
fn convert_says_what_is_wrong() {
    let dir = folder();
    let out = dir.path().join("out.gguf");
    let from = dir.path().join("model");
    fs::create_dir(&from).unwrap();
    let convert = |from: &std::path::Path| gguf(["convert", text(from), "-o", text(&out)]);
    convert(&dir.path().join("missing")).exits(2).says(&["missing: no such file or folder"]);
    convert(&from).exits(1).says(&["no config.json in the folder"]);
    fs::write(from.join("config.json"), "{").unwrap();
    convert(&from).exits(1).says(&["config.json"]);
    fs::write(from.join("config.json"), r#"{"architectures": ["NoSuchModel"]}"#).unwrap();
    fs::copy(glossary().join("model.safetensors"), from.join("model.safetensors")).unwrap();
    convert(&from).exits(1).says(&["NoSuchModel"]);
    fs::copy(glossary().join("config.json"), from.join("config.json")).unwrap();
    fs::write(from.join("model.safetensors"), "short").unwrap();
    convert(&from).exits(1).says(&["model.safetensors"]);
    gguf(["convert", text(&glossary()), "-o", text(&dir.path().join("none/out.gguf"))])
        .exits(2)
        .says(&["out.gguf: cannot"]);
    gguf(["convert", text(&glossary())]).exits(2).says(&["gguf: error: ", "--output <OUT>"]);
    gguf(["convert", text(&glossary()), "-o", "x", "--type", "fp16"]).exits(2).says(&["did you mean F16?"]);
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn help_completions_and_man_pages() {
    let commands = "show check get name convert quantize imatrix recipe split merge diff hash extract cat reorder swap upgrade rm-tensor \
                    add-tensor graft completions man";
    for command in commands.split_whitespace() {
        let help =
            gguf([command, "--help"]).exits(0).silently().prints(&["Examples:\n", "Exit codes:\n", "Usage: gguf "]);
        assert!((2..=7).contains(&help.out.matches("\n  gguf ").count()), "{}", help.out);
        gguf([command, "-h"]).exits(0).prints(&["Examples:\n"]);
    }
    gguf(["--version"]).exits(0).prints(&[concat!("gguf ", env!("CARGO_PKG_VERSION"), "\n")]);
    gguf([""; 0]).exits(2).says(&["Usage: gguf [OPTIONS] <COMMAND>"]);
    gguf(["shwo"]).exits(2).says(&["gguf: error: ", "similar subcommand exists: 'show'"]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        gguf(["completions", shell]).exits(0).silently().prints(&["convert"]);
    }
    gguf(["completions", "fihs"]).exits(2).says(&["'fish'"]);
    gguf(["man"]).exits(0).prints(&[".TH gguf 1"]);
    let dir = folder();
    let pages = dir.path().join("man1");
    gguf(["man", text(&pages)]).exits(0).prints(&["gguf-convert.1\n"]);
    assert!(names(&pages).contains(&"gguf.1".to_owned()));
    assert!(fs::read_to_string(pages.join("gguf-show.1")).unwrap().contains("Exit codes"));
    gguf(["man", text(&pages)]).exits(2).says(&["already exists\nhelp: use --force"]);
    gguf(["man", text(&pages), "--force"]).exits(0);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let mut bad = head(&[]);
    bad.set("general.alignment", 7u32);
    for (args, code) in [
        (vec!["show", "--kv", "--full"], 0),
        (vec!["show", "--json", "--full"], 0),
        (vec!["completions", "bash"], 0),
        (vec!["man"], 0),
    ] {
        let mut command = program();
        command.args(&args);
        if args[0] == "show" {
            command.args([&file; 20]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
    // The exit code does not depend on whether the findings are read.
    fs::write(&file, "no model").unwrap();
    let mut child = program().arg("check").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_one() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    for args in [&["show"][..], &["check"], &["name"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = program().args(args).arg(&file).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.starts_with("gguf: error: cannot write to standard output: "), "{args:?} {err}");
    }
}

/// Windows has no files with these names.
#[cfg(unix)]
#[test]
fn nothing_in_a_file_acts_on_a_terminal() {
    let dir = folder();
    let file = hostile(dir.path());
    let odd = dir.path().join("\x1b[31mname\u{202e}.gguf");
    fs::copy(&file, &odd).unwrap();
    for line in [
        "show",
        "check --rules --json",
        "name --json",
        "show --kv",
        "show --kv --full",
        "show --tensors",
        "show --json --full",
        "check",
        "check --json",
        "name",
    ] {
        for file in [&file, &odd] {
            let file = if line.contains("--rules") { None } else { Some(text(file)) };
            let run = gguf(words(line).iter().map(String::as_str).chain(file));
            let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!run.out.contains(acts), "{line}: {:?}", run.out);
            assert!(!run.err.contains(acts), "{line}: {:?}", run.err);
        }
    }
    let keys = [&["llama.*"][..], &["general.name", "general.tags"], &["nothing\x1b[31m"], &["--json", "general.name"]];
    for keys in keys.into_iter().chain([&["--json", "*"][..]]) {
        let run = gguf(["get", text(&file)].into_iter().chain(keys.iter().copied()));
        let acts = ['\x1b', '\u{9b}', '\u{202e}'];
        assert!(!run.out.contains(acts), "{keys:?}: {run:?}");
        assert!(!run.err.contains(acts), "{keys:?}: {run:?}");
    }
}

/// Windows has no files with these names.
#[cfg(unix)]
#[test]
fn json_has_the_true_strings() {
    let dir = folder();
    let evil = format!("\u{7f}\u{9b}2J\u{202e}\u{e0041}\\ é\n{}", "x".repeat(1000));
    let mut head = head(&[]);
    for key in ["general.name", "general.type", "general.license", "tokenizer.ggml.pre", "llama.rope.scaling.type"] {
        head.set(key, evil.as_str());
    }
    head.kvs.push(gguf_format::Kv { key: b"x\xff".to_vec(), value: 1u8.into() });
    let file = dir.path().join("a\n\u{202e}\\b.gguf");
    fs::write(&file, head.encode_as_read().unwrap()).unwrap();
    let shown =
        gguf(["show", "--json", text(&file)]).exits(0).silently().prints(&[r"\u007f\u009b2J\u202e\udb40\udc41"]).json();
    let shown = &shown["files"][0];
    for field in ["name", "type", "license", "tokenizer_pre", "rope_scaling"] {
        assert_eq!(shown["summary"][field], evil, "{field}");
    }
    assert_eq!(shown["metadata"].as_array().unwrap().last().unwrap()["key"]["hex"], "78ff");
    assert_eq!((&shown["path"], &shown["shards"][0]["path"]), (&text(&file).into(), &text(&file).into()));
    assert_eq!(gguf(["check", "--json", text(&file)]).json()["files"][0]["path"], text(&file));
    assert_eq!(gguf(["name", "--json", text(&file)]).json()["files"][0]["path"], text(&file));
    assert_eq!(gguf(["get", "--json", text(&file), "general.name"]).exits(0).json()["values"]["general.name"], evil);
    assert_eq!(gguf(["get", "--json", text(&file), "general.*"]).exits(0).json()["values"]["general.name"], evil);
}

#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_no_utf8_stay_whole_in_json() {
    use std::os::unix::ffi::OsStringExt;
    let dir = folder();
    let file = dir.path().join(std::ffi::OsString::from_vec(b"a\xff.gguf".to_vec()));
    fs::copy(small(dir.path(), "small.gguf"), &file).unwrap();
    for command in ["show", "check"] {
        let output = program().args([command, "--json"]).arg(&file).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let path = &json["files"][0]["path"];
        assert!(path["hex"].as_str().unwrap().ends_with("61ff2e67677566"), "{command}: {json}");
    }
}

#[test]
fn long_names_neither_stop_nor_widen_a_table() {
    let dir = folder();
    let file = dir.path().join("long.gguf");
    // By hand, because writers reject such names.
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let build = |key: &str, name: &str| {
        let mut bytes = [&b"GGUF\x03\0\0\0"[..], &2u64.to_le_bytes(), &101u64.to_le_bytes()].concat();
        let keys = (0..100).map(|i| format!("k.{i}")).chain([key.to_owned()]);
        keys.for_each(|key| bytes.extend([&string(&key)[..], &4u32.to_le_bytes(), &7u32.to_le_bytes()].concat()));
        for (name, offset) in [(name, 0u64), ("short", 32)] {
            let shape = [&1u32.to_le_bytes()[..], &8u64.to_le_bytes(), &0u32.to_le_bytes()].concat();
            bytes.extend([&string(name)[..], &shape, &offset.to_le_bytes()].concat());
        }
        bytes.resize(bytes.len().next_multiple_of(32) + 64, 0);
        fs::write(&file, bytes).unwrap();
    };
    for n in [60_000, 70_000] {
        let (key, name) = ("k".repeat(n), "t".repeat(n));
        build(&key, &name);
        for (option, long) in [("--kv", &key), ("--tensors", &name)] {
            let run = gguf(["show", option, text(&file)]);
            // A reader may reject names of such a length, but must not crash.
            assert!(run.code == 0 || run.err.contains("gguf: error: "), "{}", run.err);
            assert!(run.code != 0 || run.out.contains(long.as_str()));
            assert!(run.out.len() < n + 10_000, "{option}: {}", run.out.len());
        }
    }
    // Escaped text is five times as long.
    build(&"\x01".repeat(20_000), "t");
    let run = gguf(["show", "--kv", text(&file)]).exits(0).prints(&["k.0   ", &r"\u{1}".repeat(20_000)]);
    assert!(run.out.len() < 110_000, "{}", run.out.len());
}

#[cfg(target_os = "linux")]
#[test]
fn json_takes_no_memory_by_the_key() {
    let dir = folder();
    let file = dir.path().join("many.gguf");
    let mut head = head(&[]);
    for i in 0..150_000u32 {
        head.kvs.push(gguf_format::Kv { key: format!("k.{i}").into(), value: i.into() });
    }
    write(&file, &head, &[]);
    drop(head);
    // 200 MB of address space; as one tree of values, the object needs 300.
    let line = format!("ulimit -v 200000; exec {} show --json --full {}", env!("CARGO_BIN_EXE_gguf"), text(&file));
    let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["files"][0]["metadata"][150_007]["value"], 149_999);
}

#[test]
fn arrays_in_arrays_do_not_blow_up_json() {
    let dir = folder();
    let file = dir.path().join("nested.gguf");
    let mut head = head(&[]);
    let mut value: gguf_format::Array = [1u8; 100].into_iter().collect();
    for _ in 0..20 {
        value = [value].into_iter().collect();
    }
    head.set("nested", value);
    write(&file, &head, &[]);
    let whole = gguf(["show", "--json", "--full", text(&file)]).exits(0);
    let line = whole.out.lines().find(|l| l.contains("[[[[")).expect("the array is on one line");
    assert!(line.len() < 400, "{line}");
    let value = gguf(["get", "--json", text(&file), "nested"]).exits(0).out;
    assert!(value.lines().all(|line| line.len() < 400), "{value}");
}

#[test]
fn an_offset_past_the_end_is_named() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let bytes = fs::metadata(&file).unwrap().len();
    for at in [bytes.to_string(), "99999999999".to_owned()] {
        for line in [&["show"][..], &["check"], &["get", "general.name"]] {
            let (command, keys) = line.split_first().unwrap();
            gguf([*command, "--at", &at, text(&file)].iter().chain(keys))
                .exits(2)
                .says(&[&format!("offset {at} is past the end of the file ({bytes} bytes)")]);
        }
    }
}

#[test]
fn convert_does_not_write_a_file_called_minus() {
    let dir = folder();
    for more in [&["-o", "-"][..], &["--dry-run", "-o-"]] {
        let output = program()
            .current_dir(dir.path())
            .arg("convert")
            .arg(glossary().canonicalize().unwrap())
            .args(more)
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written to standard output"));
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [&["--help"][..], &["help", "show"], &["--version"], &["show", "-h"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = program().args(args).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.starts_with("gguf: error: cannot write to standard output: "), "{args:?} {err}");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(program().arg("--no-such").stderr(full).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_truncated_model_is_shown_as_bad() {
    let dir = folder();
    let whole = dir.path().join("whole.gguf");
    write(&whole, &head(&[("token_embd.weight", &[32, 1000], GgmlType::F16)]), &[]);
    gguf(["show", text(&whole)]).exits(0).silently();
    let cut = dir.path().join("cut.gguf");
    let bytes = fs::read(&whole).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    for options in ["--kv", "--tensors", "--json"] {
        let run = gguf(["show", text(&cut), options]).exits(1);
        run.says(&["cut.gguf: truncated: ", " of at least ", " bytes; fetch it again\n"]);
    }
}

#[test]
fn an_output_that_would_not_load_is_refused() {
    let dir = folder();
    let model = dir.path().join("model");
    fs::create_dir(&model).unwrap();
    for entry in fs::read_dir(glossary()).unwrap().flatten() {
        fs::copy(entry.path(), model.join(entry.file_name())).unwrap();
    }
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let changed = config.replace("\"rms_norm_eps\":", "\"rms_norm_eps\": null, \"another\":");
    assert_ne!(config, changed);
    fs::write(model.join("config.json"), changed).unwrap();
    let out = dir.path().join("out.gguf");
    for ty in ["bf16", "Q4_K_M"] {
        let convert =
            |more: &[&str]| gguf([&["convert", text(&model), "-o", text(&out), "--type", ty][..], more].concat());
        convert(&[]).exits(1).says(&["the output would have an error", "--allow-invalid"]);
        assert!(!out.exists());
        convert(&["--dry-run"]).exits(1).says(&["--allow-invalid"]).prints(&["token_embd.weight"]);
        convert(&["--allow-invalid"]).exits(0);
        gguf(["check", text(&out)]).exits(1);
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn shards_are_renamed_together() {
    let dir = folder();
    let [first, second] = shards(dir.path(), "a model");
    let before = names(dir.path());
    let lone = folder();
    fs::copy(&second, lone.path().join(second.file_name().unwrap())).unwrap();
    gguf(["name", "--rename", text(&lone.path().join(second.file_name().unwrap()))])
        .exits(1)
        .says(&["shards are renamed together, and some of the 2 shards are missing"]);
    assert_eq!(names(lone.path()).len(), 1);
    gguf(["name", "--rename", text(&second), text(&first)]).exits(0);
    let after = names(dir.path());
    assert!(after != before && after.len() == 2, "{after:?}");
    gguf(["show", text(&dir.path().join(&after[0]))]).exits(0).silently().prints(&["in 2 shards"]);
}

#[test]
fn what_holds_no_model_is_not_quantized() {
    let dir = folder();
    let (file, out) = (dir.path().join("in.gguf"), dir.path().join("out.gguf"));
    let mut adapter = head(&[("blk.0.attn_q.weight.lora_a", &[32, 8], GgmlType::F32)]);
    adapter.set("general.type", "adapter");
    for (head, expected) in [(adapter, "a LoRA adapter"), (head(&[]), "pass a model with tensors")] {
        write(&file, &head, &[]);
        gguf(["quantize", text(&file), text(&out), "Q4_K_M"]).exits(1).says(&[expected]);
        assert!(!out.exists());
        gguf(["quantize", text(&file), text(&out), "COPY", "--force"]).exits(0);
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn what_is_no_command_gets_a_tip() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    gguf(["info", text(&file)]).exits(2).says(&["tip: the command is gguf show\n"]);
    gguf(["validate", text(&file)]).exits(2).says(&["tip: the command is gguf check\n"]);
    gguf([text(&file)]).exits(2).says(&["tip: to see what a file is: gguf show ", "small.gguf\n"]);
    gguf([text(dir.path())]).exits(2).says(&["tip: to convert a checkpoint folder: gguf convert "]);
    assert!(!gguf(["blah"]).exits(2).err.contains("tip: "));
}

/// The tensors of an image encoder with one block, as used by LLaVA with Mistral models.
const ENCODER: &[(&str, &[u64])] = &[
    ("vision_tower.ln_pre.weight", &[4]),
    ("vision_tower.patch_conv.weight", &[4, 3, 2, 2]),
    ("vision_tower.transformer.layers.0.attention.q_proj.weight", &[4, 4]),
    ("vision_tower.transformer.layers.0.attention.k_proj.weight", &[4, 4]),
    ("vision_tower.transformer.layers.0.attention.v_proj.weight", &[4, 4]),
    ("vision_tower.transformer.layers.0.attention.o_proj.weight", &[4, 4]),
    ("vision_tower.transformer.layers.0.attention_norm.weight", &[4]),
    ("vision_tower.transformer.layers.0.feed_forward.gate_proj.weight", &[8, 4]),
    ("vision_tower.transformer.layers.0.feed_forward.up_proj.weight", &[8, 4]),
    ("vision_tower.transformer.layers.0.feed_forward.down_proj.weight", &[4, 8]),
    ("vision_tower.transformer.layers.0.ffn_norm.weight", &[4]),
    ("multi_modal_projector.linear_1.weight", &[16, 4]),
    ("multi_modal_projector.linear_2.weight", &[16, 16]),
];

#[test]
fn convert_writes_model_and_projector() {
    use gguf_test::checkpoint::{f32_data, llama_tensors, safetensors, write_small_files};
    let dir = folder();
    let model = dir.path().join("seeing");
    fs::create_dir(&model).unwrap();
    write_small_files(&model);
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let vision = r#""LlavaForConditionalGeneration"], "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "vision_config": {"model_type":
        "pixtral", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 4, "patch_size": 2,
        "hidden_act": "silu"}"#;
    let config =
        config.replace("\"LlamaForCausalLM\"]", vision).replace("\"model_type\":\"llama\"", "\"model_type\":\"none\"");
    fs::write(model.join("config.json"), config).unwrap();
    let added = r#"{"added_tokens_decoder": {"7": {"content": "[IMG_BREAK]", "special": true}}}"#;
    fs::write(model.join("tokenizer_config.json"), added).unwrap();
    let preprocessor = r#"{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}"#;
    fs::write(model.join("preprocessor_config.json"), preprocessor).unwrap();
    let all: Vec<(String, Vec<u64>)> = llama_tensors()
        .into_iter()
        .chain(ENCODER.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())))
        .collect();
    let data = |shape: &[u64]| f32_data(1, shape.iter().product());
    let tensors: Vec<_> =
        all.iter().map(|(name, shape)| (name.as_str(), "F32", shape.as_slice(), data(shape))).collect();
    fs::write(model.join("model.safetensors"), safetensors(&tensors)).unwrap();

    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let both = format!("--mmproj={}", path("eyes.gguf"));
    let (out, projector) = (path("model.gguf"), path("eyes.gguf"));
    gguf(["convert", text(&model), "-o", &out, &both, "-q"]).exits(0).prints(&[&out, &projector]);
    gguf(["convert", text(&model), "-o", &path("alone.gguf"), "--mmproj", "-q"]).exits(0);
    assert_eq!(fs::read(&projector).unwrap(), fs::read(path("alone.gguf")).unwrap());
    gguf(["show", &projector, "--tensors"]).exits(0).prints(&[
        "v.token_embd.img_break",
        "v.blk.0.ffn_gate.weight",
        "mm.2.weight",
    ]);
    gguf(["show", &out, "--tensors"]).exits(0).prints(&["blk.1.attn_q.weight"]);
    // Quantizing the model does not quantize the encoder.
    let quantized = format!("--mmproj={}", path("half.gguf"));
    gguf(["convert", text(&model), "-o", &path("q.gguf"), "--type", "Q4_0", &quantized, "-q"]).exits(0);
    assert_eq!(fs::read(path("half.gguf")).unwrap(), fs::read(&projector).unwrap());

    gguf(["convert", text(&model), "-o", &path("x.gguf"), &format!("--mmproj={}", path("x.gguf"))])
        .exits(2)
        .says(&["output path of both the model and the projector"]);
    for (beside, said) in [(&projector, "already exists"), (&path("none/y.gguf"), "no such folder")] {
        let failed = gguf(["convert", text(&model), "-o", &path("x.gguf"), &format!("--mmproj={beside}"), "-q"]);
        failed.exits(2).says(&[said]);
        assert!(!dir.path().join("x.gguf").exists());
    }
    gguf(["convert", text(&model), "-o", &path("x.gguf"), "--mmproj", "--split-max-tensors", "2"])
        .exits(2)
        .says(&["does not apply to a projector"]);
    gguf(["convert", text(&model), "-o", &path("x.gguf"), "--mmproj", "--type", "Q4_0"])
        .exits(2)
        .says(&["a projector is not quantized to Q4_0"]);
    gguf(["convert", text(&model), "-o", &path("x.gguf"), "--mmproj", "--no-mtp"])
        .exits(2)
        .says(&["--no-mtp does not apply to a projector"]);
    fs::write(model.join("tokenizer_config.json"), "{}").unwrap();
    let failed = gguf(["convert", text(&model), "-o", &path("x.gguf"), &format!("--mmproj={}", path("y.gguf"))]);
    failed.says(&["does not support a tokenizer without the token [IMG_BREAK]"]);
    assert!(!dir.path().join("x.gguf").exists());
}
