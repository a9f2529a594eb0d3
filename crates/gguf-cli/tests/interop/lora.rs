//! Merged models compared with real llama.cpp, which evaluates the base model with the adapters.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::Writer;
use gguf_test::checkpoint::f32_data;
use gguf_test::files::{folder, glossary, text};
use gguf_test::peers::Peers;
use gguf_test::program::gguf;

/// Logits of every token, by llama.cpp.
fn logits(peers: &Peers, model: &Path, tokens: &str, adapters: &[(&Path, f32)]) -> Vec<Vec<f64>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lora_peer.py");
    let mut command = peers.python(&script);
    command.arg(model).arg(tokens);
    for (adapter, scale) in adapters {
        command.arg(adapter).arg(scale.to_string());
    }
    let output = command.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The largest difference, as a part of the largest number.
fn difference(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let pairs = || a.iter().flatten().zip(b.iter().flatten());
    assert_eq!(a.iter().flatten().count(), b.iter().flatten().count());
    let largest = pairs().map(|(a, _)| a.abs()).fold(0.0, f64::max);
    pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

/// Asserts that a merged model has the logits of its base with the adapters, and others than the base alone.
#[track_caller]
fn is_equal(peers: &Peers, base: &Path, tokens: &str, adapters: &[(&Path, f32)], dir: &Path) {
    let out = dir.join("merged.gguf");
    let scales: Vec<String> = adapters.iter().map(|(_, scale)| scale.to_string()).collect();
    let mut args = vec!["lora", "merge", text(base), "-o", text(&out), "-fq", "--type", "F32"];
    let scales = scales.join(",");
    args.extend(["--scale", &scales]);
    args.extend(adapters.iter().map(|(adapter, _)| text(adapter)));
    gguf(args).exits(0);
    let alone = logits(peers, base, tokens, &[]);
    let expected = logits(peers, base, tokens, adapters);
    let merged = logits(peers, &out, tokens, &[]);
    let (error, effect) = (difference(&expected, &merged), difference(&alone, &merged));
    assert!(error <= 2e-6 && effect >= 1e-3, "error {error:.2e}, effect {effect:.2e}");
}

/// Matrices of the example, each with the shapes of `lora_a` and `lora_b`.
const PAIRS: &[(&str, [u64; 2], [u64; 2])] = &[
    ("blk.0.attn_q", [256, 4], [4, 256]),
    ("blk.1.attn_output", [256, 1], [1, 256]),
    ("blk.1.ffn_down", [768, 5], [5, 256]),
    ("blk.2.ffn_gate", [256, 8], [8, 768]),
];

/// Matrices of a model whose output is another matrix than its token embeddings.
const EMBEDDINGS: &[(&str, [u64; 2], [u64; 2])] =
    &[("token_embd", [3, 768], [3, 256]), ("output", [256, 2], [2, 768]), ("blk.1.ffn_up", [256, 6], [6, 256])];

/// An adapter with changes of some matrices.
fn adapter(path: &Path, seed: u32, alpha: f32, pairs: &[(&str, [u64; 2], [u64; 2])]) -> PathBuf {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.type", "adapter");
    head.set("adapter.type", "lora");
    head.set("adapter.lora.alpha", alpha);
    let mut data = Vec::new();
    for (name, a, b) in pairs {
        for (factor, shape) in [("lora_a", a), ("lora_b", b)] {
            head.tensors.push(TensorInfo::new(format!("{name}.weight.{factor}"), shape.to_vec(), GgmlType::F32));
            let values = f32_data(seed + data.len() as u32, shape.iter().product());
            let small = values.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap()) * 0.05);
            data.push(small.flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
        }
    }
    fs::write(path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    path.to_owned()
}

fn merged_models_have_the_logits_of_base_and_adapters() {
    let peers = Peers::get();
    let dir = folder();
    let base = dir.path().join("base.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&base), "--type", "f32", "-q"]).exits(0);
    let one = adapter(&dir.path().join("one.gguf"), 100, 8.0, PAIRS);
    let two = adapter(&dir.path().join("two.gguf"), 200, 3.0, PAIRS);
    let tokens = "1,5,900,33,1200,7";
    is_equal(&peers, &base, tokens, &[(&one, 1.0)], dir.path());
    is_equal(&peers, &base, tokens, &[(&one, 0.5), (&two, -1.25)], dir.path());
}

/// Adapters that llama.cpp's converter wrote, one of them for experts.
fn recorded_adapters_have_the_logits_of_base_and_adapter() {
    let peers = Peers::get();
    let dir = folder();
    for (model, adapter) in [("llama-f32", "lora-llama-f32-f32"), ("mixtral", "lora-mixtral-f32")] {
        let base = dir.path().join(format!("{model}.gguf"));
        let checkpoint = peers.data("hf/models").join(model);
        gguf(["convert", text(&checkpoint), "-o", text(&base), "--type", "f32", "-q"]).exits(0);
        let adapter = peers.data("hf/ref").join(format!("{adapter}.gguf"));
        is_equal(&peers, &base, "1,5,9,3,40", &[(&adapter, 1.0)], dir.path());
    }
    // llama.cpp looks up rows of the first factor of token embeddings.
    let embeddings = adapter(&dir.path().join("embeddings.gguf"), 300, 6.0, EMBEDDINGS);
    is_equal(&peers, &dir.path().join("llama-f32.gguf"), "1,5,9,3,40", &[(&embeddings, 1.0)], dir.path());
}

gguf_test::tests! {
    [Peers, Shared] merged_models_have_the_logits_of_base_and_adapters,
        recorded_adapters_have_the_logits_of_base_and_adapter;
}
