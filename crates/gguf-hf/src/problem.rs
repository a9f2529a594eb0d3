//! What can be wrong with the content of a model folder's small files, and what in it is not supported.

use std::fmt;

use crate::tokenizer::problem::{SentencePieceProblem, StepProblem};

/// Why the content of a file cannot be right.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileProblem {
    /// The file does not exist.
    Missing,
    /// The document is not an object of keys and values.
    NotAnObject,
    /// A key has a value that cannot be used.
    Value {
        /// The key.
        key: String,
        /// The value found, as JSON, shortened.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// `vocab_size` is not the size of a vocabulary.
    VocabSize {
        /// The value found, as JSON, shortened.
        found: String,
        /// The largest size that is accepted.
        max: u64,
    },
    /// A `tokenizer.model` is not a SentencePiece model.
    SentencePiece(SentencePieceProblem),
    /// A SentencePiece model has more pieces than a vocabulary may have.
    TooManyPieces {
        /// Number of pieces.
        found: usize,
        /// The largest number that is accepted.
        max: u64,
    },
    /// A list of merges is longer than is accepted.
    TooManyMerges {
        /// The most lines that are accepted.
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
    /// A token that the settings or the class of the tokenizer add gets an id outside `vocab_size`.
    AddedTokenId {
        /// The token.
        token: String,
        /// The id that it gets.
        id: usize,
        /// The size of the vocabulary.
        vocab_size: usize,
    },
    /// A line of a vocabulary does not have the required form.
    Line {
        /// The line, from 1.
        line: usize,
        /// What it begins with.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The tokens of a vocabulary are so long that finding its merges would take too long.
    LongTokens,
    /// The tokenizer of a reranker does not have the token of one of the answers.
    NoAnswer {
        /// The answer.
        token: &'static str,
    },
    /// The key of an added token, which is its id, is not a number.
    AddedTokenKey {
        /// The key.
        key: String,
    },
    /// An added token does not have the required form.
    AddedToken {
        /// Its id.
        id: i64,
        /// What is wrong with it.
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
            FileProblem::AddedTokenId { token, id, vocab_size } => write!(
                f,
                "vocab_size is {vocab_size}, but the token {token:?} gets the id {id}; the token is not in tokenizer.json but \
                 added by tokenizer_config.json or by the class of the tokenizer; correct vocab_size, or remove the token"
            ),
            FileProblem::Line { line, found, expected } => write!(f, "line {line} is {found:?}, expected {expected}"),
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

/// What a file describes that is not supported.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnsupportedFeature {
    /// A tokenizer class that exists only as code of the model.
    TokenizerClass(&'static str),
    /// A tokenizer class that checkpoints of this kind do not have in llama.cpp.
    OtherTokenizerClass(String),
    /// A tokenizer whose model is of another type than that of the class of checkpoints.
    TokenizerModel {
        /// The type.
        found: String,
        /// The type of the class.
        expected: &'static str,
    },
    /// A SentencePiece model of another type than that of the class of checkpoints.
    SentencePieceType {
        /// The type, by its number.
        found: u64,
        /// The type of the class.
        expected: &'static str,
    },
    /// A step of the tokenizer that cannot be carried out.
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
