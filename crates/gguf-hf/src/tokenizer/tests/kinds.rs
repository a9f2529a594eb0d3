//! Vocabularies specific to some classes of checkpoints. The expected values are the output of llama.cpp's converter.

use super::*;

fn options(vocab: Vocab) -> TokenizerOptions {
    TokenizerOptions { vocab, ..TokenizerOptions::default() }
}

/// The lines about the token lists and the class-specific keys, without those common to all vocabularies.
fn written(vocab: Vocab, name: &str, files: &[(&str, &[u8])], config: Json) -> Vec<String> {
    lines(&run_with(name, files, config, &options(vocab)).unwrap().kvs)
}

fn error(vocab: Vocab, name: &str, files: &[(&str, &[u8])], config: Json) -> String {
    let found = run_with(name, files, config, &options(vocab));
    found.map(|keys| lines(&keys.kvs)).unwrap_err().to_string()
}

fn word_piece() -> Json {
    json!({
        "added_tokens": [
            {"id": 0, "content": "[PAD]", "special": true, "normalized": false},
            {"id": 1, "content": "[UNK]", "special": true, "normalized": false},
            {"id": 4, "content": "new", "special": false, "normalized": true},
        ],
        "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2, "##b": 3}},
    })
}

#[test]
fn word_pieces_get_the_space_before_words() {
    let settings = br#"{"tokenizer_class": "BertTokenizer", "unk_token": "[UNK]", "pad_token": "[PAD]"}"#;
    let tokenizer = word_piece().to_string();
    let files = [("tokenizer.json", tokenizer.as_bytes()), ("tokenizer_config.json", &settings[..])];
    // The class adds [CLS], [MASK] and [SEP], which the file lacks.
    let found = written(Vocab::read_by(&[Reader::WordPiece]), "wordpiece", &files, json!({"vocab_size": 10}));
    assert_eq!(
        found,
        [
            "tokenizer.ggml.model = bert",
            "tokenizer.ggml.pre = jina-v2-en",
            "tokenizer.ggml.tokens = [PAD] [UNK] ▁a b ▁new [SEP] [CLS] [MASK] ▁[PAD8] ▁[PAD9]",
            "tokenizer.ggml.token_type = 3 3 1 1 4 3 3 3 5 5",
            "tokenizer.ggml.unknown_token_id = 1",
            "tokenizer.ggml.padding_token_id = 0",
            "tokenizer.ggml.normalizer.lowercase = true",
        ]
    );
    let bpe = error(Vocab::BPE, "wordpiece-bpe", &files, json!({}));
    assert!(bpe.contains("of the type WordPiece; checkpoints of this class have BPE"), "{bpe}");
    let files = [files[0], ("tokenizer_config.json", br#"{"tokenizer_class": "T5Tokenizer"}"#)];
    let other = error(Vocab::read_by(&[Reader::JinaBert]), "wordpiece-class", &files, json!({}));
    assert!(other.contains("tokenizer_class is T5Tokenizer, expected BertTokenizer or RobertaTokenizer"), "{other}");
    for (vocab, expected) in [
        (Vocab::read_by(&[Reader::WordPiece]), "no tokenizer found; expected tokenizer.json or vocab.txt"),
        (Vocab::read_by(&[Reader::T5]), "expected tokenizer.model or spiece.model"),
        (Vocab::read_by(&[Reader::Tiktoken { has_defaults: true }]), "expected qwen.tiktoken or hy.tiktoken"),
        (Vocab::RWKV_WORLD, "expected rwkv_vocab_v20230424.txt"),
    ] {
        assert!(error(vocab, "no-vocabulary", &[], json!({})).contains(expected), "{vocab:?}");
    }
}

#[test]
fn word_pieces_in_a_text() {
    let text = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b";
    let config = br#"{"model_type": "bert", "pad_token_id": 0}"#;
    let files = [("vocab.txt", &text[..]), ("config.json", &config[..])];
    let found = written(Vocab::read_by(&[Reader::WordPiece]), "wordpiece-text", &files, json!({}));
    assert_eq!(
        found,
        [
            "tokenizer.ggml.model = bert",
            "tokenizer.ggml.pre = jina-v2-en",
            "tokenizer.ggml.tokens = [PAD] [UNK] [CLS] [SEP] [MASK] ▁a b",
            "tokenizer.ggml.token_type = 3 3 3 3 3 1 1",
            "tokenizer.ggml.padding_token_id = 0",
        ]
    );
}

/// A Unigram model with normalization rules. It also has the specifications of [`model`], which these override.
fn unigram() -> Vec<u8> {
    let mut bytes = model(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -1.5, 1), ("b", -2.0, 4)]);
    bytes.extend([0x12, 2, 0x18, 1]); // trainer_spec { 3: 1 }
    bytes.extend([0x1a, 6, 0x12, 2, 7, 8, 0x20, 0]); // normalizer_spec { 2: 7 8, 4: false }
    bytes
}

#[test]
fn unigram_models_of_t5() {
    let bytes = unigram();
    let files = [("spiece.model", &bytes[..]), ("added_tokens.json", br#"{"new": 5, "b": 4}"#)];
    let found = written(Vocab::read_by(&[Reader::T5]), "t5", &files, json!({"vocab_size": 7}));
    assert_eq!(
        found,
        [
            "tokenizer.ggml.model = t5",
            "tokenizer.ggml.pre = default",
            "tokenizer.ggml.tokens = <unk> <s> </s> ▁a b new [PAD6]",
            "tokenizer.ggml.scores = 0 0 0 -1.5 -1000 -1000 -10000",
            "tokenizer.ggml.token_type = 2 3 3 1 4 4 5",
            "tokenizer.ggml.add_space_prefix = true",
            "tokenizer.ggml.remove_extra_whitespaces = false",
            "tokenizer.ggml.precompiled_charsmap = U8(7) U8(8)",
        ]
    );
    let bpe = [&bytes[..], &[0x12, 2, 0x18, 2]].concat();
    let refused = error(Vocab::read_by(&[Reader::T5]), "t5-bpe", &[("spiece.model", &bpe)], json!({}));
    assert!(refused.contains("of the type number 2"), "{refused}");
    let plain = written(Vocab::read_by(&[Reader::T5]), "t5-plain", &[("tokenizer.model", &bpe)], json!({}));
    assert_eq!(plain[0], "tokenizer.ggml.model = llama");
}

#[test]
fn unigram_models_of_xlm_roberta_are_realigned() {
    let bytes = unigram();
    let files = [("sentencepiece.bpe.model", &bytes[..])];
    let found =
        written(Vocab::read_by(&[Reader::XlmRoberta]), "xlmr", &files, json!({"vocab_size": 8, "type_vocab_size": 2}));
    assert_eq!(
        found,
        [
            "tokenizer.ggml.model = t5",
            "tokenizer.ggml.pre = default",
            "tokenizer.ggml.tokens = <s> <pad> </s> <unk> ▁a b [PAD5] [PAD6]",
            "tokenizer.ggml.scores = 0 0 0 0 -1.5 -2 -10000 -10000",
            "tokenizer.ggml.token_type = 3 3 3 2 1 1 5 5",
            "tokenizer.ggml.add_space_prefix = true",
            "tokenizer.ggml.token_type_count = 2",
            "tokenizer.ggml.remove_extra_whitespaces = false",
            "tokenizer.ggml.precompiled_charsmap = U8(7) U8(8)",
        ]
    );
}

#[test]
fn unigram_in_tokenizer_json() {
    let tokenizer = json!({
        "added_tokens": [
            {"id": 0, "content": "<s>", "special": true},
            {"id": 3, "content": "<user>", "special": false},
            {"id": 5, "content": "<mask>", "special": true},
        ],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "Bwg="}]},
        "model": {"type": "Unigram", "unk_id": 1,
            "vocab": [["<s>", 0.0], ["<unk>", 0.0], ["▁a", -1.25], ["<user>", 0.0], ["b", -2]]},
    });
    let settings = json!({"cls_token": "<s>", "add_prefix_space": true, "tokenizer_class": "PreTrainedTokenizerFast"});
    let (tokenizer, settings) = (tokenizer.to_string(), settings.to_string());
    let files = [("tokenizer.json", tokenizer.as_bytes()), ("tokenizer_config.json", settings.as_bytes())];
    for vocab in [Vocab::read_by(&[Reader::XlmRoberta]), Vocab::read_by(&[Reader::NomicXlmRoberta, Reader::WordPiece])]
    {
        let found = written(vocab, &format!("unigram-json-{vocab:?}"), &files, json!({"vocab_size": 6}));
        assert_eq!(
            found[..9],
            [
                "tokenizer.ggml.model = t5",
                "tokenizer.ggml.pre = default",
                "tokenizer.ggml.tokens = <s> <unk> ▁a <user> b [PAD5]",
                "tokenizer.ggml.scores = 0 0 -1.25 0 -2 -10000",
                "tokenizer.ggml.token_type = 3 2 1 4 1 5",
                "tokenizer.ggml.add_space_prefix = true",
                "tokenizer.ggml.token_type_count = 1",
                "tokenizer.ggml.remove_extra_whitespaces = false",
                "tokenizer.ggml.precompiled_charsmap = U8(7) U8(8)",
            ]
        );
    }
    let broken = tokenizer.replace("Bwg=", "Bw!=");
    let refused = error(
        Vocab::read_by(&[Reader::XlmRoberta]),
        "unigram-charsmap",
        &[("tokenizer.json", broken.as_bytes())],
        json!({}),
    );
    assert!(refused.contains("precompiled_charsmap is \"Bw!=\", expected base64"), "{refused}");
    let other = word_piece().to_string();
    let refused = error(
        Vocab::read_by(&[Reader::XlmRoberta]),
        "unigram-other",
        &[("tokenizer.json", other.as_bytes())],
        json!({}),
    );
    assert!(refused.contains("checkpoints of this class have Unigram"), "{refused}");
}

#[test]
fn ranks_of_tiktoken() {
    // a, b, ab, and a byte that is not UTF-8.
    let ranks = b"YQ== 0\nYg== 1\n\nYWI= 2\n/w== 3\n";
    let found = written(
        Vocab::read_by(&[Reader::Tiktoken { has_defaults: true }]),
        "tiktoken",
        &[("qwen.tiktoken", ranks)],
        json!({"vocab_size": 213}),
    );
    let ids = ["bos", "eos", "unknown"].map(|kind| format!("tokenizer.ggml.{kind}_token_id = 4"));
    assert_eq!(found[..2], ["tokenizer.ggml.model = gpt2", "tokenizer.ggml.pre = qwen2"]);
    let tokens = "tokenizer.ggml.tokens = a b ab ÿ <|endoftext|> <|im_start|> <|im_end|> <|extra_0|> ";
    assert!(found[2].starts_with(tokens) && found[2].ends_with(" <|extra_204|> [PAD212]"), "{}", found[2]);
    assert_eq!(found[4..5], ["tokenizer.ggml.merges = a b"]);
    assert_eq!(found[5..], ids);
    let config = br#"{"bos_token_id": 2}"#;
    let files = [("hy.tiktoken", &ranks[..]), ("config.json", &config[..])];
    let found = written(Vocab::read_by(&[Reader::Tiktoken { has_defaults: false }]), "tiktoken-hy", &files, json!({}));
    assert_eq!(found[1], "tokenizer.ggml.pre = hunyuan");
    assert_eq!(found[5..], ["tokenizer.ggml.bos_token_id = 2"]);
    for (ranks, config, expected) in [
        (&b"YQ== 0\nYQ="[..], json!({}), "line 2 is \"YQ=\", expected a token in base64 and its rank"),
        (b"YQ== -1", json!({}), "line 1 is \"YQ== -1\""),
        (b"YQ== 99999999", json!({}), "line 1"),
        (b"!! 0", json!({}), "line 1"),
        (b"", json!({}), "no token among 0 tokens"),
        (b"YQ== 0\nYg== 2", json!({}), "the token b with rank 2 among 2 tokens"),
        (b"YQ== 0\nYg== 0", json!({}), "the token b with rank 0 among 2 tokens"),
        (b"YQ== 0\nYQ== 1", json!({}), "the token a with rank 1 among 2 tokens"),
        (b"YQ== 0", json!({"vocab_size": 5}), "the token \"<|extra_204|>\" has the id 208, but vocab_size is 5"),
    ] {
        let found = error(
            Vocab::read_by(&[Reader::Tiktoken { has_defaults: true }]),
            "tiktoken-wrong",
            &[("qwen.tiktoken", ranks)],
            config,
        );
        assert!(found.contains(expected), "{found}");
    }
}

/// Kimi's special tokens are in `tokenizer_config.json`, which names some of them.
#[test]
fn ranks_of_kimi() {
    let ranks = b"YQ== 0\nYg== 1\nYWI= 2\n/w== 3\n";
    let tokens = br#"{"eos_token": "[EOS]", "bos_token": {"content": "[BOS]"},
        "added_tokens_decoder": {"4": {"content": "[BOS]"}, "6": {"content": "[EOS]"}}}"#;
    let config = br#"{"bos_token_id": 4, "eos_token_id": 5}"#;
    let files = [("tiktoken.model", &ranks[..]), ("tokenizer_config.json", &tokens[..]), ("config.json", &config[..])];
    for (vocab, name, end) in [
        (Vocab::read_by(&[Reader::Bpe, Reader::Kimi { has_end: false }]), "kimi-k2", 5),
        (Vocab::KIMI, "kimi-linear", 6),
    ] {
        let found = written(vocab, name, &files, json!({"vocab_size": 261}));
        assert_eq!(found[..2], ["tokenizer.ggml.model = gpt2", "tokenizer.ggml.pre = kimi-k2"]);
        let tokens = "tokenizer.ggml.tokens = a b ab ÿ [BOS] <|reserved_token_5|> [EOS] <|reserved_token_7|> ";
        assert!(found[2].starts_with(tokens) && found[2].ends_with(" <|reserved_token_259|> [PAD260]"), "{}", found[2]);
        assert_eq!(found[4], "tokenizer.ggml.merges = a b");
        let ids = ["tokenizer.ggml.bos_token_id = 4".to_owned(), format!("tokenizer.ggml.eos_token_id = {end}")];
        assert_eq!(found[5..], ids);
        // Special tokens beyond `vocab_size` are omitted.
        let found = written(vocab, name, &files, json!({"vocab_size": 7}));
        assert!(found[2].ends_with("<|reserved_token_5|> [EOS]"), "{}", found[2]);
    }
    let refused = error(Vocab::read_by(&[Reader::Bpe, Reader::Kimi { has_end: false }]), "kimi-none", &[], json!({}));
    assert!(refused.contains("expected tokenizer.json or tiktoken.model"), "{refused}");
}

/// Llama 3's file has the name of a SentencePiece model; later versions have other special tokens.
#[test]
fn ranks_of_llama_3() {
    // a, b, ab, aab, which results from two pairs, and a byte that is not UTF-8.
    let ranks = b"YQ== 0\nYg== 1\nYWI= 2\nYWE= 3\nYWFi 4\n/w== 5\n";
    let found = written(Vocab::LLAMA, "llama3", &[("tokenizer.model", ranks)], json!({"vocab_size": 262}));
    assert_eq!(found[..2], ["tokenizer.ggml.model = gpt2", "tokenizer.ggml.pre = llama-bpe"]);
    let tokens =
        "tokenizer.ggml.tokens = a b ab aa aab ÿ <|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> ";
    assert!(found[2].starts_with(tokens), "{}", found[2]);
    assert!(found[2].contains(" <|reserved_special_token_2|> <|reserved_special_token_3|> <|start_header_id|> "));
    assert!(found[2].ends_with(" <|reserved_special_token_250|>"), "{}", found[2]);
    assert_eq!(found[4], "tokenizer.ggml.merges = a b a a a ab aa b");
    let special = [
        "bos_token_id = 6",
        "eos_token_id = 7",
        "add_bos_token = true",
        "add_eos_token = false",
        "add_sep_token = false",
    ];
    assert_eq!(found[5..], special.map(|line| format!("tokenizer.ggml.{line}")));
    let later = json!({"vocab_size": 262, "rope_scaling": {"rope_type": "llama3"}});
    let found = written(Vocab::LLAMA, "llama31", &[("tokenizer.model", ranks)], later);
    for (i, token) in [
        (3, "<|reserved_special_token_1|>"),
        (4, "<|finetune_right_pad_id|>"),
        (5, "<|reserved_special_token_2|>"),
        (6, "<|start_header_id|>"),
        (8, "<|eom_id|>"),
        (9, "<|eot_id|>"),
        (10, "<|python_tag|>"),
        (11, "<|reserved_special_token_3|>"),
        (255, "<|reserved_special_token_247|>"),
    ] {
        assert_eq!(found[2].split(' ').nth(2 + 6 + i), Some(token), "{i}");
    }
    let small = error(Vocab::LLAMA, "llama3-small", &[("tokenizer.model", ranks)], json!({"vocab_size": 6}));
    assert!(small.contains("has the id 261, but vocab_size is 6"), "{small}");
}

#[test]
fn the_vocabulary_of_rwkv() {
    const FILE: &str = "rwkv_vocab_v20230424.txt";
    let text = "1 '\\n' 1\r\n2 ' ' 1\n3 b'\\xe4\\xb8' 2\n4 \"'\" 1\n5 'a b' 3\n";
    let files = [(FILE, text.as_bytes()), ("config.json", br#"{"eos_token_id": 7, "pad_token_id": 1}"#)];
    let found = written(Vocab::RWKV_WORLD, "rwkv", &files, json!({"vocab_size": 7}));
    assert_eq!(
        found[..6],
        [
            "tokenizer.ggml.model = rwkv",
            // Displayed with doubled backslashes.
            r"tokenizer.ggml.tokens = <s> \\n   \\xe4\\xb8 ' a b [PAD6]",
            "tokenizer.ggml.token_type = 3 1 1 1 1 1 5",
            "tokenizer.ggml.eos_token_id = 0",
            "tokenizer.ggml.padding_token_id = 1",
            "tokenizer.ggml.eot_token_id = 261",
        ]
    );
    assert_eq!(found[6], "tokenizer.ggml.bos_token_id = 0");
    assert!(found[7].starts_with("tokenizer.chat_template = {%- if not add_generation_prompt"), "{}", found[7]);
    let settings = br#"{"chat_template": "T"}"#;
    let files = [(FILE, text.as_bytes()), ("tokenizer_config.json", &settings[..])];
    assert_eq!(
        written(Vocab::RWKV_WORLD, "rwkv-template", &files, json!({"vocab_size": 6})).last().unwrap(),
        "tokenizer.chat_template = T"
    );
    for (text, expected) in [
        ("1 'a' 1\n2 'b'", "line 2"),
        ("1 'a' 2", "line 1 is \"1 'a' 2\", expected a token of the length given after it"),
        ("1 a 1", "expected a token as Python writes texts or bytes"),
        ("1 'a' 1\n2 'b' 1", "3 pieces, expected at most 2"),
    ] {
        let found = error(Vocab::RWKV_WORLD, "rwkv-wrong", &[(FILE, text.as_bytes())], json!({"vocab_size": 2}));
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn the_vocabulary_of_plamo() {
    let text = "[\"<u>\", 0.0, \"UNKNOWN\", 1]\n\n[\"<|plamo:bos|>\", 0, \"NORMAL\"]\n[\"<0x41>\", -1.5, \"BYTE\"]\n[\"a\", \"2.5\"]\n";
    let settings = br#"{"bos_token": "<|plamo:bos|>", "unk_token": "<u>", "pad_token": null, "chat_template": "T"}"#;
    let files = [("tokenizer.jsonl", text.as_bytes()), ("tokenizer_config.json", &settings[..])];
    let mut expected = vec![
        "tokenizer.ggml.model = plamo2",
        "tokenizer.ggml.pre = default",
        "tokenizer.ggml.tokens = <u> <|plamo:bos|> <0x41> a [PAD1] [PAD2]",
        "tokenizer.ggml.scores = 0 0 -1.5 2.5 -1000 -1000",
        "tokenizer.ggml.token_type = 2 3 6 1 5 5",
        "tokenizer.ggml.bos_token_id = 1",
        "tokenizer.ggml.unknown_token_id = 0",
        "tokenizer.ggml.eot_token_id = 4",
        "tokenizer.ggml.add_space_prefix = false",
    ];
    assert_eq!(
        written(Vocab::read_by(&[Reader::Plamo { has_template: false }]), "plamo", &files, json!({"vocab_size": 6})),
        expected
    );
    expected.push("tokenizer.chat_template = T");
    assert_eq!(
        written(Vocab::read_by(&[Reader::Plamo { has_template: true }]), "plamo3", &files, json!({"vocab_size": 6})),
        expected
    );
    for (text, expected) in [
        ("[\"a\", 0]\n[\"b\"]", "line 2 is \"[\\\"b\\\"]\", expected a list of text, score and type"),
        ("{}", "line 1"),
        ("[1, 0]", "line 1"),
        ("[\"a\", \"x\"]", "line 1"),
    ] {
        let found = error(
            Vocab::read_by(&[Reader::Plamo { has_template: false }]),
            "plamo-wrong",
            &[("tokenizer.jsonl", text.as_bytes())],
            json!({}),
        );
        assert!(found.contains(expected), "{found}");
    }
    let files = [files[0], ("tokenizer_config.json", br#"{"bos_token": "none"}"#)];
    let found = error(Vocab::read_by(&[Reader::Plamo { has_template: false }]), "plamo-token", &files, json!({}));
    assert!(found.contains("bos_token is \"none\", expected a token of tokenizer.jsonl"), "{found}");
}

/// A file in Mistral's own format with the tokens `a`, `b`, `ab`, `ba` and `aba`, of which the last is truncated.
fn tekken() -> Json {
    let special = ["<unk>", "<s>", "</s>", "<pad>"].iter().zip(0..);
    let special: Vec<Json> =
        special.map(|(text, rank)| json!({"rank": rank, "token_str": text, "is_control": true})).collect();
    let vocab = ["YQ==", "Yg==", "YWI=", "YmE=", "YWJh"].iter().zip(0..);
    let vocab: Vec<Json> =
        vocab.map(|(text, rank)| json!({"rank": rank, "token_bytes": text, "token_str": null})).collect();
    let config = json!({"default_vocab_size": 9, "default_num_special_tokens": 5, "version": "v7", "pattern": "x"});
    json!({"config": config, "vocab": vocab, "special_tokens": special})
}

#[test]
fn special_tokens_of_mistral_come_before_the_ranks() {
    let run = |tekken: &Json, more: &[(&str, &[u8])]| {
        let text = tekken.to_string();
        let files = [&[("tekken.json", text.as_bytes())], more].concat();
        written(Vocab::LLAMA, "tekken", &files, json!({"vocab_size": 77}))
    };
    let expected = [
        "tokenizer.ggml.model = gpt2",
        "tokenizer.ggml.pre = tekken",
        "tokenizer.ggml.merges = a b b a",
        "tokenizer.ggml.bos_token_id = 1",
        "tokenizer.ggml.eos_token_id = 2",
        "tokenizer.ggml.unknown_token_id = 0",
        "tokenizer.ggml.padding_token_id = 3",
        "tokenizer.ggml.tokens = <unk> <s> </s> <pad> <SPECIAL_4> a b ab ba",
        "tokenizer.ggml.scores = 0 0 0 0 0 0 0 0 0",
        "tokenizer.ggml.token_type = 3 3 3 3 3 1 1 1 1",
        "tokenizer.ggml.add_bos_token = true",
        "tokenizer.ggml.add_eos_token = false",
        "tokenizer.chat_template = mistral-v7-tekken",
    ];
    let template: (&str, &[u8]) = ("chat_template.jinja", b"own");
    assert_eq!(run(&tekken(), &[template]), expected);
    // If llama.cpp has no template for the version, the folder's own is used.
    let mut later = tekken();
    later["config"]["version"] = json!("v15");
    assert_eq!(run(&later, &[template]).last().unwrap(), "tokenizer.chat_template = own");
    assert_eq!(run(&later, &[]), expected[..12]);
    later["config"]["version"] = json!("v11");
    assert!(run(&later, &[template]).last().unwrap().starts_with("tokenizer.chat_template = {%- set today"));
    // Old files do not list the special tokens.
    let mut early = tekken();
    early["special_tokens"].take();
    early["config"]["default_num_special_tokens"] = json!(20);
    early["config"]["default_vocab_size"] = json!(20);
    let found = run(&early, &[]);
    assert!(
        found[6].ends_with(
            "<pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
        ),
        "{found:?}"
    );
    // A tokenizer.json takes precedence.
    let text = tekken().to_string();
    let bpe = json!({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}).to_string();
    let files = [("tekken.json", text.as_bytes()), ("tokenizer.json", bpe.as_bytes())];
    let options = TokenizerOptions { pre: Some("default".to_owned()), ..TokenizerOptions::default() };
    let found = lines(&run_with("tekken-both", &files, json!({}), &options).unwrap().kvs);
    assert!(found.contains(&"tokenizer.ggml.tokens = a".to_owned()), "{found:?}");
}

#[test]
fn files_of_mistral_that_are_wrong() {
    type Change = fn(&mut Json);
    let cases: &[(Change, &str)] = &[
        (|t| t["config"]["version"].take().as_str().map_or((), |_| ()), "tekken.json: invalid type: null"),
        (|t| t["config"]["default_vocab_size"] = json!(4), "config.default_vocab_size is 4, expected at most"),
        (|t| t["config"]["default_vocab_size"] = json!(11), "config.default_vocab_size is 11, expected at most"),
        (|t| t["config"]["default_vocab_size"] = json!(1u64 << 40), "vocab_size is 1099511627776, expected 1 to"),
        (
            |t| {
                t["config"]["default_num_special_tokens"] = json!(3);
                t["config"]["default_vocab_size"] = json!(8);
            },
            "config.default_num_special_tokens is 3, expected at least the number of special_tokens",
        ),
        (|t| t["special_tokens"][3]["rank"] = json!(5), "special_tokens[3].rank is 5, expected less than"),
        (
            |t| t["special_tokens"][3]["token_str"] = json!("<s>"),
            "special_tokens[3].token_str is \"<s>\", expected a unique text",
        ),
        (|t| t["special_tokens"][3]["token_str"] = json!("pad"), "special_tokens is a list without <pad>"),
        (
            |t| {
                t["special_tokens"].take();
                t["config"]["version"] = json!("v13");
            },
            "special_tokens is missing, expected a list, as in version 11 and later",
        ),
        (|t| t["vocab"][2]["rank"] = json!(3), "vocab[2].rank is 3, expected its index in the list"),
        (
            |t| t["vocab"][2]["token_bytes"] = json!("YQ=="),
            "vocab[2].token_bytes is YQ==, expected a unique token in base64",
        ),
        (|t| t["vocab"][2]["token_bytes"] = json!("!"), "vocab[2].token_bytes is !, expected a unique token in base64"),
        (|t| t["vocab"][3]["token_bytes"] = json!("YWJh".repeat(5000)), "too long for a vocabulary"),
    ];
    for (change, expected) in cases {
        let mut tekken = tekken();
        change(&mut tekken);
        let text = tekken.to_string();
        let found = error(Vocab::LLAMA, "tekken-wrong", &[("tekken.json", text.as_bytes())], json!({}));
        assert!(found.contains(expected), "{found}\nexpected: {expected}");
    }
}
