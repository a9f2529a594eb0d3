//! Conversions against the reference: the same bytes as llama.cpp's `convert_hf_to_gguf.py` wrote for the same folders.
//!
//! Needs the shared test data: `GGUF_SHARED` names its folder. Without it the tests say so and do nothing; with it they
//! have to find the data.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_arch::plan::OutType;
use gguf_convert::{Options, convert};
use gguf_format::ByteOrder;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The shared data, if the environment names it.
fn shared(test: &str) -> Option<PathBuf> {
    match std::env::var_os("GGUF_SHARED") {
        Some(dir) => Some(PathBuf::from(dir)),
        None => {
            println!("{test}: skipped, GGUF_SHARED is not set");
            None
        }
    }
}

fn sha256(file: &Path) -> String {
    let bytes = fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// The options that a command line of the reference asks for; `None` when it asks for what is not done here.
fn options(job: &Value) -> Option<Options> {
    let mut options = Options { pre: job["forced_pre"].as_str().map(str::to_owned), ..Options::default() };
    let mut args = job["args"].as_array()?.iter().filter_map(Value::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--outtype" => options.ty = OutType::from_name(args.next()?)?,
            "--bigendian" => options.order = ByteOrder::Big,
            "--vocab-only" => options.vocab_only = true,
            "--model-name" => options.name = Some(args.next()?.to_owned()),
            // Ways of working of the reference that do not change its output.
            "--no-lazy" | "--use-temp-file" => {}
            _ => return None,
        }
    }
    Some(options)
}

/// Whether a folder's weights are packed in a way that is not read here.
fn is_quantized(model: &Path) -> bool {
    let config: Value = serde_json::from_slice(&fs::read(model.join("config.json")).unwrap()).unwrap();
    !config["quantization_config"].is_null()
}

#[test]
fn every_recorded_conversion_has_the_same_bytes() {
    let Some(shared) = shared("every_recorded_conversion_has_the_same_bytes") else { return };
    let hf = shared.join("data/hf");
    let manifest: Value = serde_json::from_slice(&fs::read(hf.join("MANIFEST.json")).unwrap()).unwrap();
    let out = tempfile::tempdir().unwrap();
    let (mut n_jobs, mut models, mut failures) = (0, std::collections::BTreeSet::new(), Vec::new());
    for job in manifest["jobs"].as_array().unwrap() {
        let architecture = job["architecture"].as_str().unwrap_or_default();
        let name = job["name"].as_str().unwrap();
        let model = hf.join("models").join(name);
        let outputs = job["outputs"].as_array().unwrap();
        if !matches!(architecture, "LlamaForCausalLM" | "MistralForCausalLM")
            || job["source_format"] != "safetensors"
            || job["exit"] != 0
            || is_quantized(&model)
        {
            continue;
        }
        let (Some(options), [recorded]) = (options(job), outputs.as_slice()) else { continue };
        n_jobs += 1;
        models.insert(name.to_owned());
        let tag = job["tag"].as_str().unwrap();
        let recorded_file = Path::new(recorded["file"].as_str().unwrap()).file_name().unwrap();
        // Without arguments the reference was given a folder and chose the name itself.
        let into_folder = job["args"].as_array().unwrap().is_empty();
        let path = if into_folder { out.path().to_owned() } else { out.path().join("out.gguf") };
        match convert(&model, &path, &options, &()) {
            Err(e) => failures.push(format!("{tag}: {e}")),
            Ok(summary) => {
                if into_folder && summary.path.file_name() != Some(recorded_file) {
                    failures.push(format!("{tag}: called {}, not {recorded_file:?}", summary.path.display()));
                }
                // What the reference converted well gives no reason for doubt.
                failures
                    .extend(summary.warnings.iter().filter(|w| w.contains("at fault")).map(|w| format!("{tag}: {w}")));
                let (found, expected) = (sha256(&summary.path), recorded["sha256"].as_str().unwrap());
                if found != expected {
                    failures.push(format!("{tag}: {found}, expected {expected}"));
                }
                fs::remove_file(&summary.path).unwrap();
            }
        }
    }
    println!("{n_jobs} conversions of {} checkpoints", models.len());
    assert!(failures.is_empty(), "{} of {n_jobs} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(n_jobs >= 32 && models.len() >= 13, "only {n_jobs} conversions of {models:?}");
}

#[test]
fn the_trained_example_has_the_same_bytes() {
    let Some(shared) = shared("the_trained_example_has_the_same_bytes") else { return };
    let data = shared.join("data");
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("out.gguf");
    convert(&data.join("glossary"), &path, &Options::default(), &()).unwrap();
    assert_eq!(sha256(&path), sha256(&data.join("glossary-bf16.gguf")));
}
