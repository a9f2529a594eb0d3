//! A checkpoint of some tens of MB, for tests that take a while.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::glossary;
use serde_json::{Map, Value, json};

/// The layers.
const LAYERS: usize = 24;

/// Creates the checkpoint: the glossary model, with its layers repeated.
pub fn checkpoint(dir: &Path) -> PathBuf {
    let from = glossary();
    let to = dir.join("model");
    fs::create_dir(&to).unwrap();
    for file in ["tokenizer.model", "tokenizer_config.json"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let mut config: Value = serde_json::from_slice(&fs::read(from.join("config.json")).unwrap()).unwrap();
    let layers = config["num_hidden_layers"].as_u64().unwrap() as usize;
    config["num_hidden_layers"] = LAYERS.into();
    fs::write(to.join("config.json"), config.to_string()).unwrap();

    let bytes = fs::read(from.join("model.safetensors")).unwrap();
    let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let mut new_header = Map::new();
    let mut new_data = Vec::new();
    let mut add = |name: String, info: &Value| {
        let at = |i: usize| info["data_offsets"][i].as_u64().unwrap() as usize;
        let start = new_data.len();
        new_data.extend_from_slice(&data[at(0)..at(1)]);
        let offsets = json!([start, new_data.len()]);
        new_header.insert(name, json!({ "dtype": info["dtype"], "shape": info["shape"], "data_offsets": offsets }));
    };
    for (name, info) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        match name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.')) {
            None => add(name.clone(), info),
            Some((layer, rest)) => {
                let layer: usize = layer.parse().unwrap();
                for copy in (layer..LAYERS).step_by(layers) {
                    add(format!("model.layers.{copy}.{rest}"), info);
                }
            }
        }
    }
    let header = Value::Object(new_header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &new_data].concat();
    fs::write(to.join("model.safetensors"), file).unwrap();
    to
}
