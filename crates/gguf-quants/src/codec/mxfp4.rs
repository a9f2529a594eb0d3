//! MXFP4: 32 values in 17 bytes, 4.25 bits per weight; the OCP microscaling format with a power-of-two scale.
//!
//! ```text
//! 0   1                                17
//! | e | levels, 4 bits each, 16        |
//!       byte i: value i in the low half, value 16 + i in the high half
//! ```
//!
//! The scale is 2 to the power e - 128: half of the format's scale, because the levels are twice its numbers (see `fp4`).
//!
//! Rules: `block_mxfp4` in `ggml-common.h`; `quantize_row_mxfp4_ref` and `dequantize_row_mxfp4` in `ggml-quants.c`;
//! `ggml_e8m0_to_fp32_half` in `ggml-impl.h`. An importance matrix is ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks::{self, INFINITY};
use super::fp4;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Tile;

const LEN: usize = 32;
const BYTES: usize = 17;

/// The scale of an exponent byte (`ggml_e8m0_to_fp32_half`).
fn scale(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

/// MXFP4.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = scale(block[0]);
        for (i, value) in values.iter_mut().enumerate() {
            let level = block[1 + i % 16] >> (4 * (i / 16)) & 15;
            *value = fp4::LEVELS[usize::from(level)] * d;
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let table = lanes.table16(&fp4::LEVELS);
        let (e, levels) = block.split_first().unwrap();
        let d = lanes.splat(scale(*e));
        for i in (0..16).step_by(L::N) {
            let byte = lanes.load_u8(&levels[i..]);
            (lanes.lookup16(table, byte) * d).store(&mut values[i..]);
            (lanes.lookup16(table, byte.shr::<4>()) * d).store(&mut values[16 + i..]);
        }
    }
}

/// The number of floats below 2 to the power `p` whose logarithm single precision rounds up to `p`.
///
/// The floats just below a power of two are 2⁻²⁴ of it apart, and their logarithms 2⁻²⁴ / ln 2. Just below `p`, logarithms are rounded to
/// multiples of 2 to the power `k - 23`, where `k` is the exponent there: those up to half of that away become `p`, which are `ln 2 * 2^k`
/// floats, rounded down. Denormal numbers are farther apart. (The C library's `log2f` agrees for every exponent, as does a correctly
/// rounded logarithm.)
const fn rounded_up(p: i32) -> u32 {
    // 0 and its neighbours: the logarithms below are so fine that none is rounded up.
    let below = if p > 0 { p - 1 } else { -p };
    if below == 0 {
        return 0;
    }
    let apart = if p < -125 { (-125 - p) as u32 } else { 0 };
    (LN_2_128 << below.ilog2() >> 7) >> apart
}

/// 128 ln 2 = 88.72, rounded down.
const LN_2_128: u32 = 88;

/// The bits of 2 to the power `p`, or of infinity.
const fn power_of_two(p: i32) -> u32 {
    if p < -126 { 1 << (p + 149) } else { ((p + 127) as u32) << 23 }
}

/// The floor of the logarithm of a positive number, as computed by `floorf(log2f(x))`.
fn log2_floor(x: f32) -> i32 {
    let bits = x.to_bits();
    let p = if bits >> 23 == 0 { bits.ilog2() as i32 - 149 } else { (bits >> 23) as i32 - 127 } + 1;
    if bits >= power_of_two(p) - rounded_up(p) { p } else { p - 1 }
}

/// The exponent byte for a block (`(uint8_t)(floorf(log2f(amax)) - 2 + 127)`): numbers below 2⁻¹²⁵ wrap to 255 and less, and infinity,
/// which does not fit an integer, becomes 0.
fn exponent(largest: f32) -> u8 {
    if largest > 0.0 && largest < f32::INFINITY { (log2_floor(largest) - 2 + 127) as u8 } else { 0 }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let e = exponent(blocks::largest_number(x));
    let d = scale(e);
    let mut out = [0; BYTES];
    out[0] = e;
    for (i, x) in x.iter().enumerate() {
        out[1 + i % 16] |= fp4::best_index(*x, d) << (4 * (i / 16));
    }
    out
}

/// For each exponent of single precision, the smallest bits whose logarithm is rounded up to the next exponent.
const ROUNDS_UP: [i32; 256] = {
    let mut from = [INFINITY; 256];
    let mut e = 1;
    while e < 254 {
        from[e] = (power_of_two(e as i32 - 126) - rounded_up(e as i32 - 126)) as i32;
        e += 1;
    }
    from
};

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let middles = fp4::middles(lanes, lanes.splat(1.0));
        let largest = blocks::largest(lanes, tile.blocks);

        // The largest is 2^(exponent - 127) times a fraction; e is 2 less than the integer part of its logarithm, plus 127.
        let zero = lanes.splat_i(0);
        let exponent = largest.shr::<23>();
        let up = lanes.gather_i(&ROUNDS_UP, exponent).gt(largest).select_i(zero, lanes.splat_i(1));
        let e = exponent + up - lanes.splat_i(2);
        // The blocks for which e and the inverse scale, 2^(128 - e), are normal numbers, and the blocks of zeros.
        let empty = largest.equal(zero);
        let valid = (e.gt(zero) & lanes.splat_i(252).gt(e)) | empty;
        let e = empty.select_i(zero, e);
        let inverse = empty.select_i(zero, (lanes.splat_i(255) - e).shl::<23>()).as_f();
        let (mut exponents, mut inverses) = ([0; MAX_LANES], [0.0; MAX_LANES]);
        e.store(&mut exponents);
        inverse.store(&mut inverses);

        for (i, out) in out.iter_mut().enumerate() {
            let x = &tile.blocks[i];
            let (e, levels) = out.split_first_mut().unwrap();
            *e = exponents[i] as u8;
            // Division by a power of two is exact, or underflows without effect.
            let inverse = lanes.splat(inverses[i]);
            for j in (0..16).step_by(L::N) {
                let low = fp4::index(lanes, lanes.load(&x[j..]) * inverse, &middles);
                let high = fp4::index(lanes, lanes.load(&x[16 + j..]) * inverse, &middles);
                (low | high.shl::<4>()).store_u8(&mut levels[j..]);
            }
        }
        valid.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exponent of every number near a power of two equals that of its logarithm, computed in double precision and rounded once.
    #[test]
    fn logarithms_are_rounded_before_they_are_cut() {
        for p in -148..=128 {
            let power = power_of_two(p);
            for bits in power.saturating_sub(100).max(1)..(power + 3).min(0x7f80_0000) {
                let x = f32::from_bits(bits);
                assert_eq!(log2_floor(x), (f64::from(x).log2() as f32).floor() as i32, "{p} {bits:#x}");
            }
        }
        assert_eq!((exponent(0.0), exponent(f32::INFINITY), exponent(f32::MAX)), (0, 0, 253));
        assert_eq!((exponent(2f32.powi(-125)), exponent(2f32.powi(-126)), exponent(f32::from_bits(1))), (0, 255, 232));
    }

    /// The table agrees with the rule.
    #[test]
    fn the_table_holds_the_first_numbers_that_are_rounded_up() {
        for (e, first) in (0..).zip(ROUNDS_UP).skip(1).take(253) {
            assert_eq!(log2_floor(f32::from_bits(first as u32)), e - 126);
            assert_eq!(log2_floor(f32::from_bits(first as u32 - 1)), e - 127);
        }
    }
}
