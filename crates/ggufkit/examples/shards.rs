//! Lists which tensors are in which shard of a model: `cargo run --example shards -- [SHARD]`.

use ggufkit::Model;

fn main() -> Result<(), ggufkit::Error> {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny-00002-of-00002.gguf");
    let shard = std::env::args().nth(1).unwrap_or_else(|| tiny.to_owned());

    // Any shard can be given: the others are found by their names.
    let model = Model::open(shard)?;
    for file in model.files() {
        let name = file.path().file_name().unwrap_or_default();
        println!("{}: {} tensors, {} bytes", name.display(), file.tensors().len(), file.file_bytes());
        for tensor in file.tensors() {
            println!("  {}", tensor.name());
        }
    }
    // The metadata of the model is in its first shard; tensors can be in any shard.
    let architecture: &str = model.gguf().get_as("general.architecture")?;
    let last = model.tensor("blk.0.ffn_down.weight")?;
    println!("{architecture}, {} is in {}", last.name(), last.file().path().display());
    Ok(())
}
