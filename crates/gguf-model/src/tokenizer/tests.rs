use gguf_format::{Gguf, Head};

use super::*;

fn head() -> Head {
    let mut head = Head::default();
    head.set("tokenizer.ggml.model", "gpt2");
    head.set("tokenizer.ggml.pre", "gpt-2");
    head.set("tokenizer.ggml.tokens", ["a", "b", "c", "Ġ", "ab", "abc", "<|im_end|>", "<u>", "Ã", "©", ""]);
    head.set("tokenizer.ggml.token_type", [1, 1, 1, 1, 1, 1, 3, 4, 1, 1, 5]);
    head.set("tokenizer.ggml.merges", ["a b", "ab c", "b c"]);
    head
}

fn encoder<'a>(gguf: &'a Gguf<'_>) -> Result<Encoder<'a>, EncoderError> {
    Encoder::new(&Vocab::new(gguf).unwrap())
}

/// Passes the vocabulary with one key changed.
fn with<T>(change: impl FnOnce(&mut Head), test: impl FnOnce(&Gguf<'_>) -> T) -> T {
    let mut head = head();
    change(&mut head);
    test(&Gguf::parse(head.encode().unwrap()).unwrap())
}

#[test]
fn a_vocabulary_is_viewed() {
    let change = |head: &mut Head| {
        head.set("tokenizer.ggml.scores", [0.5f32; 11]);
        head.set("tokenizer.ggml.eos_token_id", 6u32);
        head.set("tokenizer.ggml.padding_token_id", u32::MAX);
        head.set("tokenizer.ggml.fim_pre_token_id", 1u32);
        head.set("tokenizer.ggml.prefix_token_id", 7u32);
        head.set("tokenizer.ggml.add_bos_token", false);
        head.set("tokenizer.chat_template", "default");
        head.set("tokenizer.chat_template.tool_use", "tools");
    };
    with(change, |gguf| {
        let vocab = Vocab::new(gguf).unwrap();
        assert_eq!(
            (vocab.kind(), vocab.model(), vocab.pre(), vocab.len()),
            (TokenizerKind::Bpe, "gpt2", Some("gpt-2"), 11)
        );
        assert!(!vocab.is_empty());
        assert_eq!(vocab.tokens().nth(3).unwrap(), "Ġ");
        assert_eq!(vocab.index_tokens().get(5).unwrap(), "abc");
        assert_eq!((vocab.score(10), vocab.score(11)), (Some(0.5), None));
        assert_eq!((vocab.token_type(7), vocab.token_type(11)), (Some(TokenType::UserDefined), None));
        let merges: Vec<_> = vocab.merges().map(|merge| split_merge(merge).unwrap().1.to_string_lossy()).collect();
        assert_eq!(merges, ["b", "c", "c"]);
        assert_eq!(Role::all().map(|role| vocab.special(role)).collect::<Vec<_>>()[..2], [None, Some(6)]);
        assert_eq!((vocab.special(Role::Pad), vocab.special(Role::FimPre)), (None, Some(7)));
        assert_eq!((vocab.add_bos(), vocab.add_eos(), vocab.add_space_prefix()), (Some(false), None, None));
        assert_eq!(vocab.chat_template(), Some("default"));
        assert_eq!(vocab.named_chat_templates().collect::<Vec<_>>(), [("tool_use", "tools")]);
    });
}

#[test]
fn roles_have_names_and_keys() {
    for role in Role::all() {
        assert_eq!(Role::from_name(role.name()), Some(role));
        assert!(keys::lookup(role.key(), None).is_some_and(|row| row.instead.is_none()), "{}", role.key());
    }
    assert_eq!(Role::from_name("end"), None);
}

#[test]
fn errors_name_the_key() {
    type Change = fn(&mut Head);
    let cases: &[(Change, &str)] = &[
        (|h| h.set("tokenizer.ggml.model", 1u32), "tokenizer.ggml.model is of type u32, not string"),
        (|h| h.set("tokenizer.ggml.tokens", 1u32), "tokenizer.ggml.tokens is of type u32, not [string]"),
        (|h| h.set("tokenizer.ggml.tokens", [1u32]), "tokenizer.ggml.tokens is of type [u32], not [string]"),
        (|h| h.set("tokenizer.ggml.scores", [1f32]), "tokenizer.ggml.scores has 1 elements for 11 tokens"),
        (|h| h.set("tokenizer.ggml.token_type", [1u8; 11]), "tokenizer.ggml.token_type is of type [u8], not [i32]"),
        (|h| h.set("tokenizer.ggml.bos_token_id", 11u32), "tokenizer.ggml.bos_token_id is 11, but there are 11 tokens"),
        (|h| h.set("tokenizer.ggml.eos_token_id", -2i32), "tokenizer.ggml.eos_token_id is -2, but there are 11 tokens"),
        (|h| h.set("tokenizer.ggml.add_bos_token", 1u32), "tokenizer.ggml.add_bos_token is of type u32, not bool"),
    ];
    for (change, message) in cases {
        assert_eq!(with(change, |gguf| Vocab::new(gguf).unwrap_err().to_string()), *message);
    }
    let empty = Head::default().encode().unwrap();
    let error = Vocab::new(&Gguf::parse(&empty).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the key tokenizer.ggml.model is missing");

    let cases: &[(Change, &str)] = &[
        (|h| h.set("tokenizer.ggml.model", "bert"), "tokenizer.ggml.model is \"bert\"; text is encoded for"),
        (|h| h.set("tokenizer.ggml.pre", "new"), "tokenizer.ggml.pre is \"new\", which is not a known pre-tokenizer"),
        (|h| assert!(h.remove("tokenizer.ggml.merges")), "the key tokenizer.ggml.merges is missing"),
        (
            |h| h.set("tokenizer.ggml.tokens", ["a", "b", "a", "c", "", "", "", "", "", "", ""]),
            "tokenizer.ggml.tokens: token 2 duplicates token 0: \"a\"",
        ),
        (
            |h| h.set("tokenizer.ggml.pre", "llama-bpe"),
            "the pre-tokenizer llama-bpe adds a token to every text, but tokenizer.ggml.bos_token_id has no token",
        ),
        (
            |h| h.set("tokenizer.ggml.add_eos_token", true),
            "tokenizer.ggml.add_eos_token adds a token to every text, but tokenizer.ggml.eos_token_id has no token",
        ),
    ];
    for (change, message) in cases {
        let error = with(change, |gguf| encoder(gguf).unwrap_err().to_string());
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn text_is_encoded_and_decoded() {
    let options = EncodeOptions::default();
    with(
        |_| {},
        |gguf| {
            let encoder = encoder(gguf).unwrap();
            assert_eq!(encoder.encode(""), []);
            assert_eq!(encoder.encode("abcab a"), [5, 4, 3, 0]);
            // The bytes of é; x is not a token.
            assert_eq!(encoder.encode("éx"), [8, 9]);
            assert_eq!(encoder.encode("a<|im_end|><u>"), [0, 6, 7]);
            assert_eq!(encoder.encode_with("a<|im_end|><u>", &options.parse_special(false)), [0, 7]);
            assert_eq!(encoder.decode(&[5, 3, 8, 9, 6, 7, 10, 99]), "abc é<|im_end|><u>".as_bytes());
            assert!(encoder.is_control(6) && !encoder.is_control(7) && !encoder.is_control(99));
            assert_eq!((encoder.token(b"ab"), encoder.token(b"bc")), (Some(4), None));
        },
    );
    let change = |head: &mut Head| {
        head.set("tokenizer.ggml.bos_token_id", 7u32);
        head.set("tokenizer.ggml.add_bos_token", true);
    };
    with(change, |gguf| {
        let encoder = encoder(gguf).unwrap();
        assert_eq!(encoder.encode("a"), [7, 0]);
        assert_eq!(encoder.encode_with("a", &options.add_special(false)), [0]);
    });
}

#[test]
fn bytes_and_characters_are_inverse() {
    let chars: std::collections::BTreeSet<char> = (0..=255).map(byte_char).collect();
    assert_eq!(chars.len(), 256);
    assert!((0..=255).all(|b| char_byte(byte_char(b)) == Some(b)));
    assert_eq!((byte_char(b' '), byte_char(b'\n'), byte_char(0xad)), ('Ġ', 'Ċ', 'Ń'));
    assert_eq!(char_byte('▁'), None);
}
