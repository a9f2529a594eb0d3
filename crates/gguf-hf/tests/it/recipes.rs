//! Checkpoints generated from recipes are converted to files identical to those of llama.cpp's converter. The interop tests cover many
//! more.

use std::fs;
use std::path::Path;

use gguf_hf::{Options, OutType, convert};
use gguf_pipeline::RunOptions;
use gguf_test::recipe;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// Writes the checkpoint of a recipe into a folder named after the recipe, because conversion uses the folder name as the model's name.
fn write(name: &str, recipe: &Value, dir: &Path) {
    fs::create_dir(dir).unwrap();
    let tokenizers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizers");
    for file in fs::read_dir(tokenizers.join(recipe["tokenizer"].as_str().unwrap())).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    // Files that are not valid JSON are recorded as text, because Python writes infinity.
    let text = |content: &Value| content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    fs::write(dir.join("config.json"), text(&recipe["config"])).unwrap();
    for (file, content) in recipe["files"].as_object().into_iter().flatten() {
        fs::write(dir.join(file), text(content)).unwrap();
    }
    let tensors = recipe["tensors"].as_object().unwrap().iter();
    let tensors: Vec<_> = tensors.map(|(name, spec)| (name.clone(), spec.as_str().unwrap().to_owned())).collect();
    fs::write(dir.join("model.safetensors"), recipe::weights(name, &tensors, sha256)).unwrap();
}

#[test]
fn recipes_become_the_files_that_the_reference_wrote() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipes");
    let mut n_files = 0;
    for file in fs::read_dir(recipes).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let recipe: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(name);
        write(name, &recipe, &folder);
        for (ty, expected) in recipe["sha256"].as_object().unwrap() {
            let out = dir.path().join(format!("{name}-{ty}.gguf"));
            let options = Options::default().ty(OutType::from_name(ty).unwrap());
            if let Err(e) = convert(&folder, &out, &options, &RunOptions::default(), &()) {
                panic!("{name} {ty}: {e}");
            }
            let found: String = sha256(&fs::read(&out).unwrap()).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(found, *expected, "{name} {ty}");
            n_files += 1;
        }
    }
    assert!(n_files >= 20, "only {n_files} files");
}

#[test]
fn experts_that_are_missing_or_too_many_are_named() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipes/ernie4_5moe.json");
    let recipe: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    // Experts 0 to 3, in blocks 1 and 2.
    let all = |last: u64| format!("model.layers.{{1..2}}.mlp.experts.{{0..{last}}}.up_proj.weight");
    let refused = |last: u64| {
        let mut recipe = recipe.clone();
        let tensors = recipe["tensors"].as_object_mut().unwrap();
        let spec = tensors.remove(&all(3)).unwrap();
        tensors.insert(all(last), spec);
        let dir = tempfile::tempdir().unwrap();
        write("ernie", &recipe, &dir.path().join("ernie"));
        gguf_hf::plan(dir.path().join("ernie"), &Options::default()).unwrap_err().to_string()
    };
    for (last, found, expected) in
        [(2, 3, "3.up_proj.weight\" is missing"), (4, 5, "4.up_proj.weight\" is one too many")]
    {
        let message = refused(last);
        let made = format!(
            "blk.1.ffn_up_exps.weight is made of 4 tensors (expert_count, from moe_num_experts of config.json), and the checkpoint has {found}"
        );
        assert!(message.contains(&made) && message.contains(expected), "{message}");
        assert!(message.contains("\"model.layers.1.mlp.experts."), "{message}");
        assert_eq!(message.contains("/model.safetensors: "), last == 4, "{message}");
    }
}
