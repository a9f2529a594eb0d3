//! Layouts removed from ggml, for old files: Q4_2 and Q4_3, and the interleaved forms of Q4_0 and IQ4_NL.
//!
//! **Q4_2** and **Q4_3** (April and May 2023): blocks of 16 values, neighbours in the two halves of a byte.
//!
//! ```text
//! Q4_2   0      2                   10        Q4_3   0      2      4                   12
//!        | d    | levels, 8         |                | d    | m    | levels, 8         |
//!          f16    byte i: values 2 i and 2 i + 1       f16    f16
//!        value = (level - 8) d                       value = level d + m
//! ```
//!
//! **Q4_0_4_4, Q4_0_4_8, Q4_0_8_8, IQ4_NL_4_4, IQ4_NL_4_8, IQ4_NL_8_8** (August to December 2024): the blocks at the same position of 4 or
//! 8 rows (the first number) form one, for kernels that process this number of rows at once.
//!
//! ```text
//! | d of row 0 | d of row 1 | … | run 0 of row 0 | run 0 of row 1 | … | run 1 of row 0 | … |
//! ```
//!
//! A run is 4 or 8 bytes (the second number) of the 16 bytes of a block's levels. In the forms of Q4_0 the highest bit of both halves of
//! each byte is flipped, which makes them signed; those of IQ4_NL are unchanged. The plain blocks can be restored without loss, so the
//! interleaved types need no codecs: see [`Interleaved`].
//!
//! Rules: `dequantize_row_q4_2` and `dequantize_row_q4_3` in `ggml.c` of May and April 2023; `make_block_q4_0x4`, `make_block_q4_0x8`,
//! `make_block_iq4_nlx4` and `make_block_iq4_nlx8` in `ggml-cpu/repack.cpp`, which still makes these blocks in memory.

use super::block::DecodeBlock;
use super::{CodecError, codec};
use crate::dispatch::Isa;
use crate::float::f16_to_f32_ggml;
use crate::lanes::{Floats, Ints, Lanes};
use gguf_format::GgmlType;

const LEN: usize = 16;

/// The levels of eight bytes in the order of the values.
#[inline(always)]
fn pairs(packed: &[u8; 8]) -> [u8; LEN] {
    let mut levels = [0; LEN];
    for (levels, byte) in levels.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
        *levels = [byte & 15, byte >> 4];
    }
    levels
}

/// Q4_2.
pub(super) struct Q4_2;

impl DecodeBlock<LEN, 10> for Q4_2 {
    fn plain(block: &[u8; 10], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            let level = block[2 + i / 2] >> (4 * (i % 2)) & 15;
            *value = (f32::from(level) - 8.0) * d;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; 10], values: &mut [f32; LEN]) {
        let (head, packed) = block.split_first_chunk().unwrap();
        let d = lanes.splat_half(u16::from_le_bytes(*head));
        let levels = pairs(packed.first_chunk().unwrap());
        for i in (0..LEN).step_by(L::N) {
            let level = lanes.load_u8(&levels[i..]) - lanes.splat_i(8);
            (level.to_f() * d).store(&mut values[i..]);
        }
    }
}

/// Q4_3.
pub(super) struct Q4_3;

impl DecodeBlock<LEN, 12> for Q4_3 {
    fn plain(block: &[u8; 12], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        let m = f16_to_f32_ggml(u16::from_le_bytes([block[2], block[3]]));
        for (i, value) in values.iter_mut().enumerate() {
            let level = block[4 + i / 2] >> (4 * (i % 2)) & 15;
            *value = f32::from(level) * d + m;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; 12], values: &mut [f32; LEN]) {
        let ([d0, d1, m0, m1], packed) = block.split_first_chunk().unwrap();
        let d = lanes.splat_half(u16::from_le_bytes([*d0, *d1]));
        let m = lanes.splat_half(u16::from_le_bytes([*m0, *m1]));
        let levels = pairs(packed.first_chunk().unwrap());
        for i in (0..LEN).step_by(L::N) {
            (lanes.load_u8(&levels[i..]).to_f() * d + m).store(&mut values[i..]);
        }
    }
}

/// Values in a block of the plain types.
const PLAIN_LEN: usize = 32;
/// Bytes of a block of the plain types: a half-precision scale and the levels.
const PLAIN_BYTES: usize = 18;
/// Bytes of a block's levels.
const LEVELS: usize = 16;

/// A type whose blocks interleave several rows.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleaved {
    /// The type.
    pub ty: GgmlType,
    /// The type of the deinterleaved blocks: Q4_0 or IQ4_NL.
    pub plain: GgmlType,
    /// The number of interleaved rows, a divisor of the number of rows of a tensor over all dimensions but the first.
    pub n_rows: usize,
    /// Consecutive bytes of a row.
    run: usize,
    /// The XOR mask of every byte of the levels.
    turned: u8,
}

const INTERLEAVED: &[Interleaved] = &[
    Interleaved { ty: GgmlType::Q4_0_4_4, plain: GgmlType::Q4_0, n_rows: 4, run: 4, turned: 0x88 },
    Interleaved { ty: GgmlType::Q4_0_4_8, plain: GgmlType::Q4_0, n_rows: 4, run: 8, turned: 0x88 },
    Interleaved { ty: GgmlType::Q4_0_8_8, plain: GgmlType::Q4_0, n_rows: 8, run: 8, turned: 0x88 },
    Interleaved { ty: GgmlType::IQ4_NL_4_4, plain: GgmlType::IQ4_NL, n_rows: 4, run: 4, turned: 0 },
    Interleaved { ty: GgmlType::IQ4_NL_4_8, plain: GgmlType::IQ4_NL, n_rows: 4, run: 8, turned: 0 },
    Interleaved { ty: GgmlType::IQ4_NL_8_8, plain: GgmlType::IQ4_NL, n_rows: 8, run: 8, turned: 0 },
];

/// How a type interleaves rows; `None` for other types.
pub fn interleaved(ty: GgmlType) -> Option<&'static Interleaved> {
    INTERLEAVED.iter().find(|t| t.ty == ty)
}

impl Interleaved {
    /// Deinterleaves whole groups of rows: `packed` has a multiple of [`n_rows`](Self::n_rows) rows of `row_len` values, and `plain`
    /// receives the same rows one after the other, in blocks of the plain type. Both have the same size.
    ///
    /// # Errors
    /// [`CodecError::PartialBlock`] if a row is not a whole number of blocks of 32; [`CodecError::Size`] if the bytes are not whole groups,
    /// or the two buffers differ in size.
    pub fn take_apart(&self, row_len: usize, packed: &[u8], plain: &mut [u8]) -> Result<(), CodecError> {
        let group = self.group_bytes(row_len, packed.len())?;
        if plain.len() != packed.len() {
            return Err(CodecError::Size { ty: self.plain, needed: packed.len(), given: plain.len() });
        }
        for (packed, plain) in packed.chunks_exact(group).zip(plain.chunks_exact_mut(group)) {
            self.take_group_apart(packed, plain);
        }
        Ok(())
    }

    /// Decodes whole groups of rows, as [`Interleaved::take_apart`] followed by the plain type's decoder. The values are in the order of
    /// the plain rows.
    ///
    /// # Errors
    /// As for [`Interleaved::take_apart`].
    pub fn decode(&self, row_len: usize, packed: &[u8], values: &mut [f32]) -> Result<(), CodecError> {
        self.decode_with(Isa::best(), row_len, packed, values)
    }

    /// [`Interleaved::decode`] with a chosen instruction set; the values are the same.
    ///
    /// # Errors
    /// As for [`Interleaved::take_apart`].
    pub fn decode_with(&self, isa: Isa, row_len: usize, packed: &[u8], values: &mut [f32]) -> Result<(), CodecError> {
        let group = self.group_bytes(row_len, packed.len())?;
        let needed = values.len() / PLAIN_LEN * PLAIN_BYTES;
        if !values.len().is_multiple_of(PLAIN_LEN) || packed.len() != needed {
            return Err(CodecError::Size { ty: self.ty, needed, given: packed.len() });
        }
        let codec = codec(self.plain).ok_or(CodecError::Size { ty: self.plain, needed: 0, given: packed.len() })?;
        let mut plain = vec![0; group];
        let values = values.chunks_exact_mut(self.n_rows * row_len);
        for (packed, values) in packed.chunks_exact(group).zip(values) {
            self.take_group_apart(packed, &mut plain);
            codec.decode_with(isa, &plain, values)?;
        }
        Ok(())
    }

    /// Bytes of a group of rows; not zero.
    fn group_bytes(&self, row_len: usize, bytes: usize) -> Result<usize, CodecError> {
        if row_len == 0 || !row_len.is_multiple_of(PLAIN_LEN) {
            return Err(CodecError::PartialBlock { ty: self.ty, row_len });
        }
        (row_len / PLAIN_LEN)
            .checked_mul(self.n_rows * PLAIN_BYTES)
            .filter(|&group| bytes.is_multiple_of(group))
            .ok_or(CodecError::Size { ty: self.ty, needed: 0, given: bytes })
    }

    fn take_group_apart(&self, packed: &[u8], plain: &mut [u8]) {
        let row_bytes = plain.len() / self.n_rows;
        for (i, block) in packed.chunks_exact(self.n_rows * PLAIN_BYTES).enumerate() {
            let (scales, levels) = block.split_at(2 * self.n_rows);
            for row in 0..self.n_rows {
                let at = row * row_bytes + i * PLAIN_BYTES;
                let out = &mut plain[at..at + PLAIN_BYTES];
                out[..2].copy_from_slice(&scales[2 * row..2 * row + 2]);
                for run in 0..LEVELS / self.run {
                    let from = (run * self.n_rows + row) * self.run;
                    let out = &mut out[2 + run * self.run..][..self.run];
                    for (out, byte) in out.iter_mut().zip(&levels[from..from + self.run]) {
                        *out = byte ^ self.turned;
                    }
                }
            }
        }
    }
}
