//! Configurations that make formulas work hard: long lists and texts in every field that the tables of an architecture read, and many blocks.

use serde_json::{Map, Value, json};

use super::table_formulas::{formulas, tables};
use crate::formula::{Fields, Formula};

/// The most steps of all formulas of a class together. A step takes less than a tenth of a microsecond, even without optimization.
const STEPS: u64 = 5_000_000;

/// The size of a configuration in bytes.
const BYTES: usize = 100_000;

/// The value of each field, of about the given number of bytes.
type Content = fn(usize) -> Value;

const CONTENTS: &[(&str, Content)] = &[
    ("numbers", |bytes| (0..bytes / 7).map(|n| json!(100_000 + n)).collect()),
    ("texts", |bytes| vec!["sliding_attention"; bytes / 20].into()),
    ("truths", |bytes| vec![true; bytes / 5].into()),
    ("lists", |bytes| vec![json!([1, 2]); bytes / 6].into()),
    ("objects", |bytes| (0..bytes / 9).map(|n| (n.to_string(), json!(n))).collect::<Map<_, _>>().into()),
    ("text", |bytes| "L".repeat(bytes).into()),
    ("number", |_| json!(65_536)),
    ("one", |_| json!(1)),
    ("nothing", |_| Value::Null),
];

/// Sets the field at a path such as `rope.factor`.
fn set(fields: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(fields.insert(path.to_owned(), value)),
        Some((outer, rest)) => {
            let inner = fields.entry(outer).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            set(inner.as_object_mut().unwrap(), rest, value);
        }
    }
}

/// Fields of the given content, all together of 100 KB.
fn fields(names: &[String], content: Content, n_blocks: u64) -> Map<String, Value> {
    let mut fields = Map::new();
    for name in names {
        set(&mut fields, name, content(BYTES / names.len().max(1)));
    }
    for name in ["num_hidden_layers", "n_layers", "n_layer", "num_layers", "block_count"] {
        fields.insert(name.to_owned(), json!(n_blocks));
    }
    fields
}

/// The steps of all formulas of a class. An error in one formula leaves out no other.
fn steps(formulas: &[(Option<&'static str>, Formula)], fields: Map<String, Value>, n_blocks: u64) -> u64 {
    let mut known = Fields::of(Map::new(), n_blocks);
    fields.into_iter().for_each(|(name, value)| known.set(&name, value));
    let mut all = 0;
    for (name, formula) in formulas {
        let (value, steps) = known.eval_counted(formula);
        all += steps;
        let value = value.map(|value| value.map(std::borrow::Cow::into_owned));
        if let (Some(name), Ok(value)) = (name, value) {
            known.set(name, value.unwrap_or_default());
        }
    }
    all
}

#[test]
fn no_configuration_takes_many_steps() {
    let (mut most, mut n) = ((0, String::new()), 0);
    for (arch, checkpoint) in tables() {
        let formulas = formulas(arch, checkpoint);
        let formulas: Vec<_> = formulas.into_iter().map(|(set, text)| (set, Formula::parse(text).unwrap())).collect();
        let mut names: Vec<String> = formulas.iter().flat_map(|(_, formula)| formula.names()).collect();
        names.sort();
        names.dedup();
        let class = checkpoint.classes.first().copied().unwrap_or_default();
        for ((what, content), n_blocks) in CONTENTS.iter().flat_map(|of| [(of, 512), (of, 65_536)]) {
            let steps = steps(&formulas, fields(&names, *content, n_blocks), n_blocks);
            most = most.max((steps, format!("{class} with {what} in {} fields and {n_blocks} blocks", names.len())));
            n += 1;
        }
    }
    println!("{n} configurations, at most {} steps: {}", most.0, most.1);
    assert!(most.0 < STEPS, "{}: {} steps", most.1, most.0);
}
