//! The pairs of cuts that can be the best.
//!
//! The score of a pair of cuts is `X² / W`: `X` is the sum of the values times their levels, `W` that of the squared levels, both weighted. If
//! some pair is known to reach a score `t`, only pairs with `X² - t W >= 0` matter. Few do, and this is found with a fraction of the
//! operations of the scores. A group has one or two halves, each of which has its own side, `up` or `down`. For the first cut `f` and the
//! second cut `s`, let `x_f` be the sum of the weighted values below `f` and `w_f` that of their weights, and let `A` and `B` be the sums of the
//! whole group; with the sides `±` of its halves,
//!
//! ```text
//! X = A - x_f - x_s + Σ ± A_h / 8
//! W = Σ B_h (1 ± 1/8)² + w_f - w_s - Σ ± (w_f + w_s)_h / 4
//! ```
//!
//! so that, sorted by what depends on which cut and on which side,
//!
//! ```text
//! X² - t W = 2 x_f x_s
//!          + x_f² - 2 A x_f - t w_f  +  x_s² - 2 A x_s + t w_s
//!          + A² + Σ A_h² / 64 - t B 65/64
//!          + Σ ± (t (w_f + w_s - B)_h - A_h (x_f + x_s - A)) / 4  +  (± ±) A_0 A_1 / 32
//! ```
//!
//! The best sides are those with which the last line is largest: its sums and differences are magnitudes.

use super::{DELTA, Sorted};
use crate::lanes::{Floats, Ints, Lanes, Masks};

/// The smallest and the largest numbers for which the bounds hold: nothing that counts leaves the range of normal numbers.
const SMALL: f32 = 1e-30;
const LARGE_WEIGHT: f32 = 1e10;
const LARGE_VALUE: f32 = 1e6;
/// How far rounding can move `X² - t W`, ours and the one that a search compares, as a multiple of `D² + t B`, with `D` the sum of the
/// magnitudes of the weighted values. No sum of values exceeds `D`, and no sum of weights `B`. Adding up the roundings of each operation, ours
/// is off by at most `72 u`, with `u = 2⁻²⁴`; of the scores, `X` by at most `10 u D` and so its square by `23 u D²`, and `t W` by `13 u t B`.
const ALLOWANCE: f32 = 256.0 * f32::EPSILON / 2.0;
/// The same for the difference of `X² - t W` from what results if the sums are added up in another order, of up to 32 numbers each: `X` differs by
/// at most `140 u D`, so its square by `320 u D²`, and `t W` by `150 u t B`.
const SUMS: f32 = 400.0 * f32::EPSILON / 2.0;

/// The search of a sorted group for the best cuts, one group per lane.
pub(in super::super) struct Contest<L: Lanes, const CUTS: usize, const HALVES: usize> {
    /// The sums of the weighted values below each cut.
    pub sum_x: [[L::F; HALVES]; CUTS],
    /// The sums of their weights.
    pub sum_w: [[L::F; HALVES]; CUTS],
    /// A score from which the search may start; the lowest number where none is safe.
    pub start: L::F,
    x: [L::F; CUTS],
    /// What depends on the first cut only, with all that depends on none.
    first: [L::F; CUTS],
    /// What depends on the second cut only.
    second: [L::F; CUTS],
    /// What depends on one cut and on the sides of the halves; of two halves, with equal and with different sides.
    sides: [[L::F; HALVES]; CUTS],
    /// What depends on the sides only.
    of_sides: [L::F; HALVES],
    /// By how much two equal sides are better than different ones.
    equal_sides: L::F,
}

impl<L: Lanes, const CUTS: usize, const HALVES: usize> Contest<L, CUTS, HALVES> {
    /// Room for a contest.
    #[inline(always)]
    pub fn none(lanes: L) -> Contest<L, CUTS, HALVES> {
        let zero = lanes.splat(0.0);
        Contest {
            sum_x: [[zero; HALVES]; CUTS],
            sum_w: [[zero; HALVES]; CUTS],
            start: zero,
            x: [zero; CUTS],
            first: [zero; CUTS],
            second: [zero; CUTS],
            sides: [[zero; HALVES]; CUTS],
            of_sides: [zero; HALVES],
            equal_sides: zero,
        }
    }

    /// Opens the contest for a group, whose values are passed with their weights and sorted; with the largest magnitude, and the lanes that need
    /// no search.
    ///
    /// A search iterates over the cuts and keeps those better than the best so far; rounding decides between nearly equal ones, so the order
    /// matters. But it tries fewer than 1123 cuts, and rounding reaches across 2.4e-7 of a score. However the scores lie in the last 0.0003
    /// below the highest, two of them have a gap between them that is wider than that: scores above the gap replace all scores below it, and no
    /// score below it replaces them. So the scores below do not matter, and a search that starts there finds the same cuts as one that starts
    /// from nothing. The products of the numbers must not be denormal or infinite.
    #[inline(always)]
    pub fn open<const N: usize>(
        &mut self,
        lanes: L,
        values: (&[L::F; N], &[L::F; N]),
        sorted: &Sorted<L, N>,
        (max, idle): (L::F, L::M),
    ) {
        let magnitude = self.add_up(lanes, sorted);
        let zero = lanes.splat(0.0);
        let (all_x, all_w) = (self.sum_x[CUTS - 1], self.sum_w[CUTS - 1]);
        let (whole_x, whole_w) = (sum::<L, HALVES>(&all_x), sum::<L, HALVES>(&all_w));

        let score = reached_score(lanes, values, (&all_x, &all_w), magnitude);
        let small = lanes.splat(SMALL);
        let safe = score.ge(small)
            & (score * whole_w).ge(small)
            & whole_w.ge(small)
            & whole_w.le(lanes.splat(LARGE_WEIGHT))
            & max.le(lanes.splat(LARGE_VALUE));
        let start = score * lanes.splat(0.9997);
        self.start = safe.select(start, lanes.splat(f32::MIN));
        let t = safe.select(start, zero);

        let allowance = (magnitude * magnitude + t * whole_w) * lanes.splat(ALLOWANCE);
        let allowance = safe.select(allowance, lanes.splat(f32::INFINITY));
        let mut constant = whole_x * whole_x - t * whole_w * lanes.splat(65.0 / 64.0);
        let quarter = lanes.splat(0.25);
        let mut of_sides = [zero; HALVES];
        for h in 0..HALVES {
            constant = constant + all_x[h] * all_x[h] * lanes.splat(1.0 / 64.0);
            of_sides[h] = quarter * (all_x[h] * whole_x - t * all_w[h]);
        }
        self.of_sides = by_sides::<L, HALVES>(of_sides);
        if HALVES == 2 {
            let cross = all_x[0] * all_x[1] * lanes.splat(1.0 / 32.0);
            constant = constant + cross;
            self.equal_sides = cross + cross;
        }
        let constant = idle.select(lanes.splat(f32::NEG_INFINITY), constant + allowance);
        for j in 0..CUTS {
            let x = sum::<L, HALVES>(&self.sum_x[j]);
            let line = x * (x - (whole_x + whole_x));
            let w = t * sum::<L, HALVES>(&self.sum_w[j]);
            self.x[j] = x;
            self.first[j] = line - w + constant;
            self.second[j] = line + w;
            let mut sides = [zero; HALVES];
            for h in 0..HALVES {
                sides[h] = quarter * (t * self.sum_w[j][h] - all_x[h] * x);
            }
            self.sides[j] = by_sides::<L, HALVES>(sides);
        }
    }

    /// Adds up the sums below each cut, and returns the sum of the magnitudes of weighted values.
    #[inline(always)]
    fn add_up<const N: usize>(&mut self, lanes: L, sorted: &Sorted<L, N>) -> L::F {
        let zero = lanes.splat(0.0);
        let mut magnitude = zero;
        let (mut sum_x, mut sum_w) = ([zero; HALVES], [zero; HALVES]);
        for j in 0..N {
            let (w, wx) = (sorted.weights[j], sorted.weights[j] * sorted.x[j]);
            magnitude = magnitude + wx.abs();
            if HALVES == 2 {
                let second = sorted.order[j].gt(lanes.splat_i((N / 2) as i32 - 1));
                sum_x[0] = sum_x[0] + second.select(zero, wx);
                sum_w[0] = sum_w[0] + second.select(zero, w);
                sum_x[1] = sum_x[1] + second.select(wx, zero);
                sum_w[1] = sum_w[1] + second.select(w, zero);
            } else {
                sum_x[0] = sum_x[0] + wx;
                sum_w[0] = sum_w[0] + w;
            }
            self.sum_x[j + 1] = sum_x;
            self.sum_w[j + 1] = sum_w;
        }
        magnitude
    }

    /// The second cuts, a bit for each, that can be the best with this first cut in some lane.
    #[inline(always)]
    pub fn seconds(&self, lanes: L, first: usize) -> u64 {
        let zero = lanes.splat(0.0);
        let mut seconds = 0;
        for second in first..CUTS {
            // NaN can be the best.
            seconds |= u64::from((!self.excess(first, second).lt(zero)).any()) << second;
        }
        seconds
    }

    /// At least `X² - t W` for the best sides.
    #[inline(always)]
    fn excess(&self, first: usize, second: usize) -> L::F {
        let mut sides = (self.sides[first][0] + self.of_sides[0] + self.sides[second][0]).abs();
        if HALVES == 2 {
            let different = (self.sides[first][1] + self.of_sides[1] + self.sides[second][1]).abs();
            sides = (different - self.equal_sides).max(sides);
        }
        let product = (self.x[first] + self.x[first]) * self.x[second];
        product + (self.first[first] + self.second[second]) + sides
    }
}

/// The sum over the halves.
#[inline(always)]
fn sum<L: Lanes, const HALVES: usize>(of: &[L::F; HALVES]) -> L::F {
    if HALVES == 2 { of[0] + of[1] } else { of[0] }
}

/// What the halves add if their sides are equal, and if they are different.
#[inline(always)]
fn by_sides<L: Lanes, const HALVES: usize>(mut of: [L::F; HALVES]) -> [L::F; HALVES] {
    if HALVES == 2 {
        (of[0], of[1]) = (of[0] + of[1], of[0] - of[1]);
    }
    of
}

/// A score that is reached by cuts at values instead of positions: those of levels that are nearest for a scale, first for one from the mean
/// square, then for the one that fits the levels. More turns raise the score by less than they cost.
#[inline(always)]
fn reached_score<L: Lanes, const N: usize, const HALVES: usize>(
    lanes: L,
    (x, weights): (&[L::F; N], &[L::F; N]),
    (all_x, all_w): (&[L::F; HALVES], &[L::F; HALVES]),
    magnitude: L::F,
) -> L::F {
    let zero = lanes.splat(0.0);
    let mut sum_x2 = zero;
    for i in 0..N {
        sum_x2 = sum_x2 + weights[i] * x[i] * x[i];
    }
    // Of the normal distribution, whose best cuts are then at 0.61.
    let mut scale = (sum_x2 / sum::<L, HALVES>(all_w)).sqrt() * lanes.splat(1.22);
    let mut delta = zero;
    let (mut best_x, mut best_w) = (zero, lanes.splat(1.0));
    for _ in 0..2 {
        let (first, second) = (scale * (delta - lanes.splat(0.5)), scale * (delta + lanes.splat(0.5)));
        let (mut below_x, mut below_w) = ([[zero; 2]; HALVES], [[zero; 2]; HALVES]);
        for i in 0..N {
            let h = i / (N / HALVES);
            let wx = weights[i] * x[i];
            let below = [x[i].le(first), x[i].le(second)];
            for cut in 0..2 {
                below_x[h][cut] = below_x[h][cut] + below[cut].select(wx, zero);
                below_w[h][cut] = below_w[h][cut] + below[cut].select(weights[i], zero);
            }
        }
        let (mut of_x, mut of_w) = ([[zero; 2]; HALVES], [[zero; 2]; HALVES]);
        for h in 0..HALVES {
            let x = below_x[h][0] + below_x[h][1];
            for side in 0..2 {
                let delta = [DELTA, -DELTA][side];
                let up = 1.0 + delta;
                of_x[h][side] = all_x[h] * lanes.splat(up) - x;
                of_w[h][side] = all_w[h] * lanes.splat(up * up) + below_w[h][0] * lanes.splat(1.0 - 2.0 * delta)
                    - below_w[h][1] * lanes.splat(1.0 + 2.0 * delta);
            }
        }
        (best_x, best_w) = (zero, lanes.splat(1.0));
        for kind in 0..1 << HALVES {
            let (mut x, mut w, mut mean) = (of_x[0][kind % 2], of_w[0][kind % 2], [DELTA, -DELTA][kind % 2]);
            if HALVES == 2 {
                x = x + of_x[1][kind / 2];
                w = w + of_w[1][kind / 2];
                mean = (mean + [DELTA, -DELTA][kind / 2]) / 2.0;
            }
            let higher = (x * x * best_w).gt(best_x * best_x * w);
            best_x = higher.select(x, best_x);
            best_w = higher.select(w, best_w);
            delta = higher.select(lanes.splat(mean), delta);
        }
        // The first cut stays below the second one.
        scale = (best_x / best_w).abs();
    }
    let square = best_x * best_x;
    let magnitudes = magnitude * magnitude + square / best_w * sum::<L, HALVES>(all_w);
    (square - magnitudes * lanes.splat(SUMS)) / best_w
}

#[cfg(test)]
mod tests {
    use super::super::sorted_lanes;
    use super::*;
    use crate::codec::{iq1_m, iq1_s};
    use crate::lanes::MAX_LANES;
    use crate::lanes::arrays::Arrays;
    use gguf_test::random::Random;

    /// The sums of the reference for two cuts and the sides of the halves, from the sums below each cut.
    type Sums<const CUTS: usize, const HALVES: usize> =
        fn(&[[f32; HALVES]; CUTS], &[[f32; HALVES]; CUTS], (usize, usize), [f32; HALVES]) -> (f32, f32);

    fn sums_of_32(x: &[[f32; 1]; 33], w: &[[f32; 1]; 33], cuts: (usize, usize), [side]: [f32; 1]) -> (f32, f32) {
        iq1_s::sums((&x.map(|[x]| x), &w.map(|[w]| w)), cuts, side)
    }

    fn sums_of_16(x: &[[f32; 2]; 17], w: &[[f32; 2]; 17], cuts: (usize, usize), sides: [f32; 2]) -> (f32, f32) {
        let halves = |of: &[[f32; 2]; 17]| [of.map(|[a, _]| a), of.map(|[_, b]| b)];
        iq1_m::sums((&halves(x), &halves(w)), cuts, sides)
    }

    fn first_lane(of: <Arrays as Lanes>::F) -> f32 {
        let mut lanes = [0.0; MAX_LANES];
        of.store(&mut lanes);
        lanes[0]
    }

    /// What rounding did in one contest.
    #[derive(Default, Debug, Clone, Copy)]
    struct Off {
        /// To the excess of pairs, as a multiple of `u (D² + t B)`.
        ours: f64,
        /// To what the reference compares, as such a multiple.
        reference: f64,
        /// The score from which the search starts, as a part of the highest.
        start: f64,
    }

    /// Opens a contest and checks that it admits every pair of cuts that is better for the reference than the score from which it starts.
    fn off<const N: usize, const CUTS: usize, const HALVES: usize>(
        (x, weights): (&[f32; N], &[f32; N]),
        reference: Sums<CUTS, HALVES>,
    ) -> Off {
        let (lanes_x, lanes_w) = (x.map(|x| Arrays.splat(x)), weights.map(|w| Arrays.splat(w)));
        let sorted = sorted_lanes(Arrays, &lanes_x, &lanes_w);
        let mut contest = Contest::<Arrays, CUTS, HALVES>::none(Arrays);
        let max = x.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
        contest.open(Arrays, (&lanes_x, &lanes_w), &sorted, (Arrays.splat(max), Arrays.mask(0)));
        let (start, sum_x, sum_w) = (
            first_lane(contest.start),
            contest.sum_x.map(|halves| halves.map(first_lane)),
            contest.sum_w.map(|halves| halves.map(first_lane)),
        );
        let safe = start > f32::MIN;
        let t = if safe { f64::from(start) } else { 0.0 };
        let d: f64 = x.iter().zip(weights).map(|(&x, &w)| f64::from(x.abs()) * f64::from(w)).sum();
        let b: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let magnitudes = d * d + t * b;
        let unit = f64::from(f32::EPSILON) / 2.0 * magnitudes;

        let mut off = Off::default();
        let mut highest = 0.0f64;
        for first in 0..CUTS {
            let seconds = contest.seconds(Arrays, first);
            for second in first..CUTS {
                let mut best = f64::MIN;
                for kind in 0..1 << HALVES {
                    let (mut qx, mut q2) = (0.0, 0.0);
                    let mut sides = [DELTA; HALVES];
                    for h in 0..HALVES {
                        sides[h] = [DELTA, -DELTA][kind >> h & 1];
                        let side = f64::from(sides[h]);
                        let [[x1, w1], [x2, w2], [all_x, all_w]] =
                            [first, second, N].map(|j| [f64::from(sum_x[j][h]), f64::from(sum_w[j][h])]);
                        qx += all_x * (1.0 + side) - x1 - x2;
                        q2 += all_w * (1.0 + side).powi(2) + w1 * (1.0 - 2.0 * side) - w2 * (1.0 + 2.0 * side);
                    }
                    let excess = qx * qx - t * q2;
                    best = best.max(excess);
                    let (ref_x, ref_2) = reference(&sum_x, &sum_w, (first, second), sides);
                    let better = ref_x * ref_x > start * ref_2;
                    assert!(!better || seconds >> second & 1 == 1, "cuts {first}, {second} of {x:?}, {weights:?}");
                    let ref_excess = f64::from(ref_x * ref_x) - f64::from(start.max(0.0) * ref_2);
                    off.reference = off.reference.max((ref_excess - excess).abs() / unit);
                    if ref_2 > 0.0 {
                        highest = highest.max(f64::from(ref_x) * f64::from(ref_x) / f64::from(ref_2));
                    }
                }
                let ours = f64::from(first_lane(contest.excess(first, second))) - f64::from(ALLOWANCE) * magnitudes;
                off.ours = off.ours.max((ours - best).abs() / unit);
            }
        }
        off.start = t / highest;
        if safe { off } else { Off::default() }
    }

    /// The largest of each over a search for bad cases that changes one number at a time.
    fn worst<const N: usize, const CUTS: usize, const HALVES: usize>(reference: Sums<CUTS, HALVES>) -> Off {
        let mut random = Random::new("contests", N as u64);
        let mut worst = Off::default();
        for round in 0..120 {
            let scale = [1.0, 1e-12, 1e5][round % 3];
            let value = |random: &mut Random| match random.below(8) {
                0 => 0.0,
                1 => scale,
                2 => -scale * 1e-3,
                _ => scale * (2.0 * random.unit() - 1.0),
            };
            let weight = |random: &mut Random| match random.below(8) {
                0 => 0.0,
                1 => 1e-6 * random.unit(),
                2 => 100.0,
                _ => random.unit(),
            };
            let mut x: [f32; N] = core::array::from_fn(|_| value(&mut random));
            let mut weights: [f32; N] = core::array::from_fn(|_| weight(&mut random));
            // In turn: each of the three; and values of one sign, which fit the middle level and so have a small sum of squares.
            let goal = round % 5;
            let mut best = f64::MIN;
            for turn in 0..150 {
                let (old_x, old_weights) = (x, weights);
                if turn > 0 {
                    let i = random.below(N);
                    x[i] = value(&mut random);
                    weights[i] = weight(&mut random);
                }
                if goal > 2 {
                    x = x.map(|x| if goal == 3 { x.abs() } else { -x.abs() });
                }
                let off = off((&x, &weights), reference);
                worst.ours = worst.ours.max(off.ours);
                worst.reference = worst.reference.max(off.reference);
                worst.start = worst.start.max(off.start);
                let found = [off.ours, off.reference, off.start][goal.min(2)];
                if found > best {
                    best = found;
                } else {
                    (x, weights) = (old_x, old_weights);
                }
            }
        }
        worst
    }

    #[test]
    fn contests_admit_the_best_cuts() {
        for worst in [worst::<32, 33, 1>(sums_of_32), worst::<16, 17, 2>(sums_of_16)] {
            assert!(worst.ours > 4.0 && worst.ours < 72.0, "{worst:?}");
            assert!(worst.reference > 3.0 && worst.reference < 36.0, "{worst:?}");
            assert!(worst.start > 0.99 && worst.start < 0.9997, "{worst:?}");
        }
    }
}
