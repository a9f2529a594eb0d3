//! `tokenizer.json`, the file format of Hugging Face's `tokenizers` library: the model's vocabulary and merges, and the added tokens. Fields
//! that are irrelevant to GGUF are skipped.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use crate::json;

/// The maximum vocabulary size; the largest in use has some 260,000 tokens.
pub(crate) const MAX_VOCAB: u64 = 1 << 21;

/// The maximum number of tokens in a vocabulary, and of merges. The largest in use have some 260,000 and 520,000.
const MAX_TOKENS: usize = 1 << 20;
pub(crate) const MAX_MERGES: usize = 1 << 20;

/// The maximum number of added tokens. The largest vocabularies in use have some thousands.
pub(crate) const MAX_ADDED: usize = 1 << 17;

/// The maximum number of JSON values in a normalizer or similar component, including all its steps.
const MAX_STEPS: usize = 20_000;

/// A parsed `tokenizer.json`.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct TokenizerJson {
    #[serde(default, deserialize_with = "json::list::<MAX_ADDED, _, _>")]
    pub(crate) added_tokens: Vec<AddedToken>,
    #[serde(default, deserialize_with = "json::bounded::<MAX_STEPS, _>")]
    pub(crate) normalizer: Json,
    #[serde(default, deserialize_with = "json::bounded::<MAX_STEPS, _>")]
    pub(crate) pre_tokenizer: Json,
    #[serde(default, deserialize_with = "json::bounded::<MAX_STEPS, _>")]
    pub(crate) post_processor: Json,
    #[serde(default, deserialize_with = "json::bounded::<MAX_STEPS, _>")]
    pub(crate) decoder: Json,
    pub(crate) model: Model,
}

/// An added token, which is matched before the model's vocabulary and may be outside of it.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub(crate) struct AddedToken {
    /// The id in the file; the library assigns its own, see [`super::bpe`].
    #[serde(default, deserialize_with = "json::bounded::<100, _>")]
    pub(crate) id: Json,
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) single_word: bool,
    #[serde(default)]
    pub(crate) lstrip: bool,
    #[serde(default)]
    pub(crate) rstrip: bool,
    /// Whether it is matched against the normalized text; by default, unless it is special.
    #[serde(default)]
    normalized: Option<bool>,
    #[serde(default)]
    pub(crate) special: bool,
}

impl AddedToken {
    /// A plain added token.
    pub(crate) fn new(content: &str, special: bool) -> AddedToken {
        let (single_word, lstrip, rstrip) = (false, false, false);
        AddedToken {
            id: Json::Null,
            content: content.to_owned(),
            single_word,
            lstrip,
            rstrip,
            normalized: None,
            special,
        }
    }

    /// Sets whether it is special, without changing how it is matched.
    pub(crate) fn set_special(&mut self, special: bool) {
        self.normalized = Some(self.normalized());
        self.special = special;
    }

    /// Whether it is matched against the normalized text.
    pub(crate) fn normalized(&self) -> bool {
        self.normalized.unwrap_or(!self.special)
    }

    /// Text and flags; tokens with equal values are the same token.
    pub(crate) fn identity(&self) -> (String, [bool; 5]) {
        (self.content.clone(), [self.single_word, self.lstrip, self.rstrip, self.normalized(), self.special])
    }
}

/// The model of a tokenizer.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Model {
    /// `BPE`, `WordPiece`, `Unigram` …; old files leave it out.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) unk_token: Option<String>,
    #[serde(default)]
    pub(crate) fuse_unk: Option<bool>,
    #[serde(default)]
    pub(crate) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(crate) ignore_merges: Option<bool>,
    #[serde(default)]
    pub(crate) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(crate) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(crate) max_input_chars_per_word: Option<usize>,
    /// The id of the unknown token of a Unigram model.
    #[serde(default, deserialize_with = "present")]
    unk_id: Option<Json>,
    #[serde(default)]
    pub(crate) vocab: Vocab,
    #[serde(default, deserialize_with = "json::list::<MAX_MERGES, _, _>")]
    merges: Vec<Merge>,
}

impl TokenizerJson {
    /// Whether the file lists a token, in its vocabulary or among the added ones.
    pub(crate) fn has(&self, token: &str) -> bool {
        self.added_tokens.iter().any(|t| t.content == token) || self.model.vocab.0.iter().any(|(t, _)| t == token)
    }

    /// The id of the unknown token of a Unigram model; 3 by default.
    pub(crate) fn unknown_id(&self) -> Option<u64> {
        match &self.model.unk_id {
            None => Some(3),
            Some(id) => id.as_u64(),
        }
    }

    /// The merges as pairs of parts, in order of rank.
    pub(crate) fn merges(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.model.merges.iter().map(|m| m.text.split_at_checked(m.cut).unwrap_or((&m.text, "")))
    }
}

/// The vocabulary of a model: token and id, in file order. In Unigram models it is a list of tokens and scores, and ids are positions in the
/// list.
#[derive(Debug, Default)]
pub(crate) struct Vocab(pub(crate) Vec<(String, u32)>, pub(crate) Vec<f64>);

impl Vocab {
    /// Whether it is a list of tokens and scores.
    pub(crate) fn is_list(&self) -> bool {
        !self.1.is_empty()
    }

    /// The number of entries of a list, or of different tokens of an object.
    pub(crate) fn n_tokens(&self) -> u64 {
        match self.is_list() {
            true => self.0.len() as u64,
            false => self.0.iter().map(|(token, _)| token).collect::<HashSet<_>>().len() as u64,
        }
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Vocab, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Vocab;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: an object of tokens and ids, or a list of tokens and scores")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut vocab = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if vocab.len() == MAX_TOKENS {
                        return Err(de::Error::custom(format_args!("more than {MAX_TOKENS} tokens")));
                    }
                    vocab.push(entry);
                }
                Ok(Vocab(vocab, Vec::new()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((token, score)) = seq.next_element::<(String, f64)>()? {
                    let id = u32::try_from(vocab.0.len()).ok().filter(|id| u64::from(*id) < MAX_VOCAB);
                    vocab.0.push((token, id.ok_or_else(|| de::Error::custom("the vocabulary has too many tokens"))?));
                    vocab.1.push(score);
                }
                Ok(vocab)
            }
            fn visit_unit<E: de::Error>(self) -> Result<Vocab, E> {
                Ok(Vocab::default())
            }
        }
        d.deserialize_any(V)
    }
}

/// One merge: both parts in one string, and the offset of the second.
#[derive(Debug)]
struct Merge {
    text: Box<str>,
    cut: usize,
}

impl<'de> Deserialize<'de> for Merge {
    /// Accepts both forms: `"a b"`, and since 2024 `["a", "b"]`, whose parts may contain spaces.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Merge, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: \"a b\" or [\"a\", \"b\"]")
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<Merge, E> {
                match s.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => Ok(merge(left, right)),
                    _ => Err(E::custom(format_args!("the merge {s:?} does not have two parts"))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let left: String = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let right: String = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                match seq.next_element::<IgnoredAny>()? {
                    None => Ok(merge(&left, &right)),
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                }
            }
        }
        d.deserialize_any(V)
    }
}

fn merge(left: &str, right: &str) -> Merge {
    Merge { text: format!("{left}{right}").into(), cut: left.len() }
}

/// A value that may be null, which differs from absent.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(d).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_spellings_of_merges() {
        let json = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b", ["a b", "c"]]}}"#;
        let t: TokenizerJson = serde_json::from_str(json).unwrap();
        assert_eq!(t.merges().collect::<Vec<_>>(), [("a", "b"), ("a b", "c")]);
        assert_eq!(t.model.vocab.0, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
        assert!(t.added_tokens.is_empty());
    }

    #[test]
    fn refuses_what_is_no_merge_and_no_id() {
        for (model, message) in [
            (r#"{"merges": ["ab"]}"#, "does not have two parts"),
            (r#"{"merges": ["a b c"]}"#, "does not have two parts"),
            (r#"{"merges": [["a"]]}"#, "invalid length 1"),
            (r#"{"merges": [["a", "b", "c"]]}"#, "invalid length 3"),
            (r#"{"vocab": {"a": -1}}"#, "integer `-1`"),
            (r#"{"vocab": {"a": 4294967296}}"#, "integer `4294967296`"),
            (r#"{"vocab": 3}"#, "a vocabulary"),
        ] {
            let error = serde_json::from_str::<TokenizerJson>(&format!(r#"{{"model": {model}}}"#)).unwrap_err();
            assert!(error.to_string().contains(message), "{model}: {error}");
        }
    }

    #[test]
    fn a_unigram_vocabulary_is_a_list() {
        let json =
            r#"{"model": {"type": "Unigram", "vocab": [["a", -1.5], ["b", 0]], "merges": null}, "added_tokens": null}"#;
        let t: TokenizerJson = serde_json::from_str(json).unwrap();
        assert_eq!(t.model.vocab.0, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
        assert_eq!((t.model.vocab.1.as_slice(), t.unknown_id()), (&[-1.5, 0.0][..], Some(3)));
        for (id, expected) in [("7", Some(7)), ("null", None)] {
            let t: TokenizerJson = serde_json::from_str(&format!(r#"{{"model": {{"unk_id": {id}}}}}"#)).unwrap();
            assert_eq!(t.unknown_id(), expected, "{id}");
        }
        let wrong = serde_json::from_str::<TokenizerJson>(r#"{"model": {"vocab": [["a"]]}}"#).unwrap_err();
        assert!(wrong.to_string().contains("tuple of size 2"), "{wrong}");
    }
}
