//! What Q2_K, Q3_K and Q6_K have in common: a super-block of sixteen groups of 16.

use super::k_min::word;
use crate::float::f16_to_f32_ggml;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::part;
use crate::search::{LaneScale, level, nearest_int};

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// Values in a group.
pub(super) const GROUP: usize = 16;
/// Groups in a super-block.
pub(super) const GROUPS: usize = LEN / GROUP;
/// The words of 32 values of one byte each.
pub(super) const WORDS: usize = 8;

/// Levels of a scaled group, moved up by `top`: where there is no scale, the search's stay.
pub(super) fn levels_of_scale(d: f32, top: i32, x: &[f32], levels: &mut [u8]) {
    if d == 0.0 {
        return;
    }
    for (level, x) in levels.iter_mut().zip(x) {
        *level = (nearest_int(x / d).min(top - 1).max(-top) + top) as u8;
    }
}

/// [`levels_of_scale`] for one group per lane: the levels, and for which lanes they are right.
#[inline(always)]
pub(super) fn levels_of_scale_lanes<L: Lanes>(
    lanes: L,
    d: L::F,
    top: i32,
    x: &[L::F; GROUP],
    search: &LaneScale<L>,
) -> ([L::I; GROUP], L::M) {
    let whole_top = top;
    let top = top as f32;
    let unscaled = d.equal(lanes.splat(0.0));
    let keep_search = unscaled.any();
    let mut largest = lanes.splat(0.0);
    let mut levels = [lanes.splat_i(0); GROUP];
    for i in 0..GROUP {
        let wish = x[i] / d;
        largest = largest.max(wish.abs());
        let mut l = level(lanes, wish, -top, top - 1.0) + lanes.splat(top);
        if keep_search {
            l = unscaled.select(search.level(lanes, whole_top, x[i]), l);
        }
        levels[i] = l.trunc();
    }
    (levels, unscaled | largest.le(lanes.splat(4194303.0)))
}

/// The values of one group of each lane, or their weights.
#[inline(always)]
pub(super) fn columns<L: Lanes>(lanes: L, rows: &[&[f32; LEN]; MAX_LANES], group: usize) -> [L::F; GROUP] {
    lanes.columns::<GROUP>(&part(rows, group))
}

/// Half-precision scales as numbers, of each lane.
#[inline(always)]
pub(super) fn numbers<L: Lanes>(lanes: L, halves: &[u16; MAX_LANES]) -> L::F {
    let mut d = [0.0; MAX_LANES];
    for lane in 0..L::N {
        d[lane] = f16_to_f32_ggml(halves[lane]);
    }
    lanes.load(&d)
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

/// Writes words, from a place on, into each lane's block.
#[inline(always)]
pub(super) fn put<L: Lanes, const BYTES: usize, const N: usize>(out: &mut [[u8; BYTES]], at: usize, words: &[L::I; N]) {
    let mut lane_words = [[0; MAX_LANES]; N];
    for w in 0..N {
        words[w].store(&mut lane_words[w]);
    }
    for (lane, out) in out.iter_mut().enumerate() {
        for w in 0..N {
            out[at + 4 * w..at + 4 * w + 4].copy_from_slice(&lane_words[w][lane].to_le_bytes());
        }
    }
}
