//! Tests on synthetic folders.

use std::fs;
use std::path::PathBuf;

use gguf_format::{Value, ValueRef};
use gguf_model::arch::Changes;
use serde_json::{Value as Json, json};

use super::sentencepiece::tests::model;
use super::*;

mod kinds;

/// A folder in the system's temporary directory, removed on drop.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str, files: &[(&str, &[u8])]) -> Dir {
        let dir = std::env::temp_dir().join(format!("gguf-tokenizer-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for (file, bytes) in files {
            let file = dir.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        }
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Formats each key-value as one line, with all elements of arrays.
pub(crate) fn lines(kvs: &[(String, Value)]) -> Vec<String> {
    kvs.iter().map(|(key, value)| format!("{key} = {}", show(value))).collect()
}

fn show(value: &Value) -> String {
    match value.as_ref() {
        ValueRef::String(s) => s.to_string(),
        ValueRef::Array(a) => a.iter().map(|v| show(&v.to_owned())).collect::<Vec<_>>().join(" "),
        ValueRef::U32(v) => v.to_string(),
        ValueRef::I32(v) => v.to_string(),
        ValueRef::F32(v) => v.to_string(),
        ValueRef::Bool(v) => (v == 1).to_string(),
        other => format!("{other:?}"),
    }
}

fn run(name: &str, files: &[(&str, &[u8])], config: Json) -> Result<TokenizerKeys, FolderError> {
    run_with(name, files, config, &TokenizerOptions::default())
}

fn run_with(
    name: &str,
    files: &[(&str, &[u8])],
    config: Json,
    options: &TokenizerOptions,
) -> Result<TokenizerKeys, FolderError> {
    let dir = Dir::new(name, files);
    key_values(&dir.0, &config, options)
}

#[test]
fn sentencepiece_with_added_tokens() {
    let spm = model(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -1.5, 1), ("u", -2.0, 4)]);
    let settings = json!({
        "add_bos_token": true, "add_eos_token": false, "add_prefix_space": false, "bos_token": "<s>",
        "added_tokens_decoder": {
            "0": {"content": "<unk>", "special": true},
            "5": {"content": "<|x|>", "special": false},
            "6": {"content": "a▁b", "special": false},
            "99": {"content": "beyond", "special": false},
        },
        "chat_template": [
            {"name": "default", "template": "D"}, {"name": "tool use", "template": "T"}, {"name": "rag", "template": "R"},
        ],
    });
    let config =
        json!({"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": -1, "unk_token_id": 0, "sep_token_id": 8});
    let got = run(
        "spm",
        &[
            ("tokenizer.model", &spm),
            ("tokenizer_config.json", settings.to_string().as_bytes()),
            ("config.json", config.to_string().as_bytes()),
            ("added_tokens.json", br#"{"new": 7, "far": 8}"#),
        ],
        json!({"vocab_size": 8}),
    )
    .unwrap();
    assert_eq!(
        lines(&got.kvs),
        [
            "tokenizer.ggml.add_space_prefix = false",
            "tokenizer.ggml.model = llama",
            "tokenizer.ggml.pre = default",
            "tokenizer.ggml.tokens = <unk> <s> </s> ▁a u <|x|> a b new",
            "tokenizer.ggml.scores = -1000 0 0 -1.5 -2 -1000 -1000 -1000",
            "tokenizer.ggml.token_type = 3 3 3 1 1 3 4 4",
            "tokenizer.ggml.bos_token_id = 1",
            "tokenizer.ggml.unknown_token_id = 0",
            "tokenizer.ggml.add_bos_token = true",
            "tokenizer.ggml.add_eos_token = false",
            "tokenizer.chat_template.tool_use = T",
            "tokenizer.chat_template.rag = R",
            "tokenizer.chat_templates = tool_use rag",
            "tokenizer.chat_template = D",
        ]
    );
    assert_eq!(got.pre, PreSource::NotNeeded);
    let warnings: Vec<String> = got.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "the token \"far\" has the id 8, but the vocabulary has 8 tokens: not written",
            "the token \"beyond\" has the id 99, but the vocabulary has 8 tokens: not written",
            "the sep token id 8 is out of range: not written",
            "the pad token id -1 is out of range: not written",
        ]
    );
}

#[test]
fn vocab_size_pads_cuts_and_adds() {
    let spm = model(&[("<unk>", 0.0, 2), ("a", -1.0, 1)]);
    for (vocab_size, tokens) in
        [(json!(3), "<unk> a [PAD2]"), (json!(1), "<unk>"), (json!(null), "<unk> a"), (json!(0), "<unk> a")]
    {
        let got = run("sizes", &[("tokenizer.model", &spm)], json!({"vocab_size": vocab_size})).unwrap();
        assert_eq!(lines(&got.kvs)[2], format!("tokenizer.ggml.tokens = {tokens}"), "{vocab_size}");
    }
    for vocab_size in [json!(-1), json!("3"), json!(1.5), json!(1u64 << 40)] {
        let error = run("sizes", &[("tokenizer.model", &spm)], json!({"vocab_size": vocab_size})).unwrap_err();
        assert!(error.to_string().contains("vocab_size is"), "{error}");
    }
    // Code Llama and Granite's small models.
    let got = run("fim", &[("tokenizer.model", &spm)], json!({"vocab_size": 32016})).unwrap();
    assert_eq!(lines(&got.kvs).last().unwrap(), "tokenizer.ggml.eot_token_id = 32010");
    let settings: &[u8] = br#"{"add_bos_token": true, "chat_template": "C"}"#;
    let files: &[(&str, &[u8])] = &[("tokenizer.model", &spm), ("tokenizer_config.json", settings)];
    let got = run("granite", files, json!({"vocab_size": 49152})).unwrap();
    assert_eq!(
        lines(&got.kvs)[5..],
        ["tokenizer.ggml.add_bos_token = false".to_owned(), "tokenizer.chat_template = C".to_owned()]
    );
}

/// A tokenizer.json with byte-level BPE and the pattern of Llama 3.
fn llama3() -> Json {
    json!({
        "added_tokens": [
            {"id": 4, "content": "<|begin|>", "normalized": false, "special": true},
            {"id": 5, "content": "<|call|>", "normalized": false, "special": false},
            {"id": 6, "content": "Ġmy token", "normalized": true, "special": false},
            {"id": 7, "content": "Ġmine", "normalized": false, "special": false},
        ],
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"},
             "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [4], "tokens": ["<|begin|>"]}}},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "ignore_merges": true, "byte_fallback": false,
            "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]},
    })
}

/// The reference packs the value as a boolean, whatever its type.
#[test]
fn the_prefix_space_is_true_or_false_as_in_python() {
    let spm = model(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -1.5, 1)]);
    let cases = [
        (json!(true), Some(true)),
        (json!(1), Some(true)),
        (json!("false"), Some(true)),
        (json!(0), Some(false)),
        (json!(""), Some(false)),
        (json!(null), None),
    ];
    for (i, (value, expected)) in cases.into_iter().enumerate() {
        let settings = json!({ "add_prefix_space": value }).to_string();
        let files: [(&str, &[u8]); 2] = [("tokenizer.model", &spm), ("tokenizer_config.json", settings.as_bytes())];
        let got = run(&format!("prefix-{i}"), &files, json!({"vocab_size": 4})).unwrap();
        let found = got.kvs.iter().find(|(key, _)| key == "tokenizer.ggml.add_space_prefix");
        assert_eq!(found.map(|(_, value)| show(value)), expected.map(|adds: bool| adds.to_string()), "{settings}");
    }
}

#[test]
fn byte_level_bpe() {
    let settings = br#"{"bos_token": "<|begin|>", "eos_token": {"content": "<|call|>"}, "add_eos_token": true}"#;
    let json = llama3().to_string();
    let files: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", settings)];
    let got = run("bpe", files, json!({"vocab_size": 10})).unwrap();
    assert_eq!(
        lines(&got.kvs),
        [
            "tokenizer.ggml.model = gpt2",
            "tokenizer.ggml.pre = llama-bpe",
            // The non-special added token is written as the decoder returns it.
            "tokenizer.ggml.tokens = a b ab Ġ <|begin|> <|call|> Ġmy token  mine [PAD8] [PAD9]",
            "tokenizer.ggml.token_type = 1 1 1 1 3 3 4 4 5 5",
            "tokenizer.ggml.merges = a b",
            "tokenizer.ggml.bos_token_id = 4",
            "tokenizer.ggml.eos_token_id = 5",
            "tokenizer.ggml.add_bos_token = true",
            "tokenizer.ggml.add_eos_token = true",
        ]
    );
    assert!(matches!(&got.pre, PreSource::Definition { hash: Some(h) } if h.len() == 64), "{:?}", got.pre);
    assert!(got.warnings.is_empty(), "{:?}", got.warnings);
}

#[test]
fn the_kind_of_vocabulary_decides_which_file_is_read() {
    let spm = model(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("a", -1.0, 1)]);
    let json = llama3().to_string();
    let both: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes()), ("tokenizer.model", &spm)];
    for (files, vocab, expected) in [
        (both, Vocab::BPE_OR_SENTENCE_PIECE, "gpt2"),
        (&both[..1], Vocab::BPE_OR_SENTENCE_PIECE, "gpt2"),
        (&both[1..], Vocab::BPE_OR_SENTENCE_PIECE, "llama"),
        (both, Vocab::SENTENCE_PIECE_OR_BPE, "llama"),
        (both, Vocab::BPE, "gpt2"),
    ] {
        let options = TokenizerOptions { vocab, ..TokenizerOptions::default() };
        let got = run_with("kinds", files, json!({}), &options).unwrap();
        assert_eq!(lines(&got.kvs)[0], format!("tokenizer.ggml.model = {expected}"), "{vocab:?}");
    }
}

#[test]
fn the_end_of_a_turn_is_a_token_of_some_classes() {
    let json = llama3().to_string();
    let settings = br#"{"eot_token": "<|call|>"}"#;
    let files: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", settings)];
    for (vocab, is_there) in
        [(Vocab::BPE, false), (Vocab { readers: &[Reader::Bpe], quirks: &[Quirk::WritesEndOfTurn] }, true)]
    {
        let options = TokenizerOptions { vocab, ..TokenizerOptions::default() };
        let got = lines(&run_with("turn", files, json!({}), &options).unwrap().kvs);
        assert_eq!(got.contains(&"tokenizer.ggml.eot_token_id = 5".to_owned()), is_there, "{got:?}");
    }
}

#[test]
fn the_name_of_the_pre_tokenizer() {
    let with = |change: fn(&mut Json)| {
        let mut json = llama3();
        change(&mut json);
        json.to_string()
    };
    let bytes_only = |j: &mut Json| j["pre_tokenizer"] = json!({"type": "ByteLevel", "add_prefix_space": false});
    type Case<'a> = (&'a str, fn(&mut Json), Result<&'a str, &'a str>);
    let cases: &[Case<'_>] = &[
        ("llama 3", |_| {}, Ok("llama-bpe")),
        ("without looking up words", |j| j["model"]["ignore_merges"] = json!(false), Ok("smaug-bpe")),
        ("gpt-2", bytes_only, Ok("gpt-2")),
        (
            "nfc",
            |j| {
                j["pre_tokenizer"] = json!({"type": "ByteLevel", "add_prefix_space": false});
                j["normalizer"] = json!({"type": "NFC"})
            },
            Ok("olmo"),
        ),
        ("lower case", |j| j["normalizer"] = json!({"type": "Lowercase"}), Err("unknown pre-tokenizer (check hash ")),
        (
            "other pattern",
            |j| {
                j["pre_tokenizer"]["pretokenizers"][0]["pattern"] =
                    json!({"Regex": r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"})
            },
            Err("nearest known ones are llama-bpe"),
        ),
        (
            "unknown step",
            |j| j["pre_tokenizer"] = json!({"type": "New"}),
            Err("unknown pre-tokenizer; name the right one"),
        ),
        (
            "bad pattern",
            |j| j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": "("}),
            Err("unknown pre-tokenizer; "),
        ),
    ];
    for (name, change, expected) in cases {
        let json = with(*change);
        let files: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes())];
        match (run("pre", files, json!({})), expected) {
            (Ok(got), Ok(pre)) => assert_eq!(lines(&got.kvs)[1], format!("tokenizer.ggml.pre = {pre}"), "{name}"),
            (Err(e), Err(message)) => assert!(e.to_string().contains(message), "{name}: {e}"),
            (got, _) => panic!("{name}: {got:?}"),
        }
        let options = TokenizerOptions { pre: Some("mine".to_owned()), ..TokenizerOptions::default() };
        let got = run_with("pre", files, json!({}), &options).unwrap();
        assert_eq!((lines(&got.kvs)[1].as_str(), got.pre), ("tokenizer.ggml.pre = mine", PreSource::Requested));
        assert!(got.warnings[0].to_string().contains("may not know"), "{:?}", got.warnings);
    }
}

/// Special tokens and flags from all sources, as llama.cpp's converter (with transformers 4.57.6) writes them.
#[test]
fn special_tokens_come_from_many_places() {
    let special = |t: &str| json!({"SpecialToken": {"id": t}});
    let (a, b) = (json!({"Sequence": {"id": "A"}}), json!({"Sequence": {"id": "B"}}));
    let template = |single: Json, pair: Json| json!({"type": "TemplateProcessing", "single": single, "pair": pair});
    let (s, e, x) = (special("<s>"), special("</s>"), special("<x>"));
    let usual = [("<s>", false, true), ("</s>", false, true), ("<x>", false, true)];
    let bos_eos = json!({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"});
    let usual_list = "tokens = <s> </s> <x> [PAD7] [PAD8] [PAD9]; token_type = 3 3 3 5 5 5; ";
    type Case<'a> = (&'a [(&'a str, bool, bool)], Json, Json, Json, &'a str);
    let cases: &[Case<'_>] = &[
        (
            &usual,
            json!({"type": "RobertaProcessing", "sep": ["</s>", 5], "cls": ["<s>", 4]}),
            bos_eos.clone(),
            json!({}),
            "bos_token_id = 4; eos_token_id = 5; seperator_token_id = 5; add_bos_token = true; add_eos_token = true; \
             add_sep_token = true",
        ),
        (
            &usual,
            template(json!([s, a, x]), json!([s, a, x, b, x])),
            bos_eos.clone(),
            json!({}),
            "bos_token_id = 4; eos_token_id = 6; eot_token_id = 5; add_bos_token = true; add_eos_token = true; \
             add_sep_token = false",
        ),
        (
            &usual,
            template(json!([s, a]), json!([s, a, e, b])),
            bos_eos.clone(),
            json!({}),
            "bos_token_id = 4; eos_token_id = 5; seperator_token_id = 5; add_bos_token = true; add_sep_token = true",
        ),
        (
            &usual,
            template(json!([x, a]), json!([a, b])),
            json!({"bos_token": "<s>", "tokenizer_class": "PreTrainedTokenizerFast"}),
            json!({}),
            "bos_token_id = 4; add_bos_token = true",
        ),
        (
            &usual,
            Json::Null,
            json!({"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<x>"}),
            json!({"bos_token_id": 1, "pad_token_id": 3000, "text_config": {"unk_token_id": 2}}),
            "bos_token_id = 4; eos_token_id = 5; seperator_token_id = 5; mask_token_id = 6; unknown_token_id = 2; \
             padding_token_id = 3000",
        ),
        (
            &[("<s>", false, false), ("q", true, false)],
            Json::Null,
            json!({"tokenizer_class": "LlamaTokenizer"}),
            json!({}),
            "tokens = <s> q </s> <unk> [PAD8] [PAD9]; token_type = 3 4 3 3 5 5",
        ),
        (
            &[],
            Json::Null,
            json!({}),
            json!({"model_type": "gpt2"}),
            "tokens = <|endoftext|> [PAD5] [PAD6] [PAD7] [PAD8] [PAD9]; token_type = 3 5 5 5 5 5",
        ),
        (
            &[("<s>", false, false)],
            Json::Null,
            json!({"bos_token": "<s>", "added_tokens_decoder": {
                "9": {"content": "z", "special": false}, "8": {"content": "Ġy", "special": false, "normalized": false},
                "7": {"content": "Ġw", "special": true}, "6": {"content": "Ġv", "special": false}}}),
            json!({}),
            "tokens = <s> Ġv  w  y z [PAD9]; token_type = 4 4 3 4 4 5; bos_token_id = 4",
        ),
    ];
    for (added, post_processor, settings, config, expected) in cases {
        let added: Vec<Json> = (4..)
            .zip(*added)
            .map(|(id, (text, n, s))| json!({"id": id, "content": text, "normalized": n, "special": s}))
            .collect();
        let mut json = llama3();
        (json["added_tokens"], json["post_processor"]) = (json!(added), post_processor.clone());
        let (json, settings, config) = (json.to_string(), settings.to_string(), config.to_string());
        let files: &[(&str, &[u8])] = &[
            ("tokenizer.json", json.as_bytes()),
            ("tokenizer_config.json", settings.as_bytes()),
            ("config.json", config.as_bytes()),
        ];
        let options = TokenizerOptions { pre: Some("gpt-2".to_owned()), ..TokenizerOptions::default() };
        let got = run_with("special", files, json!({"vocab_size": 10}), &options).unwrap();
        let got: Vec<String> = lines(&got.kvs)[2..]
            .iter()
            .map(|l| l.trim_start_matches("tokenizer.ggml.").replace("a b ab Ġ ", "").replace("= 1 1 1 1 ", "= "))
            .filter(|l| !l.starts_with("merges"))
            .collect();
        let usual = if expected.starts_with("tokens") { "" } else { usual_list };
        assert_eq!(got.join("; "), format!("{usual}{expected}"), "{settings} {post_processor}");
    }
}

#[test]
fn llama_bpe_with_byte_fallback() {
    let json = json!({
        "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 3, "content": "<x>", "special": false}],
        "decoder": {"type": "Sequence", "decoders": []},
        "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<s>": 0, "<0x0A>": 1, "▁a": 2}, "merges": []},
    });
    let json = json.to_string();
    let settings = br#"{"bos_token": "<s>", "tokenizer_class": "PreTrainedTokenizerFast"}"#;
    let files: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", settings)];
    let got = run("fallback", files, json!({"vocab_size": 100})).unwrap();
    assert_eq!(
        lines(&got.kvs)[..5],
        [
            "tokenizer.ggml.model = llama",
            "tokenizer.ggml.pre = default",
            "tokenizer.ggml.tokens = <s> <0x0A> ▁a <x>",
            "tokenizer.ggml.scores = -1000 -1000 -1000 -1000",
            "tokenizer.ggml.token_type = 3 6 1 4",
        ]
    );
}

#[test]
fn chat_templates_have_three_homes() {
    let spm = model(&[("<unk>", 0.0, 2)]);
    let template = |extra: &[(&str, &[u8])]| {
        let mut files: Vec<(&str, &[u8])> = vec![("tokenizer.model", &spm), ("tokenizer_config.json", br#"{"x": 1}"#)];
        files.extend(extra);
        lines(&run("chat", &files, json!({})).unwrap().kvs)[5..].to_vec()
    };
    assert_eq!(template(&[("chat_template.json", br#"{"chat_template": "J"}"#)]), ["tokenizer.chat_template = J"]);
    let jinja: (&str, &[u8]) = ("chat_template.jinja", b"a\r\nb");
    assert_eq!(template(&[jinja]), ["tokenizer.chat_template = a\\nb"]);
    assert_eq!(
        template(&[jinja, ("additional_chat_templates/tool.jinja", b"T"), ("additional_chat_templates/x.txt", b"X")]),
        ["tokenizer.chat_template.tool = T", "tokenizer.chat_templates = tool", "tokenizer.chat_template = a\\nb"]
    );
    assert_eq!(template(&[("tokenizer_config.json", br#"{"chat_template": {"a": 1}}"#)]), [""; 0]);
}

#[test]
fn a_template_file_takes_precedence_in_some_classes() {
    let spm = model(&[("<unk>", 0.0, 2)]);
    let template = |setting: &str| {
        let settings = format!(r#"{{"chat_template": {setting}}}"#);
        let files: &[(&str, &[u8])] = &[
            ("tokenizer.model", &spm),
            ("tokenizer_config.json", settings.as_bytes()),
            ("chat_template.jinja", b"file"),
        ];
        let options = TokenizerOptions { template_file_first: true, ..TokenizerOptions::default() };
        lines(&run_with("template-file", files, json!({}), &options).unwrap().kvs)[5..].to_vec()
    };
    assert_eq!(template(r#""{% include 'chat_template.jinja' %}""#), ["tokenizer.chat_template = file"]);
    assert_eq!(
        template(r#"[{"name": "default", "template": "A"}, {"name": "tool", "template": "B"}]"#),
        ["tokenizer.chat_template.tool = B", "tokenizer.chat_templates = tool", "tokenizer.chat_template = file"]
    );
}

#[test]
fn a_token_beyond_the_vocabulary_is_blamed_on_the_file_that_adds_it() {
    let model =
        |added: &str| format!(r#"{{"model": {{"type": "BPE", "vocab": {{"a": 0}}}}, "added_tokens": [{added}]}}"#);
    let (plain, with_pad) = (model(""), model(r#"{"id": 1, "content": "<pad>", "special": true}"#));
    for (tokenizer, start) in [
        (&with_pad, "tokenizer.json: the token \"<pad>\" has the id 1, but vocab_size is 1"),
        (
            &plain,
            "config.json: vocab_size is 1, but the token \"<pad>\" gets the id 1; the token is not in tokenizer.json",
        ),
    ] {
        let files: &[(&str, &[u8])] =
            &[("tokenizer.json", tokenizer.as_bytes()), ("tokenizer_config.json", br#"{"pad_token": "<pad>"}"#)];
        let error = run("beyond", files, json!({"vocab_size": 1})).unwrap_err().to_string();
        assert!(error.contains(start), "{error}");
    }
}

#[test]
fn an_added_token_of_the_settings_is_wrong() {
    let tokenizer = llama3().to_string();
    for (added, message) in [
        (json!({"x": {"content": "a"}}), "tokenizer_config.json: added token \"x\": the id is not a number"),
        (json!({"7": {"special": true}}), "tokenizer_config.json: added token 7: missing field `content`"),
    ] {
        let settings = json!({"added_tokens_decoder": added}).to_string();
        let files: &[(&str, &[u8])] =
            &[("tokenizer.json", tokenizer.as_bytes()), ("tokenizer_config.json", settings.as_bytes())];
        let error = run("added", files, json!({})).unwrap_err();
        assert!(matches!(error, FolderError::Invalid { .. }) && error.to_string().contains(message), "{error}");
    }
}

#[test]
fn errors_name_the_file() {
    let bpe = |model: &str| format!(r#"{{"model": {model}}}"#);
    let cases: &[(&str, String, &str)] = &[
        ("tokenizer.model", "garbage".to_owned(), "tokenizer.model: "),
        ("tokenizer.json", "{".to_owned(), "tokenizer.json: EOF"),
        ("tokenizer.json", bpe(r#"{"type": "WordPiece", "vocab": {"a": 0}}"#), "of the type WordPiece"),
        ("tokenizer.json", bpe(r#"{"type": "BPE", "vocab": {"a": 3000000000}}"#), "has the id 3000000000"),
        ("tokenizer.json", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), "tokenizer.json: "),
        ("tekken.json", "{}".to_owned(), "tekken.json: missing field `config`"),
        ("other", String::new(), "no tokenizer found"),
        ("tokenizer_config.json", r#"{"tokenizer_class": "HybridDNATokenizer"}"#.to_owned(), "not supported"),
    ];
    for (file, text, message) in cases {
        let error = run("errors", &[(file, text.as_bytes())], json!({"vocab_size": 5})).unwrap_err().to_string();
        assert!(error.contains(message), "{file}: {error}");
    }
}

/// The key-values of a vocabulary type for these files, from the tokens on.
fn of_kind(vocab: Vocab, files: &[(&str, &[u8])]) -> Vec<String> {
    let options = TokenizerOptions { vocab, ..TokenizerOptions::default() };
    let got = run_with(&format!("kind-{vocab:?}"), files, json!({"vocab_size": 7}), &options).unwrap();
    lines(&got.kvs)[2..].iter().map(|line| line.strip_prefix("tokenizer.ggml.").unwrap().to_owned()).collect()
}

#[test]
fn pieces_that_other_files_change() {
    let pieces = [("<unk>", 0.0, 2), ("</s>", 0.0, 3), ("\0", -1.0, 1), ("[UNUSED_TOKEN_1]", -2.0, 1), ("a", -3.0, 4)];
    let mut spm = model(&pieces);
    spm.extend([0x1a, 2, 0x18, 0]); // normalizer_spec { add_dummy_prefix: false }
    let settings = json!({"unk_token": "<unk>", "add_prefix_space": true, "added_tokens_decoder": {
        "0": {"content": "<unk>", "special": true},
        "5": {"content": "<|im_end|>", "special": true},
        "6": {"content": "<|x|>", "special": false},
    }});
    let tokenizer = json!({"added_tokens": [{"id": 4, "content": "b", "special": true}],
        "model": {"type": "BPE", "vocab": {}, "merges": []}});
    let (settings, tokenizer) = (settings.to_string(), tokenizer.to_string());
    let files: &[(&str, &[u8])] = &[
        ("tokenizer.model", &spm),
        ("tokenizer_config.json", settings.as_bytes()),
        ("tokenizer.json", tokenizer.as_bytes()),
        ("added_tokens.json", br#"{"c": 3}"#),
        ("config.json", br#"{"eos_token_id": 1}"#),
    ];
    let unused = "[UNUSED_TOKEN_1]";
    assert_eq!(
        of_kind(Vocab::read_by(&[Reader::ChangedSentencePiece(Changes::Arctic)]), files),
        [
            format!("tokens = <unk> </s> \\u{{0}} {unused} a <|im_end|> <|x|>"),
            "scores = 0 0 -1 -2 -3 0 -10000".to_owned(),
            "token_type = 2 3 1 1 1 3 4".to_owned(),
            "eos_token_id = 1".to_owned(),
        ]
    );
    assert_eq!(
        of_kind(
            Vocab { readers: &[Reader::ChangedSentencePiece(Changes::InternLm2)], quirks: &[Quirk::InternLm2] },
            files
        ),
        [
            format!("tokens = <unk> </s> \u{1f409} {unused} b <|im_end|> <|x|> c"),
            "scores = -1000 0 -1 -2 -1000 -1000 -1000 -1000".to_owned(),
            "token_type = 3 3 1 5 3 3 4 4".to_owned(),
            "add_space_prefix = false".to_owned(),
            "eos_token_id = 5".to_owned(),
        ]
    );
    assert_eq!(
        of_kind(Vocab { readers: &[Reader::SentencePiece], quirks: &[Quirk::InternLm3] }, files)[2..],
        ["token_type = 3 3 1 4 1 3 3", "add_space_prefix = true", "eos_token_id = 5"]
    );
    assert_eq!(
        of_kind(Vocab::read_by(&[Reader::Gpt2, Reader::ChangedSentencePiece(Changes::Phi3)]), files),
        [
            "tokens = <unk> </s> \\u{0} c b <|im_end|> <|x|>",
            "scores = -1000 0 -1 -1000 -1000 -1000 -1000",
            "token_type = 3 3 1 4 3 3 4",
            "eos_token_id = 1",
        ]
    );
}

#[test]
fn entries_of_a_tokenizer_json_as_pieces() {
    let vocab = json!({"<s>": 0, "\0": 1, "<0x0A>": 2, "▁a": 3, "<|x|>": 4, "b": 5, "c": 6});
    let json = json!({
        "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 4, "content": "<|x|>", "special": false}],
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    });
    let json = json.to_string();
    let settings: &[u8] = br#"{"bos_token": "<s>"}"#;
    let files: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", settings)];
    assert_eq!(
        of_kind(Vocab::read_by(&[Reader::Entries]), files),
        ["tokens = <s> <b'\\\\x00'> <0x0A> ▁a <|x|> b c", "token_type = 3 6 6 1 4 1 1", "bos_token_id = 0"]
    );
}

#[test]
fn special_tokens_of_a_class_and_marks_as_they_are() {
    let json = llama3().to_string();
    let settings: &[u8] = br#"{"bos_token": "<|begin|>"}"#;
    let files: &[(&str, &[u8])] = &[("tokenizer.json", json.as_bytes()), ("tokenizer_config.json", settings)];
    let special_tokens = &[("bos", "<|call|>"), ("eot", "<|call|>"), ("unk", "<|missing|>")];
    let options = TokenizerOptions { vocab: Vocab::MARKED_BPE, special_tokens, ..TokenizerOptions::default() };
    let got = run_with("marked", files, json!({"vocab_size": 8}), &options).unwrap();
    let found = lines(&got.kvs);
    assert_eq!(
        found[2..4],
        [
            "tokenizer.ggml.tokens = a b ab Ġ <|begin|> <|call|> Ġmy token Ġmine",
            "tokenizer.ggml.token_type = 1 1 1 1 3 4 4 4",
        ]
    );
    assert_eq!(found[5..7], ["tokenizer.ggml.bos_token_id = 4", "tokenizer.ggml.eot_token_id = 5"]);
    assert!(!found.iter().any(|line| line.contains("unknown")), "{found:?}");
}
