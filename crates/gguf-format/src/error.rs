//! Errors of heads: the field, the byte offset and the value found.

use alloc::vec::Vec;
use core::fmt;

use crate::sniff::FileKind;
use crate::value::{MAX_NESTING, Str, ValueError, ValueType};

/// Why a head could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The field that could not be read.
    pub field: Field,
    /// Byte offset of that field from the start of the GGUF.
    pub offset: u64,
    /// The key or tensor name of the field, if it was already read; a long one is truncated and ends in `…`.
    pub name: Option<Vec<u8>>,
    /// The problem.
    pub problem: Problem,
}

/// A field of the head. The number counts key-value pairs or tensors from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the fields of the specification")]
#[non_exhaustive]
pub enum Field {
    Magic,
    Version,
    Counts,
    Key(u64),
    ValueType(u64),
    Value(u64),
    Padding,
    TensorName(u64),
    TensorDims(u64),
    TensorType(u64),
    TensorOffset(u64),
}

/// The problem of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The given bytes end inside the field. Parsing can succeed once there are at least `need` of them.
    Truncated {
        /// The minimum length of the file up to the end of the field.
        need: u64,
    },
    /// The file ends before the field.
    PastEnd {
        /// The minimum length of the file.
        need: u64,
        /// The actual length of the file.
        len: u64,
    },
    /// The file has another format.
    NotGguf(FileKind),
    /// An undefined version.
    UnknownVersion(u32),
    /// An undefined value type.
    UnknownValueType(ValueType),
    /// Arrays nested deeper than [`MAX_NESTING`].
    TooDeep,
    /// `general.alignment` is invalid.
    Alignment(AlignmentError),
    /// A limit of the scan is exceeded ([`Limits`](crate::Limits)).
    OverLimit {
        /// The unit, such as `bytes`.
        what: &'static str,
        /// The number in the file.
        stated: u64,
        /// The limit.
        limit: u64,
    },
    /// A draft value whose stored length is wrong.
    DraftLength {
        /// The stored length.
        stated: u64,
        /// The actual length of the value.
        actual: u64,
    },
    /// A draft tensor whose stored element count is not the product of its dimensions.
    DraftElements {
        /// The stored count.
        stated: u64,
    },
    /// Non-zero padding of a draft.
    DraftPadding,
}

/// Why `general.alignment` is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlignmentError {
    /// The value is not an integer that fits in 32 bits.
    Type(ValueError),
    /// Zero, or neither a power of two nor a multiple of 8.
    Value(u64),
}

impl fmt::Display for AlignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlignmentError::Type(e) => write!(f, "{e}"),
            AlignmentError::Value(v) => write!(f, "is {v}, neither a power of two nor a multiple of 8"),
        }
    }
}

impl core::error::Error for AlignmentError {}

impl Error {
    /// The minimum length of the head, if it is merely too short.
    pub fn need(&self) -> Option<u64> {
        match self.problem {
            Problem::Truncated { need } => Some(need),
            _ => None,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Magic => f.write_str("magic"),
            Field::Version => f.write_str("version"),
            Field::Counts => f.write_str("counts of tensors and key-value pairs"),
            Field::Key(i) => write!(f, "key {i}"),
            Field::ValueType(i) => write!(f, "type of value {i}"),
            Field::Value(i) => write!(f, "value {i}"),
            Field::Padding => f.write_str("padding before the tensor infos"),
            Field::TensorName(i) => write!(f, "name of tensor {i}"),
            Field::TensorDims(i) => write!(f, "dimensions of tensor {i}"),
            Field::TensorType(i) => write!(f, "type of tensor {i}"),
            Field::TensorOffset(i) => write!(f, "offset of tensor {i}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Truncated { need } => {
                write!(f, "truncated: the data ends inside it; at least {need} bytes are needed")
            }
            Problem::PastEnd { need, len } => {
                write!(
                    f,
                    "truncated, or a length is wrong: it extends to byte {need} or beyond, but the file ends at byte {len}"
                )
            }
            Problem::NotGguf(kind) => write!(f, "not a GGUF file but {kind}"),
            Problem::UnknownVersion(v) => {
                write!(f, "unknown version {v} (0x{v:08x}); expected 1, 2 or 3 in either byte order")
            }
            Problem::UnknownValueType(t) => write!(f, "invalid value type {}; expected 0 to 12", t.0),
            Problem::TooDeep => write!(f, "arrays are nested deeper than {MAX_NESTING}"),
            Problem::Alignment(e) => write!(f, "{e}"),
            Problem::OverLimit { what, stated, limit } => {
                write!(f, "it states {stated} {what}; at most {limit} are allowed")
            }
            Problem::DraftLength { stated, actual } => {
                write!(f, "the stated length is {stated}, but the value takes {actual} bytes")
            }
            Problem::DraftElements { stated } => {
                write!(f, "{stated} elements are stated, which contradicts the dimensions")
            }
            Problem::DraftPadding => f.write_str("it is not zero"),
        }
    }
}

impl core::error::Error for Problem {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.field)?;
        if let Some(name) = &self.name {
            write!(f, " ({})", Str(name))?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl core::error::Error for Error {}
