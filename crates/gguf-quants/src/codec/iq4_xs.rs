//! IQ4_XS: 256 values in 136 bytes, 4.25 bits per weight; eight groups of 32 with a 6-bit scale each, and levels that select from sixteen
//! uneven values.
//!
//! ```text
//! 0      2            4            8                        136
//! | d    | scales, 2  | scales, 4  | levels, 4 bits each, 128 |
//!   f16    high 2 bits  low 4 bits   sixteen bytes a group, see iq4
//!
//! scale = d * (six bits - 32)
//! ```
//!
//! Rules: `block_iq4_xs` in `ggml-common.h`; `dequantize_row_iq4_xs` and `quantize_iq4_xs` in `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::iq4::{self, GROUP, Nearest};
use super::words::put;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Tile;
use crate::search::{ROUND, nearest_int};

/// Values in a super-block (`QK_K`).
const LEN: usize = 256;
const GROUPS: usize = LEN / GROUP;
const BYTES: usize = 136;

/// The scale of a group, 6 bits.
#[inline(always)]
fn scale(block: &[u8; BYTES], group: usize) -> i32 {
    let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * group) & 3;
    let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
    i32::from(low) | i32::from(high) << 4
}

/// IQ4_XS.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            let g = i / GROUP;
            let scale = d * (scale(block, g) - 32) as f32;
            *value = scale * iq4::value(&block[8 + 16 * g..], i % GROUP);
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let groups = block[8..].as_chunks::<16>().0.iter().zip(values.as_chunks_mut::<GROUP>().0);
        for (g, (levels, values)) in groups.enumerate() {
            iq4::decode_group(lanes, d * (scale(block, g) - 32) as f32, levels, values);
        }
    }
}

/// One super-block, scalar reference.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> [u8; BYTES] {
    let sigma2 = iq4::sigma2(x);
    let groups = x.as_chunks::<GROUP>().0;
    let mut scales = [0.0; GROUPS];
    let (mut largest, mut max_scale) = (0.0, 0.0);
    for g in 0..GROUPS {
        let weights = iq4::weights(&groups[g], matrix.map(|m| &m.as_chunks::<GROUP>().0[g]), sigma2);
        scales[g] = iq4::fit(&groups[g], &weights);
        if scales[g].abs() > largest {
            (largest, max_scale) = (scales[g].abs(), scales[g]);
        }
    }

    let d = -max_scale / 32.0;
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    let mut levels = [0; GROUPS];
    let mut out = [0; BYTES];
    for g in 0..GROUPS {
        levels[g] = nearest_int(inverse * scales[g]).clamp(-32, 31);
        let scale = d * levels[g] as f32;
        let inverse = if scale != 0.0 { 1.0 / scale } else { 0.0 };
        let packed = iq4::pack(&groups[g].map(|x| iq4::nearest(inverse * x)));
        out[8 + 16 * g..24 + 16 * g].copy_from_slice(&packed);
    }
    put_head(&mut out, d, &levels);
    out
}

fn put_head(out: &mut [u8; BYTES], d: f32, levels: &[i32; GROUPS]) {
    let (mut low, mut high) = (0u32, 0u16);
    for g in 0..GROUPS {
        let level = (levels[g] + 32) as u8;
        low |= u32::from(level & 15) << (4 * g);
        high |= u16::from(level >> 4) << (2 * g);
    }
    out[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    out[2..4].copy_from_slice(&high.to_le_bytes());
    out[4..8].copy_from_slice(&low.to_le_bytes());
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x, weights))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let (values, matrix) = (tile.values(), tile.weights());
        let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
        let near = Nearest::new(lanes);

        let mut sigma2 = zero;
        if tile.has_weights() {
            for g in 0..GROUPS {
                let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
                for i in 0..GROUP {
                    sigma2 = sigma2 + x[i] * x[i];
                }
            }
            sigma2 = sigma2 * lanes.splat(2.0 / LEN as f32);
        }

        let mut scales = [zero; GROUPS];
        let (mut largest, mut max_scale) = (zero, zero);
        let mut valid = !lanes.mask(0);
        for g in 0..GROUPS {
            let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
            let weights = match &matrix {
                Some(matrix) => {
                    iq4::weights_lanes::<L>(&x, Some(&lanes.columns_apart::<LEN, GROUP>(matrix, g)), sigma2)
                }
                None => iq4::weights_lanes::<L>(&x, None, zero),
            };
            let (scale, right) = iq4::fit_lanes(lanes, &near, &x, &weights);
            valid = valid & right;
            scales[g] = scale;
            let larger = scale.abs().gt(largest);
            largest = larger.select(scale.abs(), largest);
            max_scale = larger.select(scale, max_scale);
        }

        let d = -max_scale / lanes.splat(32.0);
        let inverse = d.equal(zero).select(zero, one / d);
        let mut lane_levels = [[0; MAX_LANES]; GROUPS];
        for g in 0..GROUPS {
            // The bits that `nearest_int` uses, for every number.
            let sum = (inverse * scales[g] + lanes.splat(ROUND)).bits();
            let level = (sum & lanes.splat_i(0x007f_ffff)) - lanes.splat_i(0x0040_0000);
            let level = level.min(lanes.splat_i(31)).max(lanes.splat_i(-32));
            level.store(&mut lane_levels[g]);
            let scale = d * level.to_f();
            let inverse = scale.equal(zero).select(zero, one / scale);
            let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
            let packed = iq4::pack_lanes(lanes, &near, inverse, &x);
            put::<L, BYTES, 4>(out, 8 + 16 * g, &packed);
        }

        let mut lane_d = [0.0; MAX_LANES];
        d.store(&mut lane_d);
        for (i, out) in out.iter_mut().enumerate() {
            let mut levels = [0; GROUPS];
            for g in 0..GROUPS {
                levels[g] = lane_levels[g][i];
            }
            put_head(out, lane_d[i], &levels);
        }
        valid.to_bits()
    }
}
