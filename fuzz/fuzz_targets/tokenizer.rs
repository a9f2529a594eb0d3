//! Parsing arbitrary files as those of a tokenizer terminates with bounded memory. The first byte selects the class of models; the files
//! are separated by a separator.
#![no_main]

mod common;

use gguf_hf::tokenizer::{TokenizerOptions, key_values};
use gguf_model::arch::{Changes, Quirk, Reader, Vocab};
use libfuzzer_sys::fuzz_target;

const FILES: &[&str] = &[
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "merges.txt",
    "chat_template.jinja",
    "tokenizer.model",
];

const VOCABS: &[Vocab] = &[
    Vocab::LLAMA,
    Vocab::BPE,
    Vocab::MARKED_BPE,
    Vocab::SENTENCE_PIECE_OR_BPE,
    Vocab::SENTENCE_PIECE,
    Vocab::read_by(&[Reader::ByteFallback]),
    Vocab::read_by(&[Reader::Entries]),
    Vocab::read_by(&[Reader::ChangedSentencePiece(Changes::Arctic)]),
    Vocab { readers: &[Reader::ChangedSentencePiece(Changes::InternLm2)], quirks: &[Quirk::InternLm2] },
    Vocab { readers: &[Reader::SentencePiece], quirks: &[Quirk::InternLm3] },
    Vocab::read_by(&[Reader::Gpt2, Reader::ChangedSentencePiece(Changes::Phi3)]),
    Vocab::BPE_OR_SENTENCE_PIECE,
    Vocab { readers: &[Reader::Bpe], quirks: &[Quirk::WritesEndOfTurn] },
];

fuzz_target!(|data: &[u8]| {
    let [kind, files @ ..] = data else { return };
    common::write_files(FILES, files);
    let config = serde_json::json!({});
    let options = TokenizerOptions {
        pre: (kind & 0x80 != 0).then(|| "default".to_owned()),
        vocab: VOCABS[usize::from(kind & 0x3f) % VOCABS.len()],
        special_tokens: &[],
        community_template: kind & 0x40 != 0,
        template_file_first: false,
    };
    match key_values(&common::folder().to_owned(), &config, &options) {
        Ok(keys) => keys.warnings.iter().for_each(|warning| assert!(!warning.to_string().is_empty())),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
