//! Errors in `config.json`.

use core::fmt;

use serde_json::Value;

/// The maximum number of steps of an evaluation: formulas and elements that are evaluated, compared, or copied.
pub(crate) const MAX_STEPS: u64 = 1 << 19;

/// An error in a checkpoint's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The document is not a JSON object.
    NotAnObject,
    /// None of the names is present, and one is required.
    Missing(Vec<String>),
    /// A field has an invalid value.
    Invalid {
        /// The path of the field, including the enclosing objects.
        field: String,
        /// The value, shortened.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The lists are too long, or the blocks too many, for the fields that follow from them.
    Long {
        /// The fields.
        fields: Vec<String>,
        /// The number of blocks.
        n_blocks: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotAnObject => f.write_str("the document is not a JSON object with fields"),
            Error::Missing(names) => match names.as_slice() {
                [name] => write!(f, "the field {name} is missing"),
                names => write!(f, "missing field; expected one of {}", names.join(", ")),
            },
            Error::Invalid { field, found, expected } => write!(f, "the field {field} is {found}, expected {expected}"),
            Error::Long { fields, n_blocks } => write!(
                f,
                "{}: evaluation for {n_blocks} blocks takes more than {MAX_STEPS} steps, expected shorter lists or fewer blocks",
                fields.join(", ")
            ),
        }
    }
}

impl core::error::Error for Error {}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, found: &Value, expected: &'static str) -> Error {
        Error::Invalid { field: field.into(), found: shortened(found), expected }
    }
}

/// Formats a JSON value for a message.
pub(crate) fn shortened(value: &Value) -> String {
    let mut text = value.to_string();
    if let Some((cut, _)) = text.char_indices().nth(60) {
        text.truncate(cut);
        text.push('…');
    }
    text
}
