//! The steps before the merges: normalization and pre-tokenization as `tokenizer.json` describes them and Hugging Face's `tokenizers` library
//! performs them. It covers the BPE tokenizers in use; an unknown step is an error, because the resulting words would be wrong.

use fancy_regex::Regex;
use gguf_model::tokenizer::byte_char;
use serde_json::Value as Json;
use unicode_normalization::UnicodeNormalization;

use super::regex::compile;
use super::special::array;
use super::{Stage, StepProblem, bert};

/// The maximum length of an intermediate text in bytes; steps that double the text could otherwise exhaust the memory. The check text has some
/// 600 bytes.
pub(crate) const MAX_TEXT: usize = 4096;

fn bounded(bytes: usize) -> Result<(), StepProblem> {
    if bytes > MAX_TEXT { Err(StepProblem::LongText { max: MAX_TEXT }) } else { Ok(()) }
}

/// The maximum nesting depth of step sequences.
const MAX_DEPTH: u32 = 16;

/// GPT-2's pattern, the default of the `ByteLevel` step.
const GPT2_PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The type of a step.
pub(crate) fn kind(step: &Json) -> Option<&str> {
    step.get("type").and_then(Json::as_str)
}

/// A flag of a step, with the library's default.
fn flag(step: &Json, name: &str, default: bool) -> bool {
    step.get(name).and_then(Json::as_bool).unwrap_or(default)
}

/// Normalizes a text.
pub(crate) fn normalize(step: &Json, text: &str, depth: u32) -> Result<String, StepProblem> {
    let field = |name: &str| step.get(name).and_then(Json::as_str).unwrap_or("");
    Ok(match kind(step) {
        None if step.is_null() => text.to_owned(),
        Some("NFC") => text.nfc().collect(),
        Some("NFD") => text.nfd().collect(),
        Some("NFKC") => text.nfkc().collect(),
        Some("NFKD") => text.nfkd().collect(),
        Some("BertNormalizer") => bert::normalize(step, text)?,
        Some("StripAccents") => bert::strip_accents(text)?,
        Some("Lowercase") => text.chars().flat_map(char::to_lowercase).collect(),
        Some("Prepend") if text.is_empty() => String::new(),
        Some("Prepend") => {
            bounded(field("prepend").len())?;
            format!("{}{text}", field("prepend"))
        }
        Some("Strip") => {
            let text = if flag(step, "strip_left", true) { text.trim_start() } else { text };
            if flag(step, "strip_right", true) { text.trim_end() } else { text }.to_owned()
        }
        Some("Replace") => {
            let parts = matches(&regex(step)?, text)?;
            let hits = parts.iter().filter(|(_, hit)| *hit).count();
            bounded(hits.saturating_mul(field("content").len()))?;
            parts.iter().map(|(part, hit)| if *hit { field("content") } else { part }).collect()
        }
        Some("Sequence") if depth < MAX_DEPTH => {
            let mut text = text.to_owned();
            for step in array(step.get("normalizers")) {
                text = normalize(step, &text, depth + 1)?;
                bounded(text.len())?;
            }
            text
        }
        other => return Err(StepProblem::unknown(Stage::Normalizer, other)),
    })
}

/// A part of the text, which the steps split into words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// Whether it is at the start of the text.
    pub(crate) first: bool,
}

/// Splits pieces into smaller ones.
pub(crate) fn pre_tokenize(step: &Json, pieces: Vec<Piece>, depth: u32) -> Result<Vec<Piece>, StepProblem> {
    let behavior = step.get("behavior").and_then(Json::as_str).unwrap_or("Isolated");
    match kind(step) {
        None if step.is_null() => Ok(pieces),
        Some("Sequence") if depth < MAX_DEPTH => {
            let mut pieces = pieces;
            for step in array(step.get("pretokenizers")) {
                pieces = pre_tokenize(step, pieces, depth + 1)?;
                bounded(pieces.iter().map(|p| p.text.len()).sum())?;
            }
            Ok(pieces)
        }
        Some("Split") => {
            let (regex, invert) = (regex(step)?, flag(step, "invert", false));
            split(pieces, behavior, |text| {
                let mut parts = matches(&regex, text)?;
                parts.iter_mut().for_each(|(_, hit)| *hit ^= invert);
                Ok(parts)
            })
        }
        Some("ByteLevel") => {
            let mut pieces = pieces;
            if flag(step, "add_prefix_space", true) {
                pieces.iter_mut().filter(|p| !p.text.starts_with(' ')).for_each(|p| p.text.insert(0, ' '));
            }
            if flag(step, "use_regex", true) {
                let regex = compile(GPT2_PATTERN)?;
                pieces = split(pieces, "Isolated", |text| matches(&regex, text))?;
            }
            pieces.iter_mut().for_each(|p| p.text = p.text.bytes().map(byte_char).collect());
            Ok(pieces)
        }
        Some("Digits") => {
            let behavior = if flag(step, "individual_digits", false) { "Isolated" } else { "Contiguous" };
            split(pieces, behavior, |text| Ok(chars(text, char::is_numeric)))
        }
        Some("Punctuation") => {
            let is_punctuation = punctuation()?;
            split(pieces, behavior, |text| Ok(chars(text, &is_punctuation)))
        }
        Some("BertPreTokenizer") => {
            let is_punctuation = punctuation()?;
            let words = split(pieces, "Removed", |text| Ok(chars(text, char::is_whitespace)))?;
            split(words, "Isolated", |text| Ok(chars(text, &is_punctuation)))
        }
        Some("Whitespace") => {
            let regex = compile(r"\w+|[^\w\s]+")?;
            split(pieces, "Removed", |text| Ok(matches(&regex, text)?.into_iter().map(|(t, hit)| (t, !hit)).collect()))
        }
        Some("WhitespaceSplit") => split(pieces, "Removed", |text| Ok(chars(text, char::is_whitespace))),
        Some("CharDelimiterSplit") => {
            let delimiter = step.get("delimiter").and_then(Json::as_str).and_then(|d| d.chars().next());
            split(pieces, "Removed", |text| Ok(chars(text, |c| Some(c) == delimiter)))
        }
        Some("Metaspace") => metaspace(step, pieces),
        other => Err(StepProblem::unknown(Stage::PreTokenizer, other)),
    }
}

/// Whether a character is punctuation.
fn punctuation() -> Result<impl Fn(char) -> bool, StepProblem> {
    let punctuation = compile(r"\p{P}")?;
    Ok(move |c: char| c.is_ascii_punctuation() || punctuation.is_match(c.encode_utf8(&mut [0; 4])).unwrap_or(false))
}

/// SentencePiece's convention: spaces become a visible mark at the start of words.
fn metaspace(step: &Json, mut pieces: Vec<Piece>) -> Result<Vec<Piece>, StepProblem> {
    let mark = step.get("replacement").and_then(Json::as_str).and_then(|r| r.chars().next()).unwrap_or('\u{2581}');
    let old = if flag(step, "add_prefix_space", true) { "always" } else { "never" };
    let scheme = step.get("prepend_scheme").and_then(Json::as_str).unwrap_or(old);
    for piece in &mut pieces {
        piece.text = piece.text.replace(' ', mark.encode_utf8(&mut [0; 4]));
        let prepend = scheme == "always" || (scheme == "first" && piece.first);
        if prepend && !piece.text.starts_with(mark) {
            piece.text.insert(0, mark);
        }
    }
    match flag(step, "split", true) {
        true => split(pieces, "MergedWithNext", |text| Ok(chars(text, |c| c == mark))),
        false => Ok(pieces),
    }
}

/// The parts of a text, and whether each is a match.
type Parts<'a> = Vec<(&'a str, bool)>;

/// Splits every piece at the matches of `find`. `behavior` selects the treatment of the matches.
fn split(
    pieces: Vec<Piece>,
    behavior: &str,
    find: impl Fn(&str) -> Result<Parts<'_>, StepProblem>,
) -> Result<Vec<Piece>, StepProblem> {
    let mut out = Vec::new();
    for Piece { text, first } in pieces {
        let mut parts: Vec<(String, bool)> = Vec::new();
        let mut join_next = false;
        for (part, hit) in find(&text)? {
            let before = parts.last().map(|(_, hit)| *hit);
            let join = match behavior {
                "Isolated" | "Removed" => false,
                "Contiguous" => before == Some(hit),
                "MergedWithPrevious" => hit && before == Some(false),
                "MergedWithNext" => join_next && !hit,
                other => return Err(StepProblem::SplitBehavior(other.to_owned())),
            };
            join_next = hit;
            match parts.last_mut().filter(|_| join) {
                Some((last, last_hit)) => {
                    last.push_str(part);
                    *last_hit = hit;
                }
                None => parts.push((part.to_owned(), hit)),
            }
        }
        if behavior == "Removed" {
            parts.retain(|(_, hit)| !hit);
        }
        let mut first = first && (behavior != "Removed" || parts.first().is_some_and(|(p, _)| text.starts_with(p)));
        for (text, _) in parts.into_iter().filter(|(p, _)| !p.is_empty()) {
            out.push(Piece { text, first });
            first = false;
        }
    }
    Ok(out)
}

/// Every matching character is a separate match.
fn chars(text: &str, is_match: impl Fn(char) -> bool) -> Parts<'_> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_match(*c)) {
        let Some(((before, hit), after)) = rest
            .split_at_checked(at + c.len_utf8())
            .and_then(|(head, after)| Some((head.split_at_checked(at)?, after)))
        else {
            break;
        };
        if !before.is_empty() {
            parts.push((before, false));
        }
        parts.push((hit, true));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push((rest, false));
    }
    parts
}

/// The matches of a pattern, and the text between them.
fn matches<'t>(regex: &Regex, text: &'t str) -> Result<Parts<'t>, StepProblem> {
    let mut parts = Vec::new();
    let mut end = 0;
    for hit in regex.find_iter(text) {
        let hit = hit.map_err(|e| StepProblem::pattern(regex.as_str(), e))?;
        parts.extend(text.get(end..hit.start()).filter(|t| !t.is_empty()).map(|t| (t, false)));
        parts.extend(text.get(hit.start()..hit.end()).map(|t| (t, true)));
        end = hit.end();
    }
    parts.extend(text.get(end..).filter(|t| !t.is_empty()).map(|t| (t, false)));
    Ok(parts)
}

/// The pattern of a step: a regular expression or a plain text.
fn regex(step: &Json) -> Result<Regex, StepProblem> {
    let pattern = step.get("pattern").unwrap_or(&Json::Null);
    match (pattern.get("Regex").and_then(Json::as_str), pattern.get("String").and_then(Json::as_str)) {
        (Some(regex), _) => compile(regex),
        (None, Some(text)) if !text.is_empty() => compile(&fancy_regex::escape(text)),
        _ => Err(StepProblem::NoPattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cut(step: Json, text: &str) -> Vec<String> {
        let pieces = vec![Piece { text: text.to_owned(), first: true }];
        pre_tokenize(&step, pieces, 0).unwrap().into_iter().map(|p| p.text).collect()
    }

    #[test]
    fn every_step_cuts_as_the_library_does() {
        // Expected: tokenizers 0.22.2, pre_tokenize_str.
        let split = |pattern: &str, behavior: &str, invert: bool| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert});
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true});
        let metaspace =
            |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        let cases: &[(Json, &str, &[&str])] = &[
            (Json::Null, "a b", &["a b"]),
            (split("-", "Isolated", false), "a--b-", &["a", "-", "-", "b", "-"]),
            (split("-", "Removed", false), "a--b-", &["a", "b"]),
            (split("-", "Contiguous", false), "a--b-", &["a", "--", "b", "-"]),
            (split("-", "MergedWithPrevious", false), "a--b-", &["a-", "-", "b-"]),
            (split("-", "MergedWithNext", false), "a--b-", &["a", "-", "-b", "-"]),
            (split("[ab]+", "Removed", true), "a--b-", &["a", "b"]),
            (split(r"\s+$", "Isolated", false), "a  \nb ", &["a", "  ", "\nb", " "]),
            (split(r"(?=(\d{3})+(?!\d))", "Isolated", false), "12345", &["12", "345"]),
            (byte_level, "ab 12é", &["Ġab", "Ġ12", "Ã©"]),
            (json!({"type": "Digits", "individual_digits": true}), "a12", &["a", "1", "2"]),
            (json!({"type": "Digits"}), "a12½b", &["a", "12½", "b"]),
            (json!({"type": "Punctuation", "behavior": "Contiguous"}), "a!?…$€", &["a", "!?…$", "€"]),
            (json!({"type": "Whitespace"}), "a b!c", &["a", "b", "!", "c"]),
            (json!({"type": "WhitespaceSplit"}), "a b!c", &["a", "b!c"]),
            (json!({"type": "CharDelimiterSplit", "delimiter": "-"}), "a--b", &["a", "b"]),
            (metaspace("always"), "a  b", &["▁a", "▁", "▁b"]),
            (metaspace("never"), "a b", &["a", "▁b"]),
            (
                json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("first")]}),
                "a b",
                &["▁a", "b"],
            ),
        ];
        for (step, text, expected) in cases {
            assert_eq!(cut(step.clone(), text), *expected, "{step}");
        }
    }

    #[test]
    fn normalizers() {
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let sequence = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]});
        for (step, text, expected) in [
            (Json::Null, "e\u{301}", "e\u{301}"),
            (json!({"type": "NFC"}), "e\u{301}", "é"),
            (json!({"type": "NFKC"}), "ﬁ", "fi"),
            (json!({"type": "Lowercase"}), "ÀB", "àb"),
            (json!({"type": "Strip"}), " a ", "a"),
            (sequence, "a b", "▁a▁b"),
        ] {
            assert_eq!(normalize(&step, text, 0).unwrap(), expected, "{step}");
        }
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        let mut deep = json!({"type": "NFC"});
        for _ in 0..40 {
            deep = json!({"type": "Sequence", "normalizers": [deep], "pretokenizers": []});
        }
        assert!(normalize(&deep, "a", 0).unwrap_err().to_string().contains("Sequence is not known"));
        let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let bomb = json!({"type": "Sequence", "normalizers": vec![double; 60]});
        assert!(normalize(&bomb, "a", 0).unwrap_err().to_string().contains("longer than 4096 bytes"));
        let bomb = json!({"type": "Sequence", "pretokenizers": vec![json!({"type": "ByteLevel"}); 60]});
        let piece = vec![Piece { text: "é".to_owned(), first: true }];
        assert!(pre_tokenize(&bomb, piece, 0).unwrap_err().to_string().contains("longer than 4096 bytes"));
        assert!(normalize(&json!({"type": "Precompiled"}), "a", 0).unwrap_err().to_string().contains("Precompiled"));
        for (step, message) in [
            (json!({"type": "UnicodeScripts"}), "UnicodeScripts is not known"),
            (json!({}), "without a type"),
            (json!({"type": "Split"}), "no pattern"),
            (json!({"type": "Split", "pattern": {"Regex": "("}}), "the pattern \"(\""),
            (json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "x"}), "behavior x"),
        ] {
            let piece = vec![Piece { text: "a".to_owned(), first: true }];
            let error = pre_tokenize(&step, piece, 0).unwrap_err().to_string();
            assert!(error.contains(message), "{step}: {error}");
        }
    }
}
