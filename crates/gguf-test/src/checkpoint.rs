//! Tiny checkpoints for tests.

use std::fs;
use std::path::Path;

/// A tensor of a safetensors file to write: name, format, shape, data.
pub type Tensor<'a> = (&'a str, &'a str, &'a [u64], Vec<u8>);

/// The bytes of a safetensors file with these tensors, in this order.
pub fn safetensors(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let begin = data.len();
        data.extend_from_slice(bytes);
        entries.push(format!(
            r#"{name:?}:{{"dtype":{dtype:?},"shape":{shape:?},"data_offsets":[{begin},{}]}}"#,
            data.len()
        ));
    }
    let json = format!("{{{}}}", entries.join(","));
    [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &data].concat()
}

/// `n` single-precision values from a small generator, as bytes.
pub fn f32_data(seed: u32, n: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 24) as f32 - 0.5) * 4.0
    };
    (0..n).flat_map(|_| next().to_le_bytes()).collect()
}

/// A SentencePiece model with these pieces, in the protocol buffer format of `tokenizer.model`: repeated field 1 with the piece, its score
/// and its type.
pub fn sentencepiece(pieces: &[(&str, f32, u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (piece, score, kind) in pieces {
        let mut inner = vec![0x0a, piece.len() as u8];
        inner.extend(piece.as_bytes());
        inner.push(0x15);
        inner.extend(score.to_le_bytes());
        inner.extend([0x18, *kind]);
        out.extend([0x0a, inner.len() as u8]);
        out.extend(inner);
    }
    out
}

pub const VOCAB: u64 = 8;
pub const HIDDEN: u64 = 16;
pub const HEADS: u64 = 2;
pub const KV_HEADS: u64 = 1;
pub const WIDE: u64 = 24;
pub const BLOCKS: u64 = 2;

/// Names and shapes of a Llama checkpoint of [`BLOCKS`] blocks.
pub fn llama_tensors() -> Vec<(String, Vec<u64>)> {
    let kv = HIDDEN / HEADS * KV_HEADS;
    let mut list = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
        ("lm_head.weight".to_owned(), vec![VOCAB, HIDDEN]),
    ];
    for b in 0..BLOCKS {
        let rows: &[(&str, &[u64])] = &[
            ("input_layernorm", &[HIDDEN]),
            ("post_attention_layernorm", &[HIDDEN]),
            ("self_attn.q_proj", &[HIDDEN, HIDDEN]),
            ("self_attn.k_proj", &[kv, HIDDEN]),
            ("self_attn.v_proj", &[kv, HIDDEN]),
            ("self_attn.o_proj", &[HIDDEN, HIDDEN]),
            ("mlp.gate_proj", &[WIDE, HIDDEN]),
            ("mlp.up_proj", &[WIDE, HIDDEN]),
            ("mlp.down_proj", &[HIDDEN, WIDE]),
        ];
        list.extend(rows.iter().map(|(n, s)| (format!("model.layers.{b}.{n}.weight"), s.to_vec())));
    }
    list
}

/// The data of the tensor with index `i` in [`llama_tensors`].
pub fn llama_data(i: usize, shape: &[u64]) -> Vec<u8> {
    f32_data(i as u32, shape.iter().product())
}

/// Writes a whole Llama checkpoint in single precision, in one file.
pub fn write_llama(dir: &Path) {
    let list = llama_tensors();
    let tensors: Vec<Tensor<'_>> =
        list.iter().enumerate().map(|(i, (n, s))| (n.as_str(), "F32", s.as_slice(), llama_data(i, s))).collect();
    fs::write(dir.join("model.safetensors"), safetensors(&tensors)).unwrap();
    write_small_files(dir);
}

/// Writes the configuration and the tokenizer of [`write_llama`].
pub fn write_small_files(dir: &Path) {
    let config = format!(
        r#"{{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":{HIDDEN},"num_attention_heads":{HEADS},
        "num_key_value_heads":{KV_HEADS},"num_hidden_layers":{BLOCKS},"intermediate_size":{WIDE},"vocab_size":{VOCAB}}}"#
    );
    fs::write(dir.join("config.json"), config).unwrap();
    let pieces = [
        ("<unk>", 0.0, 2),
        ("<s>", 0.0, 3),
        ("</s>", 0.0, 3),
        ("<0x0A>", 0.0, 6),
        ("\u{2581}a", -1.0, 1),
        ("b", -2.0, 1),
        ("ab", -3.0, 1),
        ("c", -4.5, 1),
    ];
    fs::write(dir.join("tokenizer.model"), sentencepiece(&pieces)).unwrap();
}
