//! Converts a Hugging Face checkpoint to GGUF, with progress on standard error: `cargo run --example convert -- [FOLDER [OUT [TYPE]]]`.
//! Without OUT, shows the plan. TYPE is a file type such as Q4_K_M; without it, the matrices keep a type of 16 bits.

use std::sync::atomic::{AtomicU64, Ordering};

use ggufkit::{Conversion, Event};

fn main() -> Result<(), ggufkit::Error> {
    let mut args = std::env::args().skip(1);
    let glossary = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/glossary");
    let dir = args.next().unwrap_or_else(|| glossary.to_owned());
    let (out, ty) = (args.next(), args.next());

    let mut conversion = Conversion::open(&dir)?;
    if let Some(ty) = ty {
        conversion = conversion.quantize(&ty)?;
    }
    // The plan is made without reading a weight.
    let planned = conversion.plan()?;
    for warning in planned.warnings() {
        eprintln!("warning: {warning}");
    }
    let plan = planned.plan();
    println!("{}: {} tensors, {} bytes", planned.architecture(), plan.tensors().len(), plan.file_bytes());
    let Some(out) = out else {
        for tensor in plan.tensors() {
            println!("{}: {:?}, {} to {}", tensor.shown(), tensor.shape, tensor.from, tensor.ty);
        }
        return Ok(());
    };

    let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |event: Event<'_>| match event {
        Event::Started { bytes, .. } => total.store(bytes, Ordering::Relaxed),
        Event::Advanced { bytes } => {
            let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            eprint!("\r{:3} %", 100 * done / total.load(Ordering::Relaxed).max(1));
        }
        Event::Finished => eprintln!("\r100 %"),
        _ => {}
    };
    // For a directory, the file is named after the model.
    for path in planned.run(out, &progress)?.paths {
        println!("{}", path.display());
    }
    Ok(())
}
