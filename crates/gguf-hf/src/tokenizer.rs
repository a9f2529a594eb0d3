//! Converts the tokenizer of a model folder to GGUF key-values, as llama.cpp's converter does for the Llama family (`LlamaModel.set_vocab`
//! in conversion/llama.py and the functions it calls in conversion/base.py).
//!
//! The result has one of three forms: `tokenizer.model` gives a SentencePiece vocabulary; a `tokenizer.json` with BPE and byte fallback
//! gives the same kind without scores; any other BPE, and Mistral's `tekken.json`, give the `gpt2` kind, which requires the name of its
//! pre-tokenizer (see `tokenizer/pre.rs`).

mod base64;
mod bert;
mod bpe;
mod class;
mod files;
pub(crate) mod hf;
mod keys;
pub(crate) mod plamo;
pub(crate) mod pre;
mod pretokenize;
pub(crate) mod problem;
mod readers;
mod regex;
pub(crate) mod rwkv;
pub(crate) mod sentencepiece;
mod special;
mod tekken;
mod tiktoken;
pub(crate) mod unigram;
pub(crate) mod vocab;
mod warning;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use gguf_model::arch::{Quirk, Reader, Vocab};
use serde_json::Value as Json;

use self::files::Files;
use self::hf::MAX_VOCAB;
pub use self::keys::{PreSource, TokenizerKeys, TokenizerOptions};
pub use self::problem::{MessageProblem, SentencePieceProblem, Stage, StepProblem};
use self::readers::Reading;
use self::special::SpecialVocab;
use self::vocab::Special;
pub use self::warning::TokenizerWarning;
use crate::config::shortened;
use crate::documents::Documents;
use crate::folder::Folder;
use crate::folder_error::FolderError;
use crate::key_values::KeyValues;
use crate::problem::{FileProblem, UnsupportedFeature};

/// The error type, which the metadata shares.
pub type TokenizerError = FolderError;

/// The `tokenizer.*` key-values of the model in `dir`, in output order. `config` holds the model's parameters with the defaults of its
/// class; only `vocab_size` is read from it, and `token_limit`, the number that exceeds all token ids of a class with padded vocabularies.
///
/// # Errors
/// [`FolderError`]: a file that cannot be read or is invalid, a missing tokenizer, an unsupported tokenizer, or a pre-tokenizer that is
/// unknown and not given in `options`.
pub fn key_values(
    dir: &dyn Folder,
    config: &Json,
    options: &TokenizerOptions,
) -> Result<TokenizerKeys, TokenizerError> {
    keys_from(&Documents::new(dir), config, options)
}

/// The key-values of [`key_values`], from files that the conversion may have read already.
pub(crate) fn keys_from(
    documents: &Documents<'_>,
    config: &Json,
    options: &TokenizerOptions,
) -> Result<TokenizerKeys, FolderError> {
    if options.vocab.readers.is_empty() {
        let kvs = vec![("tokenizer.ggml.model".to_owned(), "none".into())];
        return Ok(TokenizerKeys { kvs, pre: PreSource::NotNeeded, warnings: Vec::new(), n_tokens: None });
    }
    let folder = Files::open(documents)?;
    let vocab_size = vocab_size_of(&folder, config)?;
    let mut kvs = KeyValues::default();
    let mut warnings = Vec::new();

    let tekken = options.vocab.readers.iter().find_map(|reader| match reader {
        Reader::Tekken { is_native } => Some(*is_native),
        _ => None,
    });
    if let Some(is_native) = tekken
        && (is_native || folder.tokenizer.is_none())
        && let Some(bytes) = documents.bytes(tekken::FILE)?
    {
        return tekken::read(&folder, &bytes, is_native, options);
    }
    let is_llama = options.vocab.has(Quirk::Llama);
    let adds_prefix = folder.tokenizer_config.get("add_prefix_space");
    if let Some(adds) = adds_prefix.filter(|adds| is_llama && !adds.is_null()) {
        kvs.set("tokenizer.ggml.add_space_prefix", special::truthy(adds));
    }
    const CODE: &str = "HybridDNATokenizer";
    if is_llama && folder.tokenizer_config.get("tokenizer_class").and_then(Json::as_str) == Some(CODE) {
        return Err(folder.unsupported("tokenizer_config.json", UnsupportedFeature::TokenizerClass(CODE)));
    }

    let vocab = Reading { folder: &folder, config, vocab_size, options, warnings: &mut warnings }.read()?;
    if let (Some(pre), PreSource::NotNeeded) = (&options.pre, &vocab.source) {
        warnings.push(TokenizerWarning::PreNotNeeded(pre.clone()));
    }
    kvs.string("tokenizer.ggml.model", vocab.model);
    if !vocab.pre.is_empty() {
        kvs.string("tokenizer.ggml.pre", &vocab.pre);
    }
    kvs.strings("tokenizer.ggml.tokens", &vocab.tokens);
    kvs.f32s("tokenizer.ggml.scores", &vocab.scores);
    kvs.i32s("tokenizer.ggml.token_type", &vocab.types);
    for (key, value) in vocab.more {
        kvs.set(key, value);
    }
    if options.vocab.has(Quirk::InternLm3)
        && let Some(adds) = adds_prefix
    {
        kvs.set("tokenizer.ggml.add_space_prefix", special::truthy(adds));
    }
    let mut special = special_vocab(&folder, vocab.special, vocab.tokens.len())?;
    if options.template_file_first {
        special.prefer_template_file(documents)?;
    }
    for (kind, text) in options.special_tokens {
        let id = vocab.tokens.iter().position(|token| token == text);
        special.set_id(kind, id.map(Json::from).as_ref());
    }
    if let Some(id) = end_of_turn(&folder, options.vocab) {
        special.replace_id("eos", id);
    }
    special.write(&mut kvs);
    warnings.append(&mut special.warnings);
    write_further_tokens(&folder, options.vocab, vocab_size, &mut kvs)?;
    Ok(TokenizerKeys { kvs: kvs.into_vec(), pre: vocab.source, warnings, n_tokens: None })
}

/// The number of tokens in the vocabulary of a model whose tokenizer is read by `vocab`; `None` if it is empty.
pub(crate) fn n_tokens(documents: &Documents<'_>, config: &Json, vocab: Vocab) -> Result<Option<usize>, FolderError> {
    let options = TokenizerOptions { vocab, ..TokenizerOptions::default() };
    let folder = Files::open(documents)?;
    let vocab_size = vocab_size_of(&folder, config)?;
    let reading = Reading { folder: &folder, config, vocab_size, options: &options, warnings: &mut Vec::new() };
    let vocab = reading.read()?;
    Ok(Some(vocab.tokens.len()).filter(|n| *n > 0))
}

/// `vocab_size` of the configuration; `None` if it is missing or 0.
fn vocab_size_of(folder: &Files<'_>, config: &Json) -> Result<Option<usize>, FolderError> {
    match config.get("vocab_size") {
        None | Some(Json::Null) => Ok(None),
        Some(size) => match (size.as_u64(), size.as_u64().and_then(|size| usize::try_from(size).ok())) {
            (Some(0), _) => Ok(None),
            (Some(1..=MAX_VOCAB), Some(size)) => Ok(Some(size)),
            _ => {
                let problem = FileProblem::VocabSize { found: shortened(size), max: MAX_VOCAB };
                Err(folder.invalid("config.json", problem))
            }
        },
    }
}

/// The special tokens of a vocabulary of `n_tokens` tokens.
fn special_vocab(folder: &Files<'_>, source: Special, n_tokens: usize) -> Result<SpecialVocab, FolderError> {
    let load = |n_vocab| SpecialVocab::load(folder, &special::TYPES, n_vocab);
    Ok(match source {
        Special::Files => load(Some(n_tokens))?,
        Special::FilesWithMerges => {
            let mut special = load(None)?;
            if let Some(tokenizer) = &folder.tokenizer {
                special.load_merges(folder.dir, tokenizer)?;
            }
            special
        }
        Special::Ranks { merges, default, end } => {
            let mut special = load(None)?;
            special.set_merges(merges);
            let kinds: &[&str] = if special.has_no_ids() { &["bos", "eos", "unk"] } else { &["unk"] };
            for kind in kinds {
                special.set_id(kind, default.map(Json::from).as_ref());
            }
            if let Some(id) = end {
                special.force_id("eos", id);
            }
            special
        }
        Special::Pairs { merges, begin, end } => {
            let mut special = load(None)?;
            special.set_merges(merges);
            if special.has_no_ids() {
                special.set_id("bos", Some(&begin.into()));
                special.set_id("eos", Some(&end.into()));
            }
            for (kind, add) in [("bos", true), ("eos", false), ("sep", false)] {
                if special.add_flag(kind).is_none() {
                    special.set_add_flag(kind, add);
                }
            }
            special
        }
        Special::Rwkv { template, end_of_turn } => {
            let mut special = load(None)?;
            special.set_default_template(template);
            special.set_id("eot", Some(&end_of_turn.into()));
            special.force_id("bos", 0);
            special.force_id("eos", 0);
            special
        }
        Special::Template => SpecialVocab::template_of(folder)?,
        Special::None => SpecialVocab::default(),
    })
}

/// Writes the ids and flags that only some classes and sizes of vocabularies have.
fn write_further_tokens(
    folder: &Files<'_>,
    vocab: Vocab,
    vocab_size: Option<usize>,
    kvs: &mut KeyValues,
) -> Result<(), FolderError> {
    let is_llama = vocab.has(Quirk::Llama);
    // The tokens for filling in the middle that Code Llama appended to the vocabulary of Llama 2. GGUF has a key only
    // for the last of them.
    if is_llama && vocab_size == Some(32016) {
        let mut special = SpecialVocab::load(folder, &["prefix", "suffix", "middle", "eot"], None)?;
        special.set_id("eot", Some(&Json::from(32010)));
        special.write(kvs);
    }
    if vocab.has(Quirk::WritesEndOfTurn) {
        let mut special = SpecialVocab::load(folder, &["eot"], None)?;
        special.write(kvs);
    }
    // Granite's small models.
    if is_llama && vocab_size == Some(49152) {
        kvs.set("tokenizer.ggml.add_bos_token", false);
    }
    Ok(())
}

/// The ids of the given tokens that `tokenizer.json` contains.
pub(crate) fn ids(
    documents: &Documents<'_>,
    tokens: &[&'static str],
) -> Result<BTreeMap<&'static str, u32>, FolderError> {
    let folder = Files::open(documents)?;
    let Some(tokenizer) = &folder.tokenizer else { return Err(folder.invalid("tokenizer.json", FileProblem::Missing)) };
    let id = |token: &str| tokenizer.model.vocab.0.iter().find(|(text, _)| text == token).map(|(_, id)| *id);
    Ok(tokens.iter().filter_map(|token| Some((*token, id(token)?))).collect())
}

/// The end-of-turn token of InternLM chat models, which also ends a text; `None` for others, and for models without it.
fn end_of_turn(folder: &Files<'_>, vocab: Vocab) -> Option<u32> {
    const END: &str = "<|im_end|>";
    let id = |id: &Json| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let configured = vocab::configured_tokens(folder, &mut Vec::new());
    let mut configured = configured.iter().filter(|(_, text, _)| *text == END);
    if vocab.has(Quirk::InternLm2) {
        let mut added = folder.tokenizer.iter().flat_map(|t| &t.added_tokens).filter(|token| token.content == END);
        added.next_back().and_then(|token| id(&token.id)).or_else(|| id(&configured.next_back()?.0))
    } else if vocab.has(Quirk::InternLm3) {
        configured.rfind(|(_, _, special)| *special).and_then(|(number, ..)| id(number))
    } else {
        None
    }
}
