//! NVFP4: 64 values in 36 bytes, 4.5 bits per weight; four groups of 16, each with an 8-bit float as scale.
//!
//! ```text
//! 0            4                                36
//! | scales, 4  | levels, 4 bits each, 32        |
//!   UE4M3        byte 8 g + i: value 16 g + i in the low half,
//!                              value 16 g + 8 + i in the high half
//! ```
//!
//! Scales are halved, because the levels are twice the numbers of the 4-bit float (see `fp4`).
//!
//! Rules: `block_nvfp4` in `ggml-common.h`; `quantize_row_nvfp4_ref` and `dequantize_row_nvfp4` in `ggml-quants.c`; `ggml_fp32_to_ue4m3`
//! and `ggml_ue4m3_to_fp32` in `ggml-impl.h`. An importance matrix is ignored.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::blocks;
use super::fp4;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, trunc};
use crate::rows::Tile;

const LEN: usize = 64;
const BYTES: usize = 36;
const GROUP: usize = 16;
const GROUPS: usize = LEN / GROUP;

/// The largest scale, 448. (The bits for 480 are NaN.)
const LARGEST: i32 = 0x7e;

/// Below this a value is less than 2²⁰ times its group's scale, or the scale is zero.
const ORDINARY: f32 = 134217728.0;

/// Half of the number that a scale encodes (`ggml_ue4m3_to_fp32`): three bits of fraction below four of exponent, the eighth bit ignored;
/// 0x7f, the NaN, is zero.
const fn scale(bits: u8) -> f32 {
    if bits == 0x7f {
        return 0.0;
    }
    let (exponent, fraction) = ((bits >> 3 & 15) as u32, (bits & 7) as u32);
    if exponent == 0 { fraction as f32 / 1024.0 } else { f32::from_bits((exponent + 119) << 23 | fraction << 20) }
}

/// [`scale`] of every byte.
const SCALES: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        scales[bits] = scale(bits as u8);
        bits += 1;
    }
    scales
};

/// The bits of a scale (`ggml_fp32_to_ue4m3`): rounded to nearest, ties up; numbers that round to 256 or more become 448. Below 2⁻⁶ they
/// are multiples of 2⁻⁹, up to 7 of them.
fn scale_bits(x: f32) -> u8 {
    if x.is_nan() || x <= 0.0 {
        return 0;
    }
    if x < 1.0 / 64.0 {
        return trunc(x * 512.0 + 0.5).min(7) as u8;
    }
    let rounded = (x.to_bits() as i32 - (120 << 23) + (1 << 19)) >> 20;
    if rounded >= 0x78 { LARGEST as u8 } else { rounded as u8 }
}

/// NVFP4.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        for (i, value) in values.iter_mut().enumerate() {
            let (group, at) = (i / GROUP, i % GROUP);
            let level = block[4 + 8 * group + at % 8] >> (4 * (at / 8)) & 15;
            *value = fp4::LEVELS[usize::from(level)] * scale(block[group]);
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let table = lanes.table16(&fp4::LEVELS);
        let (scales, levels) = block.split_first_chunk::<4>().unwrap();
        for group in 0..GROUPS {
            let d = lanes.splat(SCALES[usize::from(scales[group])]);
            let values = &mut values.as_chunks_mut::<GROUP>().0[group];
            // Both halves of eight bytes side by side, so that a vector may be as long as the group.
            let word = u64::from_le_bytes(levels.as_chunks().0[group]);
            let mut bytes = [0; GROUP];
            bytes[..8].copy_from_slice(&word.to_le_bytes());
            bytes[8..].copy_from_slice(&(word >> 4).to_le_bytes());
            for i in (0..GROUP).step_by(L::N) {
                (lanes.lookup16(table, lanes.load_u8(&bytes[i..])) * d).store(&mut values[i..]);
            }
        }
    }
}

#[inline(never)]
fn reference(x: &[f32; LEN]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    for (group, x) in x.as_chunks::<GROUP>().0.iter().enumerate() {
        out[group] = scale_bits(blocks::largest_number(x) / 6.0);
        let d = scale(out[group]);
        for (i, x) in x.iter().enumerate() {
            out[4 + 8 * group + i % 8] |= fp4::best_index(*x, d) << (4 * (i / 8));
        }
    }
    out
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let magnitude = lanes.splat_i(i32::MAX);
        let at_once = L::N / GROUPS;
        let mut valid = 0;
        // A lane holds a group, so one vector of scales serves all columns; a tile takes as many passes as a block has groups.
        for (turn, out) in out.chunks_mut(at_once).enumerate() {
            let all = tile.blocks[turn * at_once..].as_flattened().as_chunks::<GROUP>().0;
            let mut groups = [&all[0]; MAX_LANES];
            for lane in 0..L::N {
                groups[lane] = &all[lane];
            }
            let x = lanes.columns(&groups);
            let mut largest = lanes.splat_i(0);
            for x in &x {
                largest = largest.max(x.bits() & magnitude);
            }
            // Far above the largest scale, differences are rounded, and several levels are equally near.
            let right = largest.as_f().lt(lanes.splat(ORDINARY)).to_bits();

            let target = largest.as_f() / lanes.splat(6.0);
            let small = (target * lanes.splat(512.0) + lanes.splat(0.5)).trunc().min(lanes.splat_i(7));
            let rounded = (target.bits() - lanes.splat_i((120 << 23) - (1 << 19))).sar::<20>();
            let rounded = rounded.gt(lanes.splat_i(0x77)).select_i(lanes.splat_i(LARGEST), rounded);
            let is_small = target.lt(lanes.splat(1.0 / 64.0));
            let bits = is_small.select_i(small, rounded);
            let d_small = bits.to_f() * lanes.splat(1.0 / 1024.0);
            let d = is_small.select(d_small, (bits.shl::<20>() + lanes.splat_i(119 << 23)).as_f());
            // With a scale of zero every level is infinite, and no value is above infinity.
            let zero = bits.equal(lanes.splat_i(0));
            let middles = fp4::middles(lanes, zero.select(lanes.splat(f32::INFINITY), d));

            let mut scales = [0u8; MAX_LANES];
            bits.store_u8(&mut scales);
            let mut words = [[0i32; MAX_LANES]; 2];
            for w in 0..2 {
                let mut word = lanes.splat_i(0);
                for j in 0..4 {
                    let low = fp4::index(lanes, x[4 * w + j], &middles);
                    let high = fp4::index(lanes, x[8 + 4 * w + j], &middles);
                    word = word.shr::<8>() | (low | high.shl::<4>()).shl::<24>();
                }
                word.store(&mut words[w]);
            }
            for (i, out) in out.iter_mut().enumerate() {
                for group in 0..GROUPS {
                    let lane = GROUPS * i + group;
                    out[group] = scales[lane];
                    let levels = &mut out[4..].as_chunks_mut::<8>().0[group];
                    levels[..4].copy_from_slice(&words[0][lane].to_le_bytes());
                    levels[4..].copy_from_slice(&words[1][lane].to_le_bytes());
                }
                valid |= u32::from(right >> (GROUPS * i) & 15 == 15) << (turn * at_once + i);
            }
        }
        valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_rounded_to_the_nearest_and_up_in_the_middle() {
        // Every scale round-trips, except those above 240: 256 and more become 448.
        for bits in 0..0x7fu8 {
            let expected = if bits < 0x78 { bits } else { 0x7e };
            assert_eq!(scale_bits(2.0 * scale(bits)), expected, "{bits:#x}");
        }
        for bits in 8..0x77u8 {
            let middle = scale(bits) + scale(bits + 1);
            assert_eq!(scale_bits(middle), bits + 1);
            assert_eq!(scale_bits(f32::from_bits(middle.to_bits() - 1)), bits);
        }
        let cases =
            [(0.0, 0), (-1.0, 0), (f32::NAN, 0), (0.0009, 0), (0.001, 1), (0.0156, 7), (247.9, 0x77), (248.0, 0x7e)];
        for (x, bits) in cases {
            assert_eq!(scale_bits(x), bits, "{x}");
        }
        assert_eq!(scale_bits(f32::INFINITY), 0x7e);
        assert_eq!(
            [scale(0), scale(1), scale(0x38), scale(0x7e), scale(0x7f), scale(0xff)],
            [0.0, 1.0 / 1024.0, 0.5, 224.0, 0.0, 240.0]
        );
    }
}
