//! Vocabularies and models identified by their content, and the metadata that their files lack.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::layout::{Family, Hparam, Hparams};
use crate::walk::TokenTexts;

/// A known vocabulary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownVocabulary {
    pub(crate) is_llama: bool,
    /// Number of trained tokens.
    n: usize,
    /// SHA-256 of the tokens that are words: see [`signature`].
    signature: &'static str,
    /// The tokens whose bytes are missing in files: lines of a number and the bytes in hexadecimal.
    lost: &'static str,
}

/// From `ggml-vocab-llama-spm.gguf` and `ggml-vocab-gpt-neox.gguf` of llama.cpp.
const VOCABULARIES: &[KnownVocabulary] = &[
    // LLaMA and Llama 2.
    KnownVocabulary {
        is_llama: true,
        n: 32_000,
        signature: "aac69a269f6a425340d59456c7796990de8f2eecfaebed700a60ea9f3efac291",
        lost: "",
    },
    // GPT-NeoX, Pythia, Dolly 2, RedPajama, StableLM.
    KnownVocabulary {
        is_llama: false,
        n: 50_254,
        signature: "5fe80924b3a9088d39ceee5a97e991c70505ab16f05365fb95398f3002c9f087",
        lost: include_str!("known/gpt-neox.txt"),
    },
];

/// SHA-256 of the numbers and texts of the first `n` tokens that are words of ASCII letters, with or without a leading space: the tokens
/// that every program wrote identically. Others passed through decoders that replaced parts of characters and removed spaces.
fn signature(tokens: &TokenTexts, n: usize) -> String {
    let mut hash = Sha256::new();
    for (i, text) in (0u32..).zip(tokens.iter().take(n)) {
        let word = text.strip_prefix(b" ").unwrap_or(text);
        if !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic) {
            hash.update(i.to_le_bytes());
            hash.update(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            hash.update(text);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The known vocabulary with these tokens.
pub(crate) fn vocabulary(tokens: &TokenTexts) -> Option<KnownVocabulary> {
    let is_it = |known: &&KnownVocabulary| tokens.len() >= known.n && signature(tokens, known.n) == known.signature;
    VOCABULARIES.iter().find(is_it).copied()
}

impl KnownVocabulary {
    /// The tokens whose bytes are missing in files, by their numbers.
    pub(crate) fn lost(&self) -> HashMap<usize, Vec<u8>> {
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let token = |line: &str| {
            let (number, hex) = line.split_once(' ')?;
            Some((number.parse().ok()?, hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?))
        };
        self.lost.lines().filter_map(token).collect()
    }
}

/// The scores of LLaMA's vocabulary, which sorts pieces by frequency and adds runs of spaces.
pub(crate) fn llama_scores(texts: &[Vec<u8>]) -> Vec<f32> {
    let is_spaces = |text: &[u8]| !text.is_empty() && text.chunks(3).all(|c| c == "\u{2581}".as_bytes());
    let score = |(i, text): (usize, &Vec<u8>)| match i {
        0..259 => 0.0,
        _ if is_spaces(text) => -1e9,
        259..32_000 => -((i - 259) as f32),
        _ => -1000.0,
    };
    texts.iter().enumerate().map(score).collect()
}

/// A model, or several of the same sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownModel {
    pub(crate) name: &'static str,
    /// Vocabulary, width, blocks, query heads, and key-value heads.
    sizes: [u32; 5],
    /// Whether the vocabulary must be LLaMA's, or must not be.
    is_llama: Option<bool>,
    pub(crate) context_length: u32,
    pub(crate) norm_epsilon: f32,
    pub(crate) rope_freq_base: f32,
}

impl KnownModel {
    /// Whether no other known model has these sizes and this vocabulary.
    pub(crate) fn is_sure(&self) -> bool {
        self.is_llama == Some(true)
    }
}

/// Models of the Llama family that are identified by their sizes. LLaMA and Llama 2 have the same sizes up to 13 billion parameters.
///
/// From the `config.json` of each model on Hugging Face.
const MODELS: &[KnownModel] = &[
    llama("LLaMA 30B", [32_000, 6656, 60, 52, 52], Some(true), 2048, 1e-6, 1e4),
    llama("LLaMA 65B", [32_000, 8192, 80, 64, 64], Some(true), 2048, 1e-6, 1e4),
    llama("Llama 2 70B", [32_000, 8192, 80, 64, 8], Some(true), 4096, 1e-5, 1e4),
    llama("Code Llama 7B", [32_016, 4096, 32, 32, 32], Some(true), 16_384, 1e-5, 1e6),
    llama("Code Llama 13B", [32_016, 5120, 40, 40, 40], Some(true), 16_384, 1e-5, 1e6),
    llama("Code Llama 34B", [32_000, 8192, 48, 64, 8], Some(true), 16_384, 1e-5, 1e6),
    llama("OpenLLaMA 3B", [32_000, 3200, 26, 32, 32], Some(false), 2048, 1e-6, 1e4),
    llama("OpenLLaMA 7B", [32_000, 4096, 32, 32, 32], Some(false), 2048, 1e-6, 1e4),
    llama("OpenLLaMA 13B", [32_000, 5120, 40, 40, 40], Some(false), 2048, 1e-6, 1e4),
];

const fn llama(
    name: &'static str,
    sizes: [u32; 5],
    is_llama: Option<bool>,
    context_length: u32,
    norm_epsilon: f32,
    rope_freq_base: f32,
) -> KnownModel {
    KnownModel { name, sizes, is_llama, context_length, norm_epsilon, rope_freq_base }
}

/// The known model of these sizes; `None` for a file without a vocabulary, or with a longer one.
pub(crate) fn model(family: Family, hparams: &Hparams, n_head_kv: u32, tokens: &TokenTexts) -> Option<KnownModel> {
    if family != Family::Llama || tokens.len() < 32_000 {
        return None;
    }
    let int = |hparam| hparams.int(hparam);
    let sizes = [int(Hparam::Vocab), int(Hparam::Embd), int(Hparam::Layer), int(Hparam::Head), n_head_kv];
    let candidate = MODELS.iter().find(|model| model.sizes == sizes)?;
    let is_llama = vocabulary(tokens).is_some_and(|known| known.is_llama);
    candidate.is_llama.is_none_or(|needs| needs == is_llama).then_some(*candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_tokens_have_bytes() {
        let neox = VOCABULARIES[1];
        let lost = neox.lost();
        assert_eq!((lost.len(), neox.lost.lines().count()), (513, 513));
        assert!(lost.keys().all(|&i| i < neox.n));
        assert_eq!(lost.values().map(Vec::len).sum::<usize>(), 1026);
    }

    #[test]
    fn models_are_told_by_size_and_vocabulary() {
        let mut tokens = TokenTexts::default();
        (0..32_000).for_each(|i| tokens.push(format!("token {i}").as_bytes()));
        let of = |sizes: [(Hparam, u32); 4], kv| {
            model(Family::Llama, &Hparams(sizes.to_vec()), kv, &tokens).map(|model| model.name)
        };
        let sizes = |embd, layer, head| {
            [(Hparam::Vocab, 32_000), (Hparam::Embd, embd), (Hparam::Layer, layer), (Hparam::Head, head)]
        };
        assert_eq!(of(sizes(3200, 26, 32), 32), Some("OpenLLaMA 3B"));
        assert_eq!(of(sizes(3200, 26, 32), 8), None);
        // A vocabulary other than LLaMA's.
        assert_eq!(of(sizes(6656, 60, 52), 52), None);
    }
}
