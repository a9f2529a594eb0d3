//! Walks through a file by one layout: hyperparameters, vocabulary, and the header of every tensor, up to the end of the file.
//!
//! Files store neither a tensor count nor the name of the architecture: only a walk that ends exactly at the end of the file confirms the
//! layout. Tensor data is skipped. Memory is bounded by the actual contents of the file: nothing is reserved for claimed sizes.

use gguf_format::{GgmlType, SizeError, n_elements};
use gguf_io::ReadAt;

use crate::block::{Encoding, Generation};
use crate::container::Container;
use crate::cursor::{Cursor, Stop};
use crate::layout::{Hparam, Hparams, Layout, Tokens};
use crate::malformed::{Field, Malformed, Problem};

/// The longest valid token.
const MAX_TOKEN: u32 = 1 << 16;
/// The maximum size of all tokens: about ten times that of the largest vocabulary.
const MAX_TOKEN_BYTES: u64 = 64 << 20;
/// The longest valid tensor name.
const MAX_NAME: u32 = 256;
/// The maximum number of tensors: each block of the largest models has fewer than a hundred.
const MAX_TENSORS: u64 = 1 << 16;

/// The alignment of data in containers that align it.
pub(crate) const ALIGNMENT: u64 = 32;

/// The interpretation of tensor type numbers, which files do not record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) generation: Generation,
    /// Whether k-quants have blocks of 64.
    pub(crate) small: bool,
    /// Whether type 6 is Q8_0, as it was on April 25 and 26, 2023.
    pub(crate) early_q8: bool,
}

impl Sizes {
    /// The layout of a tensor, from its type number.
    pub(crate) fn encoding(self, code: u32, container: Container) -> Option<Encoding> {
        let Sizes { generation, small, early_q8 } = self;
        // rwkv.cpp uses different numbers.
        let code = match (container, code) {
            (Container::Rwkv(_), 0..=3) => code,
            (Container::Rwkv(_), 4) => return Some(Encoding::Outlier),
            (Container::Rwkv(_), 5..=6) => code - 1,
            (Container::Rwkv(_), 7..=9) => code - 1,
            (Container::Rwkv(_), _) => return None,
            _ => code,
        };
        let is_wide = generation != Generation::Present;
        let pairs = generation == Generation::First;
        Some(match GgmlType(code) {
            GgmlType::Q5_0 if early_q8 => Encoding::Wide { ty: GgmlType::Q8_0, pairs: false },
            ty @ (GgmlType::Q4_0 | GgmlType::Q4_1) if is_wide => Encoding::Wide { ty, pairs },
            ty @ GgmlType::Q8_0 if is_wide => Encoding::Wide { ty, pairs: false },
            ty @ (GgmlType::Q5_0 | GgmlType::Q5_1) if pairs => Encoding::Pairs(ty),
            ty @ (GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::Q4_K | GgmlType::Q5_K | GgmlType::Q6_K) if small => {
                Encoding::Small(ty)
            }
            GgmlType(0..=8 | 10..=14) => Encoding::Present(GgmlType(code)),
            _ => return None,
        })
    }
}

/// Texts of tokens, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenTexts {
    pub(crate) fn push(&mut self, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, i: usize) -> Option<&[u8]> {
        let start = if i == 0 { 0 } else { *self.ends.get(i - 1)? };
        self.bytes.get(start..*self.ends.get(i)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

/// The header of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: String,
    /// The first dimension is the contiguous one.
    pub(crate) shape: Vec<u64>,
    pub(crate) encoding: Encoding,
    /// The start of the header.
    pub(crate) start: u64,
    /// The start of the data.
    pub(crate) offset: u64,
    /// Bytes of the data.
    pub(crate) bytes: u64,
}

/// The result of a walk.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) layout: &'static Layout,
    pub(crate) sizes: Sizes,
    pub(crate) hparams: Hparams,
    pub(crate) tokens: TokenTexts,
    pub(crate) scores: Vec<f32>,
    pub(crate) merges: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) records: Vec<Record>,
    /// Inconsistent hyperparameters. The walk continues, to see whether the rest of the file matches the layout.
    pub(crate) conflict: Option<Malformed>,
    /// Whether the vocabulary was read completely.
    pub(crate) has_vocabulary: bool,
    /// The place and reason, if the walk ended before the end of the file.
    pub(crate) end: Option<Malformed>,
}

impl Walk {
    /// Walks through a file whose magic and version end at `start`.
    ///
    /// # Errors
    /// Errors of the source. Problems of the bytes are part of the result.
    pub(crate) fn new(
        source: &dyn ReadAt,
        len: u64,
        container: Container,
        start: u64,
        layout: &'static Layout,
        sizes: Option<Sizes>,
    ) -> std::io::Result<Walk> {
        let mut cursor = Cursor::new(source, len);
        cursor.seek(start.min(len));
        let mut walk = Walk {
            layout,
            sizes: Sizes { generation: Generation::Present, small: false, early_q8: false },
            hparams: Hparams::default(),
            tokens: TokenTexts::default(),
            scores: Vec::new(),
            merges: Vec::new(),
            records: Vec::new(),
            conflict: None,
            has_vocabulary: false,
            end: None,
        };
        match walk.run(&mut cursor, container, sizes) {
            Ok(()) => Ok(walk),
            Err(Stop::Bad(end)) => Ok(Walk { end: Some(end), ..walk }),
            Err(Stop::Io(e)) => Err(e),
        }
    }

    fn run(&mut self, cursor: &mut Cursor<'_>, container: Container, sizes: Option<Sizes>) -> Result<(), Stop> {
        self.read_hparams(cursor)?;
        self.sizes = sizes.unwrap_or(Sizes {
            generation: generation(container, self.hparams.file_type().1),
            small: false,
            early_q8: false,
        });
        self.read_vocabulary(cursor, container)?;
        self.has_vocabulary = true;
        while !cursor.is_at_end() {
            let number = self.records.len() as u64;
            if number >= MAX_TENSORS {
                let problem = Problem::TooManyTensors { limit: MAX_TENSORS };
                return Err(Malformed { field: Field::TensorDims(number), offset: cursor.pos(), problem }.into());
            }
            let record = read_record(cursor, container, number, |code| self.sizes.encoding(code, container))?;
            self.records.push(record);
        }
        Ok(())
    }

    fn read_hparams(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let mut places = Vec::new();
        for &hparam in self.layout.hparams {
            let field = Field::Hparam(hparam.name());
            let at = cursor.pos();
            let value = cursor.u32(&field)?;
            let is_right = match hparam.float() {
                Some(most) => (0.0..=most).contains(&f32::from_bits(value)),
                None => hparam.range().contains(&value),
            };
            if !is_right {
                let expected = hparam.expected();
                return Err(match hparam.float() {
                    Some(_) => Malformed { field, offset: at, problem: Problem::Float { bits: value, expected } },
                    None => Malformed::number(field, at, value, expected),
                }
                .into());
            }
            places.push(at);
            self.hparams.0.push((hparam, value));
        }
        if let Some((hparam, expected)) = self.hparams.conflict(self.layout.family) {
            let place = self.hparams.0.iter().position(|(name, _)| *name == hparam).and_then(|i| places.get(i));
            let field = Field::Hparam(hparam.name());
            let at = place.copied().unwrap_or_default();
            self.conflict = Some(Malformed::number(field, at, self.hparams.int(hparam), expected));
        }
        Ok(())
    }

    fn read_vocabulary(&mut self, cursor: &mut Cursor<'_>, container: Container) -> Result<(), Stop> {
        let mut n_tokens = self.hparams.int(Hparam::Vocab);
        let mut has_scores = container.has_scores();
        match self.layout.tokens {
            Tokens::None => return Ok(()),
            Tokens::AsContainer => {}
            Tokens::WithScores => has_scores = true,
            Tokens::Counted => {
                let at = cursor.pos();
                let field = Field::Hparam("n_vocab");
                let again = cursor.u32(&field)?;
                if again != n_tokens {
                    return Err(Malformed::number(field, at, again, "the number of tokens again").into());
                }
            }
            Tokens::Whisper => {
                let at = cursor.pos();
                let (n_mel, n_fft) = (cursor.u32(&Field::MelFilters)?, cursor.u32(&Field::MelFilters)?);
                if n_mel != self.hparams.int(Hparam::Mels) {
                    return Err(Malformed::number(Field::MelFilters, at, n_mel, "n_mels again").into());
                }
                cursor.skip(4 * u64::from(n_mel) * u64::from(n_fft), &Field::MelFilters)?;
                let at = cursor.pos();
                let field = Field::Hparam("n_vocab");
                n_tokens = cursor.u32(&field)?;
                if n_tokens == 0 || n_tokens > self.hparams.int(Hparam::Vocab) {
                    return Err(Malformed::number(field, at, n_tokens, "a number of tokens up to n_vocab").into());
                }
            }
        }
        for i in 0..n_tokens {
            let at = cursor.pos();
            let len = cursor.u32(&Field::TokenLength(i))?;
            if len > MAX_TOKEN {
                return Err(Malformed::number(Field::TokenLength(i), at, len, "a length of at most 65536").into());
            }
            if self.tokens.bytes.len() as u64 + u64::from(len) > MAX_TOKEN_BYTES {
                let problem = Problem::TooManyTokenBytes { limit: MAX_TOKEN_BYTES };
                return Err(Malformed { field: Field::TokenLength(i), offset: at, problem }.into());
            }
            let token = cursor.bytes(len as usize, &Field::Token(i))?;
            self.tokens.push(token);
            if has_scores {
                let at = cursor.pos();
                let score = cursor.f32(&Field::Score(i))?;
                if score.is_nan() {
                    let problem = Problem::Float { bits: score.to_bits(), expected: "a number" };
                    return Err(Malformed { field: Field::Score(i), offset: at, problem }.into());
                }
                self.scores.push(score);
            }
        }
        let Some(n_merges) = self.hparams.get(Hparam::Merges) else { return Ok(()) };
        let at = cursor.pos();
        let field = Field::Hparam(Hparam::Merges.name());
        let again = cursor.u32(&field)?;
        if again != n_merges {
            return Err(Malformed::number(field, at, again, "the number of merges again").into());
        }
        for i in 0..n_merges {
            let mut half = || {
                let at = cursor.pos();
                let len = cursor.u32(&Field::Merge(i))?;
                if len == 0 || len > MAX_TOKEN {
                    return Err(Malformed::number(Field::Merge(i), at, len, "a length from 1 to 65536").into());
                }
                Ok::<_, Stop>(cursor.bytes(len as usize, &Field::Merge(i))?.to_vec())
            };
            let merge = (half()?, half()?);
            self.merges.push(merge);
        }
        Ok(())
    }
}

/// Reads the header of a tensor and skips its data.
pub(crate) fn read_record(
    cursor: &mut Cursor<'_>,
    container: Container,
    number: u64,
    encoding: impl Fn(u32) -> Option<Encoding>,
) -> Result<Record, Stop> {
    let start = cursor.pos();
    let n_dims = cursor.u32(&Field::TensorDims(number))?;
    if !(1..=4).contains(&n_dims) {
        let expected = "a number of dimensions from 1 to 4";
        return Err(Malformed::number(Field::TensorDims(number), start, n_dims, expected).into());
    }
    let at = cursor.pos();
    let name_len = cursor.u32(&Field::TensorNameLength(number))?;
    if !(1..=MAX_NAME).contains(&name_len) {
        let expected = "a length from 1 to 256";
        return Err(Malformed::number(Field::TensorNameLength(number), at, name_len, expected).into());
    }
    let at = cursor.pos();
    let code = cursor.u32(&Field::TensorType(number))?;
    let Some(encoding) = encoding(code) else {
        let expected = match container {
            Container::Rwkv(_) => "a type from 0 to 9",
            _ => "a type from 0 to 8, or 10 to 14",
        };
        return Err(Malformed::number(Field::TensorType(number), at, code, expected).into());
    };
    let shape_at = cursor.pos();
    let mut shape = Vec::new();
    for _ in 0..n_dims {
        let at = cursor.pos();
        let dim = cursor.u32(&Field::TensorShape(number))?;
        if dim == 0 || dim > i32::MAX as u32 {
            return Err(Malformed::number(Field::TensorShape(number), at, dim, "a number from 1 to 2147483647").into());
        }
        shape.push(u64::from(dim));
    }
    let at = cursor.pos();
    let name = cursor.bytes(name_len as usize, &Field::TensorName(number))?;
    let name = match str::from_utf8(name) {
        Ok(text) if text.bytes().all(|b| b.is_ascii_graphic()) => text.to_owned(),
        _ => {
            let problem = Problem::Name(name.to_vec());
            return Err(Malformed { field: Field::TensorName(number), offset: at, problem }.into());
        }
    };
    let bytes = n_bytes(encoding, &shape).map_err(|e| Malformed {
        field: Field::TensorShape(number),
        offset: shape_at,
        problem: Problem::Size(e),
    })?;
    if container.is_aligned() {
        let padding = cursor.pos().next_multiple_of(ALIGNMENT) - cursor.pos();
        cursor.skip(padding, &Field::TensorData(number))?;
    }
    let offset = cursor.pos();
    cursor.skip(bytes, &Field::TensorData(number))?;
    Ok(Record { name, shape, encoding, start, offset, bytes })
}

/// Bytes of a tensor.
fn n_bytes(encoding: Encoding, shape: &[u64]) -> Result<u64, SizeError> {
    let (block_len, block_bytes) = encoding.block();
    let row = shape.first().copied().unwrap_or(1);
    if !row.is_multiple_of(block_len) {
        return Err(SizeError::PartialBlock { row, block_len: u32::try_from(block_len).unwrap_or(u32::MAX) });
    }
    let n = n_elements(shape.iter().copied()).ok_or(SizeError::Overflow)?;
    (n / block_len).checked_mul(block_bytes).filter(|&n| i64::try_from(n).is_ok()).ok_or(SizeError::Overflow)
}

/// The generation of quantized blocks, from the container and the quantization version in the file type.
pub(crate) fn generation(container: Container, version: u32) -> Generation {
    match (container, version) {
        (Container::Ggjt(1) | Container::Rwkv(100), _) => Generation::First,
        (Container::Ggjt(2), _) => Generation::Second,
        (Container::Ggjt(_) | Container::Ggcc | Container::Rwkv(_) | Container::GgufDraft | Container::Gguf(_), _) => {
            Generation::Present
        }
        (_, 0) => Generation::First,
        (_, 1) => Generation::Second,
        _ => Generation::Present,
    }
}
