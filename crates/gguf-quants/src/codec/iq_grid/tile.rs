//! The kernel of the search: one sub-block per lane, every scale side by side.

use core::marker::PhantomData;

use super::runs::{self, REPLACED, ROWS, Scales};
use super::{Again, Found, Grids, LEN, MAX_GROUPS, MAX_SUBS, Rule};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, Part};
use crate::rows::Tile;
use crate::search::{FitPositive, roundable};

/// One super-block per lane: the result of `pack`, and the lanes where it is valid.
#[inline(always)]
pub(in super::super) fn encode_tile<L: Lanes, T: Grids, const SUB: usize, const E: usize, const BYTES: usize>(
    lanes: L,
    tile: &Tile<'_, LEN>,
    pack: fn(&[Found; MAX_SUBS]) -> [u8; BYTES],
    out: &mut [[u8; BYTES]],
) -> u32 {
    let (found, valid) = lanes.call(SearchTile::<T, SUB, E> { tile, of: PhantomData });
    for (out, found) in out.iter_mut().zip(&found) {
        *out = pack(found);
    }
    valid
}

/// [`search`] for one super-block per lane, and the lanes with a valid result.
struct SearchTile<'a, T, const SUB: usize, const E: usize> {
    tile: &'a Tile<'a, LEN>,
    of: PhantomData<T>,
}

impl<L: Lanes, T: Grids, const SUB: usize, const E: usize> Part<L> for SearchTile<'_, T, SUB, E> {
    type Output = ([[Found; MAX_SUBS]; MAX_LANES], u32);

    #[inline(always)]
    fn run(self, lanes: L) -> Self::Output {
        let (rule, tile) = (&T::RULE, self.tile);
        let (values, matrix) = (tile.values(), tile.weights());
        let grid = (rule.grid)();
        let mut scratch = Scratch::new();
        let mut sum_x2 = lanes.splat(0.0);
        for sub in 0..LEN / SUB {
            let x = lanes.columns_apart::<LEN, SUB>(&values, sub);
            for i in 0..SUB {
                sum_x2 = sum_x2 + x[i] * x[i];
            }
        }
        let sigma2 = lanes.splat(rule.spread) * sum_x2 / lanes.splat(LEN as f32);
        // Without NaN and infinity.
        let mut valid = sigma2.lt(lanes.splat(f32::INFINITY)).to_bits() & tile.lanes();
        let mut found = const { [[Found::EMPTY; MAX_SUBS]; MAX_LANES] };
        for sub in 0..LEN / SUB {
            let x = lanes.columns_apart::<LEN, SUB>(&values, sub);
            let mut weights = [lanes.splat(0.0); SUB];
            match &matrix {
                Some(matrix) => {
                    let q = lanes.columns_apart::<LEN, SUB>(matrix, sub);
                    for i in 0..SUB {
                        weights[i] = q[i] * (sigma2 + x[i] * x[i]).sqrt();
                    }
                }
                None => {
                    for i in 0..SUB {
                        weights[i] = x[i] * x[i];
                    }
                    if let Some(share) = rule.plain_share {
                        for i in 0..SUB {
                            weights[i] = lanes.splat(share) * sigma2 + weights[i];
                        }
                    }
                }
            }
            let lane = sub_block::<L, T, SUB, E>(lanes, &mut scratch, &x, &weights, valid);
            valid &= lane.valid;
            for i in 0..tile.len {
                if lane.any >> i & 1 == 1 {
                    let found = &mut found[i][sub];
                    *found = Found { any: true, scale: lane.scale[i], ..*found };
                    for k in 0..SUB / 8 {
                        found.signs[k] = lane.signs[k][i] as u8;
                    }
                    for g in 0..SUB / E {
                        found.index[g] = grid.index(lane.codes[g][i] as u16);
                    }
                }
            }
        }
        (found, valid)
    }
}

/// The results for one sub-block per lane.
struct LaneFound {
    /// Lanes that are not empty and have the following fields.
    any: u32,
    /// Lanes with a valid result, including empty ones.
    valid: u32,
    scale: [f32; MAX_LANES],
    signs: [[i32; MAX_LANES]; 4],
    /// The packed codes of the points.
    codes: [[i32; MAX_LANES]; MAX_GROUPS],
}

/// Room for the intermediate results of one sub-block per lane, in rows of `L::N`.
struct Scratch {
    /// For each group and step the packed code of the point, with [`REPLACED`] if it is a neighbour's.
    places: [[i32; ROWS * MAX_LANES]; MAX_GROUPS],
    /// The scale of each step.
    scales: [f32; ROWS * MAX_LANES],
    of_group: runs::Scratch,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            places: [[0; ROWS * MAX_LANES]; MAX_GROUPS],
            scales: [0.0; ROWS * MAX_LANES],
            of_group: runs::Scratch::new(),
        }
    }
}

/// [`reference_sub_block`] for one sub-block per lane, for the requested lanes.
#[inline(always)]
fn sub_block<L: Lanes, T: Grids, const SUB: usize, const E: usize>(
    lanes: L,
    scratch: &mut Scratch,
    x: &[L::F; SUB],
    weights: &[L::F; SUB],
    wanted: u32,
) -> LaneFound {
    let rule = &T::RULE;
    let zero = lanes.splat(0.0);
    let one = lanes.splat(1.0);
    let all = !lanes.mask(0);
    let mut out = LaneFound::empty(wanted);

    let (x, mut signs) = lane_signs(lanes, rule.even_signs, x, weights);
    let (mut max, mut min) = (x[0], x[0]);
    for i in 1..SUB {
        max = max.max(x[i]);
        min = x[i].min(min);
    }
    let mut empty = max.lt(lanes.splat(rule.empty_below));
    if empty.to_bits() & wanted == wanted {
        return out;
    }

    let mut valid = all;
    let (mut scale, full, fits) = first_scale(lanes, rule, &x, weights, max);
    empty = empty | (fits & full.le(zero));
    valid = valid & fits;

    let mut roots = [zero; SUB];
    let mut wx = [zero; SUB];
    for i in 0..SUB {
        // Adding zero makes roots of -0 positive, so that sums can be compared as integers.
        roots[i] = weights[i].sqrt() + zero;
        wx[i] = weights[i] * x[i];
    }
    let steps = const { T::RULE.steps() };
    let mut last_id = zero;
    for s in 0..steps {
        last_id = lanes.splat(rule.highest() + (s as i32 - rule.reach) as f32 * rule.step) / full;
        (one / last_id).store(&mut scratch.scales[s * L::N..]);
    }
    valid = valid & roundable_levels(lanes, last_id, min, max);
    let mut active = (valid & !empty).to_bits() & wanted;

    // Every group with every scale.
    let Scratch { places, scales, of_group } = scratch;
    for g in 0..SUB / E {
        let scales = Scales { full, scales };
        active &=
            !runs::place_steps::<L, T, SUB, E>(lanes, of_group, (&x, &roots), &scales, (g, active), &mut places[g]);
    }
    let nothing = lanes.splat_i(if rule.again == Again::Replaced { 0 } else { REPLACED });
    let mut chosen = [nothing; MAX_GROUPS];
    scale = best_step::<L, SUB, E>(lanes, (weights, &wx), places, steps, scale, &mut chosen);

    // The groups that are rounded again with the chosen scale.
    let mut replaced = [lanes.mask(0); MAX_GROUPS];
    let mut any_replaced = lanes.mask(0);
    for g in 0..SUB / E {
        replaced[g] = chosen[g].gt(lanes.splat_i(REPLACED - 1));
        any_replaced = any_replaced | replaced[g];
    }
    let mut again = scale.gt(zero);
    if rule.again != Again::All {
        again = again & any_replaced;
    }
    let inverse = one / scale;
    valid = valid & (!again | roundable_levels(lanes, inverse, min, max));
    let bits = (again & valid).to_bits() & active;
    if bits != 0 {
        for g in 0..SUB / E {
            let of = if rule.again == Again::Replaced { replaced[g].to_bits() & bits } else { bits };
            let (codes, lost) =
                runs::place_once::<L, T, SUB, E>(lanes, of_group, (&x, &roots), (scale, inverse), (g, of & active));
            active &= !lost;
            chosen[g] = lanes.mask(of).select_i(codes, chosen[g]);
        }
        let (sum_qx, sum_q2) = sums::<L, SUB, E>(lanes, weights, &wx, &chosen);
        scale = (again & sum_q2.gt(zero)).select(sum_qx / sum_q2, scale);
    }

    let scale = out.store_chosen(lanes, scale, &mut signs[..SUB / 8], &chosen[..SUB / E]);
    out.any = active & (valid & scale.ge(zero)).to_bits();
    out.valid = wanted & (out.any | empty.to_bits());
    out
}

impl LaneFound {
    /// Empty sub-blocks in these lanes.
    #[inline(always)]
    fn empty(valid: u32) -> LaneFound {
        LaneFound {
            any: 0,
            valid,
            scale: [0.0; MAX_LANES],
            signs: [[0; MAX_LANES]; 4],
            codes: [[0; MAX_LANES]; MAX_GROUPS],
        }
    }

    /// Stores the codes, the signs, and the scale without its sign, which is returned.
    #[inline(always)]
    fn store_chosen<L: Lanes>(&mut self, lanes: L, scale: L::F, signs: &mut [L::I], chosen: &[L::I]) -> L::F {
        let negative = scale.lt(lanes.splat(0.0));
        let scale = negative.select(-scale, scale);
        for (signs, out) in signs.iter_mut().zip(&mut self.signs) {
            *signs = negative.select_i(*signs ^ lanes.splat_i(255), *signs);
            signs.store(out);
        }
        for (chosen, out) in chosen.iter().zip(&mut self.codes) {
            chosen.store(out);
        }
        scale.store(&mut self.scale);
        scale
    }
}

/// The codes of the step with the least error, and its scale; those given, if no step has a scale.
#[inline(always)]
fn best_step<L: Lanes, const SUB: usize, const E: usize>(
    lanes: L,
    (weights, wx): (&[L::F; SUB], &[L::F; SUB]),
    places: &[[i32; ROWS * MAX_LANES]; MAX_GROUPS],
    steps: usize,
    mut scale: L::F,
    chosen: &mut [L::I; MAX_GROUPS],
) -> L::F {
    let zero = lanes.splat(0.0);
    let mut best = zero;
    for s in 0..steps {
        let mut tried = *chosen;
        for g in 0..SUB / E {
            tried[g] = lanes.load_i(&places[g][s * L::N..]);
        }
        let (sum_qx, sum_q2) = sums::<L, SUB, E>(lanes, weights, wx, &tried);
        let better = sum_q2.gt(zero) & (sum_qx * sum_qx).gt(best * sum_q2);
        scale = better.select(sum_qx / sum_q2, scale);
        best = better.select(scale * sum_qx, best);
        for g in 0..SUB / E {
            chosen[g] = better.select_i(tried[g], chosen[g]);
        }
    }
    scale
}

/// The scale from which the search starts, the largest value at the highest level, and the lanes in which these are right.
#[inline(always)]
fn first_scale<L: Lanes, const SUB: usize>(
    lanes: L,
    rule: &Rule,
    x: &[L::F; SUB],
    weights: &[L::F; SUB],
    max: L::F,
) -> (L::F, L::F, L::M) {
    if rule.fitted {
        // No other type runs this search with these parameters, so it is inlined into the kernel.
        let levels = &mut [lanes.splat(0.0); SUB];
        let (scale, fits) = FitPositive::<L, SUB, true> { top: rule.top + 2, x, weights, levels }.run(lanes);
        (scale, scale * lanes.splat((rule.top + 1) as f32), fits)
    } else {
        (max / lanes.splat(rule.highest()), max, !lanes.mask(0))
    }
}

/// Whether the levels of all numbers between those two can be computed by addition and subtraction.
#[inline(always)]
fn roundable_levels<L: Lanes>(lanes: L, id: L::F, min: L::F, max: L::F) -> L::M {
    let half = lanes.splat(0.5);
    let one = lanes.splat(1.0);
    roundable(lanes, half * (id * min - one), half * (id * max - one))
}

/// [`split_signs`] in lanes.
#[inline(always)]
fn lane_signs<L: Lanes, const SUB: usize>(
    lanes: L,
    even: bool,
    x: &[L::F; SUB],
    weights: &[L::F; SUB],
) -> ([L::F; SUB], [L::I; 4]) {
    let zero = lanes.splat(0.0);
    let none = lanes.splat_i(0);
    let mut magnitudes = *x;
    let mut signs = [none; 4];
    for k in 0..SUB / 8 {
        for i in 0..8 {
            let positive = x[8 * k + i].ge(zero);
            magnitudes[8 * k + i] = positive.select(x[8 * k + i], -x[8 * k + i]);
            signs[k] = signs[k] | positive.select_i(none, lanes.splat_i(1 << i));
        }
        if even {
            let four = signs[k] ^ signs[k].shr::<4>();
            let two = four ^ four.shr::<2>();
            let odd = ((two ^ two.shr::<1>()) & lanes.splat_i(1)).equal(lanes.splat_i(1));
            let mut least = weights[8 * k] * x[8 * k] * x[8 * k];
            let mut bit = lanes.splat_i(1);
            for i in 1..8 {
                let importance = weights[8 * k + i] * x[8 * k + i] * x[8 * k + i];
                let less = importance.lt(least);
                least = less.select(importance, least);
                bit = less.select_i(lanes.splat_i(1 << i), bit);
            }
            for i in 0..8 {
                let turn = odd & bit.equal(lanes.splat_i(1 << i));
                magnitudes[8 * k + i] = turn.select(-magnitudes[8 * k + i], magnitudes[8 * k + i]);
            }
            signs[k] = odd.select_i(signs[k] ^ bit, signs[k]);
        }
    }
    (magnitudes, signs)
}

/// The sums for one set of points: with the values, and of the squares.
#[inline(always)]
fn sums<L: Lanes, const SUB: usize, const E: usize>(
    lanes: L,
    weights: &[L::F; SUB],
    wx: &[L::F; SUB],
    codes: &[L::I; MAX_GROUPS],
) -> (L::F, L::F) {
    let (mut sum_qx, mut sum_q2) = (lanes.splat(0.0), lanes.splat(0.0));
    let four = lanes.table4(&[1.0, 3.0, 5.0, 7.0]);
    let eight = lanes.table8(&[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);
    for g in 0..SUB / E {
        let mut code = codes[g];
        for i in g * E..(g + 1) * E {
            let q = if E == 8 { lanes.lookup4(four, code) } else { lanes.lookup8(eight, code) };
            code = if E == 8 { code.shr::<2>() } else { code.shr::<3>() };
            sum_qx = sum_qx + wx[i] * q;
            sum_q2 = sum_q2 + weights[i] * q * q;
        }
    }
    (sum_qx, sum_q2)
}
