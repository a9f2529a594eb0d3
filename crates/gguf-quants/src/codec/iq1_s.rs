//! IQ1_S: 256 values in 50 bytes, 1.5625 bits per weight; eight groups of 32, each with a 3-bit scale and the sign of its shift, points of
//! eight from a codebook of 2048.
//!
//! ```text
//! 0      2                      34                              50
//! | d    | index, low 8 bits, 32 | groups, 8 halves             |
//!   f16    byte i: point i         bits 3 k..3 k + 3: the index of point k, high 3 bits
//!                                  bits 12..15: scale
//!                                  bit 15: values are moved down instead of up
//!
//! value = d * (2 scale + 1) * (level - 1 + delta)      see iq1
//! ```
//!
//! Rules: `block_iq1_s` in `ggml-common.h`; `dequantize_row_iq1_s` and `quantize_row_iq1_s_impl` in `ggml-quants.c`.

use super::block::{DecodeBlock, EncodeBlock, Lost};
use super::iq1::{self, Contest, DELTA, LEN, Near, NearPoints, Neighbours, POINT, Sorted, cuts};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::grids::IQ1_CODES;
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};
use crate::rows::Tile;
use crate::search::nearest_int;

pub(super) const GROUP: usize = 32;
const GROUPS: usize = LEN / GROUP;
/// Points of a group.
const POINTS: usize = GROUP / POINT;
const BYTES: usize = 50;

/// Groups whose largest magnitude is below this are all zero (`GROUP_MAX_EPS_IQ1_S`).
const GROUP_MAX_EPS: f32 = 1e-12;

/// IQ1_S.
pub(super) struct Block;

impl DecodeBlock<LEN, BYTES> for Block {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        for (i, value) in values.iter_mut().enumerate() {
            let (g, k) = (i / GROUP, i % GROUP / POINT);
            let group = u16::from_le_bytes([block[34 + 2 * g], block[35 + 2 * g]]);
            let scale = d * f32::from(2 * (group >> 12 & 7) + 1);
            let delta = if group >> 15 == 1 { -DELTA } else { DELTA };
            let index = usize::from(block[2 + i / POINT]) | usize::from(group >> (3 * k) & 7) << 8;
            *value = scale * iq1::value(iq1::level(IQ1_CODES[index], i % POINT), delta);
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = lanes.half(u16::from_le_bytes([block[0], block[1]]));
        let (head, groups) = block.split_at(34);
        let mut bytes = [[0; GROUP]; GROUPS];
        let mut scales = [0.0; GROUPS];
        for g in 0..GROUPS {
            let group = u16::from_le_bytes([groups[2 * g], groups[2 * g + 1]]);
            scales[g] = d * f32::from(2 * (group >> 12 & 7) + 1);
            for k in 0..POINTS {
                let index = usize::from(head[2 + POINTS * g + k]) | usize::from(group >> (3 * k) & 7) << 8;
                let point = iq1::decode_point(index, group >> 15 == 1);
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
    /// Whether values are shifted down.
    down: bool,
    index: [u16; POINTS],
}

impl Found {
    /// Zero. Arrays of a constant are cleared at once; of a value, every field is stored separately.
    const EMPTY: Found = Found { scale: 0.0, down: false, index: [0; POINTS] };
}

fn pack(found: &[Found; GROUPS]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    let mut max = 0.0;
    for f in found {
        max = if max > f.scale { max } else { f.scale };
    }
    let d = max / 15.0;
    let inverse = 1.0 / d;
    if max != 0.0 {
        // Slightly more than what scales the largest value to 15, as in the rule.
        out[..2].copy_from_slice(&f32_to_f16_ggml(d * 1.125).to_le_bytes());
    }
    for (g, f) in found.iter().enumerate() {
        let mut group = 0;
        for (k, index) in f.index.into_iter().enumerate() {
            out[2 + POINTS * g + k] = index as u8;
            group |= index >> 8 << (3 * k);
        }
        if max != 0.0 {
            let scale = nearest_int(0.5 * (inverse * f.scale - 1.0)).clamp(0, 7) as u16;
            group |= (scale | u16::from(f.down) << 3) << 12;
        }
        out[34 + 2 * g..36 + 2 * g].copy_from_slice(&group.to_le_bytes());
    }
    out
}

/// One super-block, scalar reference.
#[inline(never)]
fn reference(x: &[f32; LEN], matrix: &[f32; LEN]) -> Result<[u8; BYTES], Lost> {
    let sigma2 = iq1::sigma2(x);
    let mut found = [Found::EMPTY; GROUPS];
    for (g, found) in found.iter_mut().enumerate() {
        let x = &x.as_chunks::<GROUP>().0[g];
        let weights = iq1::weights(x, Some(&matrix.as_chunks::<GROUP>().0[g]), sigma2);
        *found = reference_group(x, &weights)?;
    }
    Ok(pack(&found))
}

/// The sum of the weighted values times their levels for two cuts and a shift, and the weighted sum of the squared levels, from the sums below
/// each cut.
pub(super) fn sums(
    (sum_x, sum_w): (&[f32; GROUP + 1], &[f32; GROUP + 1]),
    (first, second): (usize, usize),
    delta: f32,
) -> (f32, f32) {
    let q = [delta - 1.0, delta, delta + 1.0];
    let sum_qx = (sum_x[first] - sum_x[0]) * q[0]
        + (sum_x[second] - sum_x[first]) * q[1]
        + (sum_x[GROUP] - sum_x[second]) * q[2];
    let sum_q2 = (sum_w[first] - sum_w[0]) * q[0] * q[0]
        + (sum_w[second] - sum_w[first]) * q[1] * q[1]
        + (sum_w[GROUP] - sum_w[second]) * q[2] * q[2];
    (sum_qx, sum_q2)
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
    let (mut sum_x, mut sum_w) = ([0.0; GROUP + 1], [0.0; GROUP + 1]);
    for (j, &i) in order.iter().enumerate() {
        sum_x[j + 1] = sum_x[j] + weights[i] * x[i];
        sum_w[j + 1] = sum_w[j] + weights[i];
    }

    let mut best = f32::MIN;
    let mut found = None;
    for first in 0..=GROUP {
        for second in first..=GROUP {
            for delta in [DELTA, -DELTA] {
                let (sum_qx, sum_q2) = sums((&sum_x, &sum_w), (first, second), delta);
                if sum_q2 > 0.0 && sum_qx * sum_qx > best * sum_q2 {
                    let scale = sum_qx / sum_q2;
                    best = scale * sum_qx;
                    found = Some((first, second, delta, scale));
                }
            }
        }
    }
    let Some((first, second, mut delta, mut scale)) = found else { return Ok(Found::EMPTY) };

    let mut levels = [0; GROUP];
    for (j, &i) in order.iter().enumerate() {
        levels[i] = u8::from(j >= first) + u8::from(j >= second);
    }
    if scale < 0.0 {
        levels = levels.map(|l| 2 - l);
        (scale, delta) = (-scale, -delta);
    }
    let mut index = [0; POINTS];
    let mut all_on_grid = true;
    for k in 0..POINTS {
        let (levels, x, weights) = (&levels.as_chunks().0[k], &x.as_chunks().0[k], &weights.as_chunks::<POINT>().0[k]);
        let (at, on_grid) = iq1::place(levels, x, weights, scale, delta)?;
        index[k] = at;
        all_on_grid &= on_grid;
    }
    if !all_on_grid {
        let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
        for i in 0..GROUP {
            let code = IQ1_CODES[usize::from(index[i / POINT])];
            let q = iq1::value(iq1::level(code, i % POINT), delta);
            sum_qx += weights[i] * q * x[i];
            sum_q2 += weights[i] * q * q;
        }
        if sum_qx > 0.0 && sum_q2 > 0.0 {
            scale = sum_qx / sum_q2;
        }
    }
    // ggml asserts it; only NaN can fail.
    if scale >= 0.0 { Ok(Found { scale, down: delta < 0.0, index }) } else { Err(Lost) }
}

/// Cuts through a group, one per lane.
struct Cut<L: Lanes> {
    /// See [`cuts`]; the kind is 1 if values are shifted down.
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
    contest: &mut Contest<L, { GROUP + 1 }, 1>,
    values: (&[L::F; GROUP], &[L::F; GROUP]),
    sorted: &Sorted<L, GROUP>,
    (max, empty): (L::F, L::M),
) -> Cut<L> {
    let zero = lanes.splat(0.0);
    contest.open(lanes, values, sorted, (max, empty));
    let (sum_x, sum_w) = (contest.sum_x.as_flattened(), contest.sum_w.as_flattened());
    let (least, most) = (lanes.splat(2.4e-35), lanes.splat(1e35));
    let mut valid = !lanes.mask(0);
    for i in 0..GROUP {
        let (w, wx) = (values.1[i], values.1[i] * values.0[i]);
        valid = valid & (w.equal(zero) | (w.ge(least) & w.le(most)));
        valid = valid & (wx.equal(zero) | (wx.abs().ge(least) & wx.abs().le(most)));
    }

    let (low, high) = (lanes.splat(1.0 - DELTA), lanes.splat(1.0 + DELTA));
    let (eighth, square) = (lanes.splat(DELTA), lanes.splat(DELTA * DELTA));
    let mut best = contest.start;
    let mut scale = zero;
    let mut at = lanes.splat_i(-1);
    for first in 0..=GROUP {
        let (x, w) = (sum_x[first], sum_w[first]);
        let below_x = [-(x * low), -(x * high)];
        let below_w = [w * low * low, w * high * high];
        let mut seconds = contest.seconds(lanes, first);
        while seconds != 0 {
            let second = seconds.trailing_zeros() as usize % (GROUP + 1);
            seconds &= seconds - 1;
            let between_x = (sum_x[second] - sum_x[first]) * eighth;
            let between_w = (sum_w[second] - sum_w[first]) * square;
            let (x, w) = (sum_x[GROUP] - sum_x[second], sum_w[GROUP] - sum_w[second]);
            let qx = [below_x[0] + between_x + x * high, below_x[1] - between_x + x * low];
            let q2 = [below_w[0] + between_w + w * high * high, below_w[1] + between_w + w * low * low];
            let up = (qx[0] * qx[0]).gt(best * q2[0]);
            let down = (qx[1] * qx[1]).gt(best * q2[1]);
            if (up | down).any() {
                let this = qx[0] / q2[0];
                scale = up.select(this, scale);
                best = up.select(this * qx[0], best);
                at = up.select_i(lanes.splat_i(cuts(first, second, 0)), at);
                let down = (qx[1] * qx[1]).gt(best * q2[1]);
                let this = qx[1] / q2[1];
                scale = down.select(this, scale);
                best = down.select(this * qx[1], best);
                at = down.select_i(lanes.splat_i(cuts(first, second, 1)), at);
            }
        }
    }
    Cut { cuts: at, scale, valid }
}

impl EncodeBlock<LEN, BYTES> for Block {
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        reference(x, weights.ok_or(Lost)?)
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        let values = tile.values();
        let zero = lanes.splat(0.0);
        let neighbours = Neighbours::get();
        let (mut rows, mut contest) = (iq1::SortedRows::new(), Contest::none(lanes));
        let Some(matrix) = &tile.weights() else { return 0 };

        let mut sum_x2 = zero;
        for g in 0..GROUPS {
            let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
            for i in 0..GROUP {
                sum_x2 = sum_x2 + x[i] * x[i];
            }
        }
        let sigma2 = lanes.splat(2.0) * sum_x2 / lanes.splat(LEN as f32);
        let mut lane_sigma2 = [0.0; MAX_LANES];
        sigma2.store(&mut lane_sigma2);

        let mut found = const { [[Found::EMPTY; GROUPS]; MAX_LANES] };
        let mut valid = !lanes.mask(0);
        let mut lost = 0;
        let all = tile.lanes();
        for g in 0..GROUPS {
            let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
            let m = lanes.columns_apart::<LEN, GROUP>(matrix, g);
            let mut weights = [zero; GROUP];
            let mut max = x[0].abs();
            for i in 0..GROUP {
                weights[i] = m[i] * (sigma2 + x[i] * x[i]).sqrt();
                max = max.max(x[i].abs());
            }
            let empty = max.lt(lanes.splat(GROUP_MAX_EPS));
            let sorted = iq1::sorted_lanes(lanes, &x, &weights);
            let cut = search(lanes, &mut contest, (&x, &weights), &sorted, (max, empty));
            valid = valid & (empty | (cut.valid & max.le(lanes.splat(f32::MAX))));
            let none = empty | lanes.splat_i(0).gt(cut.cuts);

            let flip = cut.scale.lt(zero);
            let mut scale = flip.select(-cut.scale, cut.scale);
            let up = (cut.cuts & lanes.splat_i(1 << 16)).equal(lanes.splat_i(0));
            let down = (!up & !flip) | (up & flip);
            let delta = down.select(lanes.splat(-DELTA), lanes.splat(DELTA));
            let points = iq1::points::<L, GROUP, POINTS>(lanes, &mut rows, &x, &sorted, cut.cuts, flip);

            let (mut lane_scale, mut lane_delta) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
            scale.store(&mut lane_scale);
            delta.store(&mut lane_delta);
            let of = !none.to_bits() & all;
            let mut placed = [NearPoints::NONE; POINTS];
            let mut replaced = 0;
            for k in 0..POINTS {
                let near = |lane: usize| Near {
                    x: &tile.blocks[lane].as_chunks().0[POINTS * g + k],
                    matrix: Some(&matrix[lane].as_chunks().0[POINTS * g + k]),
                    sigma2: lane_sigma2[lane],
                    scale: lane_scale[lane],
                    delta: lane_delta[lane],
                };
                neighbours.place(lanes, points[k], of, near, &mut placed[k]);
                replaced |= placed[k].replaced;
                lost |= placed[k].lost;
            }

            let table = lanes.table4(&[-1.0, 0.0, 1.0, 0.0]);
            let (mut sum_qx, mut sum_q2) = (zero, zero);
            for k in 0..POINTS {
                let mut code = lanes.load_i(&placed[k].code);
                for i in POINT * k..POINT * (k + 1) {
                    let q = lanes.lookup4(table, code) + delta;
                    let wq = weights[i] * q;
                    sum_qx = sum_qx + wq * x[i];
                    sum_q2 = sum_q2 + wq * q;
                    code = code.shr::<2>();
                }
            }
            let refit = lanes.mask(replaced) & sum_qx.gt(zero) & sum_q2.gt(zero);
            scale = refit.select(sum_qx / sum_q2, scale);
            // NaNs are left to the reference.
            valid = valid & (none | scale.ge(zero));
            scale.store(&mut lane_scale);
            for i in 0..tile.len {
                if of >> i & 1 == 1 {
                    let index = [0, 1, 2, 3].map(|k: usize| placed[k].index[i] as u16);
                    found[i][g] = Found { scale: lane_scale[i], down: lane_delta[i] < 0.0, index };
                }
            }
        }

        for (i, out) in out.iter_mut().enumerate() {
            *out = pack(&found[i]);
        }
        valid.to_bits() & !lost
    }
}
