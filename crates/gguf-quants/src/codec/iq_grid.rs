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
//! The kernel (`tile.rs`) has one sub-block per lane. Nearly all time is spent on the points of its groups and their neighbours (`runs.rs`).
#![allow(clippy::needless_range_loop, reason = "elements, groups and steps are counted")]

mod runs;
mod tile;

use super::block::{Lost, Pairs};
use crate::grids::{self, Grid, PointPlace};
use crate::search::{fit_positive, nearest_int};

pub(super) use tile::encode_tile;

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// The most sub-blocks in a super-block.
pub(super) const MAX_SUBS: usize = 16;
/// The length of a row with an entry for each step, of which a vector can be read or written at any step.
const ROW: usize = 64;
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
    /// The scale of each step, where the value that the highest level reaches in the first guess is 1; zero beyond the steps.
    const RECIPROCALS: [f32; ROW] = Self::RULE.reciprocals();
}

impl Rule {
    /// The number of scales to try.
    const fn steps(&self) -> usize {
        2 * self.reach as usize + 1
    }

    /// What the highest level stands for.
    const fn highest(&self) -> f32 {
        (2 * self.top + 1) as f32
    }

    /// At how many steps, at most, the level of a value rises: levels are 2 apart, and the steps and half a step on both sides reach over less
    /// than that for each.
    const fn most_rises(&self) -> usize {
        ((2 * self.reach + 2) as f32 * self.step / 2.0) as usize + 1
    }

    const fn reciprocals(&self) -> [f32; ROW] {
        let mut all = [0.0; ROW];
        let mut s = 0;
        while s < self.steps() {
            all[s] = 1.0 / (self.highest() + (s as i32 - self.reach) as f32 * self.step);
            s += 1;
        }
        all
    }
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

/// The even signs of four groups of eight values, seven bits each, and a scale in the top four bits.
pub(super) fn word(signs: [u8; 4], scale: u8) -> u32 {
    let mut word = u32::from(scale) << 28;
    for (k, s) in signs.into_iter().enumerate() {
        word |= u32::from(s & 127) << (7 * k);
    }
    word
}
