//! Adapters: conversion of scales and factors, and rejected adapters.

use std::fs;
use std::path::Path;

use gguf_format::{Gguf, ValueRef};
use gguf_hf::{Options, OutType, convert};
use gguf_pipeline::RunOptions;
use gguf_test::checkpoint::{HIDDEN, Tensor, VOCAB, WIDE, f32_data, safetensors, write_small_files};

const UP: &str = "base_model.model.model.layers.0.mlp.up_proj";

/// The two factors of a module of the given shape.
fn factors(module: &str, [rows, columns]: [u64; 2], rank: u64) -> Vec<(String, Vec<u64>)> {
    vec![
        (format!("{module}.lora_A.weight"), vec![rank, columns]),
        (format!("{module}.lora_B.weight"), vec![rows, rank]),
    ]
}

fn write(dir: &Path, tensors: &[(String, Vec<u64>)], settings: &str) {
    let data = |i: usize, shape: &[u64]| f32_data(i as u32, shape.iter().product());
    let tensors: Vec<Tensor<'_>> =
        tensors.iter().enumerate().map(|(i, (n, s))| (n.as_str(), "F32", s.as_slice(), data(i, s))).collect();
    fs::write(dir.join("adapter_model.safetensors"), safetensors(&tensors)).unwrap();
    fs::write(dir.join("adapter_config.json"), settings).unwrap();
}

/// Converts an adapter with the given tensors and settings.
fn converted(tensors: &[(String, Vec<u64>)], settings: &str) -> Result<Vec<u8>, String> {
    let dir = tempfile::tempdir().unwrap();
    let (base, adapter) = (dir.path().join("base"), dir.path().join("adapter"));
    fs::create_dir_all(&base).unwrap();
    fs::create_dir_all(&adapter).unwrap();
    write_small_files(&base);
    write(&adapter, tensors, settings);
    let out = dir.path().join("out.gguf");
    let run = convert(&adapter, &out, &Options::default().base(Some(base)), &RunOptions::default(), &());
    assert_eq!(run.is_ok(), out.exists());
    run.map(|_| fs::read(out).unwrap()).map_err(|e| e.to_string())
}

/// The values of a tensor in single precision.
fn values(file: &[u8], name: &str) -> Vec<f32> {
    let gguf = Gguf::parse(file).unwrap();
    let tensor = gguf.tensors().find(|tensor| tensor.name == name).unwrap_or_else(|| panic!("no {name}"));
    let start = gguf.data_offset() + tensor.offset;
    let n = tensor.n_elements().unwrap();
    let bytes = &file[start as usize..(start + n * 4) as usize];
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn f32s(seed: u32, n: u64) -> Vec<f32> {
    f32_data(seed, n).chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// PEFT scales each product by alpha over the rank, or over its square root; llama.cpp scales by a single alpha per file over the rank.
#[test]
fn every_module_is_scaled_as_peft_does() {
    let tensors = factors(UP, [WIDE, HIDDEN], 4);
    for (settings, alpha, scale) in [
        (r#"{"lora_alpha": 12, "r": 4}"#, 12.0, 1.0),
        (r#"{"lora_alpha": 0.5}"#, 0.5, 1.0),
        (r#"{"lora_alpha": 12, "r": 4, "use_rslora": true}"#, 24.0, 1.0),
        // This module has a different rank.
        (r#"{"lora_alpha": 12, "r": 16, "use_rslora": true, "rank_pattern": {"up_proj": 4}}"#, 48.0, 0.5),
        (r#"{"lora_alpha": 12, "alpha_pattern": {"up_proj": 6, "mlp.up_proj": 3}}"#, 12.0, 0.5),
        (r#"{"lora_alpha": 12, "alpha_pattern": {"p_proj": 6, "layers\\.\\d+\\.mlp.up_proj": 3}}"#, 12.0, 0.25),
        (r#"{"lora_alpha": 12, "alpha_pattern": {"^up_proj": 6}}"#, 12.0, 1.0),
        (r#"{"lora_alpha": 12, "alpha_pattern": {"down_proj": 6}}"#, 12.0, 1.0),
    ] {
        let file = converted(&tensors, settings).unwrap();
        let gguf = Gguf::parse(&file).unwrap();
        assert_eq!(gguf.get("adapter.lora.alpha"), Some(ValueRef::F32(alpha)), "{settings}");
        assert_eq!(values(&file, "blk.0.ffn_up.weight.lora_a"), f32s(0, 4 * HIDDEN), "{settings}");
        let expected: Vec<f32> = f32s(1, WIDE * 4).into_iter().map(|x| x * scale).collect();
        assert_eq!(values(&file, "blk.0.ffn_up.weight.lora_b"), expected, "{settings}");
    }
}

/// If the base model stores a matrix transposed, the factors are swapped.
#[test]
fn transposed_matrices_exchange_the_factors() {
    let file = converted(&factors(UP, [HIDDEN, WIDE], 2), r#"{"lora_alpha": 1, "fan_in_fan_out": true}"#).unwrap();
    let (a, b) = (f32s(0, 2 * WIDE), f32s(1, HIDDEN * 2));
    let transposed = |m: &[f32], n: u64| -> Vec<f32> {
        (0..n as usize).flat_map(|c| m.chunks(n as usize).map(move |row| row[c])).collect()
    };
    assert_eq!(values(&file, "blk.0.ffn_up.weight.lora_a"), transposed(&b, 2));
    assert_eq!(values(&file, "blk.0.ffn_up.weight.lora_b"), transposed(&a, WIDE));
}

/// Tensors, settings and the expected error.
type Case<'a> = (&'a [(String, Vec<u64>)], &'a str, &'a str);

#[test]
fn adapters_that_are_refused() {
    let whole = factors(UP, [WIDE, HIDDEN], 4);
    let named = |name: &str, shape: &[u64]| vec![(name.to_owned(), shape.to_vec())];
    let good = r#"{"lora_alpha": 8}"#;
    let cases: &[Case<'_>] = &[
        (&whole, "[]", "(the document) is [], expected an object"),
        (&whole, "{}", "adapter_config.json: the field lora_alpha is null, expected a number greater than 0"),
        (&whole, r#"{"lora_alpha": 0}"#, "lora_alpha is 0, expected a number greater than 0"),
        (&whole, r#"{"lora_alpha": 8, "peft_type": "IA3"}"#, "peft_type is \"IA3\", expected \"LORA\""),
        (
            &whole,
            r#"{"lora_alpha": 8, "use_dora": true}"#,
            "magnitudes of weights (DoRA), which a GGUF adapter cannot hold",
        ),
        (&whole, r#"{"lora_alpha": 8, "use_rslora": 1}"#, "use_rslora is 1, expected true or false"),
        (&whole, r#"{"lora_alpha": 8, "use_rslora": true}"#, "the field r is null"),
        (&whole, r#"{"lora_alpha": 8, "alpha_pattern": {"(": 2}}"#, "expected a name that is a regular expression"),
        (&whole, r#"{"lora_alpha": 8, "alpha_pattern": [1]}"#, "expected an object of names and numbers"),
        (&whole, r#"{"lora_alpha": 8, "alora_invocation_tokens": [-1]}"#, "is [-1], expected a list of token ids"),
        (&whole, r#"{"lora_alpha": 8, "invocation_string": "x"}"#, "expected its tokens in alora_invocation_tokens"),
        (&whole[..1], good, "lora_A.weight\" has no counterpart \"lora_B\""),
        (&whole[1..], good, "lora_B.weight\" has no counterpart \"lora_A\""),
        (
            &named("base_model.model.lm_head.weight", &[VOCAB, HIDDEN]),
            good,
            "neither a factor (lora_A, lora_B) nor a norm",
        ),
        (&named("base_model.model.model.layers.0.mlp.up_proj.lora_magnitude_vector", &[WIDE]), good, "(DoRA)"),
        (
            &factors(UP, [HIDDEN, WIDE], 4),
            good,
            "makes dimension 0 of the output 24, expected 16 (embedding_length, from hidden_size of config.json)",
        ),
        (&factors("base_model.model.model.layers.7.mlp.up_proj", [WIDE, HIDDEN], 4), good, "has no place"),
        (
            &[(format!("{UP}.lora_A.weight"), vec![4, HIDDEN]), (format!("{UP}.lora_B.weight"), vec![WIDE, 2])],
            good,
            "has the shape [4, 16] and its counterpart [24, 2], expected [rank, columns] and [rows, rank]",
        ),
    ];
    for (tensors, settings, expected) in cases {
        let error = converted(tensors, settings).err().unwrap_or_else(|| panic!("{expected}: was accepted"));
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

#[test]
fn the_base_model_is_that_of_the_caller_or_of_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().ty(OutType::F32);
    let plan = |options: &Options| gguf_hf::plan(dir.path(), options).map(|plan| plan.architecture);
    write(dir.path(), &factors(UP, [WIDE, HIDDEN], 4), r#"{"lora_alpha": 8, "base_model_name_or_path": "org/base"}"#);
    let error = plan(&options).unwrap_err().to_string();
    assert!(error.contains("the adapter's base model is \"org/base\""), "{error}");
    write_small_files(dir.path());
    assert_eq!(plan(&options).unwrap(), "llama");
    fs::rename(dir.path().join("adapter_model.safetensors"), dir.path().join("adapter_model.pt")).unwrap();
    let error = plan(&options).unwrap_err().to_string();
    assert!(error.contains("neither adapter_model.safetensors nor adapter_model.bin in the folder"), "{error}");
    assert!(error.contains("but \"adapter_model.pt\""), "{error}");
    fs::remove_file(dir.path().join("adapter_config.json")).unwrap();
    let error = plan(&options.base(Some(dir.path().to_owned()))).unwrap_err().to_string();
    assert!(error.contains("a base model is given, but the folder has no adapter_config.json"), "{error}");
}
