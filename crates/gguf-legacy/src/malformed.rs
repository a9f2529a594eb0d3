//! Errors of legacy files: the field, its byte offset, what was found and what was expected.

use std::fmt;

use gguf_format::{SizeError, Str};

/// Why the bytes of a legacy file do not make sense.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The field.
    pub field: Field,
    /// Its byte offset from the start of the file.
    pub offset: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// A field of a legacy file. Numbers count from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Field {
    Magic,
    Version,
    /// A hyperparameter, by the name that the writers of its time gave it.
    Hparam(&'static str),
    TokenLength(u32),
    Token(u32),
    Score(u32),
    Merge(u32),
    MelFilters,
    TensorDims(u64),
    TensorNameLength(u64),
    TensorType(u64),
    TensorShape(u64),
    TensorName(u64),
    TensorData(u64),
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file ends inside the field.
    PastEnd {
        /// Where the field ends.
        need: u64,
        /// Where the file ends.
        len: u64,
    },
    /// A number that cannot be right.
    Number {
        /// The number.
        found: i64,
        /// What would be right.
        expected: &'static str,
    },
    /// A float that cannot be right.
    Float {
        /// The bits of the float.
        bits: u32,
        /// What would be right.
        expected: &'static str,
    },
    /// A name that is not text.
    Name(Vec<u8>),
    /// A tensor whose size cannot be computed.
    Size(SizeError),
    /// More bytes of tokens than any vocabulary has.
    TooManyTokenBytes {
        /// How many are allowed.
        limit: u64,
    },
    /// More tensors than any model has.
    TooManyTensors {
        /// How many are allowed.
        limit: u64,
    },
}

impl Malformed {
    pub(crate) fn number(field: Field, offset: u64, found: u32, expected: &'static str) -> Malformed {
        // The writers had signed integers.
        Malformed { field, offset, problem: Problem::Number { found: i64::from(found as i32), expected } }
    }

    /// Whether the file ends too early, and nothing else is wrong with it so far.
    pub fn is_truncated(&self) -> bool {
        matches!(self.problem, Problem::PastEnd { .. })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Magic => f.write_str("magic"),
            Field::Version => f.write_str("version"),
            Field::Hparam(name) => write!(f, "hyperparameter {name}"),
            Field::TokenLength(i) => write!(f, "length of token {i}"),
            Field::Token(i) => write!(f, "token {i}"),
            Field::Score(i) => write!(f, "score of token {i}"),
            Field::Merge(i) => write!(f, "merge {i}"),
            Field::MelFilters => f.write_str("mel filters"),
            Field::TensorDims(i) => write!(f, "number of dimensions of tensor {i}"),
            Field::TensorNameLength(i) => write!(f, "length of the name of tensor {i}"),
            Field::TensorType(i) => write!(f, "type of tensor {i}"),
            Field::TensorShape(i) => write!(f, "dimensions of tensor {i}"),
            Field::TensorName(i) => write!(f, "name of tensor {i}"),
            Field::TensorData(i) => write!(f, "data of tensor {i}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::PastEnd { need, len } => write!(f, "it extends to byte {need}, but the file ends at byte {len}"),
            Problem::Number { found, expected } => write!(f, "is {found}; expected {expected}"),
            Problem::Float { bits, expected } => write!(f, "is {:?}; expected {expected}", f32::from_bits(*bits)),
            Problem::Name(name) => write!(f, "is \"{}\"; expected printable ASCII", Str(name)),
            Problem::Size(e) => write!(f, "{e}"),
            Problem::TooManyTokenBytes { limit } => {
                write!(f, "the tokens so far have more than {limit} bytes, more than any vocabulary")
            }
            Problem::TooManyTensors { limit } => {
                write!(f, "there are more than {limit} tensors, more than any model has")
            }
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}: {}", self.offset, self.field, self.problem)
    }
}

impl std::error::Error for Malformed {}
