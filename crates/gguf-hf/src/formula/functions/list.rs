//! Functions of lists.

use gguf_format::sort::CompactSort as _;
use serde_json::{Value, json};

use super::Operands;
use crate::formula::error::Error;
use crate::formula::numbers::{arithmetic, centered};
use crate::formula::steps::MAX_LIST;
use crate::formula::syntax::Op;
use crate::formula::values::is_true;

impl Operands<'_, '_> {
    pub(super) fn len(&self) -> Result<Value, Error> {
        Ok(json!(match self.x.as_ref() {
            Value::Array(items) => items.len(),
            Value::Object(items) => items.len(),
            Value::String(text) => {
                self.evaluation.take_text(text)?;
                text.chars().count()
            }
            _ => return Err(self.wrong("a list")),
        }))
    }

    pub(super) fn sum(&self) -> Result<Value, Error> {
        let mut sum = json!(0);
        for item in self.list()? {
            sum = arithmetic(Op::Add, &sum, item).ok_or_else(|| self.wrong("a list of numbers"))?;
        }
        Ok(sum)
    }

    pub(super) fn any(&self) -> Result<Value, Error> {
        Ok(self.list()?.iter().any(|item| is_true(Some(item))).into())
    }

    pub(super) fn all(&self) -> Result<Value, Error> {
        Ok(self.list()?.iter().all(|item| is_true(Some(item))).into())
    }

    pub(super) fn pad(&self) -> Result<Value, Error> {
        let n = self.second()?.as_u64().unwrap_or(0).min(MAX_LIST as u64) as usize;
        let filler = self.third()?;
        self.evaluation.take(n)?;
        let list = self.list()?;
        let missing = n.saturating_sub(list.len());
        (0..missing).try_for_each(|_| self.evaluation.take_whole(&filler))?;
        Ok(list.iter().take(n).chain(core::iter::repeat_n(filler.as_ref(), missing)).cloned().collect())
    }

    pub(super) fn sorted(&self) -> Result<Value, Error> {
        let key = |item: &Value| match item {
            Value::Array(items) => items.iter().map(Value::as_f64).collect(),
            single => Some(vec![single.as_f64()?]),
        };
        let keyed: Option<Vec<(Vec<f64>, Value)>> =
            self.list()?.iter().map(|item| Some((key(item)?, item.clone()))).collect();
        let mut keyed = keyed.ok_or_else(|| self.wrong("a list of numbers"))?;
        keyed.compact_sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
        Ok(keyed.into_iter().map(|(_, item)| item).collect())
    }

    pub(super) fn centered(&self) -> Result<Value, Error> {
        centered(self.list()?).ok_or_else(|| self.wrong("a list of numbers"))
    }

    pub(super) fn n_leading(&self) -> Result<Value, Error> {
        let (value, items) = (self.second()?, self.list()?);
        let other = self.evaluation.first(items, |item| Ok(!self.evaluation.equal(item, &value)?))?;
        Ok(json!(other.unwrap_or(items.len())))
    }
}
