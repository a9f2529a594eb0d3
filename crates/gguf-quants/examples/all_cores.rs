//! Times `quantize` and `dequantize` on all cores: `cargo run --profile python -p gguf-quants --example all_cores`.
//!
//! For each type a line: its name, and the least seconds of several runs to encode and to decode 64 Mi values. The benchmark of the Python module compares
//! these with its own.

use std::time::Instant;

use gguf_format::GgmlType;
use gguf_quants::{CodecError, dequantize, quantize};

const N: usize = 64 << 20;
const ROW: usize = 4096;
const RUNS: usize = 3;

fn main() -> Result<(), CodecError> {
    // Numbers between -1 and 1, as of weights: the sum of four that are evenly spread.
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let values: Vec<f32> = (0..N).map(|_| (next() + next() + next() + next()) / 2.0).collect();
    for ty in [GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q4_K, GgmlType::Q6_K] {
        let (mut encode, mut decode) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..RUNS {
            let start = Instant::now();
            let packed = quantize(ty, &values, ROW, None, None)?;
            encode = encode.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            let decoded = dequantize(ty, &packed)?;
            decode = decode.min(start.elapsed().as_secs_f64());
            assert_eq!(decoded.len(), N);
        }
        println!("{} {encode} {decode}", ty.to_string().to_ascii_uppercase());
    }
    Ok(())
}
