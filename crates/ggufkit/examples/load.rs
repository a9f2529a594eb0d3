//! Loads a llama model into structs, as an inference engine does: `cargo run --example load -- [MODEL]`.

use ggufkit::{Model, keys};

/// A matrix, one row for each output.
struct Matrix {
    row_len: usize,
    values: Vec<f32>,
}

struct Block {
    norms: [Vec<f32>; 2],
    attention: [Matrix; 4],
    feed_forward: [Matrix; 3],
}

fn main() -> Result<(), ggufkit::Error> {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf");
    let path = std::env::args().nth(1).unwrap_or_else(|| tiny.to_owned());
    let model = Model::open(&path)?;

    // Integers of any width convert, and a key that may be missing is an Option.
    let gguf = model.gguf();
    let n_blocks: u32 = gguf.get_for_arch(keys::BLOCK_COUNT)?;
    let n_heads: u32 = gguf.get_for_arch(keys::ATTENTION_HEAD_COUNT)?;
    let n_kv_heads = gguf.get_for_arch::<Option<u32>>(keys::ATTENTION_HEAD_COUNT_KV)?.unwrap_or(n_heads);
    let rope_base = gguf.get_for_arch::<Option<f32>>(keys::ROPE_FREQ_BASE)?.unwrap_or(10_000.0);
    let tokens: Vec<&str> = gguf.get_as(keys::TOKENIZER_GGML_TOKENS)?;
    println!("{n_blocks} blocks, {n_heads} heads, {n_kv_heads} of keys, base {rope_base}, {} tokens", tokens.len());

    let mut blocks = Vec::new();
    for i in 0..n_blocks {
        let vector = |part: &str| model.tensor(&format!("blk.{i}.{part}.weight"))?.to_f32();
        let matrix = |part: &str| {
            let tensor = model.tensor(&format!("blk.{i}.{part}.weight"))?;
            Ok::<_, ggufkit::Error>(Matrix { row_len: tensor.row_len() as usize, values: tensor.to_f32()? })
        };
        blocks.push(Block {
            norms: [vector("attn_norm")?, vector("ffn_norm")?],
            attention: [matrix("attn_q")?, matrix("attn_k")?, matrix("attn_v")?, matrix("attn_output")?],
            feed_forward: [matrix("ffn_gate")?, matrix("ffn_up")?, matrix("ffn_down")?],
        });
    }
    for (i, block) in blocks.iter().enumerate() {
        let matrices = || block.attention.iter().chain(&block.feed_forward);
        let n: usize = block.norms.iter().map(Vec::len).chain(matrices().map(|m| m.values.len())).sum();
        let longest = matrices().map(|m| m.row_len).max().unwrap_or(0);
        println!("block {i}: {n} values, rows of up to {longest}");
    }
    Ok(())
}
