//! The evaluation of formulas.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::error::{Error, unusable};
use super::fields::Fields;
use super::numbers::arithmetic;
use super::steps::{Evaluation, Local, Locals, MAX_LIST, Outcome};
use super::syntax::{Formula, Op};
use super::values::{element, field, is_true};

impl Fields {
    /// The formula's value; `None` if it is a missing field.
    pub(crate) fn eval<'v>(&'v self, formula: &'v Formula) -> Outcome<'v> {
        Evaluation::new(self, formula).value(formula, None)
    }

    /// The formula's value, and the number of steps.
    #[cfg(test)]
    pub(crate) fn eval_counted<'v>(&'v self, formula: &'v Formula) -> (Outcome<'v>, u64) {
        let evaluation = Evaluation::new(self, formula);
        let value = evaluation.value(formula, None);
        (value, evaluation.n_steps())
    }

    /// Whether the formula's value is true, as in Python.
    pub(crate) fn holds(&self, formula: &Formula) -> Result<bool, Error> {
        Ok(is_true(self.eval(formula)?.as_deref()))
    }
}

impl<'v> Evaluation<'v> {
    fn value(&self, formula: &'v Formula, locals: Locals<'v>) -> Outcome<'v> {
        self.take(1)?;
        let eval = |f: &'v Formula| self.value(f, locals);
        let needed = |f: &'v Formula| self.needed(f, locals);
        Ok(Some(Cow::Owned(match formula {
            Formula::Constant(value) => return Ok(Some(Cow::Borrowed(value))),
            Formula::Name(name) => return Ok(self.look_up(name, locals)),
            Formula::Fact(name) => return Ok(self.fields.facts.named(name).map(Cow::Borrowed)),
            Formula::Member(object, name) => match eval(object)?.map(|object| field(object, name)) {
                Some(Ok(value)) => return Ok(value),
                None => return Ok(None),
                Some(Err(found)) if found.is_null() => return Ok(None),
                Some(Err(found)) => return Err(unusable(object.to_string(), found.into_owned(), "an object")),
            },
            Formula::Index(list, index) => {
                let (of, at) = (needed(list)?, needed(index)?);
                match (of.as_ref(), at.as_ref()) {
                    (Value::Array(items), Value::Number(n)) => {
                        let len = items.len() as i64;
                        let place = n.as_i64().map(|i| if i < 0 { i + len } else { i });
                        let element = place.and_then(|place| element(of, usize::try_from(place).ok()?));
                        let short = || unusable(formula.to_string(), json!(len), "a list that has such an element");
                        return element.ok_or_else(short).map(Some);
                    }
                    (Value::Object(_), Value::String(name)) => return Ok(field(of, name).unwrap_or(None)),
                    (Value::String(text), Value::Number(n)) => {
                        self.take_text(text)?;
                        let letter = n.as_u64().and_then(|i| text.chars().nth(usize::try_from(i).ok()?));
                        let short = || unusable(formula.to_string(), json!(text), "a text that has such a letter");
                        Value::String(letter.ok_or_else(short)?.to_string())
                    }
                    _ => return Err(unusable(list.to_string(), of.into_owned(), "a list")),
                }
            }
            Formula::Present(options) => {
                for option in options {
                    if let Some(value) = eval(option)? {
                        return Ok(Some(value));
                    }
                }
                return Ok(None);
            }
            Formula::Binary(op, a, b) => return self.binary(*op, a, b, locals),
            Formula::Not(a) => Value::Bool(!is_true(eval(a)?.as_deref())),
            Formula::Negative(a) => {
                let x = needed(a)?;
                let negative = arithmetic(Op::Subtract, &json!(0), &x);
                negative.ok_or_else(|| unusable(a.to_string(), x.into_owned(), "a number"))?
            }
            Formula::If(parts) => {
                let [then, condition, other] = parts.as_ref();
                return eval(if is_true(eval(condition)?.as_deref()) { then } else { other });
            }
            Formula::List(items) => {
                Value::Array(items.iter().map(|item| self.owned(eval(item)?)).collect::<Result<_, _>>()?)
            }
            Formula::Object(items) => {
                let mut object = Map::new();
                for (name, item) in items {
                    object.insert(name.clone(), self.owned(eval(item)?)?);
                }
                Value::Object(object)
            }
            Formula::Each(element, name, list) => {
                let items = match list {
                    None => (0..self.fields.n_blocks.min(MAX_LIST as u64)).map(|i| Cow::Owned(i.into())).collect(),
                    Some(list) => match needed(list)? {
                        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
                        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
                        found => return Err(unusable(list.to_string(), found.into_owned(), "a list")),
                    },
                };
                let of = |value| {
                    let local = Local { name, value, outer: locals };
                    self.owned(Some(self.needed(element, Some(&local))?))
                };
                let items: Vec<Cow<'v, Value>> = items;
                Value::Array(items.into_iter().map(of).collect::<Result<_, _>>()?)
            }
            Formula::Call(function, operands) => return self.call(*function, operands, locals),
        })))
    }

    fn look_up(&self, name: &str, mut locals: Locals<'v>) -> Option<Cow<'v, Value>> {
        while let Some(local) = locals {
            if local.name == name {
                return Some(Cow::Borrowed(&local.value));
            }
            locals = local.outer;
        }
        self.fields.fields.get(name).map(Cow::Borrowed)
    }

    /// The value of a formula that must have one.
    pub(super) fn needed(&self, formula: &'v Formula, locals: Locals<'v>) -> Result<Cow<'v, Value>, Error> {
        present(formula, self.value(formula, locals)?)
    }

    fn binary(&self, op: Op, a: &'v Formula, b: &'v Formula, locals: Locals<'v>) -> Outcome<'v> {
        let first = self.value(a, locals)?;
        let second = || self.value(b, locals);
        let or_null = |value: Option<Cow<'v, Value>>| value.unwrap_or(Cow::Borrowed(&Value::Null));
        Ok(Some(Cow::Owned(match op {
            Op::Or if is_true(first.as_deref()) => return Ok(first),
            Op::And if !is_true(first.as_deref()) => return Ok(Some(or_null(first))),
            Op::Else if first.as_ref().is_some_and(|v| !v.is_null()) => return Ok(first),
            Op::Or | Op::And | Op::Else => return second(),
            Op::Equal | Op::Unequal => {
                Value::Bool(self.equal(&or_null(first), &or_null(second()?))? == (op == Op::Equal))
            }
            Op::In => {
                let (first, second) = (or_null(first), or_null(second()?));
                Value::Bool(match second.as_ref() {
                    Value::Array(list) => self.first(list, |item| self.equal(item, &first))?.is_some(),
                    Value::Object(object) => first.as_str().is_some_and(|key| object.contains_key(key)),
                    Value::String(text) => {
                        self.take_text(text)?;
                        first.as_str().is_some_and(|part| text.contains(part))
                    }
                    Value::Null => false,
                    _ => return Err(unusable(b.to_string(), second.into_owned(), "a list")),
                })
            }
            Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => {
                let (x, y) = (present(a, first)?, present(b, second()?)?);
                let number =
                    |v: &Value, of: &Formula| v.as_f64().ok_or_else(|| unusable(of.to_string(), v.clone(), "a number"));
                let (x, y) = (number(&x, a)?, number(&y, b)?);
                Value::Bool(match op {
                    Op::Less => x < y,
                    Op::LessOrEqual => x <= y,
                    Op::Greater => x > y,
                    _ => x >= y,
                })
            }
            op => {
                let (x, y) = (present(a, first)?, present(b, second()?)?);
                if !(x.is_number() && y.is_number()) {
                    self.take_whole(&x)?;
                    self.take_whole(&y)?;
                }
                match arithmetic(op, &x, &y) {
                    Some(value) => value,
                    None => {
                        let (of, found) = if x.is_number() { (b, y) } else { (a, x) };
                        return Err(unusable(of.to_string(), found.into_owned(), "a number that fits the calculation"));
                    }
                }
            }
        })))
    }
}

/// The value of a formula that must have one.
fn present<'v>(formula: &Formula, value: Option<Cow<'v, Value>>) -> Result<Cow<'v, Value>, Error> {
    value.filter(|value| !value.is_null()).ok_or_else(|| Error::Missing(formula.to_string()))
}
