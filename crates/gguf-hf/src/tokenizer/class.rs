//! Rules of the tokenizer classes of `transformers` (4.57) beyond the files: default special tokens and post-processors.

use gguf_format::sort::CompactSort as _;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};

use super::files::Files;
use super::hf::AddedToken;
use super::special::{array, token_text, truthy};
use crate::folder_error::FolderError;
use crate::problem::FileProblem;

/// A tokenizer class.
struct Class {
    /// The name without `Fast`.
    name: &'static str,
    /// The model types (`model_type` in `config.json`) that use the class by default.
    model_types: &'static [&'static str],
    /// Default special tokens.
    tokens: &'static [(&'static str, &'static str)],
    /// For a class that replaces the post-processor: whether it adds a BOS token by default.
    adds_bos: Option<bool>,
}

const END_OF_TEXT: &str = "<|endoftext|>";

/// The classes with rules; other classes have no defaults and keep the post-processor.
const CLASSES: [Class; 11] = [
    Class {
        name: "LlamaTokenizer",
        model_types: &["llama", "mistral", "mixtral", "mllama"],
        tokens: &[("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>")],
        adds_bos: Some(true),
    },
    Class {
        name: "CodeLlamaTokenizer",
        model_types: &["code_llama"],
        tokens: &[
            ("bos", "<s>"),
            ("eos", "</s>"),
            ("unk", "<unk>"),
            ("prefix", "▁<PRE>"),
            ("middle", "▁<MID>"),
            ("suffix", "▁<SUF>"),
            ("eot", "▁<EOT>"),
        ],
        adds_bos: Some(true),
    },
    Class {
        name: "GemmaTokenizer",
        model_types: &["gemma", "gemma2"],
        tokens: &[("bos", "<bos>"), ("eos", "<eos>"), ("unk", "<unk>"), ("pad", "<pad>")],
        adds_bos: Some(true),
    },
    Class {
        name: "CohereTokenizer",
        model_types: &["cohere", "cohere2"],
        tokens: &[("bos", "<BOS_TOKEN>"), ("eos", "<|END_OF_TURN_TOKEN|>"), ("unk", "<UNK>")],
        adds_bos: Some(true),
    },
    Class {
        name: "GPTNeoXTokenizer",
        model_types: &["gpt_neox"],
        tokens: &[("bos", END_OF_TEXT), ("eos", END_OF_TEXT), ("unk", END_OF_TEXT)],
        adds_bos: Some(false),
    },
    Class {
        name: "GPT2Tokenizer",
        model_types: &["gpt2", "gpt_bigcode", "gptj", "starcoder2"],
        tokens: &[("bos", END_OF_TEXT), ("eos", END_OF_TEXT), ("unk", END_OF_TEXT)],
        adds_bos: None,
    },
    Class {
        name: "Qwen2Tokenizer",
        model_types: &["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"],
        tokens: &[("eos", END_OF_TEXT), ("unk", END_OF_TEXT), ("pad", END_OF_TEXT)],
        adds_bos: None,
    },
    Class { name: "BertTokenizer", model_types: &["bert"], tokens: BERT_TOKENS, adds_bos: None },
    Class { name: "DistilBertTokenizer", model_types: &["distilbert"], tokens: BERT_TOKENS, adds_bos: None },
    Class { name: "RobertaTokenizer", model_types: &["roberta"], tokens: ROBERTA_TOKENS, adds_bos: None },
    Class { name: "XLMRobertaTokenizer", model_types: &["xlm-roberta"], tokens: ROBERTA_TOKENS, adds_bos: None },
];

const BERT_TOKENS: &[(&str, &str)] =
    &[("unk", "[UNK]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]")];

const ROBERTA_TOKENS: &[(&str, &str)] = &[
    ("bos", "<s>"),
    ("eos", "</s>"),
    ("unk", "<unk>"),
    ("sep", "</s>"),
    ("pad", "<pad>"),
    ("cls", "<s>"),
    ("mask", "<mask>"),
];

/// The settings of a tokenizer, as interpreted by its class.
pub(crate) struct Settings {
    /// Special tokens by kind, in the order in which missing ones are added.
    pub(crate) specials: Vec<(&'static str, String)>,
    /// Tokens to add, in order.
    pub(crate) added: Vec<AddedToken>,
    /// The tokens that the class adds around every text, if it replaces the post-processor.
    pub(crate) around: Option<(Option<String>, Option<String>)>,
    /// Overrides the setting of a lone `ByteLevel` pre-tokenizer.
    pub(crate) add_prefix_space: Option<bool>,
    /// The normalizer fields that BERT's classes set.
    pub(crate) normalizer: Option<Map<String, Json>>,
}

/// The kinds of special tokens, in the order in which missing ones are added.
const KINDS: [&str; 11] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask", "prefix", "middle", "suffix", "eot"];

impl Settings {
    /// Reads the settings of the folder; `in_file` contains the added tokens of its `tokenizer.json`.
    pub(crate) fn read(folder: &Files<'_>, in_file: &[AddedToken]) -> Result<Settings, FolderError> {
        let mut settings = folder.tokenizer_config.as_object().cloned().unwrap_or_default();
        let lists_added = settings.contains_key("added_tokens_decoder");
        if !lists_added {
            // Older versions wrote a file of special tokens, which takes precedence over the settings.
            let map = folder.dir.json_or_null("special_tokens_map.json")?;
            for (key, value) in map.as_object().into_iter().flatten() {
                settings.insert(key.clone(), value.clone());
            }
        }
        let class = class_of(folder, &settings);
        let specials = special_tokens(&settings, class);
        let mut added: Vec<(i64, AddedToken)> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        let mut put = |id: i64, token: AddedToken| match places.get(&id).and_then(|&place| added.get_mut(place)) {
            Some((_, old)) => *old = token,
            None => {
                places.insert(id, added.len());
                added.push((id, token));
            }
        };
        let special_texts: HashSet<&str> = specials.iter().map(|(_, special)| special.as_str()).collect();
        let is_special = |text: &str| special_texts.contains(text);
        if let Some(listed) = settings.get("added_tokens_decoder").and_then(Json::as_object) {
            for (id, token) in listed {
                let invalid = |problem| folder.invalid("tokenizer_config.json", problem);
                let number = id.trim().parse();
                let id = number.map_err(|_| invalid(FileProblem::AddedTokenKey { key: id.clone() }))?;
                let token = serde_json::from_value(token.clone());
                put(id, token.map_err(|source| invalid(FileProblem::AddedToken { id, source }))?);
            }
        } else {
            let file = folder.dir.json_or_null("added_tokens.json")?;
            for (text, id) in file.as_object().into_iter().flatten() {
                put(id.as_i64().unwrap_or(i64::MAX), AddedToken::new(text, is_special(text)));
            }
            for token in in_file {
                put(token.id.as_i64().unwrap_or(i64::MAX), token.clone());
            }
        }
        added.compact_sort_by_key(|(id, _)| *id);
        let mut added: Vec<AddedToken> = added.into_iter().map(|(_, token)| token).collect();
        for token in &mut added {
            token.set_special(token.special || is_special(&token.content));
        }
        let in_file: HashSet<&str> = in_file.iter().map(|token| token.content.as_str()).collect();
        let mut known: HashSet<String> = added.iter().map(|token| token.content.clone()).collect();
        let mut seen: HashSet<&str> = HashSet::new();
        for (kind, text) in &specials {
            // If a text has several kinds, the first takes precedence.
            if !seen.insert(text) {
                continue;
            }
            // A token may be an object with flags instead of a string.
            let full = settings.get(&format!("{kind}_token")).filter(|t| t.is_object());
            let full = full.and_then(|t| serde_json::from_value::<AddedToken>(t.clone()).ok());
            if known.contains(text) || (full.is_none() && in_file.contains(text.as_str())) {
                continue;
            }
            let mut token = full.unwrap_or_else(|| AddedToken::new(text, true));
            token.set_special(true);
            known.insert(token.content.clone());
            added.push(token);
        }

        let adds = |kind: &str, default: bool| settings.get(&format!("add_{kind}_token")).map_or(default, truthy);
        let text = |kind: &str| specials.iter().find(|(k, _)| *k == kind).map(|(_, text)| text.clone());
        let around = class.and_then(|c| c.adds_bos).map(|adds_bos| {
            (text("bos").filter(|_| adds("bos", adds_bos)), text("eos").filter(|_| adds("eos", false)))
        });
        // Llama's class leaves the setting unset, which has no effect.
        let unset = class.is_none_or(|c| c.name != "LlamaTokenizer").then_some(false);
        let add_prefix_space = settings.get("add_prefix_space").map_or(unset, Json::as_bool);
        let is_bert = class.is_some_and(|c| ["BertTokenizer", "DistilBertTokenizer"].contains(&c.name));
        let setting = |name: &str, default: Json| settings.get(name).cloned().unwrap_or(default);
        let normalizer = is_bert.then(|| {
            let of = [
                ("lowercase", setting("do_lower_case", true.into())),
                ("strip_accents", setting("strip_accents", Json::Null)),
                ("handle_chinese_chars", setting("tokenize_chinese_chars", true.into())),
            ];
            of.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        });
        Ok(Settings { specials, added, around, add_prefix_space, normalizer })
    }
}

fn class_of(folder: &Files<'_>, settings: &Map<String, Json>) -> Option<&'static Class> {
    let named = settings.get("tokenizer_class").or_else(|| folder.config.get("tokenizer_class")).and_then(Json::as_str);
    match named {
        Some(name) => CLASSES.iter().find(|c| c.name == name.strip_suffix("Fast").unwrap_or(name)),
        None => {
            let model_type = folder.config.get("model_type").and_then(Json::as_str)?;
            CLASSES.iter().find(|c| c.model_types.contains(&model_type))
        }
    }
}

fn special_tokens(settings: &Map<String, Json>, class: Option<&Class>) -> Vec<(&'static str, String)> {
    let mut specials = Vec::new();
    for kind in KINDS {
        let default = class.and_then(|c| c.tokens.iter().find(|(k, _)| *k == kind)).map(|(_, text)| *text);
        // The kinds after `mask` are special only in classes that define them.
        if default.is_none() && ["prefix", "middle", "suffix", "eot"].contains(&kind) {
            continue;
        }
        let text = settings.get(&format!("{kind}_token")).map_or(default, token_text);
        specials.extend(text.map(|text| (kind, text.to_owned())));
    }
    for token in array(settings.get("additional_special_tokens")) {
        specials.extend(token_text(token).map(|text| ("additional", text.to_owned())));
    }
    specials
}
