//! Compares codecs with ggml, bit for bit.

use std::fmt;
use std::ops::AddAssign;

use gguf_format::GgmlType;
use gguf_quants::codec::Codec;
use gguf_quants::{Isa, Rows};

use crate::Ggml;
use gguf_test::data::{Kind, Scales, Weights, blocks};
use gguf_test::random::Random;

/// Amounts of compared and different data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Weights encoded by ggml and by each instruction set.
    pub encoded: u64,
    /// The part of them that the scalar reference also encoded.
    pub scalar: u64,
    /// Blocks with different bytes in an instruction set.
    pub different_blocks: u64,
    /// Weights decoded by ggml and by each instruction set.
    pub decoded: u64,
    /// Weights with different bits in an instruction set.
    pub different_weights: u64,
    /// Descriptions of the first differences.
    pub examples: Vec<String>,
}

impl Tally {
    /// Whether nothing differed.
    pub fn is_clean(&self) -> bool {
        self.different_blocks == 0 && self.different_weights == 0
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < 4 {
            self.examples.push(text());
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.encoded += more.encoded;
        self.scalar += more.scalar;
        self.different_blocks += more.different_blocks;
        self.decoded += more.decoded;
        self.different_weights += more.different_weights;
        let room = 8usize.saturating_sub(self.examples.len());
        self.examples.extend(more.examples.into_iter().take(room));
    }
}

/// The origin of a sample's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Generated.
    Made(Kind),
    /// Rows of a trained model.
    Real,
}

impl Source {
    /// All generated kinds, and real rows if there are any.
    pub fn all(real: bool) -> impl Iterator<Item = Source> {
        Kind::ALL.map(Source::Made).into_iter().chain(real.then_some(Source::Real))
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Source::Made(kind) => kind.name(),
            Source::Real => "real",
        }
    }
}

/// The parameters of a reproducible sample of rows.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The target type.
    pub ty: GgmlType,
    /// The kind of numbers.
    pub source: Source,
    /// The kind of matrix.
    pub weights: Weights,
    /// The index among similar samples.
    pub number: u64,
    /// Values in a row.
    pub row_len: usize,
    /// Number of rows.
    pub n_rows: usize,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, weights) = (self.source.name(), self.weights.name());
        write!(f, "{} {source} {}, {} rows of {}, matrix: {weights}", self.ty, self.number, self.n_rows, self.row_len)
    }
}

impl Sample {
    /// Sample `number` of about `len` weights; the length of a row depends on the number.
    pub fn new(codec: &Codec, source: Source, weights: Weights, number: u64, len: usize) -> Sample {
        let block = codec.ty.info().map_or(1, |t| t.block_len as usize);
        let row_len = match number % 6 {
            0 | 2 => 4096,
            1 => block,
            3 => 3 * block,
            4 => 11 * block,
            _ => 2048,
        };
        // Not always a whole number of vectors.
        let n_rows = len.div_ceil(row_len) + number as usize / 6 % 3;
        Sample { ty: codec.ty, source, weights, number, row_len, n_rows }
    }

    /// The values and the matrix. `real` are the rows for [`Source::Real`].
    pub fn rows(&self, real: &[f32]) -> (Vec<f32>, Option<Vec<f32>>) {
        let mut random =
            Random::new(&format!("{} {} {}", self.ty, self.source.name(), self.weights.name()), self.number);
        let n = self.n_rows * self.row_len;
        let values = match self.source {
            Source::Made(kind) => kind.values(self.ty, &mut random, n),
            Source::Real => {
                // Each cycle starts some values later, so that the blocks differ.
                let start = (self.number as usize * n) % real.len() + 8 * (self.number as usize * n / real.len());
                real.iter().cycle().skip(start % real.len()).take(n).copied().collect()
            }
        };
        (values, self.weights.columns(&mut random, self.row_len))
    }
}

/// Encodes a sample with ggml and with each instruction set, and decodes ggml's bytes with all of them.
///
/// # Errors
/// If the library lacks a function.
pub fn sample(
    ggml: &Ggml,
    codec: &Codec,
    isas: &[Isa],
    sample: &Sample,
    real: &[f32],
) -> Result<Tally, libloading::Error> {
    let (values, weights) = sample.rows(real);
    let rows = Rows::new(&values, sample.row_len, weights.as_deref()).expect("made to fit");
    let mut theirs = vec![0; codec.packed_bytes(values.len()).expect("whole blocks")];
    ggml.quantize(codec.ty, &values, sample.row_len, weights.as_deref(), &mut theirs)?;
    let mut tally = encoded(codec, isas, rows, &theirs, sample);
    tally += decoded(ggml, codec, isas, &theirs, sample)?;
    Ok(tally)
}

/// Compares the encoded rows of each instruction set with ggml's bytes.
pub fn encoded(codec: &Codec, isas: &[Isa], rows: Rows<'_>, theirs: &[u8], what: &dyn fmt::Display) -> Tally {
    let block_bytes = codec.ty.info().map_or(1, |t| t.block_bytes as usize);
    let n = rows.values().len() as u64;
    let mut tally = Tally { encoded: n, scalar: if isas.contains(&Isa::Scalar) { n } else { 0 }, ..Tally::default() };
    let mut different = vec![false; theirs.len() / block_bytes];
    let mut ours = vec![0; theirs.len()];
    for &isa in isas {
        ours.fill(0x55);
        if let Err(e) = codec.encode_with(isa, rows, &mut ours) {
            different.fill(true);
            tally.example(|| format!("{what}, {isa}: {e}"));
            continue;
        }
        if ours == theirs {
            continue;
        }
        let blocks = ours.chunks(block_bytes).zip(theirs.chunks(block_bytes)).enumerate();
        for (i, (ours, theirs)) in blocks.filter(|(_, (ours, theirs))| ours != theirs) {
            different[i] = true;
            tally.example(|| {
                let at = (0..block_bytes).find(|&at| ours[at] != theirs[at]).unwrap_or(0);
                let (ours, theirs) = (ours[at], theirs[at]);
                format!("{what}, {isa}: block {i}, byte {at}: {ours:#04x} where ggml has {theirs:#04x}")
            });
        }
    }
    tally.different_blocks = different.iter().filter(|d| **d).count() as u64;
    tally
}

/// Decodes blocks with ggml and with each instruction set. If ggml cannot decode the type, nothing is compared.
///
/// # Errors
/// If the library lacks a function.
pub fn decoded(
    ggml: &Ggml,
    codec: &Codec,
    isas: &[Isa],
    packed: &[u8],
    what: &dyn fmt::Display,
) -> Result<Tally, libloading::Error> {
    let Some(t) = codec.ty.info() else { return Ok(Tally::default()) };
    let n = packed.len() / t.block_bytes as usize * t.block_len as usize;
    let mut theirs = vec![0.0; n];
    if t.removed || !ggml.to_float(codec.ty, packed, &mut theirs)? {
        return Ok(Tally::default());
    }
    let mut tally = Tally { decoded: n as u64, ..Tally::default() };
    let mut ours = vec![0.0; n];
    for &isa in isas {
        ours.fill(1e33);
        if let Err(e) = codec.decode_with(isa, packed, &mut ours) {
            tally.different_weights += n as u64;
            tally.example(|| format!("{what}, {isa}, decoded: {e}"));
            continue;
        }
        for (i, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            if ours.to_bits() != theirs.to_bits() {
                tally.different_weights += 1;
                tally.example(|| {
                    let bits = (ours.to_bits(), theirs.to_bits());
                    format!("{what}, {isa}, decoded: value {i}: {:#010x} where ggml has {:#010x}", bits.0, bits.1)
                });
            }
        }
    }
    Ok(tally)
}

/// Decodes random blocks with ggml and with each instruction set.
///
/// # Errors
/// If the library lacks a function.
pub fn random_blocks(
    ggml: &Ggml,
    codec: &Codec,
    isas: &[Isa],
    number: u64,
    len: usize,
) -> Result<Tally, libloading::Error> {
    let scales = if number.is_multiple_of(4) { Scales::Finite } else { Scales::Any };
    let mut random = Random::new(&format!("{} blocks", codec.ty), number);
    let n_blocks = (len / codec.ty.info().map_or(1, |t| t.block_len as usize)).max(1) + number as usize % 3;
    let packed = blocks(codec.ty, scales, &mut random, n_blocks);
    decoded(ggml, codec, isas, &packed, &format!("{} random blocks {number}, {scales:?}", codec.ty))
}
