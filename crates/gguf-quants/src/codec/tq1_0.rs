//! TQ1_0: 256 values in 54 bytes, 1.69 bits per weight; a scale and the levels -1, 0 and 1, five to a byte.
//!
//! ```text
//! 0                  32                 48               52     54
//! | five each, 32    | five each, 16    | four each, 4   | d    |
//!   byte i: values     byte i: values     byte i: values   f16
//!   i + 32 n           160 + i + 16 n     240 + i + 4 n
//! ```
//!
//! The levels, plus 1, are the digits of a number in base 3, the first one highest, with a zero after the fourth if there are only four.
//! The byte is that number over 243 as a fraction of 256, rounded up; repeated multiplication of the byte by 3 yields the digits as
//! overflow.
//!
//! Rules: `block_tq1_0` in `ggml-common.h`; `quantize_row_tq1_0_ref` and `dequantize_row_tq1_0` in `ggml-quants.c`. An importance matrix is
//! ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks::{self, Scales};
use super::tq2_0::lround;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes};
use crate::rows::Tile;

const LEN: usize = 256;
const BYTES: usize = 54;
const TOP: f32 = 1.0;

/// Runs of bytes: the first byte, the number of bytes, the first value, and the number of digits of each byte.
const RUNS: [(usize, usize, usize, usize); 3] = [(0, 32, 0, 5), (32, 16, 160, 5), (48, 4, 240, 4)];

/// TQ1_0.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[52], block[53]]));
        for (at, n_bytes, first, digits) in RUNS {
            for i in 0..n_bytes {
                let mut byte = block[at + i];
                for n in 0..digits {
                    let product = 3 * u16::from(byte);
                    values[first + i + n_bytes * n] = (f32::from(product >> 8) - 1.0) * d;
                    byte = product as u8;
                }
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[52], block[53]]));
        let table = lanes.table4(&blocks::ternary(d));
        for (at, n_bytes, first) in [(0, 32, 0), (32, 16, 160)] {
            for i in (0..n_bytes).step_by(L::N) {
                let mut byte = lanes.load_u8(&block[at + i..]);
                for n in 0..5 {
                    let product = byte + byte + byte;
                    lanes.lookup4(table, product.shr::<8>()).store(&mut values[first + i + n_bytes * n..]);
                    byte = product & lanes.splat_i(255);
                }
            }
        }
        // The last bytes do not fill a vector, but their digits do.
        let mut digits = [0; 16];
        let mut byte = [block[48], block[49], block[50], block[51]];
        for n in 0..4 {
            for i in 0..4 {
                let product = 3 * u16::from(byte[i]);
                digits[i + 4 * n] = (product >> 8) as u8;
                byte[i] = product as u8;
            }
        }
        for i in (0..16).step_by(L::N) {
            lanes.lookup4(table, lanes.load_u8(&digits[i..])).store(&mut values[240 + i..]);
        }
    }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let (d, inverse) = blocks::scale(blocks::largest_or_last(x), TOP);
    let mut out = [0; BYTES];
    out[52..].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    for (at, n_bytes, first, digits) in RUNS {
        for i in 0..n_bytes {
            let mut number = 0u8;
            for n in 0..digits {
                let level = lround(x[first + i + n_bytes * n] * inverse).wrapping_add(1);
                number = number.wrapping_mul(3).wrapping_add(level as u8);
            }
            if digits == 4 {
                number = number.wrapping_mul(3);
            }
            out[at + i] = (256 * u32::from(number)).div_ceil(243) as u8;
        }
    }
    out
}

/// `256 n / 243`, rounded up, for `n` up to 255: `n` itself, and `13 n / 243`.
#[inline(always)]
fn fraction<L: Lanes>(lanes: L, number: L::I) -> L::I {
    let n13 = number + number.shl::<2>() + number.shl::<3>();
    number + ((n13 + lanes.splat_i(242)) * lanes.splat_i(4316)).shr::<20>()
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let one = lanes.splat_i(1);
        let scales = Scales::new(lanes, blocks::largest(lanes, tile.blocks), TOP);
        for (i, out) in out.iter_mut().enumerate() {
            let x = &tile.blocks[i];
            let inverse = lanes.splat(scales.inverse[i]);
            for (at, n_bytes, first) in [(0, 32, 0), (32, 16, 160)] {
                for j in (0..n_bytes).step_by(L::N) {
                    let mut number = lanes.splat_i(0);
                    for n in 0..5 {
                        let level = blocks::round(lanes, lanes.load(&x[first + j + n_bytes * n..]) * inverse) + one;
                        number = number + number + number + level;
                    }
                    fraction(lanes, number).store_u8(&mut out[at + j..]);
                }
            }
            let mut levels = [0; 16];
            for j in (0..16).step_by(L::N) {
                let level = blocks::round(lanes, lanes.load(&x[240 + j..]) * inverse) + one;
                level.store_u8(&mut levels[j..]);
            }
            for j in 0..4 {
                let [a, b, c, d] = [levels[j], levels[4 + j], levels[8 + j], levels[12 + j]].map(u32::from);
                out[48 + j] = (256 * (81 * a + 27 * b + 9 * c + 3 * d)).div_ceil(243) as u8;
            }
            out[52..].copy_from_slice(&scales.half[i].to_le_bytes());
        }
        scales.valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Isa, Kernel};
    use crate::lanes::MAX_LANES;
    use crate::lanes::arrays::Arrays;

    struct Fractions;
    impl Kernel for Fractions {
        type Output = Vec<u8>;
        fn plain(self) -> Vec<u8> {
            self.run(Arrays)
        }
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<u8> {
            let mut out = Vec::new();
            for number in 0..256 {
                let mut bytes = [0; MAX_LANES];
                fraction(lanes, lanes.splat_i(number)).store_u8(&mut bytes);
                out.push(bytes[0]);
            }
            out
        }
    }

    /// Every number that a byte encodes, and each of its digits.
    #[test]
    fn numbers_become_fractions_and_digits_again() {
        let expected: Vec<u8> = (0..256u32).map(|n| (256 * n).div_ceil(243) as u8).collect();
        for isa in Isa::available() {
            assert_eq!(isa.run(Fractions), expected, "{isa}");
        }
        for number in 0..243u32 {
            let mut byte = expected[number as usize];
            for n in 0..5 {
                let product = 3 * u16::from(byte);
                assert_eq!(u32::from(product >> 8), number / 3u32.pow(4 - n) % 3, "digit {n} of {number}");
                byte = product as u8;
            }
        }
    }
}
