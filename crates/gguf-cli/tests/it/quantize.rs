//! `gguf quantize`: files, output and errors. The interop tests compare the bytes with llama.cpp's.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Gguf, TensorInfo, ValueRef};
use gguf_quantize::imatrix::{Entry, Format, Imatrix};
use gguf_test::files::{folder, head, names, small, write};
use gguf_test::program::{self, Run, gguf, program};

/// The example model, converted.
fn model(dir: &Path) -> PathBuf {
    let out = dir.join("model.gguf");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    gguf([Path::new("convert"), &example, Path::new("-o"), &out, Path::new("-q")]).exits(0);
    out
}

fn quantize(args: &[&str]) -> Run {
    gguf([&["quantize"], args].concat())
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let dir = folder();
    let model = model(dir.path());
    let model = model.to_str().unwrap();
    let mut files = Vec::new();
    for threads in ["1", "2", "7"] {
        let out = dir.path().join(threads);
        let out = out.to_str().unwrap();
        let run = quantize(&[model, out, "q4_k_m", "-j", threads, "-f"]).exits(0);
        assert_eq!(run.out.trim(), out);
        assert!(run.err.contains("Q4_K_M: 29 tensors") && run.err.contains("5.06 bits per weight"), "{}", run.err);
        files.push(fs::read(out).unwrap());
    }
    assert!(files[0] == files[1] && files[1] == files[2]);

    let gguf = Gguf::parse(files[0].as_slice()).unwrap();
    assert_eq!(gguf.get("general.file_type"), Some(ValueRef::U32(15)));
    assert_eq!(gguf.tensor("token_embd.weight").unwrap().ty, GgmlType::Q6_K);
    assert_eq!(gguf.tensor("blk.0.attn_q.weight").unwrap().ty, GgmlType::Q4_K);
    assert_eq!(gguf.tensor("blk.0.attn_norm.weight").unwrap().ty, GgmlType::F32);
    program::gguf(["check", dir.path().join("1").to_str().unwrap(), "--data"]).exits(0);
}

#[test]
fn options_about_types_are_followed_and_their_reasons_said() {
    let dir = folder();
    let model = model(dir.path());
    let model = model.to_str().unwrap();
    let plan = quantize(&[
        model,
        "Q5_K_M",
        "--dry-run",
        "--json",
        "--tensor-type",
        "ffn_down=q8_0",
        "--token-embedding-type",
        "q4_0",
    ]);
    let plan = plan.exits(0).json();
    assert_eq!(plan["file_type"], "Q5_K_M");
    let tensors = plan["tensors"].as_array().unwrap();
    let of = |name: &str| tensors.iter().find(|t| t["name"] == name).unwrap();
    assert_eq!(of("blk.1.ffn_down.weight")["to"], "q8_0");
    assert_eq!(of("blk.1.ffn_down.weight")["reason"], "rule number 1 for names");
    assert_eq!(of("token_embd.weight")["to"], "q4_0");
    assert_eq!(of("blk.1.ffn_up.weight")["to"], "q5_K");
    assert_eq!(of("output_norm.weight")["to"], "f32");
    assert!(!dir.path().join("Q5_K_M").exists());

    quantize(&[model, "Q4_0", "--dry-run", "--pure"]).exits(0).prints(&["--pure", "4.52 bits per weight"]);
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    for (pair, said) in [
        ("llama.context_length=str:abc", "llama.context_length: expected a value of type u32, found "),
        ("general.name=int:5", "general.name: expected a value of type str"),
        ("tokenizer.ggml.tokens=str:abc", "tokenizer.ggml.tokens: expected a value of type "),
        ("tokenizer.ggml.scores=float:1", "tokenizer.ggml.scores: expected a value of type "),
    ] {
        let run = quantize(&[model, out, "Q8_0", "--override-kv", pair]).exits(2);
        run.says(&[said, ", found ", "--allow-type-change"]);
        assert!(!Path::new(out).exists());
        quantize(&[model, out, "Q8_0", "-q", "--override-kv", pair, "--allow-type-change"]).exits(0);
        fs::remove_file(out).unwrap();
    }
    quantize(&[model, out, "Q8_0", "-q", "--override-kv", "general.name=str:Another"]).exits(0).silently();
    gguf(["get", out, "general.name"]).exits(0).prints(&["Another"]);
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_written() {
    let dir = folder();
    let model = model(dir.path());
    let model = model.to_str().unwrap();
    let out = dir.path().join("out.gguf");
    let q8 = dir.path().join("q8.gguf");
    let (out_name, q8_name) = (out.to_str().unwrap(), q8.to_str().unwrap());
    quantize(&[model, q8_name, "Q8_0", "-q"]).exits(0);
    let whole = fs::read(model).unwrap();
    let cut = dir.path().join("cut.gguf");
    fs::write(&cut, &whole[..whole.len() - 1000]).unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "not a matrix at all, and long enough to be read as one").unwrap();
    let text = text.to_str().unwrap();

    let cases: &[(&[&str], i32, &[&str])] = &[
        (&[model, out_name, "Q4_KM"], 2, &["unknown file type", "did you mean Q4_K_M"]),
        (&[model, out_name], 2, &["expected an output file and a file type"]),
        (&[model, out_name, "IQ2_XXS"], 1, &["needs an importance matrix", "--imatrix"]),
        (&[q8_name, out_name, "Q4_0"], 1, &["is already q8_0", "--allow-requantize"]),
        (&[cut.to_str().unwrap(), out_name, "Q4_0"], 1, &["its data ends at byte", "missing"]),
        (&[model, out_name, "Q4_0", "--imatrix", text], 1, &["text"]),
        (&[model, out_name, "Q4_0", "--imatrix", "no-such-file"], 2, &["no-such-file"]),
        (&[model, out_name, "Q4_0", "--tensor-type", "ffn_down=q9"], 2, &["unknown tensor type"]),
        (&[model, out_name, "Q4_0", "--override-kv", "a=int:x"], 2, &["is not a whole number"]),
        (&["no-such-model", out_name, "Q4_0"], 2, &["no-such-model"]),
        (&[model, model, "Q4_0", "-f"], 2, &["choose another name for the output"]),
        (&[model, q8_name, "Q4_0"], 2, &["already exists", "--force"]),
    ];
    for (args, code, texts) in cases {
        quantize(args).exits(*code).says(texts);
        assert!(!out.exists(), "{args:?}");
    }
    assert!(fs::read(model).unwrap() == whole);
    quantize(&[q8_name, out_name, "Q4_0", "--allow-requantize", "-q"]).exits(0);
}

#[test]
fn numbers_that_are_none_are_refused() {
    let dir = folder();
    let model = model(dir.path());
    let mut bytes = fs::read(&model).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let range = gguf.tensor_range(&gguf.tensor("blk.1.ffn_up.weight").unwrap()).unwrap();
    // A NaN in bfloat16.
    bytes[range.start as usize + 1000..][..2].copy_from_slice(&[0xc0, 0x7f]);
    let bad = dir.path().join("bad.gguf");
    fs::write(&bad, &bytes).unwrap();
    let out = dir.path().join("out.gguf");
    let run = quantize(&[bad.to_str().unwrap(), out.to_str().unwrap(), "Q8_0"]);
    run.exits(1).says(&["blk.1.ffn_up.weight", "NaN or infinity"]);
    assert!(!out.exists());
}

/// One pass gives the same result as two, for mixtures, floats, and weights of importance.
#[test]
fn a_checkpoint_is_quantized_on_the_way() {
    let dir = folder();
    let model = model(dir.path());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let matrix = path("imatrix.gguf");
    fs::write(&matrix, matrix_of(&model)).unwrap();
    for options in [
        &["Q4_K_M"] as &[&str],
        &["q8_0", "--leave-output-tensor", "--prune-layers", "1"],
        &["Q4_0", "--pure", "--tensor-type", "ffn_up=f16", "--tensor-type", "attn_q=bf16"],
        &["Q2_K", "--imatrix", &matrix, "-j", "3"],
    ] {
        let (ty, options) = options.split_first().unwrap();
        let (one, two) = (path("one-{FTYPE}.gguf"), path("two.gguf"));
        let run = gguf([&["convert", example.to_str().unwrap(), "-o", &one, "--type", ty, "-q"], options].concat());
        let run = run.exits(0);
        let one = path(&format!("one-{}.gguf", ty.to_uppercase()));
        assert_eq!(run.out.trim(), one);
        quantize(&[&[model.to_str().unwrap(), &two, ty, "-f", "-q"], options].concat()).exits(0);
        assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "{ty} {options:?}");
    }

    let convert = |options: &[&str]| gguf([&["convert", example.to_str().unwrap(), "-o", &matrix], options].concat());
    for (options, code, said) in [
        (&["--type", "Q4_KM"] as &[&str], 2, "unknown file type `Q4_KM`; did you mean Q4_K_M?"),
        (&["--type", "bf16", "--pure"], 2, "quantization options require a quantized --type"),
        (&["--type", "Q4_K_M", "--vocab-only"], 2, "--vocab-only writes no tensors"),
        (&["--type", "IQ2_XS", "-f"], 1, "needs an importance matrix\nhelp: pass one with --imatrix"),
        (&["--type", "Q4_K_M", "--imatrix", &matrix], 2, "would overwrite an input file"),
    ] {
        convert(options).exits(code).says(&[said]);
    }
    convert(&["--type", "Q4_K_M", "--dry-run"]).exits(2).says(&["already exists"]);
    let new = path("new.gguf");
    let plan = gguf(["convert", example.to_str().unwrap(), "-o", &new, "--type", "Q4_K_M", "--dry-run"]).exits(0).out;
    assert!(plan.contains("token_embd.weight") && plan.contains("5.06 bits per weight"), "{plan}");
}

/// An importance matrix for a model: different weights for the columns of every matrix of a block.
fn matrix_of(model: &Path) -> Vec<u8> {
    let bytes = fs::read(model).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let tensors: Vec<TensorInfo> = gguf.tensors().map(|t| t.to_owned()).collect();
    let matrices = tensors.iter().filter(|t| t.shape.len() == 2 && t.name.starts_with(b"blk."));
    let entry = |t: &TensorInfo| {
        let sums = (0..t.shape[0]).map(|i| ((i * 37 + 11) % 101) as f32 + 0.5).collect();
        (t.name.clone(), Entry { sums, counts: vec![64] })
    };
    let matrix = Imatrix {
        format: Format::Gguf,
        entries: matrices.map(entry).collect(),
        datasets: vec![b"text".to_vec()],
        chunk_count: 1,
        chunk_size: 512,
    };
    matrix.write(Vec::new()).unwrap()
}

#[test]
fn blocks_are_left_out() {
    let dir = folder();
    let model = model(dir.path());
    let model = model.to_str().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (out, matrix) = (path("out.gguf"), path("imatrix.gguf"));
    fs::write(&matrix, matrix_of(Path::new(model))).unwrap();
    let run = quantize(&[model, &out, "Q8_0", "--prune-layers", "2,0", "--imatrix", &matrix, "-q"]).exits(0);
    assert_eq!(run.err, "");
    let bytes = fs::read(&out).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    assert_eq!(gguf.get("llama.block_count"), Some(ValueRef::U32(1)));
    assert_eq!(gguf.tensors().filter(|t| t.name.as_bytes().starts_with(b"blk.0.")).count(), 9);
    assert_eq!(gguf.tensors().count(), 11);
    program::gguf(["check", &out, "--data"]).exits(0);

    for (blocks, code, said) in
        [("3", 1, "cannot remove block 3"), ("0,1,2", 1, "at least one must remain"), ("x", 2, "invalid digit")]
    {
        quantize(&[model, &path("none"), "Q8_0", "--prune-layers", blocks]).exits(code).says(&[said]);
    }
}

#[test]
fn standard_output_is_no_place_for_a_model() {
    let dir = folder();
    let model = small(dir.path(), "in.gguf");
    for args in [&["-", "Q8_0"][..], &["-", "--target-bpw", "8.5"]] {
        let mut command = program();
        let run = command.current_dir(dir.path()).arg("quantize").arg(&model).args(args).output().unwrap();
        let err = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{err}");
        assert!(err.contains("OUT -: a GGUF file cannot be written to standard output, because"), "{err}");
        assert_eq!(names(dir.path()), ["in.gguf"]);
    }
}

#[test]
fn shards_stay_shards_when_asked() {
    let dir = folder();
    let whole = small(dir.path(), "whole.gguf");
    let bytes = fs::read(&whole).unwrap();
    let tensors = Gguf::parse(bytes.as_slice()).unwrap().tensors().map(|t| t.to_owned()).collect::<Vec<_>>();
    for (no, tensor) in tensors.iter().enumerate() {
        let mut head = match no {
            0 => head(&[]),
            _ => gguf_format::Head::default(),
        };
        head.set("split.no", no as u16);
        head.set("split.count", 2u16);
        head.set("split.tensors.count", 2i32);
        head.tensors = vec![tensor.clone()];
        write(&dir.path().join(format!("in-0000{}-of-00002.gguf", no + 1)), &head, &[]);
    }
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let paths = [path("out-00001-of-00002.gguf"), path("out-00002-of-00002.gguf")];
    // A prefix, with or without a suffix.
    for out in ["out", "out.gguf", "out-00001-of-00002.gguf"] {
        let run = quantize(&[&path("in-00002-of-00002.gguf"), &path(out), "Q8_0", "--keep-split", "-q", "--force"]);
        let run = run.exits(0).says(&["llama.block_count: the key is missing", "4 errors in all; `gguf check "]);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        assert_eq!(run.out.lines().collect::<Vec<_>>(), paths);
    }
    for (path, tensor) in paths.iter().zip(&tensors) {
        let bytes = fs::read(path).unwrap();
        let gguf = Gguf::parse(bytes.as_slice()).unwrap();
        assert_eq!(
            gguf.tensors().map(|t| t.name.to_string()).collect::<Vec<_>>(),
            [tensor.name.escape_ascii().to_string()]
        );
        assert_eq!(gguf.get("split.count"), Some(ValueRef::U16(2)));
    }
    program::gguf(["show", &paths[0]]).exits(0).prints(&["2 tensors"]);
    // In a directory, the standard name.
    let run = quantize(&[&path("in-00001-of-00002.gguf"), &path(""), "Q8_0", "--keep-split", "-q"]).exits(0);
    assert_eq!(run.out.lines().next(), Some(path("Small-32K-Q8_0-00001-of-00002.gguf").as_str()));
    for folder in ["none/", "none/."] {
        let run = quantize(&[&path("in-00001-of-00002.gguf"), folder, "Q8_0", "--keep-split"]).exits(2);
        run.says(&["gguf: error: ", ": is a folder; --keep-split needs a prefix for the shard names"]);
    }
    // The plan is that of the shards, and a single file is written without the option.
    let plan =
        quantize(&[&path("in-00001-of-00002.gguf"), "Q8_0", "--keep-split", "--dry-run", "--json"]).exits(0).json();
    let bytes: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(plan["file_bytes"], bytes);
    quantize(&[&path("in-00001-of-00002.gguf"), &path("one.gguf"), "Q8_0", "-q"]).exits(0);
    let one = fs::read(path("one.gguf")).unwrap();
    let one = Gguf::parse(one.as_slice()).unwrap();
    assert_eq!((one.n_tensors(), one.get("split.count")), (2, None));
}

/// No input can be replaced, including files given by options.
#[test]
fn files_that_options_name_are_not_replaced() {
    let dir = folder();
    let model = model(dir.path());
    let model = model.to_str().unwrap();
    let rules = dir.path().join("rules.txt");
    fs::write(&rules, "\u{feff}ffn_down=q5_0").unwrap();
    let rules = rules.to_str().unwrap();
    let replaces = ["the output would overwrite an input file"];
    quantize(&[model, rules, "Q8_0", "-f", "--tensor-type-file", rules]).exits(2).says(&replaces);
    gguf(["recipe", "apply", rules, model, rules, "--type", "Q8_0", "-f"]).exits(2).says(&replaces);
    assert!(fs::read_to_string(rules).unwrap().ends_with("ffn_down=q5_0"));
    gguf(["recipe", "apply", model, rules, "x"]).exits(2).says(&["expected a file of rules, found a model"]);
    let long = dir.path().join("long");
    fs::write(&long, vec![b'#'; (1 << 20) + 1]).unwrap();
    gguf(["recipe", "apply", long.to_str().unwrap(), model, "x"]).exits(2).says(&["more than 1048576 bytes"]);
}

#[test]
fn what_would_fail_in_the_middle_of_the_work_fails_before_it() {
    let dir = folder();
    let model = model(dir.path());
    let model = model.to_str().unwrap();
    let (out, matrix) = (dir.path().join("none"), dir.path().join("imatrix.gguf"));
    fs::write(&matrix, matrix_of(Path::new(model))).unwrap();
    let (out, matrix) = (out.to_str().unwrap(), matrix.to_str().unwrap());
    let needs = "token_embd.weight would be";
    for (args, code, said) in [
        (&[model, "Q4_K_M", "-n", "--token-embedding-type", "iq1_s"] as &[&str], 1, needs),
        (&[model, "IQ2_XS", "-n", "--pure", "--imatrix", matrix], 1, needs),
        (&[matrix, out, "Q4_K_M"], 1, "imatrix.gguf: an importance matrix; pass the model"),
        (&[model, "Q4_K_M", out], 2, "the file type comes last"),
    ] {
        quantize(args).exits(code).says(&[said]);
    }
    assert!(!Path::new(out).exists());
}
