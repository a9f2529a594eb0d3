//! The model card, `README.md` with the metadata of the file as front matter, and `generation_config.json`.

use gguf_format::Gguf;
use gguf_model::arch::Checkpoint;
use serde_json::{Map, Value as Json, json};

use super::key_values::{json_of, number};
use super::{TOKEN_IDS, pretty};
use crate::metadata::{CARD_TEXTS, SAMPLING};

/// The files.
pub(super) fn files(gguf: &Gguf<'_>) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let text = |key: &str| gguf.get_as::<&str>(&format!("general.{key}")).ok();
    // Texts in JSON's quotation marks are YAML.
    let mut front = String::new();
    if let Some(license) = text("license") {
        front.push_str(&format!("license: {}\n", json!(license)));
    }
    for (i, (key, name)) in CARD_TEXTS.into_iter().enumerate() {
        // A conversion takes the first name of a text that a card has.
        let has_name = CARD_TEXTS.iter().take(i).any(|(before, _)| *before == key);
        if let Some(text) = text(key).filter(|_| !has_name) {
            front.push_str(&format!("{name}: {}\n", json!(text)));
        }
    }
    for (key, name) in [("tags", "tags"), ("languages", "language")] {
        let list = gguf.get(&format!("general.{key}")).map(json_of);
        let items: Vec<Json> = list.as_ref().and_then(Json::as_array).cloned().unwrap_or_default();
        if !items.is_empty() {
            front.push_str(&format!("{name}:\n"));
            items.iter().for_each(|item| front.push_str(&format!("- {item}\n")));
        }
    }
    for (key, name) in [("base_model", "base_model"), ("dataset", "datasets")] {
        let origins = origins(gguf, key);
        if !origins.is_empty() {
            front.push_str(&format!("{name}:\n"));
            for origin in origins {
                for (i, (field, text)) in origin.iter().enumerate() {
                    front.push_str(&format!("{} {field}: {}\n", if i == 0 { "-" } else { " " }, json!(text)));
                }
            }
        }
    }
    if !front.is_empty() {
        let title = text("name").map(|name| format!("# {name}\n")).unwrap_or_default();
        files.push(("README.md".to_owned(), format!("---\n{front}---\n\n{title}").into_bytes()));
    }
    let mut generation = Map::new();
    for (kind, key) in TOKEN_IDS.into_iter().filter(|(kind, _)| matches!(*kind, "bos" | "eos" | "pad")) {
        if let Some(id) = number(gguf, &format!("tokenizer.ggml.{key}_token_id")) {
            generation.insert(format!("{kind}_token_id"), json!(id));
        }
    }
    for (key, name) in SAMPLING {
        if let Some(value) = gguf.get(&format!("general.sampling.{key}")) {
            generation.insert(name.to_owned(), json_of(value));
        }
    }
    if let Some(tokens) = gguf.get("tokenizer.ggml.suppress_tokens") {
        generation.insert("suppress_tokens".to_owned(), json_of(tokens));
    }
    if !generation.is_empty() {
        files.push(("generation_config.json".to_owned(), pretty(&Json::Object(generation))));
    }
    files
}

/// The modules of sentence-transformers for a sentence encoder.
pub(super) fn modules(gguf: &Gguf<'_>, checkpoint: &Checkpoint) -> Vec<(String, Vec<u8>)> {
    let Some(mode) = super::config::pooling(gguf, checkpoint) else { return Vec::new() };
    let module = |number: u32, path: &str, ty: &str| json!({ "idx": number, "name": number.to_string(), "path": path, "type": format!("sentence_transformers.models.{ty}") });
    let modules = json!([module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")]);
    let arch = gguf.get_as::<&str>("general.architecture").unwrap_or_default();
    let pooling = json!({
        "word_embedding_dimension": number(gguf, &format!("{arch}.embedding_length")),
        "pooling_mode_cls_token": mode == "cls",
        "pooling_mode_mean_tokens": mode == "mean",
        "pooling_mode_max_tokens": false,
        "pooling_mode_mean_sqrt_len_tokens": false,
        "pooling_mode_lasttoken": mode == "lasttoken",
    });
    vec![("modules.json".to_owned(), pretty(&modules)), ("1_Pooling/config.json".to_owned(), pretty(&pooling))]
}

/// The base models or datasets: their fields.
fn origins(gguf: &Gguf<'_>, kind: &str) -> Vec<Vec<(&'static str, String)>> {
    const MAX: u64 = 1000;
    let count = number(gguf, &format!("general.{kind}.count")).unwrap_or(0).min(MAX);
    let of = |i: u64| {
        let field = |field: &'static str| {
            let text = gguf.get_as::<&str>(&format!("general.{kind}.{i}.{field}")).ok()?;
            Some((field, text.to_owned()))
        };
        crate::metadata::ORIGIN.into_iter().filter_map(field).collect()
    };
    (0..count).map(of).collect()
}
