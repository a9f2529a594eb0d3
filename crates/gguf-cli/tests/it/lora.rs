//! `gguf lora merge`: values, types, and adapters that do not belong to the base model.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::{Model, Writer};
use gguf_test::checkpoint::{Tensor, safetensors};
use gguf_test::files::{folder, glossary, text};
use gguf_test::program::gguf;

const RANK: u64 = 4;
const ALPHA: f32 = 8.0;

/// Numbers between -0.05 and 0.05, different for each seed.
fn numbers(seed: u64, n: u64) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 20_000.0 - 0.05).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The head of an adapter for the example.
fn adapter_head() -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.type", "adapter");
    head.set("adapter.type", "lora");
    head.set("adapter.lora.alpha", ALPHA);
    head
}

/// Writes an adapter with tensors of the given names and shapes.
fn write_adapter(path: &Path, mut head: Head, tensors: &[(&str, &[u64])]) -> PathBuf {
    head.tensors = tensors.iter().map(|(name, shape)| TensorInfo::new(*name, shape.to_vec(), GgmlType::F32)).collect();
    let data = tensors.iter().zip(1..).map(|((_, shape), seed)| bytes(&numbers(seed, shape.iter().product())));
    fs::write(path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    path.to_owned()
}

const PAIRS: &[(&str, &[u64])] = &[
    ("blk.1.ffn_down.weight.lora_a", &[768, RANK]),
    ("blk.1.ffn_down.weight.lora_b", &[RANK, 256]),
    ("token_embd.weight.lora_a", &[RANK, 2048]),
    ("token_embd.weight.lora_b", &[RANK, 256]),
];

/// Writes an adapter for the example.
pub fn write_example(path: &Path) {
    write_adapter(path, adapter_head(), PAIRS);
}

/// The example as a model.
fn base(dir: &Path) -> PathBuf {
    let path = dir.join("base.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&path), "-q"]).exits(0);
    path
}

fn values(model: &Path, tensor: &str) -> Vec<f32> {
    Model::open(model).unwrap().tensor(tensor).unwrap().to_f32().unwrap()
}

fn ty(model: &Path, tensor: &str) -> GgmlType {
    Model::open(model).unwrap().tensor(tensor).unwrap().ty()
}

/// Asserts that merged values are base values plus changes, given by a function of row and column.
#[track_caller]
fn are_merged(base: &[f32], merged: &[f32], columns: usize, change: impl Fn(usize, usize) -> f64) {
    assert_eq!(base.len(), merged.len());
    for (i, (base, merged)) in base.iter().zip(merged).enumerate() {
        let expected = f64::from(*base) + change(i / columns, i % columns);
        assert!((f64::from(*merged) - expected).abs() <= 4e-7, "value {i}: {merged}, expected {expected}");
    }
}

#[test]
fn merged_matrices_are_sums_and_other_tensors_are_copied() {
    let dir = folder();
    let base = base(dir.path());
    let adapter = write_adapter(&dir.path().join("a.gguf"), adapter_head(), PAIRS);
    let out = dir.path().join("merged.gguf");
    let args = ["lora", "merge", text(&base), text(&adapter), text(&adapter), "-o", text(&out)];
    let run = gguf(args.iter().chain(&["--type", "F32", "--scale", "1,-0.5"])).exits(0);
    assert_eq!(run.out, format!("{}\n", out.display()));
    run.says(&["2 tensors merged"]);
    let scale = f64::from(ALPHA) / RANK as f64 * 0.5;
    let factors = |i: usize| numbers(i as u64 + 1, PAIRS[i].1.iter().product());
    let (a, b) = (factors(0), factors(1));
    let product = |row: usize, column: usize| {
        (0..RANK as usize).map(|k| f64::from(b[row * RANK as usize + k]) * f64::from(a[k * 768 + column])).sum::<f64>()
    };
    let name = "blk.1.ffn_down.weight";
    are_merged(&values(&base, name), &values(&out, name), 768, |row, column| product(row, column) * scale);
    // llama.cpp looks up rows of the first factor of embeddings.
    let (a, b) = (factors(2), factors(3));
    let looked_up = |row: usize, column: usize| {
        let k = |k: usize| f64::from(a[row * RANK as usize + k]) * f64::from(b[column * RANK as usize + k]);
        (0..RANK as usize).map(k).sum::<f64>()
    };
    let name = "token_embd.weight";
    are_merged(&values(&base, name), &values(&out, name), 256, |row, column| looked_up(row, column) * scale);
    assert_eq!(values(&base, "blk.0.attn_q.weight"), values(&out, "blk.0.attn_q.weight"));
    // Without alpha, the scale is the whole factor. The default is the types of the base.
    let mut head = adapter_head();
    head.remove("adapter.lora.alpha");
    let adapter = write_adapter(&dir.path().join("b.gguf"), head, PAIRS);
    gguf(["lora", "merge", text(&base), text(&adapter), "-o", text(&out), "-fq", "--scale", "2"]).exits(0);
    assert_eq!(ty(&out, "blk.1.ffn_down.weight"), GgmlType::BF16);
    let (a, b) = (factors(0), factors(1));
    let (base, merged) = (values(&base, "blk.1.ffn_down.weight"), values(&out, "blk.1.ffn_down.weight"));
    let at = |k: usize| f64::from(b[RANK as usize + k]) * f64::from(a[k * 768 + 2]);
    let expected = f64::from(base[770]) + 2.0 * (0..RANK as usize).map(at).sum::<f64>();
    assert!((f64::from(merged[770]) - expected).abs() <= expected.abs() / 256.0);
}

#[test]
fn any_type_is_written_in_one_pass() {
    let dir = folder();
    let base = base(dir.path());
    let adapter = write_adapter(&dir.path().join("a.gguf"), adapter_head(), PAIRS);
    let [single, two, one] = ["f32", "two", "one"].map(|name| dir.path().join(format!("{name}.gguf")));
    gguf(["lora", "merge", text(&base), text(&adapter), "-o", text(&single), "-q", "--type", "F32"]).exits(0);
    gguf(["quantize", text(&single), text(&two), "Q4_K_M", "-q"]).exits(0);
    gguf(["lora", "merge", text(&base), text(&adapter), "-o", text(&one), "-q", "--type", "Q4_K_M"]).exits(0);
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "one pass has other bytes than two");
    // A quantized base: its types by default; another type needs permission for the tensors that are quantized again.
    let out = dir.path().join("q.gguf");
    let args = ["lora", "merge", text(&two), text(&adapter), "-o", text(&out), "-fq"];
    gguf(args).exits(0);
    assert_eq!(ty(&out, "blk.1.ffn_down.weight"), ty(&two, "blk.1.ffn_down.weight"));
    gguf(args.iter().chain(&["--type", "Q8_0"])).exits(1).says(&["is already q"]);
    gguf(args.iter().chain(&["--type", "Q8_0", "--allow-requantize"])).exits(0);
    gguf(args.iter().chain(&["--imatrix", "imatrix.gguf"])).exits(2).says(&["quantization options require --type"]);
    gguf(["lora", "merge", text(&base), text(&adapter), "-n", "--type", "Q6_K"])
        .exits(0)
        .prints(&["blk.1.ffn_down.weight"]);
}

#[test]
fn checkpoints_and_adapters_of_peft_are_merged_as_their_conversions() {
    let dir = folder();
    let checkpoint = glossary();
    let peft = dir.path().join("peft");
    fs::create_dir(&peft).unwrap();
    let (a, b) = (bytes(&numbers(1, 256 * RANK)), bytes(&numbers(2, 256 * RANK)));
    // Queries, because their rows are permuted.
    let name = |factor: &str| format!("base_model.model.model.layers.2.self_attn.q_proj.lora_{factor}.weight");
    let [first, second] = ["A", "B"].map(name);
    let tensors: [Tensor<'_>; 2] = [(&first, "F32", &[RANK, 256], a), (&second, "F32", &[256, RANK], b)];
    fs::write(peft.join("adapter_model.safetensors"), safetensors(&tensors)).unwrap();
    fs::write(peft.join("adapter_config.json"), r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8}"#).unwrap();
    let [base, adapter, both, either] =
        ["base", "adapter", "both", "either"].map(|name| dir.path().join(format!("{name}.gguf")));
    gguf(["convert", text(&checkpoint), "-o", text(&base), "-q"]).exits(0);
    gguf(["convert", text(&peft), "--base", text(&checkpoint), "-o", text(&adapter), "-q"]).exits(0);
    gguf(["lora", "merge", text(&base), text(&adapter), "-o", text(&both), "-q"]).exits(0);
    gguf(["lora", "merge", text(&checkpoint), text(&peft), "-o", text(&either), "-q"]).exits(0);
    assert!(fs::read(&both).unwrap() == fs::read(&either).unwrap());
    assert!(fs::read(&both).unwrap() != fs::read(&base).unwrap());
    let args = ["lora", "merge", text(&base), text(&peft), "-o", text(&either), "-fq"];
    gguf(args).exits(1).says(&["config.json"]);
    gguf(args.iter().chain(&["--base-config", text(&checkpoint)])).exits(0);
    assert!(fs::read(&both).unwrap() == fs::read(&either).unwrap());
}

#[test]
fn adapters_of_other_models_are_refused() {
    let dir = folder();
    let base = base(dir.path());
    let out = dir.path().join("out.gguf");
    let refused = |head: Head, tensors: &[(&str, &[u64])], says: &[&str]| {
        let adapter = write_adapter(&dir.path().join("adapter.gguf"), head, tensors);
        gguf(["lora", "merge", text(&base), text(&adapter), "-o", text(&out)]).exits(1).says(says);
        assert!(!out.exists());
    };
    let with = |key: &str, value: &str| {
        let mut head = adapter_head();
        head.set(key, value);
        head
    };
    refused(with("general.architecture", "qwen2"), PAIRS, &["architecture \"qwen2\"", "\"llama\""]);
    refused(with("general.type", "model"), PAIRS, &["general.type is \"model\", expected \"adapter\""]);
    refused(with("adapter.type", "other"), PAIRS, &["adapter.type is \"other\", expected \"lora\""]);
    let mut endless = adapter_head();
    endless.set("adapter.lora.alpha", f32::INFINITY);
    refused(endless, PAIRS, &["the scale inf is not a finite number"]);
    let head = adapter_head;
    refused(head(), &PAIRS[..1], &["blk.1.ffn_down.weight.lora_b is missing"]);
    refused(head(), &PAIRS[1..2], &["blk.1.ffn_down.weight.lora_a is missing"]);
    let renamed = [("blk.7.ffn_down.weight.lora_a", PAIRS[0].1), ("blk.7.ffn_down.weight.lora_b", PAIRS[1].1)];
    refused(head(), &renamed, &["blk.7.ffn_down.weight, which the base model does not have"]);
    refused(head(), &[("output.weight", &[256, 2048])], &["output.weight is not a factor"]);
    for (a, b) in [
        (&[769, 4][..], &[4, 256][..]),
        (&[768, 4], &[4, 255]),
        (&[768, 4], &[5, 256]),
        (&[768, 4, 2], &[4, 256, 2]),
        (&[768, 4], &[4, 256, 2]),
    ] {
        let pair = [("blk.1.ffn_down.weight.lora_a", a), ("blk.1.ffn_down.weight.lora_b", b)];
        refused(head(), &pair, &["whose product does not have the shape [768, 256]"]);
    }
    // Norms are ignored, as by llama.cpp.
    let norm: &[(&str, &[u64])] = &[PAIRS[0], PAIRS[1], ("output_norm.weight", &[256])];
    let adapter = write_adapter(&dir.path().join("norm.gguf"), head(), norm);
    gguf(["lora", "merge", text(&base), text(&adapter), "-o", text(&out)]).exits(0).says(&["output_norm.weight"]);
    assert_eq!(values(&out, "output_norm.weight"), values(&base, "output_norm.weight"));
    // An adapter as the base, factors of another shape, and files that are not adapters.
    gguf(["lora", "merge", text(&adapter), text(&adapter), "-o", text(&out), "-f"])
        .exits(1)
        .says(&["is an adapter; expected"]);
    let scales = ["lora", "merge", text(&base), text(&adapter), "-o", text(&out), "-f", "--scale", "1,2"];
    gguf(scales).exits(2).says(&["expected 1 number; found 2"]);
    gguf(["lora", "merge", text(&base), "missing.gguf", "-o", text(&out), "-f"]).exits(2).says(&["missing.gguf"]);
    let cut = dir.path().join("cut.gguf");
    let whole = fs::read(&adapter).unwrap();
    fs::write(&cut, &whole[..whole.len() - 4000]).unwrap();
    gguf(["lora", "merge", text(&base), text(&cut), "-o", text(&out), "-f"]).exits(1).says(&["cut.gguf"]);
}
