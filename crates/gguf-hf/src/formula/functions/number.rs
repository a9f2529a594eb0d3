//! Functions of numbers.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Operands;
use crate::formula::error::{Error, unusable};
use crate::formula::numbers::{icdf, whole};
use crate::formula::steps::MAX_LIST;

/// The steps of a quantile of the normal distribution.
const STEPS_OF_QUANTILE: usize = 1 << 12;

impl<'v> Operands<'_, 'v> {
    pub(super) fn int(self) -> Result<Value, Error> {
        match self.x.as_ref() {
            Value::Number(n) if n.is_f64() => self.whole(n.as_f64().unwrap_or(f64::NAN)),
            Value::Number(_) => Ok(self.x.into_owned()),
            Value::Bool(b) => Ok(json!(u8::from(*b))),
            Value::String(text) => match text.trim().parse::<i64>() {
                Ok(n) => Ok(n.into()),
                Err(_) => Err(self.wrong("a whole number")),
            },
            _ => Err(self.wrong("a number")),
        }
    }

    /// The integer part of a result.
    pub(super) fn whole(&self, x: f64) -> Result<Value, Error> {
        whole(x).ok_or_else(|| self.wrong("a number"))
    }

    pub(super) fn abs(&self) -> Result<Value, Error> {
        match self.x.as_i64() {
            Some(n) => Ok(json!(n.unsigned_abs())),
            None => Ok(json!(self.number()?.abs())),
        }
    }

    pub(super) fn smaller(self) -> Result<Cow<'v, Value>, Error> {
        let (y, other) = self.other()?;
        Ok(if self.number()? <= other { self.x } else { y })
    }

    pub(super) fn larger(self) -> Result<Cow<'v, Value>, Error> {
        let (y, other) = self.other()?;
        Ok(if self.number()? <= other { y } else { self.x })
    }

    /// The second operand as a number.
    fn other(&self) -> Result<(Cow<'v, Value>, f64), Error> {
        let y = self.second()?;
        match y.as_f64() {
            Some(other) => Ok((y, other)),
            None => Err(unusable("the second operand".to_owned(), y.into_owned(), "a number")),
        }
    }

    pub(super) fn icdf(&self) -> Result<Value, Error> {
        self.evaluation.take(STEPS_OF_QUANTILE)?;
        icdf(self.number()?).ok_or_else(|| self.wrong("a number from 0 to below 1"))
    }

    pub(super) fn range(&self) -> Result<Value, Error> {
        let n = self.x.as_u64().filter(|n| *n <= MAX_LIST as u64);
        let n = n.ok_or_else(|| self.wrong("a number from 0 to 65536"))?;
        self.evaluation.take(n as usize)?;
        Ok((0..n).map(Value::from).collect())
    }
}
