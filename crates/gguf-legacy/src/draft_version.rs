//! The draft of GGUF version 1, which stores as key-values what earlier containers stored by position.

use std::path::Path;
use std::sync::OnceLock;

use gguf_format::{FromValue, Gguf, ValueRef};
use gguf_io::{ModelFile, ReadAt};

use crate::block::{Encoding, Generation};
use crate::container::Container;
use crate::error::Error;
use crate::file::{Bytes, LegacyFile, Piece, Tensor};
use crate::layout::{Family, Hparam, Hparams};
use crate::walk::TokenTexts;

/// The keys of the draft with their hyperparameters; some had two names.
const KEYS: &[(&str, Hparam)] = &[
    ("context_length", Hparam::Ctx),
    ("max_seq_len", Hparam::Ctx),
    ("hidden_size", Hparam::Embd),
    ("num_layers", Hparam::Layer),
    ("num_mult", Hparam::Mult),
    ("num_rotary", Hparam::Rot),
    ("num_rot", Hparam::Rot),
    ("rot", Hparam::Rot),
    ("attention.num_heads", Hparam::Head),
    ("use_parallel_residual", Hparam::ParallelResidual),
    ("attention.alibi_bias_max", Hparam::AlibiBiasMax),
    ("attention.clip_kqv", Hparam::ClipQkv),
];

/// Opens a draft.
///
/// # Errors
/// If the architecture is unknown, or required keys are missing.
pub(crate) fn open(path: &Path, file: &ModelFile, bytes: Bytes) -> Result<LegacyFile, Error> {
    let gguf = file.gguf();
    let container = Container::GgufDraft;
    let name = gguf.get_as::<&str>("general.architecture").unwrap_or_default();
    let Some(family) = Family::from_name(name) else {
        let tensor = gguf.tensors().next().map(|tensor| tensor.name.to_string_lossy());
        return Err(Error::UnknownArchitecture { path: path.to_owned(), container, tensor });
    };
    let (tokens, scores) = vocabulary(gguf);
    let mut hparams = Hparams::default();
    hparams.0.push((Hparam::Vocab, u32::try_from(tokens.len()).unwrap_or(u32::MAX)));
    for (key, hparam) in KEYS {
        let value = gguf.get(&format!("{name}.{key}")).and_then(|value| number(value, *hparam));
        if let Some(value) = value.filter(|_| hparams.get(*hparam).is_none()) {
            hparams.0.push((*hparam, value));
        }
    }
    for needed in [Hparam::Embd, Hparam::Layer, Hparam::Head] {
        let found = hparams.get(needed);
        let is_right = match needed {
            // A draft may hold a vocabulary and embeddings only.
            Hparam::Layer => found.is_some_and(|n| n <= *Hparam::Layer.range().end()),
            _ => found.is_some_and(|n| needed.range().contains(&n)),
        };
        if !is_right {
            let key = KEYS.iter().find(|(_, hparam)| *hparam == needed).map_or("", |(key, _)| key);
            let (path, key, expected) = (path.to_owned(), format!("{name}.{key}"), needed.expected());
            return Err(Error::Key { path, key, found, expected });
        }
    }
    let mut tensors = Vec::new();
    for tensor in file.tensors() {
        let range = tensor.byte_range().map_err(|e| Error::Pipeline(gguf_pipeline::Error::Input(Box::new(e))))?;
        let shape: Vec<u64> = tensor.shape().collect();
        let row_len = shape.first().copied().unwrap_or(1);
        let n_rows = shape.iter().skip(1).product();
        let pieces = vec![Piece { part: 0, offset: range.start, row_len, n_rows }];
        let encoding = Encoding::Present(tensor.ty());
        let name = tensor.name().to_string_lossy();
        tensors.push(Tensor { name, shape, encoding, pieces, are_columns: false });
    }
    let file_bytes = bytes.size().map_err(Error::io("read", path))?;
    Ok(LegacyFile {
        parts: vec![(path.to_owned(), bytes)],
        container,
        family,
        generation: Generation::Present,
        is_generation_unsure: false,
        hparams,
        tokens,
        scores,
        merges: Vec::new(),
        tensors,
        file_bytes,
        lora: None,
        vocabulary: OnceLock::new(),
    })
}

/// A number as in the earlier containers.
fn number(value: ValueRef<'_>, hparam: Hparam) -> Option<u32> {
    match hparam.float() {
        Some(_) => f32::from_value(value).ok().map(f32::to_bits),
        None if hparam == Hparam::ParallelResidual => bool::from_value(value).ok().map(u32::from),
        None => u32::from_value(value).ok(),
    }
}

fn vocabulary(gguf: &Gguf<'_>) -> (TokenTexts, Vec<f32>) {
    let mut tokens = TokenTexts::default();
    let texts = gguf.get("tokenizer.embedded.tokens").and_then(|value| value.as_array()?.strings());
    texts.into_iter().flatten().for_each(|text| tokens.push(text.as_bytes()));
    let scores = gguf.get_as::<Vec<f32>>("tokenizer.embedded.scores").unwrap_or_default();
    let scores = if scores.len() == tokens.len() { scores } else { Vec::new() };
    (tokens, scores)
}
