//! `config-names.txt` lists the names in the recorded configurations, for the test that formulas read names that exist.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use gguf_test::peers;
use serde_json::Value;

fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().filter(|(name, _)| *name != "tensors").for_each(|(name, value)| {
            names.insert(name.clone());
            collect(value, names);
        }),
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}

/// With `UPDATE=1`, writes the list.
fn the_names_of_recorded_configurations_are_listed() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let (mut names, mut n) = (BTreeSet::new(), 0);
    for folder in [peers::data("hf-cases"), peers::data("hf-variants/cases"), own.join("recipes")] {
        for entry in fs::read_dir(folder).unwrap() {
            // One has an infinite number, which is not JSON.
            let document = fs::read_to_string(entry.unwrap().path()).unwrap().replace("Infinity", "0");
            collect(&serde_json::from_str(&document).unwrap(), &mut names);
            n += 1;
        }
    }
    assert!(n > 300, "{n} configurations");
    let is_name = |name: &&String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let list: String = names.iter().filter(is_name).map(|name| format!("{name}\n")).collect();
    let file = own.join("config-names.txt");
    if env::var_os("UPDATE").is_some() {
        fs::write(&file, &list).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == list, "config-names.txt is not current; UPDATE=1 writes it");
}

gguf_test::tests! {
    [Shared] the_names_of_recorded_configurations_are_listed;
}
