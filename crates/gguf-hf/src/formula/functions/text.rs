//! Functions of texts.

use std::borrow::Cow;

use gguf_format::sort::CompactSort as _;
use serde_json::{Value, json};

use super::Operands;
use crate::formula::error::Error;
use crate::formula::values::field;
use crate::templates::template;

impl<'v> Operands<'_, 'v> {
    pub(super) fn one_of(&self) -> Result<Cow<'v, Value>, Error> {
        let name = self.text()?;
        match field(self.second()?, name) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(self.wrong("one of those that llama.cpp knows")),
            Err(_) => Err(self.wrong("text")),
        }
    }

    pub(super) fn split(&self) -> Result<Value, Error> {
        match (self.x.as_str(), self.second()?.as_str()) {
            (Some(text), Some(separator)) => {
                self.evaluation.take(text.len())?;
                Ok(json!(text.split(separator).collect::<Vec<_>>()))
            }
            _ => Err(self.wrong("text")),
        }
    }

    pub(super) fn join(&self) -> Result<Value, Error> {
        let texts: Option<Vec<&str>> = self.list()?.iter().map(Value::as_str).collect();
        match (texts, self.second()?.as_str()) {
            (Some(texts), Some(separator)) => {
                let len = texts.iter().map(|text| text.len() + separator.len()).sum();
                self.evaluation.take(len)?;
                Ok(texts.join(separator).into())
            }
            _ => Err(self.wrong("a list of texts")),
        }
    }

    pub(super) fn numbers(&self) -> Result<Value, Error> {
        let text = self.text()?;
        self.evaluation.take(text.len())?;
        let numbers = text.split(',').map(|n| n.trim().parse::<i64>()).collect::<Result<Vec<_>, _>>();
        let mut numbers = numbers.map_err(|_| self.wrong("whole numbers that commas separate"))?;
        numbers.compact_sort_by(Ord::cmp);
        Ok(json!(numbers))
    }

    pub(super) fn template(&self) -> Result<Value, Error> {
        let text = self.x.as_str().and_then(template).ok_or_else(|| self.wrong("the name of a chat template"))?;
        Ok(text.into())
    }
}
