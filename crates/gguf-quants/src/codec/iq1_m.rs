//! IQ1_M: 256 values in 56 bytes, 1.75 bits per weight; sixteen groups of 16, each with a 3-bit scale and two points of eight from a
//! codebook of 2048, each point with the sign of its shift.
//!
//! ```text
//! 0                       32                      48                             56
//! | index, low 8 bits, 32 | index and sides, 16   | scales, 4 halves             |
//!   byte i: point i         byte g:                 bits 3 i..3 i + 3 of half h: group 4 h + i
//!                           bits 0..3 and 4..7:     bits 12..16 of half h: bits 4 h..4 h + 4 of d (f16)
//!                             high 3 bits of points 2 g and 2 g + 1
//!                           bits 3 and 7: their values are moved down instead of up
//!
//! value = d * (2 scale + 1) * (level - 1 + delta)      see iq1
//! ```
//!
//! Rules: `block_iq1_m` in `ggml-common.h`; `dequantize_row_iq1_m` and `quantize_row_iq1_m_impl` in `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::iq1::{self, Contest, DELTA, LEN, Near, NearPoints, Neighbours, POINT, Sorted, cuts};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids::IQ1_CODES;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Tile;
use crate::search::{ROUND, nearest_int};

pub(super) const GROUP: usize = 16;
const GROUPS: usize = LEN / GROUP;
/// Points of a group.
const POINTS: usize = GROUP / POINT;
const BYTES: usize = 56;

/// Groups whose largest magnitude is below this are all zero (`GROUP_MAX_EPS_IQ1_M`).
const GROUP_MAX_EPS: f32 = 1e-7;

/// The scale of a super-block, stored in the top bits of its four halves, and the halves.
#[inline(always)]
fn head(block: &[u8; BYTES]) -> (u16, [u16; 4]) {
    let scales = u64::from_le_bytes(*block.last_chunk().unwrap());
    let halves = [scales as u16, (scales >> 16) as u16, (scales >> 32) as u16, (scales >> 48) as u16];
    (halves[0] >> 12 | halves[1] >> 12 << 4 | halves[2] >> 12 << 8 | halves[3] >> 12 << 12, halves)
}

/// IQ1_M.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (d, halves) = head(block);
        let d = f16_to_f32_ggml(d);
        for (i, value) in values.iter_mut().enumerate() {
            let (g, k) = (i / GROUP, i % GROUP / POINT);
            let scale = d * f32::from(2 * (halves[g / 4] >> (3 * (g % 4)) & 7) + 1);
            let high = block[32 + g] >> (4 * k) & 15;
            let delta = if high & 8 != 0 { -DELTA } else { DELTA };
            let index = usize::from(block[i / POINT]) | usize::from(high & 7) << 8;
            *value = scale * iq1::value(iq1::level(IQ1_CODES[index], i % POINT), delta);
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (d, halves) = head(block);
        let d = lanes.half(d);
        let mut bytes = [[0; GROUP]; GROUPS];
        let mut scales = [0.0; GROUPS];
        for g in 0..GROUPS {
            scales[g] = d * f32::from(2 * (halves[g / 4] >> (3 * (g % 4)) & 7) + 1);
            for k in 0..POINTS {
                let high = block[32 + g] >> (4 * k) & 15;
                let index = usize::from(block[POINTS * g + k]) | usize::from(high & 7) << 8;
                let point = iq1::decode_point(index, high & 8 != 0);
                bytes[g][POINT * k..POINT * (k + 1)].copy_from_slice(&point);
            }
        }
        for (g, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            iq1::decode_values(lanes, scales[g], &bytes[g], values);
        }
    }
}

/// The result for a group.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Not negative.
    scale: f32,
    /// Bit `k`: whether the values of point `k` are shifted down.
    down: u8,
    index: [u16; POINTS],
}

impl Found {
    /// Zero. Arrays of a constant are cleared at once; of a value, every field is stored separately.
    const EMPTY: Found = Found { scale: 0.0, down: 0, index: [0; POINTS] };

    fn delta(&self, point: usize) -> f32 {
        if self.down >> point & 1 == 1 { -DELTA } else { DELTA }
    }
}

fn largest(found: &[Found; GROUPS]) -> f32 {
    let mut max = 0.0;
    for f in found {
        max = if max > f.scale { max } else { f.scale };
    }
    max
}

/// `scales` are the stored scales of the groups and the scale of the super-block; without it all scales are zero.
fn pack(found: &[Found; GROUPS], scales: Option<(&[u8; GROUPS], f32)>) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    let mut halves = [0; 4];
    for (g, f) in found.iter().enumerate() {
        for (k, index) in f.index.into_iter().enumerate() {
            out[POINTS * g + k] = index as u8;
            out[32 + g] |= ((index >> 8) as u8) << (4 * k);
            // Sides are stored together with scales.
            if scales.is_some() {
                out[32 + g] |= (f.down >> k & 1) << (4 * k + 3);
            }
        }
        if let Some((levels, _)) = scales {
            halves[g / 4] |= u16::from(levels[g]) << (3 * (g % 4));
        }
    }
    if let Some((_, d)) = scales {
        let d = f32_to_f16_ggml(d);
        for (h, half) in halves.iter_mut().enumerate() {
            *half |= (d >> (4 * h) & 15) << 12;
        }
    }
    for (h, half) in halves.into_iter().enumerate() {
        out[48 + 2 * h..50 + 2 * h].copy_from_slice(&half.to_le_bytes());
    }
    out
}

/// The factor by which the rule enlarges the scale of a super-block.
const SCALE_UP: f32 = 1.1125;

/// One super-block, scalar reference.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
    let sigma2 = iq1::sigma2(x);
    let mut found = [Found::EMPTY; GROUPS];
    let mut weights = [[0.0; GROUP]; GROUPS];
    for g in 0..GROUPS {
        let x = &x.as_chunks().0[g];
        weights[g] = iq1::weights(x, matrix.map(|m| &m.as_chunks().0[g]), sigma2);
        found[g] = reference_group(x, &weights[g])?;
    }
    let max = largest(&found);
    if max == 0.0 {
        return Ok(pack(&found, None));
    }

    let mut d = max / 15.0;
    let inverse = 1.0 / d;
    let mut levels = [0; GROUPS];
    let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
    for (g, f) in found.iter().enumerate() {
        levels[g] = nearest_int(0.5 * (inverse * f.scale - 1.0)).clamp(0, 7) as u8;
        for i in 0..GROUP {
            let (w, x) = (weights[g][i], x[GROUP * g + i]);
            let code = IQ1_CODES[usize::from(f.index[i / POINT])];
            let q = iq1::value(iq1::level(code, i % POINT), f.delta(i / POINT)) * f32::from(2 * levels[g] + 1);
            sum_qx += w * q * x;
            sum_q2 += w * q * q;
        }
    }
    if sum_q2 > 0.0 {
        d = sum_qx / sum_q2;
    }
    Ok(pack(&found, Some((&levels, d * SCALE_UP))))
}

/// The sum of the weighted values times their levels for two cuts and the shifts of both halves, and the weighted sum of the squared levels, from
/// the sums below each cut.
pub(super) fn sums(
    (sum_x, sum_w): (&[[f32; GROUP + 1]; 2], &[[f32; GROUP + 1]; 2]),
    (first, second): (usize, usize),
    sides: [f32; 2],
) -> (f32, f32) {
    // Levels differ by one, so most of the sum is the same for all cuts.
    let half = |h: usize| {
        let q = [sides[h] - 1.0, sides[h], sides[h] + 1.0];
        let qx = sum_x[h][GROUP] * q[2] - (sum_x[h][first] + sum_x[h][second]);
        let q2 = sum_w[h][GROUP] * q[2] * q[2]
            + sum_w[h][first] * (q[0] * q[0] - q[1] * q[1])
            + sum_w[h][second] * (q[1] * q[1] - q[2] * q[2]);
        (qx, q2)
    };
    let (a, b) = (half(0), half(1));
    (a.0 + b.0, a.1 + b.1)
}

#[inline(never)]
fn reference_group(x: &[f32; GROUP], weights: &[f32; GROUP]) -> Result<Found, Lost> {
    let mut max = x[0].abs();
    for x in &x[1..] {
        max = if max > x.abs() { max } else { x.abs() };
    }
    if max < GROUP_MAX_EPS {
        return Ok(Found::EMPTY);
    }
    let order = iq1::sorted(x);
    // Sums for each half of the group, which is one point.
    let (mut sum_x, mut sum_w) = ([[0.0; GROUP + 1]; 2], [[0.0; GROUP + 1]; 2]);
    for (j, &i) in order.iter().enumerate() {
        for h in 0..2 {
            let (add_x, add_w) = if i / POINT == h { (weights[i] * x[i], weights[i]) } else { (0.0, 0.0) };
            sum_x[h][j + 1] = sum_x[h][j] + add_x;
            sum_w[h][j + 1] = sum_w[h][j] + add_w;
        }
    }

    let mut best = f32::MIN;
    let mut found = None;
    for first in 0..=GROUP {
        for second in first..=GROUP {
            for down in 0..4 {
                let (sum_qx, sum_q2) = sums((&sum_x, &sum_w), (first, second), sides(down));
                if sum_q2 > 0.0 && sum_qx * sum_qx > best * sum_q2 {
                    let scale = sum_qx / sum_q2;
                    best = scale * sum_qx;
                    found = Some((first, second, down, scale));
                }
            }
        }
    }
    let Some((first, second, mut down, mut scale)) = found else { return Ok(Found::EMPTY) };

    let mut levels = [0; GROUP];
    for (j, &i) in order.iter().enumerate() {
        levels[i] = u8::from(j >= first) + u8::from(j >= second);
    }
    if scale < 0.0 {
        levels = levels.map(|l| 2 - l);
        (scale, down) = (-scale, 3 - down);
    }
    let mut index = [0; POINTS];
    let mut all_on_grid = true;
    for k in 0..POINTS {
        let (levels, x, weights) = (&levels.as_chunks().0[k], &x.as_chunks().0[k], &weights.as_chunks::<POINT>().0[k]);
        let (at, on_grid) = iq1::place(levels, x, weights, scale, sides(down)[k])?;
        index[k] = at;
        all_on_grid &= on_grid;
    }
    if !all_on_grid {
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for i in 0..GROUP {
            let code = IQ1_CODES[usize::from(index[i / POINT])];
            let q = iq1::value(iq1::level(code, i % POINT), sides(down)[i / POINT]);
            sum_qx += weights[i] * q * x[i];
            sum_q2 += weights[i] * q * q;
        }
        if sum_qx > 0.0 && sum_q2 > 0.0 {
            scale = sum_qx / sum_q2;
        }
    }
    // ggml asserts it; only NaN can fail.
    let down = (down >> 1 | down << 1 & 2) as u8;
    if scale >= 0.0 { Ok(Found { scale, down, index }) } else { Err(Lost) }
}

/// The four ways to shift the two halves of a group, in the order of the search: both up, then the second down, the first down, and both
/// down.
pub(super) fn sides(kind: usize) -> [f32; 2] {
    [if kind < 2 { DELTA } else { -DELTA }, if kind.is_multiple_of(2) { DELTA } else { -DELTA }]
}

/// Cuts through a group, one per lane.
struct Cut<L: Lanes> {
    /// See [`cuts`]; for the kind see [`sides`].
    cuts: L::I,
    scale: L::F,
    /// Lanes with a valid result.
    valid: L::M,
}

/// The best cuts, one group per lane.
///
/// With weights that are not negative, the sum of squares is positive wherever a better score is possible.
#[inline(always)]
fn search<L: Lanes>(
    lanes: L,
    contest: &mut Contest<L, { GROUP + 1 }, 2>,
    values: (&[L::F; GROUP], &[L::F; GROUP]),
    sorted: &Sorted<L, GROUP>,
    (max, empty): (L::F, L::M),
) -> Cut<L> {
    let zero = lanes.splat(0.0);
    contest.open(lanes, values, sorted, (max, empty));
    let (sum_x, sum_w) = (&contest.sum_x, &contest.sum_w);
    let most = lanes.splat(1e35);
    let all_w = sum_w[GROUP][0] + sum_w[GROUP][1];
    let mut valid = all_w.equal(zero) | all_w.ge(lanes.splat(1e-30));
    for i in 0..GROUP {
        let (x, w) = (values.0[i], values.1[i]);
        valid = valid & w.ge(zero) & w.le(most) & (w * x).abs().le(most);
    }

    // For values shifted up and down: the sums of the whole half, and the factors of its part under each cut.
    let up = [1.0 + DELTA, 1.0 - DELTA];
    let factors = [[0.75, -1.25], [1.25, -0.75]];
    let (mut all_x, mut all_q2) = ([[zero; 2]; 2], [[zero; 2]; 2]);
    for h in 0..2 {
        for side in 0..2 {
            all_x[h][side] = sum_x[GROUP][h] * lanes.splat(up[side]);
            all_q2[h][side] = sum_w[GROUP][h] * lanes.splat(up[side]) * lanes.splat(up[side]);
        }
    }

    let mut best = contest.start;
    let mut scale = zero;
    let mut at = lanes.splat_i(-1);
    for first in 0..=GROUP {
        let mut seconds = contest.seconds(lanes, first);
        if seconds == 0 {
            continue;
        }
        let mut to_first = [[zero; 2]; 2];
        for h in 0..2 {
            for side in 0..2 {
                to_first[h][side] = all_q2[h][side] + sum_w[first][h] * lanes.splat(factors[side][0]);
            }
        }
        while seconds != 0 {
            let second = seconds.trailing_zeros() as usize % (GROUP + 1);
            seconds &= seconds - 1;
            let (mut half_qx, mut half_q2) = ([[zero; 2]; 2], [[zero; 2]; 2]);
            for h in 0..2 {
                let x = sum_x[first][h] + sum_x[second][h];
                for side in 0..2 {
                    half_qx[h][side] = all_x[h][side] - x;
                    half_q2[h][side] = to_first[h][side] + sum_w[second][h] * lanes.splat(factors[side][1]);
                }
            }
            let (mut qx, mut q2, mut square) = ([zero; 4], [zero; 4], [zero; 4]);
            let mut better = [lanes.mask(0); 4];
            for kind in 0..4 {
                qx[kind] = half_qx[0][kind / 2] + half_qx[1][kind % 2];
                q2[kind] = half_q2[0][kind / 2] + half_q2[1][kind % 2];
                square[kind] = qx[kind] * qx[kind];
                better[kind] = square[kind].gt(best * q2[kind]);
            }
            // In each lane the first of the better kinds, until none is better than the best so far.
            loop {
                let [m0, m1, m2, m3] = better;
                let (m01, m23) = (m0 | m1, m2 | m3);
                let take = m01 | m23;
                if !take.any() {
                    break;
                }
                let first_x = m01.select(m0.select(qx[0], qx[1]), m2.select(qx[2], qx[3]));
                let first_2 = m01.select(m0.select(q2[0], q2[1]), m2.select(q2[2], q2[3]));
                let kind = |k| lanes.splat_i(cuts(first, second, k));
                let first_at = m01.select_i(m0.select_i(kind(0), kind(1)), m2.select_i(kind(2), kind(3)));
                let this = first_x / first_2;
                scale = take.select(this, scale);
                best = take.select(this * first_x, best);
                at = take.select_i(first_at, at);
                // A later kind is compared with the new best, which rounding can make lower than the one before.
                better[0] = lanes.mask(0);
                better[1] = m0 & square[1].gt(best * q2[1]);
                better[2] = m01 & square[2].gt(best * q2[2]);
                better[3] = (m01 | m2) & square[3].gt(best * q2[3]);
            }
        }
    }
    Cut { cuts: at, scale, valid }
}

/// A group's values and weights, one per lane.
#[inline(always)]
fn columns<L: Lanes>(
    lanes: L,
    values: &[&[f32; LEN]; MAX_LANES],
    matrix: Option<&[&[f32; LEN]; MAX_LANES]>,
    sigma2: L::F,
    group: usize,
) -> ([L::F; GROUP], [L::F; GROUP]) {
    let x = lanes.columns_apart::<LEN, GROUP>(values, group);
    let mut weights = x;
    match matrix {
        Some(matrix) => {
            let m = lanes.columns_apart::<LEN, GROUP>(matrix, group);
            for i in 0..GROUP {
                weights[i] = m[i] * (sigma2 + x[i] * x[i]).sqrt();
            }
        }
        None => {
            for i in 0..GROUP {
                weights[i] = x[i] * x[i];
            }
        }
    }
    (x, weights)
}

/// The doubled mean of the squares of a block.
#[inline(always)]
fn spread<L: Lanes>(lanes: L, values: &[&[f32; LEN]; MAX_LANES]) -> L::F {
    let mut sum = lanes.splat(0.0);
    for g in 0..GROUPS {
        let x = lanes.columns_apart::<LEN, GROUP>(values, g);
        for i in 0..GROUP {
            sum = sum + x[i] * x[i];
        }
    }
    lanes.splat(2.0) * sum / lanes.splat(LEN as f32)
}

/// The groups of a block in each lane before their scales are rounded.
struct Fitted<L: Lanes> {
    /// The points.
    placed: [[NearPoints; POINTS]; GROUPS],
    /// What is added to the points.
    deltas: [[L::F; POINTS]; GROUPS],
    scales: [L::F; GROUPS],
    max_scale: L::F,
}

impl<L: Lanes> Fitted<L> {
    #[inline(always)]
    fn none(lanes: L) -> Fitted<L> {
        Fitted {
            placed: [[NearPoints::NONE; POINTS]; GROUPS],
            deltas: [[lanes.splat(DELTA); POINTS]; GROUPS],
            scales: [lanes.splat(0.0); GROUPS],
            max_scale: lanes.splat(0.0),
        }
    }
}

/// The levels of the scales of all groups; returns their factor, fitted to the values.
#[inline(always)]
fn fit_levels<L: Lanes>(
    lanes: L,
    columns: impl Fn(usize) -> ([L::F; GROUP], [L::F; GROUP]),
    fitted: &Fitted<L>,
    levels: &mut [[i32; MAX_LANES]; GROUPS],
) -> L::F {
    let zero = lanes.splat(0.0);
    let table = lanes.table4(&[-1.0, 0.0, 1.0, 0.0]);
    let Fitted { placed, deltas, scales, max_scale } = fitted;
    let d = *max_scale / lanes.splat(15.0);
    let inverse = lanes.splat(1.0) / d;
    let (mut sum_qx, mut sum_q2) = (zero, zero);
    for g in 0..GROUPS {
        let (x, weights) = columns(g);
        // The bits that `nearest_int` uses, for every number.
        let wish = lanes.splat(0.5) * (inverse * scales[g] - lanes.splat(1.0));
        let sum = (wish + lanes.splat(ROUND)).bits();
        let level = (sum & lanes.splat_i(0x007f_ffff)) - lanes.splat_i(0x0040_0000);
        let level = level.min(lanes.splat_i(7)).max(lanes.splat_i(0));
        level.store(&mut levels[g]);
        let times = (level + level + lanes.splat_i(1)).to_f();
        for k in 0..POINTS {
            let mut code = lanes.load_i(&placed[g][k].code);
            for i in POINT * k..POINT * (k + 1) {
                let q = (lanes.lookup4(table, code) + deltas[g][k]) * times;
                let wq = weights[i] * q;
                sum_qx = sum_qx + wq * x[i];
                sum_q2 = sum_q2 + wq * q;
                code = code.shr::<2>();
            }
        }
    }
    sum_q2.gt(zero).select(sum_qx / sum_q2, d) * lanes.splat(SCALE_UP)
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        reference(x, weights)
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let (values, matrix) = (tile.values(), tile.weights());
        let (zero, zero_i) = (lanes.splat(0.0), lanes.splat_i(0));
        let (up, down) = (lanes.splat(DELTA), lanes.splat(-DELTA));
        let table = lanes.table4(&[-1.0, 0.0, 1.0, 0.0]);
        let neighbours = Neighbours::get();
        let (mut rows, mut contest) = (iq1::SortedRows::new(), Contest::none(lanes));

        let sigma2 = if tile.has_weights() { spread(lanes, &values) } else { zero };
        let mut lane_sigma2 = [0.0; MAX_LANES];
        sigma2.store(&mut lane_sigma2);

        let mut found = const { [[Found::EMPTY; GROUPS]; MAX_LANES] };
        let mut fitted = Fitted::none(lanes);
        let Fitted { placed, deltas, scales, max_scale } = &mut fitted;
        let mut valid = !lanes.mask(0);
        let mut lost = 0;
        let all = tile.lanes();
        for g in 0..GROUPS {
            let (x, weights) = columns(lanes, &values, matrix.as_ref(), sigma2, g);
            let mut max = x[0].abs();
            for i in 1..GROUP {
                max = max.max(x[i].abs());
            }
            let empty = max.lt(lanes.splat(GROUP_MAX_EPS));
            let sorted = iq1::sorted_lanes(lanes, &x, &weights);
            let cut = search(lanes, &mut contest, (&x, &weights), &sorted, (max, empty));
            valid = valid & (empty | (cut.valid & max.le(lanes.splat(f32::MAX))));
            let none = empty | zero_i.gt(cut.cuts);

            let flip = cut.scale.lt(zero);
            let mut scale = flip.select(-cut.scale, cut.scale);
            let points = iq1::points::<L, GROUP, POINTS>(lanes, &mut rows, &x, &sorted, cut.cuts, flip);
            let mut lane_scale = [0.0; MAX_LANES];
            scale.store(&mut lane_scale);
            let of = !none.to_bits() & all;
            let mut replaced = 0;
            for k in 0..POINTS {
                let bit = if k == 0 { 2 << 16 } else { 1 << 16 };
                let moved_up = (cut.cuts & lanes.splat_i(bit)).equal(zero_i);
                let delta = moved_up.select(up, down);
                deltas[g][k] = none.select(up, flip.select(-delta, delta));
                let mut lane_delta = [0.0; MAX_LANES];
                deltas[g][k].store(&mut lane_delta);
                let near = |lane: usize| Near {
                    x: &tile.blocks[lane].as_chunks().0[POINTS * g + k],
                    matrix: matrix.as_ref().map(|m| &m[lane].as_chunks().0[POINTS * g + k]),
                    sigma2: lane_sigma2[lane],
                    scale: lane_scale[lane],
                    delta: lane_delta[lane],
                };
                // Empty groups use the first point, whose code is 0.
                let point = none.select_i(zero_i, points[k]);
                neighbours.place(lanes, point, of, near, &mut placed[g][k]);
                replaced |= placed[g][k].replaced;
                lost |= placed[g][k].lost;
                for i in 0..tile.len {
                    found[i][g].index[k] = placed[g][k].index[i] as u16;
                    found[i][g].down |= u8::from(lane_delta[i] < 0.0) << k;
                }
            }

            let (mut sum_qx, mut sum_q2) = (zero, zero);
            for k in 0..POINTS {
                let mut code = lanes.load_i(&placed[g][k].code);
                for i in POINT * k..POINT * (k + 1) {
                    let q = lanes.lookup4(table, code) + deltas[g][k];
                    let wq = weights[i] * q;
                    sum_qx = sum_qx + wq * x[i];
                    sum_q2 = sum_q2 + wq * q;
                    code = code.shr::<2>();
                }
            }
            let refit = lanes.mask(replaced) & sum_qx.gt(zero) & sum_q2.gt(zero);
            scale = refit.select(sum_qx / sum_q2, scale);
            scale = none.select(zero, scale);
            // NaNs are left to the reference.
            valid = valid & scale.ge(zero);
            scales[g] = scale;
            *max_scale = (*max_scale).max(scale);
        }

        let mut levels = [[0; MAX_LANES]; GROUPS];
        let columns = |group| columns(lanes, &values, matrix.as_ref(), sigma2, group);
        let d = fit_levels(lanes, columns, &fitted, &mut levels);

        let (mut lane_d, mut lane_max) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
        d.store(&mut lane_d);
        fitted.max_scale.store(&mut lane_max);
        for (i, out) in out.iter_mut().enumerate() {
            let mut lane_levels = [0; GROUPS];
            for g in 0..GROUPS {
                lane_levels[g] = levels[g][i] as u8;
            }
            let scales = (lane_max[i] != 0.0).then_some((&lane_levels, lane_d[i]));
            *out = pack(&found[i], scales);
        }
        valid.to_bits() & !lost
    }
}
