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
mod plamo;
mod pre;
mod pretokenize;
pub(crate) mod problem;
mod regex;
mod rwkv;
mod sentencepiece;
mod special;
mod tekken;
mod tiktoken;
mod unigram;
mod vocab;
mod warning;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use gguf_model::arch::Vocab;
use serde_json::Value as Json;

use self::files::Files;
use self::hf::MAX_VOCAB;
pub use self::keys::{PreSource, TokenizerKeys, TokenizerOptions};
pub use self::problem::{MessageProblem, SentencePieceProblem, Stage, StepProblem};
use self::special::{SpecialVocab, truthy};
use self::vocab::{Special, TokenList};
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
    if options.vocab == Vocab::None {
        let kvs = vec![("tokenizer.ggml.model".to_owned(), "none".into())];
        return Ok(TokenizerKeys { kvs, pre: PreSource::NotNeeded, warnings: Vec::new(), n_tokens: None });
    }
    let folder = Files::open(documents)?;
    let vocab_size = vocab_size_of(&folder, config)?;
    let mut kvs = KeyValues::default();
    let mut warnings = Vec::new();

    let is_llama = options.vocab == Vocab::Llama;
    if (is_llama && folder.tokenizer.is_none() || options.vocab == Vocab::Mistral)
        && let Some(bytes) = documents.bytes(tekken::FILE)?
    {
        return tekken::read(&folder, &bytes, options);
    }
    let adds_prefix = folder.tokenizer_config.get("add_prefix_space");
    if let Some(adds) = adds_prefix.filter(|adds| is_llama && !adds.is_null()) {
        kvs.set("tokenizer.ggml.add_space_prefix", special::truthy(adds));
    }
    const CODE: &str = "HybridDNATokenizer";
    if is_llama && folder.tokenizer_config.get("tokenizer_class").and_then(Json::as_str) == Some(CODE) {
        return Err(folder.unsupported("tokenizer_config.json", UnsupportedFeature::TokenizerClass(CODE)));
    }

    let kind = kind_of(&folder, options.vocab)?;
    let vocab = read_vocab(&folder, kind, config, vocab_size, options, &mut warnings)?;
    if let (Some(pre), PreSource::NotNeeded) = (&options.pre, &vocab.source) {
        warnings.push(TokenizerWarning::PreNotNeeded(pre.clone()));
    }
    kvs.string("tokenizer.ggml.model", vocab.model);
    if kind != Vocab::Gemma4 {
        kvs.string("tokenizer.ggml.pre", &vocab.pre);
    }
    kvs.strings("tokenizer.ggml.tokens", &vocab.tokens);
    kvs.f32s("tokenizer.ggml.scores", &vocab.scores);
    kvs.i32s("tokenizer.ggml.token_type", &vocab.types);
    for (key, value) in vocab.more {
        kvs.set(key, value);
    }
    if kind == Vocab::InternLm3
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
    if let Some(id) = end_of_turn(&folder, kind) {
        special.replace_id("eos", id);
    }
    special.write(&mut kvs);
    warnings.append(&mut special.warnings);
    write_further_tokens(&folder, options.vocab, vocab_size, &mut kvs)?;
    Ok(TokenizerKeys { kvs: kvs.into_vec(), pre: vocab.source, warnings, n_tokens: None })
}

/// The number of tokens in the vocabulary of a model with a tokenizer of the kind `vocab`; `None` if it is empty.
pub(crate) fn n_tokens(documents: &Documents<'_>, config: &Json, vocab: Vocab) -> Result<Option<usize>, FolderError> {
    let options = TokenizerOptions { vocab, ..TokenizerOptions::default() };
    let folder = Files::open(documents)?;
    let (vocab_size, kind) = (vocab_size_of(&folder, config)?, kind_of(&folder, vocab)?);
    let vocab = read_vocab(&folder, kind, config, vocab_size, &options, &mut Vec::new())?;
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
    let is_llama = vocab == Vocab::Llama;
    // The tokens for filling in the middle that Code Llama appended to the vocabulary of Llama 2. GGUF has a key only
    // for the last of them.
    if is_llama && vocab_size == Some(32016) {
        let mut special = SpecialVocab::load(folder, &["prefix", "suffix", "middle", "eot"], None)?;
        special.set_id("eot", Some(&Json::from(32010)));
        special.write(kvs);
    }
    if vocab == Vocab::BpeWithEndOfTurn {
        let mut special = SpecialVocab::load(folder, &["eot"], None)?;
        special.write(kvs);
    }
    // Granite's small models.
    if is_llama && vocab_size == Some(49152) {
        kvs.set("tokenizer.ggml.add_bos_token", false);
    }
    Ok(())
}

/// Resolves vocabulary kinds that depend on the folder's files.
fn kind_of(folder: &Files<'_>, vocab: Vocab) -> Result<Vocab, FolderError> {
    let class = folder.tokenizer_config.get("tokenizer_class").and_then(Json::as_str);
    let model = folder.tokenizer.as_ref().and_then(|t| t.model.kind.as_deref());
    Ok(match vocab {
        Vocab::Phi3 if class == Some("GPT2Tokenizer") => Vocab::Bpe,
        Vocab::BpeOrWordPiece => match class {
            Some("BertTokenizer" | "BertTokenizerFast") | None => Vocab::WordPiece,
            Some("RobertaTokenizer" | "RobertaTokenizerFast") => vocab,
            Some(other) => {
                let class = UnsupportedFeature::OtherTokenizerClass(other.to_owned());
                return Err(folder.unsupported("tokenizer_config.json", class));
            }
        },
        Vocab::UnigramOrWordPiece if model == Some("Unigram") => vocab,
        Vocab::UnigramOrWordPiece => Vocab::WordPiece,
        vocab => vocab,
    })
}

/// The files of which one is needed, for messages.
fn expected_files(kind: Vocab) -> &'static str {
    match kind {
        Vocab::Bpe
        | Vocab::BpeWithEndOfTurn
        | Vocab::MarkedBpe
        | Vocab::LlamaHf
        | Vocab::Pieces
        | Vocab::Gemma4
        | Vocab::BpeOrWordPiece => "tokenizer.json",
        Vocab::WordPiece => "tokenizer.json or vocab.txt",
        Vocab::XlmRoberta | Vocab::UnigramOrWordPiece => "sentencepiece.bpe.model or tokenizer.json",
        Vocab::T5 => "tokenizer.model or spiece.model",
        Vocab::Tiktoken | Vocab::TiktokenWithoutDefaults => "qwen.tiktoken or hy.tiktoken",
        Vocab::BpeOrTiktoken | Vocab::BpeOrTiktokenWithEnd => "tokenizer.json or tiktoken.model",
        Vocab::RwkvWorld => rwkv::FILE,
        Vocab::Plamo | Vocab::PlamoWithTemplate => plamo::FILE,
        Vocab::SentencePiece | Vocab::Arctic | Vocab::InternLm2 | Vocab::InternLm3 => "tokenizer.model",
        Vocab::Llama => "tokenizer.model, tokenizer.json or tekken.json",
        Vocab::Mistral => tekken::FILE,
        _ => "tokenizer.model or tokenizer.json",
    }
}

/// Reads the vocabulary.
fn read_vocab(
    folder: &Files<'_>,
    kind: Vocab,
    config: &Json,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<TokenList, FolderError> {
    let dir = folder.dir;
    let missing = || FolderError::NoTokenizer { dir: dir.path().to_owned(), expected: expected_files(kind) };
    let token_limit = config.get("token_limit").and_then(Json::as_u64).and_then(|limit| usize::try_from(limit).ok());
    let hugging_face = |kind, warnings| match &folder.tokenizer {
        Some(t) => vocab::hugging_face(folder, t, kind, vocab_size, token_limit, options, warnings),
        None => Err(missing()),
    };
    match kind {
        Vocab::WordPiece => {
            // A `vocab.txt` that is not UTF-8 is an error even beside a `tokenizer.json`.
            match (&folder.tokenizer, dir.lines(bert::FILE)?) {
                (None, Some(text)) => {
                    let t = bert::of_text(folder, &text)?;
                    vocab::hugging_face(folder, &t, vocab::Kind::WordPiece, vocab_size, None, options, warnings)
                }
                _ => hugging_face(vocab::Kind::WordPiece, warnings),
            }
        }
        Vocab::BpeOrWordPiece => {
            let pre_tokenizer = folder.tokenizer.as_ref().and_then(|t| t.pre_tokenizer.get("type")?.as_str());
            let is_words = pre_tokenizer == Some("Whitespace");
            hugging_face(if is_words { vocab::Kind::Words } else { vocab::Kind::Bpe }, warnings)
        }
        Vocab::XlmRoberta | Vocab::UnigramOrWordPiece => {
            const FILE: &str = "sentencepiece.bpe.model";
            // The mask token has an id in Nomic's MoE checkpoints, but not in their SentencePiece model.
            let is_nomic_moe =
                kind == Vocab::UnigramOrWordPiece && config.get("moe_every_n_layers").is_some_and(truthy);
            match (dir.bytes(FILE)?, &folder.tokenizer) {
                (Some(model), _) => {
                    let mask = is_nomic_moe.then_some(250_001);
                    unigram::realigned(folder, (FILE, &model), config, vocab_size, mask)
                }
                (None, Some(t)) => unigram::of_json(folder, t, config, vocab_size, warnings),
                (None, None) => Err(missing()),
            }
        }
        Vocab::T5 => read_t5(folder, vocab_size, warnings)?.ok_or_else(missing),
        Vocab::Tiktoken | Vocab::TiktokenWithoutDefaults => {
            let has_defaults = kind == Vocab::Tiktoken;
            tiktoken::read(folder, vocab_size, options, has_defaults)?.ok_or_else(missing)
        }
        Vocab::BpeOrTiktoken | Vocab::BpeOrTiktokenWithEnd => {
            let has_end = kind == Vocab::BpeOrTiktokenWithEnd;
            match &folder.tokenizer {
                Some(_) => hugging_face(vocab::Kind::Bpe, warnings),
                None => tiktoken::read_kimi(folder, vocab_size, options, has_end)?.ok_or_else(missing),
            }
        }
        Vocab::RwkvWorld => rwkv::read(folder, vocab_size)?.ok_or_else(missing),
        Vocab::Plamo | Vocab::PlamoWithTemplate => {
            plamo::read(folder, vocab_size, kind == Vocab::PlamoWithTemplate)?.ok_or_else(missing)
        }
        _ => read_pieces(folder, kind, config, vocab_size, options, warnings)?.map_or_else(
            || if takes_bpe(kind) { hugging_face(vocab::Kind::Bpe, warnings) } else { Err(missing()) },
            Ok,
        ),
    }
}

/// Reads the SentencePiece model of a T5; `None` if there is none.
fn read_t5(
    folder: &Files<'_>,
    vocab_size: Option<usize>,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<Option<TokenList>, FolderError> {
    for file in ["tokenizer.model", "spiece.model"] {
        let Some(model) = folder.dir.bytes(file)? else { continue };
        let specs = sentencepiece::specs(&model);
        let specs = specs.map_err(|e| folder.invalid(file, FileProblem::SentencePiece(e)))?;
        let list = match specs.model_type {
            sentencepiece::BPE if file == "tokenizer.model" => {
                vocab::sentencepiece(folder, &model, vocab_size, warnings)?
            }
            _ => unigram::of_model(folder, (file, &model), vocab_size, warnings)?,
        };
        return Ok(Some(list));
    }
    Ok(None)
}

/// Reads a vocabulary of pieces, or of ranks in Meta's folders; `None` if the folder has none for the kind.
fn read_pieces(
    folder: &Files<'_>,
    kind: Vocab,
    config: &Json,
    vocab_size: Option<usize>,
    options: &TokenizerOptions,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<Option<TokenList>, FolderError> {
    let model = match kind {
        Vocab::Bpe | Vocab::BpeWithEndOfTurn | Vocab::MarkedBpe | Vocab::LlamaHf | Vocab::Pieces | Vocab::Gemma4 => {
            None
        }
        Vocab::BpeOrSentencePiece if folder.tokenizer.is_some() => None,
        _ => folder.dir.bytes("tokenizer.model")?,
    };
    // Meta's folders use the same file name; since Llama 3 the file holds ranks.
    let model = match (model, &folder.tokenizer) {
        (Some(model), None) if kind == Vocab::Llama && tiktoken::is_ranks(&model) => {
            let is_later = config.get("rope_scaling").is_some_and(|scaling| !scaling.is_null());
            return tiktoken::llama3(folder, &model, is_later, vocab_size, options).map(Some);
        }
        (Some(model), Some(_)) if kind == Vocab::Llama && tiktoken::is_ranks(&model) => None,
        (model, _) => model,
    };
    let takes_hf = matches!(kind, Vocab::Llama | Vocab::LlamaHf);
    let list = match (&model, &folder.tokenizer) {
        (Some(model), _) if matches!(kind, Vocab::Arctic | Vocab::InternLm2 | Vocab::Phi3) => {
            vocab::changed_pieces(folder, model, vocab_size, kind, warnings)?
        }
        (Some(model), _) => vocab::sentencepiece(folder, model, vocab_size, warnings)?,
        (None, Some(t)) if kind == Vocab::Pieces => vocab::plain_pieces(folder, t, vocab_size, warnings)?,
        (None, Some(t)) if kind == Vocab::Gemma4 && vocab::is_llama_hf(t) => vocab::gemma4(folder, t, warnings)?,
        (None, Some(t)) if takes_hf && vocab::is_llama_hf(t) => vocab::llama_hf(folder, t, warnings)?,
        _ => return Ok(None),
    };
    Ok(Some(list))
}

/// Whether a tokenizer of the kind may be a byte-level BPE in `tokenizer.json`.
fn takes_bpe(kind: Vocab) -> bool {
    use Vocab::{Arctic, Gemma4, InternLm2, InternLm3, LlamaHf, Phi3, SentencePiece};
    !matches!(kind, SentencePiece | Arctic | InternLm2 | InternLm3 | Phi3 | LlamaHf | Gemma4)
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

/// The end-of-turn token of InternLM chat models, which also ends a text; `None` for other kinds, and for models without it.
fn end_of_turn(folder: &Files<'_>, kind: Vocab) -> Option<u32> {
    const END: &str = "<|im_end|>";
    let id = |id: &Json| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let configured = vocab::configured_tokens(folder, &mut Vec::new());
    let mut configured = configured.iter().filter(|(_, text, _)| *text == END);
    match kind {
        Vocab::InternLm2 => {
            let mut added = folder.tokenizer.iter().flat_map(|t| &t.added_tokens).filter(|token| token.content == END);
            added.next_back().and_then(|token| id(&token.id)).or_else(|| id(&configured.next_back()?.0))
        }
        Vocab::InternLm3 => configured.rfind(|(_, _, special)| *special).and_then(|(number, ..)| id(number)),
        _ => None,
    }
}
