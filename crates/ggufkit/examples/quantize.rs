//! Quantizes a model, with progress on standard error: `cargo run --example quantize -- [MODEL [TYPE [OUT]]]`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use ggufkit::quantize::{self, QuantizeOptions, mix::Target};
use ggufkit::{Draft, Event, RunOptions};

fn main() -> Result<(), ggufkit::Error> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf").to_owned());
    let target = Target::parse(&args.next().unwrap_or_else(|| "Q8_0".to_owned()))?;
    let default = || std::env::temp_dir().join(format!("quantized-{}.gguf", std::process::id()));
    let out = args.next().map_or_else(default, PathBuf::from);

    let copy = Draft::copy_of(path)?;
    let quantization = quantize::plan(copy, None, &QuantizeOptions::default(), &target)?;
    for warning in &quantization.warnings {
        eprintln!("warning: {warning}");
    }

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
    let written = quantization.plan.run(&out, &RunOptions::default(), &progress)?;

    println!("{} bytes to {} bytes", quantization.plan.input_bytes(), quantization.plan.file_bytes());
    for path in written.paths {
        println!("{}", path.display());
    }
    Ok(())
}
