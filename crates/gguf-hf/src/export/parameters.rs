//! Small tensors of the checkpoint that are written as they are planned, because no tensor of the file has their values as they are: those that
//! become key-values, and ids of tokens that a conversion makes absolute.

use gguf_format::{GgmlType, Gguf, ValueType};
use gguf_model::arch::{Checkpoint, FormulaType};
use gguf_pipeline::Source;
use serde_json::{Value as Json, json};

use super::config::{Candidate, full_key, is_equal};
use super::key_values::json_of;
use super::restore::Stored;
use super::sources::NewTensor;
use crate::dtype::Dtype;
use crate::facts::Facts;
use crate::formula::{Fields, Formula};
use crate::number::to_f32;

/// Parameters without dimensions; those of other tensors with one value have one.
const SCALARS: [&str; 2] = [".act_fn.beta", ".act_fn.eps"];

/// The most bytes of ids.
const MAX_IDS: u64 = 1 << 26;

/// A tensor with its values.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) tensor: NewTensor,
    pub(super) dtype: Dtype,
    pub(super) data: Vec<u8>,
}

/// The parameters of a checkpoint.
pub(super) fn of(candidate: &Candidate, stored: &Stored) -> Vec<Parameter> {
    let checkpoint = candidate.checkpoint;
    let mut found: Vec<Parameter> = ids(checkpoint, stored).into_iter().collect();
    for (fact, pattern) in checkpoint.facts.peeked {
        let Some(Json::Array(values)) = candidate.fields.facts.named(fact) else { continue };
        let root =
            checkpoint.names.roots.first().filter(|_| !pattern.starts_with("lm_head")).copied().unwrap_or_default();
        let blocks: Vec<Json> = match pattern.contains("{}") {
            true => values.clone(),
            false => vec![json!(values)],
        };
        for (block, values) in blocks.iter().enumerate() {
            let values: Vec<&Json> = values.as_array().into_iter().flatten().collect();
            let name = format!("{root}{}", pattern.replace("{}", &block.to_string()));
            let is_scalar = SCALARS.iter().any(|end| name.ends_with(end));
            let shape = if is_scalar { Vec::new() } else { vec![values.len() as u64] };
            let is_whole = !values.is_empty() && values.iter().all(|value| value.is_u64());
            let integers = Dtype::ALL.iter().copied().find(|dtype| is_whole && dtype.ggml == Some(GgmlType::I64));
            let data = match integers {
                Some(_) => values.iter().filter_map(|x| x.as_u64()).flat_map(u64::to_le_bytes).collect(),
                None => values.iter().filter_map(|x| x.as_f64()).flat_map(|x| to_f32(x).to_le_bytes()).collect(),
            };
            let tensor = NewTensor { name, shape, of: 0, is_one: false };
            found.push(Parameter { tensor, dtype: integers.unwrap_or(Dtype::F32), data });
        }
    }
    found
}

/// The ids of tokens less their places, as checkpoints have them.
fn ids(checkpoint: &Checkpoint, stored: &Stored) -> Option<Parameter> {
    let index = stored.place(checkpoint.facts.ids)?;
    let tensor = stored.tensors.get(index).filter(|tensor| tensor.ty == GgmlType::I64)?;
    let n_bytes = stored.source.tensor(index)?.n_bytes().ok().filter(|n| *n <= MAX_IDS)?;
    let mut data = vec![0; usize::try_from(n_bytes).ok()?];
    stored.source.read(index, 0, &mut data).ok()?;
    for (place, bytes) in (0i64..).zip(data.as_chunks_mut::<8>().0) {
        *bytes = i64::from_le_bytes(*bytes).wrapping_sub(place).to_le_bytes();
    }
    let dtype = Dtype::ALL.iter().copied().find(|dtype| dtype.ggml == Some(GgmlType::I64))?;
    Some(Parameter {
        tensor: NewTensor { name: tensor.name.clone(), shape: tensor.shape.clone(), of: index, is_one: false },
        dtype,
        data,
    })
}

/// The facts that tensors of a checkpoint have, from the key-values that they become.
pub(super) fn facts(gguf: &Gguf<'_>, checkpoint: &Checkpoint, arch: &str) -> Vec<(&'static str, Json)> {
    let rows = || checkpoint.key_tables().flatten();
    let mut found = Vec::new();
    for (fact, pattern) in checkpoint.facts.peeked {
        for row in rows().filter(|row| row.kind != FormulaType::Field) {
            let Ok(formula) = Formula::parse(row.formula) else { continue };
            if !formula.names().contains(&format!("@{fact}")) {
                continue;
            }
            let value = full_key(row, arch).and_then(|key| gguf.get(&key));
            let Some(value) = value.filter(|value| is_number(*value)) else { continue };
            let target = json_of(value);
            let values: Json = match (&target, pattern.contains("{}")) {
                (Json::Array(list), true) => list.iter().map(|x| json!([x])).collect(),
                (Json::Array(list), false) => json!(list),
                (value, _) => json!([value]),
            };
            // A formula may also make something else of the values.
            let mut facts = Facts::default();
            facts.set_named(fact, values.clone());
            // The file has the key, so the conditions of the formula hold.
            let names = formula.names().into_iter().filter(|name| !name.starts_with('@'));
            let fields = Fields { fields: names.map(|name| (name, json!(true))).collect(), facts, n_blocks: 0 };
            if fields.eval(&formula).is_ok_and(|found| found.is_some_and(|found| is_equal(&found, &target))) {
                found.push((*fact, values));
            }
        }
    }
    found
}

/// Whether a value is a number in single precision or a long integer, or a list of them.
fn is_number(value: gguf_format::ValueRef<'_>) -> bool {
    let ty = value.as_array().map_or(value.value_type(), |list| list.elem_type());
    matches!(ty, ValueType::F32 | ValueType::U64)
}
