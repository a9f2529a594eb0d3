//! Time and memory of `gguf convert` for checkpoints of two gigabytes, compared with copying the files: `cargo build --release -p gguf-cli &&
//! cargo bench -p gguf-benches --bench convert [-- FOLDER]`.
//!
//! One checkpoint is a Llama, whose tensors are copied except for the rows of the query and key matrices. The other is a mixture of experts
//! with all experts of a block in one tensor, which is transposed and split. Every number is a function of its position, so outputs are
//! verified without the checkpoint before anything is printed. The checkpoints are written to FOLDER (by default a temporary one), which
//! needs 8 GB; those of an earlier run are reused.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gguf_benches::{Outcome, median, program, timed};
use gguf_io::{ModelFile, ReadAt};
use serde_json::{Value, json};

/// Number of runs, of which the median is reported; conversion and copying alternate.
const ROUNDS: usize = 5;

/// Elements of each output tensor to verify.
const SAMPLES: u64 = 4096;

/// A tensor of a checkpoint, and the output tensors made from it: their names, and the origin of element `i`.
struct Tensor {
    name: String,
    shape: Vec<u64>,
    outputs: Vec<(String, Origin)>,
}

/// The position of an output element in the checkpoint's tensor.
type Origin = Box<dyn Fn(u64) -> u64>;

/// The bits of a bfloat16 number at a position of a tensor: finite, and small enough for any type.
fn bits(tensor: u64, place: u64) -> u16 {
    let mixed = (place ^ tensor << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let random = (mixed ^ mixed >> 29) as u16;
    // A sign, an exponent between 2^-7 and 2^0, and a fraction.
    random & 0x807f | (0x3c00 + (random >> 4 & 0x0380))
}

fn copied(name: &str, shape: &[u64], output: &str) -> Tensor {
    let outputs: Vec<(String, Origin)> = vec![(output.to_owned(), Box::new(|i| i))];
    Tensor { name: name.to_owned(), shape: shape.to_vec(), outputs }
}

const EMBD: u64 = 2048;
const VOCAB: u64 = 32_000;

fn llama() -> (Value, Vec<Tensor>) {
    let (ff, layers, heads, kv) = (8192, 16, 32, 8);
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": EMBD, "intermediate_size": ff,
        "num_attention_heads": heads, "num_key_value_heads": kv, "num_hidden_layers": layers, "vocab_size": VOCAB,
    });
    let mut tensors = vec![
        copied("model.embed_tokens.weight", &[VOCAB, EMBD], "token_embd.weight"),
        copied("lm_head.weight", &[VOCAB, EMBD], "output.weight"),
    ];
    let head = EMBD / heads;
    let permuted = move |i: u64| {
        let (row, column) = (i / EMBD, i % EMBD);
        let (in_head, first) = (row % head, row - row % head);
        (first + in_head % 2 * (head / 2) + in_head / 2) * EMBD + column
    };
    for layer in 0..layers {
        let from = |part: &str| format!("model.layers.{layer}.{part}.weight");
        let to = |part: &str| format!("blk.{layer}.{part}.weight");
        for (part, output, rows) in [("q_proj", "attn_q", EMBD), ("k_proj", "attn_k", head * kv)] {
            let mut tensor = copied(&from(&format!("self_attn.{part}")), &[rows, EMBD], &to(output));
            tensor.outputs[0].1 = Box::new(permuted);
            tensors.push(tensor);
        }
        tensors.push(copied(&from("self_attn.v_proj"), &[head * kv, EMBD], &to("attn_v")));
        tensors.push(copied(&from("self_attn.o_proj"), &[EMBD, EMBD], &to("attn_output")));
        tensors.push(copied(&from("mlp.gate_proj"), &[ff, EMBD], &to("ffn_gate")));
        tensors.push(copied(&from("mlp.up_proj"), &[ff, EMBD], &to("ffn_up")));
        tensors.push(copied(&from("mlp.down_proj"), &[EMBD, ff], &to("ffn_down")));
    }
    (config, tensors)
}

/// A mixture of experts in the layout of Llama 4.
fn experts() -> (Value, Vec<Tensor>) {
    let (ff, layers, experts, heads, kv) = (1024, 8, 16, 16, 4);
    let config = json!({
        "architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text", "hidden_size": EMBD, "intermediate_size": ff,
        "intermediate_size_mlp": 2 * ff, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": EMBD / heads,
        "num_hidden_layers": layers, "vocab_size": VOCAB, "num_local_experts": experts, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "max_position_embeddings": 8192,
        "attention_chunk_size": 8192,
    });
    let mut tensors = vec![copied("model.embed_tokens.weight", &[VOCAB, EMBD], "token_embd.weight")];
    for layer in 0..layers {
        let to = |part: &str| format!("blk.{layer}.{part}.weight");
        let part = |name: &str| format!("model.layers.{layer}.{name}");
        // For each expert, a row of the checkpoint contains the weights of one input for the gate, then for the up projection.
        let half = |first: u64| -> Origin {
            Box::new(move |i| {
                let (expert, rest) = (i / (ff * EMBD), i % (ff * EMBD));
                expert * 2 * ff * EMBD + rest % EMBD * 2 * ff + first + rest / EMBD
            })
        };
        let down = move |i: u64| {
            let (expert, rest) = (i / (ff * EMBD), i % (ff * EMBD));
            expert * ff * EMBD + rest % ff * EMBD + rest / ff
        };
        let mut gate_up = copied(&part("feed_forward.experts.gate_up_proj"), &[experts, EMBD, 2 * ff], "");
        gate_up.outputs = vec![(to("ffn_gate_exps"), half(0)), (to("ffn_up_exps"), half(ff))];
        let mut out = copied(&part("feed_forward.experts.down_proj"), &[experts, ff, EMBD], "");
        out.outputs = vec![(to("ffn_down_exps"), Box::new(down))];
        tensors.extend([gate_up, out]);
        let shared = [
            ("gate_proj", "ffn_gate_shexp", [ff, EMBD]),
            ("up_proj", "ffn_up_shexp", [ff, EMBD]),
            ("down_proj", "ffn_down_shexp", [EMBD, ff]),
        ];
        for (name, output, shape) in shared {
            tensors.push(copied(&part(&format!("feed_forward.shared_expert.{name}.weight")), &shape, &to(output)));
        }
        let head = EMBD / heads;
        for (name, output, rows) in [("v_proj", "attn_v", head * kv), ("o_proj", "attn_output", EMBD)] {
            tensors.push(copied(&part(&format!("self_attn.{name}.weight")), &[rows, EMBD], &to(output)));
        }
        // Llama 4 already rotates adjacent pairs.
        for (name, output, rows) in [("q_proj", "attn_q", EMBD), ("k_proj", "attn_k", head * kv)] {
            tensors.push(copied(&part(&format!("self_attn.{name}.weight")), &[rows, EMBD], &to(output)));
        }
    }
    (config, tensors)
}

/// Vectors and small matrices required besides the large tensors; they are zero.
fn small(config: &Value) -> Vec<(String, Vec<u64>)> {
    let mut small = vec![("model.norm.weight".to_owned(), vec![EMBD])];
    for layer in 0..config["num_hidden_layers"].as_u64().unwrap_or(0) {
        small.push((format!("model.layers.{layer}.input_layernorm.weight"), vec![EMBD]));
        small.push((format!("model.layers.{layer}.post_attention_layernorm.weight"), vec![EMBD]));
        if let Some(experts) = config["num_local_experts"].as_u64() {
            small.push((format!("model.layers.{layer}.feed_forward.router.weight"), vec![experts, EMBD]));
        }
    }
    small
}

/// Writes a checkpoint, unless it exists.
fn write(dir: &Path, config: &Value, tensors: &[Tensor]) -> Outcome<()> {
    let file = dir.join("model.safetensors");
    if file.exists() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    fs::write(dir.join("config.json"), serde_json::to_vec_pretty(config)?)?;
    // An arbitrary vocabulary with one merge; it takes no time.
    let texts = ["t".to_owned(), "1".to_owned()].into_iter().chain((0..254).map(|i| format!("t{i}")));
    let vocab: serde_json::Map<String, Value> = texts.zip(0..).map(|(text, id): (_, u32)| (text, json!(id))).collect();
    let model = json!({"type": "BPE", "vocab": vocab, "merges": ["t 1"]});
    fs::write(dir.join("tokenizer.json"), serde_json::to_vec(&json!({"model": model, "added_tokens": []}))?)?;
    let small = small(config);
    let large = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone()));
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, shape) in large.chain(small) {
        let start = end;
        end += shape.iter().product::<u64>() * 2;
        header.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}));
    }
    let header = serde_json::to_vec(&header)?;
    let partial = dir.join("model.partial");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let mut written = 0;
    for (number, tensor) in tensors.iter().enumerate() {
        let n: u64 = tensor.shape.iter().product();
        for place in 0..n {
            out.write_all(&bits(number as u64, place).to_le_bytes())?;
        }
        written += n * 2;
    }
    out.write_all(&vec![0; usize::try_from(end - written)?])?;
    out.into_inner()?.sync_all()?;
    fs::rename(partial, file)?;
    Ok(())
}

/// Compares evenly spread elements of the output with the checkpoint.
fn check(file: &Path, tensors: &[Tensor]) -> Outcome<()> {
    let model = ModelFile::open(file)?;
    let bytes = File::open(file)?;
    for (number, tensor) in tensors.iter().enumerate() {
        for (name, source) in &tensor.outputs {
            let info = model.gguf().tensors().find(|info| info.name.as_bytes() == name.as_bytes());
            let info = info.ok_or_else(|| format!("no {name}"))?;
            let n: u64 = info.dims.product();
            let start = model.gguf().data_offset() + info.offset;
            for sample in 0..SAMPLES {
                let place = (n / SAMPLES * sample + sample % 97).min(n - 1);
                let mut found = [0; 2];
                bytes.read_exact_at(start + place * 2, &mut found)?;
                let expected = bits(number as u64, source(place));
                if u16::from_le_bytes(found) != expected {
                    return Err(format!("{name}: element {place} is not that of the checkpoint").into());
                }
            }
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let kept = std::env::args().skip(1).find(|a| !a.starts_with('-')).map(PathBuf::from);
    let dir = kept.clone().unwrap_or_else(|| std::env::temp_dir().join("gguf-bench-convert"));
    fs::create_dir_all(&dir)?;
    let program = program()?;
    println!("| checkpoint | GB | cp and sync, s | convert, s | rate to cp | peak, MiB |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, (config, tensors)) in [("Llama", llama()), ("experts, transposed", experts())] {
        let folder = dir.join(name.split(',').next().unwrap_or(name));
        write(&folder, &config, &tensors)?;
        let (weights, copy, out) = (folder.join("model.safetensors"), dir.join("copy"), dir.join("out.gguf"));
        let bytes = fs::metadata(&weights)?.len();
        let (mut copies, mut runs, mut peak) = (Vec::new(), Vec::new(), 0);
        for round in 0..2 * ROUNDS {
            // Equal conditions for both: nothing left to write, and memory that was freed long ago, which a virtual machine may have
            // returned to its host.
            assert!(Command::new("sync").status()?.success(), "sync fails");
            std::thread::sleep(Duration::from_secs(4));
            if round % 2 == 0 {
                let start = Instant::now();
                let status = Command::new("cp").arg(&weights).arg(&copy).status()?;
                assert!(status.success(), "cp fails");
                File::open(&copy)?.sync_all()?;
                copies.push(start.elapsed());
                fs::remove_file(&copy)?;
            } else {
                let mut command = Command::new(&program);
                command.arg("convert").arg(&folder).arg("-o").arg(&out);
                command.args(["--type", "bf16", "--pre", "gpt-2", "-f", "-q", "-j", "2"]).stderr(Stdio::null());
                let (took, kib) = timed(command)?;
                check(&out, &tensors)?;
                fs::remove_file(&out)?;
                runs.push(took);
                peak = peak.max(kib);
            }
        }
        let (copied, took): (Duration, Duration) = (median(copies), median(runs));
        println!(
            "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
            bytes as f64 / 1e9,
            copied.as_secs_f64(),
            took.as_secs_f64(),
            copied.as_secs_f64() / took.as_secs_f64(),
            peak >> 10,
        );
    }
    if kept.is_none() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}
