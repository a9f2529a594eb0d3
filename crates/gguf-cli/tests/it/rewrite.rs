//! `gguf swap`, `upgrade`, `reorder`, `rm-tensor`, `add-tensor`, `graft`, `extract` and `cat`: output, files and errors.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Gguf, Head, Version};
use gguf_test::files::{folder, head, names, small, text, write};
use gguf_test::program::gguf;

fn out(dir: &Path) -> PathBuf {
    dir.join("out.gguf")
}

#[test]
fn copies_say_what_they_are_and_keep_to_themselves() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let other = dir.path().join("other.gguf");
    write(&other, &head(&[("extra.weight", &[32], GgmlType::F32)]), &[]);
    let (m, o) = (text(&model), text(&other));
    let out = out(dir.path());
    let cases: &[(&[&str], &str)] = &[
        (&["swap", m], "big-endian: 2 tensors, "),
        (&["swap", m, "--to", "little"], "little-endian: 2 tensors, "),
        (&["upgrade", m], "version 3 already, copied: 2 tensors, "),
        (&["reorder", m], "reordered: 2 tensors, "),
        (&["reorder", m, "--by", "size"], "reordered: 2 tensors, "),
        (&["reorder", m, "--like", o], "reordered: 2 tensors, "),
        (&["rm-tensor", m, "output*"], "1 tensor removed: 1 tensor, "),
        (
            &["graft", m, "--from", o, "--tensors", "extra*", "--keys", "general.*"],
            "1 tensor and 2 keys copied: 3 tensors, ",
        ),
    ];
    for (args, said) in cases {
        let (command, rest) = args.split_first().unwrap();
        // The output follows the input.
        let (input, rest) = rest.split_first().unwrap();
        let args = [&[*command, *input, text(&out)][..], rest].concat();
        let before = fs::read(&model).unwrap();
        let run = gguf(&args).exits(0).says(&[said]);
        assert_eq!(run.out, format!("{}\n", text(&out)), "{args:?}");
        gguf(["check", "--structure", text(&out)]).exits(0);
        gguf(&args).exits(2).says(&["out.gguf: already exists\nhelp: use --force to overwrite it"]);
        let quiet = gguf(args.iter().copied().chain(["-fq"])).exits(0).silently();
        assert_eq!(quiet.out, format!("{}\n", text(&out)));
        let onto_itself = [&[*command, *input, *input, "--force"][..], rest].concat();
        gguf(&onto_itself).exits(2).says(&["would overwrite an input file"]);
        let to_stdout = [&[*command, *input, "-"][..], rest].concat();
        gguf(&to_stdout).exits(2).says(&["cannot be written to standard output"]);
        assert!(fs::read(&model).unwrap() == before, "{args:?}");
        fs::remove_file(&out).unwrap();
        assert_eq!(names(dir.path()), ["model.gguf", "other.gguf"]);
    }
    gguf(["reorder", m, text(&out), "--like", o, "--force"]).exits(0);
    gguf(["reorder", m, o, "--like", o, "--force"]).exits(2).says(&["would overwrite an input file"]);
    gguf(["graft", m, o, "--from", o, "--tensors", "extra*", "--force"]).exits(2).says(&["would overwrite"]);
}

#[test]
fn what_is_not_there_is_an_error_with_a_hint() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let (m, out) = (text(&model), out(dir.path()));
    let out = text(&out);
    gguf(["rm-tensor", m, out, "output_nrm.weight"])
        .exits(1)
        .says(&["there is no tensor output_nrm.weight; did you mean output_norm.weight?"]);
    gguf(["rm-tensor", m, out, "blk.*"])
        .exits(1)
        .says(&["there is no tensor blk.*\nhelp: `gguf show --tensors` lists all tensors"]);
    gguf(["graft", m, out, "--from", m, "--tensors", "output*"])
        .exits(2)
        .says(&["the tensor output_norm.weight already exists\nhelp: use --replace"]);
    gguf(["graft", m, out, "--from", m, "--keys", "x.*"])
        .exits(1)
        .says(&["there is no key x.*\nhelp: `gguf show --kv` lists"]);
    gguf(["graft", m, out, "--from", m]).exits(2).says(&["nothing to copy: pass --tensors or --keys"]);
    gguf(["extract", m, "*", "-o", "x.npy"])
        .exits(2)
        .says(&["2 tensors match, and a NumPy file holds one\nhelp: use an output name"]);
    gguf(["extract", m, "*", "-o", "x.bin"]).exits(2).says(&["use the extension .npy or .safetensors"]);
    gguf(["extract", m, "output*", "-o", "x.npy", "--type", "bf16"])
        .exits(2)
        .says(&["f32 cannot be converted to bf16\nhelp: choose another --type"]);
    gguf(["cat", m, "output_norm.weigh"]).exits(1).says(&["did you mean output_norm.weight?"]);
    gguf(["cat", m, "output_norm.weight", "--values", "--rows", "1..3"])
        .exits(1)
        .says(&["has 1 rows", "rows 1 to 3 are out of range"]);
    assert_eq!(names(dir.path()), ["model.gguf"]);
}

#[test]
fn an_old_file_is_upgraded() {
    let dir = folder();
    let path = dir.path().join("old.gguf");
    for version in [Version::V1, Version::V2] {
        let mut old = head(&[("output_norm.weight", &[32], GgmlType::F32)]);
        old.dialect = gguf_format::Dialect::new(version);
        write(&path, &old, &[]);
        let out = out(dir.path());
        let said = format!("version {version} to 3: 1 tensor, ");
        gguf(["upgrade", text(&path), text(&out), "-f"]).exits(0).says(&[&said]);
        let bytes = fs::read(&out).unwrap();
        let new = Gguf::parse(&bytes).unwrap();
        assert_eq!(new.dialect().version, Version::V3);
        gguf(["diff", text(&path), text(&out)]).exits(0);
    }
}

#[test]
fn a_tensor_goes_out_and_comes_back() {
    let dir = folder();
    let path = dir.path().join("model.gguf");
    let mut model: Head = head(&[("w", &[64, 2], GgmlType::F32), ("output_norm.weight", &[32], GgmlType::F32)]);
    model.set("general.name", "W");
    let values: Vec<u8> = (0..128).flat_map(|i| (i as f32 - 64.0).to_le_bytes()).collect();
    write(&path, &model, &[&values]);
    let npy = dir.path().join("w.npy");
    let run = gguf(["extract", text(&path), "w", "-o", text(&npy)]).exits(0).says(&["extracted: 1 tensor, 640 B"]);
    assert_eq!(run.out, format!("{}\n", text(&npy)));
    let bytes = fs::read(&npy).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && bytes.ends_with(&values));
    assert!(String::from_utf8_lossy(&bytes[10..128]).contains("'shape': (2, 64)"));
    gguf(["extract", text(&path), "w", "-o", text(&npy)]).exits(2).says(&["w.npy: already exists\nhelp: use --force"]);
    let out = out(dir.path());
    let args = ["add-tensor", text(&path), text(&out), "again", text(&npy)];
    gguf(args).exits(0).says(&["written: 3 tensors, "]);
    let cat = |file: &Path, tensor: &str, more: &[&str]| gguf(["cat", text(file), tensor].iter().chain(more)).exits(0);
    assert_eq!(cat(&out, "again", &["--values"]).out, cat(&path, "w", &["--values"]).out);
    gguf(["add-tensor", text(&path), text(&out), "w", text(&npy), "-f"])
        .exits(2)
        .says(&["the tensor w already exists\nhelp: use --replace"]);
    gguf(["add-tensor", text(&path), text(&out), "q", text(&npy), "--type", "q8_0", "-f"]).exits(0);
    cat(&out, "q", &[]).prints(&["  Shape       64 x 2\n", "  Type        q8_0, 136 B\n", "  Values      128\n"]);
    fs::write(&npy, "no array").unwrap();
    gguf(["add-tensor", text(&path), text(&out), "x", text(&npy), "-f"])
        .exits(1)
        .says(&["w.npy: byte 0: not a NumPy file"]);
}

#[test]
fn cat_shows_numbers_and_a_picture() {
    let dir = folder();
    let path = dir.path().join("model.gguf");
    let values: Vec<u8> = [0.0f32, 1.0, 1.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let odd: Vec<u8> = [f32::NAN, f32::INFINITY].iter().flat_map(|v| v.to_le_bytes()).collect();
    let ids: Vec<u8> = [i64::MAX, -1].iter().flat_map(|v| v.to_le_bytes()).collect();
    let model = head(&[("w", &[2, 2], GgmlType::F32), ("odd", &[2], GgmlType::F32), ("ids", &[2], GgmlType::I64)]);
    write(&path, &model, &[&values, &odd, &ids]);
    let run = gguf(["cat", text(&path), "w", "--bins", "4"]).exits(0).silently();
    let bar = |n: usize| "█".repeat(n);
    let expected = format!(
        "w\n  Shape       2 x 2\n  Type        f32, 16 B\n  Values      4\n  Range       0 to 4.000\n  Mean        1.500\n  Deviation   1.500\n  \
         RMS         2.121\n  Zeros       1 (25.0 %)\n  Outliers    0 (magnitude above 6 RMS)\n\n      0  1  {}\n  1.000  2  {}\n  2.000  0\n  3.000  1  {}\n",
        bar(25),
        bar(50),
        bar(25)
    );
    assert_eq!(run.out, expected);
    let json = gguf(["cat", text(&path), "w", "--bins", "4", "--json"]).exits(0).json();
    assert_eq!(json["histogram"], serde_json::json!([1, 2, 0, 1]));
    assert_eq!((&json["mean"], &json["max"], &json["zeros"]), (&1.5.into(), &4.0.into(), &1.into()));
    gguf(["cat", text(&path), "odd"])
        .exits(0)
        .prints(&["Range       - to -\n", "Not finite  1 not a number, 1 infinite\n"]);
    assert_eq!(gguf(["cat", text(&path), "odd", "--json"]).exits(0).json()["mean"], serde_json::Value::Null);
    assert_eq!(gguf(["cat", text(&path), "w", "--values"]).exits(0).out, "0.0 1.0\n1.0 4.0\n");
    assert_eq!(gguf(["cat", text(&path), "w", "--values", "--rows", "1"]).exits(0).out, "1.0 4.0\n");
    assert_eq!(gguf(["cat", text(&path), "ids", "--values"]).exits(0).out, "9223372036854775807 -1\n");
}
