//! Errors of tokenizer files and of tokenization.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Why a `tokenizer.model` is not a SentencePiece model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SentencePieceProblem {
    /// The model has no pieces.
    NoPieces,
    /// There are too many pieces.
    TooManyPieces {
        /// The maximum number.
        max: usize,
    },
    /// The model is not a valid message.
    Message(MessageProblem),
    /// A piece is not a valid message.
    Piece {
        /// The index of the piece, from 0.
        index: usize,
        /// The offset of the piece in the file.
        at: usize,
        /// The error; its offsets are relative to the start of the piece.
        problem: MessageProblem,
    },
}

impl fmt::Display for SentencePieceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SentencePieceProblem::NoPieces => f.write_str("not a SentencePiece model: it has no pieces"),
            SentencePieceProblem::TooManyPieces { max } => write!(f, "more than {max} pieces"),
            SentencePieceProblem::Message(problem) => write!(f, "not a SentencePiece model: {problem}"),
            SentencePieceProblem::Piece { index, at, problem } => write!(f, "piece {index} at byte {at}: {problem}"),
        }
    }
}

impl StdError for SentencePieceProblem {}

impl From<MessageProblem> for SentencePieceProblem {
    fn from(problem: MessageProblem) -> SentencePieceProblem {
        SentencePieceProblem::Message(problem)
    }
}

/// Why bytes are not a valid protobuf message in a SentencePiece model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageProblem {
    /// The message ends inside a field.
    Truncated {
        /// The offset at which more bytes are needed.
        at: usize,
    },
    /// A varint has more than ten bytes.
    LongNumber {
        /// The offset after the tenth byte.
        at: usize,
    },
    /// An unsupported wire type.
    WireType {
        /// The wire type.
        found: u64,
        /// The offset of the field.
        at: usize,
    },
    /// A field has the number 0.
    FieldNumber {
        /// The offset of the field.
        at: usize,
    },
    /// A field is a number instead of bytes.
    NotBytes {
        /// The number of the field.
        field: u64,
    },
    /// The text of a piece is not UTF-8.
    TextNotUtf8,
    /// The score of a piece is not a float.
    Score,
    /// The type of a piece is not a defined one; `None` if it is not a number.
    PieceType(Option<u64>),
}

impl fmt::Display for MessageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageProblem::Truncated { at } => write!(f, "the message ends in the middle of the field at byte {at}"),
            MessageProblem::LongNumber { at } => write!(f, "a number longer than ten bytes ends at byte {at}"),
            MessageProblem::WireType { found, at } => write!(f, "unknown wire type {found} at byte {at}"),
            MessageProblem::FieldNumber { at } => write!(f, "invalid field number 0 at byte {at}"),
            MessageProblem::NotBytes { field } => write!(f, "field {field} is a number, expected bytes"),
            MessageProblem::TextNotUtf8 => f.write_str("its text is not UTF-8"),
            MessageProblem::Score => f.write_str("its score is not a float"),
            MessageProblem::PieceType(Some(found)) => write!(f, "its type is {found}, expected 1 to 6"),
            MessageProblem::PieceType(None) => f.write_str("its type is not a number"),
        }
    }
}

impl StdError for MessageProblem {}

/// A part of a `tokenizer.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Normalizes the text before all other steps.
    Normalizer,
    /// Splits the text into words.
    PreTokenizer,
    /// Adds special tokens around the tokens of a text.
    PostProcessor,
    /// Converts tokens to text.
    Decoder,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Normalizer => "normalizer",
            Stage::PreTokenizer => "pre-tokenizer",
            Stage::PostProcessor => "post-processor",
            Stage::Decoder => "decoder",
        })
    }
}

/// Why the steps of a `tokenizer.json` cannot be executed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StepProblem {
    /// A step has an unknown type or no type, or sequences are nested too deeply.
    Unknown {
        /// The component that contains the step.
        stage: Stage,
        /// The type.
        kind: Option<String>,
    },
    /// A step requires a pattern and has none.
    NoPattern,
    /// A pattern cannot be compiled, or takes too long to match.
    Pattern {
        /// The pattern.
        pattern: String,
        /// The error of the regular expression engine.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The behavior of a split is unknown.
    SplitBehavior(String),
    /// The steps produce a text that is too long.
    LongText {
        /// The maximum length in bytes.
        max: usize,
    },
    /// A decoder replaces matches of a regular expression, which is not supported.
    DecoderPattern,
    /// A decoder lengthens a token too much.
    LongToken,
    /// The post-processor adds a token without a valid id; contains the token.
    PostProcessorToken(String),
    /// The unknown token is not in the vocabulary; contains the token.
    UnknownToken(String),
}

impl StepProblem {
    /// The error for a step of an unknown type.
    pub(crate) fn unknown(stage: Stage, kind: Option<&str>) -> StepProblem {
        StepProblem::Unknown { stage, kind: kind.map(str::to_owned) }
    }

    /// The error of the regular expression engine for a pattern.
    pub(crate) fn pattern(pattern: &str, source: impl StdError + Send + Sync + 'static) -> StepProblem {
        StepProblem::Pattern { pattern: pattern.to_owned(), source: Arc::new(source) }
    }
}

impl fmt::Display for StepProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepProblem::Unknown { stage, kind: Some(kind) } => write!(f, "the {stage} {kind} is not known"),
            StepProblem::Unknown { stage, kind: None } => write!(f, "a {stage} without a type"),
            StepProblem::NoPattern => f.write_str("a step has no pattern"),
            StepProblem::Pattern { pattern, source } => write!(f, "the pattern {pattern:?}: {source}"),
            StepProblem::SplitBehavior(behavior) => write!(f, "the split behavior {behavior} is not known"),
            StepProblem::LongText { max } => write!(f, "the steps make a short text longer than {max} bytes"),
            StepProblem::DecoderPattern => f.write_str("a decoder replaces the matches of a regular expression"),
            StepProblem::LongToken => f.write_str("a decoder makes a token many times longer"),
            StepProblem::PostProcessorToken(token) => {
                write!(f, "the post-processor has no valid id for the token {token:?}")
            }
            StepProblem::UnknownToken(token) => write!(f, "the unknown token {token:?} has no id"),
        }
    }
}

impl StdError for StepProblem {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            StepProblem::Pattern { source, .. } => source.source(),
            _ => None,
        }
    }
}
