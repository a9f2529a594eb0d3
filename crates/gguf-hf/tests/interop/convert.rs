//! Conversions compared with the reference: the output is identical to that of llama.cpp's `convert_hf_to_gguf.py` for the same folders.
//!
//! The tests require the shared test data; `GGUF_SHARED` names its folder. Without it the tests are ignored; with it the data must exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gguf_format::{ByteOrder, Gguf, ValueRef};
use gguf_hf::config::Config;
use gguf_hf::metadata::{self, MetadataOptions, ParameterCounts};
use gguf_hf::tokenizer::{self, PreSource, TokenizerOptions};
use gguf_hf::{Mtp, Options, OutType, Warning, convert, plan, plan_folder};
use gguf_io::ModelFile;
use gguf_pipeline::RunOptions;
use gguf_test::cases::{generate, generate_from, share};
use gguf_test::parallel;
use gguf_test::peers::{self, Peers};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::counting::Counting;

fn sha256(file: &Path) -> String {
    hex(&fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Parses the reference's command line into options; `None` if it has unsupported options.
pub fn options(job: &Value) -> Option<Options> {
    let mut options = Options::default().pre(job["forced_pre"].as_str().map(str::to_owned));
    let mut args = job["args"].as_array()?.iter().filter_map(Value::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--outtype" => options.ty = OutType::from_name(args.next()?)?,
            "--bigendian" => options.order = ByteOrder::Big,
            "--mmproj" => options.projector = true,
            "--vocab-only" => options.vocab_only = true,
            "--mtp" => options.mtp = Mtp::Only,
            "--no-mtp" => options.mtp = Mtp::LeftOut,
            "--base" => options.base = Some(Arc::new(peers::data("hf").join(args.next()?))),
            "--target-model-dir" => options.target = Some(Arc::new(PathBuf::from(args.next()?))),
            "--model-name" => options.name = Some(args.next()?.to_owned()),
            // Options that do not affect the reference's output.
            "--no-lazy" | "--use-temp-file" => {}
            _ => return None,
        }
    }
    Some(options)
}

/// Whether a warning says that the output may not load.
fn is_about_output(warning: &Warning) -> bool {
    matches!(warning, Warning::Output(_) | Warning::MoreOutput(_))
}

/// Recorded conversions that differ, for the reasons given in docs/conversion.md: blocks of big-endian files, and the exponential function
/// of single-precision sources.
pub const DIFFERENT: &[&str] = &["Tiny-Llama-150K-Instruct-v0.2-hf-bigendian-q8_0", "mamba-f32", "mamba-q8_0"];

fn every_recorded_conversion_has_the_same_bytes() {
    let hf = peers::data("hf");
    let manifest: Value = serde_json::from_slice(&fs::read(hf.join("MANIFEST.json")).unwrap()).unwrap();
    let loads: Value = serde_json::from_slice(&fs::read(hf.join("loads.json")).unwrap()).unwrap();
    let out = tempfile::tempdir().unwrap();
    let (mut n_jobs, mut models, mut failures) = (0, std::collections::BTreeSet::new(), Vec::new());
    for job in manifest["jobs"].as_array().unwrap() {
        let architecture = job["architecture"].as_str().unwrap_or_default();
        let name = job["name"].as_str().unwrap();
        let model = hf.join("models").join(name);
        let outputs = job["outputs"].as_array().unwrap();
        if gguf_model::arch::of_class(architecture).is_none()
            || !["safetensors", "pytorch_model.bin"].contains(&job["source_format"].as_str().unwrap_or_default())
            || job["exit"] != 0
            || DIFFERENT.contains(&job["tag"].as_str().unwrap())
        {
            continue;
        }
        let (Some(options), [recorded]) = (options(job), outputs.as_slice()) else { continue };
        n_jobs += 1;
        models.insert(name.to_owned());
        let tag = job["tag"].as_str().unwrap();
        let recorded_file = Path::new(recorded["file"].as_str().unwrap()).file_name().unwrap();
        // Without an output argument, the reference was given a folder and chose the file name.
        let into_folder = job["args"].as_array().unwrap().is_empty();
        let path = if into_folder { out.path().to_owned() } else { out.path().join("out.gguf") };
        let conversion = match plan(&model, &options) {
            Ok(conversion) => conversion,
            Err(e) => {
                failures.push(format!("{tag}: {e}"));
                continue;
            }
        };
        // Files that llama.cpp loads cause no such warning.
        let findings =
            conversion.warnings.iter().filter(|w| is_about_output(w) && loads[name]["runs_in_llama_cpp"] != false);
        failures.extend(findings.map(|w| format!("{tag}: {w}")));
        match conversion.plan.run(conversion.output_path(&path), &RunOptions::default(), &()) {
            Err(e) => failures.push(format!("{tag}: {e}")),
            Ok(done) => {
                let [path] = done.paths.as_slice() else { panic!("{:?}", done.paths) };
                if into_folder && path.file_name() != Some(recorded_file) {
                    failures.push(format!("{tag}: called {}, not {recorded_file:?}", path.display()));
                }
                let (found, expected) = (sha256(path), recorded["sha256"].as_str().unwrap());
                if found != expected {
                    failures.push(format!("{tag}: {found}, expected {expected}"));
                }
                fs::remove_file(path).unwrap();
            }
        }
    }
    println!("{n_jobs} conversions of {} checkpoints", models.len());
    assert!(failures.is_empty(), "{} of {n_jobs} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(n_jobs >= 136 && models.len() >= 43, "only {n_jobs} conversions of {models:?}");
}

/// No file of a recorded checkpoint, of an adapter's base model or of a draft model's target is opened or read twice.
fn recorded_conversions_read_each_file_once() {
    let hf = peers::data("hf");
    let manifest: Value = serde_json::from_slice(&fs::read(hf.join("MANIFEST.json")).unwrap()).unwrap();
    let (mut seen, mut n_planned) = (std::collections::BTreeSet::new(), 0);
    for job in manifest["jobs"].as_array().unwrap().iter().filter(|job| job["exit"] == 0) {
        let model = hf.join("models").join(job["name"].as_str().unwrap());
        let Some(mut options) = options(job).filter(|_| seen.insert((model.clone(), job["args"].to_string()))) else {
            continue;
        };
        let further = [options.base.take(), options.target.take()].map(|folder| Some(Counting::of(folder?.path())));
        options = options.base(further[0].clone()).target(further[1].clone());
        let folder = Counting::of(&model);
        if plan_folder(&folder, &options).is_ok() {
            n_planned += 1;
            let folders = further.iter().flatten().chain([&folder]);
            let repeated: Vec<String> = folders.flat_map(Counting::repeated).collect();
            assert_eq!(repeated, [""; 0], "{} {}", job["name"], job["args"]);
        }
    }
    assert!(n_planned >= 180, "only {n_planned} conversions");
}

/// The recorded conversions of adapters; their arguments name the folder of the base model.
fn adapters_have_the_same_bytes() {
    let hf = peers::data("hf");
    let manifest: Value = serde_json::from_slice(&fs::read(hf.join("MANIFEST.json")).unwrap()).unwrap();
    let jobs = manifest["jobs"].as_array().unwrap().iter();
    let jobs: Vec<&Value> = jobs.filter(|job| job["architecture"] == "PEFT LoRA adapter" && job["exit"] == 0).collect();
    for job in &jobs {
        let tag = job["tag"].as_str().unwrap();
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("out.gguf");
        let model = hf.join("models").join(job["name"].as_str().unwrap());
        convert(model, &path, &options(job).unwrap(), &RunOptions::default(), &()).unwrap();
        assert_eq!(sha256(&path), job["outputs"][0]["sha256"], "{tag}");
    }
    assert!(jobs.len() >= 8, "only {} conversions", jobs.len());
}

/// Generates every recorded checkpoint of a supported class, converts it, and compares the result with the reference's output. `GGUF_CASES`
/// restricts the test to some of them.
fn generated_checkpoints_have_the_same_bytes() {
    let file = peers::data("hf-cases").join("MANIFEST.json");
    let manifest: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let chosen = std::env::var("GGUF_CASES").ok();
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|list| list.split(',').any(|chosen| chosen == name));
    let cases = manifest["cases"].as_object().unwrap().iter().filter(|(name, _)| is_chosen(name));
    let cases: Vec<(&String, &Value)> = share(3, cases);
    let found = parallel::map(&cases, |(name, case)| generated_case(name, case));
    let n_cases = found.iter().flatten().count();
    let (mut n_files, mut failures) = (0, Vec::new());
    for (n, failure) in found.into_iter().flatten().flatten() {
        n_files += n;
        failures.extend(failure);
    }
    println!("{n_files} conversions of {n_cases} generated checkpoints");
    assert!(failures.is_empty(), "{} of {n_files} differ:\n{}", failures.len(), failures.join("\n"));
    // Of a part, some have several conversions, and some none.
    let is_part = cases.len() < manifest["cases"].as_object().unwrap().len();
    let least = if is_part { n_cases.div_ceil(2).max(1) } else { MIN_GENERATED };
    assert!(n_files >= least, "only {n_files} conversions");
}

/// Checkpoints that the reference converts to files that llama.cpp does not load; the output here differs.
const BETTER: &[&str] = &["cogvlm", "mmproj-llava-pixtral"];

/// Checkpoints that are not converted: they have no tokenizer, and the reference uses its own.
const LEFT_OUT: &[&str] = &["openelm-no-tokenizer"];

/// A checkpoint with tensors that llama.cpp does not read, so that it does not load the file of the reference: an error.
const REFUSED: &[&str] = &["qwen3-attn-bias"];

/// The minimum number of identical conversions of generated checkpoints.
const MIN_GENERATED: usize = 456;

/// The name of the folder or a heading of the model card identifies a reranker. The hashes are those of the files that
/// `convert_hf_to_gguf.py` of the pinned release writes for the same folders with `--outtype f16`.
fn rerankers_have_the_same_bytes() {
    let cases = [
        (
            "qwen3-untied",
            "plain",
            "# Qwen3-Reranker-4B\n",
            "740ed5dd8acc366009c98235e0768e2235f6ff6b0f5e93e5471e384ee23efa1f",
        ),
        (
            "qwen3-real-vocab",
            "Qwen3-Reranker-0.6B",
            "",
            "71b90733a6064472f5d23b77876bba61656aea3b801bdf3dc3c636613383ab0b",
        ),
        (
            "qwen3vl-text",
            "Qwen3-VL-Reranker-2B",
            "",
            "45c5e3cb31340538a40c419656285a9ffa7d38b7df8a9bd9980e04f2bf54fe39",
        ),
    ];
    for (case, folder, card, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        generate(case, dir.path());
        let model = dir.path().join(folder);
        fs::rename(dir.path().join(case), &model).unwrap();
        if !card.is_empty() {
            fs::write(model.join("README.md"), card).unwrap();
        }
        let out = dir.path().join("out.gguf");
        convert(&model, &out, &Options::default().ty(OutType::F16), &RunOptions::default(), &()).unwrap();
        assert_eq!(sha256(&out), expected, "{case} as {folder}");
    }
}

/// Fused tensors of dense models with and without biases and permutations, and with experts. The hashes are those of the files that
/// `convert_hf_to_gguf.py` of the pinned release writes with `--outtype bf16`, `--fuse-qkv` and, if marked, `--fuse-gate-up-exps`.
fn fused_tensors_have_the_same_bytes() {
    let cases = [
        ("qwen2-sharded", false, "1b6ab1c61fbe1090e8ffd0007a247dd3908a07b6dd8d464a376632b12950ed9d"),
        ("mistral-bpe", false, "ae07fa145ba782e24f2c6cc35f2c43cbe7a3b993147083d7406de1fe0ea86e68"),
        ("gemma3-multimodal-text", false, "23a4153bff121e3c50154e7ccb730e0e4a6e98e97463cc89578c587be25b56fa"),
        ("qwen35moe-conditional", true, "2e84f3068a1bd7e7bd978e7de53812003b5e3667642ec74d48006e001e09b586"),
        ("qwen4exp-ple", true, "89566b70befc19a6a484fd2f9e7fa88cf06912b27cba7adf1c7082aeaa965243"),
        ("qwen3moe", false, "ba886efb455926548dba614a2242f85ff76588b32e9ff8499b318181a300f05e"),
        ("olmoe-bpe", false, "a001577ce74aa71631293e0b167002627473593757f4f293df7e6a8fb7d55cc0"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (case, fuses_experts, expected) in cases {
        generate(case, dir.path());
        let out = dir.path().join("out.gguf");
        let options = Options::default().ty(OutType::BF16).fuse_qkv(true).fuse_gate_up_experts(fuses_experts);
        convert(dir.path().join(case), &out, &options, &RunOptions::default().force(true), &()).unwrap();
        assert_eq!(sha256(&out), expected, "{case}");
    }
}

/// Dense modules, the ranks of Kimi, Mistral's native layout and FP8 as Q8_0. The hashes are those of the files that
/// `convert_hf_to_gguf.py` of the pinned release writes for the same folders, with `--mistral-format` for Mistral's layout.
fn variants_have_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(peers::peers().join("venv/bin/python"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/variants.py"))
        .arg(peers::data("").join("../tools/make-checkpoint.py"))
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let bf16 = || Options::default().ty(OutType::BF16);
    let cases = [
        (
            "gemma3-embedding",
            bf16().dense_modules(true),
            "3009185182822901cbe0189b5e4697e0fb89261b4f6a865628038c32978114ff",
        ),
        (
            "gemma3-embedding",
            bf16().ty(OutType::Q8_0).dense_modules(true),
            "da4e2ef07507ecb4d1fb9886f4f809d7d787c85e04991ded63ad37961c6381eb",
        ),
        ("kimi-linear", bf16(), "e7aa3148fb56509552853cc2e89a4c58db92622b1ef4d716b4e9313c7ecaeb86"),
        ("kimi-vl-text", bf16(), "cdb497cea2ac5d9901e030b1330f9e508da2220a2316f77d6749d06340e96ae9"),
        ("kimi-k3", bf16(), "38371cdf565df14ead631cb083a8534ab8381f76c32694e45f4f72c5326b6e70"),
        ("mistral-v3", bf16(), "a758cddbee2636ee882aa1f63f7a6d3ce08d26123f3eec69681629523b18551b"),
        (
            "mistral-v3",
            bf16().ty(OutType::F16).no_community_template(true),
            "1075bc83273cb3116546ced893f68045dbc1adec2cb78073e7d61eb18e2b7ef9",
        ),
        ("mistral-v3", bf16().fuse_qkv(true), "d13de5c2db0476e9409feb72a7c7404885a83d5b3ec4af9628430bf332c0a91b"),
        ("mistral-v7", bf16().ty(OutType::F16), "e328c80cb50dd9a4cd59e74667c286bc332a0c06025f4a188543e554dbc82734"),
        ("mistral-v11", bf16(), "9bb7ab747c23f81abdfcbcc9d8193dd17f98b9145de5deafa41ad230dfe9a50a"),
        ("mistral-v13", bf16(), "220f5497374e020d8e65590596967e262e6476a5b711c624b659b84c3486e138"),
        ("mistral-fp8", bf16(), "d0fa9ec24f95219a58893b1b52a73761f9955e3fb9aeeb2899849df4d7361f32"),
        ("mistral-fp8", bf16().fp8_as_q8(true), "a804ed7ea5f891027137130e5fd74d4381793f110dbfb5a40547e86cfea36a6c"),
        (
            "fp8-blocks",
            bf16().ty(OutType::F16).fp8_as_q8(true),
            "4c611f3cff67dee7352601bcc1563bc16048cba8bad910aa0fce8f9856063a12",
        ),
        ("fp8-tensor", bf16().fp8_as_q8(true), "c8c09e4ff5aec1daae3c33430b6391ffb219605d1f9b693fb2317f49968cb693"),
        (
            "fp8-blocks",
            bf16().ty(OutType::Auto).fp8_as_q8(true).fuse_qkv(true),
            "9186acccbc7db9a56c20d7908d9564de7fe24ec85ab73f2970617a503ccc6244",
        ),
    ];
    for (i, (folder, options, expected)) in cases.into_iter().enumerate() {
        let out = dir.path().join("out.gguf");
        convert(dir.path().join(folder), &out, &options, &RunOptions::default().force(true), &())
            .unwrap_or_else(|e| panic!("{folder}: {e}"));
        assert_eq!(sha256(&out), expected, "{i}: {folder}, {options:?}");
    }
    // If both layouts exist, the layout of transformers takes precedence.
    let both = dir.path().join("mistral-v3");
    fs::copy(dir.path().join("mistral-swa-hd/config.json"), both.join("config.json")).unwrap();
    let error = plan(&both, &bf16()).unwrap_err();
    assert!(error.to_string().contains("no model*.safetensors"), "{error}");
    let planned = plan(&both, &bf16().mistral_format(true)).unwrap();
    assert_eq!(planned.architecture, "llama");
    let error = plan(dir.path().join("fp8-blocks"), &bf16().mistral_format(true)).unwrap_err();
    assert!(error.to_string().contains("not in Mistral's own layout"), "{error}");
}

/// Converts one recorded checkpoint. Returns a file and its differences for each type; `None` for an unsupported class.
fn generated_case(name: &str, case: &Value) -> Option<Vec<(usize, Option<String>)>> {
    let class = case["class"].as_str().unwrap();
    let outputs = case["outputs"].as_object().unwrap();
    let recorded = outputs.iter().filter(|(_, output)| output["ok"] == true);
    let recorded: Vec<(&String, &Value)> = recorded.collect();
    let is_tower = case["args"].as_array().is_some_and(|args| args.iter().any(|arg| arg == "--mmproj"));
    let is_listed = match is_tower {
        true => gguf_model::arch::towers_of_class(class).next().is_some(),
        false => gguf_model::arch::of_class(class).is_some(),
    };
    let is_supported = is_listed || std::env::var_os("GGUF_CASES").is_some();
    let is_supported = is_supported && !LEFT_OUT.contains(&name);
    let options =
        options(&serde_json::json!({ "args": case["args"] })).filter(|_| is_supported && !recorded.is_empty())?;
    let dir = tempfile::tempdir().unwrap();
    generate(name, dir.path());
    let mut results = Vec::new();
    for (ty, output) in recorded {
        let path = dir.path().join(format!("{name}-{ty}.gguf"));
        let target = options.target.as_ref().map(|target| dir.path().join(target.path()));
        let options = options.clone().ty(OutType::from_name(ty).unwrap()).target(target);
        let planned = plan(dir.path().join(name), &options);
        let findings =
            planned.as_ref().map(|planned| planned.warnings.iter().filter(|w| is_about_output(w)).cloned().collect());
        let findings: Vec<Warning> = findings.unwrap_or_default();
        let run = |conversion: gguf_hf::Conversion| Ok(conversion.plan.run(&path, &RunOptions::default(), &())?);
        let failure = match planned.and_then(run) {
            Err(_) if REFUSED.contains(&name) => None,
            Ok(_) if REFUSED.contains(&name) => Some(format!("{name} {ty}: expected an error")),
            Err(e) => Some(format!("{name} {ty}: {e}")),
            Ok(_) if BETTER.contains(&name) => None,
            Ok(_) if sha256(&path) != output["sha256"] => Some(format!("{name} {ty}: other bytes")),
            // Files that llama.cpp loads cause no such warning.
            Ok(_) if case["llama_cpp"]["loads"] == true && !findings.is_empty() => {
                Some(format!("{name} {ty}: {}", findings[0]))
            }
            Ok(_) => None,
        };
        results.push((1, failure));
        let _ = fs::remove_file(&path);
    }
    Some(results)
}

/// Rewrites the checkpoint of the folder with `torch.save`, in the form that the second argument names: one file or two, protocols 2 to 5,
/// the format used before 2020, or transposed tensors in one storage shared by all tensors of a type. The safetensors files are deleted.
const SAVE: &str = r#"
import json, os, struct, sys, torch
from collections import OrderedDict
folder, form = sys.argv[1:]
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "U8": torch.uint8}
tensors, files = OrderedDict(), sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))
for name in files:
    with open(os.path.join(folder, name), "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start = f.tell()
        for key in sorted(k for k in head if k != "__metadata__"):
            entry = head[key]
            f.seek(start + entry["data_offsets"][0])
            data = bytearray(f.read(entry["data_offsets"][1] - entry["data_offsets"][0]))
            tensors[key] = torch.frombuffer(data, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    os.remove(os.path.join(folder, name))
index = os.path.join(folder, "model.safetensors.index.json")
if os.path.exists(index): os.remove(index)
if "views" in form:
    shared = {}
    for key, t in tensors.items():
        shared.setdefault(t.dtype, []).append(t.transpose(0, -1).contiguous().flatten() if t.dim() else t.flatten())
    shared = {dtype: torch.cat(parts) for dtype, parts in shared.items()}
    at = {dtype: 0 for dtype in shared}
    for key, t in tensors.items():
        s = shared[t.dtype][at[t.dtype]:at[t.dtype] + t.numel()]
        at[t.dtype] += t.numel()
        if t.dim(): s = s.reshape(t.transpose(0, -1).shape).transpose(0, -1)
        tensors[key] = s.reshape([]) if not t.dim() else s
if "parameters" in form: tensors = OrderedDict((k, torch.nn.Parameter(t, requires_grad=False)) for k, t in tensors.items())
options = {"pickle_protocol": int(form[-1])}
if "old" in form: options["_use_new_zipfile_serialization"] = False
def save(what, name):
    if "nested" in form: what = {"epoch": 3, "lr": 0.5, "state_dict": what, "rng": torch.get_rng_state()}
    torch.save(what, os.path.join(folder, name), **options)
if "two" in form:
    keys = list(tensors)
    halves = [keys[:len(keys) // 2], keys[len(keys) // 2:]]
    names = [f"pytorch_model-{i + 1:05}-of-00002.bin" for i in range(2)]
    for name, half in zip(names, halves): save(OrderedDict((k, tensors[k]) for k in half), name)
    json.dump({"weight_map": {k: n for n, half in zip(names, halves) for k in half}}, open(os.path.join(folder, "pytorch_model.bin.index.json"), "w"))
else:
    save(tensors, "pytorch_model.bin")
"#;

/// Checkpoints written by torch.save are converted to the files that the reference writes for the same tensors in safetensors.
fn checkpoints_of_torch_have_the_same_bytes() {
    let file = peers::data("hf-cases").join("MANIFEST.json");
    let manifest: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let cases = [
        ("qwen3-untied", "one 2"),
        ("qwen3-untied", "views 2"),
        ("qwen3-untied", "old views 2"),
        ("gemma3-embedding", "two old 4"),
        ("phi3-swa", "parameters 5"),
        ("bloom-bpe", "two views nested 3"),
        ("falcon-new-arch", "old 5"),
        ("falconh1", "views parameters 4"),
        ("mamba-bf16", "nested old 3"),
        ("olmoe-bpe", "views two 2"),
    ];
    let mut n = 0;
    for (name, form) in cases {
        let case = &manifest["cases"][name];
        let options = options(&serde_json::json!({ "args": case["args"] })).unwrap();
        let dir = tempfile::tempdir().unwrap();
        generate(name, dir.path());
        let made = Command::new(peers::peers().join("venv/bin/python"))
            .args(["-c", SAVE, dir.path().join(name).to_str().unwrap(), form])
            .output()
            .unwrap();
        assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
        for (ty, output) in case["outputs"].as_object().unwrap().iter().filter(|(_, output)| output["ok"] == true) {
            let out = dir.path().join("out.gguf");
            let options = options.clone().ty(OutType::from_name(ty).unwrap());
            convert(dir.path().join(name), &out, &options, &RunOptions::default().force(true), &())
                .unwrap_or_else(|e| panic!("{name}, {form}: {e}"));
            assert_eq!(sha256(&out), output["sha256"].as_str().unwrap(), "{name} {ty}, {form}");
            n += 1;
        }
    }
    println!("{n} conversions");
    assert!(n >= 20, "only {n} conversions");
}

fn the_trained_example_has_the_same_bytes() {
    let data = peers::data("");
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("out.gguf");
    convert(data.join("glossary"), &path, &Options::default(), &RunOptions::default(), &()).unwrap();
    assert_eq!(sha256(&path), sha256(&data.join("glossary-bf16.gguf")));
}

/// The files that llama.cpp's converter wrote for models of the selected architectures: model folder, file, and job.
fn references(chosen: impl Fn(&str) -> bool) -> Vec<(PathBuf, PathBuf, Value)> {
    let hf = peers::data("hf");
    let manifest: Value = serde_json::from_slice(&fs::read(hf.join("MANIFEST.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    for job in manifest["jobs"].as_array().unwrap() {
        if !chosen(job["architecture"].as_str().unwrap_or("")) || job["exit"] != 0 {
            continue;
        }
        for output in job["outputs"].as_array().unwrap() {
            let file = hf.join(output["file"].as_str().unwrap());
            let is_shard = file.to_string_lossy().contains("-of-") && !file.to_string_lossy().contains("-00001-of-");
            if file.is_file() && !is_shard {
                found.push((hf.join("models").join(job["name"].as_str().unwrap()), file, job.clone()));
            }
        }
    }
    found
}

fn config_of(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap()
}

fn tokenizers_are_those_of_llama_cpps_converter() {
    let ours = |a: &str| ["LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"].contains(&a);
    let references = references(ours);
    for (dir, file, _) in &references {
        let gguf = Gguf::parse(fs::read(file).unwrap()).unwrap();
        let expected: Vec<(String, gguf_format::Value)> = gguf
            .kvs()
            .filter(|kv| kv.key.as_bytes().starts_with(b"tokenizer."))
            .map(|kv| (kv.key.to_string(), kv.value.to_owned()))
            .collect();
        let got = tokenizer::key_values(&dir.to_owned(), &config_of(dir), &TokenizerOptions::default()).unwrap();
        let keys = |kvs: &[(String, gguf_format::Value)]| kvs.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&got.kvs), keys(&expected), "{}", file.display());
        for ((key, value), (_, expected)) in got.kvs.iter().zip(&expected) {
            // Arrays of a big-endian file are compared by element.
            assert!(value.as_ref() == expected.as_ref(), "{}: {key}", file.display());
        }
    }
    assert!(references.len() >= 20, "only {} reference files found", references.len());
}

fn whole_vocabularies_are_known_by_their_hash() {
    for (model, pre) in [
        ("llama3", "llama-bpe"),
        ("deepseek-coder", "deepseek-coder"),
        ("gpt2", "gpt-2"),
        ("qwen2", "qwen2"),
        ("starcoder2", "starcoder"),
        ("falcon", "falcon"),
        ("mpt", "olmo"),
    ] {
        let dir = peers::data(&format!("hf/models/{model}-full-vocab"));
        let got = tokenizer::key_values(&dir, &config_of(&dir), &TokenizerOptions::default()).unwrap();
        assert!(matches!(got.pre, PreSource::Hash(_)), "{model}: {:?}", got.pre);
        let value = got.kvs.iter().find(|(k, _)| k == "tokenizer.ggml.pre").map(|(_, v)| v.clone());
        assert_eq!(value, Some(gguf_format::Value::from(pre)), "{model}");
    }
}

/// Meta's vocabulary file of Llama 3, generated from the `tokenizer.json` of transformers, gives the same result as that file.
fn ranks_of_llama_3_are_the_vocabulary_of_transformers() {
    let model = peers::data("hf/models/llama3-full-vocab");
    let json: Value = serde_json::from_slice(&fs::read(model.join("tokenizer.json")).unwrap()).unwrap();
    // Printable characters map to themselves; the others are numbered from 256 in order.
    let is_printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let others: Vec<u8> = (0..=255).filter(|b| !is_printable(*b)).collect();
    let byte = |c: char| match u32::from(c) {
        code @ 0..=255 => code as u8,
        code => others[code as usize - 256],
    };
    let base64 = |bytes: &[u8]| {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for group in bytes.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - group.len()));
            for i in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize] as char;
                out.push(if i <= group.len() { digit } else { '=' });
            }
        }
        out
    };
    let mut ranks: Vec<(u64, Vec<u8>)> = json["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(token, id)| (id.as_u64().unwrap(), token))
        .filter(|(id, _)| *id < 128_000)
        .map(|(id, token)| (id, token.chars().map(byte).collect()))
        .collect();
    ranks.sort();
    let text: String = ranks.iter().map(|(rank, token)| format!("{} {rank}\n", base64(token))).collect();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokenizer.model"), text).unwrap();
    let config = serde_json::json!({ "vocab_size": 128_256 });
    let got = tokenizer::key_values(&dir.path().to_owned(), &config, &TokenizerOptions::default()).unwrap();
    // Another test compares these with the reference.
    let expected = tokenizer::key_values(&model, &config_of(&model), &TokenizerOptions::default()).unwrap();
    let keys = |kvs: &[(String, gguf_format::Value)]| kvs.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&got.kvs), keys(&expected.kvs));
    for ((key, found), (_, expected)) in got.kvs.iter().zip(&expected.kvs) {
        assert!(found.as_ref() == expected.as_ref(), "{key}");
    }
    assert!(expected.kvs.len() >= 7, "{:?}", keys(&expected.kvs));
}

fn metadata_is_that_of_llama_cpps_converter() {
    let references = references(|_| true);
    let mut compared = 0;
    for (dir, file, job) in references {
        let gguf = Gguf::parse(fs::read(&file).unwrap()).unwrap();
        let is_shard = gguf.get("split.count").is_some();
        let is_adapter = gguf.get("general.type").and_then(|v| v.as_str()).is_some_and(|t| t == "adapter");
        let args: Vec<&str> = job["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        // The counts require all tensors, and the file of overrides is not in the test data.
        if is_shard || is_adapter || args.contains(&"--metadata") {
            continue;
        }
        let mut counts = ParameterCounts::default();
        let (mut experts, mut expert_tensors) = (0, 0);
        for tensor in gguf.tensors() {
            let n = tensor.n_elements().unwrap();
            counts.total += n as i64;
            let dims: Vec<u64> = (0..4).map(|i| tensor.dims.dim(i)).collect();
            let is_bias = tensor.name.to_string().contains(".bias");
            match tensor.name.to_string().contains("_exps.") && dims[2] > 1 {
                true => {
                    let n_experts = dims[if is_bias { 1 } else { 2 }];
                    counts.expert += n / n_experts;
                    experts += n_experts;
                    expert_tensors += 1;
                }
                false => counts.shared += n,
            }
        }
        counts.expert_count = experts / expert_tensors.max(1);

        let model_name = args.iter().position(|a| *a == "--model-name").map(|i| args[i + 1].to_owned());
        let got =
            metadata::key_values(&dir, &MetadataOptions { model_name, ..MetadataOptions::default() }, &counts).unwrap();
        let not_ours = ["architecture", "file_type", "quantization_version"].map(|k| format!("general.{k}"));
        let expected = gguf.kvs().filter(|kv| kv.key.as_bytes().starts_with(b"general."));
        let expected: Vec<(String, ValueRef<'_>)> =
            expected.map(|kv| (kv.key.to_string(), kv.value)).filter(|(k, _)| !not_ours.contains(k)).collect();
        let got: Vec<_> = got.kvs.iter().map(|(k, v)| (k.clone(), v.as_ref())).collect();
        assert!(got == expected, "{}: {got:?}\n{expected:?}", file.display());
        compared += 1;
    }
    assert!(compared >= 60, "only {compared} reference files compared");
}

/// Fields of the recorded results that do not describe the model.
const UNREAD: [&str; 2] = ["_name_or_path", "transformers_version"];

/// Whether `whole` equals `part`, except for additional fields in nested objects.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| contains(whole, part)))
        }
        _ => whole == part,
    }
}

fn configurations_are_those_of_transformers() {
    let hparams = peers::folder("GGUF_SHARED").unwrap().join("facts/hf/hparams");
    let (mut compared, mut models, mut wrong) = (0, 0, Vec::new());
    for entry in fs::read_dir(hparams).unwrap() {
        let path = entry.unwrap().path();
        let model = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read(peers::data("hf/models").join(model).join("config.json")).unwrap();
        // Some files contain numbers that are not valid JSON.
        let Ok(document) = serde_json::from_slice::<Value>(&text) else { continue };
        let recorded: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut expected = document.clone();
        expected.as_object_mut().unwrap().extend(recorded["added_or_changed"].as_object().unwrap().clone());
        for name in recorded["dropped"].as_array().unwrap() {
            expected.as_object_mut().unwrap().remove(name.as_str().unwrap());
        }
        let config = Config::new(document).unwrap();
        models += 1;
        // Defaults that the converter does not read are not filled in.
        for (name, found) in config.hparams().as_object().unwrap() {
            if !UNREAD.contains(&name.as_str()) {
                compared += 1;
                if !expected.get(name).is_some_and(|expected| contains(expected, found)) {
                    wrong.push(format!("{model}: {name} is {found}, expected {:?}", expected.get(name)));
                }
            }
        }
        for name in ["num_key_value_heads", "head_dim", "tie_word_embeddings", "layer_types", "rope_theta", "id2label"]
        {
            if expected.get(name) != config.hparams().get(name) {
                wrong.push(format!("{model}: {name} differs: {:?}", expected.get(name)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(models >= 50 && compared >= 1000, "only {compared} fields of {models} models compared");
}

/// All formats of packed weights that llama.cpp's converter supports, for a small model.
fn packed_weights_have_the_same_bytes() {
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packed_peer.py");
    let experts = tempfile::tempdir().unwrap();
    generate("deepseek3", experts.path());
    let mut peer = Peers::get().python(&script);
    peer.arg(peers::peers().join("llama.cpp")).arg(peers::data("hf/models/llama-f32"));
    peer.arg(experts.path().join("deepseek3")).arg(out.path());
    let output = peer.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cases = String::from_utf8(output.stdout).unwrap();
    let mut failures = Vec::new();
    for case in cases.lines() {
        let ours = out.path().join("ours.gguf");
        let run = RunOptions::default().force(true);
        match convert(out.path().join(case), &ours, &Options::default(), &run, &()) {
            Err(e) => failures.push(format!("{case}: {e}")),
            Ok(_) if sha256(&ours) == sha256(&out.path().join(format!("{case}.gguf"))) => {}
            Ok(_) => failures.push(format!("{case}: other bytes")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(cases.lines().count() >= 43, "{cases}");
}

/// Formats of packed weights that llama.cpp's converter does not support: the packages that define the formats decode the same values.
fn packed_weights_have_the_values_of_their_packages() {
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packed_packages.py");
    let mut packages = Peers::get().python(&script);
    packages.arg(peers::packages().unwrap()).arg(peers::data("hf/models/llama-f32")).arg(out.path());
    let output = packages.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cases = String::from_utf8(output.stdout).unwrap();
    let (options, run) = (Options::default().ty(OutType::F32), RunOptions::default().force(true));
    let (mut failures, mut n_tensors) = (Vec::new(), 0);
    for case in cases.lines() {
        // The tensor order differs.
        let values = |kind: &str| -> Result<BTreeMap<String, Vec<u8>>, String> {
            let to = out.path().join(format!("{kind}.gguf"));
            convert(out.path().join(kind).join(case), &to, &options, &run, &()).map_err(|e| e.to_string())?;
            let file = ModelFile::open(&to).map_err(|e| e.to_string())?;
            let read = |t: gguf_io::Tensor<'_>| Ok((t.name().to_string(), t.read().map_err(|e| e.to_string())?));
            file.tensors().map(read).collect()
        };
        match (values("packed"), values("decoded")) {
            (Ok(packed), Ok(decoded)) if packed == decoded => n_tensors += packed.len(),
            (Ok(_), Ok(_)) => failures.push(format!("{case}: other values")),
            (packed, decoded) => failures.push(format!("{case}: {:?} {:?}", packed.err(), decoded.err())),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{n_tensors} tensors of {} checkpoints", cases.lines().count());
    assert!(cases.lines().count() >= 33, "{cases}");
}

/// Generates checkpoints in the published formats of DeepSeek 4, Kimi K3 and their draft models, and converts them with both programs.
fn published_forms_have_the_same_bytes() {
    let out = tempfile::tempdir().unwrap();
    ["deepseek4", "kimi-k3", "gemma4"].iter().for_each(|name| generate(name, out.path()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/made_peer.py");
    let mut peer = Peers::get().python(&script);
    let output = peer.arg(peers::peers().join("llama.cpp")).arg(out.path()).output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cases = String::from_utf8(output.stdout).unwrap();
    let mut failures = Vec::new();
    for line in cases.lines() {
        let [case, ty, target] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let target = (target != "-").then(|| out.path().join(target));
        let options = Options::default().ty(OutType::from_name(ty).unwrap()).target(target);
        let ours = out.path().join("ours.gguf");
        match convert(out.path().join(case), &ours, &options, &RunOptions::default().force(true), &()) {
            Err(e) => failures.push(format!("{line}: {e}")),
            Ok(_) if sha256(&ours) == sha256(&out.path().join(format!("{case}-{ty}.gguf"))) => {}
            Ok(_) => failures.push(format!("{line}: other bytes")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(cases.lines().count() >= 14, "{cases}");
}

/// Class names of the language models that the converter supports, one per line; with the argument `mmproj`, of the encoders.
const REGISTRY: &str = r#"
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
import logging
logging.disable(logging.CRITICAL)
from conversion import MMPROJ_MODEL_MAP, TEXT_MODEL_MAP, get_model_class
mmproj = sys.argv[2:] == ["mmproj"]
for name in MMPROJ_MODEL_MAP if mmproj else TEXT_MODEL_MAP:
    try:
        get_model_class(name, mmproj)
        print(name)
    except Exception:
        pass
"#;

/// Every class of the reference's registry is either supported or listed with the reason why it is not.
fn the_registry_of_the_reference_is_covered() {
    use gguf_model::arch::{TOWERS, UNSUPPORTED, UNSUPPORTED_ENCODERS, of_class};
    let towers: Vec<&str> = TOWERS.iter().flat_map(|arch| arch.checkpoints).flat_map(|c| c.classes).copied().collect();
    let of_models: &dyn Fn(&str) -> bool = &|name| of_class(name).is_some();
    let of_encoders: &dyn Fn(&str) -> bool = &|name| towers.contains(&name);
    for (kind, is_converted, unsupported, total, least) in
        [("text", of_models, UNSUPPORTED, 267, MIN_NAMES), ("mmproj", of_encoders, UNSUPPORTED_ENCODERS, 66, 61)]
    {
        let mut peer = Command::new(peers::peers().join("venv/bin/python"));
        let output = peer.args(["-c", REGISTRY]).arg(peers::peers().join("llama.cpp")).arg(kind).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let names = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> = names.lines().collect();
        let listed: Vec<&str> = unsupported.iter().map(|(name, _)| *name).collect();
        let unknown: Vec<&&str> = names.iter().filter(|name| !is_converted(name) && !listed.contains(name)).collect();
        assert!(unknown.is_empty(), "neither converted nor listed: {unknown:?}");
        let stale: Vec<&&str> = listed.iter().filter(|name| !names.contains(name)).collect();
        assert!(stale.is_empty(), "listed, and not in the registry: {stale:?}");
        let n = names.iter().filter(|name| is_converted(name)).count();
        println!("{n} of {} registered {kind} names are converted", names.len());
        assert!(names.len() >= total && n >= least, "{n} of {}", names.len());
    }
}

/// The minimum number of supported names in the reference's registry.
const MIN_NAMES: usize = 264;

/// Changes of generated checkpoints after which llama.cpp does not load the output: the case, a JSON pointer into `config.json`, the new
/// value (`null` removes the field), and text of the error or of a warning about the output.
const REJECTED_CONFIGURATIONS: &[(&str, &str, &str, &str)] = &[
    // Widths and numbers of heads.
    ("qwen3-untied", "/num_attention_heads", "2", "num_attention_heads"),
    ("qwen3-untied", "/head_dim", "8", "head_dim of config.json"),
    ("qwen3-untied", "/hidden_size", "64", "hidden_size of config.json"),
    ("qwen3-untied", "/intermediate_size", "100", "intermediate_size of config.json"),
    ("qwen3-untied", "/num_hidden_layers", "1", "have no place in the architecture qwen3 with 1 blocks"),
    // Keys on which shapes depend, and which llama.cpp takes as 0 if they are missing.
    ("grok1", "/intermediate_size", "null", "no key sets expert_feed_forward_length or feed_forward_length"),
    ("bailingmoe3", "/intermediate_size", "null", "no key sets feed_forward_length"),
    // Tensors that are not read because the width of their part is 0.
    ("granite-moe-swa", "/shared_intermediate_size", "0", "tensor.unexpected"),
    // Groups of experts.
    ("bailingmoe2", "/n_group", "3", "value.expert_groups"),
    ("bailingmoe2", "/topk_group", "0", "value.expert_groups"),
    ("bailingmoe2", "/topk_group", "2", "value.expert_groups"),
    // Blocks with a window of another width.
    ("dots3-note", "/swa_qk_nope_head_dim", "16", "swa_head_dim other than swa_qk_nope_head_dim"),
    ("dots3-note", "/swa_kv_lora_rank", "17", "swa_kv_lora_rank of config.json"),
    ("gemma4", "/global_head_dim", "0", "global_head_dim"),
    // Drafts.
    ("gemma4-assistant", "/text_config/num_attention_heads", "2", "from num_attention_heads"),
    ("gemma4-assistant", "/text_config/backbone_hidden_size", "64", "backbone_hidden_size"),
    // Built-in adapters.
    ("granite-switch", "/max_lora_rank", "5", "max_lora_rank of config.json"),
    // A decoder of sound.
    ("wavtokenizer", "/n_embd_features", "16", "n_embd_features of config.json"),
    ("wavtokenizer", "/posnet/n_embd", "1", "posnet.n_embd"),
    ("wavtokenizer", "/posnet/n_layer", "5", "posnet.n_layer"),
    ("wavtokenizer", "/n_layer", "1", "n_layer"),
];

/// The configuration determines which tensors and which shapes llama.cpp expects; a contradiction is an error.
fn configurations_that_llama_cpp_rejects_are_errors() {
    let mut failures = Vec::new();
    for (case, field, value, expected) in REJECTED_CONFIGURATIONS {
        let dir = tempfile::tempdir().unwrap();
        generate(case, dir.path());
        let model = dir.path().join(case);
        let file = model.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let (parent, name) = field.rsplit_once('/').unwrap();
        let object = config.pointer_mut(parent).and_then(Value::as_object_mut).expect(field);
        match serde_json::from_str(value).unwrap() {
            Value::Null => assert!(object.remove(name).is_some(), "{case}: {field}"),
            value => assert_ne!(object.insert(name.to_owned(), value.clone()), Some(value), "{case}: {field}"),
        }
        fs::write(&file, config.to_string()).unwrap();
        failures.extend(rejected(&model, expected).map(|problem| format!("{case} {field} {value}: {problem}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Checkpoints that the reference converts to files that llama.cpp does not load, because their keys contradict their tensors.
fn variants_that_llama_cpp_rejects_are_errors() {
    let folder = peers::data("hf-variants");
    let index: Value = serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let is_accepted = |case: &&Value| case["kind"] == "check false accept";
    let cases: Vec<&Value> = index["cases"].as_array().unwrap().iter().filter(is_accepted).collect();
    assert!(cases.len() >= 17, "only {} cases", cases.len());
    let mut accepted = Vec::new();
    for case in cases {
        assert_eq!((&case["reference_loads"], &case["edits"]), (&Value::Bool(false), &Value::Null), "{case}");
        let name = case["name"].as_str().unwrap();
        let dir = tempfile::tempdir().unwrap();
        generate_from(&folder.join("cases"), name, dir.path());
        let model_name = match case["args"].as_array().map(Vec::as_slice) {
            Some([option, value]) if option == "--model-name" => value.as_str().map(str::to_owned),
            args => {
                assert!(args.is_none_or(<[Value]>::is_empty), "{name}: {args:?}");
                None
            }
        };
        let found = plan(dir.path().join(name), &Options::default().name(model_name));
        accepted.extend(found.is_ok_and(|conversion| conversion.n_errors == 0).then_some(name));
    }
    assert!(accepted.is_empty(), "{accepted:?}");
}

/// Whether a conversion is an error with the expected text, or an output that llama.cpp does not load with a warning that has it; `None` if
/// it is.
fn rejected(model: &Path, expected: &str) -> Option<String> {
    let conversion = match plan(model, &Options::default()) {
        Err(e) => return (!e.to_string().contains(expected)).then(|| e.to_string()),
        Ok(conversion) => conversion,
    };
    let messages: Vec<String> = conversion.warnings.iter().map(ToString::to_string).collect();
    if conversion.n_errors == 0 || !messages.iter().any(|message| message.contains(expected)) {
        return Some(format!("{} errors, {messages:?}", conversion.n_errors));
    }
    let out = model.with_file_name("out.gguf");
    conversion.plan.run(&out, &RunOptions::default(), &()).unwrap();
    let mut load = Peers::get().python(&peers::data("").join("../tools/llama-oracle.py"));
    let output = load.arg("load").arg(&out).env("GGML_NO_BACKTRACE", "1").output().expect("the peers' Python runs");
    output.status.success().then(|| format!("llama.cpp loads it; {messages:?}"))
}

gguf_test::tests! {
    [Shared] configurations_are_those_of_transformers,
        every_recorded_conversion_has_the_same_bytes,
        recorded_conversions_read_each_file_once,
        adapters_have_the_same_bytes,
        the_trained_example_has_the_same_bytes,
        tokenizers_are_those_of_llama_cpps_converter,
        whole_vocabularies_are_known_by_their_hash,
        ranks_of_llama_3_are_the_vocabulary_of_transformers,
        metadata_is_that_of_llama_cpps_converter;
    [Shared, Peers] generated_checkpoints_have_the_same_bytes, rerankers_have_the_same_bytes,
        fused_tensors_have_the_same_bytes, variants_have_the_same_bytes,
        configurations_that_llama_cpp_rejects_are_errors, variants_that_llama_cpp_rejects_are_errors;
    [Peers, Torch] the_registry_of_the_reference_is_covered;
    [Shared, Peers, Torch] checkpoints_of_torch_have_the_same_bytes,
        packed_weights_have_the_same_bytes,
        published_forms_have_the_same_bytes;
    [Shared, Peers, Torch, Packages] packed_weights_have_the_values_of_their_packages;
}
