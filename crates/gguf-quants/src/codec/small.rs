//! Shared code of Q4_0, Q4_1, Q5_0 and Q5_1: blocks of 32 values with one scale, with or without a fifth bit and a minimum.
//!
//! ```text
//! | d | min, if any | fifth bits, if any, 4 | low four bits, 16                    |
//! f16   f16           bit i: value i          byte i: value i in the low half, 16 + i in the high half
//!
//! value = d * (level - 2^(BITS - 1))        without a minimum
//! value = d * level + min                   with one
//! ```

use super::block::{self, DecodeBlock, EncodeBlock, Lost, Refused};
use super::words::word;
use crate::dispatch::{Isa, Kernel};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::twice::Twice;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, to_half, trunc};
use crate::rows::{RowSquares, Rows, Tile};
use crate::search::{
    Fit, MinSearch, first_largest, first_largest_lanes, fit_min, fit_min_lanes, fit_signed, fit_signed_lanes, level,
};

/// Values in a block (`QK4_0` and its like).
const LEN: usize = 32;

/// The highest level.
const fn highest(bits: u32) -> i32 {
    (1 << bits) - 1
}

/// The level of zero if there is no minimum.
const fn middle(bits: u32) -> i32 {
    1 << (bits - 1)
}

const fn search(bits: u32) -> MinSearch {
    MinSearch { levels: highest(bits), first: -0.9, step: 0.05, last: 36, absolute: false }
}

/// The start of the fifth bits.
const fn fifth_at(min: bool) -> usize {
    if min { 4 } else { 2 }
}

/// A type with levels of `BITS` bits, and with a minimum if `MIN`.
pub(super) struct Block<const BITS: u32, const MIN: bool, const BYTES: usize>;

impl<const BITS: u32, const MIN: bool, const BYTES: usize> DecodeBlock<LEN, BYTES> for Block<BITS, MIN, BYTES> {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        decode_block::<BITS, MIN, BYTES>(block, values);
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        decode_lanes::<L, BITS, MIN, BYTES>(lanes, block, values);
    }
}

/// The bit of each value among the fifth bits.
const BIT_OF_VALUE: [i32; LEN] = {
    let mut bits = [0; LEN];
    let mut i = 0;
    while i < LEN {
        bits[i] = 1 << i;
        i += 1;
    }
    bits
};

/// [`decode_block`] in lanes.
#[inline(always)]
fn decode_lanes<L: Lanes, const BITS: u32, const MIN: bool, const BYTES: usize>(
    lanes: L,
    block: &[u8; BYTES],
    values: &mut [f32; LEN],
) {
    let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
    if MIN && !d.is_finite() {
        return decode_block::<BITS, MIN, BYTES>(block, values);
    }
    let fifth = if BITS == 5 { i32::from_le_bytes(*block[fifth_at(MIN)..].first_chunk().unwrap()) } else { 0 };
    let fifth = lanes.splat_i(fifth);
    let min = if MIN { lanes.splat(lanes.half(u16::from_le_bytes([block[2], block[3]]))) } else { lanes.splat(0.0) };
    let d = lanes.splat(d);
    let levels: &[u8; 16] = block.last_chunk().unwrap();
    for i in (0..16).step_by(L::N) {
        let bytes = lanes.load_u8(&levels[i..]);
        for (at, low) in [(i, bytes & lanes.splat_i(15)), (16 + i, bytes.shr::<4>())] {
            let level = if BITS == 5 {
                let is_clear = (fifth & lanes.load_i(&BIT_OF_VALUE[at..])).equal(lanes.splat_i(0));
                is_clear.select_i(low, low | lanes.splat_i(16))
            } else {
                low
            };
            let value = if MIN { level.to_f() * d + min } else { (level - lanes.splat_i(middle(BITS))).to_f() * d };
            value.store(&mut values[at..]);
        }
    }
}

#[inline(always)]
fn decode_block<const BITS: u32, const MIN: bool, const BYTES: usize>(block: &[u8; BYTES], values: &mut [f32; LEN]) {
    let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
    let min = if MIN { f16_to_f32_ggml(u16::from_le_bytes([block[2], block[3]])) } else { 0.0 };
    let fifth = if BITS == 5 { u32::from_le_bytes(*block[fifth_at(MIN)..].first_chunk().unwrap()) } else { 0 };
    let low: &[u8; 16] = block.last_chunk().unwrap();
    // Of two NaNs the product is kept, which vector code does not guarantee for a sum; a finite product is not NaN.
    if MIN && !d.is_finite() {
        for i in 0..LEN {
            let level = u32::from(low[i % 16]) >> (i / 16 * 4) & 15 | (fifth >> i & 1) << 4;
            let product = level as f32 * d;
            values[i] = if product.is_nan() { product } else { product + min };
        }
        return;
    }
    let value = |level: u32| {
        if MIN { level as f32 * d + min } else { (level as i32 - middle(BITS)) as f32 * d }
    };
    for i in 0..16 {
        values[i] = value(u32::from(low[i] & 15) | (fifth >> i & 1) << 4);
        values[16 + i] = value(u32::from(low[i] >> 4) | (fifth >> (16 + i) & 1) << 4);
    }
}

/// The encoder without a matrix; with one, the weights depend on the row.
impl<const BITS: u32, const MIN: bool, const BYTES: usize> EncodeBlock<LEN, BYTES> for Block<BITS, MIN, BYTES> {
    fn plain(x: &[f32; LEN], _: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(plain::<BITS, MIN, BYTES>(x))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let zero = lanes.splat(0.0);
        let x = lanes.columns::<LEN>(&tile.values());
        let mut min = zero;
        let (d, shift);
        if MIN {
            let max;
            (min, max) = extremes(lanes, &x, f32::MAX);
            d = (max - min) / lanes.splat(highest(BITS) as f32);
            shift = lanes.splat(0.5);
        } else {
            d = first_largest_by_extremes(lanes, &x) / lanes.splat(-middle(BITS) as f32);
            shift = lanes.splat(middle(BITS) as f32 + 0.5);
        }
        let inverse = d.equal(zero).select(zero, lanes.splat(1.0) / d);
        let mut levels = [lanes.splat_i(0); LEN];
        for i in 0..LEN {
            let wish = if MIN { (x[i] - min) * inverse } else { x[i] * inverse };
            levels[i] = (wish + shift).trunc();
        }
        pack_lanes::<L, BITS, MIN, BYTES>(lanes, d, min, &levels, out);
        u32::MAX
    }

    fn rows(isa: Isa, rows: Rows<'_>, blocks: &mut [[u8; BYTES]]) -> Result<(), Refused> {
        match rows.weights() {
            Some(_) => isa.run(Weighted::<BITS, MIN, BYTES> { rows, blocks }),
            None => block::encode_blocks::<Self, LEN, BYTES>(isa, rows, blocks)?,
        }
        Ok(())
    }
}

/// The mean of the squares of a row, in the order of the reference.
fn mean_square(row: &[f32]) -> f32 {
    let mut squares = RowSquares::default();
    squares.add(row);
    squares.mean()
}

/// One block with a matrix, scalar reference (`quantize_row_q4_0_impl` and its variants).
#[inline(never)]
fn weighted<const BITS: u32, const MIN: bool, const BYTES: usize>(
    rows: &Rows<'_>,
    block: usize,
    sigma2: f32,
) -> [u8; BYTES] {
    let x: &[f32; LEN] = rows.block(block);
    let mut weights = [0.0; LEN];
    if let Some(matrix) = rows.block_weights::<LEN>(block) {
        for i in 0..LEN {
            weights[i] = matrix[i] * (sigma2 + x[i] * x[i]).sqrt();
        }
    }
    let mut levels = [0; LEN];
    let fit = if MIN {
        fit_min(search(BITS), x, &weights, &mut levels)
    } else {
        Fit { scale: fit_signed(middle(BITS), x, &weights, &mut levels), min: 0.0 }
    };
    pack::<BITS, MIN, BYTES>(fit.scale, -fit.min, &levels)
}

/// One block without a matrix, scalar reference (`quantize_row_q4_0_ref` and its variants).
#[inline(never)]
fn plain<const BITS: u32, const MIN: bool, const BYTES: usize>(x: &[f32; LEN]) -> [u8; BYTES] {
    let (mut min, mut max) = (f32::MAX, -f32::MAX);
    for &x in x {
        min = if x < min { x } else { min };
        max = if x > max { x } else { max };
    }
    let (d, shift) = if MIN {
        ((max - min) / highest(BITS) as f32, 0.5)
    } else {
        min = 0.0;
        (first_largest(x) / -middle(BITS) as f32, middle(BITS) as f32 + 0.5)
    };
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    let mut levels = [0; LEN];
    for i in 0..LEN {
        let wish = if MIN { (x[i] - min) * inverse } else { x[i] * inverse };
        // Values out of range become zero; see `trunc`.
        levels[i] = i32::from(trunc(wish + shift) as i8).min(highest(BITS)) as u8;
    }
    pack::<BITS, MIN, BYTES>(d, min, &levels)
}

fn pack<const BITS: u32, const MIN: bool, const BYTES: usize>(d: f32, min: f32, levels: &[u8; LEN]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    out[..2].copy_from_slice(&f32_to_f16_ggml(d).to_le_bytes());
    if MIN {
        out[2..4].copy_from_slice(&f32_to_f16_ggml(min).to_le_bytes());
    }
    if BITS == 5 {
        let mut fifth = 0;
        for (i, &l) in levels.iter().enumerate() {
            fifth |= u32::from(l >> 4 & 1) << i;
        }
        out[fifth_at(MIN)..][..4].copy_from_slice(&fifth.to_le_bytes());
    }
    for (i, out) in out[BYTES - 16..].iter_mut().enumerate() {
        *out = levels[i] & 15 | levels[16 + i] << 4;
    }
    out
}

/// [`pack`] for one block per lane; levels are from zero to one above the highest, or `i32::MIN`.
#[inline(always)]
fn pack_lanes<L: Lanes, const BITS: u32, const MIN: bool, const BYTES: usize>(
    lanes: L,
    d: L::F,
    min: L::F,
    levels: &[L::I; LEN],
    out: &mut [[u8; BYTES]],
) {
    let mut words = [lanes.splat_i(0); LEN / 4];
    for w in 0..LEN / 4 {
        let word = word::<L>([levels[4 * w], levels[4 * w + 1], levels[4 * w + 2], levels[4 * w + 3]]);
        // Values out of range have only the top bit set and become zero; one above the highest becomes the highest.
        let word = word & lanes.splat_i(0x0101_0101 * (2 * highest(BITS) + 1));
        let above = if BITS == 5 { word.shr::<5>() } else { word.shr::<4>() };
        words[w] = word - (above & lanes.splat_i(0x0101_0101));
    }
    let mut fifth = lanes.splat_i(0);
    if BITS == 5 {
        let (bits, bits_above) = (lanes.splat_i(0x0101_0101), lanes.splat_i(0x1010_1010));
        // The product collects the bits of the bytes, and those four above them, in the top eight bits.
        let gather = lanes.splat_i(0x0102_0408);
        // From the last pair of words to the first: each is shifted in below the previous ones.
        for [first, second] in words.as_chunks().0.iter().rev() {
            let bits = first.shr::<4>() & bits | *second & bits_above;
            fifth = fifth.shl::<8>() | (bits * gather).shr::<24>();
        }
    }
    let low_bits = lanes.splat_i(0x0f0f_0f0f);
    let mut low = [[0; MAX_LANES]; 4];
    for w in 0..4 {
        ((words[w] & low_bits) | (words[4 + w] & low_bits).shl::<4>()).store(&mut low[w]);
    }
    let (mut lane_head, mut lane_fifth) = ([0; MAX_LANES], [0; MAX_LANES]);
    if MIN {
        (to_half(lanes, d) | to_half(lanes, min).shl::<16>()).store(&mut lane_head);
    } else {
        to_half(lanes, d).store(&mut lane_head);
    }
    fifth.store(&mut lane_fifth);
    for (i, out) in out.iter_mut().enumerate() {
        let head = lane_head[i].to_le_bytes();
        out[..fifth_at(MIN)].copy_from_slice(&head[..fifth_at(MIN)]);
        if BITS == 5 {
            out[fifth_at(MIN)..][..4].copy_from_slice(&lane_fifth[i].to_le_bytes());
        }
        for w in 0..4 {
            out[BYTES - 16 + 4 * w..][..4].copy_from_slice(&low[w][i].to_le_bytes());
        }
    }
}

/// The smallest and the largest value of each lane, starting from `limit` and its opposite; NaNs are ignored.
#[inline(always)]
fn extremes<L: Lanes>(lanes: L, x: &[L::F; LEN], limit: f32) -> (L::F, L::F) {
    // Four runs, searched separately: the first of equal values is kept, as in a sequential search.
    let (mut min, mut max) = ([lanes.splat(limit); 4], [lanes.splat(-limit); 4]);
    for i in 0..LEN / 4 {
        for run in 0..4 {
            min[run] = x[run * (LEN / 4) + i].min(min[run]);
            max[run] = x[run * (LEN / 4) + i].max(max[run]);
        }
    }
    for run in 1..4 {
        min[0] = min[run].min(min[0]);
        max[0] = max[run].max(max[0]);
    }
    (min[0], max[0])
}

/// [`first_largest_lanes`], which searches for the first extreme only if both have the same magnitude.
#[inline(always)]
fn first_largest_by_extremes<L: Lanes>(lanes: L, x: &[L::F; LEN]) -> L::F {
    let (min, max) = extremes(lanes, x, 0.0);
    let tie = max.equal(-min) & max.gt(lanes.splat(0.0));
    if tie.any() {
        return first_largest_lanes(lanes, x);
    }
    max.gt(-min).select(max, min)
}

struct Weighted<'a, const BITS: u32, const MIN: bool, const BYTES: usize> {
    rows: Rows<'a>,
    blocks: &'a mut [[u8; BYTES]],
}

impl<const BITS: u32, const MIN: bool, const BYTES: usize> Kernel for Weighted<'_, BITS, MIN, BYTES> {
    type Output = ();

    fn plain(self) {
        let per_row = self.rows.row_len() / LEN;
        for (row, out) in self.blocks.chunks_mut(per_row).enumerate() {
            let values = &self.rows.values()[row * self.rows.row_len()..][..self.rows.row_len()];
            let sigma2 = self.rows.mean_square().unwrap_or_else(|| mean_square(values));
            for (i, out) in out.iter_mut().enumerate() {
                *out = weighted::<BITS, MIN, BYTES>(&self.rows, row * per_row + i, sigma2);
            }
        }
    }

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // The search with a minimum has a dependency chain at each step; the one without keeps the CPU busy.
        if const { MIN && L::PAIRS_ARE_FASTER } { self.tiles(Twice(lanes)) } else { self.tiles(lanes) }
    }
}

impl<const BITS: u32, const MIN: bool, const BYTES: usize> Weighted<'_, BITS, MIN, BYTES> {
    #[inline(always)]
    fn tiles<L: Lanes>(self, lanes: L) {
        let Weighted { rows, blocks } = self;
        let per_row = rows.row_len() / LEN;
        let n_rows = blocks.len() / per_row;
        let mut last = None;
        // One row per lane: their sums are computed side by side, and the rows are still in the cache when they are encoded.
        for first_row in (0..n_rows).step_by(L::N) {
            let end_row = (first_row + L::N).min(n_rows);
            let sigma2 = match rows.mean_square() {
                Some(mean) => [mean; MAX_LANES],
                None => mean_squares(lanes, &rows, first_row, end_row),
            };
            for first in (first_row * per_row..end_row * per_row).step_by(L::N) {
                let tile = rows.tile::<LEN>(first, L::N, &mut last);
                let out = &mut blocks[first..first + tile.len];
                let mut lane_sigma2 = [0.0; MAX_LANES];
                let (mut row, mut column) = (first / per_row, first % per_row);
                for lane in 0..tile.len {
                    lane_sigma2[lane] = sigma2[row - first_row];
                    column += 1;
                    if column == per_row {
                        (row, column) = (row + 1, 0);
                    }
                }
                let valid = weighted_tile::<L, BITS, MIN, BYTES>(lanes, &tile, &lane_sigma2, out).to_bits();
                for (i, out) in out.iter_mut().enumerate() {
                    if valid >> i & 1 == 0 || lane_sigma2[i].is_nan() {
                        *out = weighted::<BITS, MIN, BYTES>(&rows, first + i, lane_sigma2[i]);
                    }
                }
            }
        }
    }
}

/// [`mean_square`] of some rows, at most one for each lane.
#[inline(always)]
fn mean_squares<L: Lanes>(lanes: L, rows: &Rows<'_>, first: usize, end: usize) -> [f32; MAX_LANES] {
    let per_row = rows.row_len() / LEN;
    let mut sum = lanes.splat(0.0);
    for column in 0..per_row {
        let mut parts = [rows.block::<LEN>(first * per_row); MAX_LANES];
        for lane in 0..L::N {
            parts[lane] = rows.block((first + lane).min(end - 1) * per_row + column);
        }
        let x = lanes.columns_apart::<LEN, LEN>(&parts, 0);
        for i in 0..LEN {
            sum = sum + x[i] * x[i];
        }
    }
    let mut means = [0.0; MAX_LANES];
    (sum / lanes.splat(rows.row_len() as f32)).store(&mut means);
    for (row, mean) in (first..end).zip(&mut means) {
        if mean.is_nan() {
            // Which of several NaNs a sum keeps is left to the reference.
            *mean = mean_square(&rows.values()[row * rows.row_len()..][..rows.row_len()]);
        }
    }
    means
}

/// [`weighted`] for one block per lane, and the lanes with a valid result.
#[inline(always)]
fn weighted_tile<L: Lanes, const BITS: u32, const MIN: bool, const BYTES: usize>(
    lanes: L,
    tile: &Tile<'_, LEN>,
    sigma2: &[f32; MAX_LANES],
    out: &mut [[u8; BYTES]],
) -> L::M {
    let sigma2 = lanes.load(sigma2);
    let x = lanes.columns_apart::<LEN, LEN>(&tile.values(), 0);
    let mut weights = [lanes.splat(0.0); LEN];
    if let Some(matrix) = &tile.weights() {
        weights = lanes.columns_apart::<LEN, LEN>(matrix, 0);
    }
    for i in 0..LEN {
        weights[i] = weights[i] * (sigma2 + x[i] * x[i]).sqrt();
    }
    let mut levels = [lanes.splat_i(0); LEN];
    if MIN {
        let fit = fit_min_lanes(lanes, search(BITS), &x, &weights);
        for i in 0..LEN {
            levels[i] = level(lanes, fit.iscale * (x[i] - fit.level_min), 0.0, highest(BITS) as f32).trunc();
        }
        pack_lanes::<L, BITS, MIN, BYTES>(lanes, fit.scale, -fit.min, &levels, out);
        fit.valid
    } else {
        let fit = fit_signed_lanes(lanes, middle(BITS), &x, &weights);
        for i in 0..LEN {
            levels[i] = fit.level(lanes, middle(BITS), x[i]).trunc();
        }
        pack_lanes::<L, BITS, MIN, BYTES>(lanes, fit.scale, fit.scale, &levels, out);
        fit.valid
    }
}
