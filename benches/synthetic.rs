//! Writes a Llama of about a billion weights in half precision, to quantize: `cargo run --release -p gguf-benches --bin synthetic -- OUT
//! [one-tensor | imatrix]`. The numbers are random; the shapes are those of a real model. With `one-tensor`, a single matrix of 4 GB;
//! with `imatrix`, an importance matrix for the model.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use gguf_format::{Array, GgmlType, Head, Str, TensorInfo, Value, ValueRef, ValueType};
use gguf_io::Writer;
use gguf_quants::float::f32_to_f16;

const N_EMBD: u64 = 2048;
const N_FF: u64 = 8192;
const N_LAYER: u32 = 16;
const N_HEAD: u32 = 32;
const N_HEAD_KV: u32 = 8;
const N_VOCAB: u64 = 32_000;

fn model_head(one_tensor: bool) -> Head {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", "synthetic");
    head.set("general.file_type", 1u32);
    head.set("llama.block_count", if one_tensor { 1 } else { N_LAYER });
    head.set("llama.context_length", 2048u32);
    head.set("llama.embedding_length", N_EMBD as u32);
    head.set("llama.feed_forward_length", N_FF as u32);
    head.set("llama.attention.head_count", N_HEAD);
    head.set("llama.attention.head_count_kv", N_HEAD_KV);
    head.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    let matrix = |name: String, shape: [u64; 2]| TensorInfo::new(name.into_bytes(), shape.to_vec(), GgmlType::F16);
    if one_tensor {
        head.tensors = vec![matrix("token_embd.weight".into(), [N_FF, 262_144])];
        return head;
    }
    head.tensors.push(matrix("token_embd.weight".into(), [N_EMBD, N_VOCAB]));
    let kv = N_EMBD / u64::from(N_HEAD) * u64::from(N_HEAD_KV);
    for layer in 0..N_LAYER {
        for (name, shape) in [
            ("attn_q", [N_EMBD, N_EMBD]),
            ("attn_k", [N_EMBD, kv]),
            ("attn_v", [N_EMBD, kv]),
            ("attn_output", [N_EMBD, N_EMBD]),
            ("ffn_gate", [N_EMBD, N_FF]),
            ("ffn_up", [N_EMBD, N_FF]),
            ("ffn_down", [N_FF, N_EMBD]),
        ] {
            head.tensors.push(matrix(format!("blk.{layer}.{name}.weight"), shape));
        }
        for name in ["attn_norm", "ffn_norm"] {
            let name = format!("blk.{layer}.{name}.weight").into_bytes();
            head.tensors.push(TensorInfo::new(name, vec![N_EMBD], GgmlType::F32));
        }
    }
    head.tensors.push(TensorInfo::new(b"output_norm.weight".to_vec(), vec![N_EMBD], GgmlType::F32));
    head.tensors.push(matrix("output.weight".into(), [N_EMBD, N_VOCAB]));
    head
}

/// The head of an importance matrix for the matrices of the blocks.
fn imatrix_head() -> Head {
    let mut head = Head::default();
    head.set("general.type", "imatrix");
    head.set("imatrix.chunk_count", 1u32);
    head.set("imatrix.chunk_size", 512u32);
    let mut datasets = Array::new(ValueType::STRING);
    // A string into an array of strings.
    let _ = datasets.push(ValueRef::String(Str(b"synthetic")));
    head.set("imatrix.datasets", Value::Array(datasets));
    for t in model_head(false).tensors.iter().filter(|t| t.shape.len() == 2 && t.name.starts_with(b"blk.")) {
        for (part, n) in [(&b".in_sum2"[..], t.shape[0]), (b".counts", 1)] {
            head.tensors.push(TensorInfo::new([&t.name, part].concat(), vec![n, 1], GgmlType::F32));
        }
    }
    head
}

/// Approximately normal numbers, each the sum of four uniform ones.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let sum: i32 = (0..4).map(|i| i32::from((self.0 >> (16 * i)) as i16)).sum();
        sum as f32 * (1.0 / (1 << 20) as f32)
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(out), kind) = (args.next(), args.next()) else {
        eprintln!(
            "give the file to write, and `one-tensor` for a single large one, or `imatrix` for an importance matrix"
        );
        return ExitCode::from(2);
    };
    let head = match kind.as_deref() {
        None => model_head(false),
        Some("one-tensor") => model_head(true),
        Some("imatrix") => imatrix_head(),
        Some(other) => {
            eprintln!("{other} is nothing that can be written");
            return ExitCode::from(2);
        }
    };
    let write = || -> Result<(), Box<dyn std::error::Error>> {
        let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, File::create(&out)?), &head)?;
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut piece = vec![0u8; 1 << 16];
        for tensor in &head.tensors {
            let mut left = usize::try_from(tensor.n_bytes()?)?;
            let mut to = writer.begin(&tensor.name)?;
            while left > 0 {
                let n = left.min(piece.len());
                match tensor.ty {
                    // Tokens seen, a whole number.
                    GgmlType::F32 if tensor.name.ends_with(b".counts") => {
                        piece[..n].as_chunks_mut().0.iter_mut().for_each(|b| *b = 64f32.to_le_bytes());
                    }
                    GgmlType::F32 => {
                        piece[..n]
                            .as_chunks_mut()
                            .0
                            .iter_mut()
                            .for_each(|b| *b = (1.0 + numbers.next().abs()).to_le_bytes());
                    }
                    _ => {
                        piece[..n]
                            .as_chunks_mut()
                            .0
                            .iter_mut()
                            .for_each(|b| *b = f32_to_f16(numbers.next()).to_le_bytes());
                    }
                }
                to.write_all(&piece[..n])?;
                left -= n;
            }
            to.end()?;
        }
        writer.finish()?;
        Ok(())
    };
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{out}: {e}");
            ExitCode::FAILURE
        }
    }
}
