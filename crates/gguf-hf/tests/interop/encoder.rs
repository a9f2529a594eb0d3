//! Text and token ids: the encoder of `gguf-model` compared with real llama.cpp, with its test vocabularies and with every pre-tokenizer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gguf_format::keys::{PRE_TOKENIZERS, TOKENIZER_GGML_PRE};
use gguf_format::{Gguf, Head};
use gguf_model::tokenizer::{EncodeOptions, Encoder, EncoderError, Vocab, byte_char};
use gguf_test::cases::share;
use gguf_test::peers::{self, Peers};
use gguf_test::random::Random;
use serde::Deserialize;

/// llama.cpp's answer for one file.
#[derive(Deserialize)]
struct Answer {
    /// For each text: special tokens neither added nor parsed, added, parsed, both.
    ids: Vec<[Vec<u32>; 4]>,
    pieces: Vec<String>,
    controls: Vec<bool>,
}

fn vocabularies() -> Vec<PathBuf> {
    let entries = fs::read_dir(peers::peers().join("llama.cpp/models")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    files.sort();
    assert!(files.len() >= 19, "only {} vocabularies", files.len());
    files
}

fn read(path: &Path) -> Gguf<'static> {
    Gguf::parse(fs::read(path).unwrap()).unwrap()
}

/// llama.cpp's test texts, and texts made of difficult parts.
fn texts() -> Vec<String> {
    let mut texts = Vec::new();
    for name in ["gpt-2", "llama-bpe", "deepseek-llm", "gemma-4"] {
        let path = peers::peers().join(format!("llama.cpp/models/ggml-vocab-{name}.gguf.inp"));
        let all = fs::read_to_string(path).unwrap();
        texts.extend(all.split("\n__ggml_vocab_test__\n").map(str::to_owned));
    }
    texts.sort();
    texts.dedup();
    const PARTS: &[&str] = &[
        "Hello",
        " world",
        "HELLO",
        "heLLo",
        "'s",
        "'LL",
        "'ve",
        "'T",
        "'ſ",
        "’s",
        "1",
        "12",
        "123456",
        "1234567",
        "²³",
        "٣٤٥",
        "½",
        "Ⅷ",
        " ",
        "  ",
        "    ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        "\u{b}",
        "\u{a0}",
        "\u{3000}",
        "\u{85}",
        "\u{2028}",
        "\u{200d}",
        "\u{feff}",
        "!",
        "?!",
        "...",
        "$",
        "+=",
        "`",
        "~",
        "^|",
        "(",
        ")",
        "[x]",
        "{",
        "}",
        "\\",
        "/",
        "//",
        "-",
        "_",
        "\"",
        "<",
        ">",
        "&",
        "#include",
        "é",
        "e\u{301}",
        "ñ",
        "ß",
        "Ǆ",
        "ǅ",
        "ß",
        "Ж",
        "привет",
        "مرحبا",
        "שלום",
        "हिन्दी",
        "ไทย",
        "한국어",
        "ㄱㄴ",
        "ㄅㄆ",
        "日本語",
        "ひらがな",
        "カタカナ",
        "ｶﾀ",
        "漢字",
        "。",
        "，",
        "：；",
        "、",
        "…",
        "—",
        "“”",
        "！",
        "～",
        "𠀀",
        "𠮷",
        "😀",
        "👩\u{200d}👧",
        "🇩🇪",
        "€",
        "∑",
        "→",
        "\u{378}",
        "\u{e000}",
        "\u{10ffff}",
        "\u{1e900}",
        "\u{10400}",
        "a",
        "b",
        "I",
        "Z",
        "x1",
        "y²",
        "µ",
        "ª",
        "ʰ",
        "ˈ",
        "\u{300}",
        "\u{fe0f}",
        "<|endoftext|>",
        "</s>",
        "<s>",
        "<|im_end|>",
        "<unk>",
        "<mask>",
        "<|eot_id|>",
        "<0x0A>",
        "▁",
        "▁▁",
        "Ġ",
        "Ċ",
        "IMGIMGABZ",
        "<sentinel:12>",
        "|.,",
        "।",
        "۔،",
    ];
    let mut numbers = Random::new("texts", 0);
    let mut random = |n: usize| numbers.below(n);
    for _ in 0..500 {
        let n = 1 + random(12);
        texts.push((0..n).map(|_| PARTS[random(PARTS.len())]).collect());
    }
    // Other characters of all planes.
    for _ in 0..200 {
        let n = 1 + random(10);
        let chars = (0..n).filter_map(|_| {
            let max = [0x80, 0x800, 0x3400, 0x10000, 0x32000][random(5)];
            char::from_u32(random(max) as u32).filter(|c| *c != '\0')
        });
        texts.push(chars.collect());
    }
    texts
}

/// Compares the encoders of files with llama.cpp, and the texts of the first tokens. Returns the files that llama.cpp does not load.
fn compare(dir: &Path, texts: &[String], files: &[(String, PathBuf)], n_pieces: usize) -> Vec<String> {
    let list = dir.join("texts.json");
    fs::write(&list, serde_json::to_string(texts).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/encoder_peer.py");
    let mut command = Peers::get().python(&script);
    command.arg(&list).arg(n_pieces.to_string()).args(files.iter().map(|(_, path)| path));
    let mut peer = command.stdout(Stdio::piped()).spawn().expect("the peers' Python runs");
    let mut answers = BufReader::new(peer.stdout.take().unwrap()).lines();
    let (mut differences, mut not_loaded) = (Vec::new(), Vec::new());
    for (name, path) in files {
        let line = answers.next().unwrap_or_else(|| panic!("{name}: llama.cpp has no answer")).unwrap();
        let Some(answer) = serde_json::from_str::<Option<Answer>>(&line).unwrap() else {
            not_loaded.push(name.clone());
            continue;
        };
        let gguf = read(path);
        let vocab = Vocab::new(&gguf).unwrap();
        let encoder = Encoder::new(&vocab).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((answer.ids.len(), answer.pieces.len()), (texts.len(), n_pieces.min(vocab.len())), "{name}");
        for (text, expected) in texts.iter().zip(&answer.ids) {
            for (expected, n) in expected.iter().zip(0u8..) {
                let options = EncodeOptions::default().add_special(n & 1 == 1).parse_special(n & 2 == 2);
                let found = encoder.encode_with(text, &options);
                if found != *expected {
                    differences.push(format!("{name}: {text:?}, {options:?}: {found:?}, not {expected:?}"));
                }
            }
        }
        for ((expected, is_control), id) in answer.pieces.iter().zip(&answer.controls).zip(0..) {
            let found: String = encoder.piece(id).iter().map(|b| format!("{b:02x}")).collect();
            // llama.cpp writes a note in place of characters that stand for no byte.
            let is_note = expected.contains("5b554e4b5f425954455f3078");
            if (found != *expected && !is_note) || encoder.is_control(id) != *is_control {
                differences.push(format!("{name}: token {id} is {found}, not {expected}; control: {is_control}"));
            }
        }
    }
    assert!(peer.wait().unwrap().success());
    let some: Vec<&String> = differences.iter().take(20).collect();
    assert!(differences.is_empty(), "{} differences, among them {some:#?}", differences.len());
    not_loaded
}

/// A vocabulary of all pairs of bytes, whose tokens show where words begin and end.
fn pairs() -> Head {
    let bytes: Vec<String> = (0..=255).map(|b| byte_char(b).to_string()).collect();
    let order = |n: u32| (n.wrapping_mul(0x9e37) & 0xffff) as usize;
    let merges: Vec<(&String, &String)> = (0..1 << 16).map(order).map(|n| (&bytes[n >> 8], &bytes[n & 255])).collect();
    let mut tokens = bytes.clone();
    tokens.extend(merges.iter().map(|(left, right)| format!("{left}{right}")));
    let gpt_2 = read(&peers::peers().join("llama.cpp/models/ggml-vocab-gpt-2.gguf"));
    let mut head = Head::from(&gpt_2);
    head.set("tokenizer.ggml.merges", merges.iter().map(|(l, r)| format!("{l} {r}")).collect::<Vec<String>>());
    head.set("tokenizer.ggml.token_type", vec![1i32; tokens.len()]);
    head.set("tokenizer.ggml.tokens", tokens);
    head.remove("tokenizer.ggml.scores");
    head
}

fn test_vocabularies_have_the_tokens_of_llama_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut others = Vec::new();
    for path in vocabularies() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let gguf = read(&path);
        match Encoder::new(&Vocab::new(&gguf).unwrap()) {
            Ok(_) => files.push((name, path)),
            Err(EncoderError::Kind { model }) => others.push((name, model)),
            Err(e) => panic!("{name}: {e}"),
        }
    }
    let others: Vec<(&str, &str)> = others.iter().map(|(name, model)| (name.as_str(), model.as_str())).collect();
    assert_eq!(others, [("ggml-vocab-bert-bge", "bert"), ("ggml-vocab-nomic-bert-moe", "t5")]);
    assert!(compare(dir.path(), &texts(), &files, usize::MAX).is_empty());
}

fn every_pre_tokenizer_has_the_words_of_llama_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let mut head = pairs();
    let mut files = Vec::new();
    // `whitespace` belongs to a kind that is not supported.
    let all = PRE_TOKENIZERS.iter().chain(&["default"]).filter(|pre| **pre != "whitespace");
    for pre in share(3, all) {
        let path = dir.path().join(format!("{pre}.gguf"));
        head.set(TOKENIZER_GGML_PRE, *pre);
        fs::write(&path, head.encode().unwrap()).unwrap();
        files.push(((*pre).to_owned(), path));
    }
    let texts: Vec<String> = texts().into_iter().step_by(4).collect();
    let not_loaded = compare(dir.path(), &texts, &files, 256);
    assert!(files.iter().all(|(pre, _)| not_loaded.contains(pre) == (pre == "glm5")), "{not_loaded:?}");
}

fn all_characters_have_the_categories_of_llama_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let mut head = pairs();
    // Together, these distinguish letters, marks, digits, punctuation, symbols, white space, and the rest.
    let files = ["default", "deepseek-v3", "qwen35"].map(|pre| {
        let path = dir.path().join(format!("{pre}.gguf"));
        head.set(TOKENIZER_GGML_PRE, pre);
        fs::write(&path, head.encode().unwrap()).unwrap();
        (pre.to_owned(), path)
    });
    // Beyond are unassigned code points and private ones.
    let mut chars = (1..0x33000).chain(0xe0000..0xe0200).filter_map(char::from_u32).peekable();
    let mut texts = Vec::new();
    while chars.peek().is_some() {
        texts.push(chars.by_ref().take(1000).flat_map(|c| ['a', c]).collect());
    }
    assert!(compare(dir.path(), &share(3, texts), &files, 0).is_empty());
}

gguf_test::tests! {
    [Peers, Shared] test_vocabularies_have_the_tokens_of_llama_cpp, every_pre_tokenizer_has_the_words_of_llama_cpp,
        all_characters_have_the_categories_of_llama_cpp;
}
