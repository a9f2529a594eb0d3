//! Converts a Hugging Face checkpoint to GGUF: `cargo run --example convert -- [FOLDER [OUT]]`. Without OUT, shows the plan.

use std::path::Path;

use ggufkit::RunOptions;
use ggufkit::hf::{self, Options};

fn main() -> Result<(), ggufkit::Error> {
    let mut args = std::env::args().skip(1);
    let glossary = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/glossary");
    let dir = args.next().unwrap_or_else(|| glossary.to_owned());

    // The plan is made without reading a weight.
    let conversion = hf::plan(&dir, &Options::default())?;
    for warning in &conversion.warnings {
        eprintln!("warning: {warning}");
    }
    let plan = &conversion.plan;
    println!("{}: {} tensors, {} bytes", conversion.architecture, plan.tensors().len(), plan.file_bytes());
    let Some(out) = args.next() else {
        for tensor in plan.tensors() {
            println!("{}: {:?}, {} to {}", tensor.shown(), tensor.shape, tensor.from, tensor.ty);
        }
        return Ok(());
    };
    // For a directory, the file is named after the model.
    let out = conversion.output_path(Path::new(&out));
    for path in plan.run(&out, &RunOptions::default(), &())?.paths {
        println!("{}", path.display());
    }
    Ok(())
}
