//! The configuration that gives the key-values of a file: the class of the checkpoint, and the fields of `config.json`.

use std::collections::HashSet;

use gguf_format::Gguf;
use gguf_model::arch::{
    self as table, Architecture, Checkpoint, Computed, FormulaType, Key, Reader, Row, RowOp, TOWERS, Tensor,
};
use serde_json::{Map, Value as Json, json};

use super::RopeScaling;
use super::fields;
use super::key_values::{is_constant, is_default, json_of, number, short};
use super::parameters;
use super::solve::{Edit, Solver, has_table, named_tokens};
use super::tokenizer;
use crate::arch::rows::Template;
use crate::arch::{self, computed::LLAMA3_FACTOR, keys};
use crate::autoconfig;
use crate::config::Config;
use crate::facts::Fact;
use crate::formula::{Fields, Formula, Op};
use crate::model_plan::Mtp;

/// A class of checkpoints with its configuration.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) architecture: &'static Architecture,
    pub(super) checkpoint: &'static Checkpoint,
    pub(super) class: &'static str,
    /// `config.json`.
    pub(super) document: Map<String, Json>,
    /// The fields of the configuration, and those that the table sets.
    pub(super) fields: Fields,
    /// The keys whose values no configuration was found to give.
    pub(super) unsolved: Vec<Unsolved>,
    /// Whether these are encoders of images and sound.
    pub(super) is_tower: bool,
    /// Which of the MTP blocks the file has.
    pub(super) mtp: Mtp,
    /// The tokens whose ids the encoders need, which are their places here.
    pub(super) added_tokens: Vec<String>,
    /// How unlikely the class is among those of the architecture.
    rank: usize,
}

/// The settings of the preprocessor in the document of encoders, which have a file of their own.
pub(super) const PREPROCESSOR: &str = "@preprocessor";

/// A key whose value no configuration was found to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsolved {
    pub(super) key: String,
    /// The fields that its formula reads.
    pub(super) fields: Vec<String>,
}

/// What is known about the tensors of a file.
pub(super) struct TensorFacts<'a> {
    pub(super) has: &'a dyn Fn(&str) -> bool,
    /// The number of rows of the embeddings.
    pub(super) n_tokens: Option<u64>,
    /// The number of rows of the embeddings of token types.
    pub(super) n_types: Option<u64>,
    /// The rotary scaling that tensors hold.
    pub(super) rope: Option<RopeScaling>,
    /// The value of all elements of a tensor in single precision; `None` if they differ.
    pub(super) constant: &'a dyn Fn(&str) -> Option<f32>,
}

/// The configurations of all classes that may have been converted to the file, the likeliest first.
pub(super) fn candidates(gguf: &Gguf<'_>, tensors: &TensorFacts<'_>) -> Vec<Candidate> {
    let name = gguf.get_as::<&str>("general.architecture").unwrap_or_default();
    let has_experts = number(gguf, &format!("{name}.expert_count")).is_some_and(|n| n > 0);
    let mut found = Vec::new();
    let is_tower = gguf.get_as::<&str>("general.type") == Ok("mmproj");
    let projector = projector_of(gguf);
    let towers = TOWERS.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
    let towers = towers.filter(|(_, checkpoint)| is_tower && arch::projector_type(checkpoint) == projector);
    let models = arch::supported().filter(|_| !is_tower);
    let all = models.filter(|(architecture, checkpoint)| checkpoint.architecture(architecture) == name).chain(towers);
    for (architecture, checkpoint) in all {
        for class in checkpoint.classes {
            let own = OWN_TYPES.iter().find(|(known, _)| known == class).map(|(_, own)| *own);
            let model_type = autoconfig::model_type_of(class).filter(|_| own.is_none());
            let defaults = model_type.map(autoconfig::defaults_of).unwrap_or_default();
            let text = model_type.and_then(autoconfig::text_defaults_of).filter(|_| !is_tower);
            let (is_nested, defaults) = (text.is_some(), text.unwrap_or(defaults));
            let knows_experts = EXPERTS.iter().any(|field| defaults.contains_key(*field));
            // Classes of transformers come first, of these the one for a model with or without experts.
            let mut rank = found.len();
            rank += if model_type.is_none() { 1000 } else { 0 };
            rank += if checkpoint.is_raw { 10_000 } else { 0 };
            rank += if model_type.is_some() && knows_experts != has_experts { 100 } else { 0 };
            rank += if tokenizer::is_read(gguf, checkpoint) { 0 } else { UNREAD };
            let (pooling, n_tokens) = (pooling(gguf, checkpoint), tensors.n_tokens);
            let peeked = parameters::facts(gguf, checkpoint, name);
            let start = Start {
                peeked,
                architecture,
                checkpoint,
                class,
                model_type,
                defaults,
                rank,
                pooling,
                n_tokens,
                is_nested,
                is_tower,
                own_type: own,
                mtp: Mtp::Included,
            };
            found.extend(start.solved_with_mtp(gguf, tensors));
        }
    }
    found.sort_by_key(|candidate| (candidate.rank >= UNREAD, candidate.unsolved.len(), candidate.rank));
    found
}

/// Classes outside of transformers whose names are like those of its classes, and their `model_type`.
const OWN_TYPES: [(&str, &str); 1] = [("LlamaBidirectionalModel", "llama_bidirec")];

/// The rank from which on classes do not read the tokenizer.
const UNREAD: usize = 1_000_000;

/// The field of rotary parameters of each kind of attention.
const PARAMETERS: &str = "rope_parameters";

/// The pooling of a sentence encoder, by the name of its setting, unless all files of the class have the same.
pub(super) fn pooling(gguf: &Gguf<'_>, checkpoint: &Checkpoint) -> Option<&'static str> {
    let arch = gguf.get_as::<&str>("general.architecture").ok()?;
    let mut rows = checkpoint.keys.iter().copied().flatten();
    if rows.any(|row| row.key == "pooling_type" && is_constant(row)) {
        return None;
    }
    match number(gguf, &format!("{arch}.pooling_type"))? {
        1 => Some("mean"),
        2 => Some("cls"),
        3 => Some("lasttoken"),
        _ => None,
    }
}

/// The field of Gemma 2 and 3 for the number whose square root divides the products of queries and keys.
const QUERY_SCALE: &str = "query_pre_attn_scalar";

/// The value of [`QUERY_SCALE`] that llama.cpp takes: the length of a key, in the models of 27 billion parameters the share of a head in a hidden
/// state (`load_arch_hparams` in `src/models/gemma2.cpp` and `gemma3.cpp` of llama.cpp).
fn query_scale(gguf: &Gguf<'_>, arch: &str) -> Option<u64> {
    let of = |key: &str| number(gguf, &format!("{arch}.{key}"));
    match (arch, of("block_count")?) {
        ("gemma2", 46) | ("gemma3", 62) => of("embedding_length")?.checked_div(of("attention.head_count")?),
        _ => of("attention.key_length"),
    }
}

/// The types of the projectors of a file with encoders, as [`arch::projector_type`] gives those of a table.
fn projector_of(gguf: &Gguf<'_>) -> String {
    let keys = gguf.kvs().filter(|kv| kv.key.as_bytes().ends_with(b"projector_type"));
    keys.filter_map(|kv| Some(kv.value.as_str()?.to_string())).collect::<Vec<_>>().join(", ")
}

/// Fields with the number of experts.
const EXPERTS: [&str; 3] = ["num_local_experts", "num_experts", "n_routed_experts"];

/// A class before its configuration is known.
#[derive(Clone)]
struct Start {
    architecture: &'static Architecture,
    checkpoint: &'static Checkpoint,
    class: &'static str,
    model_type: Option<&'static str>,
    defaults: Map<String, Json>,
    rank: usize,
    /// The pooling of a sentence encoder.
    pooling: Option<&'static str>,
    n_tokens: Option<u64>,
    /// Whether the class keeps the fields of the language model in an object.
    is_nested: bool,
    is_tower: bool,
    /// What conversions know from the values of tensors.
    peeked: Vec<(&'static str, Json)>,
    /// The `model_type` of a class that transformers does not have.
    own_type: Option<&'static str>,
    mtp: Mtp,
}

/// The changes that were tried, with the key or the condition that was their reason.
type Tried = HashSet<(String, String)>;

/// A key that is to have a value.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    key: &'a str,
    row: &'static Key,
    target: &'a Json,
}

/// The number of changes for one key of which the effects on other keys are compared.
const MAX_WEIGHED: usize = 24;

/// The number of changes of a configuration after which the search ends.
const MAX_EDITS: usize = 400;

impl Start {
    /// The class with the MTP blocks that the file has: a class may have them whatever its configuration says.
    fn solved_with_mtp(self, gguf: &Gguf<'_>, tensors: &TensorFacts<'_>) -> Option<Candidate> {
        let arch = self.checkpoint.architecture(self.architecture);
        let n_next = number(gguf, &format!("{arch}.nextn_predict_layers")).unwrap_or(0);
        if !self.checkpoint.separates_mtp {
            return self.solved(gguf, tensors);
        }
        if n_next > 0 && !(tensors.has)("blk.0.attn_norm.weight") && (tensors.has)("token_embd.weight") {
            return Start { mtp: Mtp::Only, ..self }.solved(gguf, tensors);
        }
        let other = (n_next == 0).then(|| Start { mtp: Mtp::LeftOut, ..self.clone() });
        let found = self.solved(gguf, tensors);
        match (found, other) {
            (Some(found), Some(other)) if !found.unsolved.is_empty() => {
                let other = other.solved(gguf, tensors);
                other.filter(|other| other.unsolved.len() < found.unsolved.len()).or(Some(found))
            }
            (found, _) => found,
        }
    }

    /// The class with a configuration that gives as many key-values as possible; `None` if the table does not apply.
    fn solved(self, gguf: &Gguf<'_>, tensors: &TensorFacts<'_>) -> Option<Candidate> {
        let arch = self.checkpoint.architecture(self.architecture);
        let mut document = self.begun(gguf, tensors);
        let tables = self.checkpoint.key_tables().chain(self.checkpoint.tokenizer.keys.iter().copied());
        let rows: Vec<&'static Key> = tables.flatten().collect();
        let set: Vec<(&'static str, Formula)> = rows
            .iter()
            .filter(|row| row.kind == FormulaType::Field)
            .filter_map(|row| Some((row.key, Formula::parse(row.formula).ok()?)))
            .collect();
        let (mut tried, mut unsolved): (Tried, Vec<Unsolved>) = Default::default();
        let (mut fields, mut good) = (None, None);
        for _ in 0..MAX_EDITS {
            let Some(evaluated) = self.evaluated(&document, &rows) else {
                // The class refuses the last change.
                document = good?;
                good = None;
                continue;
            };
            good = Some(document.clone());
            let wrong = rows.iter().find_map(|row| {
                let key = full_key(row, arch)?;
                let is_open = key != "general.file_type" && !unsolved.iter().any(|known| known.key == key);
                let target = gguf.get(&key).map_or(Json::Null, json_of);
                let is_wrong = !evaluated.has(&key, &target) || !target.is_null() && evaluated.fails(row.key, &rows);
                (is_open && is_wrong).then_some((key, *row, target))
            });
            let solver = Solver { fields: &evaluated.fields, set: &set, known: &self.defaults };
            let Some((key, row, target)) = wrong else {
                let better = self.completed(&document, &rows, &evaluated, &solver);
                let better = better.or_else(|| self.ordered(&document, &rows, &evaluated, (gguf, &solver)));
                let better = better.or_else(|| self.filled(&document, &rows, &evaluated, (&solver, tensors)));
                if let Some(changed) = better {
                    document = changed;
                    continue;
                }
                let next = self.accepted(&document, &rows, &evaluated, &solver, &mut tried);
                match next {
                    Some(changed) => {
                        document = changed;
                        continue;
                    }
                    None => {
                        fields = Some(evaluated.fields);
                        break;
                    }
                }
            };
            let wanted = Wanted { key: &key, row, target: &target };
            let next = self.nearer(&document, &rows, wanted, (gguf, &evaluated, &solver), &mut tried);
            match next {
                Some(changed) => {
                    // With the new value, keys that could not be solved before may have a solution.
                    document = changed;
                    unsolved.clear();
                }
                None => {
                    let names = Formula::parse(row.formula).map(|formula| formula.names()).unwrap_or_default();
                    unsolved.push(Unsolved { key, fields: names });
                }
            }
        }
        let fields = match fields {
            Some(fields) => fields,
            None => self.evaluated(&document, &rows)?.fields,
        };
        self.write_out(&mut document, &rows, &fields);
        let fields = self.with_divisors(&mut document, &rows, tensors).unwrap_or(fields);
        let document = self.wrapped(document);
        let added_tokens = self.added_tokens();
        let Start { architecture, checkpoint, class, rank, is_tower, mtp, .. } = self;
        Some(Candidate {
            architecture,
            checkpoint,
            class,
            document,
            fields,
            unsolved,
            is_tower,
            mtp,
            added_tokens,
            rank,
        })
    }

    /// The document with what does not depend on formulas.
    fn begun(&self, gguf: &Gguf<'_>, tensors: &TensorFacts<'_>) -> Map<String, Json> {
        let arch = self.checkpoint.architecture(self.architecture);
        let mut document = Map::new();
        document.insert("architectures".to_owned(), json!([self.class]));
        document.extend(self.model_type.or(self.own_type).map(|ty| ("model_type".to_owned(), json!(ty))));
        if !self.is_tower {
            let blocks = number(gguf, &format!("{arch}.block_count")).unwrap_or(1);
            document.insert(self.blocks_field().to_owned(), json!(blocks));
            self.set_from_tensors(&mut document, tensors);
            // A tensor that was divided comes back in one part.
            let whole = self.architecture.outside().filter(|tensor| (tensors.has)(&tensor.name().to_string()));
            document.extend(whole.filter_map(|tensor| Some((parts_field(tensor.row)?.to_owned(), json!(1)))));
        }
        set_token_ids(&mut document, gguf, self.checkpoint);
        document.extend(fields::of_class(self.class, gguf, arch));
        if let (true, Some(scale)) = (self.defaults.contains_key(QUERY_SCALE), query_scale(gguf, arch)) {
            document.insert(QUERY_SCALE.to_owned(), json!(scale));
        }
        match &tensors.rope {
            Some(RopeScaling::Llama3(divisors)) if self.is_proportional() => {
                // The frequencies of the other elements are divided by a number without end.
                let share = divisors.iter().filter(|x| **x == 1.0).count() as f64 / divisors.len().max(1) as f64;
                let full = json!({ "rope_type": "proportional", "partial_rotary_factor": share });
                document.insert(PARAMETERS.to_owned(), json!({ "full_attention": full }));
            }
            Some(scaling) => drop(document.insert("rope_scaling".to_owned(), scaling.first())),
            None => {}
        }
        document
    }

    /// A document with a change after which a key may have its value.
    fn nearer(
        &self,
        document: &Map<String, Json>,
        rows: &[&'static Key],
        wanted: Wanted<'_>,
        (gguf, now, solver): (&Gguf<'_>, &Evaluated, &Solver<'_>),
        tried: &mut Tried,
    ) -> Option<Map<String, Json>> {
        let Wanted { key, row, target } = wanted;
        // The formula of an earlier row may give the value.
        let of_key = rows.iter().rev().filter(|other| other.key == row.key && other.kind != FormulaType::Field);
        let formulas: Vec<Formula> = of_key.filter_map(|row| Formula::parse(row.formula).ok()).collect();
        let name = |(path, value): &Edit| (key.to_owned(), format!("{path}={value}"));
        let mut edits = formulas.iter().flat_map(|formula| solver.edits(formula, target));
        let mut edits = edits.by_ref().filter(|edit| !tried.contains(&name(edit)));
        let mut first: Vec<Edit> = edits.by_ref().take(MAX_WEIGHED).collect();
        // A change that leaves all other keys as they are is the best; otherwise the likeliest is taken.
        let right: Vec<(String, Json)> = now.right(gguf).chain([(key.to_owned(), target.clone())]).collect();
        let keeps = |edit: &Edit| {
            let changed = self.applied(document, edit.clone());
            let then = changed.and_then(|changed| self.evaluated(&changed, rows));
            then.is_some_and(|then| then.keeps(&right) && !then.fails(row.key, rows))
        };
        if let Some(best) = first.iter().position(keeps) {
            let best = first.remove(best);
            first.insert(0, best);
        } else {
            // A change that was made too early, and undone since, may be right now.
            let again = |edit: &Edit| (key.to_owned(), format!("{} again", name(edit).1));
            let before = formulas.iter().flat_map(|formula| solver.inverted(formula, target));
            let mut before = before.filter(|edit| tried.contains(&name(edit)) && !tried.contains(&again(edit)));
            if let Some(edit) = before.find(keeps) {
                drop((before, edits));
                tried.insert(again(&edit));
                return self.applied(document, edit);
            }
        }
        let mut all = first.into_iter().chain(edits);
        let (changed, edit) = all.find_map(|edit| Some((self.applied(document, edit.clone())?, name(&edit))))?;
        drop(all);
        tried.insert(edit);
        Some(changed)
    }

    /// A document with a change after which the conversion may not refuse it any more.
    fn accepted(
        &self,
        document: &Map<String, Json>,
        rows: &[&'static Key],
        now: &Evaluated,
        solver: &Solver<'_>,
        tried: &mut Tried,
    ) -> Option<Map<String, Json>> {
        let refused = self.checkpoint.refuse.iter().filter_map(|(text, _)| Some((*text, Formula::parse(text).ok()?)));
        let mut refused = refused.filter(|(_, formula)| !matches!(now.fields.holds(formula), Ok(false)));
        refused.find_map(|(text, formula)| {
            let edits: Vec<Edit> = solver.edits(&formula, &json!(false)).collect();
            // A change after which the formula is false is the best; otherwise one after the other is made.
            let sets = edits.iter().map(|edit| vec![edit.clone()]).chain(solver.completions(&formula, &[]));
            let mut changed = sets.filter_map(|set| self.all_applied(document, set));
            let is_taken = |changed: &Map<String, Json>| {
                let is_false =
                    |then: Evaluated| matches!(then.fields.holds(&formula), Ok(false)) && then.keeps(&now.values);
                is_within(document, changed) && self.evaluated(changed, rows).is_some_and(is_false)
            };
            changed.find(is_taken).or_else(|| {
                edits.into_iter().find_map(|(path, value)| {
                    let is_new = tried.insert((text.to_owned(), format!("{path}={value}")));
                    let changed = is_new.then(|| self.applied(document, (path, value))).flatten();
                    // What key-values and tensors have determined stays.
                    changed.filter(|changed| is_within(document, changed))
                })
            })
        })
    }

    /// A document with a change after which fewer formulas lack a field, and no other key has another value.
    fn completed(
        &self,
        document: &Map<String, Json>,
        rows: &[&'static Key],
        now: &Evaluated,
        solver: &Solver<'_>,
    ) -> Option<Map<String, Json>> {
        // A formula with a table says more about its fields than the others that read them.
        let formulas = now.failed.iter().filter_map(|text| Formula::parse(text).ok());
        let (of_tables, others): (Vec<Formula>, Vec<Formula>) = formulas.partition(has_table);
        let formulas = of_tables.into_iter().chain(others);
        let usual = usual(rows, &now.fields);
        let changes = formulas.flat_map(|formula| solver.completions(&formula, &usual));
        let changed = changes.filter_map(|edits| self.all_applied(document, edits));
        changed.into_iter().find(|changed| {
            let is_better = |then: Evaluated| then.failed.len() < now.failed.len() && then.keeps(&now.values);
            is_within(document, changed) && self.evaluated(changed, rows).is_some_and(is_better)
        })
    }

    /// A document with a change after which the keys are nearer to their order in the file: a key that several rows set has the place of the
    /// first that has a value.
    fn ordered(
        &self,
        document: &Map<String, Json>,
        rows: &[&'static Key],
        now: &Evaluated,
        (gguf, solver): (&Gguf<'_>, &Solver<'_>),
    ) -> Option<Map<String, Json>> {
        let arch = self.checkpoint.architecture(self.architecture);
        let n_moved = now.n_moved(gguf);
        if n_moved == 0 {
            return None;
        }
        let is_better = |changed: &Map<String, Json>| {
            let is_better = |then: Evaluated| {
                then.n_moved(gguf) < n_moved && then.failed.len() <= now.failed.len() && then.keeps(&now.values)
            };
            self.evaluated(changed, rows).is_some_and(is_better)
        };
        let has_several = |row: &&&'static Key| rows.iter().filter(|other| other.key == row.key).count() > 1;
        for row in rows.iter().filter(|row| row.kind != FormulaType::Field).filter(has_several) {
            let target = full_key(row, arch).and_then(|key| gguf.get(&key)).map_or(Json::Null, json_of);
            let first = target.as_array().and_then(|list| list.iter().find(|x| x.as_f64() != Some(0.0))).cloned();
            let Ok(formula) = Formula::parse(row.formula) else { continue };
            for wanted in [target, first.unwrap_or(json!(1))] {
                let edits = solver.edits(&formula, &wanted).take(MAX_WEIGHED);
                let mut changes = edits.filter_map(|edit| self.applied(document, edit));
                if let Some(changed) = changes.find(|changed| is_within(document, changed) && is_better(changed)) {
                    return Some(changed);
                }
            }
            // Another row gives the value without the field.
            for name in formula.names() {
                let mut changed = document.clone();
                if changed.remove(&name).is_some() && is_better(&changed) {
                    return Some(changed);
                }
            }
        }
        None
    }

    /// A document with a change after which a tensor has the value that a formula gives all its elements.
    fn filled(
        &self,
        document: &Map<String, Json>,
        rows: &[&'static Key],
        now: &Evaluated,
        (solver, tensors): (&Solver<'_>, &TensorFacts<'_>),
    ) -> Option<Map<String, Json>> {
        let outside = self.architecture.outside().map(|tensor| (tensor, tensor.name().to_string()));
        let blocks = self.architecture.block().map(|tensor| (tensor, format!("blk.0.{}", tensor.name())));
        outside.chain(blocks).find_map(|(tensor, name)| {
            let RowOp::Values(text) = tensor.row.op else { return None };
            let formula = Formula::parse(text).ok()?;
            let value = short((tensors.constant)(&name)?);
            let is_right =
                |fields: &Fields| matches!(fields.eval(&formula), Ok(Some(found)) if is_equal(&found, &value));
            if is_right(&now.fields) {
                return None;
            }
            solver.edits(&formula, &value).take(MAX_WEIGHED).find_map(|edit| {
                let changed = self.applied(document, edit)?;
                let then = self.evaluated(&changed, rows)?;
                (is_right(&then.fields) && then.keeps(&now.values)).then_some(changed)
            })
        })
    }

    /// The document as the class has it: the fields of the language model may be in an object.
    fn wrapped(&self, document: Map<String, Json>) -> Map<String, Json> {
        if !self.is_nested {
            return document;
        }
        let is_outside = |name: &str| {
            matches!(name, "architectures" | "model_type" | "tie_word_embeddings" | "vision_config" | "audio_config")
                || name.ends_with("_token_id")
        };
        let (mut outside, inside): (Map<_, _>, Map<_, _>) =
            document.into_iter().partition(|(name, _)| is_outside(name));
        outside.insert("text_config".to_owned(), Json::Object(inside));
        outside
    }

    /// Whether rotary frequencies are those of a share of the elements of a head.
    fn is_proportional(&self) -> bool {
        let is_frequencies = |computed: &Computed| matches!(computed, Computed::Values(super::ROPE_FREQS, _));
        self.checkpoint.computed.iter().any(is_frequencies)
    }

    /// The added tokens of which encoders need the ids.
    fn added_tokens(&self) -> Vec<String> {
        let rows = self.checkpoint.keys.iter().copied().flatten().filter(|_| self.is_tower);
        rows.flat_map(|row| Formula::parse(row.formula).map(|formula| named_tokens(&formula)).unwrap_or_default())
            .collect()
    }

    /// The name of the number of blocks in this class.
    fn blocks_field(&self) -> &'static str {
        let known = keys::BLOCKS.into_iter().find(|name| self.defaults.contains_key(*name));
        known.unwrap_or("num_hidden_layers")
    }

    /// Sets the fields that no key has, but tensors show.
    fn set_from_tensors(&self, document: &mut Map<String, Json>, tensors: &TensorFacts<'_>) {
        document.extend(tensors.n_tokens.map(|n| ("vocab_size".to_owned(), json!(n))));
        document.extend(tensors.n_types.map(|n| ("type_vocab_size".to_owned(), json!(n))));
        let has = tensors.has;
        let has_head = has("output.weight");
        let ties = self.architecture.outside().any(|tensor| tensor.is_named("output.weight"));
        if ties {
            document.insert("tie_word_embeddings".to_owned(), json!(!has_head));
        }
        let in_first_block = |names: &[&str]| names.iter().any(|name| has(&format!("blk.0.{name}")));
        let flags: [(&str, &[&str]); 8] = [
            ("attention_bias", &["attn_q.bias", "attn_qkv.bias"]),
            ("mlp_bias", &["ffn_up.bias"]),
            ("use_bias", &["attn_q.bias", "attn_qkv.bias"]),
            ("use_qkv_bias", &["attn_q.bias", "attn_qkv.bias"]),
            ("qkv_bias", &["attn_q.bias", "attn_qkv.bias"]),
            ("bias", &["attn_qkv.bias"]),
            ("use_qk_norm", &["attn_q_norm.weight"]),
            ("qk_layernorm", &["attn_q_norm.weight"]),
        ];
        for (field, names) in flags {
            if self.defaults.contains_key(field) {
                document.insert(field.to_owned(), json!(in_first_block(names)));
            }
        }
    }

    /// The key-values of a configuration; `None` if it is of another table.
    fn evaluated(&self, document: &Map<String, Json>, rows: &[&'static Key]) -> Option<Evaluated> {
        let mut raw = self.wrapped(document.clone());
        let preprocessor = raw.remove(PREPROCESSOR).unwrap_or_else(|| json!({}));
        let raw = Json::Object(raw);
        let mut config = match (self.is_tower, self.checkpoint.is_raw) {
            (true, _) => Config::tower(raw.clone()).ok()?,
            (false, true) => Config::raw(raw.clone()).ok()?,
            (false, false) => Config::new(raw.clone()).ok()?,
        };
        config.facts_mut().set(Fact::Preprocessor, preprocessor);
        let added = self.added_tokens().into_iter().enumerate();
        let added: Map<String, Json> = added.map(|(id, text)| (id.to_string(), json!({ "content": text }))).collect();
        if !added.is_empty() {
            config.facts_mut().set(Fact::AddedTokens, Json::Object(added));
        }
        // A draft model is its own target, because its files have the tokenizer of that.
        config.facts_mut().set(Fact::HasTarget, self.checkpoint.is_draft);
        if self.checkpoint.is_draft {
            config.facts_mut().set(Fact::Target, raw.clone());
            config.facts_mut().set(Fact::HasMaskEmbedding, false);
        }
        config.facts_mut().set(Fact::Config, raw);
        if let Some(name) = self.mtp.name() {
            config.facts_mut().set(Fact::Mtp, name);
        }
        for (fact, value) in &self.peeked {
            config.facts_mut().set_named(fact, value.clone());
        }
        if let Some(pooling) = self.pooling {
            config.facts_mut().set(Fact::SentencePooling, pooling);
        }
        let mut fields = match self.is_tower {
            true => arch::raw_fields(&config),
            false => keys::fields(&config).ok()?,
        };
        fields.facts.set(Fact::FileType, 0);
        let n_tokens = self.n_tokens.unwrap_or(0);
        fields.facts.set(Fact::Vocab, json!({ "rows": n_tokens, "tokens": n_tokens }));
        fields.facts.set(Fact::AppendedBlocks, 0);
        let arch = self.checkpoint.architecture(self.architecture);
        let (mut values, mut failed): (Vec<(String, Json)>, Vec<&'static str>) = Default::default();
        for row in rows {
            let Ok(found) = keys::evaluate(&[std::slice::from_ref(*row)], arch, &mut fields) else {
                failed.push(row.formula);
                continue;
            };
            for (key, value) in found {
                let value = json_of(value.as_ref());
                match values.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => values.push((key, value)),
                }
            }
        }
        let factors = self.architecture.outside().chain(self.architecture.block()).flat_map(|tensor| factors(&tensor));
        for formula in factors {
            let parsed = Formula::parse(formula).ok()?;
            if !matches!(fields.eval(&parsed), Ok(Some(_))) && !failed.contains(&formula) {
                failed.push(formula);
            }
        }
        Some(Evaluated { fields, values, failed })
    }

    /// A document with several changes.
    fn all_applied(&self, document: &Map<String, Json>, edits: Vec<Edit>) -> Option<Map<String, Json>> {
        edits.into_iter().try_fold(document.clone(), |document, edit| self.applied(&document, edit))
    }

    /// A document with a change; `None` if the field is not one of `config.json`.
    fn applied(&self, document: &Map<String, Json>, (path, value): Edit) -> Option<Map<String, Json>> {
        let mut document = document.clone();
        let mut parts = path.split('.');
        let first = parts.next()?;
        let known = |names: &[&'static str]| names.iter().copied().find(|name| self.defaults.contains_key(*name));
        let has_kinds = document.get(PARAMETERS).is_some_and(|rope| rope.get("full_attention").is_some());
        let path: Vec<&str> = match (first, parts.collect::<Vec<_>>().as_slice()) {
            ("@config", rest) if !self.is_nested => rest.to_vec(),
            ("architectures", _) => return None,
            (first, _) if first.starts_with('@') && (first != PREPROCESSOR || !self.is_tower) => return None,
            (first, rest) if self.is_tower => [&[first], rest].concat(),
            ("block_count", []) => vec![self.blocks_field()],
            ("rope", rest) if has_kinds => [&[PARAMETERS, "full_attention"], rest].concat(),
            ("rope_all", rest @ ["full_attention" | "sliding_attention", ..]) if has_kinds => {
                [&[PARAMETERS], rest].concat()
            }
            ("rope" | "rope_all", ["rope_theta"]) => vec![known(&["rotary_emb_base"]).unwrap_or("rope_theta")],
            ("rope" | "rope_all", ["partial_rotary_factor"]) => {
                vec![known(&["partial_rotary_factor", "rotary_pct", "rope_pct"]).unwrap_or("partial_rotary_factor")]
            }
            ("rope" | "rope_all", ["original_max_position_embeddings"])
                if known(&["original_max_position_embeddings"]).is_some() =>
            {
                vec!["original_max_position_embeddings"]
            }
            ("rope_all", ["sliding_attention", "rope_theta"]) => vec!["rope_local_base_freq"],
            ("rope" | "rope_all", rest) => [&["rope_scaling"], rest].concat(),
            (first, rest) => [&[first], rest].concat(),
        };
        let (last, objects) = path.split_last()?;
        // Only tensors have these lists.
        if matches!(*last, "long_factor" | "short_factor") {
            return None;
        }
        let mut place = &mut document;
        for name in objects {
            let inner = place.entry((*name).to_owned()).or_insert_with(|| json!({}));
            if inner.is_null() {
                *inner = json!({});
            }
            place = inner.as_object_mut()?;
        }
        // A rotary scaling has its type under the newer name.
        place.insert((*last).to_owned(), value);
        Some(document)
    }

    /// Sets the rotary scaling that gives the divisors of the file; returns the fields then.
    fn with_divisors(
        &self,
        document: &mut Map<String, Json>,
        rows: &[&'static Key],
        tensors: &TensorFacts<'_>,
    ) -> Option<Fields> {
        let Some(RopeScaling::Llama3(divisors)) = &tensors.rope else { return None };
        for scaling in RopeScaling::llama3(divisors) {
            document.insert("rope_scaling".to_owned(), scaling);
            let fields = self.evaluated(document, rows)?.fields;
            let found = match self.checkpoint.computed.contains(&Computed::Llama3FreqsOfPart) {
                true => arch::computed::llama3_factors_of_part(&fields),
                false => arch::computed::llama3_factors(&fields, LLAMA3_FACTOR),
            };
            if found.is_ok_and(|found| found == *divisors) {
                return Some(fields);
            }
        }
        None
    }

    /// Adds the fields that key-values are made of and that have the default of the class, so that the document does not depend on it.
    fn write_out(&self, document: &mut Map<String, Json>, rows: &[&'static Key], fields: &Fields) {
        let names = rows.iter().filter_map(|row| Formula::parse(row.formula).ok()).flat_map(|formula| formula.names());
        for name in names {
            let value = fields.fields.get(&name).filter(|value| value.is_number() || value.is_string());
            let is_set = rows.iter().any(|row| row.kind == FormulaType::Field && row.key == name);
            if let (Some(value), true, false) = (value, self.defaults.contains_key(&name), is_set) {
                document.entry(name).or_insert_with(|| value.clone());
            }
        }
    }
}

/// The key-values that a configuration gives.
struct Evaluated {
    fields: Fields,
    values: Vec<(String, Json)>,
    /// The formulas, of keys and of factors, that have no value, because the configuration lacks a field.
    failed: Vec<&'static str>,
}

impl Evaluated {
    /// The keys that have the values of a file.
    fn right<'a>(&'a self, gguf: &'a Gguf<'_>) -> impl Iterator<Item = (String, Json)> + 'a {
        let is_right = |(key, value): &&(String, Json)| gguf.get(key).is_some_and(|own| is_equal(&json_of(own), value));
        self.values.iter().filter(is_right).cloned()
    }

    /// The number of keys that do not follow those before them in a file.
    fn n_moved(&self, gguf: &Gguf<'_>) -> usize {
        let place = |key: &String| gguf.kvs().position(|kv| kv.key.as_bytes() == key.as_bytes());
        let places: Vec<usize> = self.values.iter().filter_map(|(key, _)| place(key)).collect();
        places.windows(2).filter(|pair| matches!(pair, [a, b] if a > b)).count()
    }

    /// Whether the last row of a key, or that of a field in it, lacks a field.
    fn fails(&self, key: &str, rows: &[&'static Key]) -> bool {
        let last = rows.iter().rfind(|row| row.key == key && row.kind != FormulaType::Field);
        let has_failed = |row: &Key| self.failed.contains(&row.formula);
        last.is_some_and(|last| {
            let names = Formula::parse(last.formula).map_or(Vec::new(), |formula| formula.names());
            let mut set =
                rows.iter().filter(|row| row.kind == FormulaType::Field && names.iter().any(|n| n == row.key));
            has_failed(last) || set.any(|row| has_failed(row))
        })
    }

    /// Whether all these keys have their values.
    fn keeps(&self, values: &[(String, Json)]) -> bool {
        values.iter().all(|(key, value)| self.has(key, value))
    }

    /// Whether a key has a value; `null` for none.
    fn has(&self, key: &str, target: &Json) -> bool {
        let found = self.values.iter().find(|(known, _)| known == key).map_or(&Json::Null, |(_, value)| value);
        is_equal(found, target)
    }
}

/// The field with the number of the parts that a tensor is made of.
fn parts_field(row: &Row) -> Option<&'static str> {
    let template = Template::new(row.source);
    template.stack.filter(|_| template.joins).map(|(field, _)| field)
}

/// The names of which formulas take the first that is present, with the value that they have.
fn usual(rows: &[&'static Key], fields: &Fields) -> Vec<(String, Json)> {
    let mut found = Vec::new();
    for formula in rows.iter().filter_map(|row| Formula::parse(row.formula).ok()) {
        let options = match &formula {
            Formula::Present(options) => options,
            Formula::Binary(Op::Or, first, _) => match first.as_ref() {
                Formula::Present(options) => options,
                _ => continue,
            },
            _ => continue,
        };
        let Ok(Some(value)) = fields.eval(&formula) else { continue };
        let value = value.into_owned();
        found.extend(options.iter().flat_map(Formula::names).map(|name| (name, value.clone())));
    }
    found
}

/// The formulas of the factors by which a tensor is multiplied.
fn factors(tensor: &Tensor) -> impl Iterator<Item = &'static str> + use<> {
    let maps = match tensor.row.op {
        RowOp::Map(maps) if !tensor.row.source.is_empty() => maps,
        _ => &[],
    };
    maps.iter().filter_map(|map| match map {
        table::Map::ScaleBy(formula) | table::Map::ScaleRowsBy(formula) => Some(*formula),
        _ => None,
    })
}

/// Whether a document has all values of another.
fn is_within(of: &Map<String, Json>, document: &Map<String, Json>) -> bool {
    of.iter().all(|(name, value)| match (value, document.get(name)) {
        (Json::Object(inner), Some(Json::Object(found))) => is_within(inner, found),
        (value, found) => found == Some(value),
    })
}

/// Whether two values are equal, numbers regardless of their types.
pub(super) fn is_equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b)),
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// The key of a row in full; `None` for a field.
pub(super) fn full_key(row: &Key, arch: &str) -> Option<String> {
    match row.kind {
        FormulaType::Field => None,
        _ if keys::PREFIXES.iter().any(|prefix| row.key.starts_with(prefix)) => Some(row.key.to_owned()),
        _ => Some(format!("{arch}.{}", row.key)),
    }
}

/// The ids of special tokens, which transformers reads from `config.json`, too.
fn set_token_ids(document: &mut Map<String, Json>, gguf: &Gguf<'_>, checkpoint: &Checkpoint) {
    let place = |key: &str| gguf.kvs().position(|kv| kv.key.as_bytes() == key.as_bytes());
    let turn = place("tokenizer.ggml.eot_token_id");
    for (kind, key) in super::TOKEN_IDS.into_iter().filter(|(kind, _)| !is_default(checkpoint, kind)) {
        // RWKV's have fixed ids, which follow that of the end of a turn if the configuration does not have them.
        let is_fixed = checkpoint.tokenizer.vocab.readers.contains(&Reader::RwkvWorld)
            && turn.zip(place(&format!("tokenizer.ggml.{key}_token_id"))).is_some_and(|(turn, own)| turn < own);
        if is_fixed {
            continue;
        }
        if let Some(id) = number(gguf, &format!("tokenizer.ggml.{key}_token_id")) {
            document.insert(format!("{kind}_token_id"), json!(id));
        }
    }
}
