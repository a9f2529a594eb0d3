//! Parsing arbitrary files as vocabularies outside of `tokenizer.json` terminates with bounded memory. The first byte selects the kind of
//! file, and the vocabulary size given by the model's parameters.
#![no_main]

mod common;

use gguf_hf::tokenizer::{TokenizerOptions, key_values};
use gguf_model::arch::{Changes, Reader, Vocab};
use libfuzzer_sys::fuzz_target;

/// Files, with the class of models that uses each.
const KINDS: &[(&str, Vocab)] = &[
    ("tokenizer.model", Vocab::SENTENCE_PIECE),
    ("tokenizer.model", Vocab::read_by(&[Reader::T5])),
    ("tokenizer.model", Vocab::read_by(&[Reader::ChangedSentencePiece(Changes::InternLm2)])),
    ("spiece.model", Vocab::read_by(&[Reader::T5])),
    ("sentencepiece.bpe.model", Vocab::read_by(&[Reader::XlmRoberta])),
    ("vocab.txt", Vocab::read_by(&[Reader::WordPiece])),
    ("qwen.tiktoken", Vocab::read_by(&[Reader::Tiktoken { has_defaults: true }])),
    ("hy.tiktoken", Vocab::read_by(&[Reader::Tiktoken { has_defaults: false }])),
    ("rwkv_vocab_v20230424.txt", Vocab::RWKV_WORLD),
    ("tokenizer.jsonl", Vocab::read_by(&[Reader::Plamo { has_template: false }])),
    ("tekken.json", Vocab::LLAMA),
    ("tiktoken.model", Vocab::KIMI),
];

/// Sizes of the vocabulary: unknown, and smaller and larger than that of the file.
const SIZES: [u64; 4] = [0, 3, 300, 5000];

fuzz_target!(|data: &[u8]| {
    let [kind, file @ ..] = data else { return };
    let (name, vocab) = KINDS[usize::from(*kind) % KINDS.len()];
    let path = common::folder().join(name);
    std::fs::write(&path, file).expect("a file");
    let config = serde_json::json!({ "vocab_size": SIZES[usize::from(*kind) / KINDS.len() % SIZES.len()] });
    let options = TokenizerOptions {
        pre: None,
        vocab,
        special_tokens: &[],
        community_template: *kind < 0x80,
        template_file_first: false,
    };
    match key_values(&common::folder().to_owned(), &config, &options) {
        Ok(keys) => keys.warnings.iter().for_each(|warning| assert!(!warning.to_string().is_empty())),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
    std::fs::remove_file(path).expect("the file");
});
