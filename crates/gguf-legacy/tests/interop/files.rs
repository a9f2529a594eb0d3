//! Genuine files of 2023, compared with results of their own libraries and with the current llama.cpp.
//!
//! Each file of the reference data has a JSON file with SHA-256 hashes of its tensors as decoded by the library of its time, and the logits
//! of its weights. Requires `GGUF_SHARED`, and `GGUF_PEERS` for the logits.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

use gguf_format::{FromValue, GgmlType, Gguf, Head};
use gguf_io::ModelFile;
use gguf_legacy::{Answers, Container, Error, Family, Input, Migration, Options, Topic, Treatment, recognise};
use gguf_pipeline::RunOptions;
use gguf_quants::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use gguf_test::legacy::{self, Legacy};
use gguf_test::peers::{self, Peers};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A file of the reference data, with its JSON file.
struct Reference {
    path: PathBuf,
    facts: Value,
}

/// All files except further parts and files without a model.
fn references() -> Vec<Reference> {
    let mut all = Vec::new();
    for folder in fs::read_dir(peers::data("legacy")).unwrap().map(|e| e.unwrap().path()).filter(|path| path.is_dir()) {
        for path in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_file = name.ends_with(".bin") || name.ends_with(".gguf");
            if !is_file || name == "rwkv-expected_logits.bin" || name.ends_with(".le.gguf") {
                continue;
            }
            let facts = fs::read_to_string(path.with_file_name(format!("{name}.json")));
            let facts = facts.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
            all.push(Reference { path, facts });
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(all.len() >= 68, "only {} files", all.len());
    all
}

/// Answers to the questions of a file: the epsilon of the library of its time, and proposals otherwise.
fn answers(facts: &Value) -> Answers {
    let mut answers = Answers::default();
    if let Some(epsilon) = facts["rms_norm_eps_of_era"].as_f64() {
        answers.set(Topic::NormEpsilon, &epsilon.to_string()).unwrap();
    }
    answers.accept = true;
    answers
}

/// Migrates a file.
fn migrate(path: &Path, answers: &Answers, out: &Path) -> Migration {
    let input = Input::open(path, None).unwrap_or_else(|e| panic!("{e}"));
    let migration = gguf_legacy::plan(input, answers, &Options::default(), &()).unwrap_or_else(|e| panic!("{e}"));
    migration.plan.run(out, &RunOptions::default().force(true), &()).unwrap_or_else(|e| panic!("{e}"));
    migration
}

/// Decodes raw tensor data of a generation, by the rules of its time; with `rounds`, after rounding its scales to half precision.
fn decode(ty: &str, generation: &str, raw: &[u8], rounds: bool) -> Vec<f32> {
    let scale = |bytes: &[u8]| {
        let d = f32::from_le_bytes(bytes.try_into().unwrap());
        if rounds { f16_to_f32_ggml(f32_to_f16_ggml(d)) } else { d }
    };
    let half = |bytes: &[u8]| f16_to_f32_ggml(u16::from_le_bytes(bytes.try_into().unwrap()));
    let pairs = generation == "first";
    let level = |levels: &[u8], i: usize| {
        let (byte, shift) = if pairs { (i / 2, 4 * (i % 2)) } else { (i % 16, 4 * (i / 16)) };
        f32::from(levels[byte] >> shift & 15)
    };
    let high = |bits: &[u8], i: usize| f32::from(bits[i / 8] >> (i % 8) & 1) * 16.0;
    let mut values = Vec::new();
    let old = generation != "present";
    match (ty, old) {
        ("Q4_0", true) => raw.chunks(20).for_each(|b| {
            values.extend((0..32).map(|i| (level(&b[4..], i) - 8.0) * scale(&b[..4])));
        }),
        ("Q4_1", true) => raw.chunks(24).for_each(|b| {
            values.extend((0..32).map(|i| level(&b[8..], i) * scale(&b[..4]) + scale(&b[4..8])));
        }),
        ("Q5_0", true) => raw.chunks(22).for_each(|b| {
            values.extend((0..32).map(|i| (level(&b[6..], i) + high(&b[2..], i) - 16.0) * half(&b[..2])));
        }),
        ("Q5_1", true) => raw.chunks(24).for_each(|b| {
            values.extend((0..32).map(|i| (level(&b[8..], i) + high(&b[4..], i)) * half(&b[..2]) + half(&b[2..4])));
        }),
        ("Q8_0", true) => raw.chunks(36).for_each(|b| {
            values.extend(b[4..].iter().map(|&q| f32::from(q as i8) * scale(&b[..4])));
        }),
        (name, _) => values = gguf_quants::dequantize(name.parse().unwrap(), raw).unwrap(),
    }
    values
}

fn sha256(values: &[f32]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// The generation of a file's blocks.
fn generation(reference: &Reference, container: Container) -> &'static str {
    match (container, reference.facts["quant_family"].as_str()) {
        (Container::Ggjt(1), _) => "first",
        (Container::Ggjt(2), _) => "second",
        (Container::Ggjt(_) | Container::Ggcc | Container::Gguf(_) | Container::GgufDraft, _) => "present",
        (_, Some(family)) if family.starts_with("as today") => "present",
        (_, Some(family)) if family.contains("v2") => "second",
        _ => "first",
    }
}

/// Reorders rows from the order of the output to that of the file.
fn rows_of_file(migration: &Migration, name: &str, head: &Head, values: Vec<f32>, n: usize) -> Vec<f32> {
    let int = |key: &str| u64::from_value(head.get(key).unwrap()).unwrap() as usize;
    match migration.family {
        Some(Family::GptNeox) if name.contains("query_key_value") => {
            let (heads, width) = (int("gptneox.attention.head_count"), int("gptneox.embedding_length"));
            let row = values.len() / (3 * width);
            let part = width / heads * row;
            let mut out = Vec::new();
            for head in 0..heads {
                (0..3).for_each(|kind| out.extend(&values[(kind * heads + head) * part..][..part]));
            }
            out
        }
        Some(Family::StarCoder) if name.contains("c_attn") && values.len() != n => {
            let (heads, width) = (int("starcoder.attention.head_count"), int("starcoder.embedding_length"));
            let row = n / (3 * width);
            let part = width / heads * row;
            let mut out = values[..width * row].to_vec();
            for kind in 0..2 {
                let one = &values[width * row + kind * part..][..part];
                (0..heads).for_each(|_| out.extend(one));
            }
            out
        }
        _ => values,
    }
}

fn tensors_are_those_of_their_era() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    let mut n = BTreeMap::new();
    for reference in references() {
        let Some(tensors) = reference.facts["tensors"].as_array() else { continue };
        let raw_file = fs::read(&reference.path).unwrap();
        let migration = migrate(&reference.path, &answers(&reference.facts), &out);
        let file = ModelFile::open(&out).unwrap();
        let generation = generation(&reference, migration.container);
        assert_eq!(tensors.len(), migration.tensors.len(), "{:?}", reference.path);
        for fact in tensors {
            let name = fact["name"].as_str().unwrap();
            let at = migration.tensors.iter().position(|t| t.from == name).unwrap_or_else(|| panic!("no {name}"));
            let (migrated, plan) = (&migration.tensors[at], &migration.plan.tensors()[at]);
            let ours: Vec<u8> = file.tensor(str::from_utf8(&plan.name).unwrap()).unwrap().read().unwrap();
            let ours = gguf_quants::dequantize(plan.ty, &ours).unwrap();
            let label = format!("{:?} {name}", reference.path);
            if migration.container == Container::GgufDraft {
                let plain: Vec<u8> = file.tensor(str::from_utf8(&plan.name).unwrap()).unwrap().read().unwrap();
                let sum: String = Sha256::digest(plain).iter().map(|b| format!("{b:02x}")).collect();
                assert_eq!(sum, fact["sha256"], "{label}");
                continue;
            }
            let expected = fact["dequant_f32_sha256"].as_str().unwrap();
            let ours = rows_of_file(&migration, name, migration.plan.head(), ours, {
                fact["ne"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).product()
            });
            *n.entry(migrated.treatment).or_insert(0) += 1;
            match migrated.treatment {
                Treatment::Copied | Treatment::Rearranged => assert_eq!(sha256(&ours), expected, "{label}"),
                treatment => {
                    let start = fact["file_offset"].as_u64().unwrap() as usize;
                    let raw = &raw_file[start..start + fact["n_bytes"].as_u64().unwrap() as usize];
                    let ty = fact["type"].as_str().unwrap();
                    let exact = decode(ty, generation, raw, false);
                    assert_eq!(sha256(&exact), expected, "{label}: these rules are the era's");
                    if treatment == Treatment::Rounded {
                        assert_eq!(sha256(&ours), sha256(&decode(ty, generation, raw, true)), "{label}");
                        let is_exact = migrated.rounding.unwrap().n_inexact == 0;
                        assert_eq!(sha256(&ours) == expected, is_exact, "{label}");
                        continue;
                    }
                    let row = plan.shape[0] as usize;
                    let recoded = gguf_quants::quantize(plan.ty, &exact, row, None, None).unwrap();
                    let recoded = gguf_quants::dequantize(plan.ty, &recoded).unwrap();
                    assert_eq!(sha256(&ours), sha256(&recoded), "{label}");
                }
            }
        }
    }
    let of = |treatment| n.get(&treatment).copied().unwrap_or(0);
    assert!(of(Treatment::Copied) > 300 && of(Treatment::Rearranged) > 10, "{n:?}");
    assert!(of(Treatment::Rounded) > 100 && of(Treatment::Recoded) > 5, "{n:?}");
}

/// llama.cpp in a process that answers many requests.
struct Peer(Mutex<(Child, ChildStdin, BufReader<ChildStdout>)>);

impl Peer {
    fn start() -> Peer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/llama_logits.py");
        let mut command = Peers::get().python(&script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the peers' Python runs");
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Peer(Mutex::new((child, stdin, stdout)))
    }

    fn ask(&self, question: &Value) -> Value {
        let mut peer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(peer.1, "{question}").unwrap();
        let mut answer = String::new();
        assert!(peer.2.read_line(&mut answer).unwrap() > 0, "llama.cpp broke down at {question}");
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {question}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let peer = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = peer.0.kill();
        let _ = peer.0.wait();
    }
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    let row = |row: &Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    value.as_array().unwrap().iter().map(row).collect()
}

fn argmax(row: &[f64]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

/// The largest difference of two sets of rows; panics if the index of the largest logit differs by more than that.
fn difference(label: &str, ours: &[Vec<f64>], theirs: &[Vec<f64>]) -> f64 {
    assert_eq!(ours.len(), theirs.len(), "{label}");
    let pairs = ours.iter().zip(theirs).flat_map(|(a, b)| a.iter().zip(b));
    let largest = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (a, b) = (argmax(ours), argmax(theirs));
        // The two recorded logits may be closer than the error of quantized activations.
        assert!(a == b || theirs[b] - theirs[a] < 2.0 * largest, "{label}: {a} and {b}");
    }
    largest
}

fn logits_are_those_that_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    let peer = Peer::start();
    let mut n = 0;
    for reference in references() {
        if reference.facts["logits_ref"].is_null() {
            continue;
        }
        let migration = migrate(&reference.path, &answers(&reference.facts), &out);
        let label = format!("{:?}", reference.path);
        let rows_asked = &reference.facts["logit_rows"];
        let found = peer.ask(&json!({ "model": out, "tokens": reference.facts["tokens"], "rows": rows_asked }));
        // llama.cpp does not support GPT-J.
        if migration.family == Some(Family::GptJ) {
            assert!(found.is_null(), "{label}: llama.cpp runs it; the warning is wrong");
            continue;
        }
        assert!(!found.is_null(), "{label}: llama.cpp does not load it");
        let largest = difference(&label, &rows(&found), &rows(&reference.facts["logits_ref"]));
        let is_float = migration.plan.tensors().iter().all(|t| matches!(t.ty, GgmlType::F32 | GgmlType::F16));
        let most = if is_float { 0.02 } else { 0.3 };
        assert!(largest < most, "{label}: {largest}");
        n += 1;
    }
    assert!(n >= 60, "only {n} files");
}

fn every_file_is_recognised() {
    for reference in references() {
        let found = recognise(&reference.path).unwrap();
        let is_gguf = reference.path.extension().is_some_and(|e| e == "gguf");
        assert_eq!(found.is_none(), is_gguf, "{:?}", reference.path);
        let Some(found) = found else { continue };
        assert_eq!(found.problem, None, "{:?}", reference.path);
        assert_eq!(found.families.len(), 1, "{:?}: {found}", reference.path);
        let name = reference.path.file_name().unwrap().to_str().unwrap().replace("dollyv2", "gptneox").replace('_', "");
        assert!(name.contains(&found.families[0].name().replace('_', "")), "{name}: {found}");
    }
}

fn big_endian_files_become_their_twins() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    migrate(&peers::data("legacy/gguf-be/tiny-gptneox.v3.be.gguf"), &Answers::default(), &out);
    let twin = peers::data("legacy/gguf-be/tiny-gptneox.v3.le.gguf");
    assert!(fs::read(&out).unwrap() == fs::read(&twin).unwrap());
    assert!(matches!(Input::open(&twin, None), Err(Error::UpToDate { .. })));
}

/// The strings of an array in a vocabulary of llama.cpp.
fn strings(gguf: &Gguf<'_>, key: &str) -> Vec<String> {
    gguf.get_as::<Vec<String>>(key).unwrap()
}

/// The byte of each character of a byte-level vocabulary.
fn bytes_of_chars() -> HashMap<char, u8> {
    let is_printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut n = 0;
    let mut map = HashMap::new();
    for b in 0..=255u8 {
        let c = if is_printable(b) {
            char::from(b)
        } else {
            n += 1;
            char::from_u32(255 + n).unwrap()
        };
        map.insert(c, b);
    }
    map
}

/// A legacy file with the vocabulary of llama.cpp's file; `write` has the form of the tokens.
fn with_vocabulary(parts: legacy::Parts, tokens: Vec<Vec<u8>>, at: usize) -> Legacy {
    let mut parts = parts;
    parts.hparams[at] = tokens.len() as u32;
    for (_, _, shape) in parts.tensors.iter_mut().filter(|(_, _, shape)| shape.get(1) == Some(&40)) {
        shape[1] = tokens.len() as u32;
    }
    parts.tokens = tokens;
    parts.write("vocabulary", "")
}

/// The head of the migrated file.
fn head_of(file: &Legacy, answers: &Answers, name: &str) -> Head {
    let none = |path: &Path| -> Result<gguf_legacy::Bytes, Error> { panic!("{path:?}") };
    let file = gguf_legacy::LegacyFile::from_source(Path::new(name), Box::new(file.bytes.clone()), None, none);
    let input = Input::Legacy(Box::new(file.unwrap_or_else(|e| panic!("{e}"))));
    let migration = gguf_legacy::plan(input, answers, &Options::default(), &()).unwrap_or_else(|e| panic!("{e}"));
    migration.plan.head().clone()
}

fn accept() -> Answers {
    let mut answers = Answers::default();
    answers.accept = true;
    answers
}

fn merges_are_those_that_vocabularies_were_trained_with() {
    let chars = bytes_of_chars();
    for (name, parts) in
        [("gpt-2", legacy::gpt2_parts()), ("falcon", legacy::falcon_parts()), ("starcoder", legacy::gpt2_parts())]
    {
        let path = peers::peers().join(format!("llama.cpp/models/ggml-vocab-{name}.gguf"));
        let file = ModelFile::open(path).unwrap();
        let gguf = file.gguf();
        let tokens = strings(gguf, "tokenizer.ggml.tokens");
        let types: Vec<i32> = gguf.get_as("tokenizer.ggml.token_type").unwrap();
        let raw = |(token, ty): (&String, &i32)| match ty {
            1 => token.chars().map(|c| chars[&c]).collect(),
            _ => token.clone().into_bytes(),
        };
        let raw: Vec<Vec<u8>> = tokens.iter().zip(&types).map(raw).collect();
        let head = head_of(&with_vocabulary(parts, raw, 0), &accept(), "model.bin");
        let ours: Vec<String> = head.get("tokenizer.ggml.merges").unwrap().get().unwrap();
        let theirs = strings(gguf, "tokenizer.ggml.merges");
        let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert!(ours == theirs, "{name}: {} and {}, differ at {first:?}", ours.len(), theirs.len());
        let ours: Vec<String> = head.get("tokenizer.ggml.tokens").unwrap().get().unwrap();
        let first = ours.iter().zip(&tokens).find(|(a, b)| a != b);
        assert!(ours == tokens, "{name}: {first:?}");
    }
}

fn lost_tokens_of_a_known_vocabulary_come_back() {
    let chars = bytes_of_chars();
    let file = ModelFile::open(peers::peers().join("llama.cpp/models/ggml-vocab-gpt-neox.gguf")).unwrap();
    let gguf = file.gguf();
    let tokens = strings(gguf, "tokenizer.ggml.tokens");
    let types: Vec<i32> = gguf.get_as("tokenizer.ggml.token_type").unwrap();
    // The tokenizer's own decoder changes single tokens: broken characters, and no space before punctuation.
    let decoded = |(token, ty): (&String, &i32)| -> Vec<u8> {
        if *ty != 1 {
            let is_padding = token.starts_with("[PAD");
            return if is_padding { Vec::new() } else { token.clone().into_bytes() };
        }
        let bytes: Vec<u8> = token.chars().map(|c| chars[&c]).collect();
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        for (old, new) in [(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" n't", "n't"), (" 's", "'s")] {
            text = text.replace(old, new);
        }
        text.into_bytes()
    };
    let lossy: Vec<Vec<u8>> = tokens.iter().zip(&types).map(decoded).collect();
    let head = head_of(&with_vocabulary(legacy::neox_parts(), lossy, 0), &Answers::default(), "model.bin");
    let ours: Vec<String> = head.get("tokenizer.ggml.tokens").unwrap().get().unwrap();
    let first = ours.iter().zip(&tokens).enumerate().find(|(_, (a, b))| a != b);
    assert!(ours == tokens, "{first:?}");
    let ours: Vec<String> = head.get("tokenizer.ggml.merges").unwrap().get().unwrap();
    assert!(ours == strings(gguf, "tokenizer.ggml.merges"));
}

fn scores_of_a_known_vocabulary_come_back() {
    let file = ModelFile::open(peers::peers().join("llama.cpp/models/ggml-vocab-llama-spm.gguf")).unwrap();
    let gguf = file.gguf();
    let tokens = strings(gguf, "tokenizer.ggml.tokens");
    let types: Vec<i32> = gguf.get_as("tokenizer.ggml.token_type").unwrap();
    let raw = |(token, ty): (&String, &i32)| match ty {
        2 => " \u{2047} ".into(),
        3 => Vec::new(),
        6 => vec![u8::from_str_radix(&token[3..5], 16).unwrap()],
        _ => token.replace('\u{2581}', " ").into_bytes(),
    };
    let raw: Vec<Vec<u8>> = tokens.iter().zip(&types).map(raw).collect();
    let head = head_of(&with_vocabulary(legacy::llama(legacy::GGML, 1, 2), raw, 0), &accept(), "model.bin");
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"] {
        assert!(head.get(key) == gguf.get(key), "{key}");
    }
}

/// A model with an adapter gives the same results as the model with the adapter's product added to its matrices.
fn adapters_do_what_they_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let base = legacy::llama(legacy::GGJT3, 0, 2);
    let (rank, alpha) = (4usize, 8.0f32);
    let adapter = legacy::adapter();
    // The matrices of the adapter, and their product.
    let data = |shape: &[u32]| -> Vec<f32> {
        let bytes = legacy::GGLA.data(0, shape);
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let mut merged = base.write("merged", "llama");
    for (name, inputs, outputs) in
        [("layers.0.attention.wq.weight", 64usize, 64usize), ("layers.0.feed_forward.w2.weight", 128, 64)]
    {
        let (a, b) = (data(&[rank as u32, inputs as u32]), data(&[rank as u32, outputs as u32]));
        let at = base.tensors.iter().position(|(tensor, ..)| tensor == name).unwrap();
        let start = (merged.tensors[at] + 12 + 8 + name.len()).next_multiple_of(32);
        for o in 0..outputs {
            for i in 0..inputs {
                let delta: f32 =
                    (0..rank).map(|r| a[i * rank + r] * b[o * rank + r]).sum::<f32>() * alpha / rank as f32;
                let place = &mut merged.bytes[start + 4 * (o * inputs + i)..][..4];
                let sum = f32::from_le_bytes((&*place).try_into().unwrap()) + delta;
                place.copy_from_slice(&sum.to_le_bytes());
            }
        }
    }
    for (name, file) in [("base.bin", base.write("base", "llama")), ("merged.bin", merged), ("adapter.bin", adapter)] {
        fs::write(path(name), file.bytes).unwrap();
        migrate(&path(name), &accept(), &path(name).with_extension("gguf"));
    }
    let peer = Peer::start();
    let ask = |model: &str, adapter: Option<&str>| {
        let mut question = json!({ "model": path(model), "tokens": [1, 5, 9, 3], "rows": [0, 3] });
        if let Some(adapter) = adapter {
            question["adapter"] = json!(path(adapter));
        }
        rows(&peer.ask(&question))
    };
    let (plain, with) = (ask("base.gguf", None), ask("base.gguf", Some("adapter.gguf")));
    let merged = ask("merged.gguf", None);
    assert!(difference("with adapter", &with, &merged) < 1e-3);
    let change = plain.iter().flatten().zip(merged.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(change > 0.1, "the adapter changes nothing: {change}");
}

/// Small generated files of every architecture of llama.cpp: it loads them, tokenizes text, and computes logits.
fn every_architecture_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.bin");
    let peer = Peer::start();
    let mut n = 0;
    for file in legacy::all() {
        if matches!(file.family, "gptj" | "rwkv" | "whisper") || file.name == "ggla" {
            continue;
        }
        let out = folder.path().join(format!("{}.gguf", file.name));
        fs::write(&path, &file.bytes).unwrap();
        migrate(&path, &accept(), &out);
        // The pieces of the Llamas here have no letters.
        if file.family != "llama" {
            let tokens = peer.ask(&json!({ "model": out, "text": "ab abc" }));
            assert!(tokens.as_array().is_some_and(|t| !t.is_empty()), "{}: {tokens}", file.name);
        }
        n += 1;
        if file.family == "bert" {
            continue;
        }
        let found = peer.ask(&json!({ "model": out, "tokens": [1, 5, 9, 3], "rows": [0, 3] }));
        assert!(!found.is_null(), "{}: llama.cpp does not load it", file.name);
        assert!(rows(&found).iter().flatten().all(|v| v.is_finite()), "{}", file.name);
    }
    assert!(n > 25, "only {n}");
}

gguf_test::tests! {
    [Shared] every_file_is_recognised, tensors_are_those_of_their_era, big_endian_files_become_their_twins;
    [Peers, Shared] logits_are_those_that_were_recorded, adapters_do_what_they_did,
        every_architecture_runs;
    [Peers] merges_are_those_that_vocabularies_were_trained_with, lost_tokens_of_a_known_vocabulary_come_back,
        scores_of_a_known_vocabulary_come_back;
}
