//! Shared code of Q2_K, Q3_K and Q6_K: a super-block of sixteen groups of 16.

use super::words::word;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Tile;
use crate::search::{level, nearest_int};

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// Values in a group.
pub(super) const GROUP: usize = 16;
/// Groups in a super-block.
pub(super) const GROUPS: usize = LEN / GROUP;
/// The words of 32 values of one byte each.
pub(super) const WORDS: usize = 8;

/// Levels of a scaled group, offset by `top`; without a scale, the levels of the search are kept.
pub(super) fn levels_of_scale(d: f32, top: i32, x: &[f32], levels: &mut [u8]) {
    if d == 0.0 {
        return;
    }
    for (level, x) in levels.iter_mut().zip(x) {
        *level = (nearest_int(x / d).min(top - 1).max(-top) + top) as u8;
    }
}

/// [`levels_of_scale`] for one group per lane, as words of a byte each: the levels if there is a scale, and the lanes where they are valid.
#[inline(always)]
pub(super) fn levels_of_scale_lanes<L: Lanes>(lanes: L, d: L::F, top: i32, x: &[L::F; GROUP]) -> ([L::I; 4], L::M) {
    let top = top as f32;
    let mut largest = lanes.splat(0.0);
    let mut levels = [lanes.splat_i(0); GROUP];
    for i in 0..GROUP {
        let wish = x[i] / d;
        largest = largest.max(wish.abs());
        levels[i] = (level(lanes, wish, -top, top - 1.0) + lanes.splat(top)).trunc();
    }
    (words::<L>(&levels), largest.le(lanes.splat(4194303.0)))
}

/// The values of one group of each lane, or their weights.
#[inline(always)]
pub(super) fn columns<L: Lanes>(lanes: L, rows: &[&[f32; LEN]; MAX_LANES], group: usize) -> [L::F; GROUP] {
    lanes.columns_apart::<LEN, GROUP>(rows, group)
}

/// The sum of the squares of each lane's values, in their order.
#[inline(always)]
pub(super) fn sum_of_squares<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>) -> L::F {
    let values = tile.values();
    let mut sum = lanes.splat(0.0);
    for g in 0..GROUPS {
        let x = columns(lanes, &values, g);
        for i in 0..GROUP {
            sum = sum + x[i] * x[i];
        }
    }
    sum
}

/// Half-precision numbers, of each lane, in single precision.
#[inline(always)]
pub(super) fn from_half<L: Lanes>(lanes: L, halves: L::I) -> L::F {
    let mut words = [0; MAX_LANES];
    halves.store(&mut words);
    let mut bytes = [0; 2 * MAX_LANES];
    for lane in 0..L::N {
        bytes[2 * lane..2 * lane + 2].copy_from_slice(&(words[lane] as u16).to_le_bytes());
    }
    lanes.load_half(&bytes)
}

/// Sixteen levels as four words of a byte each.
#[inline(always)]
pub(super) fn words<L: Lanes>(levels: &[L::I; GROUP]) -> [L::I; 4] {
    let mut out = [levels[0]; 4];
    for w in 0..4 {
        out[w] = word::<L>([levels[4 * w], levels[4 * w + 1], levels[4 * w + 2], levels[4 * w + 3]]);
    }
    out
}

/// [`words`] of levels that are whole numbers.
#[inline(always)]
pub(super) fn words_of_numbers<L: Lanes>(lanes: L, levels: &[L::F; GROUP]) -> [L::I; 4] {
    let mut whole = [lanes.splat_i(0); GROUP];
    for i in 0..GROUP {
        whole[i] = levels[i].trunc();
    }
    words::<L>(&whole)
}

/// The words selected by the mask.
#[inline(always)]
pub(super) fn select<L: Lanes>(mask: L::M, yes: &[L::I; 4], no: &[L::I; 4]) -> [L::I; 4] {
    let mut out = *no;
    for w in 0..4 {
        out[w] = mask.select_i(yes[w], no[w]);
    }
    out
}

/// Two bits of each level of four runs of 32, side by side, the first run lowest.
#[inline(always)]
pub(super) fn pairs_of_bits<L: Lanes>(lanes: L, runs: &[[L::I; WORDS]; 4]) -> [L::I; WORDS] {
    let two = lanes.splat_i(0x0303_0303);
    let mut out = runs[0];
    for w in 0..WORDS {
        out[w] = runs[0][w] & two
            | (runs[1][w] & two).shl::<2>()
            | (runs[2][w] & two).shl::<4>()
            | (runs[3][w] & two).shl::<6>();
    }
    out
}
