//! What the IQ2 and IQ3 types have in common: magnitudes that are points of a codebook, signs beside them, and a scale for each
//! sub-block.
//!
//! ```text
//! super-block of 256: sub-blocks of 32 or 16, each with a scale of 4 bits
//! sub-block: groups of 8 or 4, each the index of a point of the codebook (see grids)
//! signs: 8 bits for 8 values, or 7 bits when their number of minus signs is always even
//! ```
//!
//! The search is the same for all (`quantize_row_iq2_xxs_impl`, `quantize_row_iq2_xs_impl`, `quantize_row_iq2_s_impl`,
//! `quantize_row_iq3_xxs_impl` and `quantize_row_iq3_s_impl` in `ggml-quants.c`): a number of scales is tried; for each, every group is
//! rounded and, where the codebook lacks the point, replaced by the best of its neighbours; the scale that fits best stays. [`Rule`] says
//! where the types differ.
//!
//! Nearly all time goes into the neighbours. What a group becomes under one scale does not depend on the other scales, so the
//! kernel first rounds one group with every scale, one sub-block per lane, and then goes lane by lane: eight neighbours at a time stand in
//! eight lanes. An element has few levels, so its errors are computed once for each level and picked from a register; each neighbour's
//! sum is still made in the order of the elements, and so has the bits of the reference.

use super::Refused;
use crate::dispatch::{Isa, Kernel};
use crate::grids::{Grid, Place};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::{Rows, part};
use crate::search::{fit_positive, nearest_int, roundable};

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// The most sub-blocks in a super-block.
pub(super) const MAX_SUBS: usize = 16;
/// The most scales that are tried.
const MAX_STEPS: usize = 31;
/// The most groups in a sub-block.
const MAX_GROUPS: usize = 8;

/// How one type is encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// The codebook.
    pub grid: fn() -> &'static Grid,
    /// The highest level of an element; a level `l` stands for the magnitude `2 l + 1`.
    pub top: i32,
    /// The mean square of the super-block counts so many times in the weights, with a matrix.
    pub spread: f32,
    /// So much of that is added to a value's square for its weight, without a matrix.
    pub plain_share: Option<f32>,
    /// Whether eight values have an even number of minus signs.
    pub even_signs: bool,
    /// A sub-block with a maximum below this is zero.
    pub empty_below: f32,
    /// Scales are tried from so many steps below the first guess to so many above.
    pub reach: i32,
    /// The distance of two steps, in levels.
    pub step: f32,
    /// Whether the first guess comes from a search of its own (`make_qp_quants`) instead of the maximum.
    pub fitted: bool,
    /// Which groups are rounded again with the scale that was found.
    pub again: Again,
}

/// Which groups are rounded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Those that were not points of the codebook.
    Replaced,
    /// All, if any was not a point of the codebook, or no scale was better than nothing.
    AllIfReplaced,
    /// All.
    All,
}

/// What was found for a sub-block; all zero for an empty one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// Whether anything was, that is, whether the sub-block was not taken for zero.
    pub any: bool,
    /// The scale; not negative.
    pub scale: f32,
    /// The signs of each eight values, the first in the lowest bit. With even signs the highest bit may be anything.
    pub signs: [u8; 4],
    /// The index of each group's point.
    pub index: [u16; MAX_GROUPS],
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

/// The magnitudes of the levels of the IQ2 types, for decoding: not the odd numbers that the search takes them for. The last is none.
pub(super) const MAGNITUDES_2: [u8; 4] = [8, 25, 43, 0];

/// Turns what was found for a super-block into its bytes.
pub(super) type Pack = fn(found: &[Found; MAX_SUBS], packed: &mut [u8]);

/// Values to blocks of `BYTES`, with sub-blocks of `SUB` values and points of `E` elements.
pub(super) fn encode<const SUB: usize, const E: usize, const BYTES: usize>(
    isa: Isa,
    rule: Rule,
    pack: Pack,
    rows: Rows<'_>,
    packed: &mut [u8],
) -> Result<(), Refused> {
    let kernel = Encode::<SUB, E, BYTES> { rule, pack, rows, packed };
    match isa {
        Isa::Scalar => kernel.plain(),
        Isa::Avx512 => isa.run(kernel),
        _ => isa.run_twice(kernel),
    }
}

/// A point that ggml does not find: it aborts.
struct Lost;

/// One super-block in plain steps.
fn reference<const SUB: usize, const E: usize>(
    rule: &Rule,
    x: &[f32; LEN],
    matrix: Option<&[f32; LEN]>,
) -> Result<[Found; MAX_SUBS], Lost> {
    let mut found = [Found::default(); MAX_SUBS];
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

fn reference_sub_block<const SUB: usize, const E: usize>(
    rule: &Rule,
    sigma2: f32,
    x: &[f32; SUB],
    matrix: Option<&[f32; SUB]>,
) -> Result<Found, Lost> {
    let grid = (rule.grid)();
    let mut weights = [0.0; SUB];
    for i in 0..SUB {
        let x2 = x[i] * x[i];
        weights[i] = match (matrix, rule.plain_share) {
            (Some(matrix), _) => matrix[i] * (sigma2 + x2).sqrt(),
            (None, Some(share)) => share * sigma2 + x2,
            (None, None) => x2,
        };
    }
    let roots = weights.map(f32::sqrt);
    let (magnitudes, mut signs) = split_signs(rule.even_signs, x, &weights);
    let mut max = magnitudes[0];
    for m in &magnitudes[1..] {
        max = if max > *m { max } else { *m };
    }
    if max < rule.empty_below {
        return Ok(Found::default());
    }

    let highest = (2 * rule.top + 1) as f32;
    let (mut scale, full) = if rule.fitted {
        let scale = fit_positive(rule.top + 2, &magnitudes, &weights, &mut [0; SUB]);
        (scale, scale * (rule.top + 1) as f32)
    } else {
        (max / highest, max)
    };
    if full <= 0.0 {
        return Ok(Found::default());
    }

    // The sums of one choice of levels: with the values, and of the squares.
    let sums = |levels: &[u8; SUB]| {
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for i in 0..SUB {
            let q = (2 * levels[i] + 1) as f32;
            sum_qx += weights[i] * magnitudes[i] * q;
            sum_q2 += weights[i] * q * q;
        }
        (sum_qx, sum_q2)
    };
    // Rounds a group, or finds the neighbour that serves it best; says whether the codebook had the rounded point.
    let place_group = |group: usize, id: f32, scale: f32, levels: &mut [u8; SUB]| {
        let at = group * E..(group + 1) * E;
        let levels = &mut levels[at.clone()];
        for (level, m) in levels.iter_mut().zip(&magnitudes[at.clone()]) {
            *level = nearest_int(0.5 * (id * m - 1.0)).min(rule.top).max(0) as u8;
        }
        let Place::Near(near) = grid.place(point(rule, levels)) else { return Ok(true) };
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
    // ggml asserts it; only NaN can fail.
    if !(scale >= 0.0) {
        return Err(Lost);
    }
    let mut found = Found { any: true, scale, signs, ..Found::default() };
    for (index, levels) in found.index.iter_mut().zip(levels.chunks_exact(E)) {
        let Place::On(at) = grid.place(point(rule, levels)) else { return Err(Lost) };
        *index = at;
    }
    Ok(found)
}

/// Magnitudes and signs. Where the number of minus signs must be even and is not, the least important value changes sides, and has
/// then a negative magnitude.
fn split_signs<const SUB: usize>(even: bool, x: &[f32; SUB], weights: &[f32; SUB]) -> ([f32; SUB], [u8; 4]) {
    let mut magnitudes = *x;
    let mut signs = [0u8; 4];
    for (k, sign) in signs[..SUB / 8].iter_mut().enumerate() {
        let at = 8 * k..8 * k + 8;
        for (i, m) in magnitudes[at.clone()].iter_mut().enumerate() {
            // Also for NaN.
            if !(*m >= 0.0) {
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

/// The code of the first of the neighbours that are nearest under the weights (`iq2_find_best_neighbour`, `iq3_find_best_neighbour`).
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

struct Encode<'a, const SUB: usize, const E: usize, const BYTES: usize> {
    rule: Rule,
    pack: Pack,
    rows: Rows<'a>,
    packed: &'a mut [u8],
}

impl<const SUB: usize, const E: usize, const BYTES: usize> Encode<'_, SUB, E, BYTES> {
    fn plain(self) -> Result<(), Refused> {
        for (block, out) in self.packed.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
            plain_block::<SUB, E>(&self.rule, self.pack, self.rows, block, out)?;
        }
        Ok(())
    }
}

#[inline(never)]
fn plain_block<const SUB: usize, const E: usize>(
    rule: &Rule,
    pack: Pack,
    rows: Rows<'_>,
    block: usize,
    out: &mut [u8],
) -> Result<(), Refused> {
    let found =
        reference::<SUB, E>(rule, rows.block(block), rows.block_weights(block)).map_err(|Lost| Refused { block })?;
    pack(&found, out);
    Ok(())
}

impl<const SUB: usize, const E: usize, const BYTES: usize> Kernel for Encode<'_, SUB, E, BYTES> {
    type Output = Result<(), Refused>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Result<(), Refused> {
        self.plain()
    }
}

/// The even signs of four times eight values, seven bits each, and a scale in the top four bits.
pub(super) fn word(signs: [u8; 4], scale: u8) -> u32 {
    let mut word = u32::from(scale) << 28;
    for (k, s) in signs.into_iter().enumerate() {
        word |= u32::from(s & 127) << (7 * k);
    }
    word
}
