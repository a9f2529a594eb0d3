//! The fields that the configuration classes of transformers derive from a `config.json`.
//!
//! The classes are data in `data/autoconfig.json`, whose format is documented in `data/autoconfig.py`, the script that writes it. This
//! module interprets them. A class fills in defaults, resolves aliases, derives fields from other fields and builds the nested
//! configurations. A class may reject a document; the reference converter then uses the file unchanged.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config_error::Error;
use crate::facts::Facts;
use crate::formula::{self, Formula, is_true};

type Fields = Map<String, Value>;

#[derive(Deserialize)]
struct Table {
    base: Fields,
    model_types: HashMap<String, String>,
    classes: HashMap<String, Class>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Class {
    #[serde(rename = "type")]
    model_type: String,
    defaults: Fields,
    map: HashMap<String, String>,
    late: bool,
    subs: HashMap<String, Sub>,
    rules: Vec<(String, When, Expr)>,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Sub {
    class: String,
    #[serde(default)]
    auto: bool,
    missing: Option<Value>,
    #[serde(default)]
    under: Fields,
    #[serde(default)]
    without: Vec<String>,
}

/// The condition under which a rule sets its field.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    /// The field is null.
    Null,
    /// The field is null or an empty list.
    Empty,
    /// The document does not have the field.
    Absent,
    Always,
    /// The document has the field to copy.
    Given,
    /// The field to copy is not null.
    Set,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expr {
    Value {
        value: Value,
    },
    Copy {
        copy: String,
    },
    /// A formula over the fields, in the notation of the tables of architectures.
    Formula {
        formula: String,
    },
    Named {
        named: Named,
    },
}

/// Rules that are not expressions.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    RopeTypeOrType,
    RopeFloats,
}

/// Conditions that a document must meet.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Check {
    Rope,
    RopeIfUsed,
    Mscale,
    LayerTypes,
    LayerKinds,
    Longrope,
    LinearOrDynamic,
    MambaHeads,
    Untied,
}

/// Why the fields of a class cannot be derived.
#[derive(Debug)]
enum Stop {
    /// The class rejects the document.
    Refused,
    /// A field cannot be derived from the given values.
    Invalid(Error),
}

/// The maximum number of layers; it bounds lists with one entry per layer.
const MAX_LAYERS: i64 = 65536;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        serde_json::from_str(include_str!("../data/autoconfig.json")).expect("the embedded table follows its format")
    })
}

/// The fields that the class for the document's `model_type` defines; `None` if there is no such class or the class rejects the document.
///
/// # Errors
/// [`Error::Invalid`] if other fields cannot be derived from a field's value.
pub(crate) fn apply(document: &Fields) -> Result<Option<Fields>, Error> {
    let table = table();
    let model_type = match document.get("model_type").and_then(Value::as_str) {
        // Some Mistral checkpoints mix layer types; transformers uses another class for them.
        Some("mistral") if document.contains_key("layer_types") => "ministral",
        Some(model_type) => model_type,
        None => return Ok(None),
    };
    let Some(class) = table.class_of(model_type) else { return Ok(None) };
    match table.build(class, document) {
        Ok(fields) => Ok(Some(fields)),
        Err(Stop::Refused) => Ok(None),
        Err(Stop::Invalid(error)) => Err(error),
    }
}

/// The endings of names of model classes, behind the name of the configuration's class.
const ENDINGS: [&str; 10] = [
    "ForCausalLM",
    "LMHeadModel",
    "ForConditionalGeneration",
    "ForMaskedLM",
    "ForSequenceClassification",
    "BidirectionalModel",
    "EncoderModel",
    "TextModel",
    "ForVision2Seq",
    "Model",
];

/// The `model_type` of the configurations of a model class of transformers; `None` for other classes.
pub(crate) fn model_type_of(class: &str) -> Option<&'static str> {
    let stem = ENDINGS.iter().find_map(|ending| class.strip_suffix(ending))?;
    // The text part of a multimodal model has a class of its own.
    let is_text = class.ends_with("ForCausalLM") || class.ends_with("TextModel");
    let of_text = table().classes.get(&format!("{stem}TextConfig")).filter(|_| is_text);
    let class = of_text.or_else(|| table().classes.get(&format!("{stem}Config")))?;
    Some(class.model_type.as_str())
}

/// The defaults of the language model of a multimodal class, which has them in `text_config`; `None` for other classes.
pub(crate) fn text_defaults_of(model_type: &str) -> Option<Fields> {
    let text = table().class_of(model_type)?.subs.get("text_config")?;
    let class = table().classes.get(&text.class)?;
    Some(class.defaults.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The defaults of the class for a `model_type`.
pub(crate) fn defaults_of(model_type: &str) -> Fields {
    let class = table().class_of(model_type);
    class
        .map(|class| class.defaults.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
        .unwrap_or_default()
}

impl Table {
    fn class_of(&self, model_type: &str) -> Option<&Class> {
        self.classes.get(self.model_types.get(model_type)?)
    }

    fn build(&self, class: &Class, document: &Fields) -> Result<Fields, Stop> {
        let mut fields = document.clone();
        let mut given: Vec<&str> = document.keys().map(String::as_str).collect();
        for (name, value) in class.defaults.iter().chain(&self.base) {
            fields.entry(name.as_str()).or_insert_with(|| value.clone());
        }
        let aliases: Vec<(&str, &Value)> = document
            .iter()
            .filter_map(|(alias, value)| Some((class.map.get(alias)?.as_str(), value)))
            .filter(|(name, _)| !name.is_empty())
            .collect();
        let store = |fields: &mut Fields| fields.extend(aliases.iter().map(|(n, v)| ((*n).to_owned(), (*v).clone())));
        if !class.late {
            store(&mut fields);
            given.extend(aliases.iter().map(|(name, _)| *name));
        }
        let mut environment = formula::Fields { fields, facts: Facts::default(), n_blocks: 0 };
        for (target, when, expr) in &class.rules {
            if when.applies(target, expr, &environment.fields, &given) {
                let value = expr.evaluate(target, &environment)?;
                if !value.is_null() || environment.fields.contains_key(target) {
                    environment.fields.insert(target.clone(), value);
                }
            }
        }
        let mut fields = environment.fields;
        store(&mut fields);
        fields.retain(|name, _| !class.map.contains_key(name));
        for (name, sub) in &class.subs {
            if let Some(value) = self.nested(sub, fields.get(name), document)? {
                fields.insert(name.clone(), value);
            }
        }
        fields.insert("model_type".to_owned(), class.model_type.as_str().into());
        labels(&mut fields)?;
        dtype(&mut fields)?;
        if fields.get("quantization_config").is_some_and(|c| !c.is_object()) {
            return Err(Stop::Refused);
        }
        for check in &class.checks {
            if !check.holds(&fields) {
                return Err(Stop::Refused);
            }
        }
        Ok(fields)
    }

    /// A nested configuration; `None` leaves the field unchanged.
    fn nested(&self, sub: &Sub, value: Option<&Value>, around: &Fields) -> Result<Option<Value>, Stop> {
        let (document, is_missing) = match (value, &sub.missing) {
            (Some(Value::Object(inner)), _) => {
                let mut fields = sub.under.clone();
                fields.extend(inner.clone());
                (fields, false)
            }
            (None | Some(Value::Null), Some(Value::Object(inner))) => (inner.clone(), true),
            (None | Some(Value::Null), Some(_)) => {
                let kept = around.iter().filter(|(name, _)| !sub.without.contains(name));
                let kept = kept.filter(|(name, _)| *name != "model_type");
                (kept.map(|(name, value)| (name.clone(), value.clone())).collect(), false)
            }
            _ => return Ok(None),
        };
        let class = match document.get("model_type") {
            Some(kind) if sub.auto || is_missing => kind.as_str().and_then(|kind| self.class_of(kind)),
            _ => self.classes.get(&sub.class),
        };
        self.build(class.ok_or(Stop::Refused)?, &document).map(|fields| Some(Value::Object(fields)))
    }
}

impl When {
    fn applies(&self, target: &str, expr: &Expr, fields: &Fields, given: &[&str]) -> bool {
        let source = match expr {
            Expr::Copy { copy } => copy.as_str(),
            _ => "",
        };
        match self {
            When::Null => is_null(fields, target),
            When::Empty => is_null(fields, target) || fields[target].as_array().is_some_and(Vec::is_empty),
            When::Absent => !given.contains(&target),
            When::Always => true,
            When::Given => given.contains(&source),
            When::Set => !is_null(fields, source),
        }
    }
}

impl Expr {
    fn evaluate(&self, target: &str, environment: &formula::Fields) -> Result<Value, Stop> {
        let get = |name: &str| environment.fields.get(name).cloned().unwrap_or(Value::Null);
        match self {
            Expr::Value { value } => Ok(value.clone()),
            Expr::Copy { copy } => Ok(get(copy)),
            Expr::Formula { formula } => evaluate(formula, environment),
            Expr::Named { named } => named.evaluate(get(target)),
        }
    }
}

/// The value of a formula. Fields that it cannot use are those that the classes reject.
fn evaluate(formula: &str, environment: &formula::Fields) -> Result<Value, Stop> {
    let formula = Formula::parse(formula).map_err(|_| Stop::Refused)?;
    if formula.names().iter().any(|name| name == LAYERS) {
        check_layers(&environment.fields)?;
    }
    let divisors = formula.divisors();
    match environment.eval(&formula) {
        // The classes divide integers.
        Ok(Some(value)) if !divisors.is_empty() && value.as_i64().is_none() => Err(Stop::Refused),
        Ok(value) => Ok(value.map_or(Value::Null, Cow::into_owned)),
        Err(formula::Error::Unusable { what, found, .. }) if found == 0 && divisors.contains(&what) => {
            Err(Stop::Invalid(Error::invalid(what, &found, "at least one")))
        }
        Err(_) => Err(Stop::Refused),
    }
}

impl Named {
    /// The replacement for a field's current value.
    fn evaluate(&self, mut value: Value) -> Result<Value, Stop> {
        match self {
            Named::RopeTypeOrType => {
                if let Value::Object(rope) = &mut value {
                    let kind = rope.get("type").cloned().unwrap_or(Value::Null);
                    rope.entry("rope_type").or_insert(kind);
                }
            }
            Named::RopeFloats => {
                for name in ["beta_fast", "beta_slow", "factor"] {
                    if let Some(number) = value.get_mut(name) {
                        *number = number.as_f64().ok_or(Stop::Refused)?.into();
                    }
                }
            }
        }
        Ok(value)
    }
}

impl Check {
    fn holds(&self, fields: &Fields) -> bool {
        let field = |name: &str| fields.get(name).unwrap_or(&Value::Null);
        let rope = field("rope_scaling");
        match self {
            Check::Rope => has_rope_fields(rope),
            Check::RopeIfUsed => field("position_embedding_type") != "rope" || has_rope_fields(rope),
            Check::Mscale => {
                rope.is_null() || ["short_mscale", "long_mscale"].iter().all(|name| rope[*name].is_number())
            }
            Check::LayerTypes => {
                let n_layers = field("num_hidden_layers");
                let n_types = field("layer_types").as_array().map(|list| list.len() as u64);
                Check::LayerKinds.holds(fields) && (n_layers.is_null() || n_layers.as_u64() == n_types)
            }
            Check::LayerKinds => {
                const KINDS: [&str; 4] =
                    ["full_attention", "sliding_attention", "chunked_attention", "linear_attention"];
                let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| KINDS.contains(&kind));
                field("layer_types").as_array().is_some_and(|list| list.iter().all(is_known))
            }
            Check::Longrope => rope.is_null() || is_longrope(rope, fields),
            Check::LinearOrDynamic => {
                let kind = rope.get("type").unwrap_or(&Value::Null);
                let factor = rope.get("factor").filter(|factor| factor.is_f64()).and_then(Value::as_f64);
                let n_fields = rope.as_object().map_or(0, Map::len);
                rope.is_null()
                    || n_fields == 2
                        && (kind == "linear" || kind == "dynamic")
                        && factor.is_some_and(|factor| factor > 1.0)
            }
            Check::MambaHeads => mamba_heads_fit(fields),
            Check::Untied => !is_true(fields.get("tie_word_embeddings")),
        }
    }
}

/// Whether a RoPE scaling has the fields of its kind.
fn has_rope_fields(rope: &Value) -> bool {
    let Value::Object(object) = rope else { return rope.is_null() };
    let default = Value::from("default");
    let kind = object.get("rope_type").or_else(|| object.get("type")).unwrap_or(&default);
    let required: &[&str] = match kind.as_str().unwrap_or_default() {
        "default" => &["rope_type"],
        "linear" | "dynamic" | "yarn" => &["rope_type", "factor"],
        "longrope" => &["rope_type", "short_factor", "long_factor"],
        "llama3" => &["rope_type", "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"],
        _ => &[],
    };
    required.iter().all(|name| object.contains_key(*name))
}

/// Whether the Phi-3 class accepts a RoPE scaling.
fn is_longrope(rope: &Value, fields: &Fields) -> bool {
    let Ok(hidden) = integer(fields, "hidden_size") else { return false };
    let Ok(heads) = integer(fields, "num_attention_heads") else { return false };
    let Some(dims) = hidden.checked_div_euclid(heads) else { return false };
    let part = fields.get("partial_rotary_factor").and_then(Value::as_f64).unwrap_or(1.0);
    let n_factors = (dims as f64 * part) as u64 / 2;
    let has_factors = |name: &str| {
        let list = rope.get(name).and_then(Value::as_array);
        list.is_some_and(|list| list.len() as u64 == n_factors && list.iter().all(Value::is_number))
    };
    rope.as_object().is_some_and(|rope| rope.len() == 3)
        && rope["type"] == "longrope"
        && has_factors("short_factor")
        && has_factors("long_factor")
}

/// Whether the heads of Mamba make up its width.
fn mamba_heads_fit(environment: &Fields) -> bool {
    const FIT: &str =
        "mamba_d_head * mamba_n_heads == (mamba_d_ssm if mamba_d_ssm != null else int(mamba_expand * hidden_size))";
    let environment = formula::Fields { fields: environment.clone(), facts: Facts::default(), n_blocks: 0 };
    evaluate(FIT, &environment).is_ok_and(|fits| fits == true)
}

/// The class labels of a classifier, or their indices if the document gives only their number.
fn labels(fields: &mut Fields) -> Result<(), Stop> {
    let n_labels = fields.remove("num_labels").filter(|n| !n.is_null());
    fields.entry("label2id").or_insert(Value::Null);
    if is_null(fields, "id2label") {
        let n_labels = n_labels.map_or(Some(2), |n| n.as_i64()).ok_or(Stop::Refused)?.clamp(0, MAX_LAYERS);
        let label = |i| format!("LABEL_{i}");
        let names: Fields = (0..n_labels).map(|i| (i.to_string(), label(i).into())).collect();
        let ids: Fields = (0..n_labels).map(|i| (label(i), i.into())).collect();
        fields.insert("id2label".to_owned(), names.into());
        fields.insert("label2id".to_owned(), ids.into());
    }
    Ok(())
}

/// The data type of the weights, under its canonical name.
fn dtype(fields: &mut Fields) -> Result<(), Stop> {
    let older = fields.shift_remove("torch_dtype").unwrap_or(Value::Null);
    let value = fields.get("dtype").filter(|value| !value.is_null()).unwrap_or(&older);
    let value = match value.as_str() {
        None => value.clone(),
        Some("float") => "float32".into(),
        Some("double") => "float64".into(),
        Some("half") => "float16".into(),
        Some(name) => {
            let bits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let is_type = matches!(name, "bfloat16" | "bool")
                || name.starts_with("float8_e")
                || matches!((name.strip_suffix(bits), bits), (Some("float"), "16" | "32" | "64"))
                || matches!((name.strip_suffix(bits), bits), (Some("int" | "uint"), "8" | "16" | "32" | "64"));
            if !is_type {
                return Err(Stop::Refused);
            }
            name.into()
        }
    };
    fields.insert("dtype".to_owned(), value);
    Ok(())
}

fn is_null(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_none_or(Value::is_null)
}

fn integer(fields: &Fields, name: &str) -> Result<i64, Stop> {
    fields.get(name).and_then(Value::as_i64).ok_or(Stop::Refused)
}

const LAYERS: &str = "num_hidden_layers";

/// Checks the number of layers, which bounds lists with an element for each.
fn check_layers(fields: &Fields) -> Result<(), Stop> {
    let n = integer(fields, LAYERS)?;
    match n <= MAX_LAYERS {
        true => Ok(()),
        false => Err(Stop::Invalid(Error::invalid(LAYERS, &json!(n), "at most 65536 layers"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let table = table();
        assert!(table.model_types.len() > 400 && table.base.contains_key("tie_word_embeddings"));
        let subs = table.classes.values().flat_map(|class| class.subs.values()).map(|sub| &sub.class);
        for class in table.model_types.values().chain(subs) {
            assert!(table.classes.contains_key(class), "{class}");
        }
        for (target, _, expr) in table.classes.values().flat_map(|class| &class.rules) {
            if let Expr::Formula { formula } = expr {
                assert!(Formula::parse(formula).is_ok(), "{target}: {formula}");
            }
        }
    }
}
