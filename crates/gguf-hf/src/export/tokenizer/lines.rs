//! Vocabularies with one token per line: those of the RWKV world models and of PLaMo, and the ranks of tiktoken.

use gguf_model::tokenizer::char_byte;
use serde_json::json;

use super::super::key_values::short;
use super::Vocab;
use super::json::base64;
use crate::tokenizer::rwkv::literal;
use crate::tokenizer::sentencepiece::piece_type;

/// The file of RWKV: an id, the bytes as Python writes them, and their number. The first token has no line.
///
/// # Errors
/// If a token is not written as Python writes bytes.
pub(super) fn rwkv(vocab: &Vocab<'_>) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    for (id, token) in vocab.tokens.iter().enumerate().take(vocab.n_own()).skip(1) {
        let quoted = |quote: char| Some(format!("b{quote}{token}{quote}")).filter(|text| literal(text).is_some());
        let quoted = quoted('\'').or_else(|| quoted('"'));
        let quoted = quoted.ok_or_else(|| format!("the token {token:?} is not written as Python writes bytes"))?;
        let n_bytes = literal(&quoted).map_or(0, |bytes| bytes.len());
        text.push_str(&format!("{id} {quoted} {n_bytes}\n"));
    }
    Ok(text.into_bytes())
}

/// The file of PLaMo: lists of text, score and type.
pub(super) fn plamo(vocab: &Vocab<'_>) -> Vec<u8> {
    let mut text = String::new();
    for (id, token) in vocab.tokens.iter().enumerate().take(vocab.n_own()) {
        let kind = match vocab.kind(id) {
            piece_type::UNKNOWN => "UNKNOWN",
            piece_type::CONTROL => "CONTROL",
            piece_type::BYTE => "BYTE",
            _ => "NORMAL",
        };
        text.push_str(&format!("{}\n", json!([token, short(vocab.score(id)), kind])));
    }
    text.into_bytes()
}

/// A file of tiktoken: the bytes of each token in base64, and its rank. Special tokens follow those of the file, and are not in it.
///
/// # Errors
/// If a token is not made of the characters that stand for bytes.
pub(super) fn ranks(vocab: &Vocab<'_>) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    let n = (0..vocab.n_own()).find(|id| vocab.kind(*id) != piece_type::NORMAL).unwrap_or(vocab.n_own());
    for (rank, token) in vocab.tokens.iter().enumerate().take(n) {
        let bytes: Option<Vec<u8>> = token.chars().map(char_byte).collect();
        let bytes = bytes.ok_or_else(|| format!("the token {token:?} has characters that do not stand for bytes"))?;
        text.push_str(&format!("{} {rank}\n", base64(&bytes)));
    }
    Ok(text.into_bytes())
}
