//! Parsed formulas.

use core::fmt;

use gguf_model::formula::Function;
use serde_json::Value;

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
            Formula::If(parts) => {
                let [then, ..] = parts.as_ref();
                write!(f, "{then}")
            }
            Formula::List(_) | Formula::Object(_) | Formula::Each(..) => f.write_str("a list"),
        }
    }
}

impl Formula {
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

    /// The formulas by which integers are divided, as they are shown in messages.
    pub(crate) fn divisors(&self) -> Vec<String> {
        match self {
            Formula::Binary(Op::DivideDown, a, b) => [a.divisors(), vec![b.to_string()], b.divisors()].concat(),
            Formula::Not(of) | Formula::Negative(of) => of.divisors(),
            Formula::Binary(_, a, b) => [a.divisors(), b.divisors()].concat(),
            Formula::If(of) => of.iter().flat_map(Formula::divisors).collect(),
            _ => Vec::new(),
        }
    }
}

/// A name of a field or fact for messages.
pub(crate) fn shown(name: &str) -> &str {
    name.trim_start_matches('@')
}
