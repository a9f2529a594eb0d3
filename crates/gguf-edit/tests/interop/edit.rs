//! Edited files in real llama.cpp. Requires the directory of the peers in `GGUF_PEERS` and of shared data and tools in `GGUF_SHARED`;
//! otherwise the tests are ignored.

use std::fs;
use std::path::Path;

use gguf_edit::estimate::{Setup, estimate};
use gguf_edit::{Edit, EditMethod, EditOptions, EditPlan};
use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::ModelFile;
use gguf_io::in_place::space;
use gguf_test::cases::share;
use gguf_test::peers::Peers;

fn set(key: &str, value: &str) -> Edit {
    Edit::Set { key: key.into(), value: value.into() }
}

/// The example model with feed-forward matrices enlarged to 10 GB, as a sparse file.
fn write_large(from: &Path, to: &Path) {
    const FFN: u64 = 2_200_000;
    let model = ModelFile::open(from).unwrap();
    let mut head = Head::from_gguf(model.gguf());
    let ffn = head.get("llama.feed_forward_length").unwrap().as_integer().unwrap() as u64;
    head.set("llama.feed_forward_length", FFN as u32);
    for tensor in &mut head.tensors {
        let shape = tensor.shape.iter().map(|&n| if n == ffn { FFN } else { n }).collect::<Vec<u64>>();
        *tensor = TensorInfo::new(tensor.name.clone(), shape, tensor.ty);
    }
    let layout = head.layout().unwrap();
    fs::write(to, layout.padded_head().unwrap()).unwrap();
    assert!(layout.file_bytes() > 10_000_000_000);
    fs::File::options().write(true).open(to).unwrap().set_len(layout.file_bytes()).unwrap();
}

#[cfg(unix)]
fn blocks(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap())
}

#[cfg(not(unix))]
fn blocks(_: &Path) -> u64 {
    0
}

fn a_file_of_10_gb_is_edited_in_place_and_loads() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.gguf");
    write_large(&peers.data("glossary-bf16.gguf"), &path);
    let options = EditOptions::default().only_in_place(true);
    type IsWay = fn(EditMethod) -> bool;
    let edits: &[(&str, IsWay)] = &[
        ("Gloss", |way| way == EditMethod::Reserved),
        ("A name that is longer than there is room for, so that bytes are inserted", |way| {
            matches!(way, EditMethod::Insert { .. })
        }),
        ("And once more, into the room that is left of the inserted bytes, which is enough for this", |way| {
            way == EditMethod::Reserved
        }),
    ];
    for (name, is_way) in edits {
        if is_way(EditMethod::Insert { bytes: 0 }) && !space::can_insert(&path) {
            continue;
        }
        let plan = EditPlan::new(&path, &[set("general.name", name)], &options).unwrap();
        assert!(is_way(plan.method()), "{:?}", plan.method());
        plan.run(&()).unwrap();
        assert_eq!(ModelFile::open(&path).unwrap().gguf().get_as::<&str>("general.name"), Ok(*name));
        assert!(blocks(&path) * 512 < 1 << 20, "data was written");
    }
    // Only once, because it reads all 10 GB: after an edit within the space, one with inserted bytes, and another within their space.
    assert!(peers.ask(&["load", path.to_str().unwrap()]).contains("\"loaded\": true"));
}

/// After every kind of edit, the model computes the same results.
fn edited_models_compute_the_same() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let reference = peers.data("glossary-bf16.gguf");
    let ask = |path: &Path| peers.ask(&["generate", path.to_str().unwrap(), "oak:", "-n", "16"]);
    let expected = ask(&reference);
    let copy = dir.path().join("m.gguf");
    fs::write(&copy, fs::read(&reference).unwrap()).unwrap();
    let long = "x".repeat(9000);
    let edits: Vec<(Vec<Edit>, EditOptions)> = vec![
        (vec![set("general.name", "a")], EditOptions::default()),
        (vec![set("general.description", &long)], EditOptions::default()),
        (vec![Edit::Unset { key: "general.description".into() }], EditOptions::default()),
        (vec![set("general.description", &long), set("general.name", "b")], EditOptions::default().reserve(70_000)),
        (vec![], EditOptions::default().rewrite(true)),
        (vec![Edit::RenameKey { from: "general.name".into(), to: "general.basename".into() }], EditOptions::default()),
    ];
    for (edits, options) in edits {
        let way = EditPlan::new(&copy, &edits, &options).unwrap().run(&()).unwrap();
        assert_eq!(ask(&copy), expected, "{way:?}");
    }
}

/// llama.cpp's report about a model, in bytes: weights, caches, compute buffers, output.
fn reported(peers: &Peers, model: &Path, options: &[&str]) -> Option<[f64; 4]> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/buffers.py");
    let output = peers.python(&script).arg(model).args(options).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if report["context"] != true {
        return None;
    }
    let sum =
        |what: &str| report["sizes"][what].as_array().map_or(0.0, |all| all.iter().filter_map(|n| n.as_f64()).sum());
    let mib = |what: &str| sum(what) * 1024.0 * 1024.0;
    Some([report["size"].as_f64().unwrap(), mib("KV"), mib("compute"), mib("output")])
}

/// Models of the reference data, of all architectures with a known graph.
const MODELS: &[&str] = &[
    "cohere-auto",
    "deepseek-coder-full-vocab-auto",
    "falcon-40b-style-f16",
    "falcon-7b-style-auto",
    "gemma-f16",
    "gemma2-auto",
    "gemma3-auto",
    "glm4-auto",
    "gpt2-full-vocab-auto",
    "gptbigcode-f16",
    "gptoss-auto",
    "granite-auto",
    "llama-attn-bias-f16",
    "llama3-hd128-auto",
    "mistral-auto",
    "mixtral-auto",
    "olmo-auto",
    "olmo2-auto",
    "phi2-f16",
    "phi3-auto",
    "qwen2-f16",
    "qwen2-fuseqkv-f16",
    "qwen2moe-auto",
    "qwen3-auto",
    "qwen3moe-auto",
    "stablelm-auto",
    "starcoder2-auto",
];

/// Every part is within half a percent of llama.cpp's report, or within its resolution of 0.01 MiB.
fn estimates_are_what_llama_cpp_reports() {
    let peers = Peers::get();
    let mut n = 0;
    type Change = fn(&mut Setup);
    let setups: &[(&[&str], Change)] = &[
        (&["n_ctx=4096", "swa_full=0"], |_| ()),
        (&["n_ctx=8192", "swa_full=0", "n_ubatch=128", "flash_attn_type=0"], |s| {
            (s.n_ctx, s.n_ubatch, s.flash) = (Some(8192), 128, false);
        }),
        (&["n_ctx=3000", "swa_full=1", "n_ubatch=1024", "n_batch=1024"], |s| {
            (s.n_ctx, s.n_ubatch, s.n_batch, s.full_window) = (Some(3000), 1024, 1024, true);
        }),
        (&["n_ctx=2048", "swa_full=0", "type_k=8", "type_v=8"], |s| {
            (s.n_ctx, s.type_k, s.type_v) = (Some(2048), GgmlType::Q8_0, GgmlType::Q8_0);
        }),
        (&["n_ctx=4096", "swa_full=0", "n_batch=96"], |s| s.n_batch = 96),
        (&["n_ctx=8192", "swa_full=0", "n_seq_max=4"], |s| (s.n_ctx, s.n_seq) = (Some(8192), 4)),
    ];
    let glossary = peers.data("glossary-bf16.gguf");
    let others = MODELS.iter().map(|name| peers.data(&format!("hf/ref/{name}.gguf")));
    let models = share(3, [glossary].into_iter().chain(others));
    let mut bad = Vec::new();
    for path in &models {
        for (options, change) in setups {
            let mut setup = Setup::default();
            setup.n_ctx = Some(4096);
            change(&mut setup);
            // Some heads are too small for quantized caches; llama.cpp refuses those.
            let Some(real) = reported(&peers, path, options) else { continue };
            let ours = estimate(path, &setup).unwrap().cpu;
            let ours = [ours.weights, ours.cache, ours.compute, ours.output];
            for ((what, ours), real) in ["weights", "cache", "compute", "output"].iter().zip(ours).zip(real) {
                if (ours as f64 - real).abs() > real * 0.005 + 11_000.0 {
                    bad.push(format!("{} {options:?}: {what} {ours}, llama.cpp {real}", path.display()));
                }
            }
            n += 1;
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(n > 4 * models.len(), "only {n}");
}

gguf_test::tests! {
    [Peers, Shared] a_file_of_10_gb_is_edited_in_place_and_loads, estimates_are_what_llama_cpp_reports,
        edited_models_compute_the_same;
}
