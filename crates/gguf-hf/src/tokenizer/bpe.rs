//! An encoder that returns the same ids as Hugging Face's `tokenizers` library, limited to the needs of conversion: the vocabulary with the
//! tokens added by the configuration, the encoding of one text with special tokens (whose hash identifies the pre-tokenizer), and the text of a
//! token.
//!
//! It follows `AddedVocabulary` and `BPE` of that library (0.22), and the initialization of `PreTrainedTokenizerFast` in `transformers` (4.57),
//! which adds tokens from the settings (see [`super::class`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gguf_model::tokenizer::char_byte;
use serde_json::Value as Json;

use super::class::Settings;
use super::files::Files;
use super::hf::{AddedToken, TokenizerJson};
use super::pretokenize::{self, MAX_TEXT, Piece, kind};
use super::special::array;
use super::{Stage, StepProblem, TokenizerWarning, bert};
use crate::config::shortened;
use crate::folder_error::FolderError;

/// A loaded tokenizer.
pub(crate) struct Tokenizer<'a> {
    json: &'a TokenizerJson,
    /// The model's own vocabulary.
    base: HashMap<&'a str, u32>,
    added: Added,
    settings: Settings,
}

/// The added tokens. Adding a token again replaces its flags, but not the way it is matched.
#[derive(Default)]
struct Added {
    ids: HashMap<String, u32>,
    by_id: BTreeMap<u32, AddedToken>,
    /// Text, and whether it is matched against the normalized text.
    patterns: Vec<(String, bool)>,
}

impl<'a> Tokenizer<'a> {
    pub(crate) fn new(
        folder: &Files<'_>,
        json: &'a TokenizerJson,
        warnings: &mut Vec<TokenizerWarning>,
    ) -> Result<Tokenizer<'a>, FolderError> {
        let base: HashMap<&str, u32> = json.model.vocab.0.iter().map(|(token, id)| (token.as_str(), *id)).collect();
        let settings = Settings::read(folder, &json.added_tokens)?;
        let mut tokenizer = Tokenizer { json, base, added: Added::default(), settings };
        tokenizer.add(&json.added_tokens);
        for token in &json.added_tokens {
            let Some(&position) = tokenizer.added.ids.get(&token.content) else { continue };
            if token.id.as_u64() != Some(u64::from(position)) {
                let (token, id) = (token.content.clone(), shortened(&token.id));
                warnings.push(TokenizerWarning::Position { token, id, position });
            }
        }
        let added = std::mem::take(&mut tokenizer.settings.added);
        tokenizer.add(&added);
        Ok(tokenizer)
    }

    /// Adds tokens. Tokens in the vocabulary keep their id; others get consecutive ids from the end.
    fn add(&mut self, tokens: &[AddedToken]) {
        let base_len = u32::try_from(self.base.len()).unwrap_or(u32::MAX);
        let after = self.added.by_id.keys().next_back().map_or(0, |max| max.saturating_add(1));
        let mut next = base_len.max(after);
        let mut existing: HashSet<_> = self.added.by_id.values().map(AddedToken::identity).collect();
        for token in tokens {
            if token.content.is_empty() || !existing.insert(token.identity()) {
                continue;
            }
            let known = self.id(&token.content);
            let id = known.unwrap_or(next);
            if known.is_none() {
                next = next.saturating_add(1);
            }
            if !self.added.ids.contains_key(&token.content) {
                self.added.patterns.push((token.content.clone(), token.normalized()));
            }
            self.added.ids.insert(token.content.clone(), id);
            self.added.by_id.insert(id, token.clone());
        }
    }

    /// The id of a token.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        self.added.ids.get(token).or_else(|| self.base.get(token)).copied()
    }

    /// All tokens and their ids. If an added token has the id of a token in the vocabulary, the latter comes last.
    pub(crate) fn vocab(&self) -> impl Iterator<Item = (&str, u32)> {
        let base = self.json.model.vocab.0.iter().map(|(token, id)| (token.as_str(), *id));
        self.added.by_id.iter().map(|(id, token)| (token.content.as_str(), *id)).chain(base)
    }

    /// The added tokens, ordered by id.
    pub(crate) fn added(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.added.by_id.iter().map(|(id, token)| (*id, token))
    }

    /// The added token with this id and text.
    pub(crate) fn added_token(&self, id: u32, text: &str) -> Option<&AddedToken> {
        self.added.by_id.get(&id).filter(|token| token.content == text)
    }

    /// The ids of the special tokens in the configuration.
    pub(crate) fn special_ids(&self) -> BTreeSet<u32> {
        self.settings.specials.iter().filter_map(|(_, text)| self.id(text)).collect()
    }

    /// Encodes a text, including the special tokens of the post-processor.
    ///
    /// # Errors
    /// If a step is not supported or fails.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, StepProblem> {
        let merges = Merges::new(self);
        let is_word_piece = self.json.model.kind.as_deref() == Some("WordPiece");
        let normalizer = self.normalizer();
        let mut ids = Vec::new();
        let mut first = true;
        for part in self.cut_added(text, false, |t| Ok(t.to_owned()))? {
            let text = match part {
                Part::Token(id) => {
                    ids.push(id);
                    first = false;
                    continue;
                }
                Part::Text(text) => pretokenize::normalize(&normalizer, &text, 0)?,
            };
            for part in self.cut_added(&text, true, |t| pretokenize::normalize(&normalizer, t, 0))? {
                match part {
                    Part::Token(id) => ids.push(id),
                    Part::Text(text) => {
                        for word in pretokenize::pre_tokenize(&self.pre_tokenizer(), vec![Piece { text, first }], 0)? {
                            match is_word_piece {
                                true => bert::encode(&self.json.model, &self.base, &word.text, &mut ids)?,
                                false => merges.encode(&word.text, &mut ids)?,
                            }
                        }
                    }
                }
                first = false;
            }
        }
        self.post_process(ids)
    }

    fn normalizer(&self) -> Json {
        let mut step = self.json.normalizer.clone();
        if let (Some("BertNormalizer"), Some(settings)) = (kind(&step), &self.settings.normalizer)
            && let Some(step) = step.as_object_mut()
        {
            step.extend(settings.clone());
        }
        step
    }

    fn pre_tokenizer(&self) -> Json {
        let mut step = self.json.pre_tokenizer.clone();
        let add = self.settings.add_prefix_space.filter(|_| kind(&step) == Some("ByteLevel"));
        if let (Some(add), Some(step)) = (add, step.as_object_mut()) {
            step.insert("add_prefix_space".to_owned(), add.into());
        }
        step
    }

    /// Splits a text at the added tokens that are matched against the normalized text (or at the others). The leftmost match takes precedence,
    /// then the longest.
    fn cut_added(
        &self,
        text: &str,
        normalized: bool,
        normalize: impl Fn(&str) -> Result<String, StepProblem>,
    ) -> Result<Vec<Part>, StepProblem> {
        let mut patterns: HashMap<String, u32> = HashMap::new();
        let mut lengths = BTreeSet::new();
        for (pattern, _) in self.added.patterns.iter().filter(|(_, n)| *n == normalized) {
            let Some(id) = self.id(pattern).filter(|_| pattern.len() <= MAX_TEXT) else { continue };
            let pattern = normalize(pattern)?;
            // A pattern longer than the text cannot match.
            if !pattern.is_empty() && pattern.len() <= text.len() {
                lengths.insert(pattern.len());
                patterns.entry(pattern).or_insert(id);
            }
        }
        let mut parts = Vec::new();
        let (mut done, mut at) = (0, 0);
        while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
            let hit = lengths.iter().rev().find_map(|&n| Some((*patterns.get(rest.get(..n)?)?, at + n)));
            let Some((id, mut end)) = hit else {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let (before, after) = (text.get(done..at).unwrap_or(""), text.get(end..).unwrap_or(""));
            let all_before = text.get(..at).unwrap_or("");
            let token = self.added.by_id.get(&id);
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            at = end;
            let inside = is_word(all_before.chars().next_back()) || is_word(after.chars().next());
            if token.is_some_and(|t| t.single_word) && inside {
                continue;
            }
            let before = if token.is_some_and(|t| t.lstrip) { before.trim_end() } else { before };
            if token.is_some_and(|t| t.rstrip) {
                end += after.len() - after.trim_start().len();
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Token(id));
            done = end;
            at = at.max(end);
        }
        if let Some(rest) = text.get(done..).filter(|r| !r.is_empty()) {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(parts)
    }

    fn post_process(&self, ids: Vec<u32>) -> Result<Vec<u32>, StepProblem> {
        let Some((bos, eos)) = &self.settings.around else {
            return post_process(&self.json.post_processor, ids, 0);
        };
        // A missing token is replaced by the unknown token.
        let unk = self.settings.specials.iter().find(|(k, _)| *k == "unk").and_then(|(_, text)| self.id(text));
        let id = |token: &Option<String>| token.as_deref().and_then(|t| self.id(t).or(unk));
        Ok(id(bos).into_iter().chain(ids).chain(id(eos)).collect())
    }

    /// Decodes a single token with the decoder of the file.
    pub(crate) fn decode(&self, token: &str) -> Result<String, StepProblem> {
        if self.json.decoder.is_null() {
            return Ok(token.to_owned());
        }
        let mut text = token.to_owned();
        decode(&self.json.decoder, &mut text, 0)?;
        Ok(text)
    }
}

enum Part {
    Text(String),
    Token(u32),
}

/// Adds the special tokens of a post-processor.
fn post_process(step: &Json, ids: Vec<u32>, depth: u32) -> Result<Vec<u32>, StepProblem> {
    let pair_id = |key: &str| {
        let id = step.get(key).and_then(|t| t.get(1)).and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| StepProblem::PostProcessorToken(key.to_owned()))
    };
    match kind(step) {
        None if step.is_null() => Ok(ids),
        Some("ByteLevel") => Ok(ids),
        Some("BertProcessing" | "RobertaProcessing") => {
            Ok([pair_id("cls")?].into_iter().chain(ids).chain([pair_id("sep")?]).collect())
        }
        Some("TemplateProcessing") => {
            let mut out = Vec::new();
            for part in array(step.get("single")) {
                if part.get("Sequence").is_some() {
                    out.extend(&ids);
                } else if let Some(name) = part.get("SpecialToken").and_then(|t| t.get("id")).and_then(Json::as_str) {
                    let token = step.get("special_tokens").and_then(|t| t.get(name));
                    for id in array(token.and_then(|t| t.get("ids"))) {
                        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                        out.push(id.ok_or_else(|| StepProblem::PostProcessorToken(name.to_owned()))?);
                    }
                }
            }
            Ok(out)
        }
        Some("Sequence") if depth < 16 => {
            array(step.get("processors")).iter().try_fold(ids, |ids, step| post_process(step, ids, depth + 1))
        }
        other => Err(StepProblem::unknown(Stage::PostProcessor, other)),
    }
}

/// Applies a decoder to one token.
fn decode(step: &Json, text: &mut String, depth: u32) -> Result<(), StepProblem> {
    let field = |name: &str| step.get(name).and_then(Json::as_str).unwrap_or("");
    match kind(step) {
        Some("ByteLevel") => {
            // A token represents bytes only if all of its characters do.
            if let Some(bytes) = text.chars().map(char_byte).collect::<Option<Vec<u8>>>() {
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
        Some("Replace") => {
            let pattern = step.get("pattern").and_then(|p| p.get("String")).and_then(Json::as_str);
            match pattern.filter(|p| !p.is_empty()) {
                Some(pattern) => {
                    let added = text.matches(pattern).count().saturating_mul(field("content").len());
                    if added > most(text) {
                        return Err(StepProblem::LongToken);
                    }
                    *text = text.replace(pattern, field("content"));
                }
                None => return Err(StepProblem::DecoderPattern),
            }
        }
        Some("ByteFallback") => {
            let hex = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>')).filter(|h| h.len() == 2);
            if let Some(byte) = hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
                *text = String::from_utf8_lossy(&[byte]).into_owned();
            }
        }
        Some("WordPiece") => {
            // For a single token, only the cleanup has an effect.
            if step.get("cleanup").and_then(Json::as_bool).unwrap_or(true) {
                *text = clean_up_pieces(text);
            }
        }
        Some("Fuse") => {}
        Some("Strip") => {
            let count = |name: &str| step.get(name).and_then(Json::as_u64).unwrap_or(0);
            let content = field("content").chars().next();
            for _ in 0..count("start").min(text.len() as u64) {
                if text.chars().next() == content {
                    text.drain(..content.map_or(0, char::len_utf8));
                }
            }
            for _ in 0..count("stop").min(text.len() as u64) {
                if text.chars().next_back() == content {
                    text.pop();
                }
            }
        }
        Some("Metaspace") => {
            let mark =
                step.get("replacement").and_then(Json::as_str).and_then(|r| r.chars().next()).unwrap_or('\u{2581}');
            let keep = step.get("prepend_scheme").and_then(Json::as_str) == Some("never");
            *text = if keep { text.replace(mark, " ") } else { text.replace(mark, "") };
        }
        Some("Sequence") if depth < 16 => {
            let most = most(text);
            for step in array(step.get("decoders")) {
                decode(step, text, depth + 1)?;
                if text.len() > most {
                    return Err(StepProblem::LongToken);
                }
            }
        }
        other => return Err(StepProblem::unknown(Stage::Decoder, other)),
    }
    Ok(())
}

/// The maximum length of the decoded text. Decoders in use lengthen a text only by replacement characters.
fn most(text: &str) -> usize {
    text.len().saturating_mul(4).saturating_add(64)
}

/// Applies `clean_up_tokenization_spaces` to a decoded text.
pub(crate) fn clean_up(text: &str) -> String {
    [" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"]
        .iter()
        .fold(text.to_owned(), |text, found| text.replace(found, found.trim()))
}

/// Applies the cleanup of the WordPiece decoder.
fn clean_up_pieces(text: &str) -> String {
    const WORDS: [(&str, &str); 11] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    WORDS.iter().fold(text.to_owned(), |text, (found, put)| text.replace(found, put))
}

/// The merges by the ids of their parts: rank and resulting id.
struct Merges<'t, 'a> {
    tokenizer: &'t Tokenizer<'a>,
    ranks: HashMap<(u32, u32), (u32, u32)>,
}

impl<'t, 'a> Merges<'t, 'a> {
    fn new(tokenizer: &'t Tokenizer<'a>) -> Merges<'t, 'a> {
        let model = &tokenizer.json.model;
        let prefix = model.continuing_subword_prefix.as_deref().unwrap_or("");
        let mut ranks = HashMap::with_capacity(tokenizer.json.merges().len());
        let base = |token: &str| tokenizer.base.get(token).copied();
        for (rank, (left, right)) in (0u32..).zip(tokenizer.json.merges()) {
            let merged = format!("{left}{}", right.strip_prefix(prefix).unwrap_or(right));
            // A merge with a token outside of the vocabulary is unreachable.
            if let (Some(left), Some(right), Some(merged)) = (base(left), base(right), base(&merged)) {
                ranks.insert((left, right), (rank, merged));
            }
        }
        Merges { tokenizer, ranks }
    }

    /// Appends the ids of a word.
    fn encode(&self, word: &str, ids: &mut Vec<u32>) -> Result<(), StepProblem> {
        let base = &self.tokenizer.base;
        let whole = base.get(word).filter(|_| self.tokenizer.json.model.ignore_merges == Some(true));
        if let Some(id) = whole {
            ids.push(*id);
            return Ok(());
        }
        let mut symbols = self.symbols(word)?;
        // Merges the pair with the lowest rank, leftmost first, until none is left. Words are short.
        loop {
            let pairs = symbols.iter().zip(symbols.iter().skip(1)).enumerate();
            let ranked = pairs.filter_map(|(i, (l, r))| self.ranks.get(&(*l, *r)).map(|(rank, id)| (*rank, i, *id)));
            let Some((_, at, id)) = ranked.min() else { break };
            if let Some(symbol) = symbols.get_mut(at) {
                *symbol = id;
            }
            symbols.remove(at + 1);
        }
        ids.append(&mut symbols);
        Ok(())
    }

    /// The ids of the characters of a word; a character that is not a token becomes its byte tokens or the unknown token.
    fn symbols(&self, word: &str) -> Result<Vec<u32>, StepProblem> {
        let (base, model) = (&self.tokenizer.base, &self.tokenizer.json.model);
        let mut symbols = Vec::new();
        let mut unknown_before = false;
        let mut chars = word.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            let mut symbol = c.to_string();
            if i > 0 {
                symbol.insert_str(0, model.continuing_subword_prefix.as_deref().unwrap_or(""));
            }
            if chars.peek().is_none() {
                symbol.push_str(model.end_of_word_suffix.as_deref().unwrap_or(""));
            }
            if let Some(id) = base.get(symbol.as_str()) {
                symbols.push(*id);
                unknown_before = false;
                continue;
            }
            if model.byte_fallback == Some(true) {
                let bytes = symbol.bytes().map(|b| base.get(format!("<0x{b:02X}>").as_str()).copied());
                if let Some(bytes) = bytes.collect::<Option<Vec<u32>>>() {
                    symbols.extend(bytes);
                    continue;
                }
            }
            if let Some(unk) = &model.unk_token {
                let id = base.get(unk.as_str()).ok_or_else(|| StepProblem::UnknownToken(unk.clone()))?;
                if !(unknown_before && model.fuse_unk == Some(true)) {
                    symbols.push(*id);
                }
                unknown_before = true;
            }
        }
        Ok(symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::Documents;
    use serde_json::json;

    /// Encodes a text with this model (over defaults), these added tokens and this normalizer.
    fn encode(model: Json, added: Json, normalizer: Json, text: &str) -> Vec<u32> {
        let mut json = json!({"added_tokens": added, "normalizer": normalizer, "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "cab": 6, "<unk>": 7, "é": 8, "##b": 9, "a##b": 10,
                "c</w>": 11, "<0xC3>": 12, "<0xBC>": 13, "x y": 14, " ": 15},
            "merges": [["b", "c"], ["a", "b"], ["a", "bc"]],
        }});
        for (key, value) in model.as_object().into_iter().flatten() {
            json["model"][key] = value.clone();
        }
        let tokenizer: TokenizerJson = serde_json::from_value(json).unwrap();
        let empty = crate::folder::MemoryFolder::default();
        let documents = Documents::new(&empty);
        let folder = Files::open(&documents).unwrap();
        Tokenizer::new(&folder, &tokenizer, &mut Vec::new()).unwrap().encode(text).unwrap()
    }

    #[test]
    fn encodes_as_the_library_does() {
        // Expected: tokenizers 0.22.2.
        let unk = json!({"unk_token": "<unk>"});
        let fuse = json!({"unk_token": "<unk>", "fuse_unk": true});
        let fallback = json!({"unk_token": "<unk>", "byte_fallback": true});
        let suffix = json!({"end_of_word_suffix": "</w>", "merges": []});
        let prefix = json!({"continuing_subword_prefix": "##", "merges": [["a", "##b"]],
            "vocab": {"a": 0, "##b": 1, "ab": 2, "##a": 3}});
        let cases: &[(&Json, &str, &[u32])] = &[
            (&Json::Null, "abc", &[5]),
            (&Json::Null, "abab", &[3, 3]),
            (&Json::Null, "cab", &[2, 3]),
            (&Json::Null, "aüb", &[3]),
            (&Json::Null, "", &[]),
            (&json!({"ignore_merges": true}), "cab", &[6]),
            (&json!({"ignore_merges": true}), "abcab", &[5, 3]),
            (&unk, "aüüb", &[0, 7, 7, 1]),
            (&fuse, "aüüb", &[0, 7, 1]),
            (&fallback, "aüb", &[0, 12, 13, 1]),
            (&fallback, "aßb", &[0, 7, 1]),
            (&suffix, "acc", &[0, 2, 11]),
            (&prefix, "ab", &[2]),
            (&prefix, "aba", &[2, 3]),
        ];
        for (model, text, expected) in cases {
            assert_eq!(encode((*model).clone(), json!([]), Json::Null, text), *expected, "{model} {text}");
        }
    }

    #[test]
    fn added_tokens_are_cut_out_first() {
        let token = |content: &str, flag: &str| json!({"content": content, "normalized": false, flag: true});
        let longest = json!([token("x", ""), token("xx", ""), token("ab", "")]);
        let strip = json!([token("<l>", "lstrip"), token("<r>", "rstrip")]);
        let word = json!([token("b", "single_word"), token("y", "single_word")]);
        let normal = json!([{"content": "Q", "normalized": true}, token("R", "")]);
        let lower = json!({"type": "Lowercase"});
        let cases: &[(&Json, &Json, &str, &[u32])] = &[
            (&longest, &Json::Null, "axxxb", &[0, 17, 16, 1]),
            (&longest, &Json::Null, "cabc", &[2, 3, 2]),
            (&strip, &Json::Null, "a  <l>  b", &[0, 16, 15, 15, 1]),
            (&strip, &Json::Null, "a  <r>  b", &[0, 15, 15, 17, 1]),
            (&strip, &Json::Null, " <l><l> ", &[16, 16, 15]),
            (&word, &Json::Null, "aya y", &[0, 0, 15, 16]),
            (&word, &Json::Null, "ay_y-y", &[0, 16]),
            (&normal, &lower, "aQbRqr", &[0, 16, 1, 17, 16]),
        ];
        for (added, normalizer, text, expected) in cases {
            assert_eq!(encode(Json::Null, (*added).clone(), (*normalizer).clone(), text), *expected, "{added} {text}");
        }
    }

    #[test]
    fn decoders_and_post_processors() {
        let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let llama =
            json!({"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]});
        for (decoder, token, text) in [
            (json!({"type": "ByteLevel"}), "Ġé", " \u{fffd}"),
            (json!({"type": "ByteLevel"}), "a é", "a é"),
            (json!({"type": "ByteLevel"}), "▁Ġ", "▁Ġ"),
            (json!({"type": "Metaspace", "replacement": "▁"}), "▁a", "a"),
            (json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}), "▁a", " a"),
            (llama.clone(), "▁a▁b", "a b"),
            (llama, "<0x41>", "A"),
        ] {
            let mut got = token.to_owned();
            decode(&decoder, &mut got, 0).unwrap();
            assert_eq!(got, text, "{decoder} {token}");
        }
        let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let bomb = json!({"type": "Sequence", "decoders": vec![double; 60]});
        assert!(decode(&bomb, &mut "a".to_owned(), 0).unwrap_err().to_string().contains("many times longer"));
        assert!(
            decode(&json!({"type": "CTC"}), &mut String::new(), 0).unwrap_err().to_string().contains("decoder CTC")
        );
        let roberta = json!({"type": "RobertaProcessing", "sep": ["s", 9], "cls": ["c", 8]});
        let template = json!({"type": "TemplateProcessing", "special_tokens": {"<s>": {"ids": [6, 7]}},
            "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]});
        let both = json!({"type": "Sequence", "processors": [roberta, template, {"type": "ByteLevel"}]});
        assert_eq!(post_process(&both, vec![1], 0).unwrap(), [6, 7, 8, 1, 9]);
        for (step, message) in [
            (json!({"type": "BertProcessing"}), "no valid id for the token \"cls\""),
            (json!({"type": "New"}), "post-processor New"),
        ] {
            assert!(post_process(&step, vec![1], 0).unwrap_err().to_string().contains(message), "{step}");
        }
        assert_eq!(clean_up("a . it 's n't ."), "a. it'sn't.");
    }
}
