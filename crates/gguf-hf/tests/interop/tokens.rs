//! Tokenization: with the vocabularies of converted checkpoints, llama.cpp gives the same tokens as with its own test vocabularies, as with
//! files of its own converter, and as the `tokenizers` library of Hugging Face.
//!
//! The library is called from Python, which uses the same code as the crate; the converter's packages include it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gguf_hf::{Options, OutType, convert};
use gguf_pipeline::RunOptions;
use gguf_test::cases::generate;
use gguf_test::peers::{self, Peers};
use sha2::{Digest, Sha256};

/// A text and its tokens.
type Tokens = Vec<(String, Vec<u32>)>;

fn script() -> Command {
    Peers::get().python(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokens_peer.py"))
}

/// The output of a command.
fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The file of the llama.cpp test vocabulary whose name has the given suffix.
fn vocabulary(name: &str, end: &str) -> PathBuf {
    peers::peers().join(format!("llama.cpp/models/ggml-vocab-{name}.gguf.{end}"))
}

/// The tokens of the test texts, from llama.cpp or the oracle.
fn tokens(asked: &str, file: &Path) -> Tokens {
    let output = output_of(script().arg(asked).arg(file).arg(vocabulary("gpt-2", "inp")));
    let tokens: Tokens = serde_json::from_str(&output).unwrap();
    assert!(tokens.len() > 40, "only {} texts", tokens.len());
    tokens
}

/// The texts with different tokens.
fn differences<'t>(found: &'t Tokens, expected: &Tokens) -> Vec<&'t str> {
    let both = found.iter().zip(expected);
    both.filter(|(found, expected)| found != expected).map(|((text, _), _)| text.as_str()).collect()
}

/// The folder of a stored checkpoint, or of one generated from its recipe.
fn checkpoint(name: &str, dir: &Path) -> PathBuf {
    let stored = peers::data("hf/models").join(name);
    if stored.is_dir() {
        return stored;
    }
    generate(name, dir);
    dir.join(name)
}

/// The converted vocabulary of a checkpoint.
fn converted(model: &Path, dir: &Path) -> PathBuf {
    let out = dir.join("vocabulary.gguf");
    let options = Options::default().vocab_only(true).ty(OutType::F16);
    convert(model, &out, &options, &RunOptions::default().force(true), &()).unwrap();
    out
}

/// Complete vocabularies for which llama.cpp provides texts and their tokens.
const WHOLE: [(&str, &str); 8] = [
    ("bert", "bert-bge"),
    ("deepseek-coder-full-vocab", "deepseek-coder"),
    ("falcon-full-vocab", "falcon"),
    ("gpt2-full-vocab", "gpt-2"),
    ("llama3-full-vocab", "llama-bpe"),
    ("mpt-full-vocab", "mpt"),
    ("qwen2-full-vocab", "qwen2"),
    ("starcoder2-full-vocab", "starcoder"),
];

fn whole_vocabularies_give_the_tokens_of_llama_cpps_tests() {
    let dir = tempfile::tempdir().unwrap();
    for (name, vocabulary_name) in WHOLE {
        let found = tokens("llama", &converted(&checkpoint(name, dir.path()), dir.path()));
        let expected = fs::read_to_string(vocabulary(vocabulary_name, "out")).unwrap();
        let expected = expected.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect());
        let expected: Vec<Vec<u32>> = expected.collect();
        let ids: Vec<&Vec<u32>> = found.iter().map(|(_, ids)| ids).collect();
        assert_eq!(ids, expected.iter().collect::<Vec<_>>(), "{name}");
    }
}

/// One checkpoint for each kind of vocabulary. Mistral's native format is tested separately, because the converter needs a package for it. For
/// tiktoken's, the converter takes three minutes; `generated_checkpoints_have_the_same_bytes` compares its whole file (`qwen1`).
const KINDS: [(&str, &str); 9] = [
    ("SentencePiece, BPE", "llama-f32"),
    ("SentencePiece, BPE, with added tokens", "phi3"),
    ("BPE", "qwen2-full-vocab"),
    ("BPE of pieces", "llama-hf-tokenizer"),
    ("WordPiece", "bert"),
    ("Unigram", "t5"),
    ("Unigram, ids one further on", "xlm-roberta"),
    ("RWKV world", "rwkv6"),
    ("PLaMo", "plamo2"),
];

fn every_kind_gives_the_tokens_of_the_reference() {
    for (kind, name) in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let model = checkpoint(name, dir.path());
        let reference = dir.path().join("reference.gguf");
        let mut converter = Command::new(peers::peers().join("venv/bin/python"));
        converter.arg(peers::peers().join("llama.cpp/convert_hf_to_gguf.py")).args([
            "--vocab-only",
            "--outtype",
            "f16",
        ]);
        output_of(converter.arg("--outfile").arg(&reference).arg(&model).current_dir(dir.path()));
        let found = tokens("llama", &converted(&model, dir.path()));
        let expected = tokens("llama", &reference);
        assert_eq!(differences(&found, &expected), [""; 0], "{kind}: {name}");
        assert!(found.iter().any(|(_, ids)| ids.len() > 10), "{kind}: {name}: no tokens");
    }
}

/// Vocabularies for which llama.cpp and Hugging Face give different tokens, with the reason.
const DIFFERENT: [(&str, &str); 1] = [(
    "llama-hf-tokenizer",
    "llama.cpp's converter writes neither scores nor merges for BPE that falls back to bytes, so pieces are joined in another order",
)];

fn tokens_are_those_of_the_library_tokenizers() {
    let partial = ["bloom", "cohere", "glm4", "llama-hf-tokenizer", "gemma4"];
    for name in WHOLE.map(|(name, _)| name).into_iter().chain(partial) {
        let dir = tempfile::tempdir().unwrap();
        let model = checkpoint(name, dir.path());
        let found = tokens("llama", &converted(&model, dir.path()));
        let expected = tokens("oracle", &model.join("tokenizer.json"));
        let differences = differences(&found, &expected);
        match DIFFERENT.iter().find(|(different, _)| *different == name) {
            None => assert_eq!(differences, [""; 0], "{name}"),
            Some((_, why)) => assert!(!differences.is_empty(), "{name} does not differ any more: {why}"),
        }
    }
}

/// Writes a checkpoint in which a file of Mistral's native format replaces the tokenizer of a stored checkpoint.
fn with_tekken(dir: &Path, version: &str) -> PathBuf {
    let (stored, model) = (peers::data("hf/models/mistral"), dir.join(format!("tek-{version}")));
    fs::create_dir(&model).unwrap();
    for name in ["README.md", "config.json", "model.safetensors"] {
        fs::copy(stored.join(name), model.join(name)).unwrap();
    }
    let source = peers::data("hf/models/gpt2-full-vocab/tokenizer.json");
    output_of(script().arg("tekken").arg(source).arg(model.join("tekken.json")).arg(version));
    model
}

/// The hashes are those of the files that `convert_hf_to_gguf.py` of the pinned release writes for the same folders with mistral-common
/// 1.13.1 and `--outtype f16`.
fn mistrals_own_format_has_the_same_bytes() {
    for (version, expected) in [
        ("v3", "154bb2268c8f1d08373ff5ea066c7897aab6a74ab44e68a9cf9f08670b680fe7"),
        ("v7", "d1dd2e30f6ea49d0ba887b46df88712fa747094eab98506e5fa1ce1e8cbc7a7e"),
        ("v11", "87b304fc33b44a2284c390d338ba0441a3037122454b3b5a0fdfa8cab83b2dc3"),
        ("v13", "916ac3f0871e4dd280bd1ec7be5c97bfb21e40a2216603e22139bc61d0b5a8c4"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (model, out) = (with_tekken(dir.path(), version), dir.path().join("out.gguf"));
        convert(model, &out, &Options::default().ty(OutType::F16), &RunOptions::default(), &()).unwrap();
        let hash: String = Sha256::digest(fs::read(&out).unwrap()).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hash, expected, "{version}");
    }
}

fn mistrals_own_format_gives_the_tokens_of_the_library_tokenizers() {
    let dir = tempfile::tempdir().unwrap();
    let model = with_tekken(dir.path(), "v7");
    let found = tokens("llama", &converted(&model, dir.path()));
    assert_eq!(differences(&found, &tokens("oracle", &model.join("tekken.json"))), [""; 0]);
}

gguf_test::tests! {
    [Shared, Peers] whole_vocabularies_give_the_tokens_of_llama_cpps_tests, mistrals_own_format_has_the_same_bytes;
    [Shared, Peers, Torch] every_kind_gives_the_tokens_of_the_reference,
        tokens_are_those_of_the_library_tokenizers,
        mistrals_own_format_gives_the_tokens_of_the_library_tokenizers;
}
