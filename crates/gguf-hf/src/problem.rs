//! Errors in the content of a model folder's small files, and unsupported content.

use std::fmt;

use crate::tokenizer::problem::{SentencePieceProblem, StepProblem};

/// The reason why the content of a file is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileProblem {
    /// The file does not exist.
    Missing,
    /// The document is not an object of keys and values.
    NotAnObject,
    /// A key has an invalid value.
    Value {
        /// The key.
        key: String,
        /// The value found, as JSON, shortened.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
    /// `vocab_size` is not a valid vocabulary size.
    VocabSize {
        /// The value found, as JSON, shortened.
        found: String,
        /// The largest accepted size.
        max: u64,
    },
    /// A `tokenizer.model` is not a SentencePiece model.
    SentencePiece(SentencePieceProblem),
    /// A SentencePiece model has more pieces than the maximum vocabulary size.
    TooManyPieces {
        /// Number of pieces.
        found: usize,
        /// The largest accepted number.
        max: u64,
    },
    /// A list of merges is too long.
    TooManyMerges {
        /// The maximum number of lines.
        max: usize,
    },
    /// No token of the vocabulary has the id.
    NoToken {
        /// The id.
        id: usize,
        /// Number of tokens in the vocabulary.
        n_tokens: usize,
    },
    /// A token of `tokenizer.json` has an id outside `vocab_size`.
    TokenId {
        /// The token.
        token: String,
        /// Its id.
        id: usize,
        /// The size of the vocabulary.
        vocab_size: usize,
    },
    /// A token has an id outside `padded_vocab_size`.
    PaddedSize {
        /// The token.
        token: String,
        /// Its id.
        id: usize,
        /// The size of the padded vocabulary.
        size: usize,
    },
    /// A token added by the settings or the class of the tokenizer has an id outside `vocab_size`.
    AddedTokenId {
        /// The token.
        token: String,
        /// Its id.
        id: usize,
        /// The size of the vocabulary.
        vocab_size: usize,
    },
    /// A line of a vocabulary is malformed.
    Line {
        /// The line number, from 1.
        line: usize,
        /// The beginning of the line.
        found: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The ranks of a vocabulary are not the numbers from 0, each once, or a token is repeated.
    Ranks {
        /// The first invalid entry.
        found: String,
        /// The number of tokens.
        n: usize,
    },
    /// The tokens of a vocabulary are so long that computing its merges would take too long.
    LongTokens,
    /// A reranker's tokenizer lacks the token of an answer.
    NoAnswer {
        /// The answer.
        token: &'static str,
    },
    /// The key of an added token, which is its id, is not a number.
    AddedTokenKey {
        /// The key.
        key: String,
    },
    /// An added token is malformed.
    AddedToken {
        /// Its id.
        id: i64,
        /// The error.
        source: serde_json::Error,
    },
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileProblem::Missing => f.write_str("no such file"),
            FileProblem::NotAnObject => f.write_str("expected an object of GGUF keys and values"),
            FileProblem::Value { key, found, expected } => write!(f, "{key} is {found}, expected {expected}"),
            FileProblem::VocabSize { found, max } => write!(f, "vocab_size is {found}, expected 1 to {max}"),
            FileProblem::SentencePiece(problem) => write!(f, "{problem}"),
            FileProblem::TooManyPieces { found, max } => write!(f, "{found} pieces, expected at most {max}"),
            FileProblem::TooManyMerges { max } => write!(f, "more than {max} lines of merges"),
            FileProblem::NoToken { id, n_tokens } => {
                write!(f, "the vocabulary of {n_tokens} tokens has no token with the id {id}")
            }
            FileProblem::TokenId { token, id, vocab_size } => {
                write!(f, "the token {token:?} has the id {id}, but vocab_size is {vocab_size}; correct config.json")
            }
            FileProblem::PaddedSize { token, id, size } => {
                write!(
                    f,
                    "padded_vocab_size is {size}, but the token {token:?} has the id {id}; correct padded_vocab_size"
                )
            }
            FileProblem::AddedTokenId { token, id, vocab_size } => write!(
                f,
                "vocab_size is {vocab_size}, but the token {token:?} gets the id {id}; the token is not in tokenizer.json but \
                 added by tokenizer_config.json or by the class of the tokenizer; correct vocab_size, or remove the token"
            ),
            FileProblem::Line { line, found, expected } => write!(f, "line {line} is {found:?}, expected {expected}"),
            FileProblem::Ranks { found, n } => {
                write!(f, "{found} among {n} tokens, expected distinct tokens with the ranks from 0")
            }
            FileProblem::LongTokens => f.write_str("the tokens are too long for a vocabulary"),
            FileProblem::NoAnswer { token } => {
                write!(f, "no token {token:?}, which a reranker answers with")
            }
            FileProblem::AddedTokenKey { key } => write!(f, "added token {key:?}: the id is not a number"),
            FileProblem::AddedToken { id, source } => write!(f, "added token {id}: {source}"),
        }
    }
}

impl std::error::Error for FileProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileProblem::AddedToken { source, .. } => source.source(),
            _ => None,
        }
    }
}

/// An unsupported feature of a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnsupportedFeature {
    /// A tokenizer class that is implemented only in the model's own code.
    TokenizerClass(&'static str),
    /// A tokenizer class that llama.cpp does not support for this class of checkpoints.
    OtherTokenizerClass(String),
    /// The type of the tokenizer's model does not match the class of checkpoints.
    TokenizerModel {
        /// The type.
        found: String,
        /// The type for the class.
        expected: &'static str,
    },
    /// The type of a SentencePiece model does not match the class of checkpoints.
    SentencePieceType {
        /// The type, as its number.
        found: u64,
        /// The type for the class.
        expected: &'static str,
    },
    /// An unsupported step of the tokenizer.
    Step(StepProblem),
}

impl fmt::Display for UnsupportedFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnsupportedFeature::TokenizerClass(class) => {
                write!(f, "the tokenizer class {class} is code of the model, which is not supported")
            }
            UnsupportedFeature::OtherTokenizerClass(class) => {
                write!(f, "tokenizer_class is {class}, expected BertTokenizer or RobertaTokenizer")
            }
            UnsupportedFeature::TokenizerModel { found, expected } => {
                write!(f, "the tokenizer is of the type {found}; checkpoints of this class have {expected}")
            }
            UnsupportedFeature::SentencePieceType { found, expected } => {
                write!(
                    f,
                    "the SentencePiece model is of the type number {found}; checkpoints of this class have {expected}"
                )
            }
            UnsupportedFeature::Step(problem) => write!(f, "{problem}"),
        }
    }
}

impl std::error::Error for UnsupportedFeature {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            UnsupportedFeature::Step(problem) => problem.source(),
            _ => None,
        }
    }
}
