//! The scale searches shared by several types: for a group of weights, they find the scale (and minimum) with the smallest error.
//!
//! Each search is implemented twice. The scalar reference takes one group and follows ggml's order of operations (`make_qkx2_quants`,
//! `make_qkx3_quants`, `make_qp_quants`, … in `ggml-quants.c`), which makes the bytes equal. The one over [`Lanes`] does the same for one
//! group per lane.
//!
//! A lane search is valid for ordinary numbers. Where a product leaves the range in which rounding by addition is exact, it clears the lane
//! in a mask, and the caller encodes those blocks with the reference.

use core::ops::Range;

use crate::lanes::{Floats, Lanes, Masks, Part};

/// Adding it to a number of magnitude up to 2²² leaves the nearest integer (ties to even) in the low bits: 1.5 · 2²³.
pub(crate) const ROUND: f32 = 12582912.0;

/// The nearest integer, ties to even, for magnitudes up to 2²²; beyond, the low bits of the sum (`nearest_int`).
#[inline(always)]
pub(crate) fn nearest_int(x: f32) -> i32 {
    ((x + ROUND).to_bits() & 0x007f_ffff) as i32 - 0x0040_0000
}

/// The parameters of a search with a minimum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinSearch {
    /// The highest level; the lowest is 0.
    pub levels: i32,
    /// The first step's distance from `levels`.
    pub first: f32,
    /// The distance from one step to the next.
    pub step: f32,
    /// The number of the last step.
    pub last: i32,
    /// Whether the error is the sum of magnitudes instead of squares.
    pub absolute: bool,
}

impl MinSearch {
    /// The distance of a step's highest product from the highest level.
    #[inline(always)]
    fn offset(&self, step: i32) -> f32 {
        self.first + self.step * step as f32
    }
}

/// The result of a search with a minimum: a value is about `scale * level - min`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    /// The scale, zero for a group that is constant.
    pub scale: f32,
    /// The negated minimum.
    pub min: f32,
}

/// The scale and minimum for one group, and its levels (`make_qkx2_quants`; `make_qkx3_quants` differs only if the maximum is not above the
/// minimum, which requires a NaN).
pub(crate) fn fit_min(search: MinSearch, x: &[f32], weights: &[f32], levels: &mut [u8]) -> Fit {
    let n = x.len();
    let top = search.levels;
    let level = |iscale: f32, min: f32, x: f32| nearest_int(iscale * (x - min)).min(top).max(0);
    let miss = |scale: f32, l: i32, min: f32, x: f32| {
        let d = scale * l as f32 + min - x;
        if search.absolute { d.abs() } else { d * d }
    };

    let (mut min, mut max) = (x[0], x[0]);
    let mut sum_w = weights[0];
    let mut sum_x = sum_w * x[0];
    for i in 1..n {
        if x[i] < min {
            min = x[i];
        }
        if x[i] > max {
            max = x[i];
        }
        sum_w += weights[i];
        sum_x += weights[i] * x[i];
    }
    if min > 0.0 {
        min = 0.0;
    }
    if max <= min {
        levels.fill(0);
        return Fit { scale: 0.0, min: -min };
    }

    let iscale = top as f32 / (max - min);
    let mut scale = 1.0 / iscale;
    let mut best = 0.0;
    for i in 0..n {
        let l = level(iscale, min, x[i]);
        levels[i] = l as u8;
        best += weights[i] * miss(scale, l, min, x[i]);
    }

    let mut tried = [0u8; 32];
    for step in 0..=search.last {
        let iscale = (search.first + search.step * step as f32 + top as f32) / (max - min);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let l = level(iscale, min, x[i]);
            tried[i] = l as u8;
            let wl = weights[i] * l as f32;
            sum_l += wl;
            sum_l2 += wl * l as f32;
            sum_xl += wl * x[i];
        }
        let det = sum_w * sum_l2 - sum_l * sum_l;
        if det > 0.0 {
            let mut this_scale = (sum_w * sum_xl - sum_x * sum_l) / det;
            let mut this_min = (sum_l2 * sum_x - sum_l * sum_xl) / det;
            if this_min > 0.0 {
                this_min = 0.0;
                this_scale = sum_xl / sum_l2;
            }
            let mut error = 0.0;
            for i in 0..n {
                error += weights[i] * miss(this_scale, i32::from(tried[i]), this_min, x[i]);
            }
            if error < best {
                levels.copy_from_slice(&tried[..n]);
                best = error;
                scale = this_scale;
                min = this_min;
            }
        }
    }
    Fit { scale, min: -min }
}

/// The scale for one group of non-negative numbers, and their levels from 0 to `top` (`make_qp_quants`).
pub(crate) fn fit_positive(top: i32, x: &[f32], weights: &[f32], levels: &mut [u8]) -> f32 {
    let n = x.len();
    let mut max = 0.0;
    for &x in x {
        max = if max > x { max } else { x };
    }
    if max < GROUP_MAX_EPS {
        levels.fill(0);
        return 0.0;
    }
    let mut iscale = top as f32 / max;
    let scale = 1.0 / iscale;
    let mut best = 0.0;
    for i in 0..n {
        let l = nearest_int(iscale * x[i]) as u8;
        let d = x[i] - scale * f32::from(l);
        best += weights[i] * d * d;
    }
    for step in (-4..=4).filter(|&s| s != 0) {
        let this_iscale = (0.1 * step as f32 + top as f32) / max;
        let this_scale = 1.0 / this_iscale;
        let mut error = 0.0;
        for i in 0..n {
            let l = nearest_int(this_iscale * x[i]).min(top);
            let d = x[i] - this_scale * l as f32;
            error += weights[i] * d * d;
        }
        if error < best {
            best = error;
            iscale = this_iscale;
        }
    }

    let (mut sum_lx, mut sum_l2) = (0.0, 0.0);
    for i in 0..n {
        let l = nearest_int(iscale * x[i]).min(top);
        levels[i] = l as u8;
        sum_lx += weights[i] * x[i] * l as f32;
        sum_l2 += weights[i] * l as f32 * l as f32;
    }
    // Each level in turn is moved to its optimum given the others, until nothing improves.
    for _ in 0..5 {
        let mut changed = false;
        for i in 0..n {
            let (w, l) = (weights[i], f32::from(levels[i]));
            let mut without_lx = sum_lx - w * x[i] * l;
            let mut without_l2 = sum_l2 - w * l * l;
            if without_lx > 0.0 && without_l2 > 0.0 {
                let new = nearest_int(x[i] * without_l2 / without_lx).min(top);
                if new != i32::from(levels[i]) {
                    without_lx += w * x[i] * new as f32;
                    without_l2 += w * new as f32 * new as f32;
                    if without_lx * without_lx * sum_l2 > sum_lx * sum_lx * without_l2 {
                        levels[i] = new as u8;
                        sum_lx = without_lx;
                        sum_l2 = without_l2;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }
}

/// Groups whose largest magnitude is below this are all zero (`GROUP_MAX_EPS`).
pub(crate) const GROUP_MAX_EPS: f32 = 1e-15;

/// Rounds to the nearest integer, ties to even, and clamps to `low..=high`.
#[inline(always)]
pub(crate) fn level<L: Lanes>(lanes: L, x: L::F, low: f32, high: f32) -> L::F {
    // The clamp precedes the subtraction: sums are exact integers there.
    let sum = x + lanes.splat(ROUND);
    sum.min(lanes.splat(ROUND + high)).max(lanes.splat(ROUND + low)) - lanes.splat(ROUND)
}

/// Whether rounding by addition equals [`nearest_int`] for both numbers, and so for all between them.
#[inline(always)]
pub(crate) fn roundable<L: Lanes>(lanes: L, a: L::F, b: L::F) -> L::M {
    let limit = lanes.splat(4194303.0);
    a.abs().le(limit) & b.abs().le(limit)
}

/// The result of a lane search with a minimum.
pub(crate) struct LaneFit<L: Lanes> {
    /// The scales.
    pub scale: L::F,
    /// The negated minima.
    pub min: L::F,
    /// The inverse scale of the levels: a level is `level(iscale * (x - level_min))`. Zero for constant groups.
    pub iscale: L::F,
    /// See `iscale`.
    pub level_min: L::F,
    /// Lanes with a valid result.
    pub valid: L::M,
}

/// [`fit_min`] for one group per lane.
#[inline(always)]
pub(crate) fn fit_min_lanes<L: Lanes, const N: usize>(
    lanes: L,
    search: MinSearch,
    x: &[L::F; N],
    weights: &[L::F; N],
) -> LaneFit<L> {
    lanes.call(FitMin { search, x, weights })
}

struct FitMin<'a, L: Lanes, const N: usize> {
    search: MinSearch,
    x: &'a [L::F; N],
    weights: &'a [L::F; N],
}

impl<L: Lanes, const N: usize> Part<L> for FitMin<'_, L, N> {
    type Output = LaneFit<L>;

    #[inline(always)]
    fn run(self, lanes: L) -> LaneFit<L> {
        let FitMin { search, x, weights } = self;
        let zero = lanes.splat(0.0);
        let one = lanes.splat(1.0);
        let top = search.levels as f32;

        let (mut min, mut max) = (x[0], x[0]);
        let mut sum_w = weights[0];
        let mut sum_x = sum_w * x[0];
        for i in 1..N {
            min = x[i].min(min);
            max = x[i].max(max);
            sum_w = sum_w + weights[i];
            sum_x = sum_x + weights[i] * x[i];
        }
        // The smallest value remains the smallest, regardless of the minimum that the search chooses.
        let smallest = min;
        min = min.gt(zero).select(zero, min);
        let constant = max.le(min);

        let level_iscale = lanes.splat(top) / (max - min);
        let level_min = min;
        let scale = one / level_iscale;
        let mut best = zero;
        let valid = roundable(lanes, level_iscale * (max - min), level_iscale * (smallest - min));
        for i in 0..N {
            let l = level(lanes, level_iscale * (x[i] - min), 0.0, top);
            let d = scale * l + min - x[i];
            let d = if search.absolute { d.abs() } else { d * d };
            best = best + weights[i] * d;
        }

        let group = MinGroup { x, weights, max, smallest, sum_w, sum_x };
        let found = MinFound { scale, min, level_iscale, level_min, best, valid };
        // Up to here a step's largest product rounds to the highest level at most.
        let inside = (0..=search.last).take_while(|&step| search.offset(step) < 0.46).count() as i32;
        let found = min_steps::<L, N, false>(lanes, search, 0..inside, &group, found);
        let found = min_steps::<L, N, true>(lanes, search, inside..search.last + 1, &group, found);
        LaneFit {
            scale: constant.select(zero, found.scale),
            min: -constant.select(smallest.gt(zero).select(zero, smallest), found.min),
            iscale: constant.select(zero, found.level_iscale),
            level_min: constant.select(zero, found.level_min),
            // A NaN is neither the smallest nor the largest, but it makes the sum NaN.
            valid: (found.valid | constant) & sum_x.equal(sum_x),
        }
    }
}

/// The input of [`fit_min_lanes`].
struct MinGroup<'a, L: Lanes, const N: usize> {
    x: &'a [L::F; N],
    weights: &'a [L::F; N],
    max: L::F,
    smallest: L::F,
    sum_w: L::F,
    sum_x: L::F,
}

/// The best result of [`fit_min_lanes`] so far.
struct MinFound<L: Lanes> {
    scale: L::F,
    min: L::F,
    level_iscale: L::F,
    level_min: L::F,
    best: L::F,
    valid: L::M,
}

/// Some steps of [`fit_min_lanes`]; `HIGH` is set if levels may exceed the highest.
#[inline(always)]
fn min_steps<L: Lanes, const N: usize, const HIGH: bool>(
    lanes: L,
    search: MinSearch,
    steps: Range<i32>,
    group: &MinGroup<'_, L, N>,
    found: MinFound<L>,
) -> MinFound<L> {
    let zero = lanes.splat(0.0);
    let top = search.levels as f32;
    let MinGroup { x, weights, max, smallest, sum_w, sum_x } = *group;
    let MinFound { mut scale, mut min, mut level_iscale, mut level_min, mut best, mut valid } = found;
    let round = lanes.splat(ROUND);
    let highest = lanes.splat(ROUND + top);
    let limit = lanes.splat(if HIGH { 4194303.0 } else { top + 0.49 });
    let mut tried = [zero; N];
    for step in steps {
        let iscale = lanes.splat(search.offset(step) + top) / (max - min);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (zero, zero, zero);
        let lowest = iscale * (smallest - min);
        // A minimum at or above the maximum, which weights of zero allow, reverses the order of the products.
        valid = valid & max.gt(min) & (iscale * (max - min)).le(limit) & roundable(lanes, lowest, lowest);
        for i in 0..N {
            let mut l = iscale * (x[i] - min) + round;
            if HIGH {
                l = l.min(highest);
            }
            let l = l.max(round) - round;
            tried[i] = l;
            let wl = weights[i] * l;
            sum_l = sum_l + wl;
            sum_l2 = sum_l2 + wl * l;
            sum_xl = sum_xl + wl * x[i];
        }
        let det = sum_w * sum_l2 - sum_l * sum_l;
        let this_scale = (sum_w * sum_xl - sum_x * sum_l) / det;
        let this_min = (sum_l2 * sum_x - sum_l * sum_xl) / det;
        let above = this_min.gt(zero);
        let this_min = above.select(zero, this_min);
        let this_scale = above.select(sum_xl / sum_l2, this_scale);
        let mut error = zero;
        for i in 0..N {
            let d = this_scale * tried[i] + this_min - x[i];
            let d = if search.absolute { d.abs() } else { d * d };
            error = error + weights[i] * d;
        }
        let better = det.gt(zero) & error.lt(best);
        best = better.select(error, best);
        scale = better.select(this_scale, scale);
        level_iscale = better.select(iscale, level_iscale);
        level_min = better.select(min, level_min);
        min = better.select(this_min, min);
    }
    MinFound { scale, min, level_iscale, level_min, best, valid }
}

/// A level of at least -256 after it was stored as a byte, if levels may be negative.
#[inline(always)]
fn as_byte<L: Lanes, const WRAP: bool>(lanes: L, l: L::F) -> L::F {
    if WRAP { l.lt(lanes.splat(0.0)).select(l + lanes.splat(256.0), l) } else { l }
}

/// [`fit_positive`] for one group per lane; the levels are stored in `levels` as floats, and the mask has the lanes with a valid result.
///
/// Negative numbers have levels that wrap when stored as bytes. With `WRAP` they wrap as well, down to the level -255; without, which is
/// faster, such lanes are invalid.
#[inline(always)]
pub(crate) fn fit_positive_lanes<L: Lanes, const N: usize, const WRAP: bool>(
    lanes: L,
    top: i32,
    x: &[L::F; N],
    weights: &[L::F; N],
    levels: &mut [L::F; N],
) -> (L::F, L::M) {
    lanes.call(FitPositive::<L, N, WRAP> { top, x, weights, levels })
}

/// [`fit_positive_lanes`] as a part.
pub(crate) struct FitPositive<'a, L: Lanes, const N: usize, const WRAP: bool> {
    pub top: i32,
    pub x: &'a [L::F; N],
    pub weights: &'a [L::F; N],
    pub levels: &'a mut [L::F; N],
}

impl<L: Lanes, const N: usize, const WRAP: bool> Part<L> for FitPositive<'_, L, N, WRAP> {
    type Output = (L::F, L::M);

    #[inline(always)]
    fn run(self, lanes: L) -> (L::F, L::M) {
        let FitPositive { top, x, weights, levels } = self;
        let zero = lanes.splat(0.0);
        let one = lanes.splat(1.0);
        let top_f = top as f32;
        let mut max = zero;
        let mut smallest = zero;
        for i in 0..N {
            max = max.max(x[i]);
            smallest = x[i].min(smallest);
        }
        let empty = max.lt(lanes.splat(GROUP_MAX_EPS));

        let mut iscale = lanes.splat(top_f) / max;
        let scale = one / iscale;
        let low = if WRAP { -255.0 } else { 0.0 };
        let lowest = lanes.splat(low);
        let in_reach = if WRAP { (iscale * smallest).ge(lowest) } else { smallest.ge(zero) };
        let mut valid = in_reach & roundable(lanes, iscale * max, iscale * max);
        let mut best = zero;
        for i in 0..N {
            // Without a clamp, as in the reference: the largest rounds to `top` at most, and `valid` excludes the rest.
            let l = as_byte::<L, WRAP>(lanes, level(lanes, iscale * x[i], low, 255.0));
            let d = x[i] - scale * l;
            best = best + weights[i] * d * d;
        }
        for step in [-4, -3, -2, -1, 1, 2, 3, 4] {
            let this_iscale = lanes.splat(0.1 * step as f32 + top_f) / max;
            let this_scale = one / this_iscale;
            valid = valid & roundable(lanes, this_iscale * max, this_iscale * max);
            if WRAP {
                valid = valid & (this_iscale * smallest).ge(lowest);
            }
            let mut error = zero;
            for i in 0..N {
                let l = level(lanes, this_iscale * x[i], low, top_f);
                let d = x[i] - this_scale * l;
                error = error + weights[i] * d * d;
            }
            let better = error.lt(best);
            best = better.select(error, best);
            iscale = better.select(this_iscale, iscale);
        }

        let (mut sum_lx, mut sum_l2) = (zero, zero);
        for i in 0..N {
            let l = level(lanes, iscale * x[i], low, top_f);
            levels[i] = as_byte::<L, WRAP>(lanes, l);
            sum_lx = sum_lx + weights[i] * x[i] * l;
            sum_l2 = sum_l2 + weights[i] * l * l;
        }
        // A lane without changes in a round has none in the next ones either, so all lanes can continue together.
        for _ in 0..5 {
            let mut changed = lanes.mask(0);
            for i in 0..N {
                let (w, l) = (weights[i], levels[i]);
                let without_lx = sum_lx - w * x[i] * l;
                let without_l2 = sum_l2 - w * l * l;
                let open = without_lx.gt(zero) & without_l2.gt(zero);
                let wish = x[i] * without_l2 / without_lx;
                valid = valid & (!(open) | (roundable(lanes, wish, wish) & wish.ge(lowest)));
                let new = level(lanes, wish, low, top_f);
                let with_lx = without_lx + w * x[i] * new;
                let with_l2 = without_l2 + w * new * new;
                let better = (with_lx * with_lx * sum_l2).gt(sum_lx * sum_lx * with_l2);
                let take = open & better & !new.equal(l);
                // Most levels stay: then the next ones need not wait for this one.
                if !take.any() {
                    continue;
                }
                levels[i] = take.select(as_byte::<L, WRAP>(lanes, new), l);
                sum_lx = take.select(with_lx, sum_lx);
                sum_l2 = take.select(with_l2, sum_l2);
                changed = changed | take;
            }
            if !changed.any() {
                break;
            }
        }
        for i in 0..N {
            levels[i] = empty.select(zero, levels[i]);
        }
        let scale = sum_l2.gt(zero).select(sum_lx / sum_l2, zero);
        (empty.select(zero, scale), valid | empty)
    }
}

/// The first of the numbers with the largest magnitude; zero when all are zero or NaN.
#[inline(always)]
pub(crate) fn first_largest(x: &[f32]) -> f32 {
    let (mut largest, mut magnitude) = (0.0, 0.0);
    for &x in x {
        if x.abs() > magnitude {
            magnitude = x.abs();
            largest = x;
        }
    }
    largest
}

/// [`first_largest`] for one group per lane.
#[inline(always)]
pub(crate) fn first_largest_lanes<L: Lanes, const N: usize>(lanes: L, x: &[L::F; N]) -> L::F {
    // Four runs, searched separately, then combined in order.
    let mut largest = [lanes.splat(0.0); 4];
    let mut magnitude = [lanes.splat(0.0); 4];
    for i in 0..N / 4 {
        for run in 0..4 {
            let x = x[run * (N / 4) + i];
            let larger = x.abs().gt(magnitude[run]);
            largest[run] = larger.select(x, largest[run]);
            magnitude[run] = x.abs().max(magnitude[run]);
        }
    }
    for run in 1..4 {
        let larger = magnitude[run].gt(magnitude[0]);
        largest[0] = larger.select(largest[run], largest[0]);
        magnitude[0] = magnitude[run].max(magnitude[0]);
    }
    largest[0]
}

/// The steps by which [`fit_signed`] moves the lowest level away from `-top`; the step of zero precedes them.
const SIGNED_STEPS: [i32; 18] = [-9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9];

/// The scale for one group of signed numbers, and their levels from 0 to `2 * top - 1`, where `top` is the level of zero (`make_qx_quants`
/// with weights, or with `rmse_type` 1, whose weights are the squares of the numbers).
pub(crate) fn fit_signed(top: i32, x: &[f32], weights: &[f32], levels: &mut [u8]) -> f32 {
    let largest = first_largest(x);
    if largest.abs() < GROUP_MAX_EPS {
        levels.fill(0);
        return 0.0;
    }
    let level = |iscale: f32, x: f32| nearest_int(iscale * x).min(top - 1).max(-top);
    let sums = |iscale: f32| {
        let (mut sum_lx, mut sum_l2) = (0.0, 0.0);
        for (&x, &w) in x.iter().zip(weights) {
            let l = level(iscale, x) as f32;
            sum_lx += w * x * l;
            sum_l2 += w * l * l;
        }
        (sum_lx, sum_l2)
    };

    let mut iscale = -top as f32 / largest;
    let (sum_lx, sum_l2) = sums(iscale);
    let mut scale = if sum_l2 != 0.0 { sum_lx / sum_l2 } else { 0.0 };
    let mut best = scale * sum_lx;
    for step in SIGNED_STEPS {
        let this_iscale = -(top as f32 + 0.1 * step as f32) / largest;
        let (sum_lx, sum_l2) = sums(this_iscale);
        if sum_l2 > 0.0 && sum_lx * sum_lx > best * sum_l2 {
            iscale = this_iscale;
            scale = sum_lx / sum_l2;
            best = scale * sum_lx;
        }
    }
    for (l, &x) in levels.iter_mut().zip(x) {
        *l = (level(iscale, x) + top) as u8;
    }
    scale
}

/// The result of a lane search for signed numbers.
#[derive(Clone, Copy)]
pub(crate) struct LaneScale<L: Lanes> {
    /// The scales.
    pub scale: L::F,
    /// The inverse scale of the levels; see [`LaneScale::level`].
    pub iscale: L::F,
    /// Lanes whose numbers are all close to zero: the levels are 0, the lowest.
    pub empty: L::M,
    /// Lanes with a valid result.
    pub valid: L::M,
}

impl<L: Lanes> LaneScale<L> {
    /// An empty value.
    #[inline(always)]
    pub fn none(lanes: L) -> LaneScale<L> {
        let zero = lanes.splat(0.0);
        LaneScale { scale: zero, iscale: zero, empty: lanes.mask(0), valid: lanes.mask(0) }
    }

    /// The level of a number, from 0 to `2 * top - 1`.
    #[inline(always)]
    pub fn level(&self, lanes: L, top: i32, x: L::F) -> L::F {
        let top = top as f32;
        let l = level(lanes, self.iscale * x, -top, top - 1.0) + lanes.splat(top);
        self.empty.select(lanes.splat(0.0), l)
    }
}

/// [`fit_signed`] for one group per lane.
#[inline(always)]
pub(crate) fn fit_signed_lanes<L: Lanes, const N: usize>(
    lanes: L,
    top: i32,
    x: &[L::F; N],
    weights: &[L::F; N],
) -> LaneScale<L> {
    lanes.call(FitSigned { top, x, weights })
}

/// [`fit_signed_lanes`] as a part.
pub(crate) struct FitSigned<'a, L: Lanes, const N: usize> {
    pub top: i32,
    pub x: &'a [L::F; N],
    pub weights: &'a [L::F; N],
}

impl<L: Lanes, const N: usize> Part<L> for FitSigned<'_, L, N> {
    type Output = LaneScale<L>;

    #[inline(always)]
    fn run(self, lanes: L) -> LaneScale<L> {
        let FitSigned { top, x, weights } = self;
        let zero = lanes.splat(0.0);
        let top = top as f32;
        let largest = first_largest_lanes(lanes, x);
        let empty = largest.abs().lt(lanes.splat(GROUP_MAX_EPS));

        let mut wx = [zero; N];
        for i in 0..N {
            wx[i] = weights[i] * x[i];
        }

        let iscale = lanes.splat(-top) / largest;
        let (mut sum_lx, mut sum_l2) = (zero, zero);
        for i in 0..N {
            let l = level(lanes, iscale * x[i], -top, top - 1.0);
            sum_lx = sum_lx + wx[i] * l;
            sum_l2 = sum_l2 + weights[i] * l * l;
        }
        // A NaN is never the largest number, but it makes the sum NaN. No product is larger than that of the largest number.
        let product = iscale * largest;
        let valid = empty | (sum_lx.equal(sum_lx) & roundable(lanes, product, product));
        let scale = sum_l2.equal(zero).select(zero, sum_lx / sum_l2);
        let best = scale * sum_lx;

        let mut found = SignedFit { iscale, scale, best };
        let group = SignedGroup { top, largest, x, weights, wx: &wx };
        // No product is larger than that of the largest number. Up to the step of 4 that one rounds to -top or above, and up to
        // the step of -6 its opposite rounds to top - 1 or below.
        let (first, rest) = SIGNED_STEPS.split_at(4);
        let (middle, last) = rest.split_at(8);
        if L::N > 8 {
            found = signed_steps::<L, N, 4, false, false>(lanes, first, &group, found);
            found = signed_steps::<L, N, 4, false, true>(lanes, middle, &group, found);
            found = signed_steps::<L, N, 3, true, true>(lanes, last, &group, found);
        } else {
            found = signed_steps::<L, N, 2, false, false>(lanes, first, &group, found);
            found = signed_steps::<L, N, 2, false, true>(lanes, middle, &group, found);
            found = signed_steps::<L, N, 2, true, true>(lanes, last, &group, found);
        }
        LaneScale { scale: empty.select(zero, found.scale), iscale: found.iscale, empty, valid }
    }
}

/// The input of [`fit_signed_lanes`].
struct SignedGroup<'a, L: Lanes, const N: usize> {
    top: f32,
    largest: L::F,
    x: &'a [L::F; N],
    weights: &'a [L::F; N],
    wx: &'a [L::F; N],
}

/// The best result of [`fit_signed_lanes`] so far.
#[derive(Clone, Copy)]
struct SignedFit<L: Lanes> {
    iscale: L::F,
    scale: L::F,
    best: L::F,
}

/// Some steps of [`fit_signed_lanes`], `M` at a time: they are independent, except for the choice of the best. `LOW` and `HIGH` are set if
/// levels may leave their range on that side.
#[inline(always)]
fn signed_steps<L: Lanes, const N: usize, const M: usize, const LOW: bool, const HIGH: bool>(
    lanes: L,
    steps: &[i32],
    group: &SignedGroup<'_, L, N>,
    mut found: SignedFit<L>,
) -> SignedFit<L> {
    let zero = lanes.splat(0.0);
    let round = lanes.splat(ROUND);
    let top = group.top;
    for steps in steps.as_chunks::<M>().0 {
        let (mut iscales, mut sum_lx, mut sum_l2) = ([zero; M], [zero; M], [zero; M]);
        for s in 0..M {
            iscales[s] = lanes.splat(-(top + 0.1 * steps[s] as f32)) / group.largest;
        }
        for i in 0..N {
            for s in 0..M {
                let mut l = iscales[s] * group.x[i] + round;
                if HIGH {
                    l = l.min(lanes.splat(ROUND + (top - 1.0)));
                }
                if LOW {
                    l = l.max(lanes.splat(ROUND - top));
                }
                let l = l - round;
                sum_lx[s] = sum_lx[s] + group.wx[i] * l;
                sum_l2[s] = sum_l2[s] + group.weights[i] * l * l;
            }
        }
        for s in 0..M {
            let better = sum_l2[s].gt(zero) & (sum_lx[s] * sum_lx[s]).gt(found.best * sum_l2[s]);
            found.iscale = better.select(iscales[s], found.iscale);
            found.scale = better.select(sum_lx[s] / sum_l2[s], found.scale);
            found.best = better.select(found.scale * sum_lx[s], found.best);
        }
    }
    found
}

/// The scale for one group of signed numbers by moving single levels, and their levels from 0 to `2 * top - 1`, where `top` is the level of
/// zero (`make_q3_quants`).
pub(crate) fn fit_moving(top: i32, x: &[f32], levels: &mut [u8]) -> f32 {
    let largest = first_largest(x);
    if largest.abs() < GROUP_MAX_EPS {
        levels.fill(0);
        return 0.0;
    }
    let clamp = |l: i32| l.min(top - 1).max(-top);
    let iscale = -top as f32 / largest;
    let (mut sum_lx, mut sum_l2) = (0.0, 0.0);
    for (level, &x) in levels.iter_mut().zip(x) {
        let l = clamp(nearest_int(iscale * x));
        *level = (l + top) as u8;
        let (w, l) = (x * x, l as f32);
        sum_lx += w * x * l;
        sum_l2 += w * l * l;
    }
    // Each level in turn is moved to its optimum given the others, until nothing improves.
    for _ in 0..5 {
        let mut changed = false;
        for (level, &x) in levels.iter_mut().zip(x) {
            let (w, old) = (x * x, i32::from(*level) - top);
            let mut without_lx = sum_lx - w * x * old as f32;
            if without_lx > 0.0 {
                let mut without_l2 = sum_l2 - w * old as f32 * old as f32;
                let new = clamp(nearest_int(x * without_l2 / without_lx));
                if new != old {
                    without_lx += w * x * new as f32;
                    without_l2 += w * new as f32 * new as f32;
                    if without_l2 > 0.0 && without_lx * without_lx * sum_l2 > sum_lx * sum_lx * without_l2 {
                        *level = (new + top) as u8;
                        sum_lx = without_lx;
                        sum_l2 = without_l2;
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }
}

/// [`fit_moving`] for several groups per lane, in step: a number depends on the previous one, but not on those of other groups. Returns the
/// scales, and the lanes with a valid result; the levels are stored in `levels`.
#[inline(always)]
pub(crate) fn fit_moving_lanes<L: Lanes, const N: usize, const GROUPS: usize>(
    lanes: L,
    top: i32,
    x: &[[L::F; N]; GROUPS],
    levels: &mut [[L::F; N]; GROUPS],
) -> ([L::F; GROUPS], L::M) {
    let zero = lanes.splat(0.0);
    let top = top as f32;
    let mut empty = [lanes.mask(0); GROUPS];
    let mut right = [lanes.mask(0); GROUPS];
    let (mut sum_lx, mut sum_l2) = ([zero; GROUPS], [zero; GROUPS]);
    let (mut weights, mut wx) = ([[zero; N]; GROUPS], [[zero; N]; GROUPS]);
    for g in 0..GROUPS {
        let largest = first_largest_lanes(lanes, &x[g]);
        empty[g] = largest.abs().lt(lanes.splat(GROUP_MAX_EPS));
        let iscale = lanes.splat(-top) / largest;
        for i in 0..N {
            let x = x[g][i];
            let l = level(lanes, iscale * x, -top, top - 1.0);
            levels[g][i] = l;
            weights[g][i] = x * x;
            wx[g][i] = weights[g][i] * x;
            sum_lx[g] = sum_lx[g] + wx[g][i] * l;
            sum_l2[g] = sum_l2[g] + weights[g][i] * l * l;
        }
        let product = iscale * largest;
        right[g] = sum_lx[g].equal(sum_lx[g]) & roundable(lanes, product, product);
    }
    // A lane without changes in a round has none in the next ones either, so all lanes can continue together.
    let mut going = [true; GROUPS];
    for _ in 0..5 {
        let mut changed = [lanes.mask(0); GROUPS];
        for i in 0..N {
            for g in 0..GROUPS {
                if !going[g] {
                    continue;
                }
                let (l, w, wx) = (levels[g][i], weights[g][i], wx[g][i]);
                let without_lx = sum_lx[g] - wx * l;
                let without_l2 = sum_l2[g] - w * l * l;
                let open = without_lx.gt(zero);
                let wish = x[g][i] * without_l2 / without_lx;
                right[g] = right[g] & (!open | roundable(lanes, wish, wish));
                let new = level(lanes, wish, -top, top - 1.0);
                let moved = open & !new.equal(l);
                if !moved.any() {
                    continue;
                }
                let with_lx = without_lx + wx * new;
                let with_l2 = without_l2 + w * new * new;
                let better = with_l2.gt(zero) & (with_lx * with_lx * sum_l2[g]).gt(sum_lx[g] * sum_lx[g] * with_l2);
                let take = moved & better;
                levels[g][i] = take.select(new, l);
                sum_lx[g] = take.select(with_lx, sum_lx[g]);
                sum_l2[g] = take.select(with_l2, sum_l2[g]);
                changed[g] = changed[g] | take;
            }
        }
        for g in 0..GROUPS {
            going[g] = changed[g].any();
        }
        if !going.contains(&true) {
            break;
        }
    }
    let mut scales = [zero; GROUPS];
    let mut valid = !lanes.mask(0);
    for g in 0..GROUPS {
        for i in 0..N {
            levels[g][i] = empty[g].select(zero, levels[g][i] + lanes.splat(top));
        }
        let scale = sum_l2[g].gt(zero).select(sum_lx[g] / sum_l2[g], zero);
        scales[g] = empty[g].select(zero, scale);
        valid = valid & (right[g] | empty[g]);
    }
    (scales, valid)
}
