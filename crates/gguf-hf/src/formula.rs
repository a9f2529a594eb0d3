//! Formulas, which define key-values in terms of the fields of `config.json`, as text in the tables of architectures.
//!
//! The notation, its parser and its evaluation are in one file, so that each operator can be followed through all three.
//!
//! The notation and its semantics follow Python, the language of the reference converter: integers stay integers, `//` rounds down, `/`
//! does not round, `or` gives its first true operand.
//!
//! | notation | value |
//! |---|---|
//! | `hidden_size`, `attn_config.kv_n_heads` | a field, or a field of an inner object |
//! | `@next_tokens` | a fact that the conversion knows beside the configuration, see the module `facts` |
//! | `n_embd\|hidden_size\|768` | the first that is present, even if `null` |
//! | `head_dim ?? 64` | the first that is present and not `null` |
//! | `a or b`, `a and b`, `not a` | as in Python: zero, `null` and empty values are false |
//! | `a if c else b` | |
//! | `+ - * / // % **` | arithmetic |
//! | `== != < <= > >= in` | comparison; a missing field equals `null` |
//! | `list[i]`, `text[i]`, `object['name']`, `[1, 2]`, `{'softmax': 1}` | |
//! | `[layer_types[i] == 'full' for i]` | a list with one element for each block |
//! | `[2 * x for x in list]` | a list with one element for each element of another list |
//! | `int(x) float(x) str(x) len(x) abs(x) sqrt(x) log(x) log2(x) round(x) ceil(x) min(a, b) max(a, b) sum(x) any(x) all(x)` | as in Python |
//! | `required(x)` | `x`, which must be present |
//! | `pad(list, n, x)` | the first `n` elements of the list, padded with `x` to length `n` |
//! | `one_of(x, table)` | the table's entry for `x`, which must exist |
//! | `is_list(x)` | whether `x` is a list |
//! | `n_leading(list, x)` | the number of leading elements equal to `x` |
//! | `with(object, name, x)` | the object with the field `name` set to `x` |
//! | `merge(a, b)` | the object `a` with the fields of the object `b`, which take precedence |
//! | `range(n)` | the integers from 0 to below `n` |
//! | `sorted(list)` | the numbers, or the lists of numbers, in ascending order |
//! | `split(text, separator)` | the parts of the text |
//! | `numbers(text)` | the comma-separated integers in the text, sorted |
//! | `token_id(object, text)` | the number of the first entry whose `content` is the text; entries are named by numbers |
//! | `centered(list)` | the numbers in single precision, minus their mean |
//! | `icdf(x)` | the quantile of the standard normal distribution at `x`, as torch computes it |
//! | `by_number(object)` | the values of an object with numeric names, in numeric order |
//! | `by_name(object)` | the values of an object, ordered by name |
//! | `template(name)` | a chat template of the `templates` module |
//!
//! A missing field is an error in arithmetic. A formula that consists of a missing field has no value.
//!
//! Values are borrowed from the configuration where possible. The evaluation of a formula takes a limited number of steps.

use core::cell::Cell;
use core::fmt;
use gguf_format::sort::CompactSort as _;
use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Number, Value, json};

use crate::config_error::{self, MAX_STEPS};
use crate::facts::{Fact, Facts};
use crate::templates::template;

/// An error in evaluating a formula.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Error {
    /// A field is missing or `null`. Holds its name.
    Missing(String),
    /// The formula does not support the fields' values. Holds the actual and the expected value.
    Unusable { what: String, found: Value, expected: &'static str },
    /// The evaluation takes too many steps. Holds the fields that the formula reads and the number of blocks.
    Long { names: Vec<String>, n_blocks: u64 },
    /// A syntax error at the given byte. Tests parse all formulas.
    Syntax { at: usize, expected: &'static str },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing(name) => write!(f, "{name} is missing"),
            Error::Unusable { what, found, expected } => write!(f, "{what} is {found}, expected {expected}"),
            Error::Long { names, n_blocks } => {
                config_error::Error::Long { fields: names.clone(), n_blocks: *n_blocks }.fmt(f)
            }
            Error::Syntax { at, expected } => write!(f, "expected {expected} at byte {at} of the formula"),
        }
    }
}

/// A parsed formula.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Formula {
    Constant(Value),
    Name(String),
    /// A fact that the conversion knows, by its name without the `@`.
    Fact(String),
    Member(Box<Formula>, String),
    Index(Box<Formula>, Box<Formula>),
    /// The first name that is present.
    Present(Vec<Formula>),
    Binary(Op, Box<Formula>, Box<Formula>),
    Not(Box<Formula>),
    Negative(Box<Formula>),
    If(Box<[Formula; 3]>),
    List(Vec<Formula>),
    Object(Vec<(String, Formula)>),
    /// Element, variable, and the list; `None` iterates over the block numbers.
    Each(Box<Formula>, String, Option<Box<Formula>>),
    Call(Function, Vec<Formula>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Or,
    And,
    Else,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideDown,
    Remainder,
    Power,
}

macro_rules! functions {
    ($($function:ident $name:literal $arity:literal)*) => {
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) enum Function { $($function),* }
        impl Function {
            /// The function of the given name, and its number of operands.
            fn of(name: &str) -> Option<(Function, usize)> {
                match name {
                    $($name => Some((Function::$function, $arity)),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Int "int" 1
    Float "float" 1
    Str "str" 1
    Len "len" 1
    Abs "abs" 1
    Sqrt "sqrt" 1
    Log "log" 1
    Log2 "log2" 1
    Round "round" 1
    Ceil "ceil" 1
    Min "min" 2
    Max "max" 2
    Sum "sum" 1
    Any "any" 1
    All "all" 1
    Lower "lower" 1
    Required "required" 1
    Pad "pad" 3
    OneOf "one_of" 2
    ByNumber "by_number" 1
    ByName "by_name" 1
    Template "template" 1
    IsList "is_list" 1
    NLeading "n_leading" 2
    With "with" 3
    Numbers "numbers" 1
    Icdf "icdf" 1
    Centered "centered" 1
    TokenId "token_id" 2
    Merge "merge" 2
    Range "range" 1
    Sorted "sorted" 1
    Split "split" 2
}

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

/// The variables of the enclosing comprehensions.
type Locals<'v> = Option<&'v Local<'v>>;

struct Local<'v> {
    name: &'v str,
    value: Cow<'v, Value>,
    outer: Locals<'v>,
}

/// The value, or `None` for a missing field.
pub(crate) type Outcome<'v> = Result<Option<Cow<'v, Value>>, Error>;

/// The maximum length of a list that a formula creates.
const MAX_LIST: usize = 1 << 16;

/// The steps of a quantile of the normal distribution.
const STEPS_OF_QUANTILE: usize = 1 << 12;

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

    /// The formula's value; `None` if it is a missing field.
    pub(crate) fn eval<'v>(&'v self, formula: &'v Formula) -> Outcome<'v> {
        Evaluation { fields: self, whole: formula, steps: Cell::new(MAX_STEPS) }.value(formula, None)
    }

    /// The formula's value, and the number of steps.
    #[cfg(test)]
    pub(crate) fn eval_counted<'v>(&'v self, formula: &'v Formula) -> (Outcome<'v>, u64) {
        let evaluation = Evaluation { fields: self, whole: formula, steps: Cell::new(MAX_STEPS) };
        let value = evaluation.value(formula, None);
        (value, MAX_STEPS - evaluation.steps.get())
    }

    /// Whether the formula's value is true, as in Python.
    pub(crate) fn holds(&self, formula: &Formula) -> Result<bool, Error> {
        Ok(is_true(self.eval(formula)?.as_deref()))
    }
}

/// The evaluation of a formula.
struct Evaluation<'v> {
    fields: &'v Fields,
    whole: &'v Formula,
    /// The number of steps left.
    steps: Cell<u64>,
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
    fn needed(&self, formula: &'v Formula, locals: Locals<'v>) -> Result<Cow<'v, Value>, Error> {
        present(formula, self.value(formula, locals)?)
    }

    /// Counts steps.
    fn take(&self, n: usize) -> Result<(), Error> {
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
    fn take_text(&self, text: &str) -> Result<(), Error> {
        self.take(text.len() / 16)
    }

    /// Counts the steps of reading or copying a value with all its elements.
    fn take_whole(&self, value: &Value) -> Result<(), Error> {
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
    fn owned(&self, value: Option<Cow<'_, Value>>) -> Result<Value, Error> {
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
    fn equal(&self, a: &Value, b: &Value) -> Result<bool, Error> {
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

    /// The place of the first element that is as asked.
    fn first(&self, list: &[Value], is: impl Fn(&Value) -> Result<bool, Error>) -> Result<Option<usize>, Error> {
        for (place, item) in list.iter().enumerate() {
            self.take(1)?;
            if is(item)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn call(&self, function: Function, operands: &'v [Formula], locals: Locals<'v>) -> Outcome<'v> {
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

/// The value of a formula that must have one.
fn present<'v>(formula: &Formula, value: Option<Cow<'v, Value>>) -> Result<Cow<'v, Value>, Error> {
    value.filter(|value| !value.is_null()).ok_or_else(|| Error::Missing(formula.to_string()))
}

/// The value of a field of an object; an error for a value that is not an object.
fn field<'v>(object: Cow<'v, Value>, name: &str) -> Result<Option<Cow<'v, Value>>, Cow<'v, Value>> {
    match object {
        Cow::Borrowed(Value::Object(object)) => Ok(object.get(name).map(Cow::Borrowed)),
        Cow::Owned(Value::Object(mut object)) => Ok(object.remove(name).map(Cow::Owned)),
        other => Err(other),
    }
}

/// An element of a list.
fn element(list: Cow<'_, Value>, place: usize) -> Option<Cow<'_, Value>> {
    match list {
        Cow::Borrowed(list) => list.get(place).map(Cow::Borrowed),
        Cow::Owned(Value::Array(mut list)) => (place < list.len()).then(|| Cow::Owned(list.swap_remove(place))),
        Cow::Owned(_) => None,
    }
}

fn unusable(what: String, found: Value, expected: &'static str) -> Error {
    Error::Unusable { what, found, expected }
}

/// The truth value in Python.
pub(crate) fn is_true(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(b)) => *b,
        Some(Value::Number(n)) => n.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(items)) => !items.is_empty(),
    }
}

/// Minus infinity, which JSON cannot represent as a number.
pub(crate) const MINUS_INFINITY: &str = "-Infinity";

/// Subtracts the mean; every operation rounds to single precision.
fn centered(numbers: &[Value]) -> Option<Value> {
    let numbers: Vec<f32> = numbers.iter().map(|x| Some(x.as_f64()? as f32)).collect::<Option<_>>()?;
    let sum: f64 = numbers.iter().copied().map(f64::from).sum();
    let mean = sum as f32 / numbers.len() as f32;
    Some(numbers.iter().map(|x| json!(f64::from(x - mean))).collect())
}

/// The inverse cumulative distribution function of the normal distribution, rounded to single precision at the same steps as in torch
/// (`torch.distributions.Normal.icdf`); infinite at 0.
fn icdf(share: f64) -> Option<Value> {
    if !(0.0..1.0).contains(&share) {
        return None;
    }
    let y = f64::from(2.0 * share as f32 - 1.0);
    if y <= -1.0 {
        return Some(Value::from(MINUS_INFINITY));
    }
    // Bisection, because the error function is increasing.
    let (mut low, mut high) = (-8.0f64, 8.0f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if erf(middle) < y { low = middle } else { high = middle }
    }
    // The bisection ends just below zero.
    let root = if y == 0.0 { 0.0 } else { low };
    Some(json!(f64::from(root as f32 * core::f32::consts::SQRT_2)))
}

/// The error function, computed by its series, which converges everywhere.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    // exp(-x²) times a series of positive terms, which avoids cancellation.
    while n < 400.0 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    core::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Truncates a float to an integer.
fn whole(x: f64) -> Option<Value> {
    (x.is_finite() && x.abs() < 9e18).then(|| Value::from(x.trunc() as i64))
}

fn arithmetic(op: Op, a: &Value, b: &Value) -> Option<Value> {
    if let (Op::Add, Value::String(a), Value::String(b)) = (op, a, b) {
        return Some(Value::String(format!("{a}{b}")));
    }
    if let (Op::Add, Value::Array(a), Value::Array(b)) = (op, a, b) {
        return Some(Value::Array([a.as_slice(), b.as_slice()].concat()));
    }
    if let (Op::Multiply, Value::Array(a), Some(n)) = (op, a, b.as_u64()) {
        let n = usize::try_from(n).ok().filter(|n| n.saturating_mul(a.len()) <= MAX_LIST)?;
        return Some(Value::Array(a.iter().cycle().take(n * a.len()).cloned().collect()));
    }
    let integer = |v: &Value| v.as_i64().or(v.as_bool().map(i64::from));
    if let (Some(x), Some(y)) = (integer(a), integer(b)) {
        let n = match op {
            Op::Add => x.checked_add(y)?,
            Op::Subtract => x.checked_sub(y)?,
            Op::Multiply => x.checked_mul(y)?,
            Op::DivideDown => x.checked_div(y)? - i64::from(x % y != 0 && (x < 0) != (y < 0)),
            Op::Remainder => x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })?,
            Op::Power if y >= 0 => x.checked_pow(u32::try_from(y).ok()?)?,
            _ => return float(op, x as f64, y as f64),
        };
        return Some(Value::from(n));
    }
    float(op, a.as_f64()?, b.as_f64()?)
}

fn float(op: Op, x: f64, y: f64) -> Option<Value> {
    let value = match op {
        Op::Add => x + y,
        Op::Subtract => x - y,
        Op::Multiply => x * y,
        Op::Divide => x / y,
        Op::DivideDown => (x / y).floor(),
        Op::Remainder => x - y * (x / y).floor(),
        Op::Power => x.powf(y),
        _ => return None,
    };
    // JSON cannot represent infinity.
    Number::from_f64(value).map(Value::Number)
}

impl fmt::Display for Formula {
    /// The source text of names, for messages; other formulas are abbreviated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Formula::Constant(value) => write!(f, "{value}"),
            Formula::Name(name) | Formula::Fact(name) => f.write_str(name),
            Formula::Member(object, name) => write!(f, "{object}.{name}"),
            Formula::Index(list, index) => write!(f, "{list}[{index}]"),
            Formula::Present(options) => {
                for (i, option) in options.iter().enumerate() {
                    write!(f, "{}{option}", if i == 0 { "" } else { " or " })?;
                }
                Ok(())
            }
            Formula::Binary(_, a, b) => write!(f, "a number made of {a} and {b}"),
            Formula::Not(a) | Formula::Negative(a) => write!(f, "{a}"),
            Formula::Call(_, operands) => match operands.first() {
                Some(first) => write!(f, "{first}"),
                None => Ok(()),
            },
            Formula::If(parts) => write!(f, "{}", parts[0]),
            Formula::List(_) | Formula::Object(_) | Formula::Each(..) => f.write_str("a list"),
        }
    }
}

impl Formula {
    /// Parses a formula.
    ///
    /// # Errors
    /// [`Error::Syntax`].
    pub(crate) fn parse(text: &str) -> Result<Formula, Error> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let formula = parser.conditional()?;
        parser.space();
        if parser.at < text.len() { parser.wrong("the end") } else { Ok(formula) }
    }

    /// The fields and facts that the formula reads, such as `hidden_size`, `rope.factor` and `@target`, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Formula::Constant(_) => Vec::new(),
            Formula::Name(name) => vec![name.clone()],
            Formula::Fact(name) => vec![format!("@{name}")],
            Formula::Member(of, member) => of.names().into_iter().map(|name| format!("{name}.{member}")).collect(),
            Formula::Not(of) | Formula::Negative(of) => of.names(),
            Formula::Index(a, b) | Formula::Binary(_, a, b) => [a.names(), b.names()].concat(),
            Formula::If(of) => of.iter().flat_map(Formula::names).collect(),
            Formula::Present(of) | Formula::List(of) | Formula::Call(_, of) => {
                of.iter().flat_map(Formula::names).collect()
            }
            Formula::Object(of) => of.iter().flat_map(|(_, of)| of.names()).collect(),
            Formula::Each(element, variable, list) => {
                let is_variable = |name: &String| name.split('.').next() == Some(variable);
                let list = list.as_ref().map_or(Vec::new(), |list| list.names());
                element.names().into_iter().filter(|name| !is_variable(name)).chain(list).collect()
            }
        }
    }
}

/// A name of a field or fact for messages.
pub(crate) fn shown(name: &str) -> &str {
    name.trim_start_matches('@')
}

/// Whether a formula reads a fact.
pub(crate) fn reads(formula: &str, fact: Fact) -> bool {
    let is_fact = |name: &String| name.split('.').next().and_then(|name| name.strip_prefix('@')) == Some(fact.name());
    Formula::parse(formula).is_ok_and(|formula| formula.names().iter().any(is_fact))
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, expected: &'static str) -> Result<T, Error> {
        Err(Error::Syntax { at: self.at, expected })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Consumes a punctuation token.
    fn sign(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    /// Consumes a word.
    fn word(&mut self, word: &str) -> bool {
        self.space();
        let found = self.peek_name() == Some(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn peek_name(&self) -> Option<&'a str> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    }

    fn name(&mut self) -> Result<String, Error> {
        self.space();
        match self.peek_name() {
            Some(name) => {
                self.at += name.len();
                Ok(name.to_owned())
            }
            None => self.wrong("a name"),
        }
    }

    fn conditional(&mut self) -> Result<Formula, Error> {
        self.depth += 1;
        if self.depth > 64 {
            return self.wrong("less nesting");
        }
        let then = self.either()?;
        let formula = if self.word("if") {
            let condition = self.either()?;
            if !self.word("else") {
                return self.wrong("else");
            }
            Formula::If(Box::new([then, condition, self.conditional()?]))
        } else {
            then
        };
        self.depth -= 1;
        Ok(formula)
    }

    fn either(&mut self) -> Result<Formula, Error> {
        let mut a = self.both()?;
        while self.word("or") {
            a = Formula::Binary(Op::Or, a.into(), self.both()?.into());
        }
        Ok(a)
    }

    fn both(&mut self) -> Result<Formula, Error> {
        let mut a = self.negation()?;
        while self.word("and") {
            a = Formula::Binary(Op::And, a.into(), self.negation()?.into());
        }
        Ok(a)
    }

    fn negation(&mut self) -> Result<Formula, Error> {
        if self.word("not") { Ok(Formula::Not(self.comparison()?.into())) } else { self.comparison() }
    }

    fn comparison(&mut self) -> Result<Formula, Error> {
        let a = self.fallback()?;
        const SIGNS: [(&str, Op); 6] = [
            ("==", Op::Equal),
            ("!=", Op::Unequal),
            ("<=", Op::LessOrEqual),
            (">=", Op::GreaterOrEqual),
            ("<", Op::Less),
            (">", Op::Greater),
        ];
        for (sign, op) in SIGNS {
            if self.sign(sign) {
                return Ok(Formula::Binary(op, a.into(), self.fallback()?.into()));
            }
        }
        if self.word("in") {
            return Ok(Formula::Binary(Op::In, a.into(), self.fallback()?.into()));
        }
        Ok(a)
    }

    fn fallback(&mut self) -> Result<Formula, Error> {
        let mut a = self.sum()?;
        while self.sign("??") {
            a = Formula::Binary(Op::Else, a.into(), self.sum()?.into());
        }
        Ok(a)
    }

    fn sum(&mut self) -> Result<Formula, Error> {
        let mut a = self.product()?;
        loop {
            let op = if self.sign("+") {
                Op::Add
            } else if self.sign("-") {
                Op::Subtract
            } else {
                return Ok(a);
            };
            a = Formula::Binary(op, a.into(), self.product()?.into());
        }
    }

    fn product(&mut self) -> Result<Formula, Error> {
        let mut a = self.signed()?;
        loop {
            let op = if self.sign("//") {
                Op::DivideDown
            } else if self.sign("/") {
                Op::Divide
            } else if self.sign("%") {
                Op::Remainder
            } else if !self.rest().trim_start().starts_with("**") && self.sign("*") {
                Op::Multiply
            } else {
                return Ok(a);
            };
            a = Formula::Binary(op, a.into(), self.signed()?.into());
        }
    }

    fn signed(&mut self) -> Result<Formula, Error> {
        if self.sign("-") {
            return Ok(match self.signed()? {
                Formula::Constant(Value::Number(n)) if n.is_i64() => Formula::Constant(json!(-n.as_i64().unwrap_or(0))),
                Formula::Constant(Value::Number(n)) => Formula::Constant(json!(-n.as_f64().unwrap_or(0.0))),
                other => Formula::Negative(other.into()),
            });
        }
        let base = self.present()?;
        if self.sign("**") {
            return Ok(Formula::Binary(Op::Power, base.into(), self.signed()?.into()));
        }
        Ok(base)
    }

    fn present(&mut self) -> Result<Formula, Error> {
        let first = self.member()?;
        let mut options = vec![first];
        while self.sign("|") {
            options.push(self.member()?);
        }
        match options.len() {
            1 => options.pop().map_or_else(|| self.wrong("a value"), Ok),
            _ => Ok(Formula::Present(options)),
        }
    }

    fn member(&mut self) -> Result<Formula, Error> {
        let mut a = self.atom()?;
        loop {
            if self.sign(".") {
                a = Formula::Member(a.into(), self.name()?);
            } else if self.sign("[") {
                let index = self.conditional()?;
                self.close("]")?;
                a = Formula::Index(a.into(), index.into());
            } else {
                return Ok(a);
            }
        }
    }

    fn close(&mut self, sign: &'static str) -> Result<(), Error> {
        if self.sign(sign) { Ok(()) } else { self.wrong(sign) }
    }

    fn atom(&mut self) -> Result<Formula, Error> {
        self.space();
        if self.sign("(") {
            let inner = self.conditional()?;
            self.close(")")?;
            return Ok(inner);
        }
        if self.sign("[") {
            return self.list();
        }
        if self.sign("{") {
            return self.object();
        }
        if self.rest().starts_with(['\'', '"']) {
            return Ok(Formula::Constant(Value::String(self.text()?)));
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        if self.sign("@") {
            return Ok(Formula::Fact(self.name()?));
        }
        let name = self.name()?;
        Ok(match (name.as_str(), Function::of(&name)) {
            ("true" | "True", _) => Formula::Constant(Value::Bool(true)),
            ("false" | "False", _) => Formula::Constant(Value::Bool(false)),
            ("null" | "None", _) => Formula::Constant(Value::Null),
            (_, Some((function, arity))) if self.sign("(") => {
                let mut operands = vec![self.conditional()?];
                while self.sign(",") {
                    operands.push(self.conditional()?);
                }
                self.close(")")?;
                if operands.len() != arity {
                    return self.wrong("another number of operands");
                }
                Formula::Call(function, operands)
            }
            _ => Formula::Name(name),
        })
    }

    fn text(&mut self) -> Result<String, Error> {
        let quote = self.rest().chars().next().unwrap_or('\'');
        let rest = self.rest().get(1..).unwrap_or_default();
        match rest.find(quote) {
            Some(end) => {
                self.at += end + 2;
                Ok(rest.get(..end).unwrap_or_default().to_owned())
            }
            None => self.wrong("a closing quotation mark"),
        }
    }

    fn number(&mut self) -> Result<Formula, Error> {
        let rest = self.rest();
        let mut end = 0;
        for (i, c) in rest.char_indices() {
            let sign_of_exponent = matches!(c, '-' | '+') && rest.get(..i).is_some_and(|t| t.ends_with(['e', 'E']));
            if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || sign_of_exponent) {
                break;
            }
            end = i + 1;
        }
        let text = rest.get(..end).unwrap_or_default();
        let value = match text.parse::<i64>() {
            Ok(n) => json!(n),
            Err(_) => match text.parse::<f64>() {
                Ok(x) => json!(x),
                Err(_) => return self.wrong("a number"),
            },
        };
        self.at += end;
        Ok(Formula::Constant(value))
    }

    fn list(&mut self) -> Result<Formula, Error> {
        if self.sign("]") {
            return Ok(Formula::List(Vec::new()));
        }
        let first = self.conditional()?;
        if self.word("for") {
            let name = self.name()?;
            let list = if self.word("in") { Some(Box::new(self.fallback()?)) } else { None };
            self.close("]")?;
            return Ok(Formula::Each(first.into(), name, list));
        }
        let mut items = vec![first];
        while self.sign(",") {
            items.push(self.conditional()?);
        }
        self.close("]")?;
        Ok(Formula::List(items))
    }

    fn object(&mut self) -> Result<Formula, Error> {
        let mut items = Vec::new();
        while !self.sign("}") {
            self.space();
            let name =
                if self.rest().starts_with('\'') { self.text()? } else { return self.wrong("a name in quotes") };
            self.close(":")?;
            items.push((name, self.conditional()?));
            if !self.sign(",") {
                self.close("}")?;
                break;
            }
        }
        Ok(Formula::Object(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> Result<Option<Value>, Error> {
        let fields = json!({
            "a": 7, "b": 2, "x": 1.5, "none": null, "zero": 0, "text": "full", "list": [1, 2, 3], "empty": [],
            "inner": {"n": 4, "none": null}, "types": ["full", "half", "full"], "yes": true,
        });
        let Value::Object(fields) = fields else { panic!() };
        let (fields, formula) = (Fields::of(fields, 3), Formula::parse(text)?);
        Ok(fields.eval(&formula)?.map(Cow::into_owned))
    }

    #[test]
    fn formulas_mean_what_they_mean_in_python() {
        let cases: &[(&str, Value)] = &[
            ("a", json!(7)),
            ("inner.n", json!(4)),
            ("missing|none|a", json!(null)),
            ("missing|a", json!(7)),
            ("missing|3", json!(3)),
            ("missing ?? none ?? a", json!(7)),
            ("none ?? 5", json!(5)),
            ("zero ?? 5", json!(0)),
            ("zero or 5", json!(5)),
            ("a and b", json!(2)),
            ("empty and b", json!([])),
            ("not missing", json!(true)),
            ("merge(inner, {'n': 5, 'm': 6})", json!({"n": 5, "none": null, "m": 6})),
            ("range(b)", json!([0, 1])),
            ("sorted([3, -1, 2.5])", json!([-1, 2.5, 3])),
            ("sorted([[2, 1], [1, 3], [1, 2], [1]])", json!([[1], [1, 2], [1, 3], [2, 1]])),
            ("[int(part) for part in split('4/8', '/')]", json!([4, 8])),
            ("a // b", json!(3)),
            ("-a // b", json!(-4)),
            ("a % b", json!(1)),
            ("-a % 4", json!(1)),
            ("a / b", json!(3.5)),
            ("4 / b", json!(2.0)),
            ("2 ** 20", json!(1048576)),
            ("2 ** -1", json!(0.5)),
            ("-2 ** 2 + 1", json!(-3)),
            ("1e-5", json!(1e-5)),
            ("int(x * 3)", json!(4)),
            ("int(-x)", json!(-1)),
            ("a * b + 1", json!(15)),
            ("n_leading(types, 'full')", json!(1)),
            ("n_leading(empty, 0)", json!(0)),
            ("with(inner, 'n', 9).n", json!(9)),
            ("numbers('11, 2,5')", json!([2, 5, 11])),
            ("token_id({'7': {'content': 'x'}, '9': {'content': 'y'}}, 'y')", json!(9)),
            ("token_id({'7': {'content': 'x'}}, 'y') ?? 5", json!(5)),
            ("log2(8)", json!(3.0)),
            ("round(2.5)", json!(2)),
            ("centered([1, 2, 6])", json!([-2.0, -1.0, 3.0])),
            ("icdf(0.5)", json!(0.0)),
            ("icdf(0)", json!("-Infinity")),
            ("icdf(0.95)", json!(1.6448535919189453)),
            ("\"it's\"", json!("it's")),
            ("a - b - 1", json!(4)),
            ("1 + a * (b - 1)", json!(8)),
            ("'x' if text == 'full' else 'y'", json!("x")),
            ("1 if none else 2 if zero else 3", json!(3)),
            ("a >= 7 and b < 2", json!(false)),
            ("missing == null", json!(true)),
            ("1 == 1.0", json!(true)),
            ("text in ['half', 'full']", json!(true)),
            ("'ul' in text", json!(true)),
            ("list[-1]", json!(3)),
            ("[i * b for i]", json!([0, 2, 4])),
            ("[t == 'full' for t in types]", json!([true, false, true])),
            ("[types[i] == 'full' for i]", json!([true, false, true])),
            ("len(list) + sum(list)", json!(9)),
            ("pad(list, 4, 0)", json!([1, 2, 3, 0])),
            ("pad(list, 2, 0)", json!([1, 2])),
            ("one_of(text, {'full': 1, 'half': 2})", json!(1)),
            ("[a] * 3", json!([7, 7, 7])),
            ("text[1]", json!("u")),
            ("[is_list(list), is_list(a)]", json!([true, false])),
            ("inner['n']", json!(4)),
            ("by_number({'10': 'c', '9': 'b', '0': 'a'})", json!(["a", "b", "c"])),
            ("'{%' in template('kimi-k3')", json!(true)),
            ("by_name({'10': 'c', '9': 'b', '0': 'a'})", json!(["a", "c", "b"])),
            ("[round(x) for x in [0.5, 1.5, 2.5, 2.4, 0 - 0.5, 7]]", json!([0, 2, 2, 2, 0, 7])),
            ("max(a, b) - min(a, b)", json!(5)),
            ("yes + 1", json!(2)),
        ];
        for (text, expected) in cases {
            assert_eq!(eval(text), Ok(Some(expected.clone())), "{text}");
        }
        assert_eq!(eval("missing"), Ok(None));
        assert_eq!(eval("inner.missing|missing"), Ok(None));
        assert_eq!(eval("missing.deep"), Ok(None));
    }

    #[test]
    fn what_has_no_value_is_named() {
        let cases = [
            ("missing + 1", "missing is missing"),
            ("required(inner.none)", "inner.none is missing"),
            ("a // zero", "zero is 0, expected a number"),
            ("a % zero", "zero is 0, expected a number"),
            ("text[9]", "expected a text that has such a letter"),
            ("by_number({'x': 1})", "numbers for names"),
            ("by_name([1])", "expected an object"),
            ("template('none')", "expected the name of a chat template"),
            ("text * 2", "text is \"full\", expected a number"),
            ("list[3]", "list[3] is 3, expected a list that has such an element"),
            ("text.x", "text is \"full\", expected an object"),
            ("one_of(text, {'half': 2})", "text is \"full\", expected one of those that llama.cpp knows"),
            ("a +", "expected a name at byte 3"),
            ("(a", "expected ) at byte 2"),
            ("a b", "expected the end at byte 2"),
            ("a if b", "expected else"),
            ("len(a, b)", "another number of operands"),
            ("9223372036854775807 + 1", "expected a number that fits"),
        ];
        for (text, expected) in cases {
            let found = eval(text).unwrap_err().to_string();
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert!(Formula::parse(&"(".repeat(1000)).is_err());
    }

    /// The steps that are left after an evaluation of a list of 1000 elements for 4 blocks.
    fn steps(text: &str) -> u64 {
        let list: Vec<Value> = (0..1000).map(Value::from).collect();
        let Value::Object(fields) = json!({"list": list, "table": {"list": list}, "text": "x".repeat(1000)}) else {
            panic!()
        };
        let (fields, formula) = (Fields::of(fields, 4), Formula::parse(text).unwrap());
        let (value, steps) = fields.eval_counted(&formula);
        value.unwrap();
        steps
    }

    #[test]
    fn lists_of_the_configuration_are_not_copied() {
        for text in [
            "[list[i] for i]",
            "[table.list[i] for i]",
            "[len(list) for i]",
            "[(list if i else table.list)[-1] for i]",
            "[list|i for i] if list == null or list == table else 1",
            "[(list ?? i)[0] + (list or i)[0] for i]",
            "[table['list'][i] for i]",
            "[0 in list for i]",
            "[l[0] for l in [list]]",
        ] {
            // The list of lists is the only copy.
            let copied = if text.contains("[list]") { 1000 } else { 0 };
            assert!(steps(text) < 100 + copied, "{text}: {}", steps(text));
        }
        for (text, n) in [
            ("[list for i]", 4000),
            ("[999 in list for i]", 4000),
            ("[list + [i] for i]", 4000),
            ("[merge(table, table) for i]", 8000),
            ("[sum(list) for i]", 4000),
            ("[text[i] for i]", 4 * 62),
            ("[pad([], 1000, i) for i]", 4000),
            ("[list == list for i]", 4000),
        ] {
            assert!((n..n + 100).contains(&steps(text)), "{text}: {}", steps(text));
        }
    }

    #[test]
    fn operands_are_evaluated_once() {
        let nested = |n| (0..n).fold("1".to_owned(), |formula, _| format!("(1 + {formula}) * 1 < 2"));
        assert!(steps(&nested(10)) < 100, "{}", steps(&nested(10)));
        assert!(steps("1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1") < 30);
    }

    #[test]
    fn steps_are_limited() {
        let list: Vec<Value> = (0..1000).map(Value::from).collect();
        let Value::Object(fields) = json!({"odd": list, "text": "x".repeat(100_000)}) else { panic!() };
        let fields = Fields::of(fields, 65536);
        for text in ["[-1 in odd for i]", "[odd for i]", "[text[i % len(text)] == 'x' for i]", "[icdf(0.5) for i]"] {
            let error = fields.holds(&Formula::parse(text).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Long { n_blocks: 65536, .. }), "{text}: {error}");
        }
        let error = fields.holds(&Formula::parse("[-1 in odd for i]").unwrap()).unwrap_err().to_string();
        assert_eq!(
            error,
            "odd: evaluation for 65536 blocks takes more than 524288 steps, expected shorter lists or fewer blocks"
        );
    }
}
