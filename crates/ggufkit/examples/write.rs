//! Writes a small model of the llama architecture: `cargo run --example write -- [OUT]`.

use std::path::PathBuf;

use ggufkit::{GgmlType, Head, TensorInfo};

/// Embedding length, feed-forward length, and number of blocks.
const EMBD: u64 = 32;
const FF: u64 = 64;
const BLOCKS: u32 = 1;

fn main() -> Result<(), ggufkit::Error> {
    let default = || std::env::temp_dir().join(format!("tiny-{}.gguf", std::process::id()));
    let out = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);

    let tokens: Vec<String> =
        ["<unk>", "<s>", "</s>"].map(String::from).into_iter().chain(('a'..='z').map(String::from)).collect();
    let vocab = tokens.len() as u64;
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("general.name", "Tiny");
    head.set("general.description", "A model of pseudo-random weights");
    head.set("llama.block_count", BLOCKS);
    head.set("llama.context_length", 128u32);
    head.set("llama.embedding_length", EMBD as u32);
    head.set("llama.feed_forward_length", FF as u32);
    head.set("llama.attention.head_count", 2u32);
    head.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    head.set("llama.rope.dimension_count", EMBD as u32 / 2);
    head.set("tokenizer.ggml.model", "llama");
    head.set("tokenizer.ggml.scores", (0..vocab).map(|i| -(i as f32)).collect::<Vec<f32>>());
    head.set("tokenizer.ggml.token_type", (0..vocab).map(|i| [2, 3, 3, 1][i.min(3) as usize]).collect::<Vec<i32>>());
    head.set("tokenizer.ggml.tokens", tokens);
    head.set("tokenizer.ggml.bos_token_id", 1u32);
    head.set("tokenizer.ggml.eos_token_id", 2u32);
    head.set("tokenizer.ggml.unknown_token_id", 0u32);
    head.set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");

    let mut add = |name: &str, shape: &[u64]| {
        let ty = if shape.len() == 1 { GgmlType::F32 } else { GgmlType::BF16 };
        head.tensors.push(TensorInfo::new(name, shape, ty));
    };
    add("token_embd.weight", &[EMBD, vocab]);
    add("output_norm.weight", &[EMBD]);
    add("output.weight", &[EMBD, vocab]);
    for block in 0..BLOCKS {
        for norm in ["attn_norm", "ffn_norm"] {
            add(&format!("blk.{block}.{norm}.weight"), &[EMBD]);
        }
        for matrix in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            add(&format!("blk.{block}.{matrix}.weight"), &[EMBD, EMBD]);
        }
        add(&format!("blk.{block}.ffn_gate.weight"), &[EMBD, FF]);
        add(&format!("blk.{block}.ffn_up.weight"), &[EMBD, FF]);
        add(&format!("blk.{block}.ffn_down.weight"), &[FF, EMBD]);
    }

    let mut state = 1u32;
    let data: Vec<Vec<u8>> = head.tensors.iter().map(|tensor| weights(tensor, &mut state)).collect();
    ggufkit::write(&out, &head, data)?;
    println!("{}", out.display());
    Ok(())
}

/// Ones for norms, small numbers for matrices.
fn weights(tensor: &TensorInfo, state: &mut u32) -> Vec<u8> {
    let mut next = || {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((*state >> 24) as f32 - 128.0) / 1024.0
    };
    let n: u64 = tensor.shape.iter().product();
    match tensor.ty {
        GgmlType::F32 => (0..n).flat_map(|_| 1f32.to_le_bytes()).collect(),
        // A bfloat16 is the upper half of a float.
        _ => (0..n).flat_map(|_| ((next().to_bits() >> 16) as u16).to_le_bytes()).collect(),
    }
}
