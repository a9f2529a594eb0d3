//! The token lists: text, score and type of every id, from SentencePiece models and from BPE and WordPiece in `tokenizer.json`.

use std::collections::HashMap;

use gguf_format::Value;
use gguf_format::sort::CompactSort as _;
use gguf_model::arch::{Changes, Quirk};
use serde_json::Value as Json;

use super::TokenizerWarning;
use super::bert;
use super::bpe::{Tokenizer, clean_up};
use super::files::Files;
use super::hf::{MAX_VOCAB, TokenizerJson};
use super::keys::{PreSource, TokenizerOptions};
use super::pre;
use super::sentencepiece::{self as spm, piece_type};
use super::special::truthy;
use crate::config::shortened;
use crate::folder_error::FolderError;
use crate::number::to_u32;
use crate::problem::{FileProblem, UnsupportedFeature};

/// A vocabulary, as lists of equal length.
pub(crate) struct TokenList {
    /// `tokenizer.ggml.model`.
    pub(crate) model: &'static str,
    /// `tokenizer.ggml.pre`; empty if it is not written.
    pub(crate) pre: String,
    /// How `pre` was determined.
    pub(crate) source: PreSource,
    pub(crate) tokens: Vec<String>,
    /// Empty for BPE.
    pub(crate) scores: Vec<f32>,
    /// See [`piece_type`].
    pub(crate) types: Vec<i32>,
    /// Key-values written after the lists.
    pub(crate) more: Vec<(&'static str, Value)>,
    /// Special tokens, merges and the chat template.
    pub(crate) special: Special,
}

/// The sources of a vocabulary's special tokens, merges and chat template.
#[derive(Debug)]
pub(crate) enum Special {
    /// The usual files. Ids beyond the end of the list are skipped.
    Files,
    /// The usual files, with merges; no id is skipped.
    FilesWithMerges,
    /// The usual files, with these merges, and this special token as default if the files name none. `end` overrides the end-of-text token.
    Ranks { merges: Vec<String>, default: Option<u32>, end: Option<u32> },
    /// The usual files, with these merges, and these begin-of-text and end-of-text tokens as defaults if the files name none. `begin` is added
    /// to texts.
    Pairs { merges: Vec<String>, begin: u32, end: u32 },
    /// The usual files, with this end-of-turn token, and this template if the files have none.
    Rwkv { template: &'static str, end_of_turn: u32 },
    /// Only the template, from the usual files.
    Template,
    /// No source.
    None,
}

impl TokenList {
    pub(crate) fn new(model: &'static str, capacity: usize) -> TokenList {
        let (tokens, types) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        let pre = "default".to_owned();
        let (scores, more) = (Vec::new(), Vec::new());
        let (source, special) = (PreSource::NotNeeded, Special::Files);
        TokenList { model, pre, source, tokens, scores, types, more, special }
    }

    pub(crate) fn push(&mut self, token: String, score: f32, kind: i32) {
        self.tokens.push(token);
        self.scores.push(score);
        self.types.push(kind);
    }

    /// Sets a token; an id beyond the list is a warning.
    pub(crate) fn put(
        &mut self,
        id: &Json,
        token: String,
        score: f32,
        kind: i32,
        warnings: &mut Vec<TokenizerWarning>,
    ) {
        let slot = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|&id| id < self.tokens.len());
        let Some(slot) = slot else {
            warnings.push(TokenizerWarning::TokenId { token, id: shortened(id), n_tokens: self.tokens.len() });
            return;
        };
        if let Some(v) = self.types.get_mut(slot) {
            *v = kind;
        }
        if let Some(v) = self.scores.get_mut(slot) {
            *v = score;
        }
        if let Some(v) = self.tokens.get_mut(slot) {
            *v = token;
        }
    }
}

/// The default score of a token.
pub(crate) const NO_SCORE: f32 = -1000.0;

/// The vocabulary of a SentencePiece model alone, truncated or padded to `vocab_size`.
pub(crate) fn own_pieces(
    folder: &Files<'_>,
    (file, model): (&str, &[u8]),
    vocab_size: Option<usize>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let invalid = |problem| folder.invalid(file, problem);
    let pieces = spm::pieces(model).map_err(|e| invalid(FileProblem::SentencePiece(e)))?;
    if pieces.len() as u64 > MAX_VOCAB {
        return Err(invalid(FileProblem::TooManyPieces { found: pieces.len(), max: MAX_VOCAB }));
    }
    let size = vocab_size.unwrap_or(pieces.len());
    if pieces.len() > size {
        warnings.push(TokenizerWarning::Pieces { found: pieces.len(), kept: size });
    }
    let mut list = TokenList::new("llama", size);
    for piece in pieces.iter().take(size) {
        // llama.cpp matches user-defined pieces like all others, so they are written as normal.
        let kind = if piece.kind == piece_type::USER_DEFINED { piece_type::NORMAL } else { piece.kind };
        list.push(piece.text.to_owned(), piece.score, kind);
    }
    for id in list.tokens.len()..size {
        list.push(format!("[PAD{id}]"), -10000.0, piece_type::UNUSED);
    }
    Ok(list)
}

/// The vocabulary of `tokenizer.model`, with the tokens that `added_tokens.json` and `tokenizer_config.json` add or
/// redefine (`_create_vocab_sentencepiece`).
pub(crate) fn sentencepiece(
    folder: &Files<'_>,
    model: &[u8],
    vocab_size: Option<usize>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let mut list = own_pieces(folder, ("tokenizer.model", model), vocab_size, warnings)?;
    let added = folder.dir.json_or_null("added_tokens.json")?;
    for (token, id) in added.as_object().into_iter().flatten() {
        list.put(id, token.clone(), NO_SCORE, piece_type::USER_DEFINED, warnings);
    }
    let decoder = folder.tokenizer_config.get("added_tokens_decoder").and_then(Json::as_object);
    for (id, token) in decoder.into_iter().flatten() {
        let Some(text) = token.get("content").and_then(Json::as_str) else {
            warnings.push(TokenizerWarning::NoContent { id: id.clone() });
            continue;
        };
        let special = token.get("special").is_some_and(truthy) || looks_special(text);
        let (text, kind) = added_token(text, special);
        let id = id.trim().parse::<u64>().map_or_else(|_| Json::from(id.as_str()), Json::from);
        list.put(&id, text, NO_SCORE, kind, warnings);
    }
    Ok(list)
}

/// The vocabulary of `tokenizer.model` with the changes of other files.
pub(crate) fn changed_pieces(
    folder: &Files<'_>,
    model: &[u8],
    vocab_size: Option<usize>,
    changes: Changes,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let mut list = own_pieces(folder, ("tokenizer.model", model), vocab_size, warnings)?;
    if changes == Changes::InternLm2 {
        for (token, kind) in list.tokens.iter_mut().zip(&mut list.types) {
            if token.starts_with("[UNUSED") {
                *kind = piece_type::UNUSED;
            } else if token == "\0" {
                // C code reads this as an empty string.
                *token = "\u{1f409}".to_owned();
            }
        }
    }
    if changes != Changes::Arctic {
        let added = folder.dir.json_or_null("added_tokens.json")?;
        for (token, id) in added.as_object().into_iter().flatten() {
            match changes {
                // Appended after all other tokens, regardless of the ids.
                Changes::InternLm2 => list.push(token.clone(), NO_SCORE, piece_type::USER_DEFINED),
                _ => list.put(id, token.clone(), NO_SCORE, piece_type::USER_DEFINED, warnings),
            }
        }
    }
    let unknown = folder.tokenizer_config.get("unk_token").and_then(Json::as_str);
    for (id, text, special) in configured_tokens(folder, warnings) {
        let (score, kind) = match (changes, special) {
            (Changes::Arctic, true) if unknown == Some(text) => (0.0, piece_type::UNKNOWN),
            (Changes::Arctic, true) => (0.0, piece_type::CONTROL),
            (Changes::Arctic, false) => (-10000.0, piece_type::USER_DEFINED),
            (_, true) => (NO_SCORE, piece_type::CONTROL),
            (_, false) => (NO_SCORE, piece_type::USER_DEFINED),
        };
        list.put(&id, text.to_owned(), score, kind, warnings);
    }
    if changes == Changes::InternLm2 {
        let specs = spm::specs(model);
        let specs = specs.map_err(|e| folder.invalid("tokenizer.model", FileProblem::SentencePiece(e)))?;
        list.more.push(("tokenizer.ggml.add_space_prefix", specs.adds_space.into()));
    }
    for token in folder.tokenizer.iter().flat_map(|t| &t.added_tokens).filter(|_| changes != Changes::Arctic) {
        let kind = if token.special { piece_type::CONTROL } else { piece_type::USER_DEFINED };
        list.put(&token.id, token.content.clone(), NO_SCORE, kind, warnings);
    }
    Ok(list)
}

/// The tokens in `tokenizer_config.json`: id, text, and whether they are special.
pub(crate) fn configured_tokens<'f>(
    folder: &'f Files<'f>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Vec<(Json, &'f str, bool)> {
    let decoder = folder.tokenizer_config.get("added_tokens_decoder").and_then(Json::as_object);
    let mut tokens = Vec::new();
    for (id, token) in decoder.into_iter().flatten() {
        let Some(text) = token.get("content").and_then(Json::as_str) else {
            warnings.push(TokenizerWarning::NoContent { id: id.clone() });
            continue;
        };
        let number = id.trim().parse::<u64>().map_or_else(|_| Json::from(id.as_str()), Json::from);
        tokens.push((number, text, token.get("special").is_some_and(truthy)));
    }
    tokens
}

/// The entries of `tokenizer.json` as pieces of a Llama vocabulary, without scores (`XverseModel.set_vocab`).
pub(crate) fn plain_pieces(
    folder: &Files<'_>,
    tokenizer: &TokenizerJson,
    vocab_size: Option<usize>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let hf = Tokenizer::new(folder, tokenizer, warnings)?;
    let by_id = tokens_by_id(&hf);
    let size = checked_size(folder, tokenizer, &by_id, vocab_size)?;
    let mut list = TokenList::new("llama", size);
    for id in 0..to_u32(size) {
        let Some(token) = by_id.get(&id) else {
            return Err(folder.invalid("tokenizer.json", FileProblem::NoToken { id: id as usize, n_tokens: size }));
        };
        let (text, kind) = match hf.added_token(id, token) {
            _ if *token == "\0" => ("<b'\\x00'>", piece_type::BYTE),
            _ if is_byte_token(token) => (*token, piece_type::BYTE),
            Some(added) if added.special => (*token, piece_type::CONTROL),
            Some(_) => (*token, piece_type::USER_DEFINED),
            None => (*token, piece_type::NORMAL),
        };
        list.tokens.push(text.to_owned());
        list.types.push(kind);
    }
    Ok(list)
}

/// Whether llama.cpp's converter treats the vocabulary as a Llama vocabulary that only exists as `tokenizer.json` (`LlamaHfVocab`): BPE with
/// byte fallback and a sequence of decoders.
pub(crate) fn is_llama_hf(tokenizer: &TokenizerJson) -> bool {
    tokenizer.model.kind.as_deref() == Some("BPE")
        && tokenizer.model.byte_fallback == Some(true)
        && tokenizer.decoder.get("type").and_then(Json::as_str) == Some("Sequence")
}

/// The vocabulary of such a file, without scores (`_set_vocab_llama_hf`). Its length is the file's, regardless of `vocab_size`.
pub(crate) fn llama_hf(
    folder: &Files<'_>,
    tokenizer: &TokenizerJson,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let hf = Tokenizer::new(folder, tokenizer, warnings)?;
    let by_id = tokens_by_id(&hf);
    let base = tokenizer.model.vocab.0.len();
    let mut list = TokenList::new("llama", base);
    let special_ids = hf.special_ids();
    for id in 0..base {
        let Some(token) = u32::try_from(id).ok().and_then(|id| by_id.get(&id)) else {
            return Err(folder.invalid("tokenizer.json", FileProblem::NoToken { id, n_tokens: base }));
        };
        let kind = match is_byte_token(token) {
            true => piece_type::BYTE,
            false if special_ids.contains(&to_u32(id)) => piece_type::CONTROL,
            false => piece_type::NORMAL,
        };
        list.push((*token).to_owned(), NO_SCORE, kind);
    }
    let mut added: Vec<_> = hf.added().filter(|(id, _)| *id as usize >= base).collect();
    added.compact_sort_by_key(|(id, _)| *id);
    for (id, token) in added {
        let special = special_ids.contains(&id);
        let kind = if special { piece_type::CONTROL } else { piece_type::USER_DEFINED };
        list.push(token.content.clone(), NO_SCORE, kind);
    }
    Ok(list)
}

/// Like [`llama_hf`], with merges, and with channel and tool tokens as text, so that programs can parse them (`Gemma4Model.set_vocab`).
pub(crate) fn gemma4(
    folder: &Files<'_>,
    tokenizer: &TokenizerJson,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let mut list = llama_hf(folder, tokenizer, warnings)?;
    list.model = "gemma4";
    list.pre.clear();
    list.special = Special::FilesWithMerges;
    for (token, kind) in list.tokens.iter().zip(&mut list.types) {
        if is_visible(token) {
            *kind = piece_type::USER_DEFINED;
        }
    }
    Ok(list)
}

/// Whether a token of Gemma 4 is text for programs that parse it.
pub(crate) fn is_visible(token: &str) -> bool {
    const VISIBLE: &[&str] =
        &["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"];
    VISIBLE.contains(&token)
}

/// The vocabulary of a `tokenizer.json` with byte-level BPE, WordPiece or whole words (`get_vocab_base`).
pub(crate) fn hugging_face(
    folder: &Files<'_>,
    tokenizer: &TokenizerJson,
    kind: JsonVocab,
    vocab_size: Option<usize>,
    token_limit: Option<usize>,
    options: &TokenizerOptions,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let found = tokenizer.model.kind.as_deref().unwrap_or("BPE");
    let expected = match kind {
        JsonVocab::Bpe => Some("BPE"),
        JsonVocab::WordPiece => Some("WordPiece"),
        JsonVocab::Words => None,
    };
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        let found = found.to_owned();
        return Err(folder.unsupported("tokenizer.json", UnsupportedFeature::TokenizerModel { found, expected }));
    }
    let hf = Tokenizer::new(folder, tokenizer, warnings)?;
    let by_id = tokens_by_id(&hf);
    let size = checked_size(folder, tokenizer, &by_id, vocab_size)?;
    if let Some((id, token)) = by_id.iter().max_by_key(|(id, _)| **id)
        && let Some(limit) = token_limit.filter(|limit| *id as usize >= *limit)
    {
        let problem = FileProblem::PaddedSize { token: (*token).to_owned(), id: *id as usize, size: limit };
        return Err(folder.invalid("config.json", problem));
    }
    let (pre, source) = match kind {
        JsonVocab::Words => ("whitespace".to_owned(), PreSource::NotNeeded),
        _ => pre::decide(folder, tokenizer, &hf, options, warnings)?,
    };

    let clean = folder.tokenizer_config.get("clean_up_tokenization_spaces").is_some_and(truthy);
    let mut list = match kind {
        JsonVocab::Bpe => TokenList::new("gpt2", size),
        JsonVocab::WordPiece => TokenList::new("bert", size),
        JsonVocab::Words => TokenList::new("whitespace", size),
    };
    (list.pre, list.source) = (pre, source);
    if kind != JsonVocab::WordPiece {
        list.special = Special::FilesWithMerges;
    }
    for id in 0..to_u32(size) {
        let (token, kind) = match by_id.get(&id) {
            None => (format!("[PAD{id}]"), piece_type::UNUSED),
            Some(token) => match hf.added_token(id, token) {
                None => ((*token).to_owned(), piece_type::NORMAL),
                Some(added) if options.vocab.has(Quirk::KeepsAddedTokens) => {
                    let kind = if added.special { piece_type::CONTROL } else { piece_type::USER_DEFINED };
                    ((*token).to_owned(), kind)
                }
                Some(added) => {
                    // llama.cpp matches added tokens against the raw text, so they are written as the decoder returns them. Encoding such a
                    // token yields the token itself.
                    let text = if added.normalized() { Ok((*token).to_owned()) } else { hf.decode(token) };
                    let mut text =
                        text.map_err(|e| folder.unsupported("tokenizer.json", UnsupportedFeature::Step(e)))?;
                    if clean && !added.normalized() {
                        text = clean_up(&text);
                    }
                    added_token(&text, added.special || looks_special(&text))
                }
            },
        };
        let token = match list.model {
            "bert" if kind != piece_type::CONTROL => bert::phantom_space(&token),
            _ => token,
        };
        list.tokens.push(token);
        list.types.push(kind);
    }
    Ok(list)
}

/// The vocabulary types in a `tokenizer.json` that pre-tokenize texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonVocab {
    /// Byte-level BPE.
    Bpe,
    /// WordPiece.
    WordPiece,
    /// Words separated by spaces.
    Words,
}

/// The number of tokens; an error if an id is out of range.
fn checked_size(
    folder: &Files<'_>,
    tokenizer: &TokenizerJson,
    by_id: &HashMap<u32, &str>,
    vocab_size: Option<usize>,
) -> Result<usize, FolderError> {
    let max = by_id.keys().copied().max().unwrap_or(0) as usize;
    let size = vocab_size.unwrap_or(by_id.len());
    if max < size {
        return Ok(size);
    }
    let token = by_id.get(&to_u32(max)).copied().unwrap_or_default().to_owned();
    Err(match tokenizer.has(&token) {
        true => folder.invalid("tokenizer.json", FileProblem::TokenId { token, id: max, vocab_size: size }),
        false => folder.invalid("config.json", FileProblem::AddedTokenId { token, id: max, vocab_size: size }),
    })
}

/// The text of every id. If two texts have the same id, the model's text takes precedence; llama.cpp's converter picks one at random.
pub(crate) fn tokens_by_id<'a>(hf: &'a Tokenizer<'_>) -> HashMap<u32, &'a str> {
    hf.vocab().map(|(token, id)| (id, token)).collect()
}

/// Text and type of an added token: a control token, or a user-defined token with plain spaces.
fn added_token(text: &str, special: bool) -> (String, i32) {
    match special {
        true => (text.to_owned(), piece_type::CONTROL),
        false => (text.replace('\u{2581}', " "), piece_type::USER_DEFINED),
    }
}

/// Whether a token is special without being marked as such (`does_token_look_special`).
fn looks_special(token: &str) -> bool {
    let between = |start: &str, end: &str| token.starts_with(start) && token.ends_with(end);
    matches!(token, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<\u{ff5c}", "\u{ff5c}>")
        || between("<unused", ">")
}

/// Whether a token is a byte token such as `<0x0A>`.
fn is_byte_token(token: &str) -> bool {
    let hex = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
    hex.is_some_and(|h| h.len() == 2 && h.bytes().all(|b| b.is_ascii_hexdigit()))
}
