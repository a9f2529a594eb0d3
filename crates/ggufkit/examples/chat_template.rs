//! Shows a model's chat template, or copies the model with another one:
//! `cargo run --example chat_template -- [MODEL [TEMPLATE OUT]]`.

use ggufkit::{Model, keys};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf").to_owned());

    if let (Some(template), Some(out)) = (args.next(), args.next()) {
        let template = std::fs::read_to_string(template)?;
        ggufkit::edit_metadata(&path, &out, |head| head.set(keys::TOKENIZER_CHAT_TEMPLATE, template))?;
        println!("{out}");
        return Ok(());
    }
    let model = Model::open(&path)?;
    match model.gguf().get_as::<Option<&str>>(keys::TOKENIZER_CHAT_TEMPLATE)? {
        Some(template) => println!("{template}"),
        None => println!("{path} has no chat template"),
    }
    Ok(())
}
