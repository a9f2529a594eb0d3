//! Errors of evaluation.

use std::fmt;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no libllama in the places that were searched.
    NotFound,
    /// The library cannot be opened, lacks a function, or has an unknown layout.
    Library,
    /// The library has no device to compute on.
    NoDevice,
    /// The library refuses the model.
    Model,
    /// The library refuses a context of this size, for example because memory is insufficient.
    Context,
    /// The library cannot evaluate the tokens.
    Evaluation,
    /// A result or an input of a matrix product is not a finite number.
    NotFinite,
    /// The text is too short, or cannot be tokenized.
    Text,
    /// A file does not match the model or the text.
    Mismatch,
    /// A file is not one of base probabilities, or is truncated.
    Base,
    /// The process that evaluates has ended.
    Died,
    /// An error of the operating system.
    Io,
    /// The work was cancelled.
    Cancelled,
}

impl ErrorKind {
    const ALL: [ErrorKind; 13] = [
        ErrorKind::NotFound,
        ErrorKind::Library,
        ErrorKind::NoDevice,
        ErrorKind::Model,
        ErrorKind::Context,
        ErrorKind::Evaluation,
        ErrorKind::NotFinite,
        ErrorKind::Text,
        ErrorKind::Mismatch,
        ErrorKind::Base,
        ErrorKind::Died,
        ErrorKind::Io,
        ErrorKind::Cancelled,
    ];

    /// The number that stands for the kind in a message between processes.
    pub(crate) fn code(self) -> u8 {
        Self::ALL.iter().zip(0..).find(|(kind, _)| **kind == self).map_or(u8::MAX, |(_, code)| code)
    }

    pub(crate) fn from_code(code: u8) -> ErrorKind {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(ErrorKind::Io)
    }
}

/// An error of evaluation. It may come from another process, so its cause is text.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    log: Vec<String>,
}

impl Error {
    /// An error with a message, in lower case and without a final period.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), log: Vec::new() }
    }

    /// Adds the last lines that the library has logged.
    pub(crate) fn with_log(mut self, log: Vec<String>) -> Error {
        self.log = log;
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message, without the log.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The last lines that the library has logged, if they may explain the error.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// Whether a file is the cause, not the library or the system.
    pub fn is_bad_file(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Model | ErrorKind::NotFinite | ErrorKind::Text | ErrorKind::Mismatch | ErrorKind::Base
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for line in &self.log {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::new(ErrorKind::Io, e.to_string())
    }
}
