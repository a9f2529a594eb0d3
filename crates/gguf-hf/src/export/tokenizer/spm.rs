//! `tokenizer.model`, a SentencePiece model: a protobuf message `ModelProto` (sentencepiece_model.proto of the SentencePiece project).

use gguf_format::Gguf;

use super::Vocab;
use crate::tokenizer::sentencepiece::{BPE, UNIGRAM, piece_type};

/// The algorithm of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpmModel {
    /// Pieces are merged by their scores.
    Bpe,
    /// Pieces are chosen by their probabilities.
    Unigram,
}

/// The model of a vocabulary.
pub(super) fn model(vocab: &Vocab<'_>, spm: SpmModel) -> Vec<u8> {
    let mut out = Vec::new();
    let mut has_bytes = false;
    let n = vocab.n_own();
    let unknown = unknown_piece(vocab, n);
    for (id, text) in vocab.tokens.iter().enumerate().take(n) {
        let piece_kind = if Some(id) == unknown { piece_type::UNKNOWN } else { vocab.kind(id) };
        has_bytes |= piece_kind == piece_type::BYTE;
        let mut piece = Vec::new();
        bytes(&mut piece, 1, text.as_bytes());
        fixed32(&mut piece, 2, vocab.score(id));
        if piece_kind != piece_type::NORMAL {
            varint(&mut piece, 3, i64::from(piece_kind));
        }
        bytes(&mut out, 1, &piece);
    }
    let mut trainer = Vec::new();
    let model_type = if spm == SpmModel::Bpe { BPE } else { UNIGRAM };
    varint(&mut trainer, 3, i64::try_from(model_type).unwrap_or_default());
    varint(&mut trainer, 4, i64::try_from(n).unwrap_or_default());
    varint(&mut trainer, 35, i64::from(has_bytes));
    let unknown = unknown.map(|id| (id, vocab.tokens.get(id)));
    let special = |name: &str| vocab.special(name).map(|(id, _)| id);
    let ids = [(40, unknown.map(|(id, _)| id)), (41, special("bos")), (42, special("eos")), (43, special("padding"))];
    for (field, id) in ids {
        varint(&mut trainer, field, id.and_then(|id| i64::try_from(id).ok()).unwrap_or(-1));
    }
    let texts = [(45, unknown.and_then(|(_, text)| text.map(String::as_str)))];
    let named =
        [(46, "bos"), (47, "eos"), (48, "padding")].map(|(field, name)| (field, vocab.special(name).map(|(_, t)| t)));
    for (field, text) in texts.into_iter().chain(named) {
        if let Some(text) = text {
            bytes(&mut trainer, field, text.as_bytes());
        }
    }
    bytes(&mut out, 2, &trainer);
    let map = charsmap(vocab.gguf);
    let mut normalizer = Vec::new();
    bytes(&mut normalizer, 1, if map.is_empty() { b"identity" } else { b"nmt_nfkc" });
    if !map.is_empty() {
        bytes(&mut normalizer, 2, &map);
    }
    let is_gemma = vocab.gguf.get_as::<&str>("general.architecture").is_ok_and(|arch| arch.starts_with("gemma"));
    let adds_space = vocab.flag("add_space_prefix").unwrap_or(!is_gemma);
    varint(&mut normalizer, 3, i64::from(adds_space));
    let removes = vocab.flag("remove_extra_whitespaces").unwrap_or(spm == SpmModel::Unigram);
    varint(&mut normalizer, 4, i64::from(removes));
    varint(&mut normalizer, 5, 1);
    bytes(&mut out, 3, &normalizer);
    out
}

/// The unknown token, of which a model needs one: that of the type; else the one that is named so, which `tokenizer_config.json` makes a control
/// token again.
fn unknown_piece(vocab: &Vocab<'_>, n: usize) -> Option<usize> {
    let of_type = (0..n).find(|id| vocab.kind(*id) == piece_type::UNKNOWN);
    let named = || vocab.special("unknown").map(|(id, _)| id);
    let usual = || vocab.tokens.iter().position(|text| text == "<unk>");
    of_type.or_else(named).or_else(usual).filter(|id| *id < n)
}

/// The rules of the normalizer.
pub(super) fn charsmap(gguf: &Gguf<'_>) -> Vec<u8> {
    let value = gguf.get("tokenizer.ggml.precompiled_charsmap").and_then(|value| value.as_array());
    value.map(|map| map.encoded_bytes().to_vec()).unwrap_or_default()
}

fn tag(out: &mut Vec<u8>, field: u64, wire: u64) {
    number(out, field << 3 | wire);
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.extend(u8::try_from(value & 0x7f).map(|byte| byte | 0x80));
        value >>= 7;
    }
    out.extend(u8::try_from(value));
}

/// A negative number has ten bytes, as in protobuf.
fn varint(out: &mut Vec<u8>, field: u64, value: i64) {
    tag(out, field, 0);
    number(out, value.cast_unsigned());
}

fn fixed32(out: &mut Vec<u8>, field: u64, value: f32) {
    tag(out, field, 5);
    out.extend(value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    tag(out, field, 2);
    number(out, value.len() as u64);
    out.extend(value);
}
