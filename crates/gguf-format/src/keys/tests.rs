use alloc::string::ToString;

use super::*;

#[test]
fn constants_are_named_after_their_keys() {
    for row in KEYS {
        let key = row.pattern.strip_prefix(ARCH).unwrap_or(row.pattern).replace("{id}.", "").replace(['{', '}'], "");
        let name = key.replace('.', "_").to_uppercase();
        let whisper = row.name.strip_prefix("WHISPER_").unwrap_or(row.name);
        assert_eq!(whisper, name, "{}", row.pattern);
        assert!(!row.kinds.is_empty() && row.doc.ends_with('.') && row.pattern.len() <= MAX_NEAREST, "{row:?}");
        assert!(row.instead.is_none_or(|key| info(key).is_some()), "{row:?}");
    }
    assert_eq!(GENERAL_ALIGNMENT, "general.alignment");
    assert_eq!(CONTEXT_LENGTH, "{arch}.context_length");
}

#[test]
fn every_key_is_found_by_its_pattern_and_only_once() {
    for (i, row) in KEYS.iter().enumerate() {
        assert_eq!(info(row.pattern), Some(row));
        let same = KEYS.iter().filter(|other| other.pattern == row.pattern || other.name == row.name).count();
        assert_eq!(same, 1, "row {i}: {}", row.pattern);
        let key = for_id(&row.for_arch("gpt-oss"), 12).replace("{dense}", "dense_2").replace("{name}", "tool_use");
        assert_eq!(lookup(&key, Some("gpt-oss")), Some(row), "{key}");
        assert_eq!(lookup(&key, None), Some(row), "{key}");
    }
    assert_eq!(KEYS.iter().filter(|row| row.origin == Origin::Constants).count(), 364);
}

#[test]
fn lookup_takes_the_architecture_into_account() {
    let cases: &[(&str, Option<&str>, Option<&str>)] = &[
        ("general.name", None, Some(GENERAL_NAME)),
        ("general.name", Some("llama"), Some(GENERAL_NAME)),
        ("llama.context_length", Some("llama"), Some(CONTEXT_LENGTH)),
        ("llama.context_length", None, Some(CONTEXT_LENGTH)),
        ("llama.context_length", Some("mamba"), None),
        ("unheard.context_length", None, None),
        ("unheard.context_length", Some("unheard"), Some(CONTEXT_LENGTH)),
        ("a.b.context_length", Some("a.b"), Some(CONTEXT_LENGTH)),
        ("whisper.encoder.mels_count", None, Some(WHISPER_ENCODER_MELS_COUNT)),
        ("general.base_model.0.name", None, Some(GENERAL_BASE_MODEL_NAME)),
        ("general.base_model.17.repo_url", Some("llama"), Some(GENERAL_BASE_MODEL_REPO_URL)),
        ("general.base_model.x.name", None, None),
        ("general.base_model..name", None, None),
        ("bert.dense_2_feat_in", None, Some(DENSE_FEAT_IN)),
        ("bert.dense_feat_in", None, None),
        ("tokenizer.chat_template", None, Some(TOKENIZER_CHAT_TEMPLATE)),
        ("tokenizer.chat_template.tool_use", None, Some(TOKENIZER_CHAT_TEMPLATE_NAME)),
        ("tokenizer.chat_template.a.b", None, None),
        ("{arch}.context_length", None, None),
        ("{arch}.context_length", Some("{arch}"), Some(CONTEXT_LENGTH)),
        ("general.base_model.{id}.name", None, None),
        ("", None, None),
        (".", None, None),
        ("llama", Some("llama"), None),
        ("llama.", Some("llama"), None),
        ("General.name", None, None),
    ];
    for &(key, arch, pattern) in cases {
        assert_eq!(lookup(key, arch).map(|row| row.pattern), pattern, "{key} {arch:?}");
    }
}

#[test]
fn types_are_compared() {
    use KeyType::{Array, Scalar};
    let cases: &[(&str, KeyType, Fit)] = &[
        (CONTEXT_LENGTH, Scalar(ValueType::U32), Fit::Exact),
        (CONTEXT_LENGTH, Scalar(ValueType::U64), Fit::Convertible),
        (CONTEXT_LENGTH, Scalar(ValueType::I8), Fit::Convertible),
        (CONTEXT_LENGTH, Scalar(ValueType::F32), Fit::Wrong),
        (CONTEXT_LENGTH, Scalar(ValueType::BOOL), Fit::Wrong),
        (CONTEXT_LENGTH, Array(ValueType::U32), Fit::Wrong),
        (ATTENTION_HEAD_COUNT, Array(ValueType::I32), Fit::Exact),
        (ATTENTION_HEAD_COUNT, Array(ValueType::U32), Fit::Convertible),
        (ROPE_FREQ_BASE, Scalar(ValueType::F64), Fit::Convertible),
        (ROPE_FREQ_BASE, Scalar(ValueType::U32), Fit::Wrong),
        (GENERAL_NAME, Scalar(ValueType::STRING), Fit::Exact),
        (GENERAL_NAME, Array(ValueType::STRING), Fit::Wrong),
        (GENERAL_TAGS, Array(ValueType::STRING), Fit::Exact),
        (TOKENIZER_GGML_SCORES, Array(ValueType::F32), Fit::Exact),
        (TOKENIZER_GGML_SCORES, Array(ValueType::STRING), Fit::Wrong),
        (ATTENTION_RECURRENT_LAYERS, Array(ValueType::I32), Fit::Convertible),
        (GENERAL_TENSOR_EXTRA_PREC_A4, Array(ValueType::I32), Fit::Convertible),
        (PLE_LAYERS, Array(ValueType::BOOL), Fit::Wrong),
        (ATTENTION_SLIDING_WINDOW_PATTERN, Array(ValueType::BOOL), Fit::Exact),
        (TOKENIZER_GGML_ADD_BOS_TOKEN, Scalar(ValueType::U8), Fit::Wrong),
    ];
    for &(pattern, found, fit) in cases {
        assert_eq!(info(pattern).map(|row| row.fit(found)), Some(fit), "{pattern} {found}");
    }
    assert_eq!(
        info(ATTENTION_HEAD_COUNT).map(|row| row.expected().to_string()).as_deref(),
        Some("u32 or array of i32")
    );
}

#[test]
fn misspelt_keys_are_recognized() {
    let cases: &[(&str, Option<&str>)] = &[
        ("general.architecure", Some(GENERAL_ARCHITECTURE)),
        ("general.achitecture", Some(GENERAL_ARCHITECTURE)),
        ("general.architecture", Some(GENERAL_ARCHITECTURE)),
        ("General.Architecture", Some(GENERAL_ARCHITECTURE)),
        ("general.aligmnent", Some(GENERAL_ALIGNMENT)),
        ("tokenizer.ggml.separater_token_id", Some(TOKENIZER_GGML_SEPERATOR_TOKEN_ID)),
        ("tokenizer.ggml.eos_token", Some(TOKENIZER_GGML_EOS_TOKEN_ID)),
        ("llama.contextlength", Some(CONTEXT_LENGTH)),
        ("lama.context_length", Some(CONTEXT_LENGTH)),
        ("llama.attention.head_cuont", Some(ATTENTION_HEAD_COUNT)),
        ("llama.attention.headcount.kv", Some(ATTENTION_HEAD_COUNT_KV)),
        ("split.non", Some(SPLIT_NO)),
        ("split.nota", None),
        ("rustformers.anything", None),
        ("", None),
        ("llama", None),
    ];
    for &(key, pattern) in cases {
        assert_eq!(nearest(key).map(|row| row.pattern), pattern, "{key}");
    }
    let long = "general.architecture".repeat(5);
    assert_eq!(nearest(&long), None);
    for len in 0..200 {
        let _ = nearest(&"é".repeat(len));
    }
}

#[test]
fn edits_are_counted() {
    let cases: &[(&str, &str, Option<u8>)] = &[
        ("", "", Some(0)),
        ("abc", "", Some(3)),
        ("", "abc", Some(3)),
        ("abcd", "", None),
        ("abc", "abc", Some(0)),
        ("abc", "acb", Some(1)),
        ("abc", "ABC", Some(0)),
        ("separator", "seperator", Some(1)),
        ("kitten", "sitting", Some(3)),
        ("abcdef", "fedcba", None),
        ("abcdef", "bcdefa", Some(2)),
        ("abcdef", "xyzabcdef", Some(3)),
        ("abcdef", "abc", Some(3)),
    ];
    for &(a, b, n) in cases {
        assert_eq!(edits(a.as_bytes(), b.as_bytes()), n, "{a} {b}");
        assert_eq!(edits(b.as_bytes(), a.as_bytes()), n, "{b} {a}");
    }
}

#[test]
fn lists_are_sorted_and_required_keys_are_known() {
    for list in [ARCHITECTURES, PRE_TOKENIZERS, TOKENIZER_MODELS] {
        assert!(list.is_sorted() && list.windows(2).all(|w| w[0] != w[1]));
    }
    assert_eq!((ARCHITECTURES.len(), PRE_TOKENIZERS.len()), (153, 91));
    let spec = |arch: &str| required_by_spec(arch).count();
    assert_eq!(["llama", "mpt", "gpt2", "whisper", "rwkv", "mamba"].map(spec), [7, 7, 5, 9, 5, 0]);
    let by_value = ["none", "llama", "gpt2", "replit"].map(|model| required_by_tokenizer(model).len());
    assert_eq!(by_value, [0, 1, 2, 1]);
    for (flag, keys) in REQUIRED_BY_ENCODER {
        assert!(info(flag).is_some() && keys.iter().all(|key| info(key).is_some()), "{flag}");
    }
}

#[test]
fn file_types() {
    for (i, row) in FILE_TYPES.iter().enumerate() {
        assert_eq!(row.id as usize, i);
        assert_eq!(FileType::from_name(row.name), Some(FileType(row.id)));
        assert_eq!(FileType::from_name(&row.label().to_lowercase()), Some(FileType(row.id)));
        let gone = row.tensor_type.info().is_some_and(|ty| ty.removed);
        assert_eq!(row.removed, gone || row.id == 4, "{row:?}");
    }
    let cases: &[(u32, &str)] = &[
        (0, "F32"),
        (15, "Q4_K_M"),
        (15 | 1024, "Q4_K_M (guessed)"),
        (35, "Q4_0_8_8"),
        (41, "Q2_0"),
        (42, "file type 42"),
        (u32::MAX, "file type 4294966271 (guessed)"),
    ];
    for &(id, text) in cases {
        assert_eq!(FileType(id).to_string(), text);
    }
    assert_eq!(FileType::from_name("q4_k"), Some(FileType(15)));
    assert_eq!(FileType::from_name("Q9"), None);
    assert_eq!(FileType(28).info().map(|row| row.tensor_type.0), Some(17));
    assert_eq!(
        [0, 1, 6, 7, -1].map(TokenType::from_id),
        [None, Some(TokenType::Normal), Some(TokenType::Byte), None, None]
    );
}
