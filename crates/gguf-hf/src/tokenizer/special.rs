//! Special token ids, add-token flags, merges, chat templates and normalizer flags, as `SpecialVocab` of gguf-py (vocab.py) collects them from
//! `tokenizer.json`, `tokenizer_config.json` and `config.json`, in the order in which it writes them.
//!
//! The rules keep the reference's quirks, because the order and presence of keys depend on them. For example, a token object in the
//! configuration never equals a token of the post-processor.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::TokenizerWarning;
use super::files::Files;
use super::hf::{MAX_MERGES, TokenizerJson};
use crate::config::shortened;
use crate::documents::Documents;
use crate::files::named_templates;
use crate::folder_error::FolderError;
use crate::key_values::KeyValues;
use crate::problem::FileProblem;

/// The supported kinds of special tokens, in order.
pub(crate) const TYPES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// All data of a tokenizer except for its tokens.
#[derive(Debug, Default)]
pub(crate) struct SpecialVocab {
    types: Vec<&'static str>,
    /// Ids at or above this value are skipped; `None` for no bound.
    n_vocab: Option<usize>,
    merges: Vec<String>,
    ids: Vec<(&'static str, u32)>,
    add: Vec<(&'static str, bool)>,
    chat_template: Option<Json>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    /// Warnings about skipped values.
    pub(crate) warnings: Vec<TokenizerWarning>,
}

impl SpecialVocab {
    /// Collects the special tokens `types` (such as [`TYPES`]) from the folder; ids at or above `n_vocab` are skipped.
    pub(crate) fn load(
        folder: &Files<'_>,
        types: &[&'static str],
        n_vocab: Option<usize>,
    ) -> Result<SpecialVocab, FolderError> {
        let mut vocab = SpecialVocab { types: types.to_vec(), n_vocab, ..SpecialVocab::default() };
        let dir = folder.dir;
        let tokenizer = folder.tokenizer.as_deref();
        // The rules treat an absent configuration as an empty one.
        let mut settings = folder.tokenizer_config.as_object().filter(|o| !o.is_empty()).cloned();
        if let Some(tokenizer) = tokenizer {
            vocab.read_normalizer(&tokenizer.normalizer, 0);
            vocab.read_post_processor(&tokenizer.post_processor, settings.as_mut());
        }
        if let Some(settings) = settings {
            vocab.read_chat_template(dir, &settings)?;
            vocab.read_settings(&settings, tokenizer);
        }
        vocab.read_config_ids(&folder.config);
        Ok(vocab)
    }

    /// Loads the merges from `tokenizer.json`, otherwise from `merges.txt`.
    pub(crate) fn load_merges(&mut self, dir: &Documents<'_>, tokenizer: &TokenizerJson) -> Result<(), FolderError> {
        self.merges =
            tokenizer.merges().map(|(left, right)| format!("{} {}", space_free(left), space_free(right))).collect();
        if self.merges.is_empty() {
            self.read_merges_txt(dir)?;
        }
        if self.merges.is_empty() {
            self.warnings.push(TokenizerWarning::NoMerges);
        }
        Ok(())
    }

    /// Sets the merges.
    pub(crate) fn set_merges(&mut self, merges: Vec<String>) {
        self.merges = merges;
    }

    /// Whether there are no special token ids.
    pub(crate) fn has_no_ids(&self) -> bool {
        self.ids.is_empty()
    }

    /// Sets the chat template if there is none.
    pub(crate) fn set_default_template(&mut self, template: &str) {
        self.chat_template.get_or_insert_with(|| template.into());
    }

    /// Replaces the main chat template by the file `chat_template.jinja`, if there is one.
    pub(crate) fn prefer_template_file(&mut self, dir: &Documents<'_>) -> Result<(), FolderError> {
        let Some(text) = dir.lines("chat_template.jinja")? else { return Ok(()) };
        match &mut self.chat_template {
            Some(Json::Array(choices)) => {
                choices.retain(|choice| choice.get("name").and_then(Json::as_str) != Some("default"));
                choices.push(serde_json::json!({ "name": "default", "template": text }));
            }
            _ => self.chat_template = Some(Json::String(text)),
        }
        Ok(())
    }

    /// Only the chat template of a folder; `chat_template.jinja` takes precedence.
    pub(crate) fn template_of(folder: &Files<'_>) -> Result<SpecialVocab, FolderError> {
        let mut vocab = SpecialVocab::default();
        let setting = folder.tokenizer_config.get("chat_template").filter(|template| truthy(template));
        vocab.chat_template = match folder.dir.lines("chat_template.jinja")? {
            Some(text) => Some(Json::String(text)),
            None => setting.cloned(),
        };
        Ok(vocab)
    }

    /// Sets or replaces the id of a special token.
    pub(crate) fn force_id(&mut self, kind: &'static str, id: u32) {
        match self.ids.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, old)) => {
                let configured = std::mem::replace(old, id);
                let warning = TokenizerWarning::OtherId { kind, configured, id };
                self.warnings.extend((configured != id).then_some(warning));
            }
            None => self.ids.push((kind, id)),
        }
    }

    /// Sets the id of a special token, unless it has one or the id is out of range.
    pub(crate) fn set_id(&mut self, kind: &'static str, id: Option<&Json>) {
        let Some(number) = id.filter(|v| v.is_i64() || v.is_u64()) else { return };
        let in_range = number.as_u64().and_then(|id| u32::try_from(id).ok());
        match in_range.filter(|&id| self.n_vocab.is_none_or(|n| (id as usize) < n)) {
            Some(id) if self.ids.iter().all(|(k, _)| *k != kind) => self.ids.push((kind, id)),
            Some(_) => {}
            None => self.warnings.push(TokenizerWarning::SpecialId { kind, id: shortened(number) }),
        }
    }

    /// Replaces the id of a special token, if it has one.
    pub(crate) fn replace_id(&mut self, kind: &'static str, id: u32) {
        if let Some((_, old)) = self.ids.iter_mut().find(|(k, _)| *k == kind) {
            *old = id;
        }
    }

    pub(crate) fn add_flag(&self, kind: &str) -> Option<bool> {
        self.add.iter().find(|(k, _)| *k == kind).map(|(_, v)| *v)
    }

    pub(crate) fn set_add_flag(&mut self, kind: &'static str, value: bool) {
        match self.add.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, old)) => *old = value,
            None => self.add.push((kind, value)),
        }
    }

    fn read_normalizer(&mut self, normalizer: &Json, depth: u32) {
        match normalizer.get("type").and_then(Json::as_str) {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                if let Some(v) = normalizer.get("lowercase") {
                    self.lowercase = v.as_bool();
                }
                if let Some(v) = normalizer.get("strip_accents") {
                    self.strip_accents = v.as_bool();
                }
            }
            Some("Sequence") if depth < 16 => {
                for n in array(normalizer.get("normalizers")) {
                    self.read_normalizer(n, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Determines from the post-processor which special tokens are added. May insert its tokens into `settings`.
    fn read_post_processor(&mut self, post_processor: &Json, settings: Option<&mut Map<String, Json>>) {
        let mut none = Map::new();
        let has_settings = settings.is_some();
        let settings = settings.unwrap_or(&mut none);
        let token = |settings: &Map<String, Json>, key: &str| settings.get(key).cloned().unwrap_or(Json::Null);
        let (mut bos, mut eos) = (token(settings, "bos_token"), token(settings, "eos_token"));
        let (mut cls, mut sep) = (token(settings, "cls_token"), token(settings, "sep_token"));
        if !truthy(&bos) && truthy(&cls) {
            bos = cls.clone();
            settings.insert("bos_token".into(), bos.clone());
        }
        if !truthy(&eos) && truthy(&sep) {
            eos = sep.clone();
            settings.insert("eos_token".into(), eos.clone());
        }
        if !truthy(post_processor) {
            return;
        }
        let single = std::slice::from_ref(post_processor);
        let processors = post_processor.get("processors").map_or(single, |p| array(Some(p)));
        for processor in processors {
            match processor.get("type").and_then(Json::as_str) {
                Some("ByteLevel") => {
                    for kind in ["bos", "eos"] {
                        if self.add_flag(kind).is_none() {
                            self.set_add_flag(kind, false);
                        }
                    }
                }
                Some("RobertaProcessing") => {
                    for kind in ["bos", "eos", "sep"] {
                        self.set_add_flag(kind, true);
                    }
                    let first = |key: &str, or: &Json| {
                        processor.get(key).map_or(or.clone(), |v| v.get(0).cloned().unwrap_or(Json::Null))
                    };
                    if !truthy(&cls) && has_settings {
                        cls = first("cls", &bos);
                        settings.insert("cls_token".into(), cls.clone());
                    }
                    if !truthy(&sep) && has_settings {
                        sep = first("sep", &eos);
                        settings.insert("sep_token".into(), sep.clone());
                    }
                }
                Some("TemplateProcessing") => {
                    let single = array(processor.get("single"));
                    let (mut first, mut last) = (Json::Null, Json::Null);
                    if single.len() > 1 {
                        first = special(single.first());
                        if truthy(&first) {
                            if !has_settings {
                                bos = first.clone();
                            } else if first != bos && first != cls {
                                if !truthy(&bos) {
                                    bos = first.clone();
                                    settings.insert("bos_token".into(), bos.clone());
                                }
                                if !truthy(&cls) {
                                    cls = first.clone();
                                    settings.insert("cls_token".into(), cls.clone());
                                }
                            }
                            self.set_add_flag("bos", first == bos || first == cls);
                        }
                        last = special(single.last());
                        if truthy(&last) {
                            if !has_settings {
                                eos = last.clone();
                            } else if last != eos {
                                for (kind, key) in [("eot", "eot_token"), ("eom", "eom_token")] {
                                    if !self.types.contains(&kind) {
                                        self.types.push(kind);
                                        settings.insert(key.into(), eos.clone());
                                        break;
                                    }
                                }
                                eos = last.clone();
                                settings.insert("eos_token".into(), eos.clone());
                            }
                            self.set_add_flag("eos", true);
                        }
                    }
                    let separators = separators(array(processor.get("pair")), &first, &last);
                    if let Some((middle, second)) = separators {
                        let known = |token: &Json| *token == sep || *token == eos;
                        let mut add = truthy(&middle) && known(&middle) && !truthy(&last);
                        add |= second.is_some_and(|second| truthy(&second) && known(&second));
                        self.set_add_flag("sep", add);
                        if add && !truthy(&sep) && has_settings {
                            settings.insert("sep_token".into(), eos.clone());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The flags `add_x_token` and the tokens `x_token` of `tokenizer_config.json`.
    fn read_settings(&mut self, settings: &Map<String, Json>, tokenizer: Option<&TokenizerJson>) {
        let added = tokenizer.map_or(&[][..], |t| &t.added_tokens);
        for kind in self.types.clone() {
            if let Some(add) = settings.get(&format!("add_{kind}_token")).and_then(Json::as_bool) {
                match self.add_flag(kind) {
                    None => self.set_add_flag(kind, add),
                    Some(used) if used != add => self.warnings.push(TokenizerWarning::AddToken { kind, used }),
                    Some(_) => {}
                }
            }
            if let Some(text) = settings.get(&format!("{kind}_token")).and_then(token_text) {
                let id = added.iter().find(|t| t.content == text).map(|t| t.id.clone());
                self.set_id(kind, id.as_ref());
            }
        }
    }

    fn read_config_ids(&mut self, config: &Json) {
        for kind in self.types.clone() {
            let key = format!("{kind}_token_id");
            let id = config.get(&key).filter(|v| !v.is_null());
            let id = id.or_else(|| config.get("text_config")?.get(&key));
            self.set_id(kind, id);
            // A negative id marks an absent token; the reference refuses it in most classes.
            if id.and_then(Json::as_i64).is_some_and(|id| id < 0) {
                self.ids.retain(|(k, _)| *k != kind);
            }
        }
    }

    fn read_chat_template(&mut self, dir: &Documents<'_>, settings: &Map<String, Json>) -> Result<(), FolderError> {
        let template = match settings.get("chat_template") {
            Some(template) => Some(template.clone()),
            None => match dir.lines("chat_template.jinja")? {
                Some(text) => Some(with_additional_templates(dir, text)?),
                None => dir.json("chat_template.json")?.and_then(|j| j.get("chat_template").cloned()),
            },
        };
        match template {
            None | Some(Json::Null) => {}
            Some(template @ (Json::String(_) | Json::Array(_))) => self.chat_template = Some(template),
            Some(_) => self.warnings.push(TokenizerWarning::ChatTemplate),
        }
        Ok(())
    }

    fn read_merges_txt(&mut self, dir: &Documents<'_>) -> Result<(), FolderError> {
        let Some(text) = dir.lines("merges.txt")? else { return Ok(()) };
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || (i == 0 && line.starts_with('#')) {
                continue;
            }
            let mut parts = line.split_whitespace();
            if i >= MAX_MERGES {
                let problem = FileProblem::TooManyMerges { max: MAX_MERGES };
                return Err(FolderError::Invalid { file: dir.path().join("merges.txt"), problem });
            }
            match (parts.next(), parts.next(), parts.next()) {
                (Some(left), Some(right), None) => self.merges.push(format!("{left} {right}")),
                _ => self.warnings.push(TokenizerWarning::MergesLine { line: i + 1 }),
            }
        }
        Ok(())
    }

    /// Appends the key-values, in the order of `SpecialVocab.add_to_gguf`.
    pub(crate) fn write(&mut self, kvs: &mut KeyValues) {
        kvs.strings("tokenizer.ggml.merges", &self.merges);
        for (kind, id) in &self.ids {
            match id_key(kind) {
                Some(key) => kvs.set(key, *id),
                None => self.warnings.push(TokenizerWarning::NoKey { kind, id: *id }),
            }
        }
        for (kind, add) in &self.add {
            // GGUF has no such flag for the other tokens.
            if matches!(*kind, "bos" | "eos" | "sep") {
                kvs.set(format!("tokenizer.ggml.add_{kind}_token"), *add);
            }
        }
        match &self.chat_template {
            Some(Json::String(template)) => kvs.string("tokenizer.chat_template", template),
            Some(Json::Array(choices)) => write_templates(choices, kvs),
            _ => {}
        }
        if let Some(v) = self.lowercase {
            kvs.set("tokenizer.ggml.normalizer.lowercase", v);
        }
        if let Some(v) = self.strip_accents {
            kvs.set("tokenizer.ggml.normalizer.strip_accents", v);
        }
    }
}

/// The key of a special token id; the spelling `seperator` is GGUF's.
fn id_key(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bos" => "tokenizer.ggml.bos_token_id",
        "eos" => "tokenizer.ggml.eos_token_id",
        "eot" => "tokenizer.ggml.eot_token_id",
        "eom" => "tokenizer.ggml.eom_token_id",
        "unk" => "tokenizer.ggml.unknown_token_id",
        "sep" => "tokenizer.ggml.seperator_token_id",
        "pad" => "tokenizer.ggml.padding_token_id",
        "mask" => "tokenizer.ggml.mask_token_id",
        _ => return None,
    })
}

/// Named chat templates: one key each, a key with their names, and the template named `default` as the main template.
fn write_templates(choices: &[Json], kvs: &mut KeyValues) {
    let mut default = None;
    let mut names: Vec<String> = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    for choice in choices {
        let name = choice.get("name").and_then(Json::as_str).unwrap_or("");
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let Some(template) = choice.get("template").and_then(Json::as_str) else { continue };
        if name == "default" {
            default = Some(template);
        } else if !name.is_empty() {
            kvs.string(format!("tokenizer.chat_template.{name}"), template);
            if known.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    kvs.strings("tokenizer.chat_templates", &names);
    if let Some(template) = default {
        kvs.string("tokenizer.chat_template", template);
    }
}

/// `chat_template.jinja` alone, or a list of it and the templates in `additional_chat_templates/`, ordered by name.
fn with_additional_templates(dir: &Documents<'_>, default: String) -> Result<Json, FolderError> {
    let files = named_templates(dir);
    if files.is_empty() {
        return Ok(Json::String(default));
    }
    let mut list = vec![serde_json::json!({ "name": "default", "template": default })];
    for file in files {
        let name = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(template) = dir.lines(&file)? {
            list.push(serde_json::json!({ "name": name, "template": template }));
        }
    }
    Ok(Json::Array(list))
}

/// The separators between the sequences A and B of a pair template: the first token, and the second if there are two. `None` if there are none
/// or the template has a different form.
fn separators(pair: &[Json], first: &Json, last: &Json) -> Option<(Json, Option<Json>)> {
    let start = usize::from(truthy(first) && special(pair.first()) == *first);
    let stop = pair.len().checked_sub(usize::from(truthy(last) && special(pair.last()) == *last))?;
    let [a, middle @ .., b] = pair.get(start..stop)? else { return None };
    let sequence = |v: &Json| v.get("Sequence").and_then(|s| s.get("id")).and_then(Json::as_str).map(str::to_owned);
    if sequence(a).as_deref() != Some("A") || sequence(b).as_deref() != Some("B") {
        return None;
    }
    match middle {
        [] => None,
        [one] => Some((special(Some(one)), None)),
        [one, two] => Some((special(Some(one)), Some(special(Some(two))))),
        [one, ..] => Some((special(Some(one)), None)),
    }
}

/// The id (a string) of the special token in a template, or null.
fn special(part: Option<&Json>) -> Json {
    part.and_then(|p| p.get("SpecialToken")).and_then(|s| s.get("id")).cloned().unwrap_or(Json::Null)
}

/// A token in `tokenizer_config.json`: a string, or an object with the text as `content`.
pub(crate) fn token_text(token: &Json) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// The truth value in Python.
pub(crate) fn truthy(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(b) => *b,
        Json::Number(n) => n.as_f64() != Some(0.0),
        Json::String(s) => !s.is_empty(),
        Json::Array(a) => !a.is_empty(),
        Json::Object(o) => !o.is_empty(),
    }
}

/// The elements of an array; empty for other types.
pub(crate) fn array(value: Option<&Json>) -> &[Json] {
    value.and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Merge files separate the two parts by a space, so spaces within a part are written as GPT-2's `Ġ`.
fn space_free(part: &str) -> String {
    part.replace(' ', "\u{120}")
}
