//! Files of measurements that may come from elsewhere: sensitivities for `gguf quantize`, divergences for `gguf card`.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, glossary, text};
use gguf_test::program::gguf;

/// The example model, converted.
fn model(dir: &Path) -> PathBuf {
    let out = dir.join("model.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&out), "-q"]).exits(0);
    out
}

const Q: &str = "blk.0.attn_q.weight";
const K: &str = "blk.0.attn_k.weight";

/// The measurement of a tensor; the numbers are JSON.
fn tensor(name: &str, divergence: &str, relative_error: &str) -> String {
    let numbers =
        format!(r#""divergence": {divergence}, "divergence_error": 0.001, "relative_error": {relative_error}"#);
    format!(r#"{{"name": "{name}", "type": "q3_K", {numbers}}}"#)
}

/// A file of sensitivities.
fn sensitivities(tensors: &[String]) -> String {
    let start = r#""format": "gguf.sensitivity", "version": 1, "about": {}, "has_imatrix": false"#;
    format!(r#"{{{start}, "tensors": [{}]}}"#, tensors.join(", "))
}

#[test]
fn invalid_sensitivities_are_errors() {
    let dir = folder();
    let (model, file, out) = (model(dir.path()), dir.path().join("file.json"), dir.path().join("out.gguf"));
    let quantize = || {
        let args = ["quantize", text(&model), text(&out), "--target-bpw", "5.95", "--candidates", "q4_0,q5_0,q8_0"];
        gguf([&args[..], &["--sensitivity", text(&file)]].concat())
    };
    let sound = sensitivities(&[tensor(Q, "0.01", "0.1")]);
    let with = |divergence: &str, error: &str| sensitivities(&[tensor(K, "0.01", "0.1"), tensor(Q, divergence, error)]);
    for (content, said) in [
        (String::new(), "EOF while parsing a value at line 1 column 0"),
        (sound[..sound.len() - 1].to_owned(), "EOF while parsing an object at line 1"),
        (sound[..sound.len() / 3].to_owned(), "EOF while parsing"),
        (format!("{sound} {sound}"), "trailing characters at line 1"),
        ("[]".to_owned(), "invalid length 0, expected struct Document"),
        ("null".to_owned(), "invalid type: null, expected struct Document"),
        ("{}".to_owned(), "missing field `format`"),
        (sound.replace("gguf.sensitivity", "gguf.kld"), "expected the format gguf.sensitivity, found \"gguf.kld\""),
        (sound.replace("\"version\": 1", "\"version\": 2"), "expected version 1, found 2"),
        (sound.replace("\"version\": 1", "\"version\": -1"), "invalid value: integer `-1`, expected u32"),
        (sound.replace("\"version\": 1", "\"version\": 1, \"version\": 1"), "duplicate field `version`"),
        (sound.replace("\"relative_error\"", "\"error\""), "missing field `relative_error`"),
        (sound.replace("[{", "{").replace("}]", "}"), "invalid type: map, expected a sequence"),
        (sound.replace("{}", &"[".repeat(100_000)), "expected value at line 1 column 100"),
        (sensitivities(&[]), "no tensor has a divergence"),
        (sensitivities(&[tensor(Q, "0", "0.1")]), "no tensor has a divergence"),
        (with("-0.01", "0.1"), "tensors[1].divergence, of blk.0.attn_q.weight: expected at least 0, found -0.01"),
        (with("0.01", "-1"), "tensors[1].relative_error, of blk.0.attn_q.weight: expected at least 0, found -1"),
        (
            with("0.01", "0.1").replacen("0.001", "-2", 1),
            "tensors[0].divergence_error, of blk.0.attn_k.weight: expected at least 0, found -2",
        ),
        (with("NaN", "0.1"), "expected value at line 1"),
        (with("-Infinity", "0.1"), "invalid number at line 1"),
        (with("1e999", "0.1"), "number out of range at line 1"),
        (with("null", "0.1"), "invalid type: null, expected f64"),
        (with("\"0.01\"", "0.1"), "invalid type: string \"0.01\", expected f64"),
        (with("[[[[]]]]", "0.1"), "invalid type: sequence, expected f64"),
        (
            sensitivities(&[tensor(Q, "0.01", "0.1"), tensor(Q, "0.02", "0.1")]),
            "tensors[1].name: blk.0.attn_q.weight is a duplicate",
        ),
        (sensitivities(&[tensor("\\u001b[2J", "-1", "0.1")]), "tensors[0].divergence, of \\u{1b}[2J: expected"),
    ] {
        fs::write(&file, content).unwrap();
        let help = "`gguf sensitivity` writes one";
        quantize().exits(1).says(&["file.json: not a file of sensitivities: ", said, help]);
        assert!(!out.exists(), "{said}");
    }
    // The sensitivities of another model.
    fs::write(&file, sensitivities(&[tensor("encoder.attn_q", "0.01", "0.1")])).unwrap();
    quantize()
        .exits(1)
        .says(&["model.gguf: no tensor whose type is chosen has a measured sensitivity", "help: pass with"]);
    assert!(!out.exists());
    // No text.
    for (content, said) in [
        (fs::read(&model).unwrap(), "expected a file of gguf sensitivity, found a model"),
        (b"\xff\xfe{".to_vec(), "not UTF-8 text"),
    ] {
        fs::write(&file, content).unwrap();
        quantize().exits(2).says(&["file.json: ", said]);
    }
    fs::File::create(&file).unwrap().set_len((1 << 28) + 1).unwrap();
    quantize().exits(2).says(&["file.json: expected a file of gguf sensitivity, found more than 268435456 bytes"]);
    fs::remove_file(&file).unwrap();
    quantize().exits(2).says(&["file.json"]);
    assert!(!out.exists());
}

/// Further members are ignored, and numbers that no measurement has count as nothing measured.
#[test]
fn unusual_sensitivities_are_accepted() {
    let dir = folder();
    let (model, file) = (model(dir.path()), dir.path().join("file.json"));
    let types = |content: String| {
        fs::write(&file, content).unwrap();
        let args = ["quantize", text(&model), "--target-bpw", "5.95", "--candidates", "q4_0,q5_0,q8_0"];
        let plan = gguf([&args[..], &["--dry-run", "--json", "--sensitivity", text(&file)]].concat()).exits(0).json();
        plan["tensors"].as_array().unwrap().iter().map(|t| t["to"].to_string()).collect::<Vec<_>>()
    };
    let small = tensor(Q, "0.0001", "0.1");
    let one = types(sensitivities(std::slice::from_ref(&small)));
    let most = types(sensitivities(&[tensor(Q, "1000", "0.1"), tensor(K, "0.0001", "0.1")]));
    assert!(one != most);
    for others in [
        vec![tensor(K, "0", "0")],
        vec![tensor(K, "1.7e308", "1"), tensor("blk.1.attn_k.weight", "1.7e308", "1")],
        vec![tensor(K, "1", "1e-150"), tensor("blk.1.attn_k.weight", "1", "1e-320")],
        vec![tensor("encoder.attn_q", "1", "0.1")],
        vec![tensor("", "1", "0.1")],
        vec![tensor(&"n".repeat(1 << 20), "1", "0.1")],
    ] {
        let all = sensitivities(&[vec![small.clone()], others.clone()].concat());
        assert!(types(all) == one, "{:.100}", others[0]);
    }
    let sound = sensitivities(&[small]);
    for (old, new) in [
        ("{}".to_owned(), "[1, 2, 3]".to_owned()),
        ("{}".to_owned(), format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("\"about\"".to_owned(), "\"more\"".to_owned()),
        ("q3_K".to_owned(), "nothing".to_owned()),
        ("\"has".to_owned(), "\"more\": null, \"has".to_owned()),
        (String::new(), "\u{feff}".to_owned()),
    ] {
        let changed = sound.replacen(&old, &new, 1);
        assert!(changed != sound && types(changed) == one, "{new:.100}");
    }
}

/// The output of `gguf kld --json` for models; paths and means are JSON.
fn divergences(models: &[(&str, &str)]) -> String {
    let model = |(path, mean): &(&str, &str)| {
        format!(r#"{{"path": {path}, "kld": {{"mean": {{"value": {mean}, "error": 0.1}}, "maximum": 1}}}}"#)
    };
    let models: Vec<String> = models.iter().map(model).collect();
    format!(r#"{{"schema": "gguf.kld/3", "models": [{}]}}"#, models.join(", "))
}

#[test]
fn invalid_divergences_are_errors() {
    let dir = folder();
    let (model, file) = (model(dir.path()), dir.path().join("file.json"));
    let card = || gguf(["card", text(&model), "--no-hash", "--table", "-q", "--kld", text(&file)]);
    let name = r#""folder/model.gguf""#;
    let sound = divergences(&[(name, "0.25")]);
    let mean = "models[0].kld.mean.value: expected a divergence";
    for (content, said) in [
        (String::new(), "not the output of gguf kld --json: EOF while parsing a value"),
        (sound[..sound.len() - 2].to_owned(), "not the output of gguf kld --json: EOF while parsing"),
        (format!("{sound},"), "trailing characters"),
        ("[".repeat(100_000), "recursion limit exceeded"),
        ("[]".to_owned(), "it has no list of models"),
        ("{}".to_owned(), "it has no list of models"),
        (r#"{"models": {}}"#.to_owned(), "it has no list of models"),
        (r#"{"models": null}"#.to_owned(), "it has no list of models"),
        (r#"{"models": [null]}"#.to_owned(), "models[0].path: expected a path"),
        (divergences(&[("7", "0.25")]), "models[0].path: expected a path"),
        (divergences(&[("null", "0.25")]), "models[0].path: expected a path"),
        (divergences(&[(name, "null")]), mean),
        (divergences(&[(name, "\"0.25\"")]), mean),
        (divergences(&[(name, "-0.25")]), mean),
        (divergences(&[(name, "[0.25]")]), mean),
        (divergences(&[(name, "NaN")]), "expected value at line 1"),
        (divergences(&[(name, "1e999")]), "number out of range"),
        (sound.replace("kld\": {", "divergence\": {"), mean),
        (divergences(&[(name, "0.25"), (name, "0.5")]), "models[1].path: a second divergence of \"model.gguf\""),
        (divergences(&[]), "has the divergence of none of these models"),
        (divergences(&[(r#""other.gguf""#, "0.25")]), "has the divergence of none of these models"),
        (divergences(&[(r#""..""#, "0.25")]), "has the divergence of none of these models"),
        (divergences(&[(r#"{"hex": "ff"}"#, "0.25")]), "has the divergence of none of these models"),
    ] {
        fs::write(&file, content).unwrap();
        let run =
            card().exits(1).says(&["file.json: ", said, "help: `gguf kld ORIGINAL MODEL... TEXT --json` prints it"]);
        assert_eq!(run.out, "", "{said}");
    }
    for (content, said) in [
        (fs::read(&model).unwrap(), "expected the output of gguf kld --json, found a model"),
        (b"{\"models\": [\"\xff\"]}".to_vec(), "not UTF-8 text"),
        (vec![b' '; (16 << 20) + 1], "expected the output of gguf kld --json, found more than 16777216 bytes"),
    ] {
        fs::write(&file, content).unwrap();
        card().exits(2).says(&["file.json: ", said]);
    }
    // Other models, and a mean that rounding has made negative, are accepted.
    for (others, shown) in [
        (vec![(name, "0.25")], "| 0.2500 |"),
        (vec![(r#""other.gguf""#, "0.5"), (name, "0.25"), (r#""other.gguf""#, "0.5")], "| 0.2500 |"),
        (vec![(r#"{"hex": "ff"}"#, "0.5"), (name, "0.25")], "| 0.2500 |"),
        (vec![(name, "-0.00000001")], "0.0000 |"),
        (vec![(name, "7")], "| 7.0000 |"),
    ] {
        fs::write(&file, divergences(&others)).unwrap();
        card().exits(0).prints(&["| KLD |", shown]);
    }
    // The same model in two files.
    fs::write(&file, &sound).unwrap();
    gguf(["card", text(&model), "--no-hash", "-q", "--kld", text(&file), "--kld", text(&file)])
        .exits(1)
        .says(&["models[0].path: a second divergence of \"model.gguf\""]);
}
