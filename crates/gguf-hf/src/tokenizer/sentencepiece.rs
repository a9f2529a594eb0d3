//! `tokenizer.model`: the pieces of a SentencePiece model.
//!
//! The file is a protobuf message `ModelProto` (sentencepiece_model.proto of the SentencePiece project). The reader parses only the parts needed
//! for a vocabulary: field 1, the pieces, each with its text (1), score (2) and type (3), and some fields of the specifications. It skips
//! everything else.

use super::{MessageProblem, SentencePieceProblem};

/// The type of a piece, numbered as in both SentencePiece and GGUF's `tokenizer.ggml.token_type`.
pub(crate) mod piece_type {
    pub(crate) const NORMAL: i32 = 1;
    pub(crate) const UNKNOWN: i32 = 2;
    pub(crate) const CONTROL: i32 = 3;
    pub(crate) const USER_DEFINED: i32 = 4;
    pub(crate) const UNUSED: i32 = 5;
    pub(crate) const BYTE: i32 = 6;
}

/// The maximum number of pieces in a model. The largest in use have some million.
pub(crate) const MAX_PIECES: usize = 1 << 21;

/// One piece of the vocabulary; its index is its id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece<'a> {
    /// The text, with U+2581 for spaces.
    pub(crate) text: &'a str,
    /// The log probability or merge rank.
    pub(crate) score: f32,
    /// See [`piece_type`].
    pub(crate) kind: i32,
}

/// Reads the pieces of a model, in order.
///
/// # Errors
/// If the bytes are not a valid message, or the model has no pieces.
pub(crate) fn pieces(bytes: &[u8]) -> Result<Vec<Piece<'_>>, SentencePieceProblem> {
    let mut message = Message { bytes, pos: 0 };
    let mut pieces = Vec::new();
    while let Some(field) = message.field()? {
        if field.number == 1 {
            if pieces.len() == MAX_PIECES {
                return Err(SentencePieceProblem::TooManyPieces { max: MAX_PIECES });
            }
            let (index, at) = (pieces.len(), message.pos - field.payload()?.len());
            let piece = piece(field.payload()?);
            pieces.push(piece.map_err(|problem| SentencePieceProblem::Piece { index, at, problem })?);
        }
    }
    if pieces.is_empty() {
        return Err(SentencePieceProblem::NoPieces);
    }
    Ok(pieces)
}

/// The specifications of a model: its fields other than the pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Specs<'a> {
    /// The model type: `model_type` (3) in `trainer_spec` (2). See [`UNIGRAM`] and [`BPE`].
    pub(crate) model_type: u64,
    /// Whether a space is added before a text: `add_dummy_prefix` (3) in `normalizer_spec` (3).
    pub(crate) adds_space: bool,
    /// Whether consecutive spaces are collapsed: `remove_extra_whitespaces` (4) in `normalizer_spec`.
    pub(crate) removes_spaces: bool,
    /// The normalization rules: `precompiled_charsmap` (2) in `normalizer_spec`.
    pub(crate) charsmap: &'a [u8],
}

/// The `model_type` of Unigram.
pub(crate) const UNIGRAM: u64 = 1;

/// The `model_type` of BPE.
pub(crate) const BPE: u64 = 2;

/// Reads the specifications of a model, with SentencePiece's defaults for missing fields.
///
/// # Errors
/// If the bytes are not a valid message.
pub(crate) fn specs(bytes: &[u8]) -> Result<Specs<'_>, SentencePieceProblem> {
    let mut specs = Specs { model_type: UNIGRAM, adds_space: true, removes_spaces: true, charsmap: &[] };
    let mut message = Message { bytes, pos: 0 };
    while let Some(field) = message.field()? {
        if field.number != 2 && field.number != 3 {
            continue;
        }
        let mut spec = Message { bytes: field.payload()?, pos: 0 };
        while let Some(inner) = spec.field()? {
            match (field.number, inner.number, inner.value) {
                (2, 3, FieldValue::Varint(value)) => specs.model_type = value,
                (3, 2, FieldValue::Bytes(value)) => specs.charsmap = value,
                (3, 3, FieldValue::Varint(value)) => specs.adds_space = value != 0,
                (3, 4, FieldValue::Varint(value)) => specs.removes_spaces = value != 0,
                _ => {}
            }
        }
    }
    Ok(specs)
}

fn piece(bytes: &[u8]) -> Result<Piece<'_>, MessageProblem> {
    let mut piece = Piece { text: "", score: 0.0, kind: piece_type::NORMAL };
    let mut message = Message { bytes, pos: 0 };
    while let Some(field) = message.field()? {
        match field.number {
            1 => piece.text = std::str::from_utf8(field.payload()?).map_err(|_| MessageProblem::TextNotUtf8)?,
            2 => match field.value {
                FieldValue::Fixed32(bits) => piece.score = f32::from_bits(bits),
                _ => return Err(MessageProblem::Score),
            },
            3 => match field.value {
                FieldValue::Varint(kind) => match i32::try_from(kind) {
                    Ok(known @ 1..=6) => piece.kind = known,
                    _ => return Err(MessageProblem::PieceType(Some(kind))),
                },
                _ => return Err(MessageProblem::PieceType(None)),
            },
            _ => {}
        }
    }
    Ok(piece)
}

/// A sequential reader of a protobuf message.
struct Message<'a> {
    bytes: &'a [u8],
    pos: usize,
}

struct Field<'a> {
    number: u64,
    value: FieldValue<'a>,
}

enum FieldValue<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn payload(&self) -> Result<&'a [u8], MessageProblem> {
        match self.value {
            FieldValue::Bytes(bytes) => Ok(bytes),
            _ => Err(MessageProblem::NotBytes { field: self.number }),
        }
    }
}

impl<'a> Message<'a> {
    /// Reads the next field; `None` at the end of the message.
    fn field(&mut self) -> Result<Option<Field<'a>>, MessageProblem> {
        if self.pos >= self.bytes.len() {
            return Ok(None);
        }
        let at = self.pos;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => FieldValue::Varint(self.varint()?),
            1 => self.take(8).map(|_| FieldValue::Fixed64)?,
            2 => {
                let len = self.varint()?;
                FieldValue::Bytes(self.take(len)?)
            }
            5 => {
                let b = self.take(4)?;
                FieldValue::Fixed32(u32::from_le_bytes(b.try_into().unwrap_or_default()))
            }
            found => return Err(MessageProblem::WireType { found, at }),
        };
        match tag >> 3 {
            0 => Err(MessageProblem::FieldNumber { at }),
            number => Ok(Some(Field { number, value })),
        }
    }

    /// Reads a varint: 7 bits per byte, lowest first, at most ten bytes.
    fn varint(&mut self) -> Result<u64, MessageProblem> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let &byte = self.bytes.get(self.pos).ok_or_else(|| self.truncated())?;
            self.pos += 1;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MessageProblem::LongNumber { at: self.pos })
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8], MessageProblem> {
        let end = usize::try_from(n).ok().and_then(|n| self.pos.checked_add(n));
        let taken = end.and_then(|end| self.bytes.get(self.pos..end)).ok_or_else(|| self.truncated())?;
        self.pos += taken.len();
        Ok(taken)
    }

    fn truncated(&self) -> MessageProblem {
        MessageProblem::Truncated { at: self.pos }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A model with these pieces, as SentencePiece would store it, between fields that a reader must skip.
    pub(crate) fn model(pieces: &[(&str, f32, i32)]) -> Vec<u8> {
        let mut out = vec![0x12, 3, 0x18, 0x80, 0x01]; // trainer_spec { 3: 128 }
        for (text, score, kind) in pieces {
            let mut p = vec![0x0a, text.len() as u8];
            p.extend(text.as_bytes());
            p.push(0x15);
            p.extend(score.to_le_bytes());
            if *kind != piece_type::NORMAL {
                p.extend([0x18, *kind as u8]);
            }
            out.extend([0x0a, p.len() as u8]);
            out.extend(p);
        }
        out.extend([0x1a, 2, 0x0a, 0, 0x21, 1, 2, 3, 4, 5, 6, 7, 8]); // normalizer_spec, a fixed64
        out
    }

    #[test]
    fn reads_pieces_scores_and_types() {
        let bytes = model(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("▁a", -1.5, 1), ("<0x0A>", 0.0, 6), ("x", -2.0, 4)]);
        let got: Vec<_> = pieces(&bytes).unwrap().iter().map(|p| (p.text, p.score, p.kind)).collect();
        assert_eq!(got, [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("▁a", -1.5, 1), ("<0x0A>", 0.0, 6), ("x", -2.0, 4)]);
    }

    #[test]
    fn specifications_and_their_defaults() {
        let default = Specs { model_type: UNIGRAM, adds_space: true, removes_spaces: true, charsmap: b"" };
        assert_eq!(specs(b"").unwrap(), default);
        // trainer_spec { 3: 2 } normalizer_spec { 2: "ab" 3: 0 4: 0 }, and a second one with 3: 1.
        let bytes = [0x12, 2, 0x18, 2, 0x1a, 8, 0x12, 2, b'a', b'b', 0x18, 0, 0x20, 0, 0x1a, 2, 0x18, 1];
        let found = specs(&bytes).unwrap();
        assert_eq!(found, Specs { model_type: BPE, adds_space: true, removes_spaces: false, charsmap: b"ab" });
        assert!(specs(&[0x1a, 2, 0x18]).is_err());
    }

    #[test]
    fn says_what_is_wrong() {
        let good = model(&[("<unk>", 0.0, 2)]);
        let cases: &[(&[u8], &str)] = &[
            (b"", "has no pieces"),
            (&good[..8], "ends in the middle"),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "ends in the middle"),
            (&[0xff; 12], "longer than ten bytes"),
            (&[0x0b], "wire type 3"),
            (&[0x02, 0], "field number 0"),
            (&[0x08, 1], "is a number, expected bytes"),
            (&[0x0a, 3, 0x0a, 1, 0xff], "not UTF-8"),
            (&[0x0a, 2, 0x18, 9], "type is 9"),
            (&[0x0a, 2, 0x10, 9], "score is not a float"),
        ];
        for (bytes, message) in cases {
            let error = pieces(bytes).unwrap_err().to_string();
            assert!(error.contains(message), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_panics() {
        let bytes = model(&[("<unk>", 0.0, 2), ("▁a", -1.5, 1)]);
        for n in 0..bytes.len() {
            let _ = (pieces(&bytes[..n]), specs(&bytes[..n]));
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[n] ^= 1 << bit;
                let _ = (pieces(&flipped), specs(&flipped));
            }
        }
    }
}
