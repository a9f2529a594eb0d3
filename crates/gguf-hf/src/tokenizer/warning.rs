//! Warnings about a tokenizer that do not prevent writing it.

use std::fmt;

use super::StepProblem;

/// A problem in a tokenizer that does not prevent writing it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TokenizerWarning {
    /// A pre-tokenizer was specified for a vocabulary type without one; contains its name.
    PreNotNeeded(String),
    /// A pre-tokenizer was specified that llama.cpp may not know; contains its name.
    UnknownPre(String),
    /// The check text, whose hash identifies the pre-tokenizer, cannot be tokenized.
    CheckText(StepProblem),
    /// `tokenizer.model` has more pieces than `vocab_size` allows.
    Pieces {
        /// The number of pieces.
        found: usize,
        /// The number of pieces kept.
        kept: usize,
    },
    /// An added token is skipped because its id is outside the vocabulary.
    TokenId {
        /// The token.
        token: String,
        /// Its id, as JSON.
        id: String,
        /// The number of tokens in the vocabulary.
        n_tokens: usize,
    },
    /// An added token of `tokenizer_config.json` is skipped because it has no text.
    NoContent {
        /// Its id, as written.
        id: String,
    },
    /// The id of an added token in `tokenizer.json` differs from its position.
    Position {
        /// The token.
        token: String,
        /// The id in the file, as JSON.
        id: String,
        /// The assigned id.
        position: u32,
    },
    /// There are no merges.
    NoMerges,
    /// A line of `merges.txt` is skipped because it does not have two tokens.
    MergesLine {
        /// The line, from 1.
        line: usize,
    },
    /// The id of a special token is skipped because it is out of range.
    SpecialId {
        /// The kind of special token: `bos`, `eos`, ...
        kind: &'static str,
        /// The id, as JSON.
        id: String,
    },
    /// The id of a special token is skipped because GGUF has no key for it.
    NoKey {
        /// The kind of special token: `cls`, `prefix`, ...
        kind: &'static str,
        /// The id.
        id: u32,
    },
    /// The configuration and the tokenizer have different ids of a special token.
    OtherId {
        /// The kind of special token: `eos`.
        kind: &'static str,
        /// The id in the configuration.
        configured: u32,
        /// The id of the tokenizer, which takes precedence in most architectures.
        id: u32,
    },
    /// `tokenizer_config.json` and the post-processor disagree on whether a special token is added.
    AddToken {
        /// The kind of special token: `bos`, `eos`, ...
        kind: &'static str,
        /// The flag of the post-processor, which is written.
        used: bool,
    },
    /// The chat template is skipped because it is neither a string nor a list.
    ChatTemplate,
}

impl fmt::Display for TokenizerWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenizerWarning::PreNotNeeded(name) => {
                write!(f, "the vocabulary needs no pre-tokenizer: {name:?} is not used")
            }
            TokenizerWarning::UnknownPre(name) => write!(f, "llama.cpp may not know the pre-tokenizer {name:?}"),
            TokenizerWarning::CheckText(problem) => {
                write!(f, "the check text cannot be tokenized with tokenizer.json: {problem}")
            }
            TokenizerWarning::Pieces { found, kept } => {
                write!(f, "tokenizer.model has {found} pieces, of which vocab_size keeps {kept}")
            }
            TokenizerWarning::TokenId { token, id, n_tokens } => {
                write!(f, "the token {token:?} has the id {id}, but the vocabulary has {n_tokens} tokens: not written")
            }
            TokenizerWarning::NoContent { id } => {
                write!(f, "tokenizer_config.json: the added token {id} has no content: not written")
            }
            TokenizerWarning::Position { token, id, position } => write!(
                f,
                "tokenizer.json gives the added token {token:?} the id {id}, but its position is {position}: written there"
            ),
            TokenizerWarning::NoMerges => f.write_str("no merges found: the model will not tokenize text correctly"),
            TokenizerWarning::MergesLine { line } => write!(f, "merges.txt, line {line}: not two tokens: ignored"),
            TokenizerWarning::SpecialId { kind, id } => {
                write!(f, "the {kind} token id {id} is out of range: not written")
            }
            TokenizerWarning::NoKey { kind, id } => {
                write!(f, "the {kind} token id {id} has no key in GGUF: not written")
            }
            TokenizerWarning::OtherId { kind, configured, id } => {
                write!(
                    f,
                    "config.json gives the {kind} token the id {configured}, the tokenizer {id}; the model may end its answers with either"
                )
            }
            TokenizerWarning::AddToken { kind, used } => write!(
                f,
                "tokenizer_config.json says add_{kind}_token {}, the post-processor {used}: {used} is used",
                !used
            ),
            TokenizerWarning::ChatTemplate => f.write_str("chat_template is neither a string nor a list: not written"),
        }
    }
}
