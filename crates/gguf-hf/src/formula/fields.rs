//! What formulas read.

use serde_json::{Map, Value};

use crate::facts::Facts;

/// The environment of a formula.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    /// The fields of the configuration, and the fields that formulas set.
    pub(crate) fields: Map<String, Value>,
    /// What the conversion knows beside the configuration.
    pub(crate) facts: Facts,
    /// The number of blocks, which is the length of per-block lists.
    pub(crate) n_blocks: u64,
}

impl Fields {
    /// The fields without facts.
    #[cfg(test)]
    pub(crate) fn of(fields: Map<String, Value>, n_blocks: u64) -> Fields {
        Fields { fields, facts: Facts::default(), n_blocks }
    }

    /// The field of a name, or the fact of a name with `@`.
    fn get(&self, name: &str) -> Option<&Value> {
        match name.strip_prefix('@') {
            Some(fact) => self.facts.named(fact),
            None => self.fields.get(name),
        }
    }

    /// Sets the field of a name, or the fact of a name with `@`.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        match name.strip_prefix('@') {
            Some(fact) => self.facts.set_named(fact, value),
            None => drop(self.fields.insert(name.to_owned(), value)),
        }
    }

    /// The integer at the path of an object, such as `image.break` of the fields or `@rerank.yes` of the facts.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        let (object, field) = path.split_once('.')?;
        self.get(object)?.get(field)?.as_u64()
    }
}
