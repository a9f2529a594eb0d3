//! What MXFP4 and NVFP4 share: sixteen levels, which are twice the numbers of the 4-bit float E2M1.
//!
//! Index `i` and `i + 8` are one magnitude, the second of them negative; index 8 is zero again.
//!
//! Rules: `kvalues_fp4` in `ggml-common.h`; `best_index_mxfp4` in `ggml-quants.c`.

use crate::lanes::{Floats, Ints, Lanes, Masks};

/// The levels (`kvalues_fp4`).
pub(super) const LEVELS: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// The index whose level times `d` misses `x` by least: the first of those that miss it by the same, and the first of all when
/// that cannot be said.
pub(super) fn best_index(x: f32, d: f32) -> u8 {
    let (mut best, mut least) = (0, (LEVELS[0] * d - x).abs());
    for (i, level) in LEVELS.iter().enumerate() {
        let miss = (level * d - x).abs();
        if miss < least {
            (best, least) = (i, miss);
        }
    }
    best as u8
}

/// Half way between one magnitude and the next.
const MIDDLES: [f32; 7] = [0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0];

/// [`best_index`] for a scale of at most four significant bits, and `|x|` at most 2²⁰ times the scale: how many of the middles
/// times the scale `|x|` is above, and the sign.
///
/// Why that is the same. The middles times such a scale are exact. Between two neighbouring magnitudes the differences to both
/// are exact, or the larger one is rounded and stays larger: so the nearer one wins, and the lower one in the middle, whose
/// index comes first. A third magnitude is farther by at least the scale, which is more than the rounding of its difference.
/// Zero is index 0, never 8.
///
/// `middles` are [`middles`] of the scale.
#[inline(always)]
pub(super) fn index<L: Lanes>(lanes: L, x: L::F, middles: &[L::F; 7]) -> L::I {
    let (zero, one) = (lanes.splat_i(0), lanes.splat_i(1));
    let magnitude = x.abs();
    let mut index = magnitude.gt(middles[0]).select_i(one, zero);
    let mut sign = x.bits().shr::<31>().shl::<3>();
    sign = magnitude.gt(middles[0]).select_i(sign, zero);
    for middle in &middles[1..] {
        index = index + magnitude.gt(*middle).select_i(one, zero);
    }
    index | sign
}

/// The middles times the scale.
#[inline(always)]
pub(super) fn middles<L: Lanes>(lanes: L, d: L::F) -> [L::F; 7] {
    let mut middles = [d; 7];
    for i in 0..7 {
        middles[i] = d * lanes.splat(MIDDLES[i]);
    }
    middles
}
