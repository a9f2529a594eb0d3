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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that differ from their neighbours.
    fn bytes(n: usize) -> Vec<u8> {
        (0..n as u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect()
    }

    /// Interleaves rows, byte for byte as `make_block_q4_0x4` and its variants.
    fn interleave(t: &Interleaved, row_len: usize, plain: &[u8]) -> Vec<u8> {
        let blocks = row_len / 32;
        let mut out = Vec::new();
        for group in plain.chunks(t.n_rows * blocks * 18) {
            for b in 0..blocks {
                let block = |row: usize| &group[(row * blocks + b) * 18..][..18];
                for row in 0..t.n_rows {
                    out.extend(&block(row)[..2]);
                }
                for i in 0..16 * t.n_rows {
                    let (piece, at) = (i / t.run, i % t.run);
                    let (row, offset) = (piece % t.n_rows, piece / t.n_rows * t.run);
                    out.push(block(row)[2 + offset + at] ^ t.turned);
                }
            }
        }
        out
    }

    #[test]
    fn what_was_interleaved_is_taken_apart() {
        for t in INTERLEAVED {
            for (row_len, rows) in [(32, t.n_rows), (96, t.n_rows), (64, 3 * t.n_rows), (256, 0)] {
                let plain = bytes(row_len / 32 * 18 * rows);
                let packed = interleave(t, row_len, &plain);
                let mut back = vec![0; plain.len()];
                assert_eq!(t.take_apart(row_len, &packed, &mut back), Ok(()));
                assert!(back == plain, "{} {row_len} {rows}", t.ty);
            }
        }
    }

    /// Eight rows of one block, as repacked by ggml's CPU backend from `bytes(144)` (libggml-cpu for Haswell, `q4_0_8x8` and `iq4_nl_8x8`).
    #[test]
    fn eight_rows_as_ggml_interleaves_them() {
        let q4_0 = "00bb34f068249d59d18d06c23af66f2affbb6723eeaa561224efab5713df9a466814d09b4703cf8b9c5804c08c37f3bf\
             c18d49f4b07c38e4f5b17d39e5a06c283ae6a16d29d5915c6e2ad6925d19c581de994501cd8934f002ce8a35f1bd7925\
             36f2be7a26e1ad697b27e2ae6a16d29eaf6b17d39f5a06c2d4905b07c38f4bf618c4804cf7b37f3b4d08b4703cf8a46f";
        let iq4_nl = "00bb34f068249d59d18d06c23af66f2a7733efab6622de9aac6723df9b5712cee09c5813cf8b470314d08c4804bf7b37\
             4905c17c38f4b06c7d39f5b16d28e4a0b26e29e5a15d19d4e6a25e1ad5914d095611cd894501bc788a4602bd7935f1ad\
             be7a36f2ae6925e1f3af6a26e29e5a1627e39f5b17d28e4a5c18d38f4b07c37e904c08c47f3bf7b3c5803cf8b4702ce7";
        for (ty, packed) in [(GgmlType::Q4_0_8_8, q4_0), (GgmlType::IQ4_NL_8_8, iq4_nl)] {
            let digits = |i| u8::from_str_radix(&packed[2 * i..2 * i + 2], 16).unwrap();
            let packed: Vec<u8> = (0..packed.len() / 2).map(digits).collect();
            let mut plain = vec![0; packed.len()];
            interleaved(ty).unwrap().take_apart(32, &packed, &mut plain).unwrap();
            assert_eq!(plain, bytes(144), "{ty}");
        }
    }

    #[test]
    fn a_group_of_rows_by_hand() {
        // Four rows of one block; the value of a byte encodes its row (high half) and its position.
        let plain: Vec<u8> =
            (0..4).flat_map(|row| [row, 0xd0].into_iter().chain((0..16).map(move |i| row << 4 | i))).collect();
        let packed: Vec<u8> = [0, 0xd0, 1, 0xd0, 2, 0xd0, 3, 0xd0]
            .into_iter()
            .chain((0..4).flat_map(|run| (0..4).flat_map(move |row| (0..4).map(move |i| row << 4 | (4 * run + i)))))
            .collect();
        let mut back = [0; 72];
        interleaved(GgmlType::IQ4_NL_4_4).unwrap().take_apart(32, &packed, &mut back).unwrap();
        assert_eq!(back, plain[..]);
        interleaved(GgmlType::Q4_0_4_4).unwrap().take_apart(32, &packed, &mut back).unwrap();
        assert_eq!((back[0], back[1], back[2], back[17]), (0, 0xd0, 0x88, 0x87));
    }

    #[test]
    fn interleaved_rows_decode_as_the_plain_ones() {
        for t in INTERLEAVED {
            let (row_len, rows) = (96, 2 * t.n_rows);
            let mut plain = bytes(row_len / 32 * 18 * rows);
            plain.chunks_mut(18).for_each(|b| b[1] &= 0x3f);
            let mut expected = vec![0.0; row_len * rows];
            codec(t.plain).unwrap().decode_with(Isa::Scalar, &plain, &mut expected).unwrap();
            for isa in Isa::available() {
                let mut values = vec![1.0; row_len * rows];
                t.decode_with(isa, row_len, &interleave(t, row_len, &plain), &mut values).unwrap();
                assert!(values == expected, "{} {isa}", t.ty);
            }
        }
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let t = interleaved(GgmlType::Q4_0_8_8).unwrap();
        let mut out = vec![0; 8 * 18 * 3];
        let partial = |row_len| Err(CodecError::PartialBlock { ty: t.ty, row_len });
        let size = |ty, needed, given| Err(CodecError::Size { ty, needed, given });
        assert_eq!(t.take_apart(0, &[], &mut []), partial(0));
        assert_eq!(t.take_apart(33, &[0; 144], &mut out[..144]), partial(33));
        assert_eq!(t.take_apart(32, &[0; 145], &mut out[..145]), size(t.ty, 0, 145));
        assert_eq!(t.take_apart(64, &[0; 144], &mut out[..144]), size(t.ty, 0, 144));
        assert_eq!(t.take_apart(32, &[0; 144], &mut out[..143]), size(t.plain, 144, 143));
        assert_eq!(t.take_apart(usize::MAX - 31, &[0; 144], &mut out[..144]), size(t.ty, 0, 144));
        assert_eq!(t.decode_with(Isa::Scalar, 32, &[0; 144], &mut [0.0; 32 * 7]), size(t.ty, 126, 144));
        assert_eq!(interleaved(GgmlType::Q4_0), None);
    }

    #[test]
    fn neighbours_share_a_byte() {
        let mut q4_2 = [0x00, 0x3c, 0x80, 0xf7, 0, 0, 0, 0, 0, 0x1f].to_vec();
        let mut q4_3 = [0x00, 0x40, 0x00, 0xbc, 0x10, 0xf2, 0, 0, 0, 0, 0, 0x1f].to_vec();
        (q4_2, q4_3) = (q4_2.repeat(3), q4_3.repeat(3));
        for isa in Isa::available() {
            let mut values = [9.0; 48];
            codec(GgmlType::Q4_2).unwrap().decode_with(isa, &q4_2, &mut values).unwrap();
            assert_eq!((&values[16..20], &values[30..32]), (&[-8.0, 0.0, -1.0, 7.0][..], &[7.0, -7.0][..]));
            codec(GgmlType::Q4_3).unwrap().decode_with(isa, &q4_3, &mut values).unwrap();
            assert_eq!((&values[16..20], &values[30..32]), (&[-1.0, 1.0, 3.0, 29.0][..], &[29.0, 1.0][..]));
        }
    }
}
