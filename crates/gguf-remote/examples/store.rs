//! Lists the tensors of a model in a store, and copies it if a second place is given:
//!
//! ```sh
//! AWS_SKIP_SIGNATURE=true cargo run -p gguf-remote --features cloud --example store -- s3://bucket/model.gguf
//! ```

use std::error::Error;

use gguf_pipeline::{Draft, RunOptions};
use gguf_remote::{Client, Location, Settings, StoreSink};

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = Settings::default();
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            settings.store_options.insert(&name, value);
        }
    }
    let client = Client::new(settings)?;
    let places: Vec<String> = std::env::args().skip(1).collect();
    let [from, to @ ..] = places.as_slice() else { return Err("expected s3://BUCKET/KEY, gs:// or az://".into()) };
    let location = |text: &str| Location::parse(text).ok_or("expected the place of an object");

    let model = client.open_model(&location(from)??)?;
    for tensor in model.gguf().tensors() {
        println!("{}", tensor.name);
    }
    for to in to {
        let mut sink = StoreSink::new(&client, vec![location(to)??], false);
        let plan = Draft::copy_of(client.open_model(&location(from)??)?)?.lay_out()?;
        // What the run will read is fetched before.
        let reads = plan.reads().map_while(|read| Some((read.as_ref().ok()?.path.clone(), read.ok()?.range)));
        client.ahead(reads, || plan.run_to(&mut sink, &RunOptions::default(), &()))?;
    }
    Ok(())
}
