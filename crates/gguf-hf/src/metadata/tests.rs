//! Tests on synthetic folders.

use std::fs;

use super::*;
use crate::tokenizer::tests::{Dir, lines};

fn run(name: &str, files: &[(&str, &[u8])], options: &MetadataOptions) -> Result<ModelMetadata, MetadataError> {
    let dir = Dir::new(name, files);
    // A subfolder, so that its name is fixed.
    let model = dir.0.join("tiny-llama-hf");
    fs::create_dir_all(&model).unwrap();
    for (file, bytes) in files {
        fs::write(model.join(file), bytes).unwrap();
    }
    key_values(&model, options, &ParameterCounts { total: 1_345_792, ..ParameterCounts::default() })
}

#[test]
fn a_folder_without_anything_has_a_name() {
    let got = run("bare", &[], &MetadataOptions::default()).unwrap();
    assert_eq!(lines(&got.kvs), ["general.type = model", "general.name = Tiny Llama Hf", "general.size_label = 1.3M"]);
    assert_eq!((got.name.as_deref(), got.basename), (Some("Tiny Llama Hf"), None));
    // A local path says nothing about the model.
    let config: &[u8] = br#"{"_name_or_path": "/models/Other-7B-v3"}"#;
    assert_eq!(run("path", &[("config.json", config)], &MetadataOptions::default()).unwrap().kvs, got.kvs);
}

#[test]
fn the_card_comes_before_the_folder() {
    let card = "---\nlicense: [mit, apache-2.0]\nlicense_name: ln\nlicense_link: https://x\nlanguage:\n- en\n- no\n\
        pipeline_tag: text-generation\ntags: [tiny, 1.5, test]\nmodel_creator: Maker\nmodel_name: Card Name\nversion: 1.10\n\
        base_model:\n- meta-llama/Llama-2-7b-hf\n- https://huggingface.co/mistralai/Mistral-7B-v0.1\n- {name: N, url: U, x: 1}\n- 7\n\
        datasets:\n- HuggingFaceH4/ultrachat_200k\n- https://huggingface.co/datasets/foo/bar\ndescription: {a: b}\n---\n";
    let config = br#"{"_name_or_path": "some-org/Tiny-Chat-v2"}"#;
    let sampling =
        br#"{"temperature": 0.6, "top_k": 40, "top_p": 1, "repetition_penalty": 1.1, "min_p": NaN, "mirostat": 1.5}"#;
    let files: &[(&str, &[u8])] =
        &[("README.md", card.as_bytes()), ("config.json", config), ("generation_config.json", sampling)];
    let got = run("card", files, &MetadataOptions::default()).unwrap();
    assert_eq!(
        lines(&got.kvs),
        [
            "general.type = model",
            "general.sampling.top_k = 40",
            "general.sampling.top_p = 1",
            "general.sampling.temp = 0.6",
            "general.sampling.penalty_repeat = 1.1",
            "general.name = Card Name",
            "general.author = Maker",
            "general.version = 1.10",
            "general.organization = Some Org",
            "general.finetune = Chat",
            "general.basename = Tiny",
            "general.size_label = 1.3M",
            "general.license = mit,apache-2.0",
            "general.license.name = ln",
            "general.license.link = https://x",
            "general.base_model.count = 4",
            "general.base_model.0.name = Llama 2 7b Hf",
            "general.base_model.0.organization = Meta Llama",
            "general.base_model.0.repo_url = https://huggingface.co/meta-llama/Llama-2-7b-hf",
            "general.base_model.1.name = Mistral 7B v0.1",
            "general.base_model.1.version = v0.1",
            "general.base_model.1.organization = Mistralai",
            "general.base_model.1.repo_url = https://huggingface.co/mistralai/Mistral-7B-v0.1",
            "general.base_model.2.name = N",
            "general.base_model.2.url = U",
            "general.dataset.count = 2",
            "general.dataset.0.name = Ultrachat_200K",
            "general.dataset.0.organization = HuggingFaceH4",
            "general.dataset.0.repo_url = https://huggingface.co/HuggingFaceH4/ultrachat_200k",
            "general.dataset.1.repo_url = https://huggingface.co/datasets/foo/bar",
            "general.tags = tiny 1.5 test text-generation",
            "general.languages = en no",
        ]
    );
    let warnings: Vec<String> = got.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "README.md: description is not a single value: ignored",
            "README.md: a base model or dataset is neither an id nor a mapping",
            "generation_config.json: mirostat is 1.5: ignored",
        ]
    );
}

#[test]
fn a_broken_card_or_generation_config_is_a_warning() {
    let bomb: String = (0..30).map(|i| format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1)).collect();
    for (readme, warnings) in [
        ("# No front matter", 0),
        ("---\n---\n", 1),
        ("---\n- a list\n---\n", 1),
        ("---\nkey: [\n---\n", 1),
        (&format!("---\n{bomb}---\n"), 1),
        (&format!("---\nx: {}{}\n---\n", "[".repeat(5000), "]".repeat(5000)), 1),
        (&format!("---\nx: [{}]\n---\n", "a, ".repeat(200_000)), 1),
    ] {
        let files: &[(&str, &[u8])] =
            &[("README.md", readme.as_bytes()), ("generation_config.json", b"{\"top_k\": x}")];
        let got = run("broken", files, &MetadataOptions::default()).unwrap();
        assert_eq!(got.warnings.len(), warnings + 1, "{:.40}: {:?}", readme, got.warnings);
        assert_eq!(lines(&got.kvs).len(), 3);
    }
    let got = run("utf8", &[("README.md", b"---\nname: \xff\n---\n")], &MetadataOptions::default()).unwrap();
    assert!(got.warnings[0].to_string().contains("not UTF-8 from byte 10"), "{:?}", got.warnings);
}

#[test]
fn quirks_of_the_card() {
    let card = |yaml: &str| {
        let readme = format!("---\n{yaml}\n---\n");
        let got = run("quirks", &[("README.md", readme.as_bytes())], &MetadataOptions::default()).unwrap();
        lines(&got.kvs)[1..].iter().map(|l| l.trim_start_matches("general.").to_owned()).collect::<Vec<_>>().join("; ")
    };
    let rest = "size_label = 1.3M";
    for (yaml, expected) in [
        // A key without a value is present.
        ("datasets:", format!("name = Tiny Llama Hf; {rest}; dataset.count = 0")),
        ("name:\nmodel_name: B", format!("name = B; {rest}")),
        ("name: \"\"\nmodel_name: B", rest.to_owned()),
        ("author: 0\nmodel_author: B", format!("name = Tiny Llama Hf; {rest}")),
        // Outside of a list, YAML's `no` is not a language.
        ("language: no", format!("name = Tiny Llama Hf; {rest}")),
        ("language: en", format!("name = Tiny Llama Hf; {rest}; languages = en")),
        ("tags:\n- a\ntags:\n- b", format!("name = Tiny Llama Hf; {rest}; tags = b")),
        ("author: &x Me\norganization: *x", format!("name = Tiny Llama Hf; author = Me; organization = Me; {rest}")),
        ("license: other\n\tx", format!("name = Tiny Llama Hf; {rest}; license = other x")),
    ] {
        assert_eq!(card(yaml), expected, "{yaml}");
    }
}

#[test]
fn overrides_come_first() {
    let dir = Dir::new("override", &[("o.json", OVERRIDE.as_bytes())]);
    let options = MetadataOptions { metadata: Some(dir.0.join("o.json")), ..MetadataOptions::default() };
    let got = run("overridden", &[("README.md", b"---\nlicense: mit\ntags: [x]\n---\n")], &options).unwrap();
    assert_eq!(
        lines(&got.kvs),
        [
            "general.type = model",
            "general.sampling.sequence = kpt",
            "general.sampling.top_k = 7",
            "general.name = Override Name",
            "general.version = v9",
            "general.size_label = 1.3M",
            "general.license = mit",
            "general.license.name = ln",
            "general.source.repo_url = https://sr",
            "general.base_model.count = 1",
            "general.base_model.0.name = BM",
            "general.base_model.0.repo_url = RU",
            "general.dataset.count = 0",
            "general.tags = t1 t2",
        ]
    );
    assert_eq!(got.warnings.len(), 2, "{:?}", got.warnings);
    let options = MetadataOptions { model_name: Some("Mine".to_owned()), ..options };
    assert_eq!(run("named", &[], &options).unwrap().name.as_deref(), Some("Mine"));
}

const OVERRIDE: &str = r#"{"general.name": "Override Name", "general.version": "v9", "general.license": "not taken",
    "general.license.name": "ln", "general.source.repo_url": "https://sr", "general.sampling.sequence": "kpt",
    "general.sampling.top_k": 7, "general.base_models": [{"name": "BM", "repo_url": "RU", "other": 1}], "general.datasets": [],
    "general.tags": ["t1", "t2"], "general.author": null, "llama.block_count": 3}"#;

#[test]
fn wrong_overrides_are_errors() {
    for (json, message) in [
        ("[]", "expected an object"),
        (r#"{"general.name": 5}"#, "general.name is 5, expected a string"),
        (r#"{"general.tags": "x"}"#, "general.tags is \"x\", expected a list of strings"),
        (r#"{"general.tags": ["x", 1]}"#, "expected a list of strings"),
        (r#"{"general.base_models": [{"name": 1}]}"#, "expected a list of objects"),
        (r#"{"general.sampling.top_k": 3000000000}"#, "top_k is 3000000000, expected an integer of 32 bits"),
        (r#"{"general.sampling.temp": 1e60}"#, "is 1e+60, expected a number in the range of 32-bit floats"),
        ("{", "EOF"),
    ] {
        let dir = Dir::new("wrong", &[("o.json", json.as_bytes())]);
        let options = MetadataOptions { metadata: Some(dir.0.join("o.json")), ..MetadataOptions::default() };
        let error = run("wrong-model", &[], &options).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("o.json"), "{json}: {error}");
    }
    let options = MetadataOptions { metadata: Some("/nowhere/o.json".into()), ..MetadataOptions::default() };
    assert!(run("missing", &[], &options).unwrap_err().to_string().contains("/nowhere/o.json: "));
}

#[test]
fn lists_of_a_card_are_bounded() {
    for key in ["datasets", "base_model"] {
        let card = |n: usize| {
            let lines: String = (0..n).map(|i| format!("- a/b{i}\n")).collect();
            format!("---\nlicense: mit\n{key}:\n{lines}---\n")
        };
        let prefix = if key == "datasets" { "general.dataset." } else { "general.base_model." };
        let n_keys = |got: &ModelMetadata| got.kvs.iter().filter(|(key, _)| key.starts_with(prefix)).count();
        let most = run("card-most", &[("README.md", card(1000).as_bytes())], &MetadataOptions::default()).unwrap();
        assert!(most.warnings.is_empty() && n_keys(&most) > 2000, "{:?}", most.warnings);
        let more = run("card-more", &[("README.md", card(90_000).as_bytes())], &MetadataOptions::default()).unwrap();
        assert_eq!(n_keys(&more), 0);
        let messages: Vec<String> = more.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [format!("README.md: {key} lists 90000 entries; at most 1000 are read: the list is ignored")]
        );
        // The rest of the card is used.
        assert!(lines(&more.kvs).contains(&"general.license = mit".to_owned()));
    }
}

#[test]
fn a_long_readme_is_read_as_far_as_its_card() {
    let card = "---\nlicense: mit\n---\n".to_owned() + &"text \u{20ac}".repeat(1 << 20);
    let got = run("long", &[("README.md", card.as_bytes())], &MetadataOptions::default()).unwrap();
    assert!(got.warnings.is_empty() && lines(&got.kvs).contains(&"general.license = mit".to_owned()));
    for front in ["a: ".to_owned() + &"\u{20ac}".repeat(1 << 20), "[".repeat(1 << 19)] {
        let card = format!("---\n{front}\n---\n");
        let got = run("front", &[("README.md", card.as_bytes())], &MetadataOptions::default()).unwrap();
        let [MetadataWarning::Card(problem)] = &got.warnings[..] else { panic!("{:?}", got.warnings) };
        assert!(matches!(problem, CardProblem::TooLong { .. } | CardProblem::Yaml(_)), "{problem}");
    }
}

#[test]
fn only_the_sampling_parameters_of_the_generation_settings_are_kept() {
    let values = "0,".repeat(1 << 20);
    let settings = format!("{{\"other\":[{values}0],\"top_k\":7,\"eos_token_id\":[{values}0]}}");
    let got = run("settings", &[("generation_config.json", settings.as_bytes())], &MetadataOptions::default()).unwrap();
    assert!(got.warnings.is_empty() && lines(&got.kvs).contains(&"general.sampling.top_k = 7".to_owned()));
    let settings = format!("{{\"top_k\":[{values}0]}}");
    let got = run("value", &[("generation_config.json", settings.as_bytes())], &MetadataOptions::default()).unwrap();
    let [MetadataWarning::GenerationConfig(e)] = &got.warnings[..] else { panic!("{:?}", got.warnings) };
    assert!(e.to_string().contains("more than 1000 values at line 1 column"), "{e}");
}

#[test]
fn no_file_name_starts_with_a_dash() {
    for (name, expected) in [("-rf", "rf-Q8_0.gguf"), ("\u{2028}x", "x-Q8_0.gguf"), ("--", "Q8_0.gguf")] {
        let model = ModelMetadata { name: Some(name.to_owned()), ..ModelMetadata::default() };
        assert_eq!(default_file_name(&model, Some("q8_0")), expected, "{name:?}");
    }
}
