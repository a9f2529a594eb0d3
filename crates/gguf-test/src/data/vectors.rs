//! The recorded results of ggml: the rows and blocks, and their files.
//!
//! `vectors/q4_K.bin` contains the output of `ggml_quantize_chunk` for the rows of [`cases`], one case after the other.
//! `vectors/decoded.txt` has a line for each type that ggml decodes: its name, the [`Hash`](crate::random::Hash) of the values of [`packed`], and
//! the bits of the first four of them. NaNs are avoided in both, because their signs depend on the machine.
//!
//! Recorded with `cargo bench -p gguf-benches --bench exact -- --record crates/gguf-quants/tests/vectors`.

use gguf_format::GgmlType;
use gguf_quants::codec::Codec;

use super::{Kind, Scales, Weights, blocks, matrices};
use crate::random::Random;

/// Rows to encode.
#[derive(Debug, Clone)]
pub struct Case {
    /// The kind of numbers.
    pub kind: Kind,
    /// The kind of matrix.
    pub weights: Weights,
    /// Values in a row.
    pub row_len: usize,
    /// The rows.
    pub values: Vec<f32>,
    /// The matrix.
    pub matrix: Option<Vec<f32>>,
}

/// The recorded rows of a type.
pub fn cases(codec: &Codec) -> Vec<Case> {
    let block_len = codec.ty.info().map_or(1, |t| t.block_len as usize);
    let mut cases = vec![];
    for &weights in matrices(codec) {
        for kind in Kind::ALL {
            let wanted = match weights {
                Weights::None | Weights::Positive => kind != Kind::Huge,
                _ => matches!(kind, Kind::Normal | Kind::Adversarial),
            };
            if !wanted {
                continue;
            }
            let many = kind == Kind::Adversarial && matches!(weights, Weights::None | Weights::Positive);
            let len = if many { 1024 } else { 256 } / if block_len == 1 { 8 } else { 1 };
            let row_len = block_len.max(len / 4);
            let mut random = Random::new(&format!("vector {} {} {}", codec.ty, kind.name(), weights.name()), 0);
            let values = kind.values(codec.ty, &mut random, len);
            let matrix = weights.columns(&mut random, row_len);
            cases.push(Case { kind, weights, row_len, values, matrix });
        }
    }
    cases
}

/// The blocks to decode.
pub fn packed(ty: GgmlType) -> Vec<u8> {
    let n_blocks = if ty.info().is_some_and(|t| t.block_len == 1) { 512 } else { 24 };
    blocks(ty, Scales::Finite, &mut Random::new(&format!("vector {ty}"), 0), n_blocks)
}
