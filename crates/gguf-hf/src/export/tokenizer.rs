//! The tokenizer's files: `tokenizer.json` for BPE, Unigram and WordPiece, `tokenizer.model` for SentencePiece, files of lines for RWKV, PLaMo and
//! tiktoken, and `tokenizer_config.json`.

mod json;
mod lines;
mod spm;

use std::collections::HashSet;

use gguf_format::Gguf;
use gguf_model::arch::{Checkpoint, Key, Quirk, Reader};
use serde_json::{Map, Value as Json, json};

use super::key_values::{is_default, number};
use super::{Documents, TOKEN_IDS, pretty};
use crate::facts::Fact;
use crate::tokenizer::sentencepiece::piece_type;
use crate::tokenizer::unigram::XLM_ROBERTA;
use crate::tokenizer::vocab::NO_SCORE;
use crate::tokenizer::{plamo, rwkv};

/// `tokenizer.ggml.model` of PLaMo 2 and 3.
const PLAMO: &str = "plamo2";

/// The number of XLM-RoBERTa's own tokens, which precede those of its SentencePiece model.
const N_OWN: usize = 4;

/// A vocabulary of a file.
pub(super) struct Vocab<'a> {
    gguf: &'a Gguf<'a>,
    tokens: Vec<String>,
    /// Empty for BPE.
    scores: Vec<f32>,
    types: Vec<i32>,
    checkpoint: &'static Checkpoint,
    /// Whether these are the pieces of XLM-RoBERTa's SentencePiece model.
    is_unshifted: bool,
}

/// The files, by name.
type Files = Vec<(String, Vec<u8>)>;

/// The files of the tokenizer; none for a model without one.
///
/// # Errors
/// The reason why the tokenizer cannot be written.
pub(super) fn files(gguf: &Gguf<'_>, checkpoint: &'static Checkpoint) -> Result<Files, String> {
    let Ok(model) = gguf.get_as::<&str>("tokenizer.ggml.model") else {
        return Err("the file has no tokenizer".to_owned());
    };
    if matches!(model, "none" | "no_vocab") {
        return Ok(Vec::new());
    }
    let strings = |key: &str| {
        let array = gguf.get(key).and_then(|value| value.as_array())?;
        Some(array.strings()?.map(|text| text.to_string_lossy()).collect::<Vec<String>>())
    };
    let numbers = |key: &str| gguf.get(key).and_then(|value| value.as_array());
    let tokens = strings("tokenizer.ggml.tokens").ok_or("the list of tokens is missing")?;
    let scores = numbers("tokenizer.ggml.scores").and_then(|list| list.to_vec::<f32>().ok()).unwrap_or_default();
    let types = numbers("tokenizer.ggml.token_type").and_then(|list| list.to_vec::<i32>().ok()).unwrap_or_default();
    let vocab = Vocab { gguf, tokens, scores, types, checkpoint, is_unshifted: false };
    let merges = strings("tokenizer.ggml.merges").unwrap_or_default();
    let readers = checkpoint.tokenizer.vocab.readers;
    let pre = gguf.get_as::<&str>("tokenizer.ggml.pre").unwrap_or("default");
    let mut files = match model {
        // A vocabulary without scores was a `tokenizer.json`.
        "llama" if vocab.has_no_scores() && readers.iter().any(is_json) => {
            let merges = json::merges(&vocab.pieces()).ok_or("its tokens are too long to search them for merges")?;
            vec![("tokenizer.json".to_owned(), pretty(&json::pieces(&vocab, &merges)))]
        }
        "llama" if readers.contains(&Reader::SentencePiece) || has_changes(readers) => {
            vec![("tokenizer.model".to_owned(), spm::model(&vocab, spm::SpmModel::Bpe))]
        }
        "llama" => return Err("the class does not read a SentencePiece model".to_owned()),
        "gpt2" if has_only_ranks(readers) => {
            let name = if pre == "hunyuan" { "hy.tiktoken" } else { "qwen.tiktoken" };
            vec![(name.to_owned(), lines::ranks(&vocab)?)]
        }
        "gemma4" => vec![("tokenizer.json".to_owned(), pretty(&json::byte_fallback(&vocab, &merges)))],
        "rwkv" => vec![(rwkv::FILE.to_owned(), lines::rwkv(&vocab)?)],
        PLAMO => vec![(plamo::FILE.to_owned(), lines::plamo(&vocab))],
        "gpt2" => vec![("tokenizer.json".to_owned(), pretty(&json::bpe(&vocab, &merges, pre)?))],
        "bert" => vec![
            ("tokenizer.json".to_owned(), pretty(&json::word_piece(&vocab)?)),
            ("vocab.txt".to_owned(), json::vocab_txt(&vocab)),
        ],
        "t5" if readers.contains(&Reader::T5) => vec![
            ("tokenizer.json".to_owned(), pretty(&json::unigram(&vocab))),
            ("spiece.model".to_owned(), spm::model(&vocab, spm::SpmModel::Unigram)),
        ],
        "t5" if vocab.is_shifted() => {
            let model = (XLM_ROBERTA.to_owned(), spm::model(&vocab.without_shift(), spm::SpmModel::Unigram));
            // Without keys for what is added to texts there was no other file, and transformers makes one of the model.
            let document = vocab.adds("bos").map(|_| ("tokenizer.json".to_owned(), pretty(&json::unigram(&vocab))));
            document.into_iter().chain([model]).collect()
        }
        "t5" => vec![("tokenizer.json".to_owned(), pretty(&json::unigram(&vocab)))],
        other => return Err(format!("no files are known for tokenizers of the model {other:?}")),
    };
    files.push(("tokenizer_config.json".to_owned(), pretty(&vocab.settings(model))));
    Ok(files)
}

/// `tokenizer_config.json` with nothing but added tokens, whose ids are their places.
pub(super) fn only_added(tokens: &[String]) -> Json {
    let added = tokens.iter().enumerate().map(|(id, text)| (id.to_string(), json::added_token(text, true)));
    json!({ "added_tokens_decoder": added.collect::<Map<String, Json>>() })
}

/// Whether a vocabulary without scores is read from a `tokenizer.json`.
fn is_json(reader: &Reader) -> bool {
    matches!(reader, Reader::ByteFallback | Reader::Entries)
}

/// Whether files of a tokenizer have merges that the GGUF file lacks: pieces are written to a `tokenizer.json` only with these.
pub(super) fn derives_merges(gguf: &Gguf<'_>, files: &Documents) -> bool {
    gguf.get_as::<&str>("tokenizer.ggml.model") == Ok("llama") && files.contains_key("tokenizer.json")
}

/// Whether a class reads tokenizers of the kind that a file has.
pub(super) fn is_read(gguf: &Gguf<'_>, checkpoint: &Checkpoint) -> bool {
    let model = gguf.get_as::<&str>("tokenizer.ggml.model").unwrap_or("none");
    let readers = checkpoint.tokenizer.vocab.readers;
    let is_for = |reader: &Reader| match reader {
        Reader::SentencePiece | Reader::ChangedSentencePiece(_) | Reader::ByteFallback | Reader::Entries => {
            model == "llama"
        }
        Reader::T5 => matches!(model, "t5" | "llama"),
        Reader::WordPiece => model == "bert",
        Reader::JinaBert => matches!(model, "bert" | "gpt2"),
        Reader::XlmRoberta | Reader::NomicXlmRoberta => model == "t5",
        Reader::Gemma4 => model == "gemma4",
        Reader::RwkvWorld => model == "rwkv",
        Reader::Plamo { .. } => model == PLAMO,
        _ => model == "gpt2",
    };
    matches!(model, "none" | "no_vocab") || readers.iter().any(is_for)
}

/// Whether no other files are read than the ranks of tiktoken.
fn has_only_ranks(readers: &[Reader]) -> bool {
    !readers.is_empty() && readers.iter().all(|reader| matches!(reader, Reader::Tiktoken { .. }))
}

/// Whether a `tokenizer.model` is read with the changes of other files.
fn has_changes(readers: &[Reader]) -> bool {
    readers.iter().any(|reader| matches!(reader, Reader::ChangedSentencePiece(_)))
}

impl Vocab<'_> {
    fn kind(&self, id: usize) -> i32 {
        self.types.get(id).copied().unwrap_or(piece_type::NORMAL)
    }

    fn score(&self, id: usize) -> f32 {
        self.scores.get(id).copied().unwrap_or(0.0)
    }

    /// Whether the token only fills the vocabulary up to the size of the embeddings, and does not belong to the tokenizer.
    fn is_padding(&self, id: usize) -> bool {
        let is_plamo = self.gguf.get_as::<&str>("tokenizer.ggml.model") == Ok(PLAMO);
        let is_named = |text: &String| *text == format!("[PAD{id}]") || is_plamo && text.starts_with("[PAD");
        self.kind(id) == piece_type::UNUSED && self.tokens.get(id).is_some_and(is_named) || self.is_shifted_padding(id)
    }

    /// Whether the token is one after the end of the SentencePiece model of XLM-RoBERTa, whose pieces have ids one further on.
    fn is_shifted_padding(&self, id: usize) -> bool {
        let is_named = |text: &String| id.checked_sub(1).is_some_and(|piece| *text == format!("[PAD{piece}]"));
        self.kind(id) == piece_type::UNUSED && self.tokens.get(id).is_some_and(is_named)
    }

    /// Whether the tokens are those of the SentencePiece model of XLM-RoBERTa.
    fn is_shifted(&self) -> bool {
        self.tokens.len().checked_sub(1).is_some_and(|last| self.is_shifted_padding(last))
    }

    /// The number of tokens without those at the end that only fill the vocabulary.
    fn n_own(&self) -> usize {
        (0..self.tokens.len()).rev().find(|id| !self.is_padding(*id)).map_or(0, |last| last + 1)
    }

    /// The pieces of XLM-RoBERTa's SentencePiece model, which begin with three others than the tokens.
    fn without_shift(&self) -> Vocab<'_> {
        let own = |name: &str, kind: i32| (name.to_owned(), 0.0, kind);
        let first =
            [own("<unk>", piece_type::UNKNOWN), own("<s>", piece_type::CONTROL), own("</s>", piece_type::CONTROL)];
        let others = (N_OWN..self.n_own()).map(|id| {
            let text = self.tokens.get(id).cloned().unwrap_or_default();
            (text, self.score(id), self.kind(id))
        });
        let (mut tokens, mut scores, mut types): (Vec<String>, Vec<f32>, Vec<i32>) = Default::default();
        for (text, score, kind) in first.into_iter().chain(others) {
            tokens.push(text);
            scores.push(score);
            types.push(kind);
        }
        Vocab { gguf: self.gguf, tokens, scores, types, checkpoint: self.checkpoint, is_unshifted: true }
    }

    /// Whether no token has a score.
    fn has_no_scores(&self) -> bool {
        self.scores.iter().all(|score| *score == NO_SCORE)
    }

    /// The texts that are made of others, and the ids.
    fn pieces(&self) -> Vec<(&str, u32)> {
        let own = (0u32..).zip(&self.tokens).take(self.n_own());
        let is_normal = |id: u32| usize::try_from(id).is_ok_and(|id| self.kind(id) == piece_type::NORMAL);
        own.filter(|(id, _)| is_normal(*id)).map(|(id, text)| (text.as_str(), id)).collect()
    }

    fn is_special(&self, id: usize) -> bool {
        matches!(self.kind(id), piece_type::CONTROL | piece_type::UNKNOWN)
    }

    /// The id and the text of a special token.
    fn special(&self, name: &str) -> Option<(usize, &str)> {
        let id = usize::try_from(number(self.gguf, &format!("tokenizer.ggml.{name}_token_id"))?).ok()?;
        let id = match id {
            id if !self.is_unshifted => id,
            0 => 1,
            2 => 2,
            3 => 0,
            _ => return None,
        };
        Some((id, self.tokens.get(id)?))
    }

    /// The flag for adding a special token to texts.
    fn adds(&self, kind: &str) -> Option<bool> {
        self.flag(&format!("add_{kind}_token"))
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.gguf.get_as::<bool>(&format!("tokenizer.ggml.{name}")).ok()
    }

    /// `tokenizer_config.json`.
    fn settings(&self, model: &str) -> Json {
        let mut settings = Map::new();
        settings.insert("tokenizer_class".to_owned(), json!(self.class(model)));
        let is_pieces = model == "llama";
        if is_pieces {
            // Spaces after special tokens are kept, as in models since 2023.
            settings.insert("legacy".to_owned(), json!(false));
        }
        let reads_settings = |key: &Key| crate::formula::reads(key.formula, Fact::TokenizerConfig);
        let is_read = self.checkpoint.tokenizer.keys.iter().copied().flatten().any(reads_settings);
        for kind in ["bos", "eos", "sep"] {
            let is_needed =
                is_pieces && !self.has_no_scores() || !json::is_stated(self, kind) || is_read && kind == "bos";
            if let Some(adds) = self.adds(kind).filter(|_| is_needed) {
                settings.insert(format!("add_{kind}_token"), json!(adds));
            }
        }
        let quirks = self.checkpoint.tokenizer.vocab;
        if let Some(adds) = self.flag("add_space_prefix")
            && (quirks.has(Quirk::Llama) || quirks.has(Quirk::InternLm3) || model == "t5")
        {
            settings.insert("add_prefix_space".to_owned(), json!(adds));
        }
        let has_model = quirks.readers.contains(&Reader::T5) || self.is_shifted();
        if model == "t5" && !has_model && self.flag("remove_extra_whitespaces") == Some(true) {
            settings.insert("clean_up_tokenization_spaces".to_owned(), json!(true));
        }
        if model == "bert" {
            let lowercase = self.flag("normalizer.lowercase").unwrap_or(true);
            settings.insert("do_lower_case".to_owned(), json!(lowercase));
            settings.insert("clean_up_tokenization_spaces".to_owned(), json!(true));
        }
        let mut added = Map::new();
        for id in 0..self.n_own() {
            // A conversion gives these the score of added tokens, or takes their text from here.
            let is_added = match self.kind(id) {
                piece_type::USER_DEFINED => true,
                piece_type::CONTROL => !is_pieces || self.score(id) == NO_SCORE,
                _ => false,
            };
            if let (true, Some(text)) = (is_added && (is_pieces || model == "gpt2"), self.tokens.get(id)) {
                added.insert(id.to_string(), json::added_token(text, self.is_special(id)));
            }
        }
        if !added.is_empty() {
            settings.insert("added_tokens_decoder".to_owned(), Json::Object(added));
        }
        let mut named = HashSet::new();
        for (kind, name) in self.named_here(model) {
            let Some((id, text)) = self.special(name) else { continue };
            // A normal token would become a special one.
            if matches!(model, "gpt2" | "gemma4") && !self.is_special(id) {
                continue;
            }
            // The tokens around a text have other names in encoders.
            let kind = match (model, kind) {
                ("bert", "bos") => "cls",
                ("bert", "eos") => "sep",
                (_, kind) => kind,
            };
            // A token that begins texts stands between two of them, too. If it is also `eos_token`, the conversion takes it for a separator,
            // unless `eos_token` is an object instead of a text.
            let begins = self.special("bos").is_some_and(|(_, begin)| begin == text) && self.adds("bos") == Some(true);
            let token = match kind == "eos" && begins && self.adds("sep") == Some(false) {
                true => json!({ "__type": "AddedToken", "content": text, "special": true }),
                false => json!(text),
            };
            if named.insert(kind) {
                settings.insert(format!("{kind}_token"), token);
            }
        }
        if let Some(length) = self.context_length() {
            settings.insert("model_max_length".to_owned(), json!(length));
        }
        settings.extend(self.chat_template().map(|template| ("chat_template".to_owned(), template)));
        Json::Object(settings)
    }

    /// The special tokens that are named in `tokenizer_config.json`. Others are named in `config.json` alone: their keys follow, in an order that
    /// begins again.
    fn named_here(&self, model: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        let place = |name: &str| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            self.gguf.kvs().position(|kv| kv.key.as_bytes() == key.as_bytes())
        };
        let place_of_turn = place("eot");
        let mut found: Vec<(usize, usize)> = TOKEN_IDS
            .iter()
            .enumerate()
            .filter(|(_, (kind, _))| !is_default(self.checkpoint, kind))
            .filter_map(|(i, (_, name))| Some((place(name)?, i)))
            .collect();
        found.sort_unstable();
        let is_late = found.first().zip(place_of_turn).is_some_and(|((first, _), turn)| turn < *first);
        // PLaMo's are only named there.
        let n = match model {
            PLAMO => found.len(),
            "rwkv" if is_late => 0,
            _ => 1 + found.windows(2).take_while(|pair| matches!(pair, [a, b] if a.1 < b.1)).count(),
        };
        let kinds = found.into_iter().take(n).filter_map(|(_, i)| TOKEN_IDS.get(i).copied());
        kinds.collect::<Vec<_>>().into_iter()
    }

    fn context_length(&self) -> Option<u64> {
        let arch = self.gguf.get_as::<&str>("general.architecture").ok()?;
        number(self.gguf, &format!("{arch}.context_length"))
    }

    /// The chat template, or the list of named ones.
    fn chat_template(&self) -> Option<Json> {
        let template = |key: &str| self.gguf.get_as::<&str>(key).ok();
        let default = template("tokenizer.chat_template");
        let names = self.gguf.get("tokenizer.chat_templates").and_then(|value| value.as_array());
        let Some(names) = names.and_then(|names| names.strings()) else { return default.map(|text| json!(text)) };
        let mut list: Vec<Json> = Vec::new();
        for name in names {
            let name = name.to_string_lossy();
            if let Some(text) = template(&format!("tokenizer.chat_template.{name}")) {
                list.push(json!({ "name": name, "template": text }));
            }
        }
        list.extend(default.map(|text| json!({ "name": "default", "template": text })));
        Some(Json::Array(list))
    }

    /// A tokenizer class of transformers that reads the files as they are.
    fn class(&self, model: &str) -> &'static str {
        let arch = self.gguf.get_as::<&str>("general.architecture").unwrap_or_default();
        let readers = self.checkpoint.tokenizer.vocab.readers;
        match model {
            "llama" if arch.starts_with("gemma") => "GemmaTokenizer",
            "llama" => "LlamaTokenizer",
            "bert" => "BertTokenizer",
            "t5" if readers.contains(&Reader::T5) => "T5Tokenizer",
            "t5" => "XLMRobertaTokenizer",
            _ if readers.contains(&Reader::Gpt2) => "GPT2Tokenizer",
            _ => "PreTrainedTokenizerFast",
        }
    }
}
