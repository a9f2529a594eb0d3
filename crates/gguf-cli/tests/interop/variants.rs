//! Variants of checkpoints on which converters went wrong, compared with llama.cpp's converter: the same bytes, or a refusal by both. Those that
//! llama.cpp does not load are refused without `--allow-invalid`, and have the same bytes with it, which `gguf check` rejects.
//!
//! The shared data lists the outputs and refusals of the reference. `GGUF_CASES` restricts the test to some of the variants.

use std::fs;
use std::path::Path;
use std::process::Command;

use gguf_test::parallel;
use gguf_test::peers::{self, Peers};
use gguf_test::program::gguf;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Variants that are converted although the reference fails, or to other bytes, or are refused although the reference converts them, for the
/// reasons in docs/conversion.md. With the text of the error, if there is one.
const DIFFERENT: &[(&str, Option<&str>)] = &[
    // The reference lists named templates in the order of a Python set.
    ("fz-templates-order", None),
    // The reference writes experts in the order of the pickle; llama.cpp does not load its file.
    ("fz-grok-order", None),
    // A format of PyTorch before 1.6.
    ("fz-bin-legacy", None),
    ("fz-q8-nan", Some("NaN or infinity as bf16")),
];

/// What the error about each refused variant names.
const REFUSED: &[(&str, &str)] = &[
    ("fz-guard-dots3-use-dsa", "use_dsa"),
    ("fz-guard-dots3-normalization", "normalization"),
    ("fz-guard-dots3-topk-method", "topk_method"),
    ("fz-guard-dots3-scoring-func", "scoring_func"),
    ("fz-guard-dots3-n-group", "n_group"),
    ("fz-guard-dots3-use-dynamic-rsf", "use_dynamic_rsf"),
    ("fz-guard-dots3-moe-gating-fp32", "moe_gating_fp32"),
    ("fz-guard-dots3-attention-gate-type", "attention_gate_type"),
    ("fz-guard-dots3-k-rope-only-layernorm", "k_rope_only_layernorm"),
    ("fz-guard-dots3-swa-head-dim", "swa_head_dim"),
    ("fz-guard-gemma3-softcap", "attn_logit_softcapping"),
    ("fz-guard-laguna-gating", "self_attn.g_proj.weight"),
    ("fz-guard-hunyuan-dynamic", "rope_theta"),
    ("fz-guard-hyv4-indexer", "indexer_types"),
    ("fz-guard-nemotronh-pattern", "hybrid_override_pattern"),
    ("fz-guard-step35-partial", "partial_rotary_factors"),
    ("fz-guard-exaone-llama3", "low_freq_factor"),
    ("fz-guard-chatglm-padded", "padded_vocab_size"),
];

/// The minimum number of compared variants.
const MIN_VARIANTS: usize = 61;

/// The list of variants.
fn variants() -> Vec<Value> {
    let file = peers::data("hf-variants/index.json");
    let index: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let chosen = std::env::var("GGUF_CASES").ok();
    let is_chosen = |case: &Value| {
        let name = case["name"].as_str().unwrap();
        chosen.as_ref().is_none_or(|list| list.split(',').any(|chosen| chosen == name))
    };
    index["cases"].as_array().unwrap().iter().filter(|case| is_chosen(case)).cloned().collect()
}

/// The arguments of the reference as those of `gguf convert`; `dir` is the folder of the checkpoints.
fn arguments(case: &Value, dir: &Path) -> Vec<String> {
    let mut args = case["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let mut ours = vec!["--type".to_owned(), case["outtype"].as_str().unwrap().to_owned()];
    while let Some(arg) = args.next() {
        match arg {
            "--target-model-dir" => {
                ours.push("--target".to_owned());
                ours.push(dir.join(args.next().unwrap()).to_str().unwrap().to_owned());
            }
            "--model-name" => ours.push("--name".to_owned()),
            arg => ours.push(arg.to_owned()),
        }
    }
    ours
}

/// Converts a variant. Returns how the result differs from that of the reference, if it does.
fn differs(case: &Value, dir: &Path) -> Option<String> {
    let name = case["name"].as_str().unwrap();
    let outputs = tempfile::tempdir().unwrap();
    let out = outputs.path().join(format!("{name}-{}.gguf", case["outtype"].as_str().unwrap()));
    let mut command = vec!["convert", dir.join(name).to_str().unwrap(), "-o", out.to_str().unwrap(), "-q"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    command.extend(arguments(case, dir));
    let is_check = case["kind"].as_str().unwrap().starts_with("check ");
    if is_check {
        let refused = gguf(&command);
        // Shapes that llama.cpp does not load are refused before the file is checked.
        if refused.code == 1 && refused.err.contains("which makes dimension") {
            return None;
        }
        if refused.code != 1 || !refused.err.contains("--allow-invalid") {
            return Some(format!("exit code {}, expected a refusal: {}", refused.code, refused.err));
        }
        command.push("--allow-invalid".to_owned());
    }
    let run = gguf(&command);
    if is_check && run.code == 0 {
        let checked = gguf(["check", out.to_str().unwrap()]);
        if checked.code != 1 {
            return Some(format!("exit code {} of the check: {}", checked.code, checked.out));
        }
    }
    let reference = case["reference"].as_object().unwrap();
    let different = DIFFERENT.iter().find(|(different, _)| *different == name).map(|(_, error)| *error);
    let refusal = REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, error)| *error);
    let expected_error = match (different, reference.contains_key("error")) {
        (Some(error), _) => error,
        (None, true) => Some(refusal.expect(name)),
        (None, false) => None,
    };
    if let Some(expected) = expected_error {
        let is_error = run.code == 1 && run.err.contains(expected) && run.err.contains("gguf: error: ");
        return (!is_error)
            .then(|| format!("exit code {}, expected an error with {expected:?}: {}", run.code, run.err));
    }
    if run.code != 0 {
        return Some(format!("exit code {}: {}", run.code, run.err));
    }
    let mut found = serde_json::Map::new();
    for file in fs::read_dir(outputs.path()).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        let sha256: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        let entry = serde_json::json!({ "size": bytes.len(), "sha256": sha256 });
        found.insert(file.file_name().into_string().unwrap(), entry);
    }
    (different.is_none() && found != *reference).then(|| format!("{found:?}, expected {reference:?}"))
}

fn variants_have_the_bytes_or_the_refusal_of_the_reference() {
    let cases = variants();
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/variants_peer.py");
    // Two processes of Python make the checkpoints, each one half.
    std::thread::scope(|scope| {
        for half in 0..2 {
            let names = cases.iter().skip(half).step_by(2).map(|case| case["name"].as_str().unwrap());
            let mut python: Command = Peers::get().python(&script);
            python.arg(peers::folder(peers::SHARED).unwrap()).arg(dir.path()).args(names);
            scope.spawn(move || {
                let made = python.output().unwrap();
                assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            });
        }
    });
    let problems = parallel::map(&cases, |case| differs(case, dir.path()));
    let named = cases.iter().zip(problems).filter_map(|(case, problem)| Some((case["name"].as_str()?, problem?)));
    let failures: Vec<String> = named.map(|(name, problem)| format!("{name}: {problem}")).collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(std::env::var_os("GGUF_CASES").is_some() || cases.len() >= MIN_VARIANTS, "only {}", cases.len());
}

gguf_test::tests! {
    [Shared, Peers, Torch] variants_have_the_bytes_or_the_refusal_of_the_reference;
}
