//! Key-values from the formulas of an architecture.

use std::borrow::Cow;

use gguf_format::Value;
use gguf_model::arch::{Checkpoint, FormulaType, Key};
use serde_json::{Map, Value as Json, json};

use super::Scope;
use crate::config::{self, Config};
use crate::facts::Fact;
use crate::formula::{self, Fields, Formula};
use crate::key_values::KeyValues;
use crate::model_plan::{ModelPlan, PlanError};
use crate::warning::ArchitectureWarning;

/// The maximum number of blocks that is accepted, above llama.cpp's limit.
const MAX_BLOCKS: u64 = 65536;

/// Names of the number of blocks.
pub(crate) const BLOCKS: [&str; 5] =
    ["n_layers", "num_hidden_layers", "n_layer", "num_transformer_layers", "num_layers"];

/// The fields of a configuration, and additional fields available to all formulas: `block_count`, and the rotary parameters as `rope` and
/// `rope_all` (`TextModel.__init__` in `conversion/base.py`).
pub(crate) fn fields(config: &Config) -> Result<Fields, PlanError> {
    let mut fields = config.hparams().as_object().cloned().unwrap_or_default();
    let blocks = config.fields().required_u32(&BLOCKS)?;
    if u64::from(blocks) > MAX_BLOCKS {
        return Err(config::Error::invalid(BLOCKS.join(" or "), &json!(blocks), "at most 65536 blocks").into());
    }
    let (rope, rope_all) = rope(&fields)?;
    let own = [("block_count", json!(blocks)), ("rope", Json::Object(rope)), ("rope_all", Json::Object(rope_all))];
    for (name, value) in own {
        fields.insert(name.to_owned(), value);
    }
    Ok(Fields { fields, facts: config.facts().clone(), n_blocks: blocks.into() })
}

/// A JSON object.
type Object = Map<String, Json>;

/// The rotary parameters for full attention, and the enclosing object.
fn rope(fields: &Object) -> Result<(Object, Object), config::Error> {
    let name = if fields.contains_key("rope_parameters") { "rope_parameters" } else { "rope_scaling" };
    let mut all = match fields.get(name) {
        None | Some(Json::Null) => Map::new(),
        Some(Json::Object(object)) => object.clone(),
        Some(other) => return Err(config::Error::invalid(name, other, "an object or null")),
    };
    let find = |names: &[&str]| names.iter().find_map(|name| fields.get(*name)).filter(|v| !v.is_null()).cloned();
    if !all.contains_key("full_attention") && !all.contains_key("sliding_attention") {
        const LOCAL: &[&str] =
            &["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];
        if let Some(theta) = find(LOCAL) {
            all.insert("sliding_attention".to_owned(), json!({ "rope_theta": theta }));
        }
        const MIRRORED: [(&str, &[&str]); 3] = [
            (
                "rope_theta",
                &["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"],
            ),
            ("partial_rotary_factor", &["partial_rotary_factor", "rope_pct", "rope_percent"]),
            ("original_max_position_embeddings", &["original_max_position_embeddings"]),
        ];
        let kind = all.get("type").filter(|kind| !kind.is_null()).cloned();
        let mirrored = MIRRORED.into_iter().map(|(name, names)| (name, find(names))).chain([("rope_type", kind)]);
        for (name, value) in mirrored {
            if let (false, Some(value)) = (all.contains_key(name), value) {
                all.insert(name.to_owned(), value);
            }
        }
    }
    let rope = match all.get("full_attention") {
        None => all.clone(),
        Some(Json::Object(full)) => full.clone(),
        Some(other) => return Err(config::Error::invalid("rope_parameters.full_attention", other, "an object")),
    };
    Ok((rope, all))
}

/// Evaluates the formulas of a class of checkpoints, and stores the fields that they set in the plan.
pub(super) fn parameters(checkpoint: &Checkpoint, scope: Scope, plan: &mut ModelPlan) -> Result<(), PlanError> {
    let mut evaluate = |rows| match scope {
        // Fields of an adapter's base model that follow from its tensors are unknown.
        Scope::Adapter => evaluate_known(rows, plan.architecture, &mut plan.fields),
        _ => evaluate(rows, plan.architecture, &mut plan.fields),
    };
    plan.early = evaluate(checkpoint.early_keys)?;
    if scope != Scope::Keys {
        plan.early.extend(evaluate(checkpoint.tensor_keys)?);
    }
    plan.parameters = evaluate(checkpoint.keys)?;
    let fields = &plan.fields;
    // Kinds that have keys or become tensors; the reference warns about all others.
    const KINDS: &[&str] = &["default", "dynamic", "linear", "llama3", "longrope", "proportional", "su", "yarn"];
    match fields.fields.get("rope").and_then(|rope| rope.get("rope_type")) {
        None | Some(Json::Null) => {}
        Some(Json::String(kind)) if KINDS.contains(&kind.to_lowercase().as_str()) => {}
        Some(Json::String(kind)) => {
            let (architecture, kind) = (plan.architecture, kind.clone());
            plan.warnings.push(ArchitectureWarning::RopeScaling { architecture, kind });
        }
        Some(other) => {
            const FIELD: &str = "rope_parameters.rope_type or rope_scaling.type";
            return Err(config::Error::invalid(FIELD, other, "a string or null").into());
        }
    }
    Ok(())
}

/// Key prefixes other than the name of the architecture.
pub(crate) const PREFIXES: &[&str] = &["general.", "tokenizer.", "diffusion.", "xielu.", "clip.", "vision."];

/// Evaluates rows of formulas to key-values, in file order. Fields that rows set are stored in `fields`.
pub(crate) fn evaluate(
    rows: &[&[Key]],
    architecture: &str,
    fields: &mut Fields,
) -> Result<Vec<(String, Value)>, PlanError> {
    evaluate_rows(rows, architecture, fields, false)
}

/// Like [`evaluate`], but skips rows that use missing fields.
fn evaluate_known(rows: &[&[Key]], architecture: &str, fields: &mut Fields) -> Result<Vec<(String, Value)>, PlanError> {
    evaluate_rows(rows, architecture, fields, true)
}

fn evaluate_rows(
    rows: &[&[Key]],
    architecture: &str,
    fields: &mut Fields,
    leaves_out: bool,
) -> Result<Vec<(String, Value)>, PlanError> {
    let mut kvs = KeyValues::default();
    for row in rows.iter().copied().flatten() {
        let formula = Formula::parse(row.formula).map_err(|e| unusable(row.key, e))?;
        let value = match fields.eval(&formula) {
            Err(formula::Error::Missing(_)) if leaves_out => continue,
            value => value.map_err(|e| unusable(row.key, e))?.filter(|value| !value.is_null()),
        };
        match (row.kind, value) {
            (FormulaType::Field, value) => {
                let value = value.map(Cow::into_owned);
                if let (name @ ("block_count" | "@further_blocks"), Some(blocks)) = (row.key, &value) {
                    let n = blocks.as_u64().filter(|n| *n <= MAX_BLOCKS);
                    let wrong = || config::Error::invalid("the number of blocks", blocks, "at most 65536 blocks");
                    let n = n.ok_or_else(wrong)?;
                    fields.n_blocks = if name == "block_count" { n } else { fields.n_blocks };
                }
                fields.set(row.key, value.unwrap_or(Json::Null));
            }
            (_, None) if row.is_optional || leaves_out => {}
            (_, None) => return Err(unusable(row.key, formula::Error::Missing(formula.to_string()))),
            (kind, Some(value)) => {
                let key = match row.key {
                    key if PREFIXES.iter().any(|prefix| key.starts_with(prefix)) => key.to_owned(),
                    key => format!("{architecture}.{key}"),
                };
                let typed = typed(kind, &value).map_err(|expected| {
                    let found = value.into_owned();
                    unusable(row.key, formula::Error::Unusable { what: formula.to_string(), found, expected })
                })?;
                // The reference omits empty values.
                if let Some(typed) = typed {
                    kvs.set(&key, typed);
                }
            }
        }
    }
    Ok(kvs.into_vec())
}

/// The fields of `config.json` that a key, without the name of the architecture, comes from: those that are present, otherwise all that
/// are tried.
pub(crate) fn fields_of(key: &str, checkpoint: &Checkpoint, fields: &Fields) -> Vec<String> {
    let rows = || checkpoint.keys.iter().copied().flatten();
    let formula_of = |name: &str, is_field: bool| {
        let row = rows().rfind(|row| row.key == name && (row.kind == FormulaType::Field) == is_field);
        row.and_then(|row| Formula::parse(row.formula).ok())
    };
    let mut names = formula_of(key, false).map_or(Vec::new(), |formula| formula.names());
    let mut found: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    while let Some(name) = (!names.is_empty()).then(|| names.remove(0)) {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        match formula_of(&name, true) {
            Some(formula) => {
                // A field that is set from itself.
                found.extend(formula.names().contains(&name).then(|| formula::shown(&name).to_owned()));
                names.extend(formula.names());
            }
            None if name == "block_count" => found.extend(BLOCKS.map(str::to_owned)),
            None => found.push(formula::shown(&name).to_owned()),
        }
    }
    let document = fields.facts.get(Fact::Config);
    let has = |object: Option<&Json>, name: &str| object.is_some_and(|object| object.get(name).is_some());
    let is_present = |name: &&String| {
        let nested = document.and_then(Json::as_object).into_iter().flat_map(Map::values);
        let own = name.split('.').next().unwrap_or(name);
        has(document, own) || nested.into_iter().any(|object| has(Some(object), own))
    };
    let present: Vec<String> = found.iter().filter(is_present).cloned().collect();
    if present.is_empty() { found } else { present }
}

/// Converts the error of a formula of a row to one about the configuration.
pub(super) fn unusable(row: &'static str, e: formula::Error) -> PlanError {
    match e {
        e @ formula::Error::Syntax { .. } => PlanError::Table { key: row, problem: e.to_string() },
        e => field_error(e).into(),
    }
}

/// The error of a well-formed formula.
pub(super) fn field_error(e: formula::Error) -> config::Error {
    match e {
        formula::Error::Unusable { what, found, expected } => config::Error::invalid(what, &found, expected),
        formula::Error::Long { names, n_blocks } => config::Error::Long { fields: names, n_blocks },
        formula::Error::Missing(names) => config::Error::Missing(names.split(" or ").map(str::to_owned).collect()),
        e @ formula::Error::Syntax { .. } => config::Error::Missing(vec![e.to_string()]),
    }
}

/// Converts a value to the type of its key; `None` for an empty value, which is not written.
fn typed(kind: FormulaType, value: &Json) -> Result<Option<Value>, &'static str> {
    const WHOLE: &str = "a whole number that fits 32 bits";
    const LONG: &str = "a whole number that fits 64 bits";
    const NUMBER: &str = "a number that fits single precision";
    let whole = |v: &Json| match v.as_i64() {
        Some(n) => Some(n),
        None => v.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64),
    };
    let u32 = |v: &Json| whole(v).and_then(|n| u32::try_from(n).ok()).ok_or(WHOLE);
    let i32 = |v: &Json| whole(v).and_then(|n| i32::try_from(n).ok()).ok_or(WHOLE);
    let u64 = |v: &Json| whole(v).and_then(|n| u64::try_from(n).ok()).ok_or(LONG);
    let f32 = |v: &Json| match v.as_str() {
        // JSON has no infinity; functions return it as text.
        Some(formula::MINUS_INFINITY) => Ok(f32::NEG_INFINITY),
        _ => v.as_f64().map(|x| x as f32).filter(|x| x.is_finite()).ok_or(NUMBER),
    };
    let bool = |v: &Json| v.as_bool().ok_or("true or false");
    let text = |v: &Json| v.as_str().map(str::to_owned).ok_or("text");
    fn list<T>(items: &[Json], of: impl Fn(&Json) -> Result<T, &'static str>) -> Result<Vec<T>, &'static str> {
        items.iter().map(of).collect()
    }
    Ok(Some(match (kind, value) {
        (_, Json::Array(items)) if items.is_empty() => return Ok(None),
        (FormulaType::Str, Json::String(text)) if text.is_empty() => return Ok(None),
        (FormulaType::U32 | FormulaType::I32, Json::Array(items)) => list(items, i32)?.into(),
        (FormulaType::U64, Json::Array(items)) => list(items, u64)?.into(),
        (FormulaType::F32, Json::Array(items)) => list(items, f32)?.into(),
        (FormulaType::Bool, Json::Array(items)) => list(items, bool)?.into(),
        (FormulaType::Str, Json::Array(items)) => list(items, text)?.into(),
        (FormulaType::U32, value) => u32(value)?.into(),
        (FormulaType::I32, value) => i32(value)?.into(),
        (FormulaType::U64, value) => u64(value)?.into(),
        (FormulaType::F32, value) => f32(value)?.into(),
        (FormulaType::Bool, value) => bool(value)?.into(),
        (FormulaType::Str, value) => text(value)?.into(),
        (_, _) => return Ok(None),
    }))
}
