//! Quantizes the values of a tensor to several types and measures the error:
//! `cargo run --example quantize_values -- [MODEL [TENSOR]]`.

use ggufkit::quants::{dequantize, quantize};
use ggufkit::{GgmlType, Model};

fn main() -> Result<(), ggufkit::Error> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf").to_owned());
    let name = args.next().unwrap_or_else(|| "token_embd.weight".to_owned());

    let model = Model::open(path)?;
    let tensor = model.tensor(&name)?;
    let (values, row_len) = (tensor.to_f32()?, tensor.row_len() as usize);
    let squares: f64 = values.iter().map(|x| f64::from(*x).powi(2)).sum();

    for ty in [GgmlType::F16, GgmlType::Q8_0, GgmlType::Q6_K, GgmlType::Q5_0, GgmlType::Q4_K, GgmlType::Q4_0] {
        // On all threads, without an importance matrix.
        let packed = match quantize(ty, &values, row_len, None, None) {
            Ok(packed) => packed,
            Err(e) => {
                println!("{ty}: {e}");
                continue;
            }
        };
        let decoded = dequantize(ty, &packed)?;
        let error: f64 = values.iter().zip(&decoded).map(|(x, y)| f64::from(x - y).powi(2)).sum();
        let bits = packed.len() as f64 * 8.0 / values.len() as f64;
        println!("{ty}: {bits:.2} bits a weight, relative rms error {:.5}", (error / squares).sqrt());
    }
    Ok(())
}
