//! Earlier layouts of quantized blocks, and their conversion to existing layouts.
//!
//! The levels never changed, but their order and the storage of scales did:
//!
//! ```text
//! generation   until           levels of Q4_0, Q4_1, Q5_0, Q5_1        scales of Q4_0, Q4_1, Q8_0
//! first        May 12, 2023    byte j: values 2 j and 2 j + 1          f32
//! second       May 19, 2023    byte j: values j and j + 16             f32
//! present      -               byte j: values j and j + 16             f16
//! ```
//!
//! Q5_0 and Q5_1 always had f16 scales; bit i of their 32 high bits always belonged to value i. Blocks of Q4_2 and Q4_3 (16 values) existed
//! only in the first generation. In March 2023 Q4_0 (for a day) and Q4_1 were planar: a row has all minima, then all scales, then all
//! levels. Programs compiled with `GGML_QKK_64` wrote k-quants in blocks of 64 values with different scales. In April 2023 rwkv.cpp had
//! Q4_1_O: Q4_1 with f16 scales, and the largest value of each block stored separately.
//!
//! Rules: the functions `dequantize_row_*` of llama.cpp's `ggml.c` and `k_quants.c` at the commits 5cb63e2, b608b55, 6986c78 and dadbed9, and
//! of rwkv.cpp's `ggml.c` at bfa8d5b (Q4_1_O).

use std::fmt;

use gguf_format::GgmlType;
use gguf_quants::float::{f16_to_f32_ggml, f32_to_f16_ggml};

/// The generation of the layout of quantized blocks, independent of their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Generation {
    /// Neighbours share a byte, scales are f32: until May 12, 2023.
    First,
    /// Values 16 apart share a byte, scales are f32: until May 19, 2023.
    Second,
    /// The current layout.
    Present,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Generation::First => "the first, until May 12, 2023",
            Generation::Second => "the second, of May 12 to 19, 2023",
            Generation::Present => "the present one, since May 19, 2023",
        })
    }
}

/// The layout of a tensor's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The current layout of a type, or a removed type with a decoder.
    Present(GgmlType),
    /// Q5_0 and Q5_1 with neighbours in a byte.
    Pairs(GgmlType),
    /// Q4_0, Q4_1 and Q8_0 with f32 scales; `pairs` with neighbours in a byte.
    Wide { ty: GgmlType, pairs: bool },
    /// Q4_0 and Q4_1 with f32 scales, each row in planes.
    Planar(GgmlType),
    /// A k-quant in blocks of 64 values.
    Small(GgmlType),
    /// Q4_1_O of rwkv.cpp: f16 scale and minimum, u16 index of the outlier in the block, f16 outlier, neighbours in a byte.
    Outlier,
}

/// The conversion of a tensor's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Treatment {
    /// Copied byte for byte.
    Copied,
    /// The same numbers in today's layout.
    Rearranged,
    /// Rearranged, with f32 scales rounded to f16.
    Rounded,
    /// Decoded, and encoded as another type.
    Recoded,
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Treatment::Copied => "copied",
            Treatment::Rearranged => "rearranged",
            Treatment::Rounded => "rearranged, scales rounded",
            Treatment::Recoded => "decoded and encoded again",
        })
    }
}

impl Encoding {
    /// Values and bytes of a block, as stored in the file.
    pub(crate) fn block(self) -> (u64, u64) {
        let (values, bytes) = match self {
            Encoding::Present(ty) | Encoding::Pairs(ty) => ty.info().map_or((1, 1), |i| (i.block_len, i.block_bytes)),
            Encoding::Wide { ty: GgmlType::Q8_0, .. } => (32, 36),
            Encoding::Wide { ty: GgmlType::Q4_0, .. } | Encoding::Planar(GgmlType::Q4_0) => (32, 20),
            Encoding::Wide { .. } | Encoding::Planar(_) => (32, 24),
            Encoding::Small(GgmlType::Q2_K) => (64, 24),
            Encoding::Small(GgmlType::Q3_K) => (64, 28),
            Encoding::Small(GgmlType::Q4_K) => (64, 38),
            Encoding::Small(GgmlType::Q5_K) => (64, 46),
            Encoding::Small(_) => (64, 54),
            Encoding::Outlier => (32, 24),
        };
        (u64::from(values), u64::from(bytes))
    }

    /// The type in the file; for a type that was never part of ggml, the type of the decoded values.
    pub(crate) fn ty(self) -> GgmlType {
        match self {
            Encoding::Outlier => GgmlType::F32,
            Encoding::Present(ty)
            | Encoding::Pairs(ty)
            | Encoding::Wide { ty, .. }
            | Encoding::Planar(ty)
            | Encoding::Small(ty) => ty,
        }
    }

    /// Whether the scales are examined before the data is read: f32 scales, which a current block cannot store, and those of a type whose
    /// values no later step checks.
    pub(crate) fn is_measured(self) -> bool {
        matches!(self, Encoding::Wide { .. } | Encoding::Planar(_) | Encoding::Outlier)
    }
}

/// How the values of a tensor are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) encoding: Encoding,
    /// Whether they are decoded to f32.
    pub(crate) decode: bool,
}

impl Reading {
    /// The type of the read data.
    pub(crate) fn ty(self) -> GgmlType {
        match self.encoding {
            Encoding::Small(_) => GgmlType::F32,
            _ if self.decode => GgmlType::F32,
            encoding => encoding.ty(),
        }
    }

    /// Bytes of a converted block.
    pub(crate) fn block_bytes(self) -> u64 {
        let (values, _) = self.encoding.block();
        match self.ty() {
            GgmlType::F32 => values * 4,
            ty => ty.info().map_or(1, |info| u64::from(info.block_bytes)),
        }
    }

    /// Whether bytes are copied unchanged.
    pub(crate) fn is_copy(self) -> bool {
        matches!(self.encoding, Encoding::Present(_)) && self.ty() == self.encoding.ty()
    }

    /// Converts whole blocks. Rows of [`Encoding::Planar`] must already be in blocks.
    pub(crate) fn convert(self, raw: &[u8], out: &mut [u8]) {
        let (_, raw_bytes) = self.encoding.block();
        let blocks = raw.chunks_exact(memory_len(raw_bytes)).zip(out.chunks_exact_mut(memory_len(self.block_bytes())));
        match self.encoding {
            Encoding::Wide { ty, pairs } if self.decode => {
                blocks.for_each(|(raw, out)| decode_wide(ty, pairs, raw, out))
            }
            Encoding::Wide { ty, pairs } => blocks.for_each(|(raw, out)| narrow(ty, pairs, raw, out)),
            Encoding::Planar(ty) if self.decode => blocks.for_each(|(raw, out)| decode_wide(ty, true, raw, out)),
            Encoding::Planar(ty) => blocks.for_each(|(raw, out)| narrow(ty, true, raw, out)),
            Encoding::Pairs(_) => blocks.for_each(|(raw, out)| {
                // The levels are the last 16 bytes, behind scales and high bits.
                let (head, levels) = raw.split_at(raw.len() - 16);
                let (out_head, out_levels) = out.split_at_mut(head.len());
                out_head.copy_from_slice(head);
                halves_of_pairs(levels, out_levels);
            }),
            Encoding::Small(ty) => blocks.for_each(|(raw, out)| small::decode(ty, raw, out)),
            Encoding::Outlier => blocks.for_each(|(raw, out)| decode_outlier(raw, out)),
            Encoding::Present(_) => out.copy_from_slice(raw),
        }
    }
}

/// A length in memory; that of no buffer if it cannot be represented.
pub(crate) fn memory_len(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0.0, |b| f32::from_le_bytes(*b))
}

fn f16_at(bytes: &[u8], at: usize) -> f32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0.0, |b| f16_to_f32_ggml(u16::from_le_bytes(*b)))
}

/// The level of value `i` of 16 bytes.
fn level(levels: &[u8], pairs: bool, i: usize) -> u8 {
    let (byte, high) = if pairs { (i / 2, i % 2 == 1) } else { (i % 16, i >= 16) };
    let byte = levels.get(byte).copied().unwrap_or(0);
    if high { byte >> 4 } else { byte & 15 }
}

/// Moves levels from neighbours in a byte to values 16 apart: bytes j and j + 8 hold values 2 j, 2 j + 1, and 16 more than those.
fn halves_of_pairs(pairs: &[u8], halves: &mut [u8]) {
    let (low, high) = pairs.split_at(8);
    for ((low, high), out) in low.iter().zip(high).zip(halves.as_chunks_mut::<2>().0) {
        *out = [low & 15 | high << 4, low >> 4 | high & 0xf0];
    }
}

/// Converts a block with f32 scales to one with f16 scales.
fn narrow(ty: GgmlType, pairs: bool, raw: &[u8], out: &mut [u8]) {
    let n_scales = if ty == GgmlType::Q4_1 { 2 } else { 1 };
    let (scales, levels) = raw.split_at(4 * n_scales);
    let (out_scales, out_levels) = out.split_at_mut(2 * n_scales);
    for (i, out) in out_scales.chunks_exact_mut(2).enumerate() {
        out.copy_from_slice(&f32_to_f16_ggml(f32_at(scales, 4 * i)).to_le_bytes());
    }
    if ty != GgmlType::Q8_0 && pairs {
        halves_of_pairs(levels, out_levels);
    } else {
        out_levels.copy_from_slice(levels);
    }
}

/// Decodes a block with f32 scales to f32 values.
fn decode_wide(ty: GgmlType, pairs: bool, raw: &[u8], out: &mut [u8]) {
    let d = f32_at(raw, 0);
    let value = |i: usize| match ty {
        GgmlType::Q8_0 => f32::from(raw.get(4 + i).map_or(0, |&b| b as i8)) * d,
        GgmlType::Q4_0 => (f32::from(level(raw.get(4..).unwrap_or_default(), pairs, i)) - 8.0) * d,
        _ => f32::from(level(raw.get(8..).unwrap_or_default(), pairs, i)) * d + f32_at(raw, 4),
    };
    for (i, out) in out.chunks_exact_mut(4).enumerate() {
        out.copy_from_slice(&value(i).to_le_bytes());
    }
}

/// Decodes a block of Q4_1_O to f32 values. The index in a block of zeros is 65535: such a block has no outlier.
fn decode_outlier(raw: &[u8], out: &mut [u8]) {
    let [d, m, value] = [0, 2, 6].map(|at| f16_at(raw, at));
    let outlier =
        raw.get(4..).and_then(<[u8]>::first_chunk).map_or(usize::MAX, |b| usize::from(u16::from_le_bytes(*b)));
    let levels = raw.get(8..).unwrap_or_default();
    for (i, out) in out.chunks_exact_mut(4).enumerate() {
        let value = if i == outlier { value } else { f32::from(level(levels, true, i)) * d + m };
        out.copy_from_slice(&value.to_le_bytes());
    }
}

/// Converts a planar row to blocks with the scales before the levels.
pub(crate) fn blocks_of_planes(ty: GgmlType, row: &[u8], blocks: &mut [u8]) {
    let n_scales = if ty == GgmlType::Q4_1 { 2 } else { 1 };
    let block_bytes = 4 * n_scales + 16;
    let n = row.len() / block_bytes;
    for (i, block) in blocks.chunks_exact_mut(block_bytes).enumerate() {
        let (scales, levels) = block.split_at_mut(4 * n_scales);
        // Minima come first in the planes, scales in the blocks.
        let planes = if n_scales == 2 { &[n, 0][..] } else { &[0] };
        for (plane, scale) in planes.iter().zip(scales.chunks_exact_mut(4)) {
            scale.copy_from_slice(row.get(4 * (plane + i)..4 * (plane + i) + 4).unwrap_or(&[0; 4]));
        }
        let start = 4 * n_scales * n + 16 * i;
        levels.copy_from_slice(row.get(start..start + 16).unwrap_or(&[0; 16]));
    }
}

/// The loss of f32 scales that become f16.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Rounding {
    /// Scales and minima.
    pub n_scales: u64,
    /// Scales without an exact f16 value.
    pub n_inexact: u64,
    /// Scales that are subnormal in f16.
    pub n_small: u64,
    /// Scales out of the range of f16.
    pub n_large: u64,
    /// NaN or infinite scales.
    pub n_not_finite: u64,
}

impl Rounding {
    /// Adds the scales of whole blocks.
    pub(crate) fn add_blocks(&mut self, encoding: Encoding, raw: &[u8]) {
        let n_scales = if encoding.ty() == GgmlType::Q4_1 { 2 } else { 1 };
        for block in raw.chunks_exact(memory_len(encoding.block().1)) {
            if encoding == Encoding::Outlier {
                [0, 2, 6].into_iter().for_each(|at| self.add(f16_at(block, at)));
                continue;
            }
            for i in 0..n_scales {
                self.add(f32_at(block, 4 * i));
            }
        }
    }

    fn add(&mut self, scale: f32) {
        self.n_scales += 1;
        let half = f16_to_f32_ggml(f32_to_f16_ggml(scale));
        if half != scale {
            self.n_inexact += 1;
            // The smallest normal number of f16.
            self.n_small += u64::from(scale.abs() < 6.103_515_6e-5);
            self.n_large += u64::from(scale.is_finite() && !half.is_finite());
        }
        self.n_not_finite += u64::from(!scale.is_finite());
    }

    /// Adds the counts of other blocks.
    pub(crate) fn add_all(&mut self, more: Rounding) {
        self.n_scales += more.n_scales;
        self.n_inexact += more.n_inexact;
        self.n_small += more.n_small;
        self.n_large += more.n_large;
        self.n_not_finite += more.n_not_finite;
    }
}

/// Whether all scales of blocks have plausible values: distinguishes planar rows from rows of blocks.
pub(crate) fn are_plausible(ty: GgmlType, blocks: &[u8]) -> bool {
    let block_bytes = if ty == GgmlType::Q4_1 { 24 } else { 20 };
    let is_scale = |d: f32| d == 0.0 || d > 1e-12 && d < 1e4;
    let is_minimum = |m: f32| m == 0.0 || m.abs() > 1e-12 && m.abs() < 1e5;
    blocks
        .chunks_exact(block_bytes)
        .all(|block| is_scale(f32_at(block, 0)) && (ty == GgmlType::Q4_0 || is_minimum(f32_at(block, 4))))
}

mod small;

#[cfg(test)]
mod tests;
