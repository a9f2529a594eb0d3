//! `tokenizer.json`, the file format of Hugging Face's `tokenizers` library.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::super::key_values::short;
use super::{Vocab, spm};
use crate::json::field;
use crate::tokenizer::pre::{Definition, definition};
use crate::tokenizer::sentencepiece::piece_type;
use crate::tokenizer::vocab::is_visible;

/// Byte-level BPE.
///
/// # Errors
/// If no definition of the pre-tokenizer is known.
pub(super) fn bpe(vocab: &Vocab<'_>, merges: &[String], pre: &str) -> Result<Json, String> {
    let unknown = || format!("no definition is known of the pre-tokenizer {pre:?}");
    let Definition { pre_tokenizer, is_nfc, ignores_merges } = definition(pre).ok_or_else(unknown)?;
    let normalizer = if is_nfc { json!({ "type": "NFC" }) } else { Json::Null };
    let decoder = json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true });
    let model = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": false,
        "byte_fallback": false,
        "ignore_merges": ignores_merges,
        "vocab": ids(vocab),
        "merges": merges,
    });
    Ok(document(vocab, normalizer, pre_tokenizer, decoder, model))
}

/// BPE of characters, where those that are not in the vocabulary fall back to bytes, as Gemma 4 has it. The entries of the model end before
/// the first token that only an added one can be.
pub(super) fn byte_fallback(vocab: &Vocab<'_>, merges: &[String]) -> Json {
    let is_added = |id: &usize| vocab.kind(*id) == piece_type::USER_DEFINED && !is_visible(&spelling(vocab, *id));
    let n_own = (0..vocab.n_own()).find(is_added).unwrap_or(vocab.n_own());
    let entries = (0..n_own).map(|id| (spelling(vocab, id), json!(id))).collect();
    let split =
        json!({ "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious", "invert": false });
    of_characters(vocab, entries, merges, replaced(" ", "\u{2581}"), split, None)
}

/// BPE of characters, where those that are not in the vocabulary fall back to bytes, as Llama has it.
pub(super) fn pieces(vocab: &Vocab<'_>, merges: &[String]) -> Json {
    let spelled = |id: usize| if spelling(vocab, id) == ZERO_BYTE { "\0".to_owned() } else { spelling(vocab, id) };
    let entries = (0..vocab.n_own()).map(|id| (spelled(id), json!(id))).collect();
    let adds_space = vocab.flag("add_space_prefix") != Some(false);
    let scheme = if adds_space { "first" } else { "never" };
    let metaspace = json!({ "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": false });
    let strip = adds_space.then(|| json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    of_characters(vocab, entries, merges, Json::Null, metaspace, strip)
}

/// BPE of characters with byte fallback. `last` is a last step of the decoder.
fn of_characters(
    vocab: &Vocab<'_>,
    entries: Map<String, Json>,
    merges: &[String],
    normalizer: Json,
    pre_tokenizer: Json,
    last: Option<Json>,
) -> Json {
    let model = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": vocab.special("unknown").map_or("<unk>", |(_, text)| text),
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": true,
        "byte_fallback": true,
        "ignore_merges": false,
        "vocab": entries,
        "merges": merges,
    });
    let decoders = [replaced("\u{2581}", " "), json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })];
    let decoders: Vec<Json> = decoders.into_iter().chain(last).collect();
    let decoder = json!({ "type": "Sequence", "decoders": decoders });
    document(vocab, normalizer, pre_tokenizer, decoder, model)
}

/// A step that replaces a text.
fn replaced(from: &str, to: &str) -> Json {
    json!({ "type": "Replace", "pattern": { "String": from }, "content": to })
}

/// The most steps of the search for merges.
const MAX_STEPS: u64 = 1 << 26;

/// All pairs of pieces whose concatenation is a piece, as transformers derives them from a SentencePiece model: in the order of the ids, for
/// each the longest first part first. Runs of spaces follow, which have the lowest scores in the models of Llama. `None` if there are too
/// many.
pub(super) fn merges(pieces: &[(&str, u32)]) -> Option<Vec<String>> {
    let steps = pieces.iter().map(|(text, _)| (text.len() as u64).saturating_pow(2));
    if steps.fold(0, u64::saturating_add) > MAX_STEPS {
        return None;
    }
    let ids: HashMap<&str, u32> = pieces.iter().copied().collect();
    let mut pairs = Vec::new();
    for (text, id) in pieces {
        let is_spaces = text.chars().all(|c| c == '\u{2581}');
        for (middle, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(middle);
            if ids.contains_key(left) && ids.contains_key(right) {
                let place = if is_spaces { 0 } else { *id };
                pairs.push((is_spaces, place, Reverse((left.chars().count(), right.chars().count())), left, right));
            }
        }
    }
    pairs.sort_unstable();
    Some(pairs.into_iter().map(|(.., left, right)| format!("{left} {right}")).collect())
}

/// The spelling of the zero byte in files of XVERSE, of which the entry is the byte itself.
const ZERO_BYTE: &str = "<b'\\x00'>";

/// WordPiece.
///
/// # Errors
/// If the file names no unknown token.
pub(super) fn word_piece(vocab: &Vocab<'_>) -> Result<Json, String> {
    let (_, unknown) = vocab.special("unknown").ok_or("the unknown token is missing")?;
    let lowercase = vocab.flag("normalizer.lowercase").unwrap_or(true);
    let normalizer = json!({
        "type": "BertNormalizer",
        "clean_text": true,
        "handle_chinese_chars": true,
        "strip_accents": vocab.flag("normalizer.strip_accents"),
        "lowercase": lowercase,
    });
    let model = json!({
        "type": "WordPiece",
        "unk_token": unknown,
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": ids(vocab),
    });
    let decoder = json!({ "type": "WordPiece", "prefix": "##", "cleanup": true });
    Ok(document(vocab, normalizer, json!({ "type": "BertPreTokenizer" }), decoder, model))
}

/// The vocabulary of WordPiece as text.
pub(super) fn vocab_txt(vocab: &Vocab<'_>) -> Vec<u8> {
    let mut text = String::new();
    for id in 0..vocab.n_own() {
        text.push_str(&spelling(vocab, id));
        text.push('\n');
    }
    text.into_bytes()
}

/// Unigram.
pub(super) fn unigram(vocab: &Vocab<'_>) -> Json {
    let n = vocab.n_own();
    let pieces: Vec<Json> = (0..n).map(|id| json!([vocab.tokens.get(id), short(vocab.score(id))])).collect();
    let unknown = (0..n).find(|id| vocab.kind(*id) == piece_type::UNKNOWN);
    let map = spm::charsmap(vocab.gguf);
    let mut steps = Vec::new();
    if !map.is_empty() {
        steps.push(json!({ "type": "Precompiled", "precompiled_charsmap": base64(&map) }));
    }
    if vocab.flag("remove_extra_whitespaces") != Some(false) {
        steps.push(json!({ "type": "Strip", "strip_left": false, "strip_right": true }));
        steps.push(json!({ "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": "\u{2581}" }));
    }
    let scheme = if vocab.flag("add_space_prefix") == Some(false) { "never" } else { "always" };
    let metaspace = json!({ "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": true });
    let normalizer = json!({ "type": "Sequence", "normalizers": steps });
    let model = json!({ "type": "Unigram", "unk_id": unknown, "vocab": pieces, "byte_fallback": false });
    document(vocab, normalizer, metaspace.clone(), metaspace, model)
}

fn document(vocab: &Vocab<'_>, normalizer: Json, pre_tokenizer: Json, decoder: Json, model: Json) -> Json {
    let is_added = |id: &usize| vocab.is_special(*id) || vocab.kind(*id) == piece_type::USER_DEFINED;
    let added = |id: usize| {
        let mut token = json!({ "id": id });
        let flags = added_token(&spelling(vocab, id), vocab.is_special(id));
        if let (Some(token), Json::Object(flags)) = (token.as_object_mut(), flags) {
            token.extend(flags);
        }
        token
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": (0..vocab.n_own()).filter(is_added).map(added).collect::<Vec<Json>>(),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor(vocab),
        "decoder": decoder,
        "model": model,
    })
}

/// The tokens and their ids.
fn ids(vocab: &Vocab<'_>) -> Map<String, Json> {
    let own = (0..vocab.n_own()).filter(|id| !vocab.is_padding(*id));
    own.map(|id| (spelling(vocab, id), json!(id))).collect()
}

/// A token as in the file: WordPiece marks continuations, llama.cpp the starts of words.
fn spelling(vocab: &Vocab<'_>, id: usize) -> String {
    let text = vocab.tokens.get(id).map(String::as_str).unwrap_or_default();
    let is_word_piece = vocab.gguf.get_as::<&str>("tokenizer.ggml.model") == Ok("bert");
    match (is_word_piece && vocab.kind(id) == piece_type::NORMAL, text.strip_prefix('\u{2581}')) {
        (false, _) => text.to_owned(),
        (true, Some(word)) => word.to_owned(),
        (true, None) => format!("##{text}"),
    }
}

/// An added token with its flags.
pub(super) fn added_token(text: &str, is_special: bool) -> Json {
    json!({
        "content": text,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": !is_special,
        "special": is_special,
    })
}

/// Whether the post-processor says if the token of a kind is added to texts.
pub(super) fn is_stated(vocab: &Vocab<'_>, kind: &str) -> bool {
    let adds = vocab.adds(kind);
    match post_processor(vocab) {
        Json::Null => false,
        _ if kind == "sep" => true,
        document if *field(&document, "type") == "ByteLevel" => true,
        document => adds == Some(true) || *field(&document, "type") == "Sequence",
    }
}

/// The post-processor, which adds special tokens to texts.
fn post_processor(vocab: &Vocab<'_>) -> Json {
    let [bos, eos, sep] = ["bos", "eos", "sep"].map(|kind| vocab.adds(kind));
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true });
    let first = vocab.special("bos").filter(|_| bos == Some(true));
    let last = vocab.special("eos").filter(|_| eos == Some(true));
    if let (Some(first), Some(last), Some(true)) = (first, last, sep)
        && vocab.gguf.get_as::<&str>("tokenizer.ggml.model") == Ok("gpt2")
    {
        return json!({
            "type": "RobertaProcessing",
            "sep": [last.1, last.0],
            "cls": [first.1, first.0],
            "trim_offsets": true,
            "add_prefix_space": false,
        });
    }
    if first.is_none() && last.is_none() {
        let is_bytes = bos == Some(false) && eos == Some(false) && sep.is_none();
        return if is_bytes { bytes } else { Json::Null };
    }
    let token = |(_, text): (usize, &str), of: u8| json!({ "SpecialToken": { "id": text, "type_id": of } });
    let sequence = |id: &str, of: u8| json!({ "Sequence": { "id": id, "type_id": of } });
    let around = |id: &str, of: u8, has_first: bool| {
        let first = first.filter(|_| has_first).map(|first| token(first, of));
        let last = last.map(|last| token(last, of));
        first.into_iter().chain([sequence(id, of)]).chain(last).collect::<Vec<Json>>()
    };
    // Between two texts is what separates them.
    let is_encoder = vocab.gguf.get_as::<&str>("tokenizer.ggml.model") == Ok("bert");
    let again = sep.is_some() && !is_encoder && last.is_none();
    let pair = [around("A", 0, true), around("B", 1, again)].concat();
    let named = |(id, text): (usize, &str)| (text.to_owned(), json!({ "id": text, "ids": [id], "tokens": [text] }));
    let special: Map<String, Json> = first.into_iter().chain(last).map(named).collect();
    let template = json!({
        "type": "TemplateProcessing",
        "single": around("A", 0, true),
        "pair": pair,
        "special_tokens": special,
    });
    // Bytes that are processed before say that nothing is added at the other end.
    let place = |kind: &str| {
        vocab.gguf.kvs().position(|kv| kv.key.as_bytes() == format!("tokenizer.ggml.add_{kind}_token").as_bytes())
    };
    match (last, eos) {
        (None, Some(false)) if sep.is_none() || place("eos") < place("sep") => {
            json!({ "type": "Sequence", "processors": [bytes, template] })
        }
        _ => template,
    }
}

/// Base64 in the standard alphabet, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for (i, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = DIGITS.get((bits >> shift & 63) as usize).copied().unwrap_or(b'=');
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_in_the_order_that_transformers_gives_them() {
        // `generate_merges` of transformers, with the ids as scores, and the lowest for runs of spaces.
        let pieces = ["\u{2581}\u{2581}", "\u{2581}t", "he", "\u{2581}th", "\u{2581}the", "\u{2581}", "t", "h", "e"];
        let pieces: Vec<(&str, u32)> = pieces.into_iter().zip(0..).collect();
        let found = merges(&pieces).unwrap();
        assert_eq!(found, ["\u{2581} t", "h e", "\u{2581}t h", "\u{2581}th e", "\u{2581}t he", "\u{2581} \u{2581}"]);
        assert_eq!(merges(&[("x".repeat(10_000).as_str(), 0)]), None);
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xfb\xff\xbf", "+/+/")]
        {
            assert_eq!(base64(bytes), text);
        }
    }
}
