//! Shared code of MXFP4 and NVFP4: sixteen levels, twice the values of the 4-bit float E2M1.
//!
//! Indexes `i` and `i + 8` have the same magnitude, the second with a negative sign; index 8 is zero as well.
//!
//! Rules: `kvalues_fp4` in `ggml-common.h`; `best_index_mxfp4` in `ggml-quants.c`.

use crate::lanes::{Floats, Ints, Lanes, Masks};

/// The levels (`kvalues_fp4`).
pub(super) const LEVELS: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// The index whose level times `d` is nearest to `x`: the first of equally near ones, and the first of all if a difference is NaN.
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

/// The midpoints between neighbouring magnitudes.
const MIDDLES: [f32; 7] = [0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0];

/// [`best_index`] for a scale of at most four significant bits, and `|x|` at most 2²⁰ times the scale: the number of scaled midpoints below
/// `|x|`, and the sign.
///
/// Proof of equality: the midpoints times such a scale are exact. Between two neighbouring magnitudes the differences to both are exact, or
/// the larger one is rounded and remains larger; so the nearer one wins, and at the midpoint the lower one, whose index comes first. A
/// third magnitude is farther by at least the scale, which exceeds the rounding error of its difference. Zero is index 0, never 8.
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

/// The midpoints times the scale.
#[inline(always)]
pub(super) fn middles<L: Lanes>(lanes: L, d: L::F) -> [L::F; 7] {
    let mut middles = [d; 7];
    for i in 0..7 {
        middles[i] = d * lanes.splat(MIDDLES[i]);
    }
    middles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Isa, Kernel};
    use crate::lanes::MAX_LANES;
    use crate::lanes::arrays::Arrays;

    /// [`index`] of every value, on the lanes of the caller.
    struct Index<'a>(&'a [[f32; MAX_LANES]], f32);
    impl Kernel for Index<'_> {
        type Output = Vec<u8>;
        fn plain(self) -> Vec<u8> {
            self.run(Arrays)
        }
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<u8> {
            let middles = middles(lanes, lanes.splat(self.1));
            let mut out = Vec::new();
            for values in self.0 {
                for i in (0..MAX_LANES).step_by(L::N) {
                    let mut bytes = [0; MAX_LANES];
                    index(lanes, lanes.load(&values[i..]), &middles).store_u8(&mut bytes);
                    out.extend(&bytes[..L::N]);
                }
            }
            out
        }
    }

    /// Scales of four significant bits over the whole range; values around every midpoint and level, at zero, and far above.
    #[test]
    fn the_index_is_that_of_the_nearest_level() {
        let exponents = [-133, -126, -100, -10, -1, 0, 1, 8, 90, 101];
        for d in exponents.iter().flat_map(|e| (8..16).map(move |m| m as f32 * 2f64.powi(*e) as f32)) {
            let mut values = vec![0.0, -0.0, 5000.0 * d, 1e6 * d, 1048575.0 * d];
            for factor in MIDDLES.into_iter().chain(LEVELS) {
                let bits = (factor * d).to_bits() & 0x7fff_ffff;
                values.extend([bits.saturating_sub(1), bits, bits + 1, bits + 2].map(f32::from_bits));
            }
            values = values.iter().flat_map(|x| [*x, -x]).collect();
            values.resize(values.len().next_multiple_of(MAX_LANES), d);
            let expected: Vec<u8> = values.iter().map(|x| best_index(*x, d)).collect();
            for isa in Isa::available() {
                assert_eq!(isa.run(Index(values.as_chunks().0, d)), expected, "{d:e} {isa}");
            }
        }
    }

    /// The cases left to the scalar search: several levels have the same difference, or it is NaN.
    #[test]
    fn the_first_of_equals_wins() {
        assert_eq!([best_index(f32::INFINITY, 1.0), best_index(f32::NAN, 1.0), best_index(1e30, 1.0)], [0, 0, 0]);
        assert_eq!(
            [best_index(-0.0, 1.0), best_index(0.5, 1.0), best_index(-1.5, 1.0), best_index(3.0, 0.0)],
            [0, 0, 9, 0]
        );
        // Eight and twelve times the scale overflow.
        assert_eq!(best_index(f32::MAX, 2f32.powi(125)), 5);
    }
}
