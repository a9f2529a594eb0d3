//! The functions of formulas.

use std::borrow::Cow;

use gguf_format::sort::CompactSort as _;
use gguf_model::formula::Function;
use serde_json::{Value, json};

use super::error::unusable;
use super::numbers::{arithmetic, centered, icdf, whole};
use super::steps::{Evaluation, Locals, MAX_LIST, Outcome};
use super::syntax::{Formula, Op};
use super::values::{field, is_true};
use crate::templates::template;

/// The steps of a quantile of the normal distribution.
const STEPS_OF_QUANTILE: usize = 1 << 12;

impl<'v> Evaluation<'v> {
    pub(super) fn call(&self, function: Function, operands: &'v [Formula], locals: Locals<'v>) -> Outcome<'v> {
        let (Some(first), rest) = (operands.first(), operands.get(1..).unwrap_or_default()) else { return Ok(None) };
        let x = self.needed(first, locals)?;
        let wrong = |expected| unusable(first.to_string(), x.as_ref().clone(), expected);
        let number = || x.as_f64().ok_or_else(|| wrong("a number"));
        let list = || x.as_array().ok_or_else(|| wrong("a list"));
        let object = || x.as_object().ok_or_else(|| wrong("an object"));
        let operand = |n: usize| match rest.get(n) {
            Some(formula) => self.needed(formula, locals),
            None => Ok(Cow::Borrowed(&Value::Null)),
        };
        let second = || operand(0);
        // Functions of lists, objects and texts read all of them.
        match function {
            Function::Len | Function::IsList | Function::Required | Function::OneOf | Function::NLeading => {}
            _ => self.take_whole(&x)?,
        }
        Ok(Some(Cow::Owned(match function {
            Function::Int => match x.as_ref() {
                Value::Number(n) if n.is_f64() => {
                    whole(n.as_f64().unwrap_or(f64::NAN)).ok_or_else(|| wrong("a number"))?
                }
                Value::Number(_) => return Ok(Some(x)),
                Value::Bool(b) => json!(u8::from(*b)),
                Value::String(text) => text.trim().parse::<i64>().map_err(|_| wrong("a whole number"))?.into(),
                _ => return Err(wrong("a number")),
            },
            Function::Float => json!(number()?),
            Function::Str if x.is_string() => return Ok(Some(x)),
            Function::Str => Value::String(x.to_string()),
            Function::Len => match x.as_ref() {
                Value::Array(items) => json!(items.len()),
                Value::Object(items) => json!(items.len()),
                Value::String(text) => {
                    self.take_text(text)?;
                    json!(text.chars().count())
                }
                _ => return Err(wrong("a list")),
            },
            Function::Abs => match x.as_i64() {
                Some(n) => json!(n.unsigned_abs()),
                None => json!(number()?.abs()),
            },
            Function::Sqrt => json!(number()?.sqrt()),
            Function::Log => json!(number()?.ln()),
            Function::Log2 => json!(number()?.log2()),
            Function::Round => whole(number()?.round_ties_even()).ok_or_else(|| wrong("a number"))?,
            Function::Ceil => whole(number()?.ceil()).ok_or_else(|| wrong("a number"))?,
            Function::Min | Function::Max => {
                let y = second()?;
                let other = y
                    .as_f64()
                    .ok_or_else(|| unusable("the second operand".to_owned(), y.as_ref().clone(), "a number"))?;
                let is_first = (number()? <= other) == (function == Function::Min);
                return Ok(Some(if is_first { x } else { y }));
            }
            Function::Sum => {
                let mut sum = json!(0);
                for item in list()? {
                    sum = arithmetic(Op::Add, &sum, item).ok_or_else(|| wrong("a list of numbers"))?;
                }
                sum
            }
            Function::Any => Value::Bool(list()?.iter().any(|item| is_true(Some(item)))),
            Function::All => Value::Bool(list()?.iter().all(|item| is_true(Some(item)))),
            Function::Lower => Value::String(x.as_str().ok_or_else(|| wrong("text"))?.to_lowercase()),
            Function::Required => return Ok(Some(x)),
            Function::Pad => {
                let n = second()?.as_u64().unwrap_or(0).min(MAX_LIST as u64) as usize;
                let filler = operand(1)?;
                self.take(n)?;
                let missing = n.saturating_sub(list()?.len());
                (0..missing).try_for_each(|_| self.take_whole(&filler))?;
                let filled = list()?.iter().take(n).chain(core::iter::repeat_n(filler.as_ref(), missing));
                Value::Array(filled.cloned().collect())
            }
            Function::With => match (object()?.clone(), second()?.as_ref(), rest.get(1)) {
                (mut object, Value::String(name), Some(_)) => {
                    object.insert(name.clone(), self.owned(Some(operand(1)?))?);
                    Value::Object(object)
                }
                _ => return Err(wrong("an object")),
            },
            Function::TokenId => {
                let content = second()?;
                let found = object()?.iter().find(|(_, entry)| entry.get("content") == Some(content.as_ref()));
                return Ok(found.and_then(|(id, _)| id.parse::<u64>().ok()).map(|id| Cow::Owned(id.into())));
            }
            Function::Merge => match (object()?.clone(), self.owned(Some(second()?))?) {
                (mut object, Value::Object(more)) => {
                    object.extend(more);
                    Value::Object(object)
                }
                _ => return Err(wrong("an object")),
            },
            Function::Range => {
                let n =
                    x.as_u64().filter(|n| *n <= MAX_LIST as u64).ok_or_else(|| wrong("a number from 0 to 65536"))?;
                self.take(n as usize)?;
                Value::Array((0..n).map(Value::from).collect())
            }
            Function::Sorted => {
                let key = |item: &Value| match item {
                    Value::Array(items) => items.iter().map(Value::as_f64).collect(),
                    single => Some(vec![single.as_f64()?]),
                };
                let keyed: Option<Vec<(Vec<f64>, Value)>> =
                    list()?.iter().map(|item| Some((key(item)?, item.clone()))).collect();
                let mut keyed = keyed.ok_or_else(|| wrong("a list of numbers"))?;
                keyed.compact_sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
                Value::Array(keyed.into_iter().map(|(_, item)| item).collect())
            }
            Function::Split => match (x.as_str(), second()?.as_str()) {
                (Some(text), Some(separator)) => {
                    self.take(text.len())?;
                    json!(text.split(separator).collect::<Vec<_>>())
                }
                _ => return Err(wrong("text")),
            },
            Function::Numbers => {
                let text = x.as_str().ok_or_else(|| wrong("text"))?;
                self.take(text.len())?;
                let numbers = text.split(',').map(|n| n.trim().parse::<i64>()).collect::<Result<Vec<_>, _>>();
                let mut numbers = numbers.map_err(|_| wrong("whole numbers that commas separate"))?;
                numbers.compact_sort_by(Ord::cmp);
                json!(numbers)
            }
            Function::Icdf => {
                self.take(STEPS_OF_QUANTILE)?;
                icdf(number()?).ok_or_else(|| wrong("a number from 0 to below 1"))?
            }
            Function::Centered => centered(list()?).ok_or_else(|| wrong("a list of numbers"))?,
            Function::NLeading => {
                let (value, items) = (second()?, list()?);
                json!(self.first(items, |item| Ok(!self.equal(item, &value)?))?.unwrap_or(items.len()))
            }
            Function::IsList => Value::Bool(x.is_array()),
            Function::ByNumber => {
                let number = |(name, value): (&String, &Value)| Some((name.parse::<i64>().ok()?, value.clone()));
                let mut items: Vec<(i64, Value)> = object()?
                    .iter()
                    .map(number)
                    .collect::<Option<_>>()
                    .ok_or_else(|| wrong("an object with numbers for names"))?;
                items.compact_sort_by_key(|(number, _)| *number);
                Value::Array(items.into_iter().map(|(_, value)| value).collect())
            }
            Function::ByName => {
                let mut items: Vec<(&String, &Value)> = object()?.iter().collect();
                items.compact_sort_by_key(|(name, _)| *name);
                Value::Array(items.into_iter().map(|(_, value)| value.clone()).collect())
            }
            Function::Template => {
                let text = x.as_str().and_then(template).ok_or_else(|| wrong("the name of a chat template"))?;
                Value::String(text.to_owned())
            }
            Function::OneOf => {
                let Some(name) = x.as_str() else { return Err(wrong("text")) };
                match field(second()?, name) {
                    Ok(Some(value)) => return Ok(Some(value)),
                    Ok(None) => return Err(wrong("one of those that llama.cpp knows")),
                    Err(_) => return Err(wrong("text")),
                }
            }
        })))
    }
}
