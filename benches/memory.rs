//! Peak memory of each command that processes whole files, for a model of 10 GB: `cargo build --release -p gguf-cli &&
//! cargo bench -p gguf-benches --bench memory [-- FOLDER]`. Fails if a command uses 200 MiB or more.
//!
//! The model is sparse, in FOLDER (by default a temporary one). Outputs take up to 20 GB of the disk; they are deleted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use gguf_benches::{Outcome, program, timed};
use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::Model;

/// In KiB.
const LIMIT: u64 = 200 << 10;

/// Commands, and their outputs, which are deleted afterwards. Words are separated by spaces.
const COMMANDS: &[(&str, &[&str])] = &[
    ("show model.gguf --kv --tensors", &[]),
    ("check model.gguf --data", &[]),
    ("estimate model.gguf", &[]),
    ("cat model.gguf blk.3.ffn_up.weight", &[]),
    ("recipe show model.gguf", &[]),
    ("hash model.gguf --all", &[]),
    ("card model.gguf", &[]),
    ("diff model.gguf other.gguf", &[]),
    ("set model.gguf general.name=Other", &[]),
    ("rename model.gguf general.name=general.basename", &[]),
    ("unset model.gguf general.basename", &[]),
    ("edit model.gguf", &[]),
    ("set model.gguf general.name=Other --output out.gguf", &["out.gguf"]),
    ("split model.gguf shards --max-size 2GB", &[]),
    ("split shards-00001-of-00006.gguf again --max-size 3GB", &["again-"]),
    ("merge shards-00001-of-00006.gguf -o out.gguf", &["out.gguf", "shards-"]),
    ("swap model.gguf out.gguf", &["out.gguf"]),
    ("upgrade old.gguf out.gguf", &["out.gguf"]),
    ("reorder model.gguf out.gguf --by size", &["out.gguf"]),
    ("rm-tensor model.gguf out.gguf output.weight", &["out.gguf"]),
    ("extract model.gguf token_embd.weight -o values.npy", &[]),
    ("add-tensor model.gguf out.gguf new.weight values.npy", &["out.gguf", "values.npy"]),
    ("graft model.gguf out.gguf --from other.gguf --tensors blk.1.* --replace", &["out.gguf"]),
    ("extract model.gguf * -o values.safetensors", &["values.safetensors"]),
    ("repair model.gguf", &[]),
    ("repair cut.gguf -o out.gguf", &["out.gguf"]),
    ("repair cut.gguf --from other.gguf", &["cut.gguf"]),
    ("quantize model.gguf out.gguf Q8_0", &["out.gguf"]),
    ("quantize model.gguf out-{ftype}.gguf Q4_0 Q8_0", &["out-"]),
];

fn head() -> Head {
    const EMBD: u64 = 4096;
    const FF: u64 = 11_008;
    const LAYERS: u32 = 24;
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", "Sparse");
    head.set("general.file_type", 1u32);
    head.set("tokenizer.ggml.model", "none");
    head.set("llama.block_count", LAYERS);
    head.set("llama.context_length", 4096u32);
    head.set("llama.embedding_length", EMBD as u32);
    head.set("llama.feed_forward_length", FF as u32);
    head.set("llama.attention.head_count", 32u32);
    head.set("llama.attention.head_count_kv", 32u32);
    head.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    let mut add = |name: String, shape: &[u64]| {
        let ty = if shape.len() == 1 { GgmlType::F32 } else { GgmlType::F16 };
        head.tensors.push(TensorInfo::new(name.into_bytes(), shape.to_vec(), ty));
    };
    add("token_embd.weight".into(), &[EMBD, 32_000]);
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("attn_norm", &[EMBD][..]),
            ("attn_q", &[EMBD, EMBD]),
            ("attn_k", &[EMBD, EMBD]),
            ("attn_v", &[EMBD, EMBD]),
            ("attn_output", &[EMBD, EMBD]),
            ("ffn_norm", &[EMBD]),
            ("ffn_gate", &[EMBD, FF]),
            ("ffn_up", &[EMBD, FF]),
            ("ffn_down", &[FF, EMBD]),
        ] {
            add(format!("blk.{layer}.{name}.weight"), shape);
        }
    }
    add("output_norm.weight".into(), &[EMBD]);
    add("output.weight".into(), &[EMBD, 32_000]);
    head
}

/// Writes the model under several names: one to edit, one to compare with, one of version 2, and a truncated one.
fn write(dir: &Path) -> Outcome<u64> {
    let head = head();
    let layout = head.layout()?;
    let bytes = layout.padded_head()?;
    for (name, version, missing) in
        [("model.gguf", 3u32, 0), ("other.gguf", 3, 0), ("old.gguf", 2, 0), ("cut.gguf", 3, 1_000_000)]
    {
        let mut bytes = bytes.clone();
        // The version follows the magic.
        bytes.splice(4..8, version.to_le_bytes());
        let path = dir.join(name);
        fs::write(&path, bytes)?;
        File::options().write(true).open(path)?.set_len(layout.file_bytes() - missing)?;
    }
    Model::open(dir.join("old.gguf"))?;
    Ok(layout.file_bytes())
}

fn remove(dir: &Path, prefixes: &[&str]) -> Outcome<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if prefixes.iter().any(|prefix| entry.file_name().to_string_lossy().starts_with(prefix)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn measure(dir: &Path) -> Outcome<bool> {
    let program = program()?;
    println!("a sparse model of {:.2} GB", write(dir)? as f64 / 1e9);
    let mut most = 0;
    for (line, outputs) in COMMANDS {
        let mut command = Command::new(&program);
        command.args(line.split(' ')).current_dir(dir).env("VISUAL", "true").stderr(Stdio::null());
        let (took, peak) = timed(command)?;
        remove(dir, outputs)?;
        println!("{:5} MiB {:7.1} s  gguf {line}", peak.div_ceil(1024), took.as_secs_f64());
        most = most.max(peak);
    }
    println!("{:5} MiB at most", most.div_ceil(1024));
    Ok(most < LIMIT)
}

fn main() -> Outcome<ExitCode> {
    let kept = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).map(PathBuf::from);
    let dir = kept.clone().unwrap_or_else(|| std::env::temp_dir().join("gguf-bench-memory"));
    fs::create_dir_all(&dir)?;
    let is_below = measure(&dir)?;
    if kept.is_none() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(if is_below { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
