//! Estimates of recurrent models and encoders, compared with what llama.cpp reports.

use std::path::Path;
use std::process::Command;

use gguf_test::cases::{generate, share};
use gguf_test::peers::Peers;
use serde_json::Value;

/// Recurrent and hybrid models.
const RECURRENT: &[&str] = &[
    "bamba",
    "falconh1",
    "falconmamba",
    "granitehybrid-moe",
    "jamba",
    "kimi-linear",
    "lfm2",
    "lfm2moe",
    "mamba-bf16",
    "mamba2-codestral",
    "minimax-01",
    "nemotronh",
    "plamo2",
    "qwen3next",
    "qwen35-text",
    "rwkv6-rescale",
    "rwkv6qwen2",
    "rwkv7-fla",
    "arwkv7",
];

/// Encoders, and models that compute all positions at once.
const ENCODERS: &[&str] = &[
    "bert-cls",
    "dream",
    "eurobert",
    "gemma3-embedding",
    "jina-bert-v2",
    "llada",
    "llama-bidirectional",
    "modernbert",
    "neobert",
    "nomic-bert",
    "rnd1",
    "roberta",
    "t5-encoder",
    "t5-gated",
];

fn json(command: &mut Command) -> Value {
    let run = command.output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    serde_json::from_str(text.lines().last().unwrap_or_default())
        .or_else(|_| serde_json::from_str(&text))
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&run.stderr)))
}

fn converted(case: &str, dir: &Path) -> String {
    generate(case, dir);
    let out = dir.join(format!("{case}.gguf"));
    let run = Command::new(env!("CARGO_BIN_EXE_gguf"))
        .arg("convert")
        .arg(dir.join(case))
        .arg("-o")
        .arg(&out)
        .output()
        .unwrap();
    assert!(run.status.success(), "{case}: {}", String::from_utf8_lossy(&run.stderr));
    out.to_str().unwrap().to_owned()
}

/// The differences of the estimate of a model from the report of llama.cpp, where they are larger than the page of the command says: half a
/// percent and the resolution of the report; for the compute buffer, `tolerance` of it and half a MiB.
fn differences(peers: &Peers, path: &str, n_seq: u32, tolerance: f64) -> Vec<String> {
    let buffers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gguf-edit/tests/buffers.py");
    let mut report = peers.python(&buffers);
    report.args([path, "n_ctx=4096", "swa_full=0", &format!("n_seq_max={n_seq}")]);
    let report = json(&mut report);
    assert_eq!(report["context"], true, "{path}");
    let mut ours = Command::new(env!("CARGO_BIN_EXE_gguf"));
    ours.args(["estimate", path, "--json", "--ctx", "4096", "--parallel", &n_seq.to_string()]);
    let ours = json(&mut ours);
    let sum =
        |what: &str| report["sizes"][what].as_array().map_or(0.0, |all| all.iter().filter_map(Value::as_f64).sum());
    let mib = |what: &str| sum(what) * 1024.0 * 1024.0;
    let parts = [
        ("weights", report["size"].as_f64().unwrap(), 0.005, 11_000.0),
        ("kv_cache", mib("KV"), 0.005, 11_000.0),
        ("states", mib("RS"), 0.005, 11_000.0),
        ("output", mib("output"), 0.005, 11_000.0),
        ("compute", mib("compute"), tolerance, 524_288.0 * tolerance * 10.0),
    ];
    let mut bad = Vec::new();
    for (part, real, tolerance, more) in parts {
        let ours = ours["host"][part].as_f64().unwrap();
        if (ours - real).abs() > real * tolerance + more {
            bad.push(format!("{path} with {n_seq} sequences: {part} {ours}, llama.cpp {real}"));
        }
    }
    bad
}

fn estimates_of_recurrent_models_and_encoders_are_what_llama_cpp_reports() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let mut bad = Vec::new();
    for (cases, tolerance) in [(RECURRENT, 0.1), (ENCODERS, 0.05)] {
        for case in share(3, cases) {
            let path = converted(case, dir.path());
            // With many sequences, the small states are well above the resolution of the report. T5 has no such context.
            for n_seq in if case.starts_with("t5") { vec![1] } else { vec![1, 16] } {
                bad.extend(differences(&peers, &path, n_seq, tolerance));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

gguf_test::tests! {
    [Peers, Shared] estimates_of_recurrent_models_and_encoders_are_what_llama_cpp_reports;
}
