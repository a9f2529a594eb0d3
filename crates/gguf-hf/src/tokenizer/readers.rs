//! The readers of tokenizer files: from the files of a folder to a vocabulary.

use std::sync::Arc;

use gguf_model::arch::{Changes, Reader};
use serde_json::Value as Json;

use super::files::Files;
use super::special::truthy;
use super::unigram::XLM_ROBERTA;
use super::vocab::{JsonVocab, TokenList};
use super::{TokenizerOptions, TokenizerWarning};
use super::{bert, plamo, rwkv, sentencepiece, tekken, tiktoken, unigram, vocab};
use crate::folder_error::FolderError;
use crate::problem::{FileProblem, UnsupportedFeature};

const JSON: &str = "tokenizer.json";
const SENTENCE_PIECE: &str = "tokenizer.model";

/// The vocabulary of a folder that is being read.
pub(super) struct Reading<'a, 'f> {
    pub(super) folder: &'a Files<'f>,
    /// The model's parameters.
    pub(super) config: &'a Json,
    pub(super) vocab_size: Option<usize>,
    pub(super) options: &'a TokenizerOptions,
    pub(super) warnings: &'a mut Vec<TokenizerWarning>,
}

impl Reading<'_, '_> {
    /// Reads the vocabulary with the first reader whose files are there.
    ///
    /// # Errors
    /// [`FolderError`]; [`FolderError::NoTokenizer`] if there are no files of any reader.
    pub(super) fn read(mut self) -> Result<TokenList, FolderError> {
        for reader in self.options.vocab.readers {
            if let Some(list) = self.read_by(*reader)? {
                return Ok(list);
            }
        }
        Err(self.missing(self.options.vocab.readers))
    }

    fn missing(&self, readers: &[Reader]) -> FolderError {
        let mut expected: Vec<&str> = Vec::new();
        for file in readers.iter().flat_map(|reader| files(*reader)) {
            if !expected.contains(file) {
                expected.push(file);
            }
        }
        FolderError::NoTokenizer { dir: self.folder.dir.path().to_owned(), expected }
    }

    /// Reads the vocabulary; `None` if the folder has none for the reader.
    fn read_by(&mut self, reader: Reader) -> Result<Option<TokenList>, FolderError> {
        let Reading { folder, config, vocab_size, options, .. } = *self;
        let class = folder.tokenizer_config.get("tokenizer_class").and_then(Json::as_str);
        match reader {
            Reader::Bpe => self.hugging_face(JsonVocab::Bpe),
            Reader::Gpt2 if class == Some("GPT2Tokenizer") => {
                let list = self.hugging_face(JsonVocab::Bpe)?;
                list.ok_or_else(|| self.missing(&[Reader::Bpe])).map(Some)
            }
            Reader::Gpt2 => Ok(None),
            Reader::SentencePiece => match self.sentence_piece()? {
                Some(model) => vocab::sentencepiece(folder, &model, vocab_size, self.warnings).map(Some),
                None => Ok(None),
            },
            Reader::ChangedSentencePiece(changes) => self.changed_sentence_piece(changes),
            Reader::ByteFallback => match folder.tokenizer.as_ref().filter(|t| vocab::is_llama_hf(t)) {
                Some(t) => vocab::llama_hf(folder, t, self.warnings).map(Some),
                None => Ok(None),
            },
            Reader::Gemma4 => match folder.tokenizer.as_ref().filter(|t| vocab::is_llama_hf(t)) {
                Some(t) => vocab::gemma4(folder, t, self.warnings).map(Some),
                None => Ok(None),
            },
            Reader::Entries => match &folder.tokenizer {
                Some(t) => vocab::plain_pieces(folder, t, vocab_size, self.warnings).map(Some),
                None => Ok(None),
            },
            Reader::Llama3 => self.llama3(),
            Reader::WordPiece => self.word_piece(),
            Reader::JinaBert => match class {
                Some("BertTokenizer" | "BertTokenizerFast") | None => self.word_piece(),
                Some("RobertaTokenizer" | "RobertaTokenizerFast") => {
                    let pre_tokenizer = folder.tokenizer.as_ref().and_then(|t| t.pre_tokenizer.get("type")?.as_str());
                    self.hugging_face(if pre_tokenizer == Some("Whitespace") {
                        JsonVocab::Words
                    } else {
                        JsonVocab::Bpe
                    })
                }
                Some(other) => {
                    let class = UnsupportedFeature::OtherTokenizerClass(other.to_owned());
                    Err(folder.unsupported("tokenizer_config.json", class))
                }
            },
            Reader::XlmRoberta => self.xlm_roberta(None),
            Reader::NomicXlmRoberta => {
                let model = folder.tokenizer.as_ref().and_then(|t| t.model.kind.as_deref());
                if model != Some("Unigram") {
                    return Ok(None);
                }
                // The mask token has an id in checkpoints with experts, but not in their SentencePiece model.
                let has_mask = config.get("moe_every_n_layers").is_some_and(truthy);
                self.xlm_roberta(has_mask.then_some(250_001))
            }
            Reader::T5 => self.t5(),
            Reader::Tiktoken { has_defaults } => tiktoken::read(folder, vocab_size, options, has_defaults),
            Reader::Kimi { has_end } => tiktoken::read_kimi(folder, vocab_size, options, has_end),
            Reader::RwkvWorld => rwkv::read(folder, vocab_size),
            Reader::Plamo { has_template } => plamo::read(folder, vocab_size, has_template),
            // Its file has been looked for; it has all key-values, not only a vocabulary.
            Reader::Tekken { .. } => Ok(None),
        }
    }

    fn hugging_face(&mut self, kind: JsonVocab) -> Result<Option<TokenList>, FolderError> {
        let Reading { folder, vocab_size, options, .. } = *self;
        let limit = self.config.get("token_limit").and_then(Json::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let Some(t) = &folder.tokenizer else { return Ok(None) };
        vocab::hugging_face(folder, t, kind, vocab_size, limit, options, self.warnings).map(Some)
    }

    fn word_piece(&mut self) -> Result<Option<TokenList>, FolderError> {
        let Reading { folder, vocab_size, options, .. } = *self;
        // A `vocab.txt` that is not UTF-8 is an error even beside a `tokenizer.json`.
        match (&folder.tokenizer, folder.dir.lines(bert::FILE)?) {
            (None, Some(text)) => {
                let t = bert::of_text(folder, &text)?;
                vocab::hugging_face(folder, &t, JsonVocab::WordPiece, vocab_size, None, options, self.warnings)
                    .map(Some)
            }
            _ => self.hugging_face(JsonVocab::WordPiece),
        }
    }

    /// The bytes of a SentencePiece model. In Meta's folders, ranks may have its name.
    fn sentence_piece(&self) -> Result<Option<Arc<[u8]>>, FolderError> {
        let model = self.folder.dir.bytes(SENTENCE_PIECE)?;
        let may_be_ranks = self.options.vocab.readers.contains(&Reader::Llama3);
        Ok(model.filter(|model| !(may_be_ranks && self.folder.tokenizer.is_some() && tiktoken::is_ranks(model))))
    }

    fn changed_sentence_piece(&mut self, changes: Changes) -> Result<Option<TokenList>, FolderError> {
        let Some(model) = self.folder.dir.bytes(SENTENCE_PIECE)? else { return Ok(None) };
        vocab::changed_pieces(self.folder, &model, self.vocab_size, changes, self.warnings).map(Some)
    }

    fn llama3(&mut self) -> Result<Option<TokenList>, FolderError> {
        let Reading { folder, config, vocab_size, options, .. } = *self;
        if folder.tokenizer.is_some() {
            return Ok(None);
        }
        let model = folder.dir.bytes(SENTENCE_PIECE)?.filter(|model| tiktoken::is_ranks(model));
        let Some(model) = model else { return Ok(None) };
        let is_later = config.get("rope_scaling").is_some_and(|scaling| !scaling.is_null());
        tiktoken::llama3(folder, &model, is_later, vocab_size, options).map(Some)
    }

    /// `mask` is the id of a mask token that the SentencePiece model lacks.
    fn xlm_roberta(&mut self, mask: Option<u64>) -> Result<Option<TokenList>, FolderError> {
        let Reading { folder, config, vocab_size, .. } = *self;
        let list = match (folder.dir.bytes(XLM_ROBERTA)?, &folder.tokenizer) {
            (Some(model), _) => unigram::realigned(folder, (XLM_ROBERTA, &model), config, vocab_size, mask)?,
            (None, Some(t)) => unigram::of_json(folder, t, config, vocab_size, self.warnings)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(list))
    }

    fn t5(&mut self) -> Result<Option<TokenList>, FolderError> {
        let Reading { folder, vocab_size, .. } = *self;
        for file in files(Reader::T5) {
            let Some(model) = folder.dir.bytes(file)? else { continue };
            let specs = sentencepiece::specs(&model);
            let specs = specs.map_err(|e| folder.invalid(file, FileProblem::SentencePiece(e)))?;
            let list = match specs.model_type {
                sentencepiece::BPE if *file == SENTENCE_PIECE => {
                    vocab::sentencepiece(folder, &model, vocab_size, self.warnings)?
                }
                _ => unigram::of_model(folder, (file, &model), vocab_size, self.warnings)?,
            };
            return Ok(Some(list));
        }
        Ok(None)
    }
}

/// The files of a reader, of which one is needed.
fn files(reader: Reader) -> &'static [&'static str] {
    match reader {
        Reader::Bpe | Reader::Gpt2 | Reader::ByteFallback | Reader::Gemma4 | Reader::Entries => &[JSON],
        Reader::SentencePiece | Reader::ChangedSentencePiece(_) | Reader::Llama3 => &[SENTENCE_PIECE],
        Reader::Tekken { .. } => &[tekken::FILE],
        Reader::WordPiece | Reader::JinaBert => &[JSON, bert::FILE],
        Reader::XlmRoberta | Reader::NomicXlmRoberta => &[XLM_ROBERTA, JSON],
        Reader::T5 => &[SENTENCE_PIECE, "spiece.model"],
        Reader::Tiktoken { .. } => &["qwen.tiktoken", "hy.tiktoken"],
        Reader::Kimi { .. } => &[tiktoken::KIMI],
        Reader::RwkvWorld => &[rwkv::FILE],
        Reader::Plamo { .. } => &[plamo::FILE],
    }
}
