//! The tokenizer of a model, read from its keys: [`Vocab`]; and text to token ids and back: [`Encoder`].
//!
//! ```
//! # let mut head = gguf_format::Head::default();
//! # head.set("tokenizer.ggml.model", "gpt2");
//! # head.set("tokenizer.ggml.pre", "gpt-2");
//! # head.set("tokenizer.ggml.tokens", ["a", "b", "ab", "Ġ", "Ġab", "<|end|>"]);
//! # head.set("tokenizer.ggml.token_type", [1, 1, 1, 1, 1, 3]);
//! # head.set("tokenizer.ggml.merges", ["a b", "Ġ ab"]);
//! # head.set("tokenizer.ggml.eos_token_id", 5u32);
//! # let bytes = head.encode()?;
//! use gguf_format::Gguf;
//! use gguf_format::keys::TokenType;
//! use gguf_model::tokenizer::{Encoder, TokenizerKind, Role, Vocab};
//!
//! let gguf = Gguf::parse(&bytes)?;
//! let vocab = Vocab::new(&gguf)?;
//! assert_eq!((vocab.kind(), vocab.pre(), vocab.len()), (TokenizerKind::Bpe, Some("gpt-2"), 6));
//! assert_eq!(vocab.special(Role::Eos), Some(5));
//! assert_eq!(vocab.token_type(5), Some(TokenType::Control));
//!
//! let encoder = Encoder::new(&vocab)?;
//! assert_eq!(encoder.encode("ab ab<|end|>"), [2, 4, 5]);
//! assert_eq!(encoder.decode(&[2, 4]), b"ab ab");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod encoder;
mod error;
mod merge;
mod pattern;
mod pre;
mod special;
mod unicode;

use gguf_format::keys::{self, TokenType};
use gguf_format::{ArrayRef, Gguf, Str, StringIndex, Strings, ValueRef, ValueType};

pub use self::encoder::{EncodeOptions, Encoder, byte_char, char_byte};
pub use self::error::{EncoderError, VocabError};

/// The kind of a tokenizer, from `tokenizer.ggml.model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenizerKind {
    /// `none` or `no_vocab`: the model has no tokenizer.
    None,
    /// `llama`: SentencePiece with scores.
    SentencePiece,
    /// `gpt2`: byte pairs.
    Bpe,
    /// `gemma4`: pairs of characters, with tokens for the bytes of others.
    Gemma4,
    /// `bert`: WordPiece.
    WordPiece,
    /// `t5`: Unigram.
    Unigram,
    /// `rwkv`: the longest token first.
    Rwkv,
    /// `plamo2`.
    Plamo2,
    /// `hybriddna`: byte pairs, and runs of six bases between tags.
    HybridDna,
    /// `whitespace`: pairs of characters within words.
    Whitespace,
    /// Any other name of a tokenizer.
    Other,
}

impl TokenizerKind {
    /// The kind with that name.
    pub fn from_name(name: &str) -> TokenizerKind {
        match name {
            "none" | "no_vocab" => TokenizerKind::None,
            "llama" => TokenizerKind::SentencePiece,
            "gpt2" => TokenizerKind::Bpe,
            "gemma4" => TokenizerKind::Gemma4,
            "bert" => TokenizerKind::WordPiece,
            "t5" => TokenizerKind::Unigram,
            "rwkv" => TokenizerKind::Rwkv,
            "plamo2" => TokenizerKind::Plamo2,
            "hybriddna" => TokenizerKind::HybridDna,
            "whitespace" => TokenizerKind::Whitespace,
            _ => TokenizerKind::Other,
        }
    }

    /// Whether llama.cpp merges byte pairs after a pre-tokenizer.
    pub fn is_byte_pairs(self) -> bool {
        matches!(self, TokenizerKind::Bpe | TokenizerKind::HybridDna | TokenizerKind::Whitespace)
    }
}

/// The role of a special token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Begins a text.
    Bos,
    /// Ends a text.
    Eos,
    /// Ends a turn of a chat.
    Eot,
    /// Ends a message of a chat.
    Eom,
    /// Stands for text that is not in the vocabulary.
    Unk,
    /// Separates two texts.
    Sep,
    /// Pads a batch.
    Pad,
    /// Stands for a token that is to be predicted.
    Mask,
    /// Begins the text before the gap to fill.
    FimPre,
    /// Begins the text after the gap.
    FimSuf,
    /// Begins the text of the gap.
    FimMid,
    /// Pads the text of the gap.
    FimPad,
    /// Begins the name of a repository.
    FimRep,
    /// Separates files.
    FimSep,
}

/// Roles with their names and keys. `sep` has llama.cpp's spelling.
const ROLES: [(Role, &str, &str); 14] = [
    (Role::Bos, "bos", keys::TOKENIZER_GGML_BOS_TOKEN_ID),
    (Role::Eos, "eos", keys::TOKENIZER_GGML_EOS_TOKEN_ID),
    (Role::Eot, "eot", keys::TOKENIZER_GGML_EOT_TOKEN_ID),
    (Role::Eom, "eom", keys::TOKENIZER_GGML_EOM_TOKEN_ID),
    (Role::Unk, "unk", keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID),
    (Role::Sep, "sep", keys::TOKENIZER_GGML_SEPERATOR_TOKEN_ID),
    (Role::Pad, "pad", keys::TOKENIZER_GGML_PADDING_TOKEN_ID),
    (Role::Mask, "mask", keys::TOKENIZER_GGML_MASK_TOKEN_ID),
    (Role::FimPre, "fim_pre", keys::TOKENIZER_GGML_FIM_PRE_TOKEN_ID),
    (Role::FimSuf, "fim_suf", keys::TOKENIZER_GGML_FIM_SUF_TOKEN_ID),
    (Role::FimMid, "fim_mid", keys::TOKENIZER_GGML_FIM_MID_TOKEN_ID),
    (Role::FimPad, "fim_pad", keys::TOKENIZER_GGML_FIM_PAD_TOKEN_ID),
    (Role::FimRep, "fim_rep", keys::TOKENIZER_GGML_FIM_REP_TOKEN_ID),
    (Role::FimSep, "fim_sep", keys::TOKENIZER_GGML_FIM_SEP_TOKEN_ID),
];

impl Role {
    /// All roles.
    pub fn all() -> impl Iterator<Item = Role> {
        ROLES.iter().map(|(role, ..)| *role)
    }

    /// The role with that name, such as `eos`, or with the name in its key, such as `padding` and llama.cpp's `seperator`.
    pub fn from_name(name: &str) -> Option<Role> {
        let name = if name == "separator" { "sep" } else { name };
        let in_key = |key: &str| {
            key.strip_prefix("tokenizer.ggml.").and_then(|rest| rest.strip_suffix("_token_id")) == Some(name)
        };
        ROLES.iter().find(|(_, own, key)| *own == name || in_key(key)).map(|(role, ..)| *role)
    }

    /// The name, such as `eos`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The key of the token's id, such as `tokenizer.ggml.eos_token_id`.
    pub fn key(self) -> &'static str {
        self.row().2
    }

    /// The older key of the same role, which llama.cpp reads, too, and which takes precedence.
    fn older_key(self) -> Option<&'static str> {
        match self {
            Role::FimPre => Some(keys::TOKENIZER_GGML_PREFIX_TOKEN_ID),
            Role::FimSuf => Some(keys::TOKENIZER_GGML_SUFFIX_TOKEN_ID),
            Role::FimMid => Some(keys::TOKENIZER_GGML_MIDDLE_TOKEN_ID),
            _ => None,
        }
    }

    fn row(self) -> (Role, &'static str, &'static str) {
        ROLES.iter().find(|(role, ..)| *role == self).copied().unwrap_or(ROLES[0])
    }
}

/// The tokenizer of a model: a view of its keys, of which nothing is copied.
///
/// It reports what the file states. Defaults of llama.cpp for missing keys are the business of [`Encoder`].
#[derive(Debug, Clone)]
pub struct Vocab<'a> {
    kind: TokenizerKind,
    model: &'a str,
    pre: Option<&'a str>,
    tokens: Option<ArrayRef<'a>>,
    scores: Option<ArrayRef<'a>>,
    types: Option<ArrayRef<'a>>,
    merges: Option<ArrayRef<'a>>,
    special: [Option<u32>; ROLES.len()],
    add_bos: Option<bool>,
    add_eos: Option<bool>,
    add_sep: Option<bool>,
    add_space_prefix: Option<bool>,
    template: Option<&'a str>,
    named_templates: Vec<(&'a str, &'a str)>,
    /// `general.name` and `general.architecture`, for [`Encoder`].
    pub(crate) name: &'a str,
    pub(crate) architecture: &'a str,
}

impl<'a> Vocab<'a> {
    /// The tokenizer of a model; of a split model, its first shard.
    ///
    /// # Errors
    /// [`VocabError`] names the key: `tokenizer.ggml.model` or the tokens are missing, a value has the wrong type, a list is shorter than
    /// that of the tokens, or an id is not one of a token. An id of -1 or 2³² - 1 means no token.
    pub fn new(gguf: &'a Gguf<'_>) -> Result<Vocab<'a>, VocabError> {
        let model: &str = gguf.get_as(keys::TOKENIZER_GGML_MODEL)?;
        let kind = TokenizerKind::from_name(model);
        let tokens = array(gguf, keys::TOKENIZER_GGML_TOKENS, "[string]", |ty| ty == ValueType::STRING)?;
        if tokens.is_none() && kind != TokenizerKind::None {
            gguf.get_as::<ValueRef<'_>>(keys::TOKENIZER_GGML_TOKENS)?;
        }
        let n_tokens = tokens.map_or(0, |tokens| tokens.len());
        let numbers = |key| {
            let is_number = |ty| ty == ValueType::F32 || ty == ValueType::I32;
            long_enough(key, array(gguf, key, "[f32] or [i32]", is_number)?, n_tokens)
        };
        let types = array(gguf, keys::TOKENIZER_GGML_TOKEN_TYPE, "[i32]", |ty| ty == ValueType::I32)?;
        let mut special = [None; ROLES.len()];
        for (id, (role, _, key)) in special.iter_mut().zip(ROLES) {
            for key in [Some(key), role.older_key()].into_iter().flatten() {
                *id = token_id(gguf, key, n_tokens)?.or(*id);
            }
        }
        let mut named_templates = Vec::new();
        for kv in gguf.kvs() {
            let Ok(key) = kv.key.to_str() else { continue };
            if let Some(name) = key.strip_prefix("tokenizer.chat_template.") {
                named_templates.push((name, gguf.get_as(key)?));
            }
        }
        Ok(Vocab {
            kind,
            model,
            pre: gguf.get_as(keys::TOKENIZER_GGML_PRE)?,
            tokens,
            scores: numbers(keys::TOKENIZER_GGML_SCORES)?,
            types: long_enough(keys::TOKENIZER_GGML_TOKEN_TYPE, types, n_tokens)?,
            merges: array(gguf, keys::TOKENIZER_GGML_MERGES, "[string]", |ty| ty == ValueType::STRING)?,
            special,
            add_bos: gguf.get_as(keys::TOKENIZER_GGML_ADD_BOS_TOKEN)?,
            add_eos: gguf.get_as(keys::TOKENIZER_GGML_ADD_EOS_TOKEN)?,
            add_sep: gguf.get_as(keys::TOKENIZER_GGML_ADD_SEP_TOKEN)?,
            add_space_prefix: gguf.get_as(keys::TOKENIZER_GGML_ADD_SPACE_PREFIX)?,
            template: gguf.get_as(keys::TOKENIZER_CHAT_TEMPLATE)?,
            named_templates,
            name: lenient(gguf, keys::GENERAL_NAME),
            architecture: lenient(gguf, keys::GENERAL_ARCHITECTURE),
        })
    }

    /// The kind of the tokenizer.
    pub fn kind(&self) -> TokenizerKind {
        self.kind
    }

    /// The name of the kind, `tokenizer.ggml.model`.
    pub fn model(&self) -> &'a str {
        self.model
    }

    /// The name of the pre-tokenizer, `tokenizer.ggml.pre`.
    pub fn pre(&self) -> Option<&'a str> {
        self.pre
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens().len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The texts of the tokens by id, as the file has them: byte-level vocabularies write bytes as printable characters.
    pub fn tokens(&self) -> Strings<'a> {
        strings(self.tokens)
    }

    /// The texts of the tokens with an index for random access: one number for each token, and no text.
    pub fn index_tokens(&self) -> StringIndex<'a> {
        self.tokens.and_then(|tokens| tokens.index_strings()).unwrap_or_default()
    }

    /// The score of a token, if the file has scores.
    pub fn score(&self, id: u32) -> Option<f32> {
        match self.scores?.get(id.into())? {
            ValueRef::F32(score) => Some(score),
            ValueRef::I32(score) => Some(score as f32),
            _ => None,
        }
    }

    /// The type of a token; `None` for ids that are not of a token, and unknown types. Without types in the file, all tokens are normal.
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        match self.types {
            Some(types) => TokenType::from_id(types.get(id.into())?.get().ok()?),
            None => ((id as usize) < self.len()).then_some(TokenType::Normal),
        }
    }

    /// The merges in descending order of priority, each as the file has it: two texts with a space between them. See [`split_merge`].
    pub fn merges(&self) -> Strings<'a> {
        strings(self.merges)
    }

    /// Whether the file has merges, even if none.
    pub(crate) fn has_merges(&self) -> bool {
        self.merges.is_some()
    }

    /// The id of the token with that role.
    pub fn special(&self, role: Role) -> Option<u32> {
        ROLES.iter().zip(self.special).find(|((own, ..), _)| *own == role).and_then(|(_, id)| id)
    }

    /// Whether encoding puts the token `bos` before a text.
    pub fn add_bos(&self) -> Option<bool> {
        self.add_bos
    }

    /// Whether encoding puts the token `eos` after a text.
    pub fn add_eos(&self) -> Option<bool> {
        self.add_eos
    }

    /// Whether encoding puts the token `sep` between two texts.
    pub fn add_sep(&self) -> Option<bool> {
        self.add_sep
    }

    /// Whether encoding puts a space before a text.
    pub fn add_space_prefix(&self) -> Option<bool> {
        self.add_space_prefix
    }

    /// The chat template.
    pub fn chat_template(&self) -> Option<&'a str> {
        self.template
    }

    /// The other chat templates, by name, such as `tool_use`.
    pub fn named_chat_templates(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.named_templates.iter().copied()
    }
}

/// The two texts of a merge. The first may begin with a space; `None` without a space between two texts.
pub fn split_merge(merge: Str<'_>) -> Option<(Str<'_>, Str<'_>)> {
    let bytes = merge.as_bytes();
    let space = bytes.iter().skip(1).position(|&b| b == b' ')? + 1;
    Some((Str(bytes.get(..space)?), Str(bytes.get(space + 1..)?)))
}

fn strings(array: Option<ArrayRef<'_>>) -> Strings<'_> {
    array.and_then(|array| array.strings()).unwrap_or_default()
}

/// A text that is nothing if it is missing or of another type.
fn lenient<'a>(gguf: &'a Gguf<'_>, key: &str) -> &'a str {
    gguf.get_as(key).unwrap_or_default()
}

/// An array with elements of the right type.
fn array<'a>(
    gguf: &'a Gguf<'_>,
    key: &'static str,
    expected: &'static str,
    is_right: impl Fn(ValueType) -> bool,
) -> Result<Option<ArrayRef<'a>>, VocabError> {
    match gguf.get(key) {
        None => Ok(None),
        Some(ValueRef::Array(array)) if is_right(array.elem_type()) => Ok(Some(array)),
        Some(ValueRef::Array(array)) => {
            Err(VocabError::Elements { key, expected, found: format!("[{}]", array.elem_type()) })
        }
        Some(value) => Err(VocabError::Elements { key, expected, found: value.value_type().to_string() }),
    }
}

/// An array with an element for each token.
fn long_enough<'a>(
    key: &'static str,
    array: Option<ArrayRef<'a>>,
    n_tokens: u64,
) -> Result<Option<ArrayRef<'a>>, VocabError> {
    match array {
        Some(array) if array.len() < n_tokens => Err(VocabError::Length { key, found: array.len(), n_tokens }),
        array => Ok(array),
    }
}

/// The id of a special token.
fn token_id(gguf: &Gguf<'_>, key: &'static str, n_tokens: u64) -> Result<Option<u32>, VocabError> {
    let Some(id) = gguf.get_as::<Option<i64>>(key)? else { return Ok(None) };
    if id == -1 || id == i64::from(u32::MAX) {
        return Ok(None);
    }
    match u32::try_from(id) {
        Ok(id) if u64::from(id) < n_tokens => Ok(Some(id)),
        _ => Err(VocabError::TokenId { key, found: id, n_tokens }),
    }
}

#[cfg(test)]
mod tests;
