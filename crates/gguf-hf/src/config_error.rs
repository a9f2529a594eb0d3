//! What can be wrong with `config.json`.

use core::fmt;

use serde_json::Value;

/// What is wrong with a checkpoint's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The document is not a JSON object.
    NotAnObject,
    /// None of the names is present, and one has to be.
    Missing(Vec<String>),
    /// A field has a value that cannot be used.
    Invalid {
        /// The field, with the names of the objects around it.
        field: String,
        /// The value found, shortened.
        found: String,
        /// What would be right.
        expected: &'static str,
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
        }
    }
}

impl core::error::Error for Error {}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, found: &Value, expected: &'static str) -> Error {
        Error::Invalid { field: field.into(), found: shortened(found), expected }
    }
}

/// A JSON value for a message.
pub(crate) fn shortened(value: &Value) -> String {
    let mut text = value.to_string();
    if let Some((cut, _)) = text.char_indices().nth(60) {
        text.truncate(cut);
        text.push('…');
    }
    text
}
