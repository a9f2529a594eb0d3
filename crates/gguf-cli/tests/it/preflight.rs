//! What `gguf convert` finds out before it writes: values out of range, tensors without a place, and the room on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, glossary, names, text};
use gguf_test::program::{Run, gguf};
use serde_json::{Value, json};

/// A copy of a checkpoint in BF16 with some values of its embeddings replaced. There are 2048 rows of 256.
fn checkpoint(dir: &Path, values: &[(usize, f32)]) -> PathBuf {
    let to = dir.join("model");
    fs::create_dir(&to).unwrap();
    for name in names(&glossary()) {
        fs::copy(glossary().join(&name), to.join(&name)).unwrap();
    }
    let path = to.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let head = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let tensors: Value = serde_json::from_slice(&bytes[8..head]).unwrap();
    let start = head + tensors["model.embed_tokens.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    for (index, value) in values {
        let at = start + index * 2;
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes()[2..]);
    }
    fs::write(path, bytes).unwrap();
    to
}

/// Converts to a file beside the checkpoint, or to several.
fn convert(model: &Path, options: &[&str]) -> Run {
    let name = if options.iter().any(|option| option.contains(',')) { "out-{ftype}.gguf" } else { "out.gguf" };
    let out = model.with_file_name(name);
    gguf([&["convert", text(model), "-o", text(&out)], options].concat())
}

/// The answer of a dry run.
fn planned(model: &Path, options: &[&str]) -> Value {
    serde_json::from_str(&convert(model, &[options, &["--dry-run", "--json"]].concat()).out).unwrap()
}

/// The last value of the embeddings that a sample covers and the first that it does not: the sample has 16 runs of 4096 values.
const SAMPLED: usize = 4095;
const NOT_SAMPLED: usize = 4096;

#[test]
fn a_sample_finds_values_that_half_precision_does_not_hold() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[(SAMPLED, 70000.0), (NOT_SAMPLED, -1e9)]);
    let warning = "token_embd.weight: 1 value exceeds the range of f16, the first 69632.0 at index 4095 \
                   (in a sample of 65536 of 524288 values)";
    convert(&model, &["--type", "f16"]).exits(0).says(&[
        warning,
        "use --type bf16 or f32, or check all with --check-range",
        "token_embd.weight: 2 values exceed the range of f16 and became infinite",
    ]);
    let found = json!({
        "name": "token_embd.weight", "type": "f16", "n_values": 524_288, "n_checked": 65536,
        "overflow": {"count": 1, "index": 4095, "value": 69632.0}, "not_finite": null,
    });
    let of = |plan: &Value| plan["range"].clone();
    assert_eq!(of(&planned(&model, &["--type", "f16"])), json!({"checked": "sample", "tensors": [found]}));
    // Only the type with the smaller range is sampled.
    let plans = planned(&model, &["--type", "q8_0,f16,bf16"]);
    let tensors = |i: usize| plans["plans"][i]["range"]["tensors"].as_array().unwrap().len();
    assert_eq!([tensors(0), tensors(1), tensors(2)], [0, 1, 0]);
    let said = convert(&model, &["--type", "bf16", "--force"]).exits(0).err;
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn nothing_is_written_if_the_check_of_all_values_fails() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[(NOT_SAMPLED, -1e9), (500_000, f32::NAN)]);
    let said = convert(&model, &["--type", "f16", "--dry-run"]).exits(0).err;
    assert!(!said.contains("warning"), "a sample has them: {said}");
    let found = "token_embd.weight: 1 value exceeds the range of f16, the first -998244350.0 at index 4096; \
                 1 value is not finite, the first NaN at index 500000";
    let checked = ["--type", "f16", "--check-range"];
    convert(&model, &checked)
        .exits(1)
        .says(&[found, "a tensor has values that are out of range or not finite; use --type bf16 or f32"]);
    assert_eq!(names(dir.path()), ["model"]);
    convert(&model, &[&checked[..], &["--dry-run"]].concat()).exits(1).says(&[found]).prints(&["token_embd.weight"]);
    let range = &planned(&model, &checked)["range"];
    assert_eq!(
        (&range["checked"], &range["tensors"][0]["not_finite"]),
        (&json!("all"), &json!({"count": 1, "index": 500_000, "value": "NaN"}))
    );
    // Quantized types cannot hold NaN.
    convert(&model, &["--type", "Q4_K_M", "--check-range"]).exits(1).says(&["1 value is not finite"]);
    assert_eq!(names(dir.path()), ["model"]);

    // The bytes are those of a conversion without the check.
    convert(&model, &["--type", "f16", "-q"]).exits(0);
    let out = dir.path().join("out.gguf");
    let before = fs::read(&out).unwrap();
    convert(&model, &checked).exits(2).says(&["already exists"]);
    convert(&model, &[&checked[..], &["--allow-invalid", "--force"]].concat()).exits(0).says(&[found]);
    assert!(fs::read(&out).unwrap() == before);
}

#[test]
fn a_check_of_all_values_covers_the_scales_of_blocks() {
    let dir = folder();
    // The scale of a block of q8_0 is its largest value divided by 127, in half precision.
    let model = checkpoint(dir.path(), &[(31, 8.0e6), (64, -1e9), (65, 1e8)]);
    let said = convert(&model, &["--type", "q8_0", "--check-range"]).exits(1);
    said.says(&[
        "token_embd.weight: 1 value exceeds the range of q8_0, the first -998244350.0 at index 64",
        "use --type bf16 or f32",
    ]);
    assert_eq!(names(dir.path()), ["model"]);
    convert(&model, &["--type", "bf16", "--check-range"]).exits(0);
}

#[test]
fn a_dry_run_checks_its_output_as_a_run_does() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[]);
    let (out, missing) = (dir.path().join("out.gguf"), dir.path().join("none/out.gguf"));
    let dry = |args: &[&str]| gguf([args, &["--dry-run"]].concat());
    let plain = ["convert", text(&model), "-o"];
    dry(&[&plain[..], &[text(&missing)]].concat())
        .exits(2)
        .says(&["there is no folder"])
        .prints(&["token_embd.weight"]);
    gguf([&plain[..], &[text(&out), "-q"]].concat()).exits(0);
    for ty in ["bf16", "Q4_K_M"] {
        let args = [&plain[..], &[text(&out), "--type", ty]].concat();
        dry(&args).exits(2).says(&["out.gguf: already exists\nhelp: use --force"]).prints(&["token_embd.weight"]);
        dry(&[&args[..], &["--force"]].concat()).exits(0);
    }
    let (input, other) = (&out, dir.path().join("other.gguf"));
    let quantize =
        |out: &Path, more: &[&str]| dry(&[&["quantize", text(input), text(out), "Q4_K_M"][..], more].concat());
    quantize(&other, &[]).exits(0);
    quantize(&missing, &[]).exits(2).says(&["there is no folder"]).prints(&["token_embd.weight"]);
    quantize(&out, &["--force"]).exits(2).says(&["would overwrite an input file"]);
    fs::write(&other, "").unwrap();
    quantize(&other, &["--json"]).exits(2).says(&["other.gguf: already exists"]);
    let several = dir.path().join("other-{ftype}.gguf");
    fs::write(dir.path().join("other-q8_0.gguf"), "").unwrap();
    quantize(&several, &["Q8_0"]).exits(2).says(&["other-q8_0.gguf: already exists"]);
    assert_eq!(names(dir.path()), ["model", "other-q8_0.gguf", "other.gguf", "out.gguf"]);
}

#[test]
fn a_dry_run_of_a_split_or_a_merge_checks_its_outputs() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[]);
    let whole = dir.path().join("whole.gguf");
    gguf(["convert", text(&model), "-o", text(&whole), "-q"]).exits(0);
    let (prefix, missing) = (dir.path().join("part"), dir.path().join("none/part"));
    let split = |prefix: &Path, more: &[&str]| {
        gguf([&["split", text(&whole), text(prefix), "--max-tensors", "10"][..], more].concat())
    };
    split(&prefix, &["-n"]).exits(0);
    split(&missing, &["-n"]).exits(2).says(&["there is no folder"]).prints(&["none/part-00001-of-00003.gguf"]);
    split(&prefix, &["-q"]).exits(0);
    split(&prefix, &["-n"]).exits(2).says(&["part-00001-of-00003.gguf: already exists\nhelp: use --force"]);
    split(&prefix, &["-n", "--json"]).exits(2).says(&["already exists"]);
    split(&prefix, &["-n", "--force"]).exits(0);
    let shard = dir.path().join("part-00001-of-00003.gguf");
    let merge = |out: &Path, more: &[&str]| gguf([&["merge", text(&shard), "-n", "-o", text(out)], more].concat());
    merge(&dir.path().join("new.gguf"), &[]).exits(0);
    merge(&missing, &[]).exits(2).says(&["there is no folder"]).prints(&["3 shards: 29 tensors"]);
    merge(&whole, &[]).exits(2).says(&["whole.gguf: already exists\nhelp: use --force"]);
    merge(&whole, &["--force"]).exits(0);
    merge(&shard, &["--force", "--json"]).exits(2).says(&["would overwrite an input file"]);
    let bytes = fs::read(&whole).unwrap();
    let pieces = [0, 1].map(|i| dir.path().join(format!("cut.gguf.part{}of2", i + 1)));
    fs::write(&pieces[0], &bytes[..1000]).unwrap();
    fs::write(&pieces[1], &bytes[1000..]).unwrap();
    let join = |out: &Path, more: &[&str]| gguf([&["merge", text(&pieces[0]), "-n", "-o", text(out)], more].concat());
    join(&dir.path().join("new.gguf"), &[]).exits(0);
    join(&missing, &[]).exits(2).says(&["there is no folder"]).prints(&["2 pieces"]);
    join(&whole, &[]).exits(2).says(&["whole.gguf: already exists\nhelp: use --force"]);
    join(&pieces[1], &["--force"]).exits(2).says(&["would overwrite an input file"]);
    assert!(!dir.path().join("new.gguf").exists());
}

#[test]
fn options_that_do_not_apply_are_errors() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[]);
    let cases: &[(&[&str], &str)] = &[
        (&["--mtp"], "of the architecture llama cannot be written alone\nhelp: omit --mtp"),
        (&["--no-mtp"], "of the architecture llama cannot be omitted\nhelp: omit --no-mtp"),
        (&["--vocab-only", "--check-range"], "cannot be used with"),
        (&["--type", "f16,bf16", "--mmproj=mm-{ftype}.gguf"], "the projector is written once for all file types"),
    ];
    for (options, said) in cases {
        convert(&model, options).exits(2).says(&[said]);
    }
    gguf(["check", "-", "-"]).exits(2).says(&["-: standard input is read once"]);
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn tensors_without_a_place_are_all_listed() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[]);
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["num_hidden_layers"] = 1.into();
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    convert(&model, &[]).exits(1).says(&[
        "18 tensors have no place in the architecture llama with 1 blocks",
        "\"model.layers.*.mlp.down_proj.weight\" (2 tensors), ",
    ]);
    let error = &planned(&model, &[])["error"];
    let tensors = error["tensors"].as_array().unwrap();
    assert_eq!((tensors.len(), &tensors[0]), (18, &json!("model.layers.1.input_layernorm.weight")));
    assert_eq!(error["kind"], "bad_input");
}

#[test]
#[cfg(target_os = "linux")]
fn a_dry_run_says_what_room_there_is() {
    let dir = folder();
    let model = checkpoint(dir.path(), &[]);
    let plan = planned(&model, &["--type", "f16"]);
    assert_eq!(plan["disks"][0]["needed"], plan["file_bytes"]);
    assert!(plan["disks"][0]["free"].as_u64().unwrap() > 0);
    convert(&model, &["--type", "f16", "--dry-run"]).exits(0).prints(&[": 5,821,120 bytes needed, ", " bytes) free\n"]);
    convert(&model, &["--type", "Q4_K_M", "--dry-run"]).exits(0).prints(&[": 1,870,272 bytes needed, "]);
    assert_eq!(names(dir.path()), ["model"]);
}
