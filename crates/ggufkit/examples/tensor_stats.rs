//! Decodes a tensor and prints statistics of its values: `cargo run --example tensor_stats -- [MODEL [TENSOR]]`.

use ggufkit::Model;

fn main() -> Result<(), ggufkit::Error> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf").to_owned());
    let name = args.next().unwrap_or_else(|| "token_embd.weight".to_owned());

    let model = Model::open(path)?;
    let tensor = model.tensor(&name)?;
    println!("{name}: {} rows of {} in {}", tensor.n_rows(), tensor.row_len(), tensor.ty());

    // A matrix can exceed memory as f32, so it is decoded in groups of rows.
    let (mut n, mut sum, mut squares) = (0u64, 0f64, 0f64);
    let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
    for first in (0..tensor.n_rows()).step_by(64) {
        let last = tensor.n_rows().min(first + 64);
        for value in tensor.rows(first..last)?.to_f32()? {
            n += 1;
            sum += f64::from(value);
            squares += f64::from(value).powi(2);
            min = min.min(value);
            max = max.max(value);
        }
    }
    let mean = sum / n as f64;
    println!("{n} values from {min} to {max}, mean {mean:.6}, rms {:.6}", (squares / n as f64).sqrt());
    Ok(())
}
