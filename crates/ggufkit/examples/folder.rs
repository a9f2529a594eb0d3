//! Converts a Hugging Face checkpoint from memory into memory, without files: `cargo run --example folder`. It runs on WebAssembly, too.

use ggufkit::hf::{MemoryFolder, OutType};
use ggufkit::{Conversion, MemorySink, Model};

/// The files of a checkpoint. A folder of the caller, such as one on the Hub, implements the trait `hf::Folder`.
fn glossary() -> MemoryFolder {
    let mut folder = MemoryFolder::new("glossary");
    folder.insert("config.json", include_bytes!("../../../examples/glossary/config.json"));
    folder.insert("generation_config.json", include_bytes!("../../../examples/glossary/generation_config.json"));
    folder.insert("model.safetensors", include_bytes!("../../../examples/glossary/model.safetensors"));
    folder.insert("tokenizer.model", include_bytes!("../../../examples/glossary/tokenizer.model"));
    folder.insert("tokenizer_config.json", include_bytes!("../../../examples/glossary/tokenizer_config.json"));
    folder
}

fn main() -> Result<(), ggufkit::Error> {
    let planned = Conversion::from_folder(glossary()).ty(OutType::Q8_0).plan()?;
    for warning in planned.warnings() {
        eprintln!("warning: {warning}");
    }
    let architecture = planned.architecture();
    let mut sink = MemorySink::new();
    planned.run_to(&mut sink, &())?;

    for output in sink.into_outputs() {
        let model = Model::from_source(output, "glossary.gguf")?;
        let summary = ggufkit::summary(&model);
        println!("{}: {} tensors, {} bytes", architecture, summary.n_tensors, model.file_bytes());
        assert!(ggufkit::check_model(&model, &Default::default()).is_sound());
    }
    Ok(())
}
