//! Identifies a file and reports its problems: `cargo run --example inspect -- [FILE]`.

use std::process::ExitCode;

use ggufkit::{Model, Severity};

fn main() -> Result<ExitCode, ggufkit::Error> {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf");
    let path = std::env::args().nth(1).unwrap_or_else(|| tiny.to_owned());

    let check = ggufkit::check(&path)?;
    for (path, finding) in check.findings() {
        println!("{}: {finding}", path.display());
        println!("  expected {}; {}", finding.expected, finding.hint);
    }
    if !check.is_sound() {
        println!("{} errors, {} warnings", check.count(Severity::Error), check.count(Severity::Warning));
        return Ok(ExitCode::FAILURE);
    }

    let summary = ggufkit::summary(&Model::open(&path)?);
    let name = summary.name.as_deref().unwrap_or("no name");
    let architecture = summary.architecture.as_deref().unwrap_or("no architecture");
    println!("{name}: {architecture}, {} parameters in {} tensors", summary.n_params, summary.n_tensors);
    for share in &summary.types {
        println!("  {}: {} tensors, {} bytes", share.ty, share.n_tensors, share.bytes);
    }
    println!("sound, {} warnings", check.count(Severity::Warning));
    Ok(ExitCode::SUCCESS)
}
