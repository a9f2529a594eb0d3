//! Quantizes a model from memory into memory, without files: `cargo run --example sink`. It runs on WebAssembly, too.

use ggufkit::quantize::{self, QuantizeOptions, mix::Target};
use ggufkit::{Draft, MemorySink, Model, RunOptions};

static TINY: &[u8] = include_bytes!("tiny.gguf");

fn main() -> Result<(), ggufkit::Error> {
    let model = Model::from_source(TINY, "tiny")?;
    let copy = Draft::copy_of(model)?;
    let quantization = quantize::plan(copy, None, &QuantizeOptions::default(), &Target::parse("Q8_0")?)?;

    // A sink of the caller implements the same trait: create, write_at, commit and abort.
    let mut sink = MemorySink::new();
    quantization.plan.run_to(&mut sink, &RunOptions::default(), &())?;

    for output in sink.into_outputs() {
        assert_eq!(output.len() as u64, quantization.plan.file_bytes());
        let model = Model::from_source(output, "tiny as Q8_0")?;
        let summary = ggufkit::summary(&model);
        println!("{} tensors, {} bytes of {}", summary.n_tensors, model.file_bytes(), TINY.len());
        assert!(ggufkit::check_model(&model, &Default::default()).is_sound());
    }
    Ok(())
}
