//! Mistral's own tokenizer format, `tekken.json`: ranks as in `tiktoken`, preceded by the special tokens (`_set_vocab_mistral` in
//! conversion/base.py and `MistralVocab` in gguf-py's vocab.py, which read it with Mistral's `mistral-common`).

use std::collections::HashSet;

use gguf_format::keys;
use serde::Deserialize;

use super::base64;
use super::files::Files;
use super::hf::MAX_VOCAB;
use super::keys::{PreSource, TokenizerKeys, TokenizerOptions};
use super::sentencepiece::piece_type;
use super::special::SpecialVocab;
use super::tiktoken::{Ranks, shown};
use crate::folder_error::FolderError;
use crate::key_values::KeyValues;
use crate::number::{to_index, to_u32};
use crate::problem::FileProblem;

/// The file name.
pub(super) const FILE: &str = "tekken.json";

/// The special tokens of files without a list of them, which exist up to version 7.
const SPECIAL: [&str; 20] = [
    UNKNOWN,
    BEGIN,
    END,
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    PADDING,
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

const UNKNOWN: &str = "<unk>";
const BEGIN: &str = "<s>";
const END: &str = "</s>";
const PADDING: &str = "<pad>";

/// Chat templates by tokenizer version: names of llama.cpp's built-in templates, and files of its `models/templates/`, which are under the
/// Apache License 2.0 (version 13 with changes by Unsloth).
const TEMPLATES: [(&str, &str); 5] = [
    ("v1", "mistral-v1"),
    ("v3", "mistral-v3-tekken"),
    ("v7", "mistral-v7-tekken"),
    ("v11", include_str!("mistral-v11.jinja")),
    ("v13", include_str!("mistral-v13.jinja")),
];

#[derive(Deserialize)]
struct Tekken {
    config: Settings,
    vocab: Vec<Token>,
    special_tokens: Option<Vec<SpecialToken>>,
}

#[derive(Deserialize)]
struct Settings {
    default_vocab_size: u64,
    default_num_special_tokens: u64,
    version: String,
}

#[derive(Deserialize)]
struct Token {
    rank: u64,
    token_bytes: String,
}

#[derive(Deserialize)]
struct SpecialToken {
    rank: u64,
    token_str: String,
}

/// The key-values for such a file.
pub(super) fn read(
    folder: &Files<'_>,
    bytes: &[u8],
    is_native: bool,
    options: &TokenizerOptions,
) -> Result<TokenizerKeys, FolderError> {
    let file = || folder.dir.path().join(FILE);
    let tekken: Tekken = serde_json::from_slice(bytes).map_err(|source| FolderError::Json { file: file(), source })?;
    let invalid = |problem| FolderError::Invalid { file: file(), problem };
    let value =
        |key: &str, found: String, expected| invalid(FileProblem::Value { key: key.to_owned(), found, expected });
    let settings = &tekken.config;
    let (size, n_special) = (settings.default_vocab_size, settings.default_num_special_tokens);
    if size > MAX_VOCAB {
        return Err(invalid(FileProblem::VocabSize { found: size.to_string(), max: MAX_VOCAB }));
    }
    let n_ranks = size.checked_sub(n_special).filter(|n| *n <= tekken.vocab.len() as u64);
    let Some(n_ranks) = n_ranks else {
        let expected = "at most the special tokens and those of vocab, and at least the special tokens";
        return Err(value("config.default_vocab_size", size.to_string(), expected));
    };

    let special = special_tokens(&tekken, value)?;
    let id_of = |token: &str| {
        let found = special.iter().find(|(text, _)| text == token).map(|(_, id)| *id);
        let expected = "<unk>, <s>, </s> and <pad> among them";
        found.ok_or_else(|| value("special_tokens", format!("a list without {token}"), expected))
    };
    let ids = [
        (keys::TOKENIZER_GGML_BOS_TOKEN_ID, id_of(BEGIN)?),
        (keys::TOKENIZER_GGML_EOS_TOKEN_ID, id_of(END)?),
        (keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID, id_of(UNKNOWN)?),
        (keys::TOKENIZER_GGML_PADDING_TOKEN_ID, id_of(PADDING)?),
    ];

    let mut known = HashSet::new();
    let mut ranks = Vec::new();
    // Both numbers are bounded by `MAX_VOCAB`.
    for (i, token) in tekken.vocab.into_iter().take(to_index(n_ranks)).enumerate() {
        let entry = format!("vocab[{i}]");
        if token.rank != i as u64 {
            return Err(value(&format!("{entry}.rank"), token.rank.to_string(), "its index in the list"));
        }
        let decoded = base64::decode(token.token_bytes.as_bytes()).filter(|bytes| !bytes.is_empty());
        let Some(decoded) = decoded.filter(|bytes| known.insert(bytes.clone())) else {
            let found = token.token_bytes.chars().take(60).collect();
            return Err(value(&format!("{entry}.token_bytes"), found, "a unique token in base64"));
        };
        ranks.push((decoded, to_u32(i)));
    }
    let ranks = Ranks { tokens: ranks };
    let merges = ranks.all_merges().ok_or_else(|| invalid(FileProblem::LongTokens))?;

    let mut tokens: Vec<String> = special.into_iter().map(|(token, _)| token).collect();
    let mut types = vec![piece_type::CONTROL; tokens.len()];
    tokens.extend(ranks.tokens.iter().map(|(token, _)| shown(token)));
    types.resize(tokens.len(), piece_type::NORMAL);

    let (pre, source) = match &options.pre {
        Some(pre) => (pre.as_str(), PreSource::Requested),
        None => ("tekken", PreSource::Definition { hash: None }),
    };
    let mut kvs = KeyValues::default();
    kvs.string(keys::TOKENIZER_GGML_MODEL, "gpt2");
    kvs.string(keys::TOKENIZER_GGML_PRE, pre);
    kvs.strings(keys::TOKENIZER_GGML_MERGES, &merges);
    for (key, id) in ids {
        kvs.set(key, id);
    }
    kvs.strings(keys::TOKENIZER_GGML_TOKENS, &tokens);
    // The reference writes integers; the bytes of zeros are the same.
    kvs.i32s(keys::TOKENIZER_GGML_SCORES, &vec![0; tokens.len()]);
    kvs.i32s(keys::TOKENIZER_GGML_TOKEN_TYPE, &types);
    kvs.set(keys::TOKENIZER_GGML_ADD_BOS_TOKEN, true);
    kvs.set(keys::TOKENIZER_GGML_ADD_EOS_TOKEN, false);
    let mut warnings = Vec::new();
    // In Mistral's native layout, the template of the folder takes precedence.
    let has_template = is_native && folder.dir.has("chat_template.jinja")?;
    let community = TEMPLATES.iter().find(|(version, _)| *version == settings.version);
    match community.filter(|_| !has_template) {
        Some(_) if is_native && !options.community_template => {}
        Some((_, template)) => kvs.string(keys::TOKENIZER_CHAT_TEMPLATE, template),
        None => {
            let mut special = SpecialVocab::template_of(folder)?;
            special.write(&mut kvs);
            warnings = special.warnings;
        }
    }
    Ok(TokenizerKeys { kvs: kvs.into_vec(), pre: source, warnings, n_tokens: u32::try_from(tokens.len()).ok() })
}

/// The special tokens and their ids, padded with numbered tokens.
fn special_tokens(
    tekken: &Tekken,
    value: impl Fn(&str, String, &'static str) -> FolderError,
) -> Result<Vec<(String, u32)>, FolderError> {
    let (settings, n_special) = (&tekken.config, tekken.config.default_num_special_tokens);
    let is_early = || matches!(settings.version.as_str(), "v1" | "v2" | "v3" | "v7");
    let mut list: Vec<(String, u64)> = match &tekken.special_tokens {
        Some(tokens) => tokens.iter().map(|token| (token.token_str.clone(), token.rank)).collect(),
        None if is_early() => SPECIAL.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), id)).collect(),
        None => return Err(value("special_tokens", "missing".to_owned(), "a list, as in version 11 and later")),
    };
    if list.len() as u64 > n_special {
        let (found, expected) = (n_special.to_string(), "at least the number of special_tokens");
        return Err(value("config.default_num_special_tokens", found, expected));
    }
    // Bounded by the size of the vocabulary.
    list.extend((list.len() as u64..n_special).map(|id| (format!("<SPECIAL_{id}>"), id)));
    let mut known = HashSet::new();
    let mut checked = Vec::with_capacity(list.len());
    for (i, (token, id)) in list.iter().enumerate() {
        if *id >= n_special {
            let expected = "less than config.default_num_special_tokens";
            return Err(value(&format!("special_tokens[{i}].rank"), id.to_string(), expected));
        }
        if !known.insert(token.as_str()) {
            let expected = "a unique text";
            return Err(value(&format!("special_tokens[{i}].token_str"), format!("{token:?}"), expected));
        }
        checked.push((token.clone(), to_u32(to_index(*id))));
    }
    Ok(checked)
}
