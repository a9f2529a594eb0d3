//! Q3_K: 256 values in 110 bytes, 3.4375 bits per weight; sixteen groups of 16 with a scale each.
//!
//! ```text
//! 0                   32                        96            108    110
//! | third bits, 32    | low two bits, 64        | scales, 12  | d    |
//!   byte i, bit r:      byte 32 h + i: values     see below     f16
//!   value 32 r + i      128 h + i, + 32, + 64 and + 96, from the lowest bits up
//!
//! scales, 6 bits each:  0..8   the low 4 bits of scale[0..8], and of scale[8..16] above
//!                       8..12  the top 2 bits of scale[i], scale[4 + i], scale[8 + i] and scale[12 + i], from the lowest up
//!
//! value = d * (scale[group] - 32) * (level - 4)
//! ```
//!
//! Rules: `block_q3_K` in `ggml-common.h`; `dequantize_row_q3_K`, `quantize_row_q3_K_ref` (without a matrix) and
//! `quantize_row_q3_K_impl` (with one) in `ggml-quants.c`.

use super::block::{self, DecodeBlock, EncodeBlock, Lost, Pairs, Refused};
use super::sixteen::{self, GROUP, GROUPS, LEN, WORDS};
use super::words::put;
use crate::dispatch::Isa;
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, to_half};
use crate::rows::{Rows, Tile};
use crate::search::{
    first_largest, first_largest_lanes, fit_moving, fit_moving_lanes, fit_signed, fit_signed_lanes, level, nearest_int,
    roundable,
};

const BYTES: usize = 110;
const TOP: i32 = 4;
const SCALE_TOP: i32 = 32;
/// Groups that the search without a matrix processes at a time.
const IN_STEP: usize = 2;

/// Q3_K.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[108], block[109]]));
        let third: &[u8; 32] = block.first_chunk().unwrap();
        let scales = unpack_scales(block[96..].first_chunk().unwrap());
        for (g, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let d = d * f32::from(scales[g] as i8 - SCALE_TOP as i8);
            let (half, run, odd) = (g / 8, g / 2, g % 2 * 16);
            let low: &[u8; 16] = block[32 + 32 * half + odd..].first_chunk().unwrap();
            let third: &[u8; 16] = third[odd..].first_chunk().unwrap();
            for i in 0..GROUP {
                let level = low[i] >> (2 * (run % 4)) & 3 | (third[i] >> run & 1) << 2;
                values[i] = d * (i32::from(level) - TOP) as f32;
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (third, rest) = block.split_first_chunk::<32>().unwrap();
        let (levels, rest) = rest.split_first_chunk::<64>().unwrap();
        let (scales, d) = rest.split_first_chunk::<12>().unwrap();
        let d = lanes.half(u16::from_le_bytes([d[0], d[1]]));
        let scales = unpack_scales(scales);
        let mut ds = [0.0; GROUPS];
        for g in 0..GROUPS {
            ds[g] = d * (i32::from(scales[g]) - SCALE_TOP) as f32;
        }
        for i in (0..32).step_by(L::N) {
            let mut third = lanes.load_u8(&third[i..]);
            for h in 0..2 {
                let mut bytes = lanes.load_u8(&levels.as_chunks::<32>().0[h][i..]);
                let values = &mut values.as_chunks_mut::<128>().0[h];
                for run in 0..4 {
                    let level = bytes & lanes.splat_i(3) | (third & lanes.splat_i(1)).shl::<2>();
                    let d = lanes.splat(ds[8 * h + 2 * run + i / GROUP]);
                    (d * (level - lanes.splat_i(TOP)).to_f()).store(&mut values[32 * run + i..]);
                    bytes = bytes.shr::<2>();
                    third = third.shr::<1>();
                }
            }
        }
    }
}

/// The scales of the groups, 6 bits each.
#[inline(always)]
fn unpack_scales(packed: &[u8; 12]) -> [u8; GROUPS] {
    let word = |at: usize| u32::from_le_bytes([packed[at], packed[at + 1], packed[at + 2], packed[at + 3]]);
    let top = word(8);
    let mut scales = [0; GROUPS];
    for (q, four) in scales.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let low = word(4 * (q % 2)) >> (q / 2 * 4) & 0x0f0f_0f0f;
        *four = (low | (top >> (2 * q) & 0x0303_0303) << 4).to_le_bytes();
    }
    scales
}

/// One block, scalar reference.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> [u8; BYTES] {
    let mut levels = [0; LEN];
    let mut fits = [0.0; GROUPS];
    let mut scales = [0; GROUPS];
    let mut d = 0.0;
    match matrix {
        None => {
            for (g, levels) in levels.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                fits[g] = fit_moving(TOP, &x[g * GROUP..][..GROUP], levels);
            }
            let largest = first_largest(&fits);
            if largest != 0.0 {
                let iscale = -SCALE_TOP as f32 / largest;
                let level = |fit: f32| i32::from(nearest_int(iscale * fit) as i8).clamp(-SCALE_TOP, SCALE_TOP - 1);
                scales = fits.map(|fit| (level(fit) + SCALE_TOP) as u8);
                d = 1.0 / iscale;
            }
        }
        Some(matrix) => {
            let mut sum_x2 = 0.0;
            for x in x {
                sum_x2 += x * x;
            }
            let sigma2 = 2.0 * sum_x2 / LEN as f32;
            let mut sum_w = [0.0; GROUPS];
            for (g, levels) in levels.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                let x = &x[g * GROUP..][..GROUP];
                let mut weights = [0.0; GROUP];
                for i in 0..GROUP {
                    weights[i] = matrix[g * GROUP + i] * (sigma2 + x[i] * x[i]).sqrt();
                    sum_w[g] += weights[i];
                }
                fits[g] = fit_signed(TOP, x, &weights, levels);
            }
            d = fit_signed(SCALE_TOP, &fits, &sum_w, &mut scales);
        }
    }
    let d = f32_to_f16_ggml(d);
    for (g, levels) in levels.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let d = f16_to_f32_ggml(d) * (i32::from(scales[g]) - SCALE_TOP) as f32;
        sixteen::levels_of_scale(d, TOP, &x[g * GROUP..][..GROUP], levels);
    }

    let mut out = [0; BYTES];
    for (i, &l) in levels.iter().enumerate() {
        let (run, i) = (i / 32, i % 32);
        out[i] |= l >> 2 << run;
        out[32 + run / 4 * 32 + i] |= (l & 3) << (2 * (run % 4));
    }
    for (g, &scale) in scales.iter().enumerate() {
        out[96 + g % 8] |= (scale & 15) << (g / 8 * 4);
        out[104 + g % 4] |= scale >> 4 << (2 * (g / 4));
    }
    out[108..].copy_from_slice(&d.to_le_bytes());
    out
}

/// The encoder with a matrix, which uses another search.
struct Weighted;

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x, weights))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        encode_tile::<L, false>(lanes, tile, out)
    }

    fn rows(isa: Isa, rows: Rows<'_>, blocks: &mut [[u8; BYTES]]) -> Result<(), Refused> {
        match rows.weights() {
            Some(_) => block::encode_blocks::<Weighted, LEN, BYTES>(isa, rows, blocks),
            None => block::encode_blocks::<Self, LEN, BYTES>(isa, rows, blocks),
        }
    }
}

impl EncodeBlock<LEN, BYTES> for Weighted {
    // The search without a matrix runs until all lanes have converged, so fewer lanes need fewer rounds.
    const PAIRS: Pairs = Pairs::Always;

    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(reference(x, weights))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        encode_tile::<L, true>(lanes, tile, out)
    }
}

/// The scales and levels of a search in each lane.
struct Searched<L: Lanes> {
    /// The factor of the scales.
    d: L::F,
    /// The scales of the groups, from 0.
    scales: [L::F; GROUPS],
    /// The levels of the groups, for blocks whose factor rounds to zero.
    levels: [[L::I; 4]; GROUPS],
    /// The lanes in which all of that is right.
    valid: L::M,
}

/// The search without a matrix.
#[inline(always)]
fn search_plain<L: Lanes>(lanes: L, values: &[&[f32; LEN]; MAX_LANES]) -> Searched<L> {
    let zero = lanes.splat(0.0);
    let scale_top = SCALE_TOP as f32;
    let mut fits = [zero; GROUPS];
    let mut search = [[lanes.splat_i(0); 4]; GROUPS];
    let mut scales = [zero; GROUPS];
    let mut valid = !lanes.mask(0);
    for first in (0..GROUPS).step_by(IN_STEP) {
        let mut x = [[zero; GROUP]; IN_STEP];
        for g in 0..IN_STEP {
            x[g] = sixteen::columns(lanes, values, first + g);
        }
        let mut levels = [[zero; GROUP]; IN_STEP];
        let (fitted, right) = fit_moving_lanes(lanes, TOP, &x, &mut levels);
        valid = valid & right;
        for g in 0..IN_STEP {
            valid = valid & fitted[g].equal(fitted[g]);
            fits[first + g] = fitted[g];
            search[first + g] = sixteen::words_of_numbers(lanes, &levels[g]);
        }
    }
    let largest = first_largest_lanes(lanes, &fits);
    let empty = largest.equal(zero);
    let iscale = lanes.splat(-scale_top) / largest;
    let product = iscale * largest;
    valid = valid & (empty | roundable(lanes, product, product));
    for g in 0..GROUPS {
        let l = level(lanes, iscale * fits[g], -scale_top, scale_top - 1.0);
        scales[g] = empty.select(zero, l + lanes.splat(scale_top));
    }
    let d = empty.select(zero, lanes.splat(1.0) / iscale);
    Searched { d, scales, levels: search, valid }
}

/// The search with a matrix; `None` if there is none.
#[inline(always)]
fn search_weighted<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>) -> Option<Searched<L>> {
    let values = tile.values();
    let zero = lanes.splat(0.0);
    let mut fits = [zero; GROUPS];
    let mut search = [[lanes.splat_i(0); 4]; GROUPS];
    let mut scales = [zero; GROUPS];
    let mut valid = !lanes.mask(0);
    let Some(matrix) = &tile.weights() else { return None };
    let sigma2 = lanes.splat(2.0) * sixteen::sum_of_squares(lanes, tile) / lanes.splat(LEN as f32);
    let mut sum_w = [zero; GROUPS];
    for g in 0..GROUPS {
        let x = sixteen::columns(lanes, &values, g);
        let mut weights = sixteen::columns(lanes, matrix, g);
        for i in 0..GROUP {
            weights[i] = weights[i] * (sigma2 + x[i] * x[i]).sqrt();
            sum_w[g] = sum_w[g] + weights[i];
        }
        let fit = fit_signed_lanes(lanes, TOP, &x, &weights);
        valid = valid & fit.valid;
        fits[g] = fit.scale;
        let mut levels = [zero; GROUP];
        for i in 0..GROUP {
            levels[i] = fit.level(lanes, TOP, x[i]);
        }
        search[g] = sixteen::words_of_numbers(lanes, &levels);
    }
    let fit = fit_signed_lanes(lanes, SCALE_TOP, &fits, &sum_w);
    valid = valid & fit.valid;
    for g in 0..GROUPS {
        scales[g] = fit.level(lanes, SCALE_TOP, fits[g]);
    }
    Some(Searched { d: fit.scale, scales, levels: search, valid })
}

/// One block per lane.
#[inline(always)]
fn encode_tile<L: Lanes, const MATRIX: bool>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
    let values = tile.values();
    let zero = lanes.splat(0.0);
    let scale_top = SCALE_TOP as f32;

    let searched = if MATRIX { search_weighted(lanes, tile) } else { Some(search_plain(lanes, &values)) };
    let Some(Searched { d, scales, levels: search, mut valid }) = searched else { return 0 };
    let half_d = to_half(lanes, d);
    let d = sixteen::from_half(lanes, half_d);
    let mut third = [lanes.splat_i(0); WORDS];
    for h in 0..2 {
        let mut words = [[lanes.splat_i(0); WORDS]; 4];
        for part in 0..8 {
            let g = 8 * h + part;
            let x = sixteen::columns(lanes, &values, g);
            let d = d * (scales[g] - lanes.splat(scale_top));
            let unscaled = d.equal(zero);
            let (levels, right) = sixteen::levels_of_scale_lanes(lanes, d, TOP, &x);
            valid = valid & (right | unscaled);
            // Without a scale, the levels of the search are kept.
            let levels = sixteen::select::<L>(unscaled, &search[g], &levels);
            words[part / 2][part % 2 * 4..][..4].copy_from_slice(&levels);
        }
        for run in &words {
            for w in 0..WORDS {
                // The bits of a run are shifted in from above, so the first run ends up lowest.
                let bits = (run[w].shr::<2>() & lanes.splat_i(0x0101_0101)).shl::<7>();
                third[w] = (third[w].shr::<1>() & lanes.splat_i(0x7f7f_7f7f)) | bits;
            }
        }
        put::<L, BYTES, WORDS>(out, 32 + 32 * h, &sixteen::pairs_of_bits(lanes, &words));
    }
    put::<L, BYTES, WORDS>(out, 0, &third);

    put_scales::<L>(lanes, &scales, out);
    let mut lane_d = [0; MAX_LANES];
    half_d.store(&mut lane_d);
    for (i, out) in out.iter_mut().enumerate() {
        out[108..].copy_from_slice(&(lane_d[i] as u16).to_le_bytes());
    }
    valid.to_bits()
}

/// Writes the scales of the groups, 6 bits each.
#[inline(always)]
fn put_scales<L: Lanes>(lanes: L, scales: &[L::F; GROUPS], out: &mut [[u8; BYTES]]) {
    let scales = sixteen::words_of_numbers(lanes, scales);
    let (low, two) = (lanes.splat_i(0x0f0f_0f0f), lanes.splat_i(0x0303_0303));
    let mut packed = [lanes.splat_i(0); 3];
    packed[0] = scales[0] & low | (scales[2] & low).shl::<4>();
    packed[1] = scales[1] & low | (scales[3] & low).shl::<4>();
    packed[2] = scales[0].shr::<4>() & two
        | (scales[1].shr::<4>() & two).shl::<2>()
        | (scales[2].shr::<4>() & two).shl::<4>()
        | (scales[3].shr::<4>() & two).shl::<6>();
    put::<L, BYTES, 3>(out, 96, &packed);
}
