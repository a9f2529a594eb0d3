//! Shared code of the IQ2 and IQ3 types: magnitudes that are points of a codebook, separate signs, and a scale for each sub-block.
//!
//! ```text
//! super-block of 256: sub-blocks of 32 or 16, each with a scale of 4 bits
//! sub-block: groups of 8 or 4, each the index of a point of the codebook (see grids)
//! signs: 8 bits for 8 values, or 7 bits when their number of minus signs is always even
//! ```
//!
//! The search is the same for all (`quantize_row_iq2_xxs_impl`, `quantize_row_iq2_xs_impl`, `quantize_row_iq2_s_impl`,
//! `quantize_row_iq3_xxs_impl` and `quantize_row_iq3_s_impl` in `ggml-quants.c`): it tries a number of scales; for each, every group is
//! rounded and, if the codebook lacks the point, replaced by the best of its neighbours; the best scale is kept. `Rule` describes the
//! differences between the types.
//!
//! Nearly all time is spent on the neighbours. The result of a group under one scale does not depend on the other scales, so the kernel
//! first rounds one group with every scale, one sub-block per lane, and then processes lane by lane: eight neighbours at a time in eight
//! lanes. An element has few levels, so its errors are computed once for each level and selected from a register; each neighbour's sum is
//! added in the order of the elements, and so has the bits of the reference.
#![allow(clippy::needless_range_loop, reason = "elements, groups and steps are counted")]

use core::marker::PhantomData;

use super::block::{Lost, Pairs};
use crate::grids::{self, Eights, Grid, PointPlace};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, Part};
use crate::rows::Tile;
use crate::search::{FitPositive, ROUND, fit_positive, nearest_int, roundable};

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// The most sub-blocks in a super-block.
pub(super) const MAX_SUBS: usize = 16;
/// The largest number of scales to try.
const MAX_STEPS: usize = 31;
/// The most groups in a sub-block.
const MAX_GROUPS: usize = 8;

/// The parameters of one type's encoder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// The codebook.
    pub grid: fn() -> &'static Grid,
    /// The highest level of an element; a level `l` stands for the magnitude `2 l + 1`.
    pub top: i32,
    /// Factor of the super-block's mean square in the weights, with a matrix.
    pub spread: f32,
    /// The share of that which is added to a value's square for its weight, without a matrix.
    pub plain_share: Option<f32>,
    /// Whether eight values have an even number of minus signs.
    pub even_signs: bool,
    /// A sub-block with a maximum below this is zero.
    pub empty_below: f32,
    /// Scales are tried from this many steps below the first guess to as many above.
    pub reach: i32,
    /// The distance of two steps, in levels.
    pub step: f32,
    /// Whether the first guess comes from a separate search (`make_qp_quants`) instead of the maximum.
    pub fitted: bool,
    /// The groups to round again with the chosen scale.
    pub again: Again,
}

/// A type with its rule, a constant of the kernel: the number of steps is known at compile time.
pub(super) trait Grids {
    /// The rule.
    const RULE: Rule;
}

/// The groups to round again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Groups that were not points of the codebook.
    Replaced,
    /// All groups, if one of them was not a point of the codebook, or no scale was better than zero.
    AllIfReplaced,
    /// All groups.
    All,
}

/// The result for a sub-block; all zero for an empty one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Whether the sub-block is not empty.
    pub any: bool,
    /// The scale; not negative.
    pub scale: f32,
    /// The signs of each eight values, the first in the lowest bit. With even signs the highest bit is unspecified.
    pub signs: [u8; 4],
    /// The index of each group's point.
    pub index: [u16; MAX_GROUPS],
}

impl Found {
    /// Zero. Arrays of a constant are cleared at once; of a value, every field is stored separately.
    const EMPTY: Found = Found { any: false, scale: 0.0, signs: [0; 4], index: [0; MAX_GROUPS] };
}

/// The scale of the super-block and the 4-bit scales of its sub-blocks; `None` when all of them are zero.
pub(super) fn scales(found: &[Found]) -> Option<(f32, [u8; MAX_SUBS])> {
    let mut max = 0.0;
    for f in found {
        max = if max > f.scale { max } else { f.scale };
    }
    if max == 0.0 {
        return None;
    }
    let d = max / 31.0;
    let id = 1.0 / d;
    let mut levels = [0; MAX_SUBS];
    for (level, f) in levels.iter_mut().zip(found) {
        *level = nearest_int(0.5 * (id * f.scale - 1.0)).clamp(0, 15) as u8;
    }
    Some((d, levels))
}

/// The magnitudes of the levels of the IQ2 types, for decoding; the search uses odd numbers instead.
pub(super) const MAGNITUDES_2: [u8; 8] = [8, 25, 43, 0, 0, 0, 0, 0];

/// For each byte of signs, eight sign bits.
pub(super) static SIGNS: [[u32; 8]; 256] = sign_bits(false);
/// For each seven bits of signs, eight sign bits with an even number of minus signs.
pub(super) static EVEN_SIGNS: [[u32; 8]; 128] = sign_bits(true);

const fn sign_bits<const BYTES: usize>(even: bool) -> [[u32; 8]; BYTES] {
    let mut all = [[0; 8]; BYTES];
    let mut byte = 0;
    while byte < BYTES {
        let signs = if even { grids::signs(byte as u8) } else { byte as u8 };
        let mut i = 0;
        while i < 8 {
            all[byte][i] = (signs as u32 >> i & 1) << 31;
            i += 1;
        }
        byte += 1;
    }
    all
}

/// Decodes eight values. Signs are flipped, not multiplied: as compiled, ggml's factor of -1 flips those of NaNs too.
#[inline(always)]
pub(super) fn put_eight(values: &mut [f32; 8], scale: f32, magnitudes: [u8; 8], signs: &[u32; 8]) {
    for i in 0..8 {
        values[i] = f32::from_bits((scale * f32::from(magnitudes[i])).to_bits() ^ signs[i]);
    }
}

/// A value of that magnitude, scalar reference.
pub(super) fn signed(scale: f32, magnitude: u8, minus: bool) -> f32 {
    let value = scale * f32::from(magnitude);
    if minus { -value } else { value }
}

/// Two points of four as one.
#[inline(always)]
pub(super) fn both(a: [u8; 4], b: [u8; 4]) -> [u8; 8] {
    (u64::from(u32::from_le_bytes(a)) | u64::from(u32::from_le_bytes(b)) << 32).to_le_bytes()
}

/// Neighbours are processed in groups of eight.
pub(super) const PAIRS: Pairs = Pairs::Narrow;

/// One super-block, scalar reference.
#[inline(never)]
pub(super) fn search<const SUB: usize, const E: usize>(
    rule: &Rule,
    x: &[f32; LEN],
    matrix: Option<&[f32; LEN]>,
) -> Result<[Found; MAX_SUBS], Lost> {
    let mut found = [Found::EMPTY; MAX_SUBS];
    let mut sum_x2 = 0.0;
    for x in x {
        sum_x2 += x * x;
    }
    let sigma2 = rule.spread * sum_x2 / LEN as f32;
    for (sub, found) in found[..LEN / SUB].iter_mut().enumerate() {
        let matrix = matrix.map(|m| &m.as_chunks::<SUB>().0[sub]);
        *found = reference_sub_block::<SUB, E>(rule, sigma2, &x.as_chunks::<SUB>().0[sub], matrix)?;
    }
    Ok(found)
}

fn reference_weights<const SUB: usize>(
    rule: &Rule,
    sigma2: f32,
    x: &[f32; SUB],
    matrix: Option<&[f32; SUB]>,
) -> [f32; SUB] {
    let mut weights = [0.0; SUB];
    for i in 0..SUB {
        let x2 = x[i] * x[i];
        weights[i] = match (matrix, rule.plain_share) {
            (Some(matrix), _) => matrix[i] * (sigma2 + x2).sqrt(),
            (None, Some(share)) => share * sigma2 + x2,
            (None, None) => x2,
        };
    }
    weights
}

#[inline(never)]
fn reference_sub_block<const SUB: usize, const E: usize>(
    rule: &Rule,
    sigma2: f32,
    x: &[f32; SUB],
    matrix: Option<&[f32; SUB]>,
) -> Result<Found, Lost> {
    let grid = (rule.grid)();
    let weights = reference_weights(rule, sigma2, x, matrix);
    let roots = weights.map(f32::sqrt);
    let (magnitudes, mut signs) = split_signs(rule.even_signs, x, &weights);
    let mut max = magnitudes[0];
    for m in &magnitudes[1..] {
        max = if max > *m { max } else { *m };
    }
    if max < rule.empty_below {
        return Ok(Found::EMPTY);
    }

    let highest = (2 * rule.top + 1) as f32;
    let (mut scale, mut full) = (max / highest, max);
    if rule.fitted {
        scale = fit_positive(rule.top + 2, &magnitudes, &weights, &mut [0; SUB]);
        full = scale * (rule.top + 1) as f32;
    }
    if full <= 0.0 {
        return Ok(Found::EMPTY);
    }

    // The sums for one set of levels: with the values, and of the squares.
    let sums = |levels: &[u8; SUB]| {
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for i in 0..SUB {
            let q = (2 * levels[i] + 1) as f32;
            sum_qx += weights[i] * magnitudes[i] * q;
            sum_q2 += weights[i] * q * q;
        }
        (sum_qx, sum_q2)
    };
    // Rounds a group, or finds its best neighbour; returns whether the codebook has the rounded point.
    let place_group = |group: usize, id: f32, scale: f32, levels: &mut [u8; SUB]| {
        let at = group * E..(group + 1) * E;
        let levels = &mut levels[at.clone()];
        for (level, m) in levels.iter_mut().zip(&magnitudes[at.clone()]) {
            *level = nearest_int(0.5 * (id * m - 1.0)).min(rule.top).max(0) as u8;
        }
        let PointPlace::Near(near) = grid.place(point(rule, levels)) else { return Ok(true) };
        let code = best_neighbour(rule, near, &magnitudes[at.clone()], &roots[at], scale)?;
        for (i, level) in levels.iter_mut().enumerate() {
            *level = level_of(rule, code, i);
        }
        Ok(false)
    };

    let mut best = 0.0;
    let mut levels = [0; SUB];
    let mut on_grid = [rule.again == Again::Replaced; MAX_GROUPS];
    for step in -rule.reach..=rule.reach {
        let id = (highest + step as f32 * rule.step) / full;
        let this_scale = 1.0 / id;
        let mut tried = [0; SUB];
        let mut tried_on_grid = [false; MAX_GROUPS];
        for group in 0..SUB / E {
            tried_on_grid[group] = place_group(group, id, this_scale, &mut tried)?;
        }
        let (sum_qx, sum_q2) = sums(&tried);
        if sum_q2 > 0.0 && sum_qx * sum_qx > best * sum_q2 {
            scale = sum_qx / sum_q2;
            best = scale * sum_qx;
            levels = tried;
            on_grid = tried_on_grid;
        }
    }
    let on_grid = &on_grid[..SUB / E];
    if scale > 0.0 && (rule.again == Again::All || on_grid.contains(&false)) {
        let id = 1.0 / scale;
        for group in 0..SUB / E {
            if rule.again != Again::Replaced || !on_grid[group] {
                place_group(group, id, scale, &mut levels)?;
            }
        }
        let (sum_qx, sum_q2) = sums(&levels);
        if sum_q2 > 0.0 {
            scale = sum_qx / sum_q2;
        }
    }
    if scale < 0.0 {
        scale = -scale;
        signs = signs.map(|s| !s);
    }
    // ggml aborts.
    if scale.is_nan() {
        return Err(Lost);
    }
    let mut found = Found { any: true, scale, signs, ..Found::EMPTY };
    for (index, levels) in found.index.iter_mut().zip(levels.chunks_exact(E)) {
        let PointPlace::On(at) = grid.place(point(rule, levels)) else { return Err(Lost) };
        *index = at;
    }
    Ok(found)
}

/// Magnitudes and signs. If the number of minus signs must be even and is not, the least important value is negated, and then has a
/// negative magnitude.
fn split_signs<const SUB: usize>(even: bool, x: &[f32; SUB], weights: &[f32; SUB]) -> ([f32; SUB], [u8; 4]) {
    let mut magnitudes = *x;
    let mut signs = [0u8; 4];
    for (k, sign) in signs[..SUB / 8].iter_mut().enumerate() {
        let at = 8 * k..8 * k + 8;
        for (i, m) in magnitudes[at.clone()].iter_mut().enumerate() {
            if *m < 0.0 || m.is_nan() {
                *m = -*m;
                *sign |= 1 << i;
            }
        }
        if even && sign.count_ones() % 2 == 1 {
            let importance = |i: usize| weights[8 * k + i] * x[8 * k + i] * x[8 * k + i];
            let mut least = 0;
            for i in 1..8 {
                if importance(i) < importance(least) {
                    least = i;
                }
            }
            magnitudes[8 * k + least] = -magnitudes[8 * k + least];
            *sign ^= 1 << least;
        }
    }
    (magnitudes, signs)
}

/// The number of a point, see [`Grid`].
fn point(rule: &Rule, levels: &[u8]) -> usize {
    levels.iter().rev().fold(0, |point, &l| point * (rule.top as usize + 1) + usize::from(l))
}

/// A level from a packed code.
#[inline(always)]
fn level_of(rule: &Rule, code: u16, element: usize) -> u8 {
    (if rule.top == 2 { code >> (2 * element) & 3 } else { code >> (3 * element) & 7 }) as u8
}

/// The code of the first of the nearest neighbours under the weights (`iq2_find_best_neighbour`, `iq3_find_best_neighbour`).
fn best_neighbour(rule: &Rule, near: &[u16], x: &[f32], roots: &[f32], scale: f32) -> Result<u16, Lost> {
    let codes = (rule.grid)().codes();
    let mut best = f32::MAX;
    let mut code = None;
    for &index in near {
        let candidate = codes[usize::from(index)];
        let mut error = 0.0;
        for i in 0..x.len() {
            let q = (2 * level_of(rule, candidate, i) + 1) as f32;
            let d = scale * q - x[i];
            error += roots[i] * d * d;
        }
        if error < best {
            best = error;
            code = Some(candidate);
        }
    }
    code.ok_or(Lost)
}

/// One super-block per lane: the result of `pack`, and the lanes where it is valid.
#[inline(always)]
pub(super) fn encode_tile<L: Lanes, T: Grids, const SUB: usize, const E: usize, const BYTES: usize>(
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
            let lane = sub_block::<L, SUB, E>(lanes, rule, grid, &mut scratch, &x, &weights, valid);
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
    /// For each group and step first the rounded point, times two, then its place: a packed code, with [`REPLACED`] if it is a neighbour's.
    places: [[i32; ROWS * MAX_LANES]; MAX_GROUPS],
    /// The scale of each step.
    scales: [f32; ROWS * MAX_LANES],
    /// The magnitudes and roots of one group.
    x: [[f32; MAX_LANES]; 8],
    roots: [[f32; MAX_LANES]; 8],
    search: Search,
}

/// A flag above the packed code of a neighbour.
const REPLACED: i32 = 1 << 16;

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            places: [[0; ROWS * MAX_LANES]; MAX_GROUPS],
            scales: [0.0; ROWS * MAX_LANES],
            x: [[0.0; MAX_LANES]; 8],
            roots: [[0.0; MAX_LANES]; 8],
            search: Search { entries: [0; MAX_ENTRIES], long: [0; ROWS], least: [0; ROWS] },
        }
    }
}

/// [`reference_sub_block`] for one sub-block per lane, for the requested lanes.
#[inline(always)]
fn sub_block<L: Lanes, const SUB: usize, const E: usize>(
    lanes: L,
    rule: &Rule,
    grid: &Grid,
    scratch: &mut Scratch,
    x: &[L::F; SUB],
    weights: &[L::F; SUB],
    wanted: u32,
) -> LaneFound {
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
    let steps = (2 * rule.reach + 1) as usize;
    let mut ids = [zero; MAX_STEPS];
    for s in 0..steps {
        let highest = (2 * rule.top + 1) as f32;
        ids[s] = lanes.splat(highest + (s as i32 - rule.reach) as f32 * rule.step) / full;
        (one / ids[s]).store(&mut scratch.scales[s * L::N..]);
    }
    valid = valid & roundable_levels(lanes, ids[steps - 1], min, max);
    let mut again = lanes.mask(0);
    let mut active = (valid & !empty).to_bits() & wanted;

    // First every group with every scale, then the groups that are rounded again with the chosen scale.
    let nothing = lanes.splat_i(if rule.again == Again::Replaced { 0 } else { REPLACED });
    let mut chosen = [nothing; MAX_GROUPS];
    let mut n_ids = steps;
    let mut of_groups = [active; MAX_GROUPS];
    loop {
        for g in 0..SUB / E {
            active &=
                !place_group::<L, SUB, E>(lanes, grid, scratch, (&x, &roots), &ids[..n_ids], g, of_groups[g] & active);
        }
        if n_ids == 1 {
            for g in 0..SUB / E {
                let found = lanes.load_i(&scratch.places[g]);
                chosen[g] = lanes.mask(of_groups[g]).select_i(found, chosen[g]);
            }
            let (sum_qx, sum_q2) = sums::<L, SUB, E>(lanes, weights, &wx, &chosen);
            scale = (again & sum_q2.gt(zero)).select(sum_qx / sum_q2, scale);
            break;
        }
        scale = best_step::<L, SUB, E>(lanes, (weights, &wx), &scratch.places, steps, scale, &mut chosen);

        let mut replaced = [lanes.mask(0); MAX_GROUPS];
        let mut any_replaced = lanes.mask(0);
        for g in 0..SUB / E {
            replaced[g] = chosen[g].gt(lanes.splat_i(REPLACED - 1));
            any_replaced = any_replaced | replaced[g];
        }
        again = scale.gt(zero);
        if rule.again != Again::All {
            again = again & any_replaced;
        }
        let inverse = one / scale;
        valid = valid & (!again | roundable_levels(lanes, inverse, min, max));
        let bits = (again & valid).to_bits() & active;
        if bits == 0 {
            break;
        }
        for g in 0..SUB / E {
            of_groups[g] = if rule.again == Again::Replaced { replaced[g].to_bits() & bits } else { bits };
        }
        scale.store(&mut scratch.scales);
        ids[0] = inverse;
        n_ids = 1;
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
        (max / lanes.splat((2 * rule.top + 1) as f32), max, !lanes.mask(0))
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

/// Rounds one group with the inverse scale of each step and stores in the scratch, for the active lanes, the codes of the points or of
/// their neighbours. Returns the lanes without a neighbour.
#[inline(always)]
fn place_group<L: Lanes, const SUB: usize, const E: usize>(
    lanes: L,
    grid: &Grid,
    scratch: &mut Scratch,
    (x, roots): (&[L::F; SUB], &[L::F; SUB]),
    ids: &[L::F],
    group: usize,
    active: u32,
) -> u32 {
    let top = if E == 8 { 2.0 } else { 7.0 };
    // The sum is an even integer, twice the one for half the number and half the constant.
    let round = 2.0 * ROUND;
    for s in 0..ids.len() {
        let mut point = lanes.splat(0.0);
        for i in (group * E..(group + 1) * E).rev() {
            let sum = ids[s] * x[i] - lanes.splat(1.0) + lanes.splat(round);
            let level = sum.min(lanes.splat(round + 2.0 * top)).max(lanes.splat(round)) - lanes.splat(round);
            point = point * lanes.splat(top + 1.0) + level;
        }
        point.trunc().store(&mut scratch.places[group][s * L::N..]);
    }
    for i in 0..E {
        x[group * E + i].store(&mut scratch.x[i]);
        roots[group * E + i].store(&mut scratch.roots[i]);
    }
    let eights = grid.eights();
    let mut lost = 0;
    let mut left = active;
    while left != 0 {
        let lane = left.trailing_zeros();
        left &= left - 1;
        let search = FindNeighbours::<E> { eights, scratch, group, steps: ids.len(), lane: lane as usize };
        if !lanes.call(search) {
            lost |= 1 << lane;
        }
    }
    lost
}

/// Rows of the tables that have one for each step.
const ROWS: usize = 32;
/// The most entries of [`Search`]: points of four elements have lists of up to five groups of eight.
const MAX_ENTRIES: usize = 5 * ROWS + 2 * MAX_LANES / 8;

/// The lists to search for one lane and group: the neighbours of the points to which the steps rounded. An entry is an argument of
/// [`Eights::list`], negated, with the number of the step in [`Eights::FREE`].
struct Search {
    entries: [u32; MAX_ENTRIES],
    /// Lists longer than eight.
    long: [u32; ROWS],
    /// For each step the bits of the least error so far.
    least: [i32; ROWS],
}

impl Search {
    /// Lists the points of a lane that the codebook lacks, by their lists of neighbours and their steps. The result is the number of entries,
    /// and how many of them look at a list first; `None` without entries. Points in the codebook become their codes.
    #[inline(always)]
    fn list_entries<const E: usize>(
        &mut self,
        map: &[i32],
        places: &mut [i32; ROWS * MAX_LANES],
        (steps, n_lanes): (usize, usize),
        lane: usize,
    ) -> Option<(usize, usize)> {
        let at_once = n_lanes / 8;
        let (mut n, mut n_long) = (0, 0);
        for s in 0..steps.min(ROWS) {
            // Without branches: whether a point is in the codebook is hard to predict.
            let place = map[places[s * n_lanes + lane] as u32 as usize / 2];
            places[s * n_lanes + lane] = place;
            let entry = !place as u32 | (s as u32) << Eights::FREE;
            self.entries[n] = entry;
            n += usize::from(place < 0);
            if E == 4 {
                self.long[n_long % ROWS] = entry;
                n_long += usize::from(place < 0 && Eights::list(place).1 > 1);
            }
        }
        if n == 0 {
            return None;
        }
        // Vectors are padded with the last entry, which changes nothing.
        let n_first = n.next_multiple_of(at_once);
        for i in n..n_first {
            self.entries[i] = self.entries[n - 1];
        }
        n = n_first;
        if E == 4 {
            // Lists are short: one search for each eight, without an inner loop.
            for &entry in &self.long[..n_long] {
                for i in 1..Eights::list(!entry as i32).1 as u32 {
                    self.entries[n] = entry + i;
                    n += 1;
                }
            }
            for i in n..n.next_multiple_of(at_once) {
                self.entries[i] = self.entries[n - 1];
            }
        }
        Some((n.next_multiple_of(at_once), n_first))
    }
}

/// Replaces the rounded points of one lane, one for each step, by codes. The result is whether all were found.
///
/// A vector holds eight neighbours of one list in each eight lanes, each for another step.
struct FindNeighbours<'a, const E: usize> {
    eights: &'a Eights,
    scratch: &'a mut Scratch,
    group: usize,
    steps: usize,
    lane: usize,
}

impl<L: Lanes, const E: usize> Part<L> for FindNeighbours<'_, E> {
    type Output = bool;

    #[inline(always)]
    fn run(self, lanes: L) -> bool {
        let FindNeighbours { eights, scratch, group, steps, lane } = self;
        let at_once = L::N / 8;
        let lane = lane & (L::N - 1);
        let Scratch { places, scales, x, roots, search } = scratch;
        let places = &mut places[group];
        let all_codes = &eights.codes[..];
        let Some((n, n_first)) = search.list_entries::<E>(&eights.places, places, (steps, L::N), lane) else {
            return true;
        };
        let (mut values, mut weights) = ([lanes.splat(0.0); E], [lanes.splat(0.0); E]);
        for i in 0..E {
            values[i] = lanes.splat(x[i][lane]);
            weights[i] = lanes.splat(roots[i][lane]);
        }
        let mut magnitudes = [0.0; MAX_LANES];
        let mut order = [0; MAX_LANES];
        for i in 0..MAX_LANES {
            magnitudes[i] = if E == 8 { (2 * (i & 3) + 1) as f32 } else { (2 * (i & 7) + 1) as f32 };
            order[i] = ((i & 7) << 16) as i32;
        }
        let magnitudes = lanes.load(&magnitudes);
        // The position in the list above the code, to choose the first of equal neighbours.
        let order = lanes.load_i(&order);
        let too_far = lanes.splat(f32::MAX);

        let mut lost = lanes.mask(0);
        for (turn, entries) in search.entries[..n].chunks_exact(at_once).enumerate() {
            let first_look = turn * at_once < n_first;
            let mut start = [0; MAX_LANES / 8];
            let mut step = [0; MAX_LANES / 8];
            let mut scale = [0.0; MAX_LANES / 8];
            let mut longest = 1;
            for j in 0..at_once {
                let (first, n_eights) = Eights::list(!entries[j] as i32);
                start[j] = first;
                longest = longest.max(n_eights);
                step[j] = (entries[j] >> Eights::FREE) as usize % ROWS;
                scale[j] = scales[step[j] * L::N + lane];
            }
            // The error of each element at each level.
            let reached = lanes.splat_eights(&scale) * magnitudes;
            let mut errors = [reached; E];
            for i in 0..E {
                let d = reached - values[i];
                errors[i] = weights[i] * d * d;
            }

            let codes = lanes.load_eights(all_codes, &start);
            let mut best = sum_errors::<L, E>(lanes, &errors, codes).min(too_far);
            let mut found = codes | order;
            if E == 8 {
                for turn in 1..longest {
                    for j in 0..at_once {
                        // A repetition of the last eight cannot win against itself.
                        start[j] += if turn < Eights::list(!entries[j] as i32).1 { 8 } else { 0 };
                    }
                    let codes = lanes.load_eights(all_codes, &start);
                    let error = sum_errors::<L, E>(lanes, &errors, codes);
                    let less = error.lt(best);
                    best = less.select(error, best);
                    found = less.select_i(codes | order | lanes.splat_i((turn as i32) << 19), found);
                }
            }
            // Sums of squares are not negative, so their bits have the same order.
            let least = lanes.least_of_eight(best.bits());
            lost = lost | least.equal(too_far.bits());
            let won = best.bits().equal(least);
            let mut leasts = [0; MAX_LANES];
            least.store(&mut leasts);
            let mut codes = [0; MAX_LANES];
            if E == 8 {
                lanes.least_of_eight(won.select_i(found, lanes.splat_i(i32::MAX))).store(&mut codes);
            } else {
                // For each eight, the first lane that won.
                let won = won.to_bits();
                for j in 0..at_once {
                    codes[8 * j] = i32::from(all_codes[start[j] + (won >> (8 * j)).trailing_zeros() as usize]);
                }
            }
            for j in 0..at_once {
                let least = &mut search.least[step[j]];
                if first_look || leasts[8 * j] < *least {
                    *least = leasts[8 * j];
                    places[step[j] * L::N + lane] = codes[8 * j] & 0xffff | REPLACED;
                }
            }
        }
        !lost.any()
    }
}

/// The errors of the points with these codes, summed element after element.
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

/// The even signs of four groups of eight values, seven bits each, and a scale in the top four bits.
pub(super) fn word(signs: [u8; 4], scale: u8) -> u32 {
    let mut word = u32::from(scale) << 28;
    for (k, s) in signs.into_iter().enumerate() {
        word |= u32::from(s & 127) << (7 * k);
    }
    word
}
