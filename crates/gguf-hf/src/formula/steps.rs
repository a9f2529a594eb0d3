//! The bounds of an evaluation: every formula and every element that is evaluated, compared or copied is a step.

use core::cell::Cell;
use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::error::Error;
use super::fields::Fields;
use super::syntax::{Formula, shown};
use crate::config_error::MAX_STEPS;

/// The maximum length of a list that a formula creates.
pub(super) const MAX_LIST: usize = 1 << 16;

/// The variables of the enclosing comprehensions.
pub(super) type Locals<'v> = Option<&'v Local<'v>>;

/// A variable of a comprehension.
pub(super) struct Local<'v> {
    pub(super) name: &'v str,
    pub(super) value: Cow<'v, Value>,
    pub(super) outer: Locals<'v>,
}

/// The value, or `None` for a missing field.
pub(crate) type Outcome<'v> = Result<Option<Cow<'v, Value>>, Error>;

/// The evaluation of a formula.
pub(super) struct Evaluation<'v> {
    pub(super) fields: &'v Fields,
    whole: &'v Formula,
    /// The number of steps left.
    steps: Cell<u64>,
}

impl<'v> Evaluation<'v> {
    pub(super) fn new(fields: &'v Fields, whole: &'v Formula) -> Evaluation<'v> {
        Evaluation { fields, whole, steps: Cell::new(MAX_STEPS) }
    }

    /// The number of steps that were taken.
    #[cfg(test)]
    pub(super) fn n_steps(&self) -> u64 {
        MAX_STEPS - self.steps.get()
    }

    /// Counts steps.
    pub(super) fn take(&self, n: usize) -> Result<(), Error> {
        match self.steps.get().checked_sub(n as u64) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => {
                let names = self.whole.names();
                let mut names: Vec<String> = names.iter().map(|name| shown(name).to_owned()).collect();
                let mut seen = HashSet::new();
                names.retain(|name| seen.insert(name.clone()));
                Err(Error::Long { names, n_blocks: self.fields.n_blocks })
            }
        }
    }

    /// Counts the steps of reading a text.
    pub(super) fn take_text(&self, text: &str) -> Result<(), Error> {
        self.take(text.len() / 16)
    }

    /// Counts the steps of reading or copying a value with all its elements.
    pub(super) fn take_whole(&self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Array(items) => {
                self.take(items.len())?;
                items.iter().try_for_each(|item| self.take_whole(item))
            }
            Value::Object(items) => {
                self.take(items.len())?;
                items.iter().try_for_each(|(name, item)| self.take_text(name).and_then(|()| self.take_whole(item)))
            }
            Value::String(text) => self.take_text(text),
            _ => Ok(()),
        }
    }

    /// The value itself; `null` for a missing one.
    pub(super) fn owned(&self, value: Option<Cow<'_, Value>>) -> Result<Value, Error> {
        match value {
            None => Ok(Value::Null),
            Some(Cow::Owned(value)) => Ok(value),
            Some(Cow::Borrowed(value)) => {
                self.take_whole(value)?;
                Ok(value.clone())
            }
        }
    }

    /// Compares numbers by value: 1 equals 1.0.
    pub(super) fn equal(&self, a: &Value, b: &Value) -> Result<bool, Error> {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => Ok(a.as_f64() == b.as_f64()),
            (Value::Array(x), Value::Array(y)) if x.len() != y.len() => Ok(false),
            (Value::Object(x), Value::Object(y)) if x.len() != y.len() => Ok(false),
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
                self.take_whole(a)?;
                Ok(a == b)
            }
            _ => Ok(a == b),
        }
    }

    /// The place of the first element that is as asked.
    pub(super) fn first(
        &self,
        list: &[Value],
        is: impl Fn(&Value) -> Result<bool, Error>,
    ) -> Result<Option<usize>, Error> {
        for (place, item) in list.iter().enumerate() {
            self.take(1)?;
            if is(item)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}
