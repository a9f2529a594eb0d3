//! Q2_K: 256 values in 84 bytes, 2.625 bits per weight; sixteen groups of 16 with a scale and a minimum each.
//!
//! ```text
//! 0               16                        80     82     84
//! | scales, 16    | levels, 2 bits each, 64 | d    | dmin |
//!   scale in the    byte 32 h + i: values     f16    f16
//!   low half,       128 h + i, + 32, + 64 and + 96, from the lowest bits up
//!   minimum above
//!
//! value = d * scale[group] * level - dmin * min[group]
//! ```
//!
//! Rules: `block_q2_K` in `ggml-common.h`; `dequantize_row_q2_K`, `quantize_row_q2_K_ref` (without a matrix) and
//! `quantize_row_q2_K_impl` (with one) in `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::sixteen::{self, GROUP, GROUPS, LEN, WORDS};
use super::words::put;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, Masks, to_half};
use crate::rows::Tile;
use crate::search::{
    Fit, MinSearch, fit_min, fit_min_lanes, fit_positive, fit_positive_lanes, level, nearest_int, roundable,
};

const BYTES: usize = 84;
const TOP: i32 = 3;
const SCALE_TOP: i32 = 15;

const PLAIN: MinSearch = MinSearch { levels: TOP, first: -0.5, step: 0.1, last: 15, absolute: true };
const WEIGHTED: MinSearch = MinSearch { levels: TOP, first: -0.9, step: 0.05, last: 36, absolute: false };

/// Q2_K.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[80], block[81]]));
        let dmin = f16_to_f32_ggml(u16::from_le_bytes([block[82], block[83]]));
        for (g, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let (d, min) = (d * f32::from(block[g] & 15), dmin * f32::from(block[g] >> 4));
            let (half, run, odd) = (g / 8, g / 2, g % 2 * 16);
            let levels: &[u8; 16] = block[16 + 32 * half + odd..].first_chunk().unwrap();
            for i in 0..GROUP {
                values[i] = d * f32::from(levels[i] >> (2 * (run % 4)) & 3) - min;
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (scales, rest) = block.split_first_chunk::<GROUPS>().unwrap();
        let (levels, rest) = rest.split_first_chunk::<64>().unwrap();
        let d = lanes.half(u16::from_le_bytes([rest[0], rest[1]]));
        let dmin = lanes.half(u16::from_le_bytes([rest[2], rest[3]]));
        let (mut ds, mut mins) = ([0.0; GROUPS], [0.0; GROUPS]);
        for g in 0..GROUPS {
            ds[g] = d * f32::from(scales[g] & 15);
            mins[g] = dmin * f32::from(scales[g] >> 4);
        }
        for h in 0..2 {
            let levels = &levels.as_chunks::<32>().0[h];
            let values = &mut values.as_chunks_mut::<128>().0[h];
            for i in (0..32).step_by(L::N) {
                let mut bytes = lanes.load_u8(&levels[i..]);
                for run in 0..4 {
                    let g = 8 * h + 2 * run + i / GROUP;
                    let level = (bytes & lanes.splat_i(3)).to_f();
                    (lanes.splat(ds[g]) * level - lanes.splat(mins[g])).store(&mut values[32 * run + i..]);
                    bytes = bytes.shr::<2>();
                }
            }
        }
    }
}

/// One block, scalar reference.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> [u8; BYTES] {
    let mut levels = [0; LEN];
    let mut fits = [Fit { scale: 0.0, min: 0.0 }; GROUPS];
    let mut packed = [0; GROUPS];
    let (d, dmin);
    match matrix {
        None => {
            for (g, levels) in levels.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                let x: &[f32; GROUP] = x[g * GROUP..].first_chunk().unwrap();
                fits[g] = fit_min(PLAIN, x, &x.map(f32::abs), levels);
            }
            let (mut max_scale, mut max_min) = (0.0, 0.0);
            for fit in &fits {
                max_scale = if fit.scale > max_scale { fit.scale } else { max_scale };
                max_min = if fit.min > max_min { fit.min } else { max_min };
            }
            // A negative scale, which occurs in odd groups, wraps and overflows into the minimum.
            if max_scale > 0.0 {
                let iscale = SCALE_TOP as f32 / max_scale;
                packed = fits.map(|fit| nearest_int(iscale * fit.scale) as u8);
            }
            if max_min > 0.0 {
                let iscale = SCALE_TOP as f32 / max_min;
                for g in 0..GROUPS {
                    packed[g] |= (nearest_int(iscale * fits[g].min) << 4) as u8;
                }
            }
            d = max_scale / SCALE_TOP as f32;
            dmin = max_min / SCALE_TOP as f32;
        }
        Some(matrix) => {
            let mut sum_x2 = 0.0;
            for x in x {
                sum_x2 += x * x;
            }
            let sigma2 = sum_x2 / LEN as f32;
            let mut sum_w = [0.0; GROUPS];
            for (g, levels) in levels.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                let x = &x[g * GROUP..][..GROUP];
                let mut weights = [0.0; GROUP];
                for i in 0..GROUP {
                    weights[i] = matrix[g * GROUP + i] * (sigma2 + x[i] * x[i]).sqrt();
                    sum_w[g] += weights[i];
                }
                fits[g] = fit_min(WEIGHTED, x, &weights, levels);
            }
            let mut mins = [0; GROUPS];
            d = fit_positive(SCALE_TOP, &fits.map(|fit| fit.scale), &sum_w, &mut packed);
            dmin = fit_positive(SCALE_TOP, &fits.map(|fit| fit.min), &sum_w, &mut mins);
            for g in 0..GROUPS {
                packed[g] |= mins[g] << 4;
            }
        }
    }
    let (d, dmin) = (f32_to_f16_ggml(d), f32_to_f16_ggml(dmin));
    for (g, levels) in levels.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let d = f16_to_f32_ggml(d) * f32::from(packed[g] & 15);
        if d == 0.0 {
            continue;
        }
        let min = f16_to_f32_ggml(dmin) * f32::from(packed[g] >> 4);
        for (level, x) in levels.iter_mut().zip(&x[g * GROUP..]) {
            // The order matters: of two NaNs the first is kept, and its bits become the level.
            *level = nearest_int((min + x) / d).clamp(0, TOP) as u8;
        }
    }

    let mut out = [0; BYTES];
    out[..16].copy_from_slice(&packed);
    for (i, &l) in levels.iter().enumerate() {
        let (run, i) = (i / 32, i % 32);
        out[16 + run / 4 * 32 + i] |= l << (2 * (run % 4));
    }
    out[80..82].copy_from_slice(&d.to_le_bytes());
    out[82..].copy_from_slice(&dmin.to_le_bytes());
    out
}

#[derive(Clone, Copy)]
struct GroupFit<L: Lanes> {
    iscale: L::F,
    level_min: L::F,
}

impl EncodeBlock<LEN, BYTES> for Block {
    const PAIRS: Pairs = Pairs::Always;

    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x, weights))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let (values, matrix) = (tile.values(), tile.weights());
        let zero = lanes.splat(0.0);
        let scale_top = lanes.splat(SCALE_TOP as f32);

        let mut groups = [GroupFit::<L> { iscale: zero, level_min: zero }; GROUPS];
        let (mut scales, mut mins, mut sum_w) = ([zero; GROUPS], [zero; GROUPS], [zero; GROUPS]);
        let mut valid = !lanes.mask(0);
        let mut sigma2 = zero;
        if tile.has_weights() {
            sigma2 = sixteen::sum_of_squares(lanes, tile) / lanes.splat(LEN as f32);
        }
        for g in 0..GROUPS {
            let x = sixteen::columns(lanes, &values, g);
            let mut weights = [zero; GROUP];
            match &matrix {
                Some(matrix) => {
                    let q = sixteen::columns(lanes, matrix, g);
                    for i in 0..GROUP {
                        weights[i] = q[i] * (sigma2 + x[i] * x[i]).sqrt();
                        sum_w[g] = sum_w[g] + weights[i];
                    }
                }
                None => {
                    for i in 0..GROUP {
                        weights[i] = x[i].abs();
                    }
                }
            }
            let search = if tile.has_weights() { WEIGHTED } else { PLAIN };
            let fit = fit_min_lanes(lanes, search, &x, &weights);
            valid = valid & fit.valid & fit.scale.ge(zero) & fit.min.ge(zero);
            (scales[g], mins[g]) = (fit.scale, fit.min);
            groups[g] = GroupFit { iscale: fit.iscale, level_min: fit.level_min };
        }

        let (d, dmin);
        let (mut scale_levels, mut min_levels) = ([zero; GROUPS], [zero; GROUPS]);
        if tile.has_weights() {
            let (valid_d, valid_min);
            (d, valid_d) = fit_positive_lanes::<L, GROUPS, false>(lanes, SCALE_TOP, &scales, &sum_w, &mut scale_levels);
            (dmin, valid_min) =
                fit_positive_lanes::<L, GROUPS, false>(lanes, SCALE_TOP, &mins, &sum_w, &mut min_levels);
            valid = valid & valid_d & valid_min;
        } else {
            let (mut max_scale, mut max_min) = (zero, zero);
            for g in 0..GROUPS {
                max_scale = scales[g].max(max_scale);
                max_min = mins[g].max(max_min);
            }
            let inverse_scale = max_scale.gt(zero).select(scale_top / max_scale, zero);
            let inverse_min = max_min.gt(zero).select(scale_top / max_min, zero);
            valid = valid & roundable(lanes, inverse_scale * max_scale, inverse_min * max_min);
            for g in 0..GROUPS {
                scale_levels[g] = level(lanes, inverse_scale * scales[g], 0.0, SCALE_TOP as f32);
                min_levels[g] = level(lanes, inverse_min * mins[g], 0.0, SCALE_TOP as f32);
            }
            d = max_scale / scale_top;
            dmin = max_min / scale_top;
        }

        let (half_d, half_dmin) = (to_half(lanes, d), to_half(lanes, dmin));
        let (d, dmin) = (sixteen::from_half(lanes, half_d), sixteen::from_half(lanes, half_dmin));
        for h in 0..2 {
            let mut words = [[lanes.splat_i(0); WORDS]; 4];
            for part in 0..8 {
                let g = 8 * h + part;
                let x = sixteen::columns(lanes, &values, g);
                let (d, min) = (d * scale_levels[g], dmin * min_levels[g]);
                // Without a scale, the levels of the search are kept.
                let unscaled = d.equal(zero);
                let keep_search = unscaled.any();
                let mut largest = zero;
                let mut levels = [zero; GROUP];
                for i in 0..GROUP {
                    let wish = (x[i] + min) / d;
                    largest = largest.max(wish.abs());
                    levels[i] = level(lanes, wish, 0.0, TOP as f32);
                    if keep_search {
                        let wish = groups[g].iscale * (x[i] - groups[g].level_min);
                        levels[i] = unscaled.select(level(lanes, wish, 0.0, TOP as f32), levels[i]);
                    }
                }
                valid = valid & (unscaled | largest.le(lanes.splat(4194303.0)));
                let levels = sixteen::words_of_numbers(lanes, &levels);
                words[part / 2][part % 2 * 4..][..4].copy_from_slice(&levels);
            }
            put::<L, BYTES, WORDS>(out, 16 + 32 * h, &sixteen::pairs_of_bits(lanes, &words));
        }

        let scale_words = sixteen::words_of_numbers(lanes, &scale_levels);
        let min_words = sixteen::words_of_numbers(lanes, &min_levels);
        let mut packed = scale_words;
        for w in 0..4 {
            packed[w] = scale_words[w] | min_words[w].shl::<4>();
        }
        put::<L, BYTES, 4>(out, 0, &packed);
        put::<L, BYTES, 1>(out, 80, &[half_d | half_dmin.shl::<16>()]);
        valid.to_bits()
    }
}
