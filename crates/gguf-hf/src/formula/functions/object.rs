//! Functions of objects.

use std::borrow::Cow;

use gguf_format::sort::CompactSort as _;
use serde_json::Value;

use super::Operands;
use crate::formula::error::Error;
use crate::formula::steps::Outcome;

impl<'v> Operands<'_, 'v> {
    pub(super) fn with(&self) -> Result<Value, Error> {
        match (self.object()?.clone(), self.second()?.as_ref()) {
            (mut object, Value::String(name)) => {
                object.insert(name.clone(), self.evaluation.owned(Some(self.third()?))?);
                Ok(Value::Object(object))
            }
            _ => Err(self.wrong("an object")),
        }
    }

    pub(super) fn merge(&self) -> Result<Value, Error> {
        match (self.object()?.clone(), self.evaluation.owned(Some(self.second()?))?) {
            (mut object, Value::Object(more)) => {
                object.extend(more);
                Ok(Value::Object(object))
            }
            _ => Err(self.wrong("an object")),
        }
    }

    pub(super) fn by_number(&self) -> Result<Value, Error> {
        let number = |(name, value): (&String, &Value)| Some((name.parse::<i64>().ok()?, value.clone()));
        let items: Option<Vec<(i64, Value)>> = self.object()?.iter().map(number).collect();
        let mut items = items.ok_or_else(|| self.wrong("an object with numbers for names"))?;
        items.compact_sort_by_key(|(number, _)| *number);
        Ok(items.into_iter().map(|(_, value)| value).collect())
    }

    pub(super) fn by_name(&self) -> Result<Value, Error> {
        let mut items: Vec<(&String, &Value)> = self.object()?.iter().collect();
        items.compact_sort_by_key(|(name, _)| *name);
        Ok(items.into_iter().map(|(_, value)| value.clone()).collect())
    }

    pub(super) fn token_id(&self) -> Outcome<'v> {
        let content = self.second()?;
        let found = self.object()?.iter().find(|(_, entry)| entry.get("content") == Some(content.as_ref()));
        Ok(found.and_then(|(id, _)| id.parse::<u64>().ok()).map(|id| Cow::Owned(id.into())))
    }
}
