//! Edits of the vocabulary: the ids of special tokens, and the types of tokens.

use gguf_format::keys::{TOKENIZER_GGML_TOKEN_TYPE, TOKENIZER_GGML_TOKENS};
use gguf_format::{Array, ArrayRef, Head, Value, ValueRef, ValueType};
use gguf_model::tokenizer::Role;

use crate::{Edit, EditError};

/// Types of tokens, with llama.cpp's names.
const TYPES: [(&str, i32); 6] =
    [("normal", 1), ("unknown", 2), ("control", 3), ("user_defined", 4), ("unused", 5), ("byte", 6)];

/// The name of a type of tokens, such as `control`.
pub fn token_type_name(id: i32) -> Option<&'static str> {
    TYPES.iter().find(|(_, known)| *known == id).map(|(name, _)| *name)
}

/// The known roles of special tokens.
pub fn roles() -> impl Iterator<Item = &'static str> {
    Role::all().map(Role::name)
}

/// A token, given by its text or id.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// The only token with that text.
    Text(String),
    /// The token with that id.
    Id(u64),
}

/// The edit that assigns a role, such as `eos`, to a token.
///
/// ```
/// use gguf_edit::tokens::{Token, special_token};
/// use gguf_format::Head;
///
/// let mut head = Head::default();
/// head.set("tokenizer.ggml.tokens", ["a", "b", "<|end|>"]);
/// let edit = special_token(&head, "eos", &Token::Text("<|end|>".into()))?;
/// gguf_edit::apply(&mut head, &[edit])?;
/// let id = head.get("tokenizer.ggml.eos_token_id").and_then(|value| value.get::<u32>().ok());
/// assert_eq!(id, Some(2));
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
///
/// # Errors
/// If there is no such role or token, or several tokens have the text.
pub fn special_token(head: &Head, role: &str, token: &Token) -> Result<Edit, EditError> {
    let role = Role::from_name(role).ok_or_else(|| EditError::UnknownRole { role: role.to_owned() })?;
    let id = id_of(tokens(head)?, token)?;
    let id = u32::try_from(id).map_err(|_| EditError::TokenId { id, n_tokens: u32::MAX.into() })?;
    Ok(Edit::Set { key: role.key().to_owned(), value: id.into() })
}

/// The edit that sets the types of tokens, by name or number. If the file has no types, the others become normal.
///
/// # Errors
/// If there is no such type or token, several tokens have a text, or the numbers of types and tokens differ.
pub fn token_types(head: &Head, types: &[(Token, String)]) -> Result<Edit, EditError> {
    let tokens = tokens(head)?;
    let mut all: Vec<i32> = match head.get(TOKENIZER_GGML_TOKEN_TYPE) {
        None => (0..tokens.len()).map(|_| 1).collect(),
        Some(value) => {
            let array = value.as_array().filter(|array| array.len() == tokens.len());
            let n_types = value.as_array().map_or(0, |array| array.len());
            array
                .and_then(|array| array.to_vec::<i32>().ok())
                .ok_or(EditError::TokenTypes { n_types, n_tokens: tokens.len() })?
        }
    };
    for (token, ty) in types {
        let by_name = TYPES.iter().find(|(name, _)| name == ty).map(|(_, id)| *id);
        let by_number = || ty.parse().ok().filter(|id| TYPES.iter().any(|(_, known)| known == id));
        let ty = by_name.or_else(by_number).ok_or_else(|| EditError::UnknownTokenType { ty: ty.clone() })?;
        let id = id_of(tokens, token)?;
        if let Some(place) = usize::try_from(id).ok().and_then(|id| all.get_mut(id)) {
            *place = ty;
        }
    }
    Ok(Edit::Set { key: TOKENIZER_GGML_TOKEN_TYPE.to_owned(), value: Value::Array(all.into_iter().collect::<Array>()) })
}

fn tokens(head: &Head) -> Result<ArrayRef<'_>, EditError> {
    let tokens = head.get(TOKENIZER_GGML_TOKENS).and_then(|value| value.as_array());
    tokens.filter(|tokens| tokens.elem_type() == ValueType::STRING).ok_or(EditError::NoTokens)
}

fn id_of(tokens: ArrayRef<'_>, token: &Token) -> Result<u64, EditError> {
    match token {
        Token::Id(id) if *id < tokens.len() => Ok(*id),
        Token::Id(id) => Err(EditError::TokenId { id: *id, n_tokens: tokens.len() }),
        Token::Text(text) => {
            let has_text = |value: ValueRef<'_>| value.as_str().is_some_and(|token| token == text.as_str());
            let mut ids = (0..).zip(tokens.iter()).filter(|(_, value)| has_text(*value)).map(|(id, _)| id);
            match (ids.next(), ids.next()) {
                (Some(id), None) => Ok(id),
                (Some(a), Some(b)) => Err(EditError::TokenTwice { text: text.clone(), ids: [a, b] }),
                (None, _) => Err(EditError::NoToken { text: text.clone() }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let mut head = Head::default();
        head.set("tokenizer.ggml.tokens", ["<s>", "</s>", "a", "b", "a"]);
        head
    }

    #[test]
    fn tokens_are_found_by_text_or_id() {
        let set = |id: u32| Edit::Set { key: "tokenizer.ggml.eos_token_id".into(), value: id.into() };
        let text = |text: &str| Token::Text(text.into());
        assert_eq!(special_token(&head(), "eos", &text("</s>")).unwrap(), set(1));
        assert_eq!(special_token(&head(), "eos", &Token::Id(4)).unwrap(), set(4));
        // Names as in keys, and the usual spelling of one.
        for (other, role) in
            [("padding", "pad"), ("seperator", "sep"), ("separator", "sep"), ("unknown", "unk"), ("mask", "mask")]
        {
            let edit = |role| special_token(&head(), role, &Token::Id(1)).unwrap();
            assert_eq!(edit(other), edit(role));
        }
        for (role, token, message) in [
            ("end", text("</s>"), "unknown role end; expected one of bos, eos, "),
            ("eos", text("<end>"), "no token has the text \"<end>\""),
            ("eos", text("a"), "several tokens have the text \"a\", among them 2 and 4; specify the id"),
            ("eos", Token::Id(5), "token id 5 is out of range; the vocabulary has 5 tokens"),
        ] {
            let error = special_token(&head(), role, &token).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        assert!(matches!(special_token(&Head::default(), "eos", &Token::Id(0)), Err(EditError::NoTokens)));
    }

    #[test]
    fn types_are_set_among_the_others() {
        let value = |types: [i32; 5]| Edit::Set { key: "tokenizer.ggml.token_type".into(), value: types.into() };
        let control = [(Token::Text("<s>".into()), "control".to_owned()), (Token::Id(3), "6".to_owned())];
        assert_eq!(token_types(&head(), &control).unwrap(), value([3, 1, 1, 6, 1]));
        let mut typed = head();
        typed.set("tokenizer.ggml.token_type", [2, 3, 4, 5, 6]);
        assert_eq!(token_types(&typed, &control).unwrap(), value([3, 3, 4, 6, 6]));
        typed.set("tokenizer.ggml.token_type", [2, 3]);
        assert!(matches!(token_types(&typed, &control), Err(EditError::TokenTypes { n_types: 2, n_tokens: 5 })));
        let unknown = [(Token::Id(0), "7".to_owned())];
        assert!(matches!(token_types(&head(), &unknown), Err(EditError::UnknownTokenType { .. })));
    }
}
