//! The table of types in the crate's documentation matches the code.
#![cfg(feature = "iq")]

use std::fmt::Write;

use gguf_format::TYPES;
use gguf_quants::Rows;
use gguf_quants::codec::{Matrix, codec};
use gguf_quants::measure::{RowError, TensorError};
use gguf_test::data::{Kind, Weights};
use gguf_test::random::Random;

const ROW: usize = 256;
const ROWS: usize = 256;

/// The relative error of normal values in percent, with an even matrix where the type needs one; `None` for types that are only read.
fn error(ty: gguf_format::GgmlType) -> Option<f64> {
    let codec = codec(ty).filter(|c| c.can_encode())?;
    let values = Kind::Normal.values(ty, &mut Random::new("table", 0), ROW * ROWS);
    let weights = Weights::Positive.columns(&mut Random::new("table", 1), ROW).map(|w| vec![1.0; w.len()]);
    let weights = weights.filter(|_| codec.matrix == Matrix::Required);
    let mut packed = vec![0; codec.packed_bytes(values.len())?];
    codec.encode(Rows::new(&values, ROW, weights.as_deref()).unwrap(), &mut packed).unwrap();
    let mut decoded = vec![0.0; values.len()];
    codec.decode(&packed, &mut decoded).unwrap();
    let mut sum = TensorError::new();
    for (i, (x, y)) in values.chunks(ROW).zip(decoded.chunks(ROW)).enumerate() {
        sum.add(i as u64, &RowError::new(x, y, None));
    }
    Some(sum.figures().relative * 100.0)
}

#[test]
fn the_documented_table_is_true() {
    let mut table = String::from(
        "| type | values in a block | bytes | bits per weight | importance matrix | error |\n\
         |---|---:|---:|---:|---|---:|\n",
    );
    for row in TYPES.iter().filter(|row| !row.removed) {
        let ty = gguf_format::GgmlType(row.id);
        let Some(codec) = codec(ty) else { panic!("{ty} has no codec") };
        let matrix = match codec.matrix {
            _ if !codec.can_encode() => "only read",
            Matrix::Ignored => "takes no notice",
            Matrix::Used => "weighs errors by it",
            Matrix::Required => "needs one",
        };
        let module = match ty {
            t if !t.is_quantized() => "plain".to_owned(),
            t => t.to_string().to_lowercase(),
        };
        let error = match error(ty) {
            Some(0.0) => "0".to_owned(),
            Some(e) if e < 0.1 => format!("{e:.4} %"),
            Some(e) => format!("{e:.2} %"),
            None => "".to_owned(),
        };
        let bits = f64::from(row.block_bytes) * 8.0 / f64::from(row.block_len);
        writeln!(
            table,
            "| [{ty}](crate::codec::{module}) | {} | {} | {bits} | {matrix} | {error} |",
            row.block_len, row.block_bytes
        )
        .unwrap();
    }
    let documented = include_str!("../../TYPES.md");
    assert!(documented.contains(&table), "TYPES.md should say:\n\n{table}");
}
