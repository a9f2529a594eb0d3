//! Encodes a text with the tokenizer of a model, and shows each token: `cargo run --example tokenize -- [MODEL [TEXT]]`.

use ggufkit::Model;
use ggufkit::model::tokenizer::{Encoder, Role, Vocab};

fn main() -> Result<(), ggufkit::Error> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf").to_owned());
    let text = args.next().unwrap_or_else(|| "small".to_owned());

    let model = Model::open(path)?;
    let vocab = Vocab::new(model.gguf())?;
    println!("{}: {} tokens", vocab.model(), vocab.len());
    for role in Role::all() {
        if let Some(id) = vocab.special(role) {
            println!("{}: {id}", role.name());
        }
    }

    // Building an encoder takes a while, encoding does not: keep it.
    let encoder = Encoder::new(&vocab)?;
    let ids = encoder.encode(&text);
    for id in &ids {
        println!("{id:6} {:?}", String::from_utf8_lossy(&encoder.piece(*id)));
    }
    println!("{}", String::from_utf8_lossy(&encoder.decode(&ids)));
    Ok(())
}
