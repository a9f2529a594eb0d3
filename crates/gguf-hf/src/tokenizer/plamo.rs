//! The vocabulary of PLaMo 2 and 3: a file with one token per line, each a list of text, score, type and further fields (`_set_vocab_plamo` in
//! conversion/base.py).

use serde_json::Value as Json;

use super::files::Files;
use super::hf::MAX_VOCAB;
use super::sentencepiece::piece_type;
use super::special::token_text;
use super::vocab::{NO_SCORE, Special, TokenList};
use crate::config::shortened;
use crate::folder_error::FolderError;
use crate::number::to_f32;
use crate::problem::FileProblem;

/// The file name.
pub(crate) const FILE: &str = "tokenizer.jsonl";

/// `<|plamo:op|>`, the end-of-turn token.
const END_OF_TURN: u32 = 4;

/// Reads the vocabulary, padded to `vocab_size`; `None` without the file. `has_template` states whether there is a chat template.
pub(crate) fn read(
    folder: &Files<'_>,
    vocab_size: Option<usize>,
    has_template: bool,
) -> Result<Option<TokenList>, FolderError> {
    let Some(text) = folder.dir.lines(FILE)? else { return Ok(None) };
    let mut list = TokenList::new("plamo2", vocab_size.unwrap_or(0));
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let invalid = || {
            let (found, expected) = (line.chars().take(60).collect(), "a list of text, score and type");
            folder.invalid(FILE, FileProblem::Line { line: i + 1, found, expected })
        };
        let fields: Vec<Json> = serde_json::from_str(line).map_err(|_| invalid())?;
        let [token, score, rest @ ..] = fields.as_slice() else { return Err(invalid()) };
        let (Some(token), Some(score)) = (token.as_str(), number(score)) else { return Err(invalid()) };
        let kind = match rest.first().and_then(Json::as_str) {
            Some("UNKNOWN") => piece_type::UNKNOWN,
            Some("CONTROL") => piece_type::CONTROL,
            Some("BYTE") => piece_type::BYTE,
            _ if token.starts_with("<|plamo:") && token.ends_with("|>") => piece_type::CONTROL,
            _ => piece_type::NORMAL,
        };
        list.push(token.to_owned(), to_f32(score), kind);
        if list.tokens.len() as u64 > MAX_VOCAB {
            let (found, max) = (text.lines().count(), MAX_VOCAB);
            return Err(folder.invalid(FILE, FileProblem::TooManyPieces { found, max }));
        }
    }
    for number in 1..=vocab_size.unwrap_or(0).saturating_sub(list.tokens.len()) {
        list.push(format!("[PAD{number}]"), NO_SCORE, piece_type::UNUSED);
    }
    for (key, setting) in [
        ("tokenizer.ggml.bos_token_id", "bos_token"),
        ("tokenizer.ggml.eos_token_id", "eos_token"),
        ("tokenizer.ggml.padding_token_id", "pad_token"),
        ("tokenizer.ggml.seperator_token_id", "sep_token"),
        ("tokenizer.ggml.unknown_token_id", "unk_token"),
    ] {
        let Some(token) = folder.tokenizer_config.get(setting).filter(|token| !token.is_null()) else { continue };
        let id = token_text(token).and_then(|text| list.tokens.iter().position(|token| token == text));
        let id = id.and_then(|id| u32::try_from(id).ok()).ok_or_else(|| {
            let (key, found, expected) = (setting.to_owned(), shortened(token), "a token of tokenizer.jsonl");
            folder.invalid("tokenizer_config.json", FileProblem::Value { key, found, expected })
        })?;
        list.more.push((key, id.into()));
    }
    list.more.push(("tokenizer.ggml.eot_token_id", END_OF_TURN.into()));
    list.more.push(("tokenizer.ggml.add_space_prefix", false.into()));
    list.special = if has_template { Special::Template } else { Special::None };
    Ok(Some(list))
}

/// A number, or a string that contains one.
fn number(value: &Json) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}
