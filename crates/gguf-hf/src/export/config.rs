//! The configuration that gives the key-values of a file: the class of the checkpoint, and the fields of `config.json`.

use std::collections::HashSet;

use gguf_format::{Gguf, ValueRef};
use gguf_model::arch::{Architecture, Checkpoint, FormulaType, Key, TOWERS};
use serde_json::{Map, Value as Json, json};

use super::RopeScaling;
use super::solve::{Edit, Solver};
use crate::arch::{self, computed::LLAMA3_FACTOR, keys};
use crate::autoconfig;
use crate::config::Config;
use crate::facts::Fact;
use crate::formula::{Fields, Formula};

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
    for (architecture, checkpoint) in all.filter(|(_, checkpoint)| !checkpoint.is_draft) {
        for class in checkpoint.classes {
            let model_type = autoconfig::model_type_of(class);
            let defaults = model_type.map(autoconfig::defaults_of).unwrap_or_default();
            let text = model_type.and_then(autoconfig::text_defaults_of).filter(|_| !is_tower);
            let (is_nested, defaults) = (text.is_some(), text.unwrap_or(defaults));
            let knows_experts = EXPERTS.iter().any(|field| defaults.contains_key(*field));
            // Classes of transformers come first, of these the one for a model with or without experts.
            let mut rank = found.len();
            rank += if model_type.is_none() { 1000 } else { 0 };
            rank += if checkpoint.is_raw { 10_000 } else { 0 };
            rank += if model_type.is_some() && knows_experts != has_experts { 100 } else { 0 };
            let (pooling, n_tokens) = (pooling(gguf), tensors.n_tokens);
            let start = Start {
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
            };
            found.extend(start.solved(gguf, tensors));
        }
    }
    found.sort_by_key(|candidate| (candidate.unsolved.len(), candidate.rank));
    found
}

/// The pooling of a sentence encoder, by the name of its setting.
pub(super) fn pooling(gguf: &Gguf<'_>) -> Option<&'static str> {
    let arch = gguf.get_as::<&str>("general.architecture").ok()?;
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
}

/// The number of changes of a configuration after which the search ends.
const MAX_EDITS: usize = 400;

impl Start {
    /// The class with a configuration that gives as many key-values as possible; `None` if the table does not apply.
    fn solved(self, gguf: &Gguf<'_>, tensors: &TensorFacts<'_>) -> Option<Candidate> {
        let arch = self.checkpoint.architecture(self.architecture);
        let mut document = Map::new();
        document.insert("architectures".to_owned(), json!([self.class]));
        document.extend(self.model_type.map(|ty| ("model_type".to_owned(), json!(ty))));
        if !self.is_tower {
            let blocks = number(gguf, &format!("{arch}.block_count")).unwrap_or(1);
            document.insert(self.blocks_field().to_owned(), json!(blocks));
            self.set_from_tensors(&mut document, tensors);
        }
        set_token_ids(&mut document, gguf, self.checkpoint);
        if let (true, Some(scale)) = (self.defaults.contains_key(QUERY_SCALE), query_scale(gguf, arch)) {
            document.insert(QUERY_SCALE.to_owned(), json!(scale));
        }
        if let Some(scaling) = &tensors.rope {
            document.insert("rope_scaling".to_owned(), scaling.first());
        }

        let rows: Vec<&'static Key> =
            self.checkpoint.early_keys.iter().chain(self.checkpoint.keys).copied().flatten().collect();
        let set: Vec<(&'static str, Formula)> = rows
            .iter()
            .filter(|row| row.kind == FormulaType::Field)
            .filter_map(|row| Some((row.key, Formula::parse(row.formula).ok()?)))
            .collect();
        let (mut tried, mut unsolved): (HashSet<(String, String)>, Vec<Unsolved>) = Default::default();
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
                (is_open && !evaluated.has(&key, &target)).then_some((key, *row, target))
            });
            let solver = Solver { fields: &evaluated.fields, set: &set };
            let Some((key, row, target)) = wrong else {
                // A configuration with these key-values may still be refused.
                let refused =
                    self.checkpoint.refuse.iter().filter_map(|(text, _)| Some((*text, Formula::parse(text).ok()?)));
                let mut refused = refused.filter(|(_, formula)| !matches!(evaluated.fields.holds(formula), Ok(false)));
                let next = refused.find_map(|(text, formula)| {
                    let never = json!(false);
                    let mut edits = solver.edits(&formula, &never);
                    edits.find_map(|(path, value)| {
                        let is_new = tried.insert((text.to_owned(), format!("{path}={value}")));
                        let changed = is_new.then(|| self.applied(&document, (path, value))).flatten();
                        // What key-values and tensors have determined stays.
                        changed.filter(|changed| document.iter().all(|(name, value)| changed.get(name) == Some(value)))
                    })
                });
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
            // The formula of an earlier row may give the value.
            let of_key = rows.iter().rev().filter(|other| other.key == row.key && other.kind != FormulaType::Field);
            let formulas: Vec<Formula> = of_key.filter_map(|row| Formula::parse(row.formula).ok()).collect();
            let mut edits = formulas.iter().flat_map(|formula| solver.edits(formula, &target));
            let next = edits.find_map(|(path, value)| {
                let is_new = tried.insert((key.clone(), format!("{path}={value}")));
                is_new.then(|| self.applied(&document, (path, value))).flatten()
            });
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
        let Start { architecture, checkpoint, class, rank, is_tower, .. } = self;
        Some(Candidate { architecture, checkpoint, class, document, fields, unsolved, is_tower, rank })
    }

    /// The document as the class has it: the fields of the language model may be in an object.
    fn wrapped(&self, document: Map<String, Json>) -> Map<String, Json> {
        if !self.is_nested {
            return document;
        }
        let is_outside = |name: &str| {
            matches!(name, "architectures" | "model_type" | "tie_word_embeddings") || name.ends_with("_token_id")
        };
        let (mut outside, inside): (Map<_, _>, Map<_, _>) =
            document.into_iter().partition(|(name, _)| is_outside(name));
        outside.insert("text_config".to_owned(), Json::Object(inside));
        outside
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
        config.facts_mut().set(Fact::Config, raw);
        config.facts_mut().set(Fact::HasTarget, false);
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
        let mut values: Vec<(String, Json)> = Vec::new();
        for row in rows {
            let Ok(found) = keys::evaluate(&[std::slice::from_ref(*row)], arch, &mut fields) else { continue };
            for (key, value) in found {
                values.retain(|(known, _)| *known != key);
                values.push((key, json_of(value.as_ref())));
            }
        }
        Some(Evaluated { fields, values })
    }

    /// A document with a change; `None` if the field is not one of `config.json`.
    fn applied(&self, document: &Map<String, Json>, (path, value): Edit) -> Option<Map<String, Json>> {
        let mut document = document.clone();
        let mut parts = path.split('.');
        let first = parts.next()?;
        let known = |names: &[&'static str]| names.iter().copied().find(|name| self.defaults.contains_key(*name));
        let path: Vec<&str> = match (first, parts.collect::<Vec<_>>().as_slice()) {
            (first, _) if first.starts_with('@') && (first != PREPROCESSOR || !self.is_tower) => return None,
            (first, rest) if self.is_tower => [&[first], rest].concat(),
            ("block_count", []) => vec![self.blocks_field()],
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
            if arch::computed::llama3_factors(&fields, LLAMA3_FACTOR).is_ok_and(|found| found == *divisors) {
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
}

impl Evaluated {
    /// Whether a key has a value; `null` for none.
    fn has(&self, key: &str, target: &Json) -> bool {
        let found = self.values.iter().find(|(known, _)| known == key).map_or(&Json::Null, |(_, value)| value);
        is_equal(found, target)
    }
}

/// Whether two values are equal, numbers regardless of their types.
fn is_equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b)),
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// The key of a row in full; `None` for a field.
fn full_key(row: &Key, arch: &str) -> Option<String> {
    match row.kind {
        FormulaType::Field => None,
        _ if keys::PREFIXES.iter().any(|prefix| row.key.starts_with(prefix)) => Some(row.key.to_owned()),
        _ => Some(format!("{arch}.{}", row.key)),
    }
}

/// The ids of special tokens, which transformers reads from `config.json`, too.
fn set_token_ids(document: &mut Map<String, Json>, gguf: &Gguf<'_>, checkpoint: &Checkpoint) {
    for (kind, key) in super::TOKEN_IDS.into_iter().filter(|(kind, _)| !is_default(checkpoint, kind)) {
        if let Some(id) = number(gguf, &format!("tokenizer.ggml.{key}_token_id")) {
            document.insert(format!("{kind}_token_id"), json!(id));
        }
    }
}

/// Whether the table has a default for the unknown token, so that the files of the class do not name it.
pub(super) fn is_default(checkpoint: &Checkpoint, kind: &str) -> bool {
    kind == "unk" && checkpoint.tokenizer.special_tokens.iter().any(|(known, _)| *known == kind)
}

pub(super) fn number(gguf: &Gguf<'_>, key: &str) -> Option<u64> {
    gguf.get(key)?.as_integer().and_then(|n| u64::try_from(n).ok())
}

/// A value as JSON: floats as the shortest decimal number that gives them.
pub(super) fn json_of(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::F32(x) => short(x),
        ValueRef::F64(x) => json!(x),
        ValueRef::Bool(flag) => json!(flag != 0),
        ValueRef::String(text) => json!(text.to_string_lossy()),
        ValueRef::Array(array) => array.iter().map(json_of).collect(),
        other => match other.as_integer() {
            Some(n) => i64::try_from(n).map_or_else(|_| json!(u64::try_from(n).unwrap_or(u64::MAX)), |n| json!(n)),
            None => Json::Null,
        },
    }
}

/// The shortest decimal number that is rounded to a single-precision one.
pub(super) fn short(x: f32) -> Json {
    json!(x.to_string().parse::<f64>().unwrap_or(f64::from(x)))
}
