//! Lists the metadata and tensors of a model: `cargo run --example metadata -- [MODEL]`.

use ggufkit::Model;

fn main() -> Result<(), ggufkit::Error> {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf");
    let path = std::env::args().nth(1).unwrap_or_else(|| tiny.to_owned());

    let model = Model::open(path)?;
    for kv in model.gguf() {
        println!("{}: {}", kv.key, kv.value);
    }
    for tensor in model.tensors() {
        println!("{}: {} of type {}", tensor.name(), tensor.shape(), tensor.ty());
    }
    Ok(())
}
