//! `gguf get --render-chat`: the prompt that a chat template makes of a conversation.

use std::io::Write;
use std::path::Path;

use gguf_format::{Gguf, keys};
use serde_json::{Map, Value};

use crate::cmd::text_file::read_text_of;
use crate::failure::{Failure, Outcome, Verdict};
use crate::jinja;
use crate::ui::Ui;

/// Maximum size of a conversation.
const MAX_MESSAGES: u64 = 64 << 20;

/// The template that is used if there are tools and no other is named, as in transformers.
const TOOL_USE: &str = "tokenizer.chat_template.tool_use";

/// The variables of special tokens, as transformers names them, and the keys of their ids.
const TOKENS: [(&str, &str); 7] = [
    ("bos_token", keys::TOKENIZER_GGML_BOS_TOKEN_ID),
    ("eos_token", keys::TOKENIZER_GGML_EOS_TOKEN_ID),
    ("unk_token", keys::TOKENIZER_GGML_UNKNOWN_TOKEN_ID),
    ("sep_token", keys::TOKENIZER_GGML_SEPERATOR_TOKEN_ID),
    ("pad_token", keys::TOKENIZER_GGML_PADDING_TOKEN_ID),
    ("cls_token", keys::TOKENIZER_GGML_CLS_TOKEN_ID),
    ("mask_token", keys::TOKENIZER_GGML_MASK_TOKEN_ID),
];

/// Prints the prompt. `key` names a template.
pub fn print(
    ui: &mut Ui,
    path: &Path,
    gguf: &Gguf<'_>,
    key: Option<&str>,
    messages: &Path,
    add_generation_prompt: bool,
) -> Outcome {
    let text = read_text_of(messages, MAX_MESSAGES, "a conversation")?;
    let prompt = rendered(path, gguf, key, &messages.display().to_string(), &text, add_generation_prompt)?;
    write!(ui.out, "{prompt}")?;
    Ok(Verdict::Good)
}

/// The prompt of a conversation in JSON, whose place is `from` in messages.
///
/// # Errors
/// If the conversation is invalid, or the model has no such template, or it fails.
pub fn rendered(
    path: &Path,
    gguf: &Gguf<'_>,
    key: Option<&str>,
    from: &str,
    text: &str,
    add_generation_prompt: bool,
) -> Result<String, Failure> {
    let wrong = |problem: String| Failure::Bad(format!("{from}: {problem}"));
    let json: Value = serde_json::from_str(text).map_err(|e| wrong(format!("not JSON: {e}")))?;
    let mut variables = Map::new();
    for (name, key) in TOKENS {
        variables.extend(token(gguf, key).map(|token| (name.to_owned(), token.into())));
    }
    // The variables of an ordinary call without tools.
    variables.extend(["tools", "documents"].map(|name| (name.to_owned(), Value::Null)));
    variables.insert("add_generation_prompt".to_owned(), false.into());
    match json {
        Value::Array(_) => variables.extend([("messages".to_owned(), json)]),
        Value::Object(object) if object.get("messages").is_some_and(Value::is_array) => variables.extend(object),
        _ => return Err(wrong("expected a list of messages, or an object with the list messages".to_owned())),
    }
    if add_generation_prompt {
        variables.insert("add_generation_prompt".to_owned(), true.into());
    }
    let has_tools = variables.get("tools").is_some_and(|tools| !tools.is_null());
    // The name of a template stands for its key.
    let named = key.map(|name| format!("{}.{name}", keys::TOKENIZER_CHAT_TEMPLATE));
    let key = named.as_deref().filter(|named| gguf.get(named).is_some()).or(key);
    let key = match key {
        Some(key) => key,
        None if has_tools && gguf.get(TOOL_USE).is_some() => TOOL_USE,
        None => keys::TOKENIZER_CHAT_TEMPLATE,
    };
    let fail = |problem: String| Failure::Bad(format!("{}: {key}: {problem}", path.display()));
    if gguf.get(key).is_none() {
        let help = "gguf set FILE --chat-template-file TEMPLATE adds one".to_owned();
        return Err(
            Failure::Bad(format!("{}: no chat template: there is no key {key}", path.display())).with_help(Some(help))
        );
    }
    let template = gguf.get_as::<&str>(key).map_err(|e| fail(e.to_string()))?;
    jinja::render(template, &variables).map_err(fail)
}

/// The text of the token whose id is in this key.
fn token(gguf: &Gguf<'_>, key: &str) -> Option<String> {
    let id = gguf.get(key)?.get::<u64>().ok()?;
    let token = gguf.get(keys::TOKENIZER_GGML_TOKENS)?.as_array()?.get(id)?;
    Some(token.as_str()?.to_str().ok()?.to_owned())
}
