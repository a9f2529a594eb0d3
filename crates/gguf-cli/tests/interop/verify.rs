//! `gguf verify` on files that real llama.cpp made, and on the checkpoints of nearly every architecture.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{Gguf, Head};
use gguf_io::Writer;
use gguf_test::cases::generate;
use gguf_test::files::{folder, glossary, text};
use gguf_test::peers::{self, Peers};
use gguf_test::program::{Run, gguf};
use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The converter of llama.cpp leaves the scales in the blocks of big-endian files little-endian: no reader has the values of the checkpoint.
const LITTLE_ENDIAN_SCALES: &str = "bigendian-q8_0.gguf";

/// Every file that the reference wrote was made from its checkpoint, to the last bit.
fn recorded_files_are_made_of_their_checkpoints() {
    let data = peers::data("hf");
    let manifest = json(&data.join("MANIFEST.json"));
    let (mut n, mut wrong) = (0, Vec::new());
    for job in manifest["jobs"].as_array().unwrap().iter().filter(|job| job["exit"] == 0) {
        let Some(file) = job["outputs"][0]["file"].as_str().map(|file| data.join(file)) else { continue };
        if !file.exists() {
            continue;
        }
        let checkpoint = data.join("models").join(job["name"].as_str().unwrap());
        let mut args = vec!["verify".to_owned(), text(&file).to_owned(), "--exact".to_owned()];
        args.extend(["--against".to_owned(), text(&checkpoint).to_owned()]);
        let mut given = job["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        while let Some(arg) = given.next() {
            match arg {
                "--base" => args.extend([arg.to_owned(), text(&data.join(given.next().unwrap())).to_owned()]),
                "--fuse-qkv" | "--fuse-gate-up-exps" => args.push(arg.to_owned()),
                _ => {}
            }
        }
        args.extend(job["forced_pre"].as_str().into_iter().flat_map(|pre| ["--pre".to_owned(), pre.to_owned()]));
        let run = gguf(&args);
        n += 1;
        if run.code != i32::from(text(&file).ends_with(LITTLE_ENDIAN_SCALES)) {
            wrong.push(format!("{args:?}: exit code {}\n{}{}", run.code, run.out, run.err));
        }
    }
    assert!(wrong.is_empty(), "{} of {n}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n >= 97, "only {n} files");
}

/// Files of llama-quantize, with and without a matrix, directly and from half precision.
fn files_of_llama_quantize_are_made_of_the_checkpoint() {
    let peers = Peers::get();
    let dir = folder();
    let (bf16, matrix) = (peers.data("glossary-bf16.gguf"), peers.data("glossary-imatrix.gguf"));
    let verify = |file: &Path, more: &[&str]| -> Run {
        let checkpoint = glossary();
        gguf(["verify", text(file), "--against", text(&checkpoint), "--exact"].iter().chain(more))
    };
    verify(&bf16, &[]).exits(0).prints(&["BF16; keys and tensors in the order of convert_hf_to_gguf.py"]);
    // Q4_K_M, Q2_K, IQ2_XXS and Q6_K, by the numbers of `llama_ftype`.
    for (number, name) in [(15, "Q4_K_M"), (10, "Q2_K"), (19, "IQ2_XXS"), (18, "Q6_K")] {
        let out = dir.path().join(format!("{number}.gguf"));
        peers.ask(&["llama-quantize", text(&bf16), text(&out), &number.to_string(), "--imatrix", text(&matrix)]);
        verify(&out, &["--imatrix", text(&matrix)]).exits(0).prints(&[name, "order of llama-quantize"]);
    }
    let out = dir.path().join("halves.gguf");
    let f16 = dir.path().join("f16.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&f16), "--type", "f16", "-q"]).exits(0);
    peers.ask(&["llama-quantize", text(&f16), text(&out), "15"]);
    verify(&out, &[]).exits(0);
}

/// A recorded or made checkpoint and a conversion of it.
struct Case {
    checkpoint: PathBuf,
    args: Vec<String>,
}

impl Case {
    /// Makes a checkpoint of `hf-cases`.
    fn make(name: &str, entry: &Value, dir: &Path) -> Case {
        generate(name, dir);
        let mut args = Vec::new();
        let mut given = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        while let Some(arg) = given.next() {
            match arg {
                "--target-model-dir" => {
                    args.extend(["--target".to_owned(), text(&dir.join(given.next().unwrap())).to_owned()]);
                }
                "--mmproj" | "--mtp" | "--no-mtp" | "--fuse-qkv" | "--fuse-gate-up-exps" => args.push(arg.to_owned()),
                _ => {}
            }
        }
        Case { checkpoint: dir.join(name), args }
    }

    fn convert(&self, out: &Path, ty: &str) {
        let more = self.args.iter().map(String::as_str);
        // The converter of llama.cpp writes files that llama.cpp does not load, too.
        let line = ["convert", text(&self.checkpoint), "-o", text(out), "--type", ty, "-q", "-f", "--allow-invalid"];
        gguf(line.into_iter().chain(more)).exits(0);
    }

    fn verify(&self, file: &Path) -> Run {
        let more = self.args.iter().map(String::as_str).filter(|arg| *arg != "--mmproj");
        gguf(["verify", text(file), "--against", text(&self.checkpoint)].into_iter().chain(more))
    }
}

/// Converts one in `one_in` checkpoints of `hf-cases` to two types, and verifies the files.
fn conversions_are_verified(one_in: usize) {
    let manifest = json(&peers::data("hf-cases/MANIFEST.json"));
    let (mut n, mut wrong) = (0, Vec::new());
    for (name, entry) in manifest["cases"].as_object().unwrap().iter().step_by(one_in) {
        // They are refused: its tokenizer is one of llama.cpp's own files; its biases have no place in the architecture.
        if ["openelm-no-tokenizer", "qwen3-attn-bias"].contains(&name.as_str()) {
            continue;
        }
        let outputs = entry["outputs"].as_object().unwrap();
        let Some((ty, _)) = outputs.iter().find(|(_, output)| output["ok"] == true) else { continue };
        let dir = folder();
        let case = Case::make(name, entry, dir.path());
        let out = dir.path().join("out.gguf");
        for ty in [ty, "q8_0"] {
            case.convert(&out, ty);
            n += 1;
            let run = case.verify(&out);
            if run.code != 0 {
                wrong.push(format!("{name} {ty}: exit code {}\n{}{}", run.code, run.out, run.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {n}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n * one_in >= 300, "only {n} conversions");
}

fn some_conversions_of_all_architectures() {
    conversions_are_verified(13);
}

fn conversions_of_all_architectures() {
    conversions_are_verified(1);
}

/// Libraries round the exponentials of state-space models differently.
fn last_places_of_exponentials_do_not_count() {
    let manifest = json(&peers::data("hf-cases/MANIFEST.json"));
    let (dir, name) = (folder(), "falconmamba");
    let case = Case::make(name, &manifest["cases"][name], dir.path());
    let out = dir.path().join("out.gguf");
    case.convert(&out, "f16");
    case.verify(&out).exits(0);
    let bytes = fs::read(&out).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let tensor = "blk.0.ssm_a";
    let changed = |steps: u32| {
        let data = gguf.tensors().map(|found| {
            let range = gguf.tensor_range(&found).unwrap();
            let mut data = bytes[range.start as usize..range.end as usize].to_vec();
            if found.name == *tensor {
                let first = u32::from_le_bytes(data[..4].try_into().unwrap()) + steps;
                data[..4].copy_from_slice(&first.to_le_bytes());
            }
            data
        });
        let to = dir.path().join(format!("{steps}.gguf"));
        fs::write(&to, Writer::write(Vec::new(), &Head::from_gguf(&gguf), data).unwrap()).unwrap();
        case.verify(&to)
    };
    changed(1).exits(0).prints(&["1 within"]);
    changed(40).exits(1).prints(&[tensor, "different", "1 of "]);
}

gguf_test::tests! {
    [Peers, Shared] recorded_files_are_made_of_their_checkpoints,
        files_of_llama_quantize_are_made_of_the_checkpoint,
        some_conversions_of_all_architectures,
        last_places_of_exponentials_do_not_count;
    [Peers, Shared, Asking("converts every architecture, in some minutes")] conversions_of_all_architectures;
}
