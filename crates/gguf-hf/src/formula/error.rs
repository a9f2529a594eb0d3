//! Errors of formulas.

use core::fmt;

use serde_json::Value;

use crate::config_error;

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

pub(super) fn unusable(what: String, found: Value, expected: &'static str) -> Error {
    Error::Unusable { what, found, expected }
}
