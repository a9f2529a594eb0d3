//! Errors of edits, repairs and estimates.

use std::fmt;
use std::path::{Path, PathBuf};

use gguf_format::keys::KeyType;
use gguf_format::{LayoutError, MAX_IMAGE_TENSOR_NAME, MAX_KEY, MAX_TENSOR_NAME, Str};

/// Reasons why a file cannot be edited, repaired or estimated.
///
/// The message is complete: it names the file, if any, and includes that of the cause.
///
/// ```
/// use gguf_edit::{Edit, EditError, apply};
/// use gguf_format::Head;
///
/// let mut head = Head::default();
/// head.set("general.name", "A model");
/// let error = apply(&mut head, &[Edit::Unset { key: "general.nam".into() }]).unwrap_err();
/// assert!(matches!(error, EditError::NoKey { nearest, .. } if nearest == ["general.name"]));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum EditError {
    /// A file cannot be opened, read or written.
    Io(Box<gguf_io::Error>),
    /// A new file cannot be written.
    Pipeline(Box<gguf_pipeline::Error>),
    /// The value of the key is not an array.
    NoArray {
        /// The key.
        key: String,
        /// The type of the value.
        found: KeyType,
    },
    /// The array has no element with this index.
    Element {
        /// The key of the array.
        key: String,
        /// The index.
        index: u64,
        /// The length of the array.
        n_elements: u64,
    },
    /// An error, with the file.
    At {
        /// The file.
        path: PathBuf,
        /// The error.
        error: Box<EditError>,
    },
    /// The key does not exist.
    NoKey {
        /// The key.
        key: String,
        /// Similar keys of the file, the nearest first.
        nearest: Vec<String>,
    },
    /// The tensor does not exist.
    NoTensor {
        /// The name.
        name: String,
        /// Similar names, the nearest first.
        nearest: Vec<String>,
    },
    /// Neither a key nor a tensor has this name.
    NoName {
        /// The name.
        name: String,
    },
    /// A key and a tensor share this name.
    TwoMeanings {
        /// The name.
        name: String,
    },
    /// The new name already exists.
    Taken {
        /// The new name.
        name: String,
    },
    /// An invalid key.
    KeyName {
        /// The key.
        key: String,
    },
    /// An invalid tensor name.
    TensorName {
        /// The name.
        name: String,
    },
    /// The type of a value is not valid for the key.
    TypeChange {
        /// The key.
        key: String,
        /// The type of the value.
        given: KeyType,
        /// The types that are valid for the key.
        expected: String,
    },
    /// A key of unknown type.
    UnknownKey {
        /// The key.
        key: String,
        /// A similar known key.
        nearest: Option<String>,
    },
    /// Text that is not an assignment.
    Assignment {
        /// The text.
        text: String,
    },
    /// Text that is not a type.
    UnknownType {
        /// The text.
        text: String,
    },
    /// A value does not have the key's type.
    Value {
        /// The key.
        key: String,
        /// The type.
        kind: KeyType,
        /// The value, truncated for display.
        found: String,
    },
    /// Invalid JSON form of a metadata value.
    JsonValue {
        /// The key.
        key: String,
        /// The problem.
        problem: &'static str,
    },
    /// JSON that is not an object of keys and values.
    Json {
        /// The problem.
        problem: String,
    },
    /// An error in a line of key-values.
    Line {
        /// The line, from 1.
        number: usize,
        /// The error.
        error: Box<EditError>,
    },
    /// A line that is not a key and its value.
    NotALine,
    /// An unterminated multi-line string.
    NoEnd {
        /// The missing last line.
        end: String,
    },
    /// A duplicate key.
    Twice {
        /// The key.
        key: String,
    },
    /// A placeholder for a hidden value, under a key that does not have that value.
    NotShown {
        /// The key.
        key: String,
    },
    /// The file has no vocabulary.
    NoTokens,
    /// An unknown role of tokens.
    UnknownRole {
        /// The role.
        role: String,
    },
    /// An unknown type of tokens.
    UnknownTokenType {
        /// The type.
        ty: String,
    },
    /// No token has the text.
    NoToken {
        /// The text.
        text: String,
    },
    /// Several tokens have the text.
    TokenTwice {
        /// The text.
        text: String,
        /// The first two ids.
        ids: [u64; 2],
    },
    /// A token id out of range.
    TokenId {
        /// The id.
        id: u64,
        /// Number of tokens.
        n_tokens: u64,
    },
    /// The numbers of token types and tokens differ.
    TokenTypes {
        /// Number of types.
        n_types: u64,
        /// Number of tokens.
        n_tokens: u64,
    },
    /// The head would be invalid.
    Layout(LayoutError),
    /// A draft of GGUF version 1.
    Draft,
    /// The key that reserves space for later edits cannot be edited like others.
    PadKey,
    /// The key that reserves space for later edits has a value that is not padding.
    NotPadding,
    /// The edit would move every tensor.
    Alignment,
    /// The key-values of the model are in another shard.
    NotFirstShard {
        /// Number of the shard, from 1.
        number: u64,
    },
    /// The file would have to be rewritten, which the options exclude.
    NotInPlace {
        /// The reason why it cannot be edited in place.
        why: &'static str,
    },
    /// The output is the damaged file itself.
    SameFile,
    /// No part of the file can be saved.
    NothingWhole,
    /// The damage cannot be repaired without an intact copy.
    NotDetermined {
        /// The problem of the head.
        problem: String,
    },
    /// The other file is not a copy.
    NotACopy {
        /// The other file.
        other: PathBuf,
        /// The difference.
        problem: String,
        /// Whether both files have the same length, so that the difference may be damage of the head.
        is_alike: bool,
    },
    /// The other file is damaged as well.
    OtherDamaged {
        /// The other file.
        other: PathBuf,
        /// The damage.
        problem: String,
    },
    /// The file is not a model, so it has no memory of its own to estimate.
    NotEstimated {
        /// What the file is instead.
        what: NotEstimated,
    },
    /// A key required for an estimate is missing.
    MissingKey {
        /// The key.
        key: String,
    },
    /// An invalid hyperparameter.
    Hyperparameter {
        /// The key.
        key: String,
        /// The problem.
        problem: String,
    },
    /// An invalid option of an estimate.
    Asked {
        /// The problem.
        problem: String,
    },
}

impl EditError {
    /// Adds a file to the error.
    pub fn at(self, path: &Path) -> EditError {
        match self {
            EditError::Io(_) | EditError::Pipeline(_) | EditError::At { .. } => self,
            error => EditError::At { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// The error without the file.
    pub fn problem(&self) -> &EditError {
        match self {
            EditError::At { error, .. } => error.problem(),
            error => error,
        }
    }

    /// Whether the content of a file is the cause, not the caller or the system.
    pub fn is_bad_input(&self) -> bool {
        match self.problem() {
            EditError::Io(e) => e.is_bad_file(),
            EditError::Pipeline(e) => e.is_bad_input(),
            EditError::NoKey { .. }
            | EditError::NoTensor { .. }
            | EditError::NoName { .. }
            | EditError::NoTokens
            | EditError::NoToken { .. }
            | EditError::TokenTwice { .. }
            | EditError::TokenTypes { .. }
            | EditError::Layout(_)
            | EditError::NothingWhole
            | EditError::NotDetermined { .. }
            | EditError::NotACopy { .. }
            | EditError::OtherDamaged { .. }
            | EditError::NotEstimated { .. }
            | EditError::MissingKey { .. }
            | EditError::Hyperparameter { .. } => true,
            _ => false,
        }
    }
}

impl From<gguf_io::Error> for EditError {
    fn from(e: gguf_io::Error) -> EditError {
        EditError::Io(Box::new(e))
    }
}

impl From<gguf_pipeline::Error> for EditError {
    fn from(e: gguf_pipeline::Error) -> EditError {
        EditError::Pipeline(Box::new(e))
    }
}

impl From<LayoutError> for EditError {
    fn from(e: LayoutError) -> EditError {
        EditError::Layout(e)
    }
}

/// A name, possibly from a file, truncated and safe to print. The printed form of a key outside UTF-8, such as `\x8d`, is not escaped again.
fn shown(name: &str) -> String {
    gguf_format::check::shown(Str(&crate::edits::key_bytes(name)))
}

fn or_names(f: &mut fmt::Formatter<'_>, nearest: &[String]) -> fmt::Result {
    match nearest {
        [] => Ok(()),
        names => write!(f, "; did you mean {}?", names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(" or ")),
    }
}

/// The kind of a file that is not a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotEstimated {
    /// An importance matrix.
    Matrix,
    /// A LoRA adapter.
    Adapter,
}

impl fmt::Display for NotEstimated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotEstimated::Matrix => "an importance matrix; expected a model, such as the one that it was measured on",
            NotEstimated::Adapter => {
                "a LoRA adapter; expected its base model, to which it adds about the size of its file"
            }
        })
    }
}

impl fmt::Display for EditError {
    #[allow(clippy::too_many_lines, reason = "one match over all errors")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Io(e) => e.fmt(f),
            EditError::Pipeline(e) => e.fmt(f),
            EditError::At { path, error } => write!(f, "{}: {error}", path.display()),
            EditError::NoKey { key, nearest } => {
                write!(f, "there is no key {}", shown(key))?;
                or_names(f, nearest)
            }
            EditError::NoTensor { name, nearest } => {
                write!(f, "there is no tensor {}", shown(name))?;
                or_names(f, nearest)
            }
            EditError::NoName { name } => write!(f, "there is neither a key nor a tensor {}", shown(name)),
            EditError::TwoMeanings { name } => write!(f, "{} is both a key and a tensor", shown(name)),
            EditError::Taken { name } => write!(f, "the name {} is taken", shown(name)),
            EditError::KeyName { key } => {
                write!(f, "invalid key {:?}: expected 1 to {MAX_KEY} bytes of UTF-8 without NUL", shown(key))
            }
            EditError::TensorName { name } => write!(
                f,
                "invalid tensor name {:?}: expected 1 to {MAX_TENSOR_NAME} bytes of UTF-8 without NUL, or 1 to \
                 {MAX_IMAGE_TENSOR_NAME} in an image model",
                shown(name)
            ),
            EditError::UnknownKey { key, nearest } => {
                write!(
                    f,
                    "unknown type of {}: the key is neither in the file nor in the table of known keys",
                    shown(key)
                )?;
                match nearest {
                    Some(near) => write!(f, "; did you mean {}?", shown(near)),
                    None => f.write_str("; specify a type, as in KEY:u32=VALUE"),
                }
            }
            EditError::Assignment { text } => {
                write!(f, "{:?} is not KEY=VALUE or KEY:TYPE=VALUE", shown(text))
            }
            EditError::UnknownType { text } => write!(
                f,
                "unknown type {:?}; expected u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, string, or [TYPE] \
                 for an array",
                shown(text)
            ),
            EditError::Value { key, kind, found } => {
                write!(f, "{}: expected a value of type {kind}, found {}", shown(key), shown(found))
            }
            EditError::NoArray { key, found } => {
                write!(f, "{}: expected an array, found {found}", shown(key))
            }
            EditError::Element { key, index, n_elements } => {
                write!(f, "{}: index {index} is out of range; the array has {n_elements} elements", shown(key))
            }
            EditError::TypeChange { key, given, expected } => {
                write!(f, "{}: expected a value of type {expected}, found {given}", shown(key))
            }
            EditError::JsonValue { key, problem } => write!(f, "{}: {problem}", shown(key)),
            EditError::Json { problem } => f.write_str(problem),
            EditError::Line { number, error } => write!(f, "line {number}: {error}"),
            EditError::NotALine => f.write_str("expected KEY: TYPE = VALUE"),
            EditError::NoEnd { end } => {
                write!(f, "unterminated string; expected a line {end}")
            }
            EditError::Twice { key } => write!(f, "duplicate key {}", shown(key)),
            EditError::NotShown { key } => {
                write!(f, "the file has no value of {} to keep; replace … by a value", shown(key))
            }
            EditError::NoTokens => f.write_str("there is no vocabulary: tokenizer.ggml.tokens is missing"),
            EditError::UnknownRole { role } => {
                write!(
                    f,
                    "unknown role {}; expected one of {}",
                    shown(role),
                    crate::tokens::roles().collect::<Vec<_>>().join(", ")
                )
            }
            EditError::UnknownTokenType { ty } => write!(
                f,
                "unknown token type {:?}; expected normal, unknown, control, user_defined, unused or byte",
                shown(ty)
            ),
            EditError::NoToken { text } => write!(f, "no token has the text {:?}", shown(text)),
            EditError::TokenTwice { text, ids: [a, b] } => {
                write!(f, "several tokens have the text {:?}, among them {a} and {b}; specify the id", shown(text))
            }
            EditError::TokenId { id, n_tokens } => {
                write!(f, "token id {id} is out of range; the vocabulary has {n_tokens} tokens")
            }
            EditError::TokenTypes { n_types, n_tokens } => {
                write!(f, "tokenizer.ggml.token_type has {n_types} elements, and the vocabulary {n_tokens} tokens")
            }
            EditError::Layout(e) => e.fmt(f),
            EditError::Draft => f.write_str("is in the draft format that preceded version 1, which cannot be edited"),
            EditError::PadKey => {
                write!(f, "{} only reserves space for later edits and is managed automatically", crate::PAD_KEY)
            }
            EditError::NotPadding => write!(
                f,
                "{} is not a string: the key reserves space for edits, so it must be removed before any other edit",
                crate::PAD_KEY
            ),
            EditError::Alignment => {
                f.write_str("changing general.alignment would move every tensor, which an edit cannot do")
            }
            EditError::NotFirstShard { number } => {
                write!(f, "is shard {number} of a model; its key-values are in the first shard: edit that file")
            }
            EditError::NotInPlace { why } => {
                write!(f, "{why}, so a new file would have to replace it; nothing was changed")
            }
            EditError::SameFile => f.write_str("is the damaged file itself"),
            EditError::NothingWhole => f.write_str("contains nothing that can be saved"),
            EditError::NotDetermined { problem } => {
                write!(
                    f,
                    "{problem}; the correct value cannot be derived from the rest of the file, so an intact copy \
                     is needed"
                )
            }
            EditError::NotACopy { other, problem, .. } => {
                write!(f, "{} is not a copy of this file: {problem}", other.display())
            }
            EditError::OtherDamaged { other, problem } => {
                write!(f, "{} is damaged as well: {problem}", other.display())
            }
            EditError::NotEstimated { what } => write!(f, "is {what}"),
            EditError::MissingKey { key } => write!(f, "the key {} is missing; the estimate needs it", shown(key)),
            EditError::Hyperparameter { key, problem } => write!(f, "{} {problem}", shown(key)),
            EditError::Asked { problem } => f.write_str(problem),
        }
    }
}

impl std::error::Error for EditError {
    /// The cause of the cause: the cause's own message is part of this one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EditError::Io(e) => e.source(),
            EditError::Pipeline(e) => e.source(),
            EditError::At { error, .. } | EditError::Line { error, .. } => error.source(),
            _ => None,
        }
    }
}
