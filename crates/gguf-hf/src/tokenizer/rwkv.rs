//! The vocabulary of the RWKV world models: a file with one token per line, as id, Python literal and number of bytes. GGUF stores the tokens as
//! Python prints bytes, with escapes (`_set_vocab_rwkv_world` in conversion/base.py).

use super::files::Files;
use super::sentencepiece::piece_type;
use super::vocab::{Special, TokenList};
use crate::folder_error::FolderError;
use crate::problem::FileProblem;

/// The file name.
pub(crate) const FILE: &str = "rwkv_vocab_v20230424.txt";

/// The size of the published vocabulary.
const VOCAB: usize = 65536;

/// The end-of-turn token in chats: two line feeds.
const END_OF_TURN: u32 = 261;

/// The default chat template: `models/templates/llama-cpp-rwkv-world.jinja` of llama.cpp (MIT licence).
const TEMPLATE: &str = include_str!("rwkv.jinja");

/// Reads the vocabulary, padded to `vocab_size`; `None` without the file.
pub(crate) fn read(folder: &Files<'_>, vocab_size: Option<usize>) -> Result<Option<TokenList>, FolderError> {
    let Some(text) = folder.dir.lines(FILE)? else { return Ok(None) };
    let size = vocab_size.unwrap_or(VOCAB);
    let mut list = TokenList::new("rwkv", size);
    list.pre.clear();
    list.tokens.push("<s>".to_owned());
    list.types.push(piece_type::CONTROL);
    for (i, line) in text.lines().enumerate() {
        let invalid = |expected| {
            let found = line.chars().take(60).collect();
            folder.invalid(FILE, FileProblem::Line { line: i + 1, found, expected })
        };
        let parts = line.split_once(' ').and_then(|(_, rest)| rest.rsplit_once(' '));
        let (token, len) = parts.ok_or_else(|| invalid("an id, a token and its length"))?;
        let token = literal(token.trim()).ok_or_else(|| invalid("a token as Python writes texts or bytes"))?;
        if len.trim().parse() != Ok(token.len()) {
            return Err(invalid("a token of the length given after it"));
        }
        list.tokens.push(shown(&token));
        list.types.push(piece_type::NORMAL);
        if list.tokens.len() > size {
            let (found, max) = (text.lines().count() + 1, size as u64);
            return Err(folder.invalid(FILE, FileProblem::TooManyPieces { found, max }));
        }
    }
    for id in list.tokens.len()..size {
        list.tokens.push(format!("[PAD{id}]"));
        list.types.push(piece_type::UNUSED);
    }
    list.special = Special::Rwkv { template: TEMPLATE, end_of_turn: END_OF_TURN };
    Ok(Some(list))
}

/// The bytes of a Python literal: a string, or bytes with the prefix `b`.
pub(crate) fn literal(text: &str) -> Option<Vec<u8>> {
    let (is_bytes, text) = match text.strip_prefix(['b', 'B']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut put = |code: u32| {
        match is_bytes {
            true => bytes.push(u8::try_from(code).ok()?),
            false => bytes.extend(char::from_u32(code)?.encode_utf8(&mut [0; 4]).bytes()),
        }
        Some(())
    };
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..)?;
        if c == quote {
            return None;
        }
        if c != '\\' {
            match is_bytes && !c.is_ascii() {
                true => return None,
                false => put(u32::from(c))?,
            }
            continue;
        }
        let escape = rest.chars().next()?;
        rest = rest.get(escape.len_utf8()..)?;
        let n_digits = match escape {
            'x' => 2,
            'u' if !is_bytes => 4,
            'U' if !is_bytes => 8,
            '0'..='7' => {
                let n = rest.bytes().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
                let digits = rest.get(..n)?;
                rest = rest.get(n..)?;
                put(u32::from_str_radix(&format!("{escape}{digits}"), 8).ok()?)?;
                continue;
            }
            _ => {
                put(u32::from(match escape {
                    'a' => '\x07',
                    'b' => '\x08',
                    'f' => '\x0c',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\x0b',
                    '\\' | '\'' | '"' => escape,
                    _ => return None,
                }))?;
                continue;
            }
        };
        let digits = rest.get(..n_digits).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        rest = rest.get(n_digits..)?;
        put(u32::from_str_radix(digits, 16).ok()?)?;
    }
    Some(bytes)
}

/// Formats bytes as Python does, without the quotes.
fn shown(bytes: &[u8]) -> String {
    // Python uses double quotes if they save escapes.
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\\' => text.push_str("\\\\"),
            _ if byte == quote => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_python() {
        // Expected: `ast.literal_eval` and `repr` of CPython 3.12.
        for (text, bytes, expected) in [
            (r"'\x00'", &b"\0"[..], r"\x00"),
            (r"'a b'", b"a b", "a b"),
            (r#""it's""#, b"it's", "it's"),
            (r#"'\'"'"#, b"'\"", r#"\'""#),
            (r"b'\xff\n'", b"\xff\n", r"\xff\n"),
            (r"'\x80'", b"\xc2\x80", r"\xc2\x80"),
            ("'é'", b"\xc3\xa9", r"\xc3\xa9"),
            (r"'\\t\t'", b"\\t\t", r"\\t\t"),
            (r"'\u4e2d\U0001f600'", "中😀".as_bytes(), r"\xe4\xb8\xad\xf0\x9f\x98\x80"),
            (r"'\0\101'", b"\0A", r"\x00A"),
            (r"'\x7f~ '", b"\x7f~ ", r"\x7f~ "),
        ] {
            assert_eq!(literal(text).as_deref(), Some(bytes), "{text}");
            assert_eq!(shown(bytes), expected, "{text}");
        }
        for text in ["a", "'a", "'a'b'", r"'\x0'", r"'\q'", r"b'\u0041'", "b'é'", r"'\ud800'", "''a", r"'\'"] {
            assert_eq!(literal(text), None, "{text}");
        }
    }
}
