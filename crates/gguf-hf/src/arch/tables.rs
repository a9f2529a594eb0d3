//! Invariants of all rows in the tables of all architectures.

use std::collections::{BTreeMap, BTreeSet};

use gguf_format::{GgmlType, keys};
use gguf_model::arch::{ARCHITECTURES, Architecture, Checkpoint, FormulaType, Row, RowOp, TOWERS, When};
use gguf_pipeline::moves::Move;
use gguf_pipeline::plan::{Gather, Input, Inverse};
use serde_json::Value as Json;

use super::keys::PREFIXES;
use super::table_formulas;
use crate::facts::Fact;
use crate::formula::Formula;
use crate::pattern::{self, Pattern};

fn checkpoints() -> impl Iterator<Item = (&'static Architecture, &'static Checkpoint)> {
    ARCHITECTURES.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)))
}

fn rows(arch: &Architecture) -> impl Iterator<Item = (&'static Row, bool)> {
    let of =
        |groups: &'static [&'static [Row]], in_block| groups.iter().copied().flatten().map(move |row| (row, in_block));
    of(arch.outside, false).chain(of(arch.block, true))
}

/// Keys that the tables set but that are absent from the list of known keys.
const UNLISTED_KEYS: &[&str] = &[];

#[test]
fn keys_and_patterns_are_well_formed() {
    let mut classes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (arch, checkpoint) in checkpoints() {
        let name = checkpoint.architecture(arch);
        assert!(arch.names.contains(&name), "{name} is not a name of the architecture {:?}", arch.names);
        assert!(!checkpoint.classes.is_empty() && !checkpoint.keys.is_empty(), "{name}");
        for class in checkpoint.classes {
            let earlier = classes.entry(*class).or_default();
            assert!(!earlier.contains(&checkpoint.when), "{class} is in two tables");
            earlier.push(checkpoint.when);
        }
        for key in table_formulas::keys(checkpoint) {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c);
            assert!(key.kind == FormulaType::Field || key.key.chars().all(is_name), "{name}: {}", key.key);
            let is_own = PREFIXES.iter().any(|prefix| key.key.starts_with(prefix));
            let full = if is_own { key.key.to_owned() } else { format!("{name}.{}", key.key) };
            let is_known = keys::lookup(&full, Some(name)).is_some() || UNLISTED_KEYS.contains(&key.key);
            assert!(key.kind == FormulaType::Field || is_known, "{name}: no such key: {}", key.key);
        }
    }
    for arch in ARCHITECTURES {
        for (row, _) in rows(arch).filter(|(row, _)| !row.pattern.is_empty()) {
            assert!(Pattern::parse(row.pattern).is_ok(), "{:?}: {}: {}", arch.names, row.name, row.pattern);
            assert!(!row.source.is_empty(), "{:?}: {}: a pattern without a source", arch.names, row.name);
        }
    }
}

/// The facts that a table and the rows of its architecture read.
fn facts_read(arch: &'static Architecture, checkpoint: &'static Checkpoint) -> BTreeSet<String> {
    let formulas = table_formulas::formulas(arch, checkpoint);
    let names = formulas.into_iter().flat_map(|(_, formula)| Formula::parse(formula).unwrap().names());
    let patterns =
        rows(arch).flat_map(|(row, _)| row.pattern.split(|c: char| !c.is_ascii_alphanumeric() && !"@._".contains(c)));
    let names = names.chain(patterns.map(str::to_owned));
    names.filter_map(|name| Some(name.split('.').next()?.strip_prefix('@')?.to_owned())).collect()
}

#[test]
fn tables_read_facts_that_exist() {
    let mut all = BTreeSet::new();
    for arch in ARCHITECTURES.iter().chain(TOWERS) {
        for checkpoint in arch.checkpoints {
            let lists = [
                checkpoint.facts.peeked,
                checkpoint.facts.present,
                checkpoint.facts.row_lens,
                checkpoint.facts.row_counts,
            ];
            let own: BTreeSet<&str> = lists.into_iter().flatten().map(|(name, _)| *name).collect();
            for fact in facts_read(arch, checkpoint) {
                // Rows of one architecture serve all of its tables.
                let of_rows =
                    arch.checkpoints.iter().any(|other| other.facts.peeked.iter().any(|(name, _)| *name == fact));
                let is_known = Fact::ALL.iter().any(|known| known.name() == fact);
                assert!(is_known || own.contains(fact.as_str()) || of_rows, "{:?} reads @{fact}", checkpoint.classes);
                all.insert(fact);
            }
        }
    }
    let unread = Fact::ALL.iter().filter(|fact| !all.contains(fact.name())).collect::<Vec<_>>();
    // The interpreter reads these.
    assert_eq!(unread, [&Fact::FurtherBlocks, &Fact::Permuted]);
}

#[test]
fn towers_are_well_formed() {
    let mut projectors = BTreeSet::new();
    for arch in TOWERS {
        for (row, _) in rows(arch).filter(|(row, _)| !row.pattern.is_empty()) {
            assert!(Pattern::parse(row.pattern).is_ok(), "{}: {}", row.name, row.pattern);
        }
        for checkpoint in arch.checkpoints {
            let projector = super::projector_type(checkpoint);
            assert!(!projector.is_empty() && projectors.insert(projector.clone()), "{projector}");
            for key in table_formulas::keys(checkpoint) {
                let is_known = key.kind == FormulaType::Field || keys::lookup(key.key, Some("clip")).is_some();
                assert!(is_known, "{projector}: no such key: {}", key.key);
            }
        }
    }
}

/// Deterministic pseudorandom numbers.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below.max(1)
}

fn apply(moves: &[Move], from: &[u64], to: &mut [u64]) {
    for item in moves {
        for number in 0..item.n_elements() {
            let (mut rest, mut source, mut target) = (number, item.from, item.to);
            for axis in &item.axes {
                source += rest % axis.count * axis.from;
                target += rest % axis.count * axis.to;
                rest /= axis.count;
            }
            to[target as usize] = from[source as usize];
        }
    }
}

/// Tests every pattern on matching shapes: the inverse undoes its moves, and a pattern that uses all of its source restores all of it.
#[test]
fn inverses_restore_what_patterns_move() {
    let patterns: BTreeSet<&str> =
        ARCHITECTURES.iter().chain(TOWERS).flat_map(rows).map(|(row, _)| row.pattern).collect();
    let mut state = 11;
    let mut n_tried = 0;
    let mut kinds = BTreeSet::new();
    for text in patterns.into_iter().filter(|text| !text.is_empty()) {
        let parsed = Pattern::parse(text).unwrap();
        for _ in 0..50 {
            let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
            let sizes = pattern::names(&parsed).into_iter().map(|name| (name, 1 + random(&mut state, 4)));
            lengths.extend(sizes);
            // Slice bounds are lengths too; dimensions of tables are small so that slices fit.
            // A reranker has two rows for its two answers.
            let known = |name: &str| lengths.get(name).copied().or(Some(u64::from(name != "@rerank.no")));
            let Some(shape) = pattern::shape_for(&parsed, &known, 1 + random(&mut state, 3)) else { continue };
            let Ok(moved) = parsed.bind(&shape, &known) else { continue };
            n_tried += 1;
            let n: u64 = shape.iter().product();
            let source: Vec<u64> = (1..=n).collect();
            let mut out = vec![0; moved.shape.iter().product::<u64>() as usize];
            apply(&moved.moves, &source, &mut out);
            assert!(!out.contains(&0), "{text} on {shape:?} leaves elements out");
            let input = Input::new(0, "", GgmlType::F32);
            let gather = Gather { inputs: vec![input], moves: moved.moves.clone(), maps: vec![] };
            let inverse = gather.inverse(|_| n);
            kinds.insert((text, inverse));
            let back: Vec<Move> = moved.moves.iter().map(|item| item.inverse(0)).collect();
            let mut restored = vec![0; n as usize];
            apply(&back, &out, &mut restored);
            if inverse == Inverse::Exact {
                assert_eq!(restored, source, "{text} on {shape:?}");
            } else {
                assert_ne!(restored, source, "{text} on {shape:?}");
                assert!(restored.iter().zip(&source).all(|(r, s)| *r == 0 || r == s), "{text} on {shape:?}");
            }
        }
    }
    // Patterns without slices restore everything, and so do slices that together cover an axis.
    let is_lost = |text: &str| kinds.contains(&(text, Inverse::Lost));
    assert!(kinds.iter().all(|(text, inverse)| *inverse == Inverse::Exact || text.contains('[')), "{kinds:?}");
    assert!(
        !is_lost("(kv g d) ... -> (kv g[:-2] d) ... + (kv g[-2] d) ... + (kv g[-1] d) ...")
            && is_lost("x (two[0] f) e -> x f e")
    );
    assert!(n_tried >= 100, "only {n_tried} shapes fitted");
}

/// Names that the reference's converter maps in code before its table lookup, so they are missing from its table.
const OWN_NAMES: &[(&str, &str)] =
    &[("granitemoe", "ffn_down.weight"), ("granitehybrid", "ffn_down.weight"), ("kimi-k3", "ssm_g.weight")];

/// The reference maps names with one table for all architectures. The rows agree with it.
#[test]
fn rows_name_what_the_reference_names() {
    let table: Json = serde_json::from_str(include_str!("../../tests/data/tensor-names.json")).unwrap();
    let strings =
        |v: &Json| v.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect::<Vec<_>>();
    let (mut n_known, mut unknown) = (0, BTreeSet::new());
    for (arch, checkpoint) in checkpoints() {
        let name = checkpoint.architecture(arch);
        // The reference cannot convert some architectures of the specification.
        let Some(tensors) = table["architectures"].get(name) else { continue };
        let mut map: BTreeMap<String, String> = BTreeMap::new();
        for key in ["outside", "blocks"] {
            for (role, names) in table[key].as_object().unwrap() {
                if strings(tensors).contains(role) {
                    let gguf = table["names"][role].as_str().unwrap().replace("{bid}", "{}");
                    map.extend(strings(names).into_iter().map(|n| (n.replace("{bid}", "{}"), gguf.clone())));
                }
            }
        }
        // Architecture-specific names take precedence over common ones.
        for (role, names) in table["blocks_of"].get(name).and_then(Json::as_object).into_iter().flatten() {
            let gguf = table["names"][role].as_str().unwrap().replace("{bid}", "{}");
            map.extend(strings(names).into_iter().map(|n| (n.replace("{bid}", "{}"), gguf.clone())));
        }
        for (row, in_block) in rows(arch) {
            let gguf =
                if in_block { format!("{}{{}}.{}", row.stack().prefix(), row.stem()) } else { row.stem().to_owned() };
            for source in row.source.split('|').map(str::trim).filter(|s| !s.is_empty() && !s.contains(" + ")) {
                let source = match (source.find('{'), source.find('}')) {
                    (Some(open), Some(close)) => {
                        format!("{}{}", &source[..open], source[close + 1..].trim_start_matches('.'))
                    }
                    _ => source.to_owned(),
                };
                let layers: &[&str] = if in_block { checkpoint.names.layers } else { &[""] };
                let roots = checkpoint.names.roots.iter().chain(&[""]);
                let full = roots.flat_map(|root| layers.iter().map(move |layer| format!("{root}{layer}")));
                let found: BTreeSet<&String> =
                    full.filter_map(|prefix| map.get(&format!("{prefix}{source}"))).collect();
                match found.is_empty() {
                    true => {
                        unknown.insert((name, row.name, source));
                    }
                    false if OWN_NAMES.contains(&(name, row.name)) => {}
                    // The reference writes some tensors of the first block twice.
                    false if row.when == When::First => {}
                    // The values of a formula precede the name of the tensor.
                    false if matches!(row.op, RowOp::Values(_)) && !found.contains(&gguf) => {}
                    // A split matrix has a different name than its parts.
                    false if row.pattern.contains('[') && !found.contains(&gguf) => {}
                    false => {
                        n_known += 1;
                        assert!(found.contains(&gguf), "{name}: {source} becomes {gguf}, in the reference {found:?}");
                    }
                }
            }
        }
    }
    println!("{n_known} names, {} that the reference makes itself: {unknown:#?}", unknown.len());
    assert!(n_known > 20);
}
