//! Shared code of IQ4_NL and IQ4_XS: groups of 32 whose levels select from sixteen fixed values, denser around zero.
//!
//! ```text
//! value = scale * VALUES[level]
//! ```
//!
//! Rules: `kvalues_iq4nl` in `ggml-common.h`; `best_index_int8` and `quantize_row_iq4_nl_impl` in `ggml-quants.c`.

use super::words::word;
use crate::lanes::{Floats, Ints, Lanes, Masks, Part};
use crate::search::GROUP_MAX_EPS;

/// Values in a group.
pub(super) const GROUP: usize = 32;

/// The values of the levels.
pub(super) const VALUES: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// The smallest number with a level above `i`: halfway between two values, where the differences to both are exact.
const MIDDLES: [f32; 15] =
    [-115.5, -93.5, -74.0, -57.0, -42.0, -28.5, -16.0, -4.5, 7.0, 19.0, 31.5, 45.5, 61.0, 79.0, 101.0];

/// The level of the nearest value, the upper one of two; the highest for NaN.
pub(super) fn nearest(x: f32) -> u8 {
    if x <= VALUES[0] {
        return 0;
    }
    let above = (1..15).find(|&i| x < VALUES[i]).unwrap_or(15);
    let below = above - 1;
    (if x - VALUES[below] < VALUES[above] - x { below } else { above }) as u8
}

/// The importance of each value of a group; `sigma2` is that of the whole block.
pub(super) fn weights(x: &[f32; GROUP], matrix: Option<&[f32; GROUP]>, sigma2: f32) -> [f32; GROUP] {
    let mut weights = [0.0; GROUP];
    for i in 0..GROUP {
        weights[i] = match matrix {
            Some(matrix) => matrix[i] * (sigma2 + x[i] * x[i]).sqrt(),
            None => x[i] * x[i],
        };
    }
    weights
}

/// Twice the mean square of a block.
pub(super) fn sigma2<const LEN: usize>(x: &[f32; LEN]) -> f32 {
    let mut sum = 0.0;
    for x in x {
        sum += x * x;
    }
    sum * (2.0 / LEN as f32)
}

/// The scale of a group: the best of one that maps the largest value to 127 and several that map it to about -127.
pub(super) fn fit(x: &[f32; GROUP], weights: &[f32; GROUP]) -> f32 {
    let (mut largest, mut max) = (0.0, 0.0);
    for &x in x {
        if x.abs() > largest {
            (largest, max) = (x.abs(), x);
        }
    }
    if largest < GROUP_MAX_EPS {
        return 0.0;
    }
    let sums = |inverse: f32| {
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for (&x, w) in x.iter().zip(weights) {
            let q = VALUES[usize::from(nearest(inverse * x))];
            sum_qx += w * q * x;
            sum_q2 += w * q * q;
        }
        (sum_qx, sum_q2)
    };
    let (sum_qx, sum_q2) = sums(1.0 / (-max / VALUES[0]));
    let mut scale = if sum_q2 > 0.0 { sum_qx / sum_q2 } else { 0.0 };
    let mut best = scale * sum_qx;
    for step in STEPS {
        let (sum_qx, sum_q2) = sums(step / max);
        if sum_q2 > 0.0 && sum_qx * sum_qx > best * sum_q2 {
            scale = sum_qx / sum_q2;
            best = scale * sum_qx;
        }
    }
    scale
}

/// The targets of the largest value after the first try.
const STEPS: [f32; 15] = [
    -134.0, -133.0, -132.0, -131.0, -130.0, -129.0, -128.0, -127.0, -126.0, -125.0, -124.0, -123.0, -122.0, -121.0,
    -120.0,
];

/// The number of fifteen ascending numbers that are not above `x`; all of them for NaN.
struct Position<L: Lanes> {
    eighth: L::F,
    fourth: L::F,
    twelfth: L::F,
    even: L::Table4,
    odd: L::Table8,
}

impl<L: Lanes> Position<L> {
    #[inline(always)]
    fn new(lanes: L, t: [f32; 15]) -> Position<L> {
        Position {
            eighth: lanes.splat(t[7]),
            fourth: lanes.splat(t[3]),
            twelfth: lanes.splat(t[11]),
            even: lanes.table4(&[t[1], t[5], t[9], t[13]]),
            odd: lanes.table8(&[t[0], t[2], t[4], t[6], t[8], t[10], t[12], t[14]]),
        }
    }

    #[inline(always)]
    fn of(&self, lanes: L, x: L::F) -> L::I {
        let (zero, one) = (lanes.splat_i(0), lanes.splat_i(1));
        let below = x.lt(self.eighth);
        let mut at = below.select_i(zero, one);
        let below = x.lt(below.select(self.fourth, self.twelfth));
        at = at + at + below.select_i(zero, one);
        let below = x.lt(lanes.lookup4(self.even, at));
        at = at + at + below.select_i(zero, one);
        let below = x.lt(lanes.lookup8(self.odd, at));
        at + at + below.select_i(zero, one)
    }
}

/// [`nearest`], one number per lane.
pub(super) struct Nearest<L: Lanes>(Position<L>);

impl<L: Lanes> Nearest<L> {
    #[inline(always)]
    pub fn new(lanes: L) -> Nearest<L> {
        Nearest(Position::new(lanes, MIDDLES))
    }

    /// The level.
    #[inline(always)]
    pub fn of(&self, lanes: L, x: L::F) -> L::I {
        self.0.of(lanes, x)
    }
}

/// [`weights`], one group per lane.
#[inline(always)]
pub(super) fn weights_lanes<L: Lanes>(
    x: &[L::F; GROUP],
    matrix: Option<&[L::F; GROUP]>,
    sigma2: L::F,
) -> [L::F; GROUP] {
    let mut weights = *x;
    for i in 0..GROUP {
        weights[i] = match matrix {
            Some(matrix) => matrix[i] * (sigma2 + x[i] * x[i]).sqrt(),
            None => x[i] * x[i],
        };
    }
    weights
}

/// A value's two candidate levels, and their terms of the sums.
#[derive(Clone, Copy)]
struct Choice<L: Lanes> {
    x: L::F,
    /// Where the upper level begins.
    middle: L::F,
    /// The products of weight, level and value.
    qx: [L::F; 2],
    /// The products of weight and level squared.
    q2: [L::F; 2],
}

/// [`fit`] for one group per lane; the mask has the lanes with a valid scale.
///
/// From the first of [`STEPS`] to the last, a scaled value changes by less than the ratio of two neighbouring midpoints, so it has at most
/// two levels in all of them. The two are looked up once; a step is then a multiplication and a comparison.
#[inline(always)]
pub(super) fn fit_lanes<L: Lanes>(
    lanes: L,
    near: &Nearest<L>,
    x: &[L::F; GROUP],
    weights: &[L::F; GROUP],
) -> (L::F, L::M) {
    lanes.call(Fit { near, x, weights })
}

struct Fit<'a, L: Lanes> {
    near: &'a Nearest<L>,
    x: &'a [L::F; GROUP],
    weights: &'a [L::F; GROUP],
}

impl<L: Lanes> Part<L> for Fit<'_, L> {
    type Output = (L::F, L::M);

    #[inline(always)]
    fn run(self, lanes: L) -> (L::F, L::M) {
        let Fit { near, x, weights } = self;
        let zero = lanes.splat(0.0);
        let (mut largest, mut max) = (zero, zero);
        let mut finite = !lanes.mask(0);
        for i in 0..GROUP {
            let magnitude = x[i].abs();
            let larger = magnitude.gt(largest);
            largest = larger.select(magnitude, largest);
            max = larger.select(x[i], max);
            finite = finite & magnitude.le(lanes.splat(f32::MAX));
        }
        let empty = largest.lt(lanes.splat(GROUP_MAX_EPS));

        // Between two midpoints the values themselves are the borders: no factor of the tries moves a number past both.
        let mut borders = [f32::INFINITY; 15];
        borders[..14].copy_from_slice(&VALUES[1..15]);
        let border = Position::new(lanes, borders);
        let mut middles = [f32::INFINITY; 16];
        middles[..15].copy_from_slice(&MIDDLES);
        let mut above = [0.0; 16];
        above[..15].copy_from_slice(&VALUES[1..]);
        let (middles, below, above) = (lanes.table16(&middles), lanes.table16(&VALUES), lanes.table16(&above));
        let inverse = lanes.splat(VALUES[0]) / max;
        let mut choices = [Choice::<L> { x: zero, middle: zero, qx: [zero; 2], q2: [zero; 2] }; GROUP];
        let first = lanes.splat(1.0) / (-max / lanes.splat(VALUES[0]));
        let (mut sum_qx, mut sum_q2) = (zero, zero);
        for i in 0..GROUP {
            let (x, w) = (x[i], weights[i]);
            let q = lanes.lookup16(below, near.of(lanes, first * x));
            sum_qx = sum_qx + w * q * x;
            sum_q2 = sum_q2 + w * q * q;

            let at = border.of(lanes, inverse * x);
            let q = [lanes.lookup16(below, at), lanes.lookup16(above, at)];
            let wq = [w * q[0], w * q[1]];
            choices[i] = Choice {
                x,
                middle: lanes.lookup16(middles, at),
                qx: [wq[0] * x, wq[1] * x],
                q2: [wq[0] * q[0], wq[1] * q[1]],
            };
        }
        let mut scale = sum_q2.gt(zero).select(sum_qx / sum_q2, zero);
        let mut best = scale * sum_qx;

        // As many steps at once as fit the registers; instructions of SSE4.1 overwrite an operand, so they need one more for each step.
        let (mut sum_qx, mut sum_q2) = ([zero; 15], [zero; 15]);
        match L::N {
            16.. => {
                steps::<L, 8>(lanes, &choices, max, 0, &mut sum_qx, &mut sum_q2);
                steps::<L, 7>(lanes, &choices, max, 8, &mut sum_qx, &mut sum_q2);
            }
            8.. => {
                for first in (0..15).step_by(3) {
                    steps::<L, 3>(lanes, &choices, max, first, &mut sum_qx, &mut sum_q2);
                }
            }
            _ => {
                for first in (0..14).step_by(2) {
                    steps::<L, 2>(lanes, &choices, max, first, &mut sum_qx, &mut sum_q2);
                }
                steps::<L, 1>(lanes, &choices, max, 14, &mut sum_qx, &mut sum_q2);
            }
        }
        for i in 0..15 {
            let better = sum_q2[i].gt(zero) & (sum_qx[i] * sum_qx[i]).gt(best * sum_q2[i]);
            let this = sum_qx[i] / sum_q2[i];
            scale = better.select(this, scale);
            best = better.select(this * sum_qx[i], best);
        }
        (empty.select(zero, scale), finite)
    }
}

/// The sums of `N` steps.
#[inline(always)]
fn steps<L: Lanes, const N: usize>(
    lanes: L,
    choices: &[Choice<L>; GROUP],
    max: L::F,
    first: usize,
    sum_qx: &mut [L::F; 15],
    sum_q2: &mut [L::F; 15],
) {
    let mut inverses = [lanes.splat(0.0); N];
    for t in 0..N {
        inverses[t] = lanes.splat(STEPS[first + t]) / max;
    }
    let (mut qx, mut q2) = ([lanes.splat(0.0); N], [lanes.splat(0.0); N]);
    for c in choices {
        for t in 0..N {
            let lower = (inverses[t] * c.x).lt(c.middle);
            qx[t] = qx[t] + lower.select(c.qx[0], c.qx[1]);
            q2[t] = q2[t] + lower.select(c.q2[0], c.q2[1]);
        }
    }
    sum_qx[first..first + N].copy_from_slice(&qx);
    sum_q2[first..first + N].copy_from_slice(&q2);
}

/// The levels of a group as they are stored: value `i` in the low half of byte `i`, value `16 + i` in the high half.
pub(super) fn pack(levels: &[u8; GROUP]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for i in 0..16 {
        bytes[i] = levels[i] | levels[16 + i] << 4;
    }
    bytes
}

/// The value of level `i`.
pub(super) fn value(bytes: &[u8], i: usize) -> f32 {
    VALUES[usize::from(bytes[i % 16] >> (4 * (i / 16)) & 15)]
}

/// The levels of `inverse * x`, one group per lane, as four words of the bytes that [`pack`] gives.
#[inline(always)]
pub(super) fn pack_lanes<L: Lanes>(lanes: L, near: &Nearest<L>, inverse: L::F, x: &[L::F; GROUP]) -> [L::I; 4] {
    let mut words = [lanes.splat_i(0); 4];
    for w in 0..4 {
        let mut bytes = [lanes.splat_i(0); 4];
        for b in 0..4 {
            let low = near.of(lanes, inverse * x[4 * w + b]);
            let high = near.of(lanes, inverse * x[16 + 4 * w + b]);
            bytes[b] = low | high.shl::<4>();
        }
        words[w] = word::<L>(bytes);
    }
    words
}

/// Sixteen bytes of levels to the values of a group.
#[inline(always)]
pub(super) fn decode_group<L: Lanes>(lanes: L, scale: f32, bytes: &[u8; 16], values: &mut [f32; GROUP]) {
    let table = lanes.table16(&VALUES);
    let scale = lanes.splat(scale);
    for i in (0..16).step_by(L::N) {
        let levels = lanes.load_u8(&bytes[i..]);
        (scale * lanes.lookup16(table, levels)).store(&mut values[i..]);
        (scale * lanes.lookup16(table, levels.shr::<4>())).store(&mut values[16 + i..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Isa, Kernel};
    use crate::lanes::MAX_LANES;
    use crate::lanes::arrays::Arrays;

    struct Levels<'a>(&'a [f32], &'a mut Vec<i32>);

    impl Kernel for Levels<'_> {
        type Output = ();
        fn plain(self) {
            self.run(Arrays);
        }
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let near = Nearest::new(lanes);
            for x in self.0 {
                let mut out = [0; MAX_LANES];
                near.of(lanes, lanes.splat(*x)).store(&mut out);
                self.1.push(out[0]);
            }
        }
    }

    /// Numbers around every value and middle, and far away.
    fn numbers() -> Vec<f32> {
        let mut numbers = vec![0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, f32::MAX, f32::MIN];
        numbers.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]);
        for m in VALUES.iter().chain(&MIDDLES) {
            for step in -100i32..=100 {
                numbers.push(f32::from_bits(m.to_bits().wrapping_add_signed(step)));
            }
        }
        numbers
    }

    #[test]
    fn middles_are_where_the_nearest_level_changes() {
        for x in numbers() {
            let above = MIDDLES.iter().filter(|&&m| x >= m || x.is_nan()).count();
            assert_eq!(usize::from(nearest(x)), above, "{x:e}");
        }
    }

    #[test]
    fn lanes_find_the_nearest_level() {
        let numbers = numbers();
        let expected: Vec<_> = numbers.iter().map(|&x| i32::from(nearest(x))).collect();
        for isa in Isa::available() {
            let mut levels = Vec::new();
            isa.run(Levels(&numbers, &mut levels));
            assert_eq!(levels, expected, "{isa}");
        }
    }

    /// The assumption of [`fit_lanes`]: between two neighbouring borders there is one midpoint, and the factors of the tries move no number
    /// from there past another one.
    #[test]
    fn tries_cross_one_middle_at_most() {
        let factors = [120.0 / 127.0 * 0.9999, 134.0 / 127.0 * 1.0001];
        for i in 0..15 {
            let from = if i == 0 { f64::NEG_INFINITY } else { f64::from(VALUES[i]) };
            let to = if i == 14 { f64::INFINITY } else { f64::from(VALUES[i + 1]) };
            for f in factors {
                assert!(i == 0 || from * f >= f64::from(MIDDLES[i - 1]), "{i}");
                assert!(i == 14 || to * f <= f64::from(MIDDLES[i + 1]), "{i}");
            }
        }
    }
}
