//! The name of the pre-tokenizer, `tokenizer.ggml.pre`: how the text is split into words before BPE merges.
//!
//! llama.cpp identifies pre-tokenizers by name. Its converter determines the name from a hash that depends on the whole vocabulary, so it
//! refuses every new or reduced vocabulary. This module tries the hash first as well, for the same results on known tokenizers. It then compares
//! the definition in `tokenizer.json` with the definitions of the known families, which the names stand for.

mod families;
mod hashes;

use gguf_format::sort::CompactSort as _;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use self::families::FAMILIES;
use self::hashes::{CHECK_TEXT, HASHES, NAMES};
use super::TokenizerWarning;
use super::bpe::Tokenizer;
use super::files::Files;
use super::hf::TokenizerJson;
use super::keys::{PreSource, TokenizerOptions};
use super::pretokenize::kind;
use super::special::array;
use crate::folder_error::FolderError;

/// Determines the name for a tokenizer.
pub(crate) fn decide(
    folder: &Files<'_>,
    json: &TokenizerJson,
    tokenizer: &Tokenizer<'_>,
    options: &TokenizerOptions,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<(String, PreSource), FolderError> {
    if let Some(name) = &options.pre {
        if !NAMES.contains(&name.as_str()) {
            warnings.push(TokenizerWarning::UnknownPre(name.clone()));
        }
        return Ok((name.clone(), PreSource::Requested));
    }
    let hash = match tokenizer.encode(CHECK_TEXT) {
        Ok(ids) => Some(hash_of(&ids)),
        Err(e) => {
            warnings.push(TokenizerWarning::CheckText(e));
            None
        }
    };
    if let Some(name) = hash.as_deref().and_then(by_hash) {
        return Ok((name.to_owned(), PreSource::Hash(hash.unwrap_or_default())));
    }
    let steps = canonical(&json.pre_tokenizer);
    match by_definition(json, &steps) {
        Some(name) => Ok((name.to_owned(), PreSource::Definition { hash })),
        None => {
            let file = folder.dir.path().join("tokenizer.json");
            Err(FolderError::UnknownPre { file, hash, nearest: nearest(&steps) })
        }
    }
}

/// SHA-256 of the ids, formatted as a Python list.
fn hash_of(ids: &[u32]) -> String {
    let list = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut hex = String::new();
    for byte in Sha256::digest(format!("[{list}]")) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn by_hash(hash: &str) -> Option<&'static str> {
    HASHES.iter().find(|(_, h)| *h == hash).map(|(name, _)| *name)
}

fn by_definition(json: &TokenizerJson, steps: &[String]) -> Option<&'static str> {
    // llama.cpp splits all texts for WordPiece alike and ignores the name. This is the name for BERT's own vocabulary.
    if json.model.kind.as_deref() == Some("WordPiece") {
        return Some("jina-v2-en");
    }
    let nfc = match kind(&json.normalizer) {
        None if json.normalizer.is_null() => false,
        Some("NFC") => true,
        Some("Sequence") if array(json.normalizer.get("normalizers")).is_empty() => false,
        _ => return None,
    };
    let family = FAMILIES.iter().find(|f| f.steps == steps)?;
    Some(match json.model.ignore_merges {
        _ if nfc => family.nfc,
        Some(true) => family.name,
        _ => family.merging,
    })
}

/// How a tokenizer with a pre-tokenizer of some name is defined in `tokenizer.json`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    /// The pre-tokenizer.
    pub(crate) pre_tokenizer: Json,
    /// Whether texts are normalized to NFC.
    pub(crate) is_nfc: bool,
    /// Whether whole words are looked up before merging.
    pub(crate) ignores_merges: bool,
}

/// The definition for a value of `tokenizer.ggml.pre`; `None` if none is known.
pub(crate) fn definition(name: &str) -> Option<Definition> {
    let alias = families::ALIASES.iter().find(|(other, _)| *other == name).map_or(name, |(_, family)| family);
    let family = FAMILIES.iter().find(|f| [f.name, f.nfc, f.merging].contains(&alias))?;
    let steps: Vec<Json> = family.steps.iter().map(|step| step_of(step)).collect::<Option<_>>()?;
    let pre_tokenizer = match <[Json; 1]>::try_from(steps) {
        Ok([step]) => step,
        Err(steps) => serde_json::json!({ "type": "Sequence", "pretokenizers": steps }),
    };
    let is_nfc = family.nfc == alias && family.nfc != family.name || families::NFC.contains(&alias);
    Some(Definition { pre_tokenizer, is_nfc, ignores_merges: family.merging != family.name && alias == family.name })
}

/// A step of a family as in `tokenizer.json`: the inverse of [`canonical`].
fn step_of(step: &str) -> Option<Json> {
    use serde_json::json;
    let (name, value) = match step.strip_suffix(')').and_then(|step| step.split_once('(')) {
        Some((name, value)) => (name, Some(value)),
        None => (step, None),
    };
    Some(match (name, value) {
        ("bytes" | "bytes+gpt2", None) => {
            let uses_regex = name == "bytes+gpt2";
            json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": uses_regex })
        }
        ("digits", Some(how)) => json!({ "type": "Digits", "individual_digits": how == "one" }),
        ("punctuation", Some(behavior)) => json!({ "type": "Punctuation", "behavior": behavior }),
        ("split", Some(pattern)) => {
            let regex = pattern.strip_prefix('/')?.strip_suffix('/')?;
            json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false })
        }
        _ => return None,
    })
}

/// The steps of a pre-tokenizer in canonical form: sequences flattened, settings that only affect offsets removed, and line ends in patterns
/// escaped.
fn canonical(pre_tokenizer: &Json) -> Vec<String> {
    let mut steps = Vec::new();
    flatten(pre_tokenizer, &mut steps, 0);
    steps
}

fn flatten(step: &Json, out: &mut Vec<String>, depth: u32) {
    let is = |name: &str, default: bool| step.get(name).and_then(Json::as_bool).unwrap_or(default);
    let behavior = step.get("behavior").and_then(Json::as_str).unwrap_or("Isolated");
    match kind(step) {
        None => {}
        Some("Sequence") if depth < 16 => {
            for step in array(step.get("pretokenizers")) {
                flatten(step, out, depth + 1);
            }
        }
        Some("ByteLevel") => {
            let space = if is("add_prefix_space", true) { "+space" } else { "" };
            let gpt2 = if is("use_regex", true) { "+gpt2" } else { "" };
            out.push(format!("bytes{space}{gpt2}"));
        }
        Some("Digits") => {
            out.push(if is("individual_digits", false) { "digits(one)" } else { "digits(run)" }.to_owned());
        }
        Some("Punctuation") => out.push(format!("punctuation({behavior})")),
        Some("Split") => {
            let pattern = step.get("pattern").unwrap_or(&Json::Null);
            let text = |key: &str| pattern.get(key).and_then(Json::as_str);
            let pattern = match (text("Regex"), text("String")) {
                (Some(regex), _) => {
                    format!("/{}/", regex.replace('\r', "\\r").replace('\n', "\\n").replace('\t', "\\t"))
                }
                (None, text) => format!("{:?}", text.unwrap_or("")),
            };
            let how = match (behavior, is("invert", false)) {
                ("Isolated", false) => String::new(),
                // Isolating the matches or the text between them is equivalent.
                ("Isolated", true) => String::new(),
                (behavior, invert) => format!(", {behavior}{}", if invert { ", inverted" } else { "" }),
            };
            out.push(format!("split({pattern}{how})"));
        }
        Some(other) => out.push(other.to_owned()),
    }
}

/// Up to three families with the most similar definitions, by the share of common 4-grams.
fn nearest(steps: &[String]) -> Vec<&'static str> {
    let runs = |text: &str| {
        let chars: Vec<char> = text.chars().collect();
        chars.windows(4).map(<[char]>::to_vec).collect::<HashSet<_>>()
    };
    let own = runs(&steps.join(" "));
    let mut similar: Vec<(usize, &str)> = Vec::new();
    for family in &FAMILIES {
        let other = runs(&family.steps.join(" "));
        let (common, all) = (own.intersection(&other).count(), own.union(&other).count());
        similar.push((common * 100 / all.max(1), family.name));
    }
    similar.retain(|(score, _)| *score >= 20);
    similar.compact_sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    similar.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sound() {
        let hashes: HashSet<&str> = HASHES.iter().map(|(_, hash)| *hash).collect();
        assert_eq!(hashes.len(), HASHES.len());
        assert!(hashes.iter().all(|h| h.len() == 64 && h.bytes().all(|b| b.is_ascii_hexdigit())));
        for family in &FAMILIES {
            for name in [family.name, family.nfc, family.merging] {
                assert!(NAMES.contains(&name), "{name}");
            }
            assert_eq!(FAMILIES.iter().find(|f| f.steps == family.steps).map(|f| f.name), Some(family.name));
        }
    }

    #[test]
    fn ids_are_hashed_as_python_writes_them() {
        // hashlib.sha256(str([1, 22, 333]).encode()).hexdigest()
        assert_eq!(hash_of(&[1, 22, 333]), "276d8737d9d5a80805e0731e8d5ae18972a8e3ba721f4988f67151c6e9159068");
        assert_eq!(hash_of(&[]), "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945");
        assert_eq!(CHECK_TEXT.chars().count(), 350);
    }
}
