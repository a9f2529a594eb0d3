//! The errors of tokenizers.

use core::fmt;

use gguf_format::GetError;

/// A key of the tokenizer that is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum VocabError {
    /// A missing key, or a value of the wrong type.
    Key(GetError),
    /// A list with elements of the wrong type, or a value that is not a list.
    Elements {
        /// The key.
        key: &'static str,
        /// The right types.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// A list with fewer elements than there are tokens.
    Length {
        /// The key.
        key: &'static str,
        /// Number of elements.
        found: u64,
        /// Number of tokens.
        n_tokens: u64,
    },
    /// The id of a special token that is not the id of a token.
    TokenId {
        /// The key.
        key: &'static str,
        /// The id.
        found: i64,
        /// Number of tokens.
        n_tokens: u64,
    },
}

impl From<GetError> for VocabError {
    fn from(error: GetError) -> VocabError {
        VocabError::Key(error)
    }
}

impl fmt::Display for VocabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VocabError::Key(error) => write!(f, "{error}"),
            VocabError::Elements { key, expected, found } => write!(f, "{key} is of type {found}, not {expected}"),
            VocabError::Length { key, found, n_tokens } => {
                write!(f, "{key} has {found} elements for {n_tokens} tokens")
            }
            VocabError::TokenId { key, found, n_tokens } => {
                write!(f, "{key} is {found}, but there are {n_tokens} tokens")
            }
        }
    }
}

impl core::error::Error for VocabError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        None
    }
}

/// Why a tokenizer cannot encode text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncoderError {
    /// A kind of tokenizer that [`Encoder`](super::Encoder) does not support.
    Kind {
        /// `tokenizer.ggml.model`.
        model: String,
    },
    /// An unknown pre-tokenizer.
    Pre {
        /// `tokenizer.ggml.pre`.
        name: String,
    },
    /// A missing list of merges.
    NoMerges,
    /// Two tokens with the same text.
    Duplicate {
        /// The ids.
        ids: [u32; 2],
        /// The text.
        text: String,
    },
    /// A token that encoding adds to every text, and that has no id.
    NoToken {
        /// The key of the id.
        key: &'static str,
        /// The key or the pre-tokenizer that demands the token.
        demanded_by: String,
    },
    /// More than 2³¹ tokens and merges.
    TooLarge,
}

impl fmt::Display for EncoderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncoderError::Kind { model } => {
                write!(f, "tokenizer.ggml.model is {model:?}; text is encoded for \"gpt2\", \"gemma4\" and \"llama\"")
            }
            EncoderError::Pre { name } => {
                write!(f, "tokenizer.ggml.pre is {name:?}, which is not a known pre-tokenizer")
            }
            EncoderError::NoMerges => f.write_str("the key tokenizer.ggml.merges is missing"),
            EncoderError::Duplicate { ids: [first, again], text } => {
                write!(f, "tokenizer.ggml.tokens: token {again} duplicates token {first}: {text:?}")
            }
            EncoderError::NoToken { key, demanded_by } => {
                write!(f, "{demanded_by} adds a token to every text, but {key} has no token")
            }
            EncoderError::TooLarge => f.write_str("the vocabulary has more than 2^31 tokens and merges"),
        }
    }
}

impl core::error::Error for EncoderError {}
