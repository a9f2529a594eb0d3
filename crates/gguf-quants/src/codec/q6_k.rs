//! Q6_K: 256 values in 210 bytes, 6.5625 bits per weight; sixteen groups of 16 with a scale each.
//!
//! ```text
//! 0                         128                       192           208    210
//! | low four bits, 128      | upper two bits, 64      | scales, 16  | d    |
//!   of each half of 128 values:                         signed bytes  f16
//!   byte 64 h + i: value i in the low half, 64 + i in the high half; i below 64
//!                             byte 32 h + i: values i, 32 + i, 64 + i, 96 + i from the lowest bits up; i below 32
//!
//! value = d * scale[group] * (level - 32)
//! ```
//!
//! Rules: `block_q6_K` in `ggml-common.h`; `dequantize_row_q6_K`, `quantize_row_q6_K_ref` (without a matrix) and
//! `quantize_row_q6_K_impl` (with one) in `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::sixteen::{self, GROUP, GROUPS, LEN, WORDS};
use super::words::put;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, Part, to_half};
use crate::rows::Tile;
use crate::search::{
    FitSigned, GROUP_MAX_EPS, LaneScale, first_largest, first_largest_lanes, fit_signed, level, nearest_int, roundable,
};

const BYTES: usize = 210;
const TOP: i32 = 32;

/// Q6_K.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        decode(block, values);
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        // A group is a vector there, and compilers work on its levels as bytes.
        if L::N == GROUP {
            return decode(block, values);
        }
        let d = lanes.half(u16::from_le_bytes([block[208], block[209]]));
        for h in 0..2 {
            let low = &block[64 * h..][..64];
            let high = &block[128 + 32 * h..][..32];
            let scales = &block[192 + 8 * h..][..8];
            let values = &mut values[128 * h..][..128];
            for i in (0..32).step_by(L::N) {
                let (first, second) = (lanes.load_u8(&low[i..]), lanes.load_u8(&low[32 + i..]));
                let top = lanes.load_u8(&high[i..]);
                let levels = [
                    first & lanes.splat_i(15) | (top & lanes.splat_i(3)).shl::<4>(),
                    second & lanes.splat_i(15) | (top & lanes.splat_i(3 << 2)).shl::<2>(),
                    first.shr::<4>() | top & lanes.splat_i(3 << 4),
                    second.shr::<4>() | (top & lanes.splat_i(3 << 6)).shr::<2>(),
                ];
                for quarter in 0..4 {
                    let d = lanes.splat(d * f32::from(scales[2 * quarter + i / 16] as i8));
                    (d * (levels[quarter] - lanes.splat_i(TOP)).to_f()).store(&mut values[32 * quarter + i..]);
                }
            }
        }
    }
}

#[inline(always)]
fn decode(block: &[u8; BYTES], values: &mut [f32; LEN]) {
    let d = f16_to_f32_ggml(u16::from_le_bytes([block[208], block[209]]));
    let scales: &[u8; 16] = block[192..].first_chunk().unwrap();
    for h in 0..2 {
        let low: &[u8; 64] = block[64 * h..].first_chunk().unwrap();
        let high: &[u8; 32] = block[128 + 32 * h..].first_chunk().unwrap();
        for part in 0..8 {
            let (quarter, odd) = (part / 2, part % 2 * 16);
            let d = d * f32::from(scales[8 * h + part] as i8);
            let values: &mut [f32; 16] = values[128 * h + 16 * part..].first_chunk_mut().unwrap();
            let low: &[u8; 16] = low[32 * (quarter % 2) + odd..].first_chunk().unwrap();
            let high: &[u8; 16] = high[odd..].first_chunk().unwrap();
            for i in 0..16 {
                let level = low[i] >> (quarter / 2 * 4) & 15 | (high[i] >> (2 * quarter) & 3) << 4;
                values[i] = d * (i32::from(level) - TOP) as f32;
            }
        }
    }
}

/// One block, scalar reference. Without a matrix the weight of a value is its square.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> [u8; BYTES] {
    let mut levels = [0; LEN];
    let mut fits = [0.0; GROUPS];
    for g in 0..GROUPS {
        let at = g * GROUP..(g + 1) * GROUP;
        let weights = match matrix {
            Some(matrix) => *matrix[at.clone()].first_chunk().unwrap(),
            None => x[at.clone()].first_chunk::<GROUP>().unwrap().map(|x| x * x),
        };
        fits[g] = fit_signed(TOP, &x[at.clone()], &weights, &mut levels[at]);
    }
    let largest = first_largest(&fits);
    if largest.abs() < GROUP_MAX_EPS {
        return [0; BYTES];
    }
    let iscale = -128.0 / largest;
    let d = f32_to_f16_ggml(1.0 / iscale);
    let scales = fits.map(|fit| nearest_int(iscale * fit).min(127) as u8);
    for g in 0..GROUPS {
        let at = g * GROUP..(g + 1) * GROUP;
        let d = f16_to_f32_ggml(d) * f32::from(scales[g] as i8);
        sixteen::levels_of_scale(d, TOP, &x[at.clone()], &mut levels[at]);
    }

    let mut out = [0; BYTES];
    for (h, levels) in levels.as_chunks::<128>().0.iter().enumerate() {
        for i in 0..64 {
            out[64 * h + i] = levels[i] & 15 | (levels[64 + i] & 15) << 4;
        }
        for i in 0..32 {
            let high = |quarter: usize| levels[32 * quarter + i] >> 4 << (2 * quarter);
            out[128 + 32 * h + i] = high(0) | high(1) | high(2) | high(3);
        }
    }
    out[192..208].copy_from_slice(&scales);
    out[208..].copy_from_slice(&d.to_le_bytes());
    out
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x, weights))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let (values, matrix) = (tile.values(), tile.weights());
        let zero = lanes.splat(0.0);
        let low_bits = lanes.splat_i(0x0f0f_0f0f);
        let mut scales = [zero; GROUPS];
        let mut fits = [LaneScale::none(lanes); GROUPS];
        let mut valid = !lanes.mask(0);
        for g in 0..GROUPS {
            let x = sixteen::columns(lanes, &values, g);
            let mut weights = [zero; GROUP];
            match &matrix {
                Some(matrix) => weights = sixteen::columns(lanes, matrix, g),
                None => {
                    for i in 0..GROUP {
                        weights[i] = x[i] * x[i];
                    }
                }
            }
            // No other type runs this search with these parameters, so it is inlined into the kernel.
            let fit = FitSigned { top: TOP, x: &x, weights: &weights }.run(lanes);
            valid = valid & fit.valid & fit.scale.equal(fit.scale);
            scales[g] = fit.scale;
            fits[g] = fit;
        }

        let largest = first_largest_lanes(lanes, &scales);
        let empty = largest.abs().lt(lanes.splat(GROUP_MAX_EPS));
        let iscale = lanes.splat(-128.0) / largest;
        let product = iscale * largest;
        valid = empty | (valid & roundable(lanes, product, product));
        let half_d = to_half(lanes, lanes.splat(1.0) / iscale);
        let d = sixteen::from_half(lanes, half_d);
        let mut scale_words = [lanes.splat_i(0); GROUPS];
        for g in 0..GROUPS {
            scales[g] = level(lanes, iscale * scales[g], -128.0, 127.0);
            scale_words[g] = scales[g].trunc() & lanes.splat_i(255);
        }
        put::<L, BYTES, 4>(out, 192, &sixteen::words::<L>(&scale_words));

        for h in 0..2 {
            let mut words = [[lanes.splat_i(0); WORDS]; 4];
            for part in 0..8 {
                let g = 8 * h + part;
                let x = sixteen::columns(lanes, &values, g);
                let d = d * scales[g];
                let unscaled = d.equal(zero);
                let (mut levels, right) = sixteen::levels_of_scale_lanes(lanes, d, TOP, &x);
                valid = valid & (right | unscaled | empty);
                if unscaled.any() {
                    // Without a scale, the levels of the search are kept.
                    let mut search = [zero; GROUP];
                    for i in 0..GROUP {
                        search[i] = fits[g].level(lanes, TOP, x[i]);
                    }
                    levels = sixteen::select::<L>(unscaled, &sixteen::words_of_numbers(lanes, &search), &levels);
                }
                words[part / 2][part % 2 * 4..][..4].copy_from_slice(&levels);
            }
            let mut low = [lanes.splat_i(0); 2 * WORDS];
            for w in 0..WORDS {
                let [w0, w1, w2, w3] = [words[0][w], words[1][w], words[2][w], words[3][w]];
                low[w] = w0 & low_bits | (w2 & low_bits).shl::<4>();
                low[WORDS + w] = w1 & low_bits | (w3 & low_bits).shl::<4>();
                for run in &mut words {
                    run[w] = run[w].shr::<4>();
                }
            }
            put::<L, BYTES, { 2 * WORDS }>(out, 64 * h, &low);
            put::<L, BYTES, WORDS>(out, 128 + 32 * h, &sixteen::pairs_of_bits(lanes, &words));
        }

        let mut lane_d = [0; MAX_LANES];
        half_d.store(&mut lane_d);
        let empty = empty.to_bits();
        for (i, out) in out.iter_mut().enumerate() {
            out[208..].copy_from_slice(&(lane_d[i] as u16).to_le_bytes());
            if empty >> i & 1 == 1 {
                *out = [0; BYTES];
            }
        }
        valid.to_bits()
    }
}
