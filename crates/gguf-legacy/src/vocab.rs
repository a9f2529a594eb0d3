//! The vocabulary of a legacy file as the key-values of a tokenizer.
//!
//! Files list the tokens as text or bytes, some with scores. The architecture determines the rest of a tokenizer: the special tokens, the
//! pre-tokenizer, and for byte-pair encodings the merges, which are rebuilt (`bpe.rs`).

use std::collections::HashSet;

use gguf_format::{Array, Str, Value, ValueRef, ValueType};

use crate::bpe;
use crate::file::LegacyFile;
use crate::known;
use crate::layout::Family;
use crate::walk::TokenTexts;

/// `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// The migrated vocabulary.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    /// Key-values, in output order; empty for files without a vocabulary.
    pub(crate) kvs: Vec<(String, Value)>,
    /// The number of tokens whose bytes the file lacks.
    pub(crate) n_lost: usize,
}

/// The tokens of the output.
#[derive(Default)]
struct Tokens {
    texts: Vec<Vec<u8>>,
    types: Vec<i32>,
    scores: Option<Vec<f32>>,
}

impl Tokens {
    fn push(&mut self, text: impl Into<Vec<u8>>, ty: i32) {
        self.texts.push(text.into());
        self.types.push(ty);
    }

    /// Gives a unique name to each empty token: llama.cpp rejects duplicate tokens.
    fn make_unique(&mut self) {
        let mut seen: HashSet<Vec<u8>> = HashSet::with_capacity(self.texts.len());
        for (i, (text, ty)) in self.texts.iter_mut().zip(&mut self.types).enumerate() {
            if text.is_empty() || seen.contains(text) {
                *text = format!("[PAD{i}]").into_bytes();
                *ty = UNUSED;
            }
            seen.insert(text.clone());
        }
    }

    /// Pads the list to the number of tokens of the model.
    fn fill(&mut self, n: usize) {
        while self.texts.len() < n {
            self.push(Vec::new(), UNUSED);
        }
    }

    fn id(&self, text: &[u8]) -> Option<u32> {
        self.texts.iter().position(|t| t == text).and_then(|i| u32::try_from(i).ok())
    }
}

/// The key-values of a file's vocabulary.
pub(crate) fn key_values(file: &LegacyFile) -> Vocabulary {
    if file.tokens.len() == 0 {
        return Vocabulary::default();
    }
    match file.family {
        Family::Llama if is_sentencepiece(&file.tokens) => llama(file),
        Family::Llama => byte_pairs(file, &ByteLevel { read: Read::Bytes, pre: "default" }),
        Family::Replit => unigrams(file),
        Family::Bert => word_pieces(file),
        Family::Gpt2 | Family::GptJ | Family::Whisper => {
            byte_pairs(file, &ByteLevel { read: Read::Bytes, pre: "gpt-2" })
        }
        Family::StarCoder => byte_pairs(file, &ByteLevel { read: Read::Bytes, pre: "starcoder" }),
        Family::Falcon => byte_pairs(file, &ByteLevel { read: Read::Bytes, pre: "falcon" }),
        Family::Mpt => byte_pairs(file, &ByteLevel { read: Read::Codes, pre: "mpt" }),
        Family::GptNeox => byte_pairs(file, &ByteLevel { read: Read::Text, pre: "gpt-2" }),
        Family::Bloom => byte_pairs(file, &ByteLevel { read: Read::Text, pre: "bloom" }),
        Family::Rwkv => Vocabulary::default(),
    }
}

/// Whether tokens are the pieces of SentencePiece, with byte tokens at the start, as written by `convert.py`.
fn is_sentencepiece(tokens: &TokenTexts) -> bool {
    let n_bytes = (3..259).filter(|&i| tokens.get(i).is_some_and(|t| t.len() == 1)).count();
    tokens.get(0) == Some(" \u{2047} ".as_bytes())
        || tokens.get(0) == Some(b"<unk>")
        || n_bytes >= 200.min(tokens.len() / 2)
}

/// Llama's pieces: raw bytes, spaces in place of SentencePiece's marks, empty texts for control tokens (`convert-pth-to-ggml.py` of 2023;
/// the conversion is that of `convert_llama_ggml_to_gguf.py`).
fn llama(file: &LegacyFile) -> Vocabulary {
    let known = known::vocabulary(&file.tokens);
    let mut tokens = Tokens::default();
    for (i, text) in file.tokens.iter().enumerate() {
        match (i, text) {
            (0, b"" | b"<unk>" | b" \xe2\x81\x87 ") => tokens.push(*b"<unk>", UNKNOWN),
            (1, b"" | b"<s>") => tokens.push(*b"<s>", CONTROL),
            (2, b"" | b"</s>") => tokens.push(*b"</s>", CONTROL),
            (3..259, [byte]) => tokens.push(format!("<0x{byte:02X}>"), BYTE),
            (32_000.., text) if is_marker(text) => tokens.push(text, CONTROL),
            (32_000.., text) => tokens.push(marked(text), USER_DEFINED),
            (_, text) => tokens.push(marked(text), NORMAL),
        }
    }
    tokens.fill(file.n_embeddings());
    let n = tokens.texts.len();
    let mut scores = match known.as_ref() {
        Some(known) if file.scores.is_empty() && known.is_llama => known::llama_scores(&tokens.texts),
        _ if file.scores.is_empty() => (0..n).map(|i| -(i as f32)).collect(),
        _ => file.scores.clone(),
    };
    scores.resize(n, -1000.0);
    tokens.scores = Some(scores);
    tokens.make_unique();
    let mut kvs = list("llama", "default", &tokens);
    kvs.push(("tokenizer.ggml.bos_token_id".to_owned(), 1u32.into()));
    kvs.push(("tokenizer.ggml.eos_token_id".to_owned(), 2u32.into()));
    kvs.push(("tokenizer.ggml.unknown_token_id".to_owned(), 0u32.into()));
    Vocabulary { kvs, n_lost: 0 }
}

/// Replaces each space by SentencePiece's mark.
fn marked(text: &[u8]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = text.split(|&b| b == b' ').collect();
    pieces.join("\u{2581}".as_bytes())
}

/// Whether a text looks like a control token.
fn is_marker(text: &[u8]) -> bool {
    let between = |a: &[u8], b: &[u8]| text.len() > a.len() + b.len() && text.starts_with(a) && text.ends_with(b);
    let is_name =
        |text: &[u8]| text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'|' | b'/'));
    between(b"<|", b"|>")
        || between(b">>", b"<<")
        || between(b"<", b">") && text.get(1..text.len() - 1).is_some_and(is_name)
        || between(b"[", b"]") && text.get(1..text.len() - 1).is_some_and(|t| is_name(t) && t.len() > 2)
}

/// The unigram vocabulary of Replit: pieces with their marks, and scores.
fn unigrams(file: &LegacyFile) -> Vocabulary {
    let mut tokens = Tokens::default();
    for text in file.tokens.iter() {
        let is_byte = text.len() == 6 && text.starts_with(b"<0x") && text.ends_with(b">");
        let ty = match text {
            b"<unk>" | b"<|unk|>" => UNKNOWN,
            _ if is_byte => BYTE,
            text if is_marker(text) => CONTROL,
            _ => NORMAL,
        };
        tokens.push(text, ty);
    }
    tokens.scores = Some(file.scores.clone());
    tokens.make_unique();
    let mut kvs = list("t5", "default", &tokens);
    let id = |names: &[&[u8]]| names.iter().find_map(|name| tokens.id(name));
    let ids = [
        ("bos", id(&[b"<|endoftext|>", b"<s>"])),
        ("eos", id(&[b"<|endoftext|>", b"</s>"])),
        ("unknown", id(&[b"<|unk|>", b"<unk>"])),
        ("padding", id(&[b"<|pad|>", b"<pad>"])),
    ];
    push_ids(&mut kvs, &ids);
    // Otherwise a tokenizer of that kind adds an end token.
    kvs.push(("tokenizer.ggml.add_bos_token".to_owned(), false.into()));
    kvs.push(("tokenizer.ggml.add_eos_token".to_owned(), false.into()));
    Vocabulary { kvs, n_lost: 0 }
}

/// BERT's pieces: those that begin a word are marked, those that continue one lose their mark (`BertModel.set_vocab` of llama.cpp's
/// converter).
fn word_pieces(file: &LegacyFile) -> Vocabulary {
    let is_special = |text: &[u8]| matches!(text, b"[PAD]" | b"[UNK]" | b"[CLS]" | b"[SEP]" | b"[MASK]");
    let mut tokens = Tokens::default();
    for text in file.tokens.iter() {
        match text {
            text if is_special(text) => tokens.push(text, CONTROL),
            [b'#', b'#', rest @ ..] if !rest.is_empty() => tokens.push(rest, NORMAL),
            text => tokens.push(["\u{2581}".as_bytes(), text].concat(), NORMAL),
        }
    }
    tokens.make_unique();
    let mut kvs = list("bert", "default", &tokens);
    kvs.insert(0, ("tokenizer.ggml.token_type_count".to_owned(), 2u32.into()));
    let ids = [
        ("unknown", tokens.id(b"[UNK]")),
        ("seperator", tokens.id(b"[SEP]")),
        ("padding", tokens.id(b"[PAD]")),
        ("cls", tokens.id(b"[CLS]")),
        ("mask", tokens.id(b"[MASK]")),
    ];
    push_ids(&mut kvs, &ids);
    Vocabulary { kvs, n_lost: 0 }
}

/// The form of the tokens of a byte-level vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Raw bytes.
    Bytes,
    /// Each byte as a code point, in UTF-8.
    Codes,
    /// Decoded to text, with U+FFFD for bytes that are not UTF-8.
    Text,
}

/// A byte-level vocabulary.
struct ByteLevel {
    read: Read,
    /// `tokenizer.ggml.pre`.
    pre: &'static str,
}

fn byte_pairs(file: &LegacyFile, kind: &ByteLevel) -> Vocabulary {
    let known = if kind.read == Read::Text { known::vocabulary(&file.tokens) } else { None };
    let of_table = known.as_ref().map(|known| known.lost()).unwrap_or_default();
    let bytes = |(i, text): (usize, &[u8])| match kind.read {
        Read::Bytes => text.to_vec(),
        Read::Codes => bytes_of_codes(text).unwrap_or_else(|| text.to_vec()),
        Read::Text => of_table.get(&i).map_or_else(|| text.to_vec(), Vec::clone),
    };
    let texts: Vec<Vec<u8>> = file.tokens.iter().enumerate().map(bytes).collect();
    let lost = match (kind.read, &known) {
        // All tokens of a known vocabulary are known.
        (Read::Text, None) => lost(&texts),
        _ => vec![false; texts.len()],
    };
    // Runs of spaces after the trained tokens of GPT-NeoX were added, but look like merged tokens.
    let is_added_space = |i: usize, text: &[u8]| i >= 50_254 && text.iter().all(|&b| b == b' ');
    let may_add = matches!(file.family, Family::GptNeox | Family::Mpt);
    let is_trained = |i: usize| {
        let text = texts.get(i).map_or(&[][..], Vec::as_slice);
        lost.get(i) != Some(&true) && !is_special(text) && !(may_add && is_added_space(i, text))
    };
    let merges = bpe::merges(texts.iter().map(Vec::as_slice), is_trained);
    let mut is_merged = vec![false; texts.len()];
    for merge in &merges {
        if let Some(is_merged) = is_merged.get_mut(merge.token) {
            *is_merged = true;
        }
    }

    let chars = bpe::chars();
    let mut tokens = Tokens::default();
    for (i, text) in texts.iter().enumerate() {
        let byte_text = || bpe::text_of_bytes(text, &chars);
        match text.as_slice() {
            _ if lost.get(i) == Some(&true) => tokens.push(Vec::new(), UNUSED),
            text if is_special(text) => tokens.push(text, CONTROL),
            [] | [_] => tokens.push(byte_text(), NORMAL),
            _ if is_merged.get(i) == Some(&true) => tokens.push(byte_text(), NORMAL),
            // Neither a byte nor merged: added, in plain text.
            text => tokens.push(text, if is_marker(text) { CONTROL } else { USER_DEFINED }),
        }
    }
    tokens.fill(file.n_embeddings());
    tokens.make_unique();
    let written: Vec<String> = match file.merges.is_empty() {
        true => {
            let halves = |m: &bpe::Merge| texts.get(m.token)?.split_at_checked(m.at);
            let text = |half| bpe::text_of_bytes(half, &chars);
            merges.iter().filter_map(halves).map(|(a, b)| format!("{} {}", text(a), text(b))).collect()
        }
        false => file.merges.iter().map(|(a, b)| format!("{} {}", plain_json(a), plain_json(b))).collect(),
    };
    let mut kvs = list("gpt2", kind.pre, &tokens);
    kvs.push(("tokenizer.ggml.merges".to_owned(), written.into()));
    let end = tokens.id(b"<|endoftext|>").or_else(|| tokens.id(b"</s>"));
    let start = tokens.id(b"<|endoftext|>").or_else(|| tokens.id(b"<s>"));
    let ids = [("bos", start), ("eos", end), ("unknown", tokens.id(b"<unk>")), ("padding", tokens.id(b"<pad>"))];
    push_ids(&mut kvs, &ids);
    let n_lost = lost.iter().filter(|&&lost| lost).count();
    Vocabulary { kvs, n_lost }
}

/// Whether such vocabularies use a token as a marker, not for text.
fn is_special(text: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"<unk>", b"<s>", b"</s>", b"<pad>"];
    let is_fim = (text.starts_with(b"<fim_") || text.starts_with(b"<fim-")) && text.ends_with(b">");
    names.contains(&text) || is_fim || text.len() > 4 && text.starts_with(b"<|") && text.ends_with(b"|>")
}

/// The tokens that have lost their bytes: those with U+FFFD, if there are several, because one of them may be that character.
fn lost(texts: &[Vec<u8>]) -> Vec<bool> {
    let has_mark = |text: &Vec<u8>| text.windows(3).any(|w| w == "\u{fffd}".as_bytes());
    let lost: Vec<bool> = texts.iter().map(has_mark).collect();
    match lost.iter().filter(|&&lost| lost).count() {
        0 | 1 => vec![false; texts.len()],
        _ => lost,
    }
}

/// The bytes of a text whose characters are byte values; `None` if they are not.
fn bytes_of_codes(text: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok()?;
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

/// A JSON string without its escapes. ggllm.cpp copied merges from `tokenizer.json` with their escapes.
fn plain_json(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let mut ahead = rest.clone();
        match ahead.next() {
            Some('u') => {
                let digits: String = ahead.clone().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4).and_then(char::from_u32);
                match code {
                    Some(code) => {
                        out.push(code);
                        rest = ahead;
                        rest.nth(3);
                    }
                    None => out.push('\\'),
                }
            }
            Some(escaped @ ('"' | '\\' | '/')) => {
                out.push(escaped);
                rest = ahead;
            }
            _ => out.push('\\'),
        }
    }
    out
}

/// The key-values common to all vocabularies.
fn list(model: &str, pre: &str, tokens: &Tokens) -> Vec<(String, Value)> {
    let mut texts = Array::new(ValueType::STRING);
    for text in &tokens.texts {
        // The elements and the array are both strings.
        let _ = texts.push(ValueRef::String(Str(text)));
    }
    let mut kvs: Vec<(String, Value)> = vec![
        ("tokenizer.ggml.model".to_owned(), model.into()),
        ("tokenizer.ggml.pre".to_owned(), pre.into()),
        ("tokenizer.ggml.tokens".to_owned(), Value::Array(texts)),
    ];
    if let Some(scores) = &tokens.scores {
        kvs.push(("tokenizer.ggml.scores".to_owned(), scores.as_slice().into()));
    }
    kvs.push(("tokenizer.ggml.token_type".to_owned(), tokens.types.as_slice().into()));
    kvs
}

fn push_ids(kvs: &mut Vec<(String, Value)>, ids: &[(&str, Option<u32>)]) {
    let found = ids.iter().filter_map(|(kind, id)| Some((format!("tokenizer.ggml.{kind}_token_id"), (*id)?.into())));
    kvs.extend(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_json() {
        for (text, expected) in [
            ("\\u0120t", "\u{120}t"),
            ("\u{120}t", "\u{120}t"),
            ("\\\"", "\""),
            ("\\\\", "\\"),
            ("\\u12", "\\u12"),
            ("a\\", "a\\"),
            ("\\n", "\\n"),
        ] {
            assert_eq!(plain_json(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn codes_are_bytes() {
        assert_eq!(bytes_of_codes("\u{e4}\u{20}a".as_bytes()), Some(vec![0xe4, b' ', b'a']));
        assert_eq!(bytes_of_codes("\u{120}".as_bytes()), None);
        assert_eq!(bytes_of_codes(&[0xff]), None);
    }

    #[test]
    fn markers() {
        for text in ["<|endoftext|>", "<fim_prefix>", ">>TITLE<<", "<s>", "[MASK]", "</s>"] {
            assert!(is_marker(text.as_bytes()), "{text}");
        }
        for text in ["<>", "a", "<a b>", "[]", "[1]", "<|", ">><<"] {
            assert!(!is_marker(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn lost_bytes_are_seen_where_there_are_several() {
        let texts = |list: &[&str]| list.iter().map(|t| t.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(lost(&texts(&["a", "\u{fffd}", "b"])), [false, false, false]);
        assert_eq!(lost(&texts(&["a", "\u{fffd}", "b\u{fffd}"])), [false, true, true]);
    }
}
