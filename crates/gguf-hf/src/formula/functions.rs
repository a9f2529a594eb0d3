//! The functions of formulas, by the kind of their first operand.

mod list;
mod number;
mod object;
mod text;

use std::borrow::Cow;

use gguf_model::formula::Function;
use serde_json::{Map, Value};

use super::error::{Error, unusable};
use super::steps::{Evaluation, Locals, Outcome};
use super::syntax::Formula;

/// The operands of a function, of which the first is present.
struct Operands<'e, 'v> {
    evaluation: &'e Evaluation<'v>,
    formula: &'v Formula,
    x: Cow<'v, Value>,
    rest: &'v [Formula],
    locals: Locals<'v>,
}

impl<'v> Operands<'_, 'v> {
    /// The error for the first operand.
    fn wrong(&self, expected: &'static str) -> Error {
        unusable(self.formula.to_string(), self.x.as_ref().clone(), expected)
    }

    /// The first operand as a number.
    fn number(&self) -> Result<f64, Error> {
        self.x.as_f64().ok_or_else(|| self.wrong("a number"))
    }

    /// The first operand as a list.
    fn list(&self) -> Result<&Vec<Value>, Error> {
        self.x.as_array().ok_or_else(|| self.wrong("a list"))
    }

    /// The first operand as an object.
    fn object(&self) -> Result<&Map<String, Value>, Error> {
        self.x.as_object().ok_or_else(|| self.wrong("an object"))
    }

    /// The first operand as a text.
    fn text(&self) -> Result<&str, Error> {
        self.x.as_str().ok_or_else(|| self.wrong("text"))
    }

    /// The second operand.
    fn second(&self) -> Result<Cow<'v, Value>, Error> {
        self.operand(0)
    }

    /// The third operand.
    fn third(&self) -> Result<Cow<'v, Value>, Error> {
        self.operand(1)
    }

    fn operand(&self, n: usize) -> Result<Cow<'v, Value>, Error> {
        match self.rest.get(n) {
            Some(formula) => self.evaluation.needed(formula, self.locals),
            None => Ok(Cow::Borrowed(&Value::Null)),
        }
    }
}

impl<'v> Evaluation<'v> {
    pub(super) fn call(&self, function: Function, operands: &'v [Formula], locals: Locals<'v>) -> Outcome<'v> {
        let [formula, rest @ ..] = operands else { return Ok(None) };
        let operands = Operands { evaluation: self, formula, x: self.needed(formula, locals)?, rest, locals };
        // Functions of lists, objects and texts read all of them.
        match function {
            Function::Len | Function::IsList | Function::Required | Function::OneOf | Function::NLeading => {}
            _ => self.take_whole(&operands.x)?,
        }
        let value = match function {
            Function::Required => return Ok(Some(operands.x)),
            Function::Str if operands.x.is_string() => return Ok(Some(operands.x)),
            Function::Min => return operands.smaller().map(Some),
            Function::Max => return operands.larger().map(Some),
            Function::OneOf => return operands.one_of().map(Some),
            Function::TokenId => return operands.token_id(),
            Function::Int => operands.int()?,
            Function::Float => operands.number()?.into(),
            Function::Abs => operands.abs()?,
            Function::Sqrt => operands.number()?.sqrt().into(),
            Function::Log => operands.number()?.ln().into(),
            Function::Log2 => operands.number()?.log2().into(),
            Function::Round => operands.whole(operands.number()?.round_ties_even())?,
            Function::Ceil => operands.whole(operands.number()?.ceil())?,
            Function::Icdf => operands.icdf()?,
            Function::Range => operands.range()?,
            Function::Len => operands.len()?,
            Function::Sum => operands.sum()?,
            Function::Any => operands.any()?,
            Function::All => operands.all()?,
            Function::Pad => operands.pad()?,
            Function::Sorted => operands.sorted()?,
            Function::Centered => operands.centered()?,
            Function::NLeading => operands.n_leading()?,
            Function::IsList => operands.x.is_array().into(),
            Function::With => operands.with()?,
            Function::Merge => operands.merge()?,
            Function::ByNumber => operands.by_number()?,
            Function::ByName => operands.by_name()?,
            Function::Str => operands.x.to_string().into(),
            Function::Lower => operands.text()?.to_lowercase().into(),
            Function::Split => operands.split()?,
            Function::Join => operands.join()?,
            Function::Numbers => operands.numbers()?,
            Function::Template => operands.template()?,
        };
        Ok(Some(Cow::Owned(value)))
    }
}
