//! What the user of a conversion should know, though it can be run.

use std::fmt;

use gguf_format::check::Finding;

/// Something odd about a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// About the configuration, as the architecture takes it.
    Architecture(String),
    /// About the model card and other metadata.
    Metadata(String),
    /// About the tokenizer.
    Tokenizer(String),
    /// What the check of models finds in the head of the output. The reference writes such files too, but they may not load.
    Output(Finding),
    /// How many more such findings there are.
    MoreOutput(usize),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Architecture(text) | Warning::Metadata(text) | Warning::Tokenizer(text) => f.write_str(text),
            Warning::Output(Finding { place, message, code, expected, .. }) => {
                write!(f, "the output will be invalid: {place}: {message} ({code}); expected {expected}")
            }
            Warning::MoreOutput(n) => {
                write!(f, "the output will be invalid: {n} more problems; check it to see all of them")
            }
        }
    }
}
