//! Edits of chat templates: the main one, and named ones for other uses, such as `tool_use`.

use gguf_format::keys::{TOKENIZER_CHAT_TEMPLATE, TOKENIZER_CHAT_TEMPLATES};
use gguf_format::{Array, Head, Value, ValueRef, ValueType};

use crate::Edit;

/// The edits that set a chat template: the main one if `name` is `None` or `default`, otherwise that of the name, which is also added to the list of
/// names. As in gguf-py, characters of the name that are no ASCII letters or digits become `_`.
///
/// ```
/// use gguf_edit::templates::chat_template;
/// use gguf_format::Head;
///
/// let mut head = Head::default();
/// for (name, text) in [(None, "{{ messages }}"), (Some("tool-use"), "{{ tools }}")] {
///     let edits = chat_template(&head, name, text);
///     gguf_edit::apply(&mut head, &edits)?;
/// }
/// let text = |key| head.get(key).and_then(|value| value.get::<&str>().ok());
/// assert_eq!(text("tokenizer.chat_template"), Some("{{ messages }}"));
/// assert_eq!(text("tokenizer.chat_template.tool_use"), Some("{{ tools }}"));
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
pub fn chat_template(head: &Head, name: Option<&str>, text: &str) -> Vec<Edit> {
    let name: String = name
        .filter(|name| *name != "default")
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if name.is_empty() {
        return vec![Edit::Set { key: TOKENIZER_CHAT_TEMPLATE.to_owned(), value: text.into() }];
    }
    let mut edits = vec![Edit::Set { key: format!("{TOKENIZER_CHAT_TEMPLATE}.{name}"), value: text.into() }];
    let present = head.get(TOKENIZER_CHAT_TEMPLATES).and_then(|value| value.as_array());
    let mut names = Array::new(ValueType::STRING);
    for other in present.into_iter().flat_map(|names| names.iter()).filter(|other| other.as_str().is_some()) {
        if other.as_str().is_some_and(|other| other == name.as_str()) {
            return edits;
        }
        // Only strings reach this point.
        let _ = names.push(other);
    }
    let _ = names.push(ValueRef::from(name.as_str()));
    edits.push(Edit::Set { key: TOKENIZER_CHAT_TEMPLATES.to_owned(), value: Value::Array(names) });
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_templates_are_listed_once() {
        let mut head = Head::default();
        for (name, text) in
            [(Some("a"), "1"), (Some("b.c"), "2"), (Some("a"), "3"), (Some("default"), "4"), (None, "5")]
        {
            let edits = chat_template(&head, name, text);
            crate::apply(&mut head, &edits).unwrap();
        }
        let kvs: Vec<String> =
            head.kvs.iter().map(|kv| format!("{} {:?}", String::from_utf8_lossy(&kv.key), kv.value)).collect();
        assert_eq!(kvs.len(), 4, "{kvs:?}");
        let text = |key| head.get(key).and_then(|value| value.get::<&str>().ok());
        assert_eq!(text("tokenizer.chat_template.a"), Some("3"));
        assert_eq!(text("tokenizer.chat_template.b_c"), Some("2"));
        assert_eq!(text("tokenizer.chat_template"), Some("5"));
        let names = head.get("tokenizer.chat_templates").and_then(|value| value.as_array()).unwrap();
        assert_eq!(names.iter().map(|name| name.to_string()).collect::<Vec<_>>(), ["a", "b_c"]);
    }
}
