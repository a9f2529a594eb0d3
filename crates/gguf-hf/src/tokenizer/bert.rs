//! BERT's tokenization: its normalizer, its pre-tokenizer, and WordPiece, which repeatedly takes the longest piece at the start of the remaining
//! word.
//!
//! It follows `BertNormalizer`, `BertPreTokenizer` and `WordPiece` of Hugging Face's `tokenizers` library (0.22).

use std::collections::HashMap;
use std::sync::OnceLock;

use fancy_regex::Regex;
use serde_json::{Value as Json, json};
use unicode_normalization::UnicodeNormalization;

use super::StepProblem;
use super::files::Files;
use super::hf::{MAX_VOCAB, Model, TokenizerJson};
use super::regex::compile;
use super::special::token_text;
use crate::folder_error::FolderError;
use crate::problem::FileProblem;

/// The prefix of pieces that continue a word.
const PREFIX: &str = "##";

/// The default maximum word length; longer words are unknown.
const MAX_WORD: usize = 100;

/// Normalizes a text according to the fields of a `BertNormalizer`.
pub(crate) fn normalize(step: &Json, text: &str) -> Result<String, StepProblem> {
    let flag = |name: &str| step.get(name).and_then(Json::as_bool);
    let mut text = text.to_owned();
    if flag("clean_text").unwrap_or(true) {
        let other = class_of_chars(&OTHER, r"[\p{Cc}\p{Cf}\p{Co}]")?;
        let is_space = |c: char| c.is_whitespace();
        let is_dropped =
            |c: char| !matches!(c, '\t' | '\n' | '\r') && (matches!(c, '\0' | '\u{fffd}') || is_match(other, c));
        text = text.chars().filter(|c| !is_dropped(*c)).map(|c| if is_space(c) { ' ' } else { c }).collect();
    }
    if flag("handle_chinese_chars").unwrap_or(true) {
        let mut spaced = String::with_capacity(text.len());
        for c in text.chars() {
            if is_chinese(c) {
                spaced.extend([' ', c, ' ']);
            } else {
                spaced.push(c);
            }
        }
        text = spaced;
    }
    let lowercase = flag("lowercase").unwrap_or(true);
    if flag("strip_accents").unwrap_or(lowercase) {
        text = strip_accents(&text.nfd().collect::<String>())?;
    }
    if lowercase {
        text = text.chars().flat_map(char::to_lowercase).collect();
    }
    Ok(text)
}

/// Removes the nonspacing marks of a text.
pub(crate) fn strip_accents(text: &str) -> Result<String, StepProblem> {
    let marks = class_of_chars(&MARKS, r"\p{Mn}")?;
    Ok(text.chars().filter(|c| !is_match(marks, *c)).collect())
}

/// Compiled character classes, cached because a tokenizer normalizes all of its added tokens.
type Class = OnceLock<Result<Regex, StepProblem>>;

/// Control, format and private-use characters.
static OTHER: Class = OnceLock::new();

/// Nonspacing marks.
static MARKS: Class = OnceLock::new();

fn class_of_chars(class: &'static Class, pattern: &str) -> Result<&'static Regex, StepProblem> {
    class.get_or_init(|| compile(pattern)).as_ref().map_err(Clone::clone)
}

fn is_match(regex: &Regex, c: char) -> bool {
    regex.is_match(c.encode_utf8(&mut [0; 4])).unwrap_or(false)
}

/// Whether a character is a CJK ideograph.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x2a6df | 0x2a700..=0x2b81f
        | 0x2b920..=0x2ceaf | 0x2f800..=0x2fa1f)
}

/// Appends the ids of a word's pieces in `vocab`, or the unknown token for the whole word.
pub(crate) fn encode(
    model: &Model,
    vocab: &HashMap<&str, u32>,
    word: &str,
    ids: &mut Vec<u32>,
) -> Result<(), StepProblem> {
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or(PREFIX);
    let longest = model.max_input_chars_per_word.unwrap_or(MAX_WORD);
    let mut pieces = Vec::new();
    let mut rest = word;
    while !rest.is_empty() && word.chars().count() <= longest {
        let ends = rest.char_indices().rev().map(|(i, c)| i + c.len_utf8());
        let found = ends.into_iter().find_map(|end| {
            let (piece, after) = rest.split_at_checked(end)?;
            let id = match rest.len() == word.len() {
                true => vocab.get(piece),
                false => vocab.get(format!("{prefix}{piece}").as_str()),
            };
            Some((*id?, after))
        });
        let Some((id, after)) = found else { break };
        pieces.push(id);
        rest = after;
    }
    if rest.is_empty() {
        ids.append(&mut pieces);
        return Ok(());
    }
    let unknown = model.unk_token.as_deref().unwrap_or("[UNK]");
    let id = vocab.get(unknown).ok_or_else(|| StepProblem::UnknownToken(unknown.to_owned()))?;
    ids.push(*id);
    Ok(())
}

/// The vocabulary file of older models, with one token per line.
pub(crate) const FILE: &str = "vocab.txt";

/// Converts a [`FILE`] as `transformers` does (`BertConverter` in convert_slow_tokenizer.py). The tokenizer class adds its special tokens and
/// sets the fields of the normalizer.
pub(crate) fn of_text(folder: &Files<'_>, text: &str) -> Result<TokenizerJson, FolderError> {
    let n_lines = text.lines().count();
    if n_lines as u64 > MAX_VOCAB {
        return Err(folder.invalid(FILE, FileProblem::TooManyPieces { found: n_lines, max: MAX_VOCAB }));
    }
    let vocab: serde_json::Map<String, Json> =
        text.lines().enumerate().map(|(id, token)| (token.to_owned(), id.into())).collect();
    let token = |kind: &str, default: &'static str| {
        let setting = folder.tokenizer_config.get(format!("{kind}_token")).and_then(token_text);
        setting.unwrap_or(default).to_owned()
    };
    let (cls, sep) = (token("cls", "[CLS]"), token("sep", "[SEP]"));
    let ids = |token: &str| vocab.get(token).cloned().into_iter().collect::<Vec<Json>>();
    let special = json!({ &cls: { "id": cls, "ids": ids(&cls) }, &sep: { "id": sep, "ids": ids(&sep) } });
    let around = |token: &str| json!({ "SpecialToken": { "id": token } });
    let document = json!({
        "normalizer": { "type": "BertNormalizer" },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [around(&cls), { "Sequence": { "id": "A" } }, around(&sep)],
            "special_tokens": special,
        },
        "decoder": { "type": "WordPiece", "prefix": PREFIX },
        "model": { "type": "WordPiece", "unk_token": token("unk", "[UNK]"), "vocab": vocab },
    });
    serde_json::from_value(document).map_err(|source| FolderError::Json { file: folder.dir.path().join(FILE), source })
}

/// llama.cpp's form of a token that is not a control token: U+2581 before tokens that start a word, and no prefix for continuations
/// (`BertModel.set_vocab`).
pub(crate) fn phantom_space(token: &str) -> String {
    match token.strip_prefix(PREFIX) {
        Some(rest) => rest.to_owned(),
        None => format!("\u{2581}{token}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_normalized_as_in_the_library() {
        // Expected: tokenizers 0.22.2.
        let cased = json!({"lowercase": false});
        let accents = json!({"lowercase": true, "strip_accents": false});
        let as_is = json!({"lowercase": false, "clean_text": false, "handle_chinese_chars": false});
        for (step, text, expected) in [
            (json!({}), "Élan\tÄB\u{200d}c", "elan abc"),
            (json!({}), "a在b\u{0}\u{fffd}\u{1}", "a 在 b"),
            (json!({}), "\u{a0}x\u{85}", " x"),
            (json!({"strip_accents": true, "lowercase": false}), "Él", "El"),
            (cased, "Él", "Él"),
            (accents, "ÉL", "él"),
            (as_is, "a在\u{1}", "a在\u{1}"),
        ] {
            assert_eq!(normalize(&step, text).unwrap(), expected, "{step} {text:?}");
        }
    }

    #[test]
    fn words_are_the_longest_pieces() {
        let vocab: HashMap<&str, u32> =
            [("[UNK]", 0), ("un", 1), ("##aff", 2), ("##able", 3), ("u", 4), ("##a", 5), ("é", 6), ("##é", 7)].into();
        let mut model: Model = serde_json::from_value(json!({"type": "WordPiece"})).unwrap();
        let ids = |model: &Model, word: &str| {
            let mut ids = Vec::new();
            encode(model, &vocab, word, &mut ids).map(|()| ids)
        };
        for (word, expected) in
            [("unaffable", &[1, 2, 3][..]), ("ua", &[4, 5]), ("unx", &[0]), ("éé", &[6, 7]), ("aff", &[0]), ("", &[])]
        {
            assert_eq!(ids(&model, word).unwrap(), expected, "{word}");
        }
        model.max_input_chars_per_word = Some(1);
        assert_eq!(ids(&model, "ua").unwrap(), [0]);
        model.unk_token = Some("?".to_owned());
        assert!(ids(&model, "ua").is_err());
        assert_eq!((phantom_space("##ab"), phantom_space("ab")), ("ab".to_owned(), "\u{2581}ab".to_owned()));
    }
}
