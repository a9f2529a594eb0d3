//! The key-values of a text model's tokenizer: those of its files, and those that the table of the class derives from them.

use gguf_format::{Value, keys};
use gguf_model::arch::Checkpoint;
use serde_json::Value as Json;

use crate::arch;
use crate::config_file::config_of;
use crate::error::Error;
use crate::facts::{Fact, Facts};
use crate::model_plan::{ModelPlan, PlanError};
use crate::request::Request;
use crate::tokenizer::{self, TokenizerKeys, TokenizerOptions, TokenizerWarning};

/// The key-values of the tokenizer, in three parts.
pub(super) struct TokenizerPart {
    /// The key-values of the table that precede the tokenizer.
    pub(super) first: Vec<(String, Value)>,
    /// The key-values from the tokenizer's files.
    pub(super) kvs: Vec<(String, Value)>,
    /// The key-values of the table that follow the tokenizer.
    pub(super) last: Vec<(String, Value)>,
    pub(super) warnings: Vec<TokenizerWarning>,
}

impl TokenizerPart {
    /// Reads the tokenizer and evaluates the table's formulas. `of_tensor` makes the error of a formula.
    pub(super) fn new(
        request: &Request<'_>,
        model: &mut ModelPlan,
        of_tensor: impl Fn(PlanError) -> Error,
    ) -> Result<TokenizerPart, Error> {
        let files = request.tokenizer_files();
        // The table of the model whose folder provides the tokenizer.
        let mut table = model.checkpoint;
        if table.tokenizer.takes_target_class {
            let wrong = |source| Error::Plan { path: files.path().to_owned(), source };
            (_, table) = arch::of_checkpoint(&config_of(files)?).map_err(wrong)?;
        }
        let options = TokenizerOptions {
            pre: request.options.pre.clone(),
            vocab: table.tokenizer.vocab,
            special_tokens: table.tokenizer.special_tokens,
            community_template: !request.options.no_community_template,
            template_file_first: table.tokenizer.template_file_first,
        };
        let fields = Json::Object(model.fields.fields.clone());
        let mut tokenizer = tokenizer::keys_from(files, &fields, &options)?;

        let facts = &mut model.fields.facts;
        if let Some(document) = files.json("tokenizer_config.json")? {
            facts.set(Fact::TokenizerConfig, (*document).clone());
        }
        // Problems are metadata warnings.
        if let Ok(Some(document)) = files.json("generation_config.json") {
            facts.set(Fact::GenerationConfig, (*document).clone());
        }
        set_facts(&tokenizer, facts);
        let mut evaluate = |rows| arch::keys::evaluate(rows, model.architecture, &mut model.fields).map_err(&of_tensor);
        let first = evaluate(table.tokenizer.first_keys)?;
        let mut derived = evaluate(table.tokenizer.keys)?;
        if model.checkpoint.tokenizer.takes_target_class {
            derived.extend(evaluate(model.checkpoint.tokenizer.keys)?);
        }
        let mut last = late_tokens(&tokenizer, table);
        last.extend(derived);
        if let Some(n_tokens) = tokenizer.n_tokens {
            let types = tokenizer.kvs.iter().position(|(key, _)| key == keys::TOKENIZER_GGML_TOKEN_TYPE);
            let place = types.map_or(tokenizer.kvs.len(), |types| types + 1);
            tokenizer.kvs.insert(place, (keys::for_arch(keys::VOCAB_SIZE, model.architecture), n_tokens.into()));
        }
        Ok(TokenizerPart { first, kvs: tokenizer.kvs, last, warnings: tokenizer.warnings })
    }
}

/// Sets the facts about the tokenizer, for formulas of the key-values that follow.
fn set_facts(tokenizer: &TokenizerKeys, facts: &mut Facts) {
    if let Some((_, kind)) = tokenizer.kvs.iter().find(|(key, _)| key == "tokenizer.ggml.model") {
        let kind = kind.as_ref().as_str().map(|kind| kind.to_string());
        facts.set(Fact::TokenizerModel, kind);
    }
    let has_chat_template = tokenizer.kvs.iter().any(|(key, _)| key == "tokenizer.chat_template");
    facts.set(Fact::HasChatTemplate, has_chat_template);
}

/// The ids of the tokens that the table names by their texts.
fn late_tokens(tokenizer: &TokenizerKeys, table: &Checkpoint) -> Vec<(String, Value)> {
    let tokens = tokenizer.kvs.iter().find(|(key, _)| key == "tokenizer.ggml.tokens");
    let Some(tokens) = tokens.and_then(|(_, tokens)| tokens.as_ref().as_array()) else { return Vec::new() };
    let id_of = |text: &str| {
        let id = tokens.iter().position(|token| token.as_str().is_some_and(|token| token == *text));
        id.and_then(|id| u32::try_from(id).ok())
    };
    let ids = table.tokenizer.late_tokens.iter().filter_map(|(kind, text)| Some((*kind, id_of(text)?)));
    ids.map(|(kind, id)| (format!("tokenizer.ggml.{kind}_token_id"), id.into())).collect()
}
