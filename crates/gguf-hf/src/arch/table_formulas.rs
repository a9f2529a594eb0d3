//! The formulas in the tables of architectures: their syntax, and the names that they read.

use std::collections::{BTreeMap, BTreeSet};

use gguf_model::arch::{ARCHITECTURES, Architecture, Checkpoint, Computed, FormulaType, Key, Map, Row, RowOp, TOWERS};
use gguf_model::formula;
use serde_json::Value as Json;

use crate::formula::Formula;

/// The tables of all language models and encoders: each checkpoint with its architecture.
pub(super) fn tables() -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    let all = ARCHITECTURES.iter().chain(TOWERS);
    all.flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)))
}

/// The key-values of a table, in the order in which they are evaluated.
pub(super) fn keys(checkpoint: &Checkpoint) -> impl Iterator<Item = &'static Key> {
    let of_tokenizer = checkpoint.tokenizer.first_keys.iter().chain(checkpoint.tokenizer.keys);
    checkpoint.key_tables().chain(of_tokenizer.copied()).flatten()
}

/// The formulas of conditions and lists that are evaluated before the key-values of a table.
fn conditions_before(checkpoint: &Checkpoint) -> Vec<&'static str> {
    let refuse = checkpoint.refuse.iter().map(|(condition, _)| *condition);
    refuse.chain([checkpoint.when]).filter(|text| !text.is_empty()).collect()
}

/// The formulas that are evaluated after the key-values of a table: those of conditions, lists, rows and computed tensors.
fn others(arch: &'static Architecture, checkpoint: &Checkpoint) -> Vec<&'static str> {
    let skip = checkpoint.names.skip.iter().map(|(_, condition)| *condition);
    let rename = checkpoint.names.rename_if.iter().map(|(.., condition)| *condition);
    let lists = checkpoint.names.renumbered.iter().map(|(_, list)| *list);
    let computed = checkpoint.computed.iter().filter_map(|tensor| match *tensor {
        Computed::Values(_, formula) | Computed::Sinusoids(_, formula) => Some(formula),
        _ => None,
    });
    let rows = arch.outside.iter().chain(arch.block).copied().flatten().flat_map(of_row);
    skip.chain(rename).chain(lists).chain(computed).chain(rows).filter(|text| !text.is_empty()).collect()
}

fn of_row(row: &Row) -> Vec<&'static str> {
    match row.op {
        RowOp::Values(formula) | RowOp::ResizeGrid(formula) => vec![formula],
        RowOp::Map(maps) => maps.iter().filter_map(of_map).collect(),
        RowOp::Integers | RowOp::RoundToMean | RowOp::SumParts | RowOp::BatchNorm(_) => Vec::new(),
    }
}

fn of_map(map: &Map) -> Option<&'static str> {
    match *map {
        Map::ScaleBy(formula) | Map::ScaleRowsBy(formula) | Map::PadRowsTo(formula) => Some(formula),
        Map::Add(_) | Map::Scale(_) | Map::NegExp | Map::Softplus | Map::ZeroRows(_) => None,
    }
}

/// All formulas of a table, in the order in which they are evaluated, each with the field or fact that it sets.
pub(super) fn formulas(
    arch: &'static Architecture,
    checkpoint: &Checkpoint,
) -> Vec<(Option<&'static str>, &'static str)> {
    let keys = keys(checkpoint).map(|key| ((key.kind == FormulaType::Field).then_some(key.key), key.formula));
    let before = conditions_before(checkpoint).into_iter().map(|text| (None, text));
    before.chain(keys).chain(others(arch, checkpoint).into_iter().map(|text| (None, text))).collect()
}

/// The formula with a character deleted, doubled, exchanged with the next, replaced or preceded by another, or without its end: one change
/// at each place.
fn mutations(text: &str) -> impl Iterator<Item = String> {
    const SIGNS: &[u8] = b"()[]{}'\",.:|?!=<>+-*/% @_0e9x\n";
    let chars: Vec<char> = text.chars().collect();
    (0..chars.len()).map(move |place| {
        let mut chars = chars.clone();
        let after = (place + 1) % chars.len();
        let sign = SIGNS[(place + chars.len()) % SIGNS.len()].into();
        match (place + chars.len()) % 6 {
            0 => _ = chars.remove(place),
            1 => chars.insert(place, chars[place]),
            2 => chars.swap(place, after),
            3 => chars[place] = sign,
            4 => chars.insert(place, sign),
            _ => chars.truncate(place),
        }
        chars.into_iter().collect()
    })
}

/// The check at compile time, and the parser: each has its own list of what is valid, and they are the same.
#[test]
fn the_check_accepts_what_the_parser_accepts() {
    let mut all: BTreeSet<&str> =
        tables().flat_map(|(arch, checkpoint)| formulas(arch, checkpoint)).map(|(_, text)| text).collect();
    assert!(all.len() > 1000, "{}", all.len());
    for text in &all {
        assert!(Formula::parse(text).is_ok(), "{text}: {:?}", Formula::parse(text));
    }
    all.extend([
        "a if b else c if d else [e, 'f', \"g\", {'h': 1, }]",
        "not a == -b ** - -c.d[1] | e and not f in [g for h in i ?? j] or [k for l]",
        "pad(a, 1.5e-3, @b.c) // len ( [] ) % 2. ?? true",
    ]);
    let (mut n_valid, mut n_invalid) = (0, 0);
    for text in all {
        for changed in mutations(text) {
            let (check, parse) = (formula::check(&changed), Formula::parse(&changed));
            assert_eq!(check.is_ok(), parse.is_ok(), "{changed}: {check:?}, {parse:?}");
            *if check.is_ok() { &mut n_valid } else { &mut n_invalid } += 1;
        }
    }
    println!("{n_valid} valid, {n_invalid} invalid");
    assert!(n_valid > 20_000 && n_invalid > 20_000);
}

#[test]
fn nesting_is_limited_alike() {
    for n in [61, 62, 63, 64, 65, 66] {
        for text in [
            format!("{}a{}", "(".repeat(n), ")".repeat(n)),
            format!("{}a", "a if b else ".repeat(n)),
            format!("{}a{}", "{'a': ".repeat(n), "}".repeat(n)),
            format!("{}a{}", "[a for b in ".repeat(n), "]".repeat(n)),
        ] {
            assert_eq!(formula::check(&text).is_ok(), Formula::parse(&text).is_ok(), "{n}: {text}");
        }
    }
}

/// The names that the formulas of a table read and that it does not set before, each with the formula: fields, and fields of facts.
fn names_read(arch: &'static Architecture, checkpoint: &Checkpoint) -> Vec<(String, &'static str)> {
    let mut set: BTreeSet<&str> = BTreeSet::new();
    let mut read = Vec::new();
    for (target, text) in formulas(arch, checkpoint) {
        for path in Formula::parse(text).unwrap().names() {
            let (root, members) = path.split_once('.').unwrap_or((&path, ""));
            if !set.contains(root) && !root.starts_with('@') {
                read.push((root.to_owned(), text));
            }
            let members = members.split('.').filter(|name| !name.is_empty());
            read.extend(members.map(|name| (name.to_owned(), text)));
        }
        set.extend(target);
    }
    read
}

/// The names in an object and in all objects within.
fn collect(value: &Json, names: &mut BTreeSet<String>) {
    match value {
        Json::Object(object) => object.iter().for_each(|(name, value)| {
            names.insert(name.clone());
            collect(value, names);
        }),
        Json::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}

/// The names in recorded configurations, and in the classes of transformers.
fn recorded() -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        include_str!("../../tests/data/config-names.txt").split_whitespace().map(str::to_owned).collect();
    let classes: Json = serde_json::from_str(include_str!("../../data/autoconfig.json")).unwrap();
    collect(&classes["base"], &mut names);
    for class in classes["classes"].as_object().unwrap().values() {
        collect(&class["defaults"], &mut names);
        for part in ["map", "subs"] {
            names.extend(class[part].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
        }
        let stored = class["map"].as_object().into_iter().flatten().map(|(_, name)| name);
        let derived = class["rules"].as_array().into_iter().flatten().map(|rule| &rule[0]);
        names.extend(stored.chain(derived).filter_map(Json::as_str).map(str::to_owned));
    }
    names
}

/// A misspelt name would be a missing field: an optional key would not be written, and a condition would not hold.
#[test]
fn names_in_formulas_exist() {
    let recorded = recorded();
    let lines = include_str!("../../tests/data/unrecorded-names.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut reviewed: BTreeMap<&str, &str> = lines.map(|line| line.split_once('\t').unwrap()).collect();
    assert!(reviewed.values().all(|source| !source.is_empty()));
    let (mut unknown, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (arch, checkpoint) in tables() {
        for (name, text) in names_read(arch, checkpoint) {
            if recorded.contains(&name) {
                continue;
            }
            match reviewed.get_key_value(name.as_str()) {
                Some((name, _)) => used.extend([*name]),
                None => drop(unknown.insert(format!("{name} ({}): {text}", checkpoint.classes[0]))),
            }
        }
    }
    assert!(unknown.is_empty(), "names that no configuration has: {unknown:#?}");
    reviewed.retain(|name, _| !used.contains(name));
    assert!(reviewed.is_empty(), "no longer read, or recorded: {reviewed:?}");
}
