//! Errors of legacy files: the field, its byte offset, the value found and the expected one.

use std::fmt;

use gguf_format::{SizeError, Str};

/// Why a legacy file is malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The field.
    pub field: Field,
    /// Its byte offset from the start of the file.
    pub offset: u64,
    /// The problem.
    pub problem: Problem,
}

/// A field of a legacy file. Numbers count from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Field {
    Magic,
    Version,
    /// A hyperparameter, with the name used by the writers of its time.
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

/// The problem of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file ends inside the field.
    PastEnd {
        /// The end of the field.
        need: u64,
        /// The end of the file.
        len: u64,
    },
    /// An invalid number.
    Number {
        /// The number.
        found: i64,
        /// The valid numbers.
        expected: &'static str,
    },
    /// An invalid float.
    Float {
        /// The bits of the float.
        bits: u32,
        /// The valid floats.
        expected: &'static str,
    },
    /// A name that is not text.
    Name(Vec<u8>),
    /// A tensor whose size cannot be computed.
    Size(SizeError),
    /// More bytes of tokens than the limit.
    TooManyTokenBytes {
        /// The limit.
        limit: u64,
    },
    /// More tensors than the limit.
    TooManyTensors {
        /// The limit.
        limit: u64,
    },
}

impl Malformed {
    pub(crate) fn number(field: Field, offset: u64, found: u32, expected: &'static str) -> Malformed {
        // The writers used signed integers.
        Malformed { field, offset, problem: Problem::Number { found: i64::from(found as i32), expected } }
    }

    /// Whether the file is truncated, without any other problem so far.
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
