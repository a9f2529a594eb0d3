//! The search of one group's points under every scale.
//!
//! As the scale shrinks from step to step, the levels of a group's values only rise: among up to 31 steps, a group rounds to few different
//! points. So the steps at which a level rises are computed first ([`Turns`]), one sub-block per lane; then, lane by lane, each run of steps
//! with one point is processed at once ([`FindRuns`]).
//!
//! If the codebook lacks the point of a run, the error of a neighbour under scale `s` is `s² A - s B + C`, with sums `A` and `B` over the
//! elements and a `C` that all neighbours share. So neighbours are compared by `s A - B`, one step per lane and one neighbour after the
//! other: two operations for each, once its sums are known. These have not the reference's rounding. Its error differs from the exact one by
//! at most `(E + 5) u M`, with `E` elements, `u = 2⁻²⁴` and `M` the sum of `w (s q + |x|)²` at the highest level: two roundings each in
//! `s q - x` and in the products, the former doubled by the square, and `E - 1` in the sum. Ours, times `s`, differs by at most
//! `(E + 6) u M`: the elements and the sum, the factor common to all steps, the reciprocals of the steps, and the difference. So a neighbour
//! whose line is below all others by [`margin`]` u M / s` is the reference's; where the two best are closer, and where numbers are so large or
//! small that products could leave the range of normal numbers, the reference's arithmetic decides ([`Nearest`]).

use super::super::least::Least;
use super::{Grids, ROW};
use crate::grids::Lists;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, Part};
use crate::search::ROUND;

/// The most steps at which levels of one group rise.
const MAX_TURNS: usize = 16;
/// The row of [`Turns::steps`] entries for values that do not rise: not a step.
const NEVER: i32 = 40;
/// The longest short list of neighbours; see [`Grid::short_lists`].
const MAX_NEAR: usize = 144;
/// A flag above the packed code of a neighbour.
pub(super) const REPLACED: i32 = 1 << 16;

/// The distance of two lines at which their order is that of the errors, as a multiple of `u M / s`: more than `2 (2 E + 11)`.
const fn margin(elements: usize) -> f32 {
    if elements == 4 { 44.0 } else { 60.0 }
}
/// The products of `u` and `M` for which the bounds hold: nothing that counts against them leaves the range of normal numbers.
const SAFE_MARGINS: [f32; 2] = [1e-25, 1e12];
/// The same for the value that the highest level reaches.
const SAFE_FULL: [f32; 2] = [1e-8, 1e8];
/// Two errors can have the wrong order only if a value, in levels, is nearer than this to the middle of two levels. The errors on both sides
/// of a middle differ by twice the distance; their roundings, of numbers up to 16, by less than `100 u`.
const MIDDLE: f32 = 1.0 / 65536.0;

/// Room for one group of one sub-block per lane.
pub(super) struct Scratch {
    x: [[f32; MAX_LANES]; 8],
    roots: [[f32; MAX_LANES]; 8],
    /// The bound for the distance of lines; infinite where lines must not decide.
    margin: [f32; MAX_LANES],
    full: [f32; MAX_LANES],
    turns: Turns,
    lines: Lines,
    /// For each lane the codes of the steps, as floats with these bits, and room for the vectors stored at the last of them.
    codes: [[f32; ROW]; MAX_LANES],
    /// Runs with steps in which lines do not decide.
    unclear: [Unclear; MAX_LANES * ROWS],
    n_unclear: usize,
}

/// The steps of a run in which lines do not decide.
#[derive(Debug, Clone, Copy)]
struct Unclear {
    lane: u16,
    point: u16,
    steps: u32,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch {
            x: [[0.0; MAX_LANES]; 8],
            roots: [[0.0; MAX_LANES]; 8],
            margin: [0.0; MAX_LANES],
            full: [0.0; MAX_LANES],
            turns: Turns {
                first: [0; MAX_LANES],
                at: [0; MAX_LANES],
                middles: [0; MAX_LANES],
                steps: [[0; MAX_LANES]; MAX_TURNS],
                rise: [0; MAX_TURNS],
                len: 0,
            },
            lines: Lines { a: [0.0; MAX_NEAR], b: [0.0; MAX_NEAR], codes: [0; MAX_NEAR] },
            codes: [[0.0; ROW]; MAX_LANES],
            unclear: [Unclear { lane: 0, point: 0, steps: 0 }; MAX_LANES * ROWS],
            n_unclear: 0,
        }
    }
}

/// The points of one group under each scale, one sub-block per lane.
struct Turns {
    /// The point before the first step.
    first: [i32; MAX_LANES],
    /// Bit `s`: the point of step `s` is not that of the step before.
    at: [i32; MAX_LANES],
    /// Bit `s`: in step `s` a value is too near to the middle of two levels for the short lists.
    middles: [i32; MAX_LANES],
    /// In each row the step, if any, at which the level of a value rises.
    steps: [[i32; MAX_LANES]; MAX_TURNS],
    /// By how much the point then rises.
    rise: [i32; MAX_TURNS],
    /// The rows in use.
    len: usize,
}

/// The sums of neighbours.
struct Lines {
    a: [f32; MAX_NEAR],
    b: [f32; MAX_NEAR],
    codes: [i32; MAX_NEAR],
}

/// Inputs that are the same for all groups of a sub-block.
pub(super) struct Scales<'a, L: Lanes> {
    /// The value that the highest level reaches in the first guess.
    pub full: L::F,
    /// The scales of the steps, in rows of `L::N`.
    pub scales: &'a [f32],
}

/// Rounds one group with every scale and stores, for the active lanes, the codes of the points or of their neighbours in rows of `L::N`, one
/// for each step. Returns the lanes without a neighbour.
#[inline(always)]
pub(super) fn place_steps<L: Lanes, T: Grids, const SUB: usize, const E: usize>(
    lanes: L,
    scratch: &mut Scratch,
    (x, roots): (&[L::F; SUB], &[L::F; SUB]),
    scales: &Scales<'_, L>,
    (group, active): (usize, u32),
    places: &mut [i32],
) -> u32 {
    let steps = const { T::RULE.steps() };
    let values = group * E..(group + 1) * E;
    let (x, roots) = (&x[values.clone()], &roots[values]);
    find_turns::<L, T, E>(lanes, &mut scratch.turns, x, scales.full);

    // The bound, at the highest level and with the largest scale.
    let highest = lanes.splat((2 * T::RULE.top + 1) as f32);
    let reached = lanes.load(scales.scales) * highest;
    let mut sum = lanes.splat(0.0);
    for i in 0..E {
        let most = reached + x[i].abs();
        sum = sum + roots[i] * most * most;
        x[i].store(&mut scratch.x[i]);
        roots[i].store(&mut scratch.roots[i]);
    }
    let bound = sum * lanes.splat(const { margin(E) * f32::EPSILON / 2.0 });
    let safe = bound.gt(lanes.splat(SAFE_MARGINS[0]))
        & bound.lt(lanes.splat(SAFE_MARGINS[1]))
        & scales.full.gt(lanes.splat(SAFE_FULL[0]))
        & scales.full.lt(lanes.splat(SAFE_FULL[1]));
    let least_scale = lanes.load(&scales.scales[(steps - 1) * L::N..]);
    safe.select(bound / least_scale, lanes.splat(f32::INFINITY)).store(&mut scratch.margin);
    scales.full.store(&mut scratch.full);

    let grid = (T::RULE.grid)();
    let short = grid.short_lists();
    let mut left = active;
    while left != 0 {
        let lane = left.trailing_zeros();
        left &= left - 1;
        let search =
            FindRuns::<E> { short, scratch, reciprocals: &T::RECIPROCALS, steps: steps as u32, lane: lane as usize };
        lanes.call_wide(search);
    }
    let lost = decide_unclear::<L, E>(lanes, scratch, grid.lists(), scales.scales);
    let mut rows: [&[f32; ROWS]; MAX_LANES] = [&[0.0; ROWS]; MAX_LANES];
    for (row, codes) in rows.iter_mut().zip(&scratch.codes) {
        *row = codes.first_chunk().unwrap();
    }
    let columns = lanes.columns::<ROWS>(&rows);
    for s in 0..steps {
        columns[s].bits().store(&mut places[s * L::N..]);
    }
    lost
}

/// Finds the codes of the steps in which lines did not decide, and returns the lanes that have none.
///
/// They wait until all lanes are searched, because nothing predicts whether a run has some.
#[inline(always)]
fn decide_unclear<L: Lanes, const E: usize>(lanes: L, scratch: &mut Scratch, all: &Lists, scales: &[f32]) -> u32 {
    let Scratch { x, roots, codes, unclear, n_unclear, .. } = scratch;
    let mut lost = 0;
    for &Unclear { lane, point, mut steps } in &unclear[..*n_unclear] {
        let lane = usize::from(lane) % MAX_LANES;
        let place = all.places[usize::from(point)];
        while steps != 0 {
            let step = steps.trailing_zeros() as usize;
            steps &= steps - 1;
            let nearest = Nearest::<E> { lists: all, place, scale: scales[step * L::N + lane], x, roots, lane };
            let nearest = lanes.call_wide(nearest);
            lost |= u32::from(nearest.is_none()) << lane;
            codes[lane][step] = f32::from_bits((nearest.unwrap_or(0) | REPLACED) as u32);
        }
    }
    *n_unclear = 0;
    lost
}

/// Rows of the tables that have one for each step.
pub(super) const ROWS: usize = 32;

/// Twice the level of each value, from itself in levels: a value `2 l + 1` has the level `l`.
#[inline(always)]
fn twice_level<L: Lanes>(lanes: L, top: i32, value: L::F) -> L::F {
    // The sum is an even integer, twice the one for half the number and half the constant.
    let round = 2.0 * ROUND;
    let sum = value - lanes.splat(1.0) + lanes.splat(round);
    sum.min(lanes.splat(round + 2.0 * top as f32)).max(lanes.splat(round)) - lanes.splat(round)
}

/// 2 to the power of a number from 0 to 30.
#[inline(always)]
fn bit<L: Lanes>(lanes: L, number: L::I) -> L::I {
    (number + lanes.splat_i(127)).shl::<23>().as_f().trunc()
}

/// Finds the first point of one group and the steps at which it changes.
///
/// The step at which a value passes the middle of two levels is computed; that step is rounded to the nearest, and only for this one the
/// reference's level is computed too, which says whether it or the next one is the first with the higher level. Half a step is thousands of
/// times more than the rounding of either.
#[inline(always)]
fn find_turns<L: Lanes, T: Grids, const E: usize>(lanes: L, turns: &mut Turns, x: &[L::F], full: L::F) {
    let rule = const { &T::RULE };
    let highest = (2 * rule.top + 1) as f32;
    let reach = rule.reach as f32;
    let (one, two, none) = (lanes.splat(1.0), lanes.splat(2.0), lanes.splat_i(0));
    let steps = lanes.splat_i(const { T::RULE.steps() as i32 });
    // Half a step before the first and after the last.
    let before = lanes.splat(highest - (reach + 0.5) * rule.step) / full;
    let after = lanes.splat(highest + (reach + 0.5) * rule.step) / full;
    let in_steps = full / lanes.splat(rule.step);
    let start = lanes.splat(highest / rule.step - reach);
    let (mut point, mut at, mut middles) = (lanes.splat(0.0), none, none);
    let mut n = 0;
    let mut rise = (rule.top + 1).pow(E as u32 - 1);
    for i in (0..E).rev() {
        let (mut level, last) =
            (twice_level(lanes, rule.top, before * x[i]), twice_level(lanes, rule.top, after * x[i]));
        point = point * lanes.splat((rule.top + 1) as f32) + level;
        let in_steps = in_steps / x[i];
        for _ in 0..const { T::RULE.most_rises() } {
            let rises = level.lt(last);
            if !rises.any() {
                break;
            }
            level = level + two;
            let step = level * in_steps - start;
            let step = step + lanes.splat(ROUND) - lanes.splat(ROUND);
            let value = (lanes.splat(highest) + (step - lanes.splat(reach)) * lanes.splat(rule.step)) / full * x[i];
            let there = (value - one + lanes.splat(2.0 * ROUND)).ge(level + lanes.splat(2.0 * ROUND));
            let first = step.trunc() + there.select_i(none, lanes.splat_i(1));
            rises.select_i(first, lanes.splat_i(NEVER)).store(&mut turns.steps[n]);
            turns.rise[n] = rise;
            n += 1;
            at = at | (rises & steps.gt(first)).select_i(bit(lanes, first), none);
            let middle = rises & (value - level).abs().lt(lanes.splat(MIDDLE));
            if middle.any() {
                middles = middles | middle.select_i(bit(lanes, step.trunc()), none);
            }
        }
        rise /= rule.top + 1;
    }
    turns.len = n;
    // Twice the point.
    point.trunc().shr::<1>().store(&mut turns.first);
    at.store(&mut turns.at);
    middles.store(&mut turns.middles);
}

/// Finds the codes of one group of one lane for every step, a vector of steps at a time, and lists the steps in which lines do not decide.
struct FindRuns<'a, const E: usize> {
    short: &'a Lists,
    scratch: &'a mut Scratch,
    reciprocals: &'a [f32; ROW],
    steps: u32,
    lane: usize,
}

impl<L: Lanes, const E: usize> Part<L> for FindRuns<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: L) {
        let FindRuns { short, scratch, reciprocals, steps, lane } = self;
        let lane = lane % MAX_LANES;
        let Scratch { x, roots, margin, full, turns, lines, codes, unclear, n_unclear } = scratch;
        let codes = &mut codes[lane];

        let (mut of_x, mut of_roots) = ([0.0; E], [0.0; E]);
        for i in 0..E {
            (of_x[i], of_roots[i]) = (x[i][lane], roots[i][lane]);
        }
        let eight = lanes.eight();
        let (of_a, of_b) = parts_of_lines::<L::Eight, E>(eight, &of_x, &of_roots, full[lane]);
        let margin = lanes.splat(margin[lane]);
        let far = lanes.splat(f32::INFINITY);

        let mut rises = [0i32; 48];
        for (steps, rise) in turns.steps[..turns.len.min(MAX_TURNS)].iter().zip(&turns.rise) {
            let rises = &mut rises[steps[lane] as usize % 48];
            *rises = rises.wrapping_add(*rise);
        }
        let mut point = turns.first[lane] + rises[0];
        let mut changes = turns.at[lane] as u32 & !1;
        let middles = turns.middles[lane] as u32;
        let mut start = 0;
        loop {
            let next = if changes == 0 { steps } else { changes.trailing_zeros() };
            let place = short.places[point as u32 as usize];
            if place >= 0 {
                let code = lanes.splat_i(place).as_f();
                let mut from = start;
                while from < next {
                    code.store(&mut codes[from as usize % ROWS..]);
                    from += L::N as u32;
                }
            } else {
                let (first, n) = Lists::list(place);
                let n = n.min(MAX_NEAR);
                lines.compute::<L::Eight, E>(eight, (&of_a, &of_b), &short.codes[first..], n);
                let mut unclear_steps = middles;
                let mut from = start;
                while from < next {
                    let reciprocal = lanes.load(&reciprocals[from as usize % ROWS..]);
                    let (mut best, mut second, mut code) = (far, far, lanes.splat_i(0));
                    for at in (0..n).step_by(AT_ONCE) {
                        let (a, b): (&[_; AT_ONCE], &[_; AT_ONCE]) = (at_once(&lines.a, at), at_once(&lines.b, at));
                        let c: &[_; AT_ONCE] = at_once(&lines.codes, at);
                        for j in 0..AT_ONCE {
                            let line = reciprocal * lanes.splat(a[j]) - lanes.splat(b[j]);
                            let less = line.lt(best);
                            second = second.min(best.max(line));
                            best = best.min(line);
                            code = less.select_i(lanes.splat_i(c[j]), code);
                        }
                    }
                    code.as_f().store(&mut codes[from as usize % ROWS..]);
                    let clear = (second - best).gt(margin).to_bits();
                    unclear_steps |= (!clear & (u32::MAX >> (32 - L::N))) << from;
                    from += L::N as u32;
                }
                unclear_steps &= (1 << next) - (1 << start);
                unclear[*n_unclear] = Unclear { lane: lane as u16, point: point as u16, steps: unclear_steps };
                *n_unclear += usize::from(unclear_steps != 0);
            }
            if changes == 0 {
                return;
            }
            changes &= changes - 1;
            start = next;
            point = point.wrapping_add(rises[next as usize]);
        }
    }
}

/// Lines are compared in groups of this size, without a branch for each.
const AT_ONCE: usize = 8;

/// The elements from a position on.
#[inline(always)]
fn at_once<T>(of: &[T; MAX_NEAR], at: usize) -> &[T; AT_ONCE] {
    &of.as_chunks().0[at / AT_ONCE]
}

impl Lines {
    /// The sums of the first `n` neighbours in a list, from those of each element at each level, and lines far above all others up to a
    /// multiple of eight.
    #[inline(always)]
    fn compute<L: Lanes, const E: usize>(
        &mut self,
        lanes: L,
        (of_a, of_b): (&[L::F; E], &[L::F; E]),
        list: &[u16],
        n: usize,
    ) {
        for from in (0..n).step_by(L::N) {
            let code = lanes.load_u16(&list[from..]);
            (code | lanes.splat_i(REPLACED)).store(&mut self.codes[from..]);
            sum_errors::<L, E>(lanes, of_a, code).store(&mut self.a[from..]);
            let there = lanes.mask(!(u32::MAX << (n - from).min(L::N)));
            let b = sum_errors::<L, E>(lanes, of_b, code);
            there.select(b, lanes.splat(f32::NEG_INFINITY)).store(&mut self.b[from..]);
        }
    }
}

/// The part of each element in the sums of a line, at each level.
#[inline(always)]
fn parts_of_lines<L: Lanes, const E: usize>(
    lanes: L,
    x: &[f32; E],
    roots: &[f32; E],
    full: f32,
) -> ([L::F; E], [L::F; E]) {
    let odd = odd_numbers::<L, E>(lanes);
    let (mut of_a, mut of_b) = ([odd; E], [odd; E]);
    for i in 0..E {
        of_a[i] = lanes.splat(roots[i] * full) * (odd * odd);
        of_b[i] = lanes.splat(2.0 * (roots[i] * x[i])) * odd;
    }
    (of_a, of_b)
}

/// The odd numbers that levels stand for, repeated.
#[inline(always)]
fn odd_numbers<L: Lanes, const E: usize>(lanes: L) -> L::F {
    let levels = if E == 8 { 4 } else { 8 };
    let mut odd = [0.0; MAX_LANES];
    for i in 0..L::N {
        odd[i] = (2 * (i % levels) + 1) as f32;
    }
    lanes.load(&odd)
}

/// The sum over the elements of what the table of each has for the level in the packed code, element after element.
#[inline(always)]
fn sum_errors<L: Lanes, const E: usize>(lanes: L, errors: &[L::F; E], mut codes: L::I) -> L::F {
    let mut sum = lanes.splat(0.0);
    for i in 0..E {
        let error = if E == 8 { lanes.pick4(errors[i], codes) } else { lanes.pick8(errors[i], codes) };
        sum = if i == 0 { error } else { sum + error };
        codes = if E == 8 { codes.shr::<2>() } else { codes.shr::<3>() };
    }
    sum
}

/// The packed code of the first of the nearest neighbours in a list, in the reference's arithmetic (`iq2_find_best_neighbour`,
/// `iq3_find_best_neighbour`), a vector of neighbours at a time.
struct Nearest<'a, const E: usize> {
    lists: &'a Lists,
    /// The argument of [`Lists::list`].
    place: i32,
    scale: f32,
    x: &'a [[f32; MAX_LANES]; 8],
    roots: &'a [[f32; MAX_LANES]; 8],
    lane: usize,
}

impl<L: Lanes, const E: usize> Part<L> for Nearest<'_, E> {
    type Output = Option<i32>;

    #[inline(always)]
    fn run(self, lanes: L) -> Option<i32> {
        debug_assert!(Lists::MULTIPLE.is_multiple_of(L::N));
        let Nearest { lists, place, scale, x, roots, lane } = self;
        let lane = lane % MAX_LANES;
        let reached = lanes.splat(scale) * odd_numbers::<L, E>(lanes);
        let mut errors = [reached; E];
        for i in 0..E {
            let d = reached - lanes.splat(x[i][lane]);
            errors[i] = lanes.splat(roots[i][lane]) * d * d;
        }
        let mut least = Least::none(lanes);
        let (first, n) = Lists::list(place);
        for from in (first..first + n).step_by(L::N) {
            let codes = lanes.load_u16(&lists.codes[from..]);
            least.add(codes, sum_errors::<L, E>(lanes, &errors, codes));
        }
        least.code().map(i32::from)
    }
}

/// Rounds one group with one scale and its inverse, as [`place_steps`] does for all; the codes are the result.
#[inline(always)]
pub(super) fn place_once<L: Lanes, T: Grids, const SUB: usize, const E: usize>(
    lanes: L,
    scratch: &mut Scratch,
    (x, roots): (&[L::F; SUB], &[L::F; SUB]),
    (scale, inverse): (L::F, L::F),
    (group, active): (usize, u32),
) -> (L::I, u32) {
    let rule = const { &T::RULE };
    let mut point = lanes.splat(0.0);
    let mut middles = lanes.mask(0);
    for i in (0..E).rev() {
        let (x, root) = (x[group * E + i], roots[group * E + i]);
        x.store(&mut scratch.x[i]);
        root.store(&mut scratch.roots[i]);
        let value = inverse * x;
        point = point * lanes.splat((rule.top + 1) as f32) + twice_level(lanes, rule.top, value);
        // The nearest even number.
        let middle = value + lanes.splat(2.0 * ROUND) - lanes.splat(2.0 * ROUND);
        middles = middles | value.gt(lanes.splat(1.0)) & (value - middle).abs().lt(lanes.splat(MIDDLE));
    }
    let (mut points, mut scales, mut codes) = ([0; MAX_LANES], [0.0; MAX_LANES], [0; MAX_LANES]);
    point.trunc().shr::<1>().store(&mut points);
    scale.store(&mut scales);
    let middles = middles.to_bits();
    let grid = (T::RULE.grid)();
    let mut lost = 0;
    let mut left = active;
    while left != 0 {
        let lane = left.trailing_zeros() as usize % MAX_LANES;
        left &= left - 1;
        let lists = if middles >> lane & 1 == 1 { grid.lists() } else { grid.short_lists() };
        let place = lists.places[points[lane] as u32 as usize];
        codes[lane] = place;
        if place < 0 {
            let (x, roots) = (&scratch.x, &scratch.roots);
            let nearest = Nearest::<E> { lists, place, scale: scales[lane], x, roots, lane };
            let nearest = lanes.call_wide(nearest);
            codes[lane] = nearest.unwrap_or(0) | REPLACED;
            lost |= u32::from(nearest.is_none()) << lane;
        }
    }
    (lanes.load_i(&codes), lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs};
    use crate::lanes::arrays::Arrays;
    use gguf_test::random::Random;

    /// The points of every step, one value after the other.
    fn turns_are_those_of_rounding<T: Grids, const E: usize>() {
        let rule = T::RULE;
        let mut random = Random::new("turns", 0);
        let mut turns = Scratch::new().turns;
        let mut n_turns = 0;
        for turn in 0..4000 {
            let full = [1.0, 3e-20, 7.7e8][turn % 3] * (0.5 + random.unit());
            let mut x = [[0.0; MAX_LANES]; E];
            for x in x.iter_mut().flatten() {
                *x = match random.below(8) {
                    0 => 0.0,
                    1 => full,
                    2 => -full * random.unit(),
                    // Exactly on the middle of two levels in some step, or as near as numbers allow.
                    3 | 4 => {
                        let step = random.between(-rule.reach, rule.reach);
                        let level = 2.0 * random.between(1, rule.top) as f32;
                        let x = level * full / (rule.highest() + step as f32 * rule.step);
                        f32::from_bits(x.to_bits() - 2 + random.below(5) as u32).min(full)
                    }
                    _ => full * random.unit(),
                };
            }
            let columns: [_; E] = core::array::from_fn(|i| Arrays.load(&x[i]));
            find_turns::<Arrays, T, E>(Arrays, &mut turns, &columns, Arrays.splat(full));
            for lane in 0..Arrays::N {
                let mut point = turns.first[lane];
                for s in 0..rule.steps() {
                    let rises =
                        turns.steps[..turns.len].iter().zip(&turns.rise).filter(|(step, _)| step[lane] == s as i32);
                    let rise: i32 = rises.map(|(_, rise)| rise).sum();
                    point += rise;
                    n_turns += u32::from(s > 0 && rise != 0);
                    assert!(s == 0 || (turns.at[lane] >> s & 1 == 1) == (rise != 0), "step {s}");
                    let id = (rule.highest() + (s as i32 - rule.reach) as f32 * rule.step) / full;
                    let mut rounded = 0;
                    let mut middle = false;
                    for x in x.iter().rev() {
                        let value = id * x[lane];
                        let level = (0.5 * (value - 1.0)).round_ties_even().clamp(0.0, rule.top as f32);
                        rounded = rounded * (rule.top + 1) + level as i32;
                        let near = 2.0 * (0.5 * value).round();
                        middle |= near >= 2.0 && near <= 2.0 * rule.top as f32 && (value - near).abs() < MIDDLE;
                    }
                    assert_eq!(point, rounded, "step {s} of {x:?}, lane {lane}, full {full}");
                    assert_eq!(
                        turns.middles[lane] >> s & 1 == 1,
                        middle,
                        "step {s} of {x:?}, lane {lane}, full {full}"
                    );
                }
            }
        }
        assert!(n_turns > 50_000, "{n_turns}");
    }

    #[test]
    fn turns_are_those_of_rounding_each_step() {
        turns_are_those_of_rounding::<iq2_xxs::Block, 8>();
        turns_are_those_of_rounding::<iq2_xs::Block, 8>();
        turns_are_those_of_rounding::<iq2_s::Block, 8>();
        turns_are_those_of_rounding::<iq3_xxs::Block, 4>();
        turns_are_those_of_rounding::<iq3_s::Block, 4>();
    }

    /// Neighbours at once.
    const EIGHT: usize = 8;

    /// The largest distance of the difference of two lines from that of the errors, as a multiple of `u M / s`, over a search for bad cases
    /// that changes one number at a time.
    fn worst_difference<T: Grids, const E: usize>() -> f32 {
        let rule = T::RULE;
        let mut random = Random::new("lines", 0);
        let mut worst = 0.0f64;
        let codes = (rule.grid)().codes();
        for _ in 0..400 {
            let list: [u16; EIGHT] = core::array::from_fn(|_| *random.choose(codes));
            let full = 0.01 + random.unit();
            let mut x: [f32; E] = core::array::from_fn(|_| full * random.unit());
            let mut roots: [f32; E] = core::array::from_fn(|_| random.unit());
            let mut best = 0.0;
            for turn in 0..300 {
                let (old_x, old_roots) = (x, roots);
                let i = turn % E;
                if turn > 0 {
                    x[i] = full * random.unit();
                    roots[i] = random.unit() * [1.0, 1e-3][turn / E % 2];
                }
                let found = difference::<T, E>(&list, full, &x, &roots);
                if found > best {
                    best = found;
                } else {
                    (x, roots) = (old_x, old_roots);
                }
            }
            worst = worst.max(best);
        }
        worst as f32
    }

    fn difference<T: Grids, const E: usize>(list: &[u16; EIGHT], full: f32, x: &[f32; E], roots: &[f32; E]) -> f64 {
        let rule = T::RULE;
        let (of_a, of_b) = parts_of_lines::<Arrays, E>(Arrays, x, roots, full);
        let mut lines = Scratch::new().lines;
        lines.compute::<Arrays, E>(Arrays, (&of_a, &of_b), list, EIGHT);
        let mut worst = 0.0f64;
        for s in [0, rule.steps() / 2, rule.steps() - 1] {
            let id = (rule.highest() + (s as i32 - rule.reach) as f32 * rule.step) / full;
            let scale = 1.0 / id;
            let mut bound = 0.0f64;
            for i in 0..E {
                bound += f64::from(roots[i]) * f64::from(scale * rule.highest() + x[i].abs()).powi(2);
            }
            let both: [_; EIGHT] = core::array::from_fn(|j| {
                let mut error = 0.0f32;
                for i in 0..E {
                    let d = scale * (2 * super::super::level_of(&rule, list[j], i) + 1) as f32 - x[i];
                    error += roots[i] * d * d;
                }
                let line = T::RECIPROCALS[s] * lines.a[j] - lines.b[j];
                f64::from(error) - f64::from(scale) * f64::from(line)
            });
            for (j, a) in both.iter().enumerate() {
                for b in &both[..j] {
                    worst = worst.max((a - b).abs() / (bound * f64::from(f32::EPSILON) / 2.0));
                }
            }
        }
        worst
    }

    #[test]
    fn lines_have_the_order_of_the_errors() {
        let fours = worst_difference::<iq3_xxs::Block, 4>().max(worst_difference::<iq3_s::Block, 4>());
        let eights = worst_difference::<iq2_xxs::Block, 8>().max(worst_difference::<iq2_s::Block, 8>());
        // The search finds a quarter of the bound.
        assert!(fours > 5.0 && fours < margin(4), "{fours}");
        assert!(eights > 5.0 && eights < margin(8), "{eights}");
    }

    #[test]
    fn the_longest_list_has_room() {
        for grid in
            [iq2_xxs::Block::RULE, iq2_xs::Block::RULE, iq2_s::Block::RULE, iq3_xxs::Block::RULE, iq3_s::Block::RULE]
        {
            let places = &(grid.grid)().short_lists().places;
            let longest = places.iter().filter(|&&place| place < 0).map(|&place| Lists::list(place).1).max();
            assert!(longest.is_some_and(|longest| longest <= MAX_NEAR), "{longest:?}");
        }
    }
}
