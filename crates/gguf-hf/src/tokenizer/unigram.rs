//! Unigram vocabularies: T5, whose SentencePiece model has the ids of the tokens, and XLM-RoBERTa, whose ids are shifted by one behind four
//! tokens of its own.
//!
//! llama.cpp uses the name `t5` for both (`T5Model.set_vocab` in conversion/t5.py, `BertModel._xlmroberta_set_vocab` in conversion/bert.py).

use gguf_format::{Array, Value, ValueRef, ValueType};
use serde_json::Value as Json;

use super::bpe::Tokenizer;
use super::files::Files;
use super::hf::{MAX_VOCAB, TokenizerJson};
use super::sentencepiece::{self as spm, Specs, piece_type};
use super::special::{array, token_text, truthy};
use super::vocab::{self, NO_SCORE, TokenList};
use super::{TokenizerWarning, base64};
use crate::folder_error::FolderError;
use crate::number::{to_f32, to_index, to_u32};
use crate::problem::{FileProblem, UnsupportedFeature};

/// The SentencePiece model of XLM-RoBERTa.
pub(crate) const XLM_ROBERTA: &str = "sentencepiece.bpe.model";

/// The score of ids without a piece in the model.
const UNUSED_SCORE: f32 = -10000.0;

/// Vocabulary and normalizer of a Unigram SentencePiece model, and the tokens that `added_tokens.json` redefines.
pub(crate) fn of_model(
    folder: &Files<'_>,
    (file, model): (&str, &[u8]),
    vocab_size: Option<usize>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let specs = checked_specs(folder, file, model)?;
    let mut list = vocab::own_pieces(folder, (file, model), vocab_size, warnings)?;
    list.model = "t5";
    let added = folder.dir.json_or_null("added_tokens.json")?;
    for (token, id) in added.as_object().into_iter().flatten() {
        list.put(id, token.clone(), NO_SCORE, piece_type::USER_DEFINED, warnings);
    }
    list.more.push(("tokenizer.ggml.add_space_prefix", specs.adds_space.into()));
    list.more.push(("tokenizer.ggml.remove_extra_whitespaces", specs.removes_spaces.into()));
    list.more.extend(charsmap(specs.charsmap));
    Ok(list)
}

/// Like [`of_model`], for XLM-RoBERTa: its own tokens replace the first three pieces and shift all others by one. `mask` is the id of the mask
/// token, if any.
pub(crate) fn realigned(
    folder: &Files<'_>,
    (file, model): (&str, &[u8]),
    config: &Json,
    vocab_size: Option<usize>,
    mask: Option<u64>,
) -> Result<TokenList, FolderError> {
    let specs = checked_specs(folder, file, model)?;
    let pieces = spm::pieces(model).map_err(|e| folder.invalid(file, FileProblem::SentencePiece(e)))?;
    let size = vocab_size.unwrap_or(0).max(pieces.len());
    let mut list = vocab::own_pieces(folder, (file, model), Some(size), &mut Vec::new())?;
    list.model = "t5";
    const OWN: [(&str, i32); 4] = [
        ("<s>", piece_type::CONTROL),
        ("<pad>", piece_type::CONTROL),
        ("</s>", piece_type::CONTROL),
        ("<unk>", piece_type::UNKNOWN),
    ];
    let mut realigned = TokenList::new("t5", size);
    for (token, kind) in OWN {
        realigned.push(token.to_owned(), 0.0, kind);
    }
    let lists = list.tokens.into_iter().zip(list.scores).zip(list.types);
    for ((token, score), kind) in lists.skip(3).take(size.saturating_sub(4)) {
        realigned.push(token, score, kind);
    }
    if let Some(id) = mask {
        let n_tokens = realigned.tokens.len();
        if id >= n_tokens as u64 {
            let id = to_index(id);
            return Err(folder.invalid(file, FileProblem::NoToken { id, n_tokens }));
        }
        realigned.put(&id.into(), "<mask>".to_owned(), 0.0, piece_type::CONTROL, &mut Vec::new());
    }
    settings(&mut realigned, config, (specs.adds_space, specs.removes_spaces), specs.charsmap)?;
    Ok(realigned)
}

/// The vocabulary of a `tokenizer.json` with a Unigram model, padded to `vocab_size`.
pub(crate) fn of_json(
    folder: &Files<'_>,
    tokenizer: &TokenizerJson,
    config: &Json,
    vocab_size: Option<usize>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    const FILE: &str = "tokenizer.json";
    let found = tokenizer.model.kind.as_deref().unwrap_or_default();
    if found != "Unigram" {
        let (found, expected) = (found.to_owned(), "Unigram");
        return Err(folder.unsupported(FILE, UnsupportedFeature::TokenizerModel { found, expected }));
    }
    let hf = Tokenizer::new(folder, tokenizer, warnings)?;
    let by_id = vocab::tokens_by_id(&hf);
    let scores = &tokenizer.model.vocab.1;
    if scores.len() as u64 > MAX_VOCAB {
        let (found, max) = (scores.len(), MAX_VOCAB);
        return Err(folder.invalid(FILE, FileProblem::TooManyPieces { found, max }));
    }
    let size = vocab_size.unwrap_or(0).max(scores.len());
    let unknown = folder.tokenizer_config.get("unk_token").and_then(token_text);
    let added_id = |text: &str| hf.added().find(|(_, token)| token.content == text).map(|(id, _)| u64::from(id));
    let unknown = unknown.and_then(added_id).or_else(|| tokenizer.unknown_id());
    let special = hf.special_ids();
    let mut list = TokenList::new("t5", size);
    for id in 0..to_u32(size) {
        let token = by_id.get(&id).zip(scores.get(id as usize));
        let Some((token, score)) = token else {
            list.push(format!("[PAD{id}]"), UNUSED_SCORE, piece_type::UNUSED);
            continue;
        };
        let kind = match hf.added_token(id, token) {
            _ if unknown == Some(u64::from(id)) => piece_type::UNKNOWN,
            _ if special.contains(&id) => piece_type::CONTROL,
            Some(_) => piece_type::USER_DEFINED,
            None => piece_type::NORMAL,
        };
        list.push((*token).to_owned(), to_f32(*score), kind);
    }
    let normalizer = precompiled(&tokenizer.normalizer, 0).unwrap_or_default();
    let charsmap = base64::decode(normalizer.as_bytes()).ok_or_else(|| {
        let (key, found) = ("normalizer.precompiled_charsmap".to_owned(), crate::config::shortened(&normalizer.into()));
        folder.invalid(FILE, FileProblem::Value { key, found, expected: "base64" })
    })?;
    let flag = |name: &str| folder.tokenizer_config.get(name).is_some_and(truthy);
    let flags = (flag("add_prefix_space"), flag("clean_up_tokenization_spaces"));
    settings(&mut list, config, flags, &charsmap)?;
    Ok(list)
}

/// Adds the key-values after the lists of XLM-RoBERTa's tokens.
fn settings(
    list: &mut TokenList,
    config: &Json,
    (adds_space, removes_spaces): (bool, bool),
    map: &[u8],
) -> Result<(), FolderError> {
    let types = config.get("type_vocab_size").map_or(Some(1), Json::as_u64).and_then(|n| u32::try_from(n).ok());
    list.more.push(("tokenizer.ggml.add_space_prefix", adds_space.into()));
    list.more.extend(types.map(|n| ("tokenizer.ggml.token_type_count", Value::from(n))));
    list.more.push(("tokenizer.ggml.remove_extra_whitespaces", removes_spaces.into()));
    list.more.extend(charsmap(map));
    Ok(())
}

/// The specifications of a model, which must be a Unigram model.
fn checked_specs<'m>(folder: &Files<'_>, file: &str, model: &'m [u8]) -> Result<Specs<'m>, FolderError> {
    let specs = spm::specs(model).map_err(|e| folder.invalid(file, FileProblem::SentencePiece(e)))?;
    match specs.model_type {
        spm::UNIGRAM => Ok(specs),
        found => {
            let expected = "Unigram (1)";
            Err(folder.unsupported(file, UnsupportedFeature::SentencePieceType { found, expected }))
        }
    }
}

/// The rules of a normalizer as a key-value, if there are any.
fn charsmap(bytes: &[u8]) -> Option<(&'static str, Value)> {
    let mut array = Array::new(ValueType::U8);
    for byte in bytes {
        // All elements are bytes.
        let pushed = array.push(ValueRef::U8(*byte));
        debug_assert!(pushed.is_ok());
    }
    (!bytes.is_empty()).then(|| ("tokenizer.ggml.precompiled_charsmap", array.into()))
}

/// The rules of a normalizer, or of one of its steps.
fn precompiled(normalizer: &Json, depth: u32) -> Option<String> {
    if let Some(map) = normalizer.get("precompiled_charsmap").and_then(Json::as_str) {
        return Some(map.to_owned());
    }
    let steps = array(normalizer.get("normalizers"));
    steps.iter().filter(|_| depth < 16).find_map(|step| precompiled(step, depth + 1))
}
