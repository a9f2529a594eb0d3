use alloc::string::ToString;

use super::*;

/// Sidecar, base name, size label, fine-tune, version, encoding, type, shard; empty if missing.
type Row = [&'static str; 8];

fn row(parts: &FileName<'_>) -> [String; 8] {
    let shard = parts.shard.map(|shard| shard.to_string());
    let texts =
        [parts.sidecar, parts.base_name, parts.size_label, parts.fine_tune, parts.version, parts.encoding, parts.kind];
    let mut texts = texts.into_iter().chain([shard.as_deref()]).map(|text| text.unwrap_or_default().into());
    core::array::from_fn(|_| texts.next().unwrap_or_default())
}

#[test]
fn names_of_the_convention() {
    let cases: &[(&str, Row)] = &[
        // The examples of the specification.
        ("Mixtral-8x7B-v0.1-KQ2.gguf", ["", "Mixtral", "8x7B", "", "v0.1", "KQ2", "", ""]),
        ("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf", ["", "Grok", "100B", "", "v1.0", "Q4_0", "", "00003-of-00009"]),
        ("Hermes-2-Pro-Llama-3-8B-v1.0-F16.gguf", ["", "Hermes-2-Pro-Llama-3", "8B", "", "v1.0", "F16", "", ""]),
        (
            "Phi-3-mini-3.8B-ContextLength4k-instruct-v1.0.gguf",
            ["", "Phi-3-mini", "3.8B-ContextLength4k", "instruct", "v1.0", "", "", ""],
        ),
        ("mtp-Qwen3-27B-v1.0-Q4_K_M.gguf", ["mtp", "Qwen3", "27B", "", "v1.0", "Q4_K_M", "", ""]),
        ("mmproj-Qwen2-VL-7B-v1.0-F16.gguf", ["mmproj", "Qwen2-VL", "7B", "", "v1.0", "F16", "", ""]),
        // Names that are not in the specification.
        (
            "Qwen3-30B-A3B-Instruct-2507-v1.0-BF16.gguf",
            ["", "Qwen3", "30B-A3B", "Instruct-2507", "v1.0", "BF16", "", ""],
        ),
        ("mmproj-7B-v1.0.gguf", ["", "mmproj", "7B", "", "v1.0", "", "", ""]),
        ("X-7B-v1.gguf", ["", "X", "7B", "", "v1", "", "", ""]),
        ("X-7B-v1-v2.gguf", ["", "X", "7B", "v1", "v2", "", "", ""]),
        ("X-7B-v1.0-v2.gguf", ["", "X", "7B", "", "v1.0", "v2", "", ""]),
        ("X-7B-v1.0-LoRA.gguf", ["", "X", "7B", "", "v1.0", "", "LoRA", ""]),
        ("X-7B-v1.0-F16-vocab-00001-of-00001.gguf", ["", "X", "7B", "", "v1.0", "F16", "vocab", "00001-of-00001"]),
        ("A Name-7B-Fine Tune-v1.2.3.gguf", ["", "A Name", "7B", "Fine Tune", "v1.2.3", "", "", ""]),
        ("7B-7B-v1.0.gguf", ["", "7B", "7B", "", "v1.0", "", "", ""]),
        ("X-7B-A3B--v1.0.gguf", ["", "X", "7B", "A3B-", "v1.0", "", "", ""]),
    ];
    for (name, expected) in cases {
        let parts = FileName::parse_strict(name).unwrap_or_default();
        assert_eq!(row(&parts), *expected, "{name}");
        assert_eq!(parts.to_string(), *name);
        assert_eq!(FileName::parse(name), parts);
        assert_eq!(problems(name), [], "{name}");
        assert_eq!(suggestion(name, None).as_deref(), Some(*name));
    }
}

#[test]
fn other_names() {
    use NameProblem::*;
    let cases: &[(&str, Row, &[NameProblem], Option<&str>)] = &[
        ("not-a-known-arrangement.gguf", ["", "not-a-known-arrangement", "", "", "", "", "", ""], &[NoSizeLabel], None),
        (
            "Hermes-2-Pro-Llama-3-8B-F16.gguf",
            ["", "Hermes-2-Pro-Llama-3", "8B", "", "", "F16", "", ""],
            &[],
            Some("Hermes-2-Pro-Llama-3-8B-F16.gguf"),
        ),
        (
            "Qwen3-30B-A3B-Instruct-2507-UD-Q4_K_XL-00001-of-00002.gguf",
            ["", "Qwen3", "30B-A3B", "Instruct-2507-UD", "", "Q4_K_XL", "", "00001-of-00002"],
            &[],
            Some("Qwen3-30B-A3B-Instruct-2507-UD-Q4_K_XL-00001-of-00002.gguf"),
        ),
        (
            "llama-2-7b.Q4_K_M.gguf",
            ["", "llama-2", "7b", "", "", "Q4_K_M", "", ""],
            &[DotBeforeEncoding("Q4_K_M".into())],
            Some("llama-2-7b-Q4_K_M.gguf"),
        ),
        (
            "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
            ["", "Meta-Llama-3.1", "8B", "Instruct", "", "Q4_K_M", "", ""],
            &[Dots("Meta-Llama-3.1".into())],
            Some("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"),
        ),
        (
            "Llama-3.1-v1.0-8B.gguf",
            ["", "Llama-3.1", "8B", "", "v1.0", "", "", ""],
            &[Dots("Llama-3.1".into()), Order],
            Some("Llama-3.1-8B-v1.0.gguf"),
        ),
        (
            "X-7B-v1.0-F16-1-of-3.gguf",
            ["", "X", "7B", "", "v1.0", "F16", "", ""],
            &[Shard("1-of-3".into())],
            Some("X-7B-v1.0-F16-00001-of-00003.gguf"),
        ),
        (
            "X-7B-v1.0-00004-of-00003.gguf",
            ["", "X", "7B", "", "v1.0", "", "", ""],
            &[Shard("00004-of-00003".into())],
            None,
        ),
        ("X-7B-v1.0.bin", ["", "X", "7B", "v1.0.bin", "", "", "", ""], &[Extension, Letters("v1.0.bin".into())], None),
        ("X-7B-v1.0-F16.GGUF", ["", "X", "7B", "", "v1.0", "F16", "", ""], &[Extension], Some("X-7B-v1.0-F16.gguf")),
        ("X-7B-F16-v1.0.gguf", ["", "X", "7B", "F16", "v1.0", "", "", ""], &[], Some("X-7B-F16-v1.0.gguf")),
        (
            "X-7B-v1.0-LoRAx.gguf",
            ["", "X", "7B", "v1.0-LoRAx", "", "", "", ""],
            &[Dots("v1.0-LoRAx".into())],
            Some("X-7B-v1.0-LoRAx.gguf"),
        ),
        ("X-v1.0-7B.gguf", ["", "X", "7B", "", "v1.0", "", "", ""], &[Order], Some("X-7B-v1.0.gguf")),
        ("-7B-v1.0.gguf", ["", "", "7B", "", "v1.0", "", "", ""], &[NoBaseName], None),
        ("ggml-model-f16.gguf", ["", "ggml-model", "", "", "", "f16", "", ""], &[NoSizeLabel], None),
        ("mmproj-model-f16.gguf", ["mmproj", "model", "", "", "", "f16", "", ""], &[NoSizeLabel], None),
        (".gguf", ["", "", "", "", "", "", "", ""], &[NoBaseName, NoSizeLabel], None),
        ("", ["", "", "", "", "", "", "", ""], &[Extension, NoBaseName, NoSizeLabel], None),
        ("-", ["", "-", "", "", "", "", "", ""], &[Extension, NoSizeLabel], None),
    ];
    for (name, expected, wrong, better) in cases {
        assert_eq!(row(&FileName::parse(name)), *expected, "{name}");
        assert_eq!(problems(name), *wrong, "{name}");
        assert_eq!(suggestion(name, None).as_deref(), *better, "{name}");
    }
    assert_eq!(suggestion("Tiny-f16.gguf", Some("15M")).as_deref(), Some("Tiny-15M-f16.gguf"));
    assert_eq!(FileName::parse("a.gguf").version(), "v1.0");
}

#[test]
fn no_text_is_too_odd() {
    let pieces =
        ["", "-", "v1", "7B", "é", ".", "x", "8x7B", "00001", "-of-", "LoRA", "mtp-", ".gguf", "F16", "A3B", " "];
    let mut n = 0;
    for a in pieces {
        for b in pieces {
            for c in pieces {
                for glue in ["", "-"] {
                    let name = [["X", a, b, c].join(glue).as_str(), ".gguf"].concat();
                    let parts = FileName::parse(&name);
                    let strict = FileName::parse_strict(&name);
                    // A name without a version may follow the convention otherwise, but is not matched by its rule.
                    let is_good = problems(&name).is_empty();
                    assert!(
                        if parts.version.is_some() { strict.is_some() == is_good } else { strict.is_none() },
                        "{name}"
                    );
                    assert!(strict.is_none_or(|strict| strict == parts && strict.to_string() == name), "{name}");
                    if let Some(better) = suggestion(&name, Some("1B")) {
                        assert!(problems(&better).iter().all(NameProblem::is_note), "{name}");
                    }
                    n += usize::from(strict.is_some());
                }
            }
        }
    }
    assert!(n > 20);
}

#[test]
fn names_from_metadata() {
    let full = NameSource {
        name: Some("A Name"),
        base_name: Some(" Llama/3 x "),
        size_label: Some("8B"),
        fine_tune: Some("Fine Tune"),
        version: Some("v1.0"),
        encoding: Some("q8_0"),
        kind: Some("LoRA"),
    };
    let cases: &[(NameSource<'_>, &str)] = &[
        (full, "Llama-3-x-8B-Fine-Tune-v1.0-Q8_0-LoRA"),
        (NameSource { base_name: None, size_label: None, kind: None, ..full }, "A-Name-Fine-Tune-v1.0-Q8_0"),
        (NameSource { encoding: Some("F16"), ..NameSource::default() }, "ggml-model-F16"),
        (NameSource { name: Some("a/b"), ..NameSource::default() }, "a-b"),
        (NameSource::default(), "ggml-model"),
    ];
    for (source, stem) in cases {
        assert_eq!(source.stem(), *stem);
    }
}

#[test]
fn size_labels_are_rounded_like_python() {
    let cases: &[(u64, &str)] = &[
        (0, "0.00K"),
        (1, "0.00K"),
        (4, "0.00K"),
        (499, "0.50K"),
        (500, "0.50K"),
        (501, "0.5K"),
        (999, "1.0K"),
        (1_000, "1.0K"),
        (9_499, "9.5K"),
        (9_500, "10K"),
        (10_499, "10K"),
        (10_500, "10K"),
        (11_500, "12K"),
        (999_999, "1000K"),
        (1_000_000, "1000K"),
        (1_000_001, "1.0M"),
        (2_500_000, "2.5M"),
        (1_000_000_000, "1000M"),
        (1_000_000_001, "1.0B"),
        (6_738_415_616, "6.7B"),
        (8_030_261_248, "8.0B"),
        (70_553_706_496, "71B"),
        (1_000_000_000_000, "1000B"),
        (1_000_000_000_001, "1.0T"),
        (u64::MAX, "18446744T"),
    ];
    for &(count, label) in cases {
        assert_eq!(size_label(count, 0, 0, 0), label);
    }
    assert_eq!(size_label(46_702_792_704, 1_600_000_000, 5_637_000_000, 8), "8x7.2B");
    assert_eq!(size_label(1, u64::MAX, u64::MAX, 2), "2x18446744T");
}

#[test]
fn size_labels_are_read() {
    let size = |experts, parameters, tolerance, attribute| SizeLabel { experts, parameters, tolerance, attribute };
    let cases: &[(&str, Option<SizeLabel<'_>>)] = &[
        ("7B", Some(size(None, 7_000_000_000, 500_000_000, None))),
        ("7b", Some(size(None, 7_000_000_000, 500_000_000, None))),
        ("0.5B", Some(size(None, 500_000_000, 50_000_000, None))),
        ("135M", Some(size(None, 135_000_000, 500_000, None))),
        ("8x7B", Some(size(Some(8), 7_000_000_000, 500_000_000, None))),
        ("30B-A3B", Some(size(None, 30_000_000_000, 500_000_000, Some("A3B")))),
        ("1.05T", Some(size(None, 1_050_000_000_000, 5_000_000_000, None))),
        ("1Q", Some(size(None, 1_000_000_000_000_000, 500_000_000_000_000, None))),
        ("1.0001K", None),
        ("7", None),
        ("B", None),
        ("7X", None),
        ("7.B", None),
        (".5B", None),
        ("8x", None),
        ("x7B", None),
        ("7BB", None),
        ("7B-", None),
        ("7B-Instruct", None),
        ("99999999999999999999B", None),
        ("99999999999Q", None),
        ("99999999999999999999x7B", None),
        ("", None),
    ];
    for &(label, expected) in cases {
        assert_eq!(SizeLabel::parse(label), expected, "{label}");
    }
    let total = |label| SizeLabel::parse(label).map(|size| size.total());
    assert_eq!(total("7B"), Some(6_500_000_000..=7_500_000_000));
    assert_eq!(total("8x7B"), Some(6_500_000_000..=60_000_000_000));
    assert_eq!(SizeLabel::parse("30B-A3B").and_then(|size| size.active()), Some(2_500_000_000..=3_500_000_000));
    assert_eq!(SizeLabel::parse("3.8B-ContextLength4k").and_then(|size| size.active()), None);
}

/// Programs treat a name that starts with a dash as an option.
#[test]
fn no_suggestion_starts_with_a_dash() {
    for (name, expected) in [
        ("-rf-7B.gguf", "rf-7B.gguf"),
        ("--Llama-3-8B-Instruct-v2.0-Q4_K_M.gguf", "Llama-3-8B-Instruct-v2.0-Q4_K_M.gguf"),
        ("\u{2028}x-7B.gguf", "x-7B.gguf"),
    ] {
        assert_eq!(suggestion(name, None).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(suggestion("--7B.gguf", None), None);
}
