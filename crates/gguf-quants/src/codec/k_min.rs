//! Shared code of Q4_K and Q5_K: a super-block of eight groups of 32, each with a 6-bit scale and a 6-bit minimum; Q5_K has a fifth bit.
//!
//! ```text
//! value = d * scale[group] * level - dmin * min[group]
//!
//! scales, 12 bytes:  0..4   scale[0..4] in the low 6 bits, the top 2 bits of scale[4..8] above
//!                    4..8   min[0..4] in the low 6 bits, the top 2 bits of min[4..8] above
//!                    8..12  the low 4 bits of scale[4..8], and of min[4..8] above
//! ```

use super::block::{DecodeBlock, EncodeBlock, Lost, Pairs};
use super::words::{put, word};
use crate::float::{f16_to_f32_ggml, f32_to_f16_ggml};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, Part};
use crate::rows::Tile;
use crate::search::{Fit, MinSearch, fit_min, fit_min_lanes, fit_positive, fit_positive_lanes, level, nearest_int};

/// Values in a super-block (`QK_K`).
const LEN: usize = 256;
/// Values in a group.
const GROUP: usize = 32;
const GROUPS: usize = LEN / GROUP;
/// The words of a group of one byte each.
const WORDS: usize = GROUP / 4;

/// The start of the fifth bits, if any.
const FIFTH_AT: usize = 16;
/// Bytes of the low four bits, stored last.
const LOW_BYTES: usize = LEN / 2;

/// A type with levels of `BITS` bits.
pub(super) struct Block<const BITS: u32, const BYTES: usize>;

const fn search(bits: u32, with_matrix: bool) -> MinSearch {
    let levels = (1 << bits) - 1;
    match (with_matrix, bits) {
        (true, _) => MinSearch { levels, first: -0.9, step: 0.05, last: 36, absolute: false },
        (false, 4) => MinSearch { levels, first: -1.0, step: 0.1, last: 20, absolute: false },
        (false, _) => MinSearch { levels, first: -0.5, step: 0.1, last: 15, absolute: false },
    }
}

impl<const BITS: u32, const BYTES: usize> DecodeBlock<LEN, BYTES> for Block<BITS, BYTES> {
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let d = f16_to_f32_ggml(u16::from_le_bytes([block[0], block[1]]));
        let dmin = f16_to_f32_ggml(u16::from_le_bytes([block[2], block[3]]));
        let scales = block[4..].first_chunk().unwrap();
        let low: &[u8; LOW_BYTES] = block.last_chunk().unwrap();
        for (g, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let (scale, min) = scale_and_min(scales, g);
            let (d, min) = (d * f32::from(scale), dmin * f32::from(min));
            for i in 0..GROUP {
                let fifth = if BITS == 5 { (block[FIFTH_AT + i] >> g & 1) << 4 } else { 0 };
                let level = low[GROUP * (g / 2) + i] >> (4 * (g % 2)) & 15 | fifth;
                values[i] = d * f32::from(level) - min;
            }
        }
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]) {
        let (d, min) = products(lanes, block.first_chunk().unwrap());
        let low: &[u8; LOW_BYTES] = block.last_chunk().unwrap();
        let mut fifths = [lanes.splat_i(0); 8];
        if BITS == 5 {
            let fifth: &[u8; GROUP] = block[FIFTH_AT..].first_chunk().unwrap();
            for i in (0..GROUP).step_by(L::N) {
                fifths[i / L::N] = lanes.load_u8(&fifth[i..]);
            }
        }
        for pair in 0..GROUPS / 2 {
            let low = &low.as_chunks::<GROUP>().0[pair];
            let values = &mut values.as_chunks_mut::<{ 2 * GROUP }>().0[pair];
            let (d0, m0) = (lanes.splat(d[2 * pair]), lanes.splat(min[2 * pair]));
            let (d1, m1) = (lanes.splat(d[2 * pair + 1]), lanes.splat(min[2 * pair + 1]));
            for i in (0..GROUP).step_by(L::N) {
                let bytes = lanes.load_u8(&low[i..]);
                let (mut first, mut second) = (bytes & lanes.splat_i(15), bytes.shr::<4>());
                if BITS == 5 {
                    let fifth = fifths[i / L::N];
                    first = first | (fifth & lanes.splat_i(1)).shl::<4>();
                    second = second | (fifth & lanes.splat_i(2)).shl::<3>();
                    fifths[i / L::N] = fifth.shr::<2>();
                }
                (d0 * first.to_f() - m0).store(&mut values[i..]);
                (d1 * second.to_f() - m1).store(&mut values[GROUP + i..]);
            }
        }
    }
}

impl<const BITS: u32, const BYTES: usize> EncodeBlock<LEN, BYTES> for Block<BITS, BYTES> {
    const PAIRS: Pairs = Pairs::Always;

    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost> {
        Ok(pack::<BITS, BYTES>(&reference(search(BITS, weights.is_some()), x, weights)))
    }

    #[inline(always)]
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32 {
        const { assert!(BYTES == FIFTH_AT + LOW_BYTES + if BITS == 5 { GROUP } else { 0 }) };
        let search = search(BITS, tile.has_weights());
        let low_half = lanes.splat_i(0x0f0f_0f0f);
        let lowest_bits = lanes.splat_i(0x0101_0101);
        let (values, lane) = (tile.values(), lanes.call(Heads { search, tile }));
        let mut valid = lane.valid;
        let mut fifth = [lanes.splat_i(0); WORDS];
        for pair in 0..GROUPS / 2 {
            let (first, valid_first) = lane.levels(lanes, search.levels, &values, 2 * pair);
            let (second, valid_second) = lane.levels(lanes, search.levels, &values, 2 * pair + 1);
            valid = valid & valid_first & valid_second;
            let mut low = [lanes.splat_i(0); WORDS];
            for w in 0..WORDS {
                let first = word::<L>([first[4 * w], first[4 * w + 1], first[4 * w + 2], first[4 * w + 3]]);
                let second = word::<L>([second[4 * w], second[4 * w + 1], second[4 * w + 2], second[4 * w + 3]]);
                low[w] = first & low_half | (second & low_half).shl::<4>();
                if BITS == 5 {
                    // The bits of a pair are shifted in from above, so the first pair ends up lowest.
                    let bits =
                        (first.shr::<4>() & lowest_bits).shl::<6>() | (second.shr::<4>() & lowest_bits).shl::<7>();
                    fifth[w] = (fifth[w].shr::<2>() & lanes.splat_i(0x3f3f_3f3f)) | bits;
                }
            }
            put::<L, BYTES, WORDS>(out, BYTES - LOW_BYTES + GROUP * pair, &low);
        }
        if BITS == 5 {
            put::<L, BYTES, WORDS>(out, FIFTH_AT, &fifth);
        }
        for (i, out) in out.iter_mut().enumerate() {
            out[..16].copy_from_slice(&lane.heads[i].bytes());
        }
        valid.to_bits()
    }
}

fn pack<const BITS: u32, const BYTES: usize>(block: &Plain) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    out[..16].copy_from_slice(&block.head.bytes());
    for (g, levels) in block.levels.as_chunks::<GROUP>().0.iter().enumerate() {
        for i in 0..GROUP {
            if BITS == 5 {
                out[FIFTH_AT + i] |= levels[i] >> 4 << g;
            }
            out[BYTES - LOW_BYTES + g / 2 * GROUP + i] |= (levels[i] & 15) << (4 * (g % 2));
        }
    }
    out
}

/// A super-block before its levels are packed.
#[derive(Debug, Clone, Copy)]
struct Plain {
    head: Head,
    levels: [u8; LEN],
}

/// The scales of a super-block, as they are stored.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    /// Half-precision bits.
    d: u16,
    /// Half-precision bits.
    dmin: u16,
    scales: [u8; 12],
}

impl Head {
    /// The scale and minimum of a group, 6 bits each (`get_scale_min_k4`).
    #[inline(always)]
    fn group(&self, group: usize) -> (u8, u8) {
        scale_and_min(&self.scales, group)
    }

    /// The bytes as stored in a block.
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&self.d.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.dmin.to_le_bytes());
        bytes[4..].copy_from_slice(&self.scales);
        bytes
    }

    fn new(d: f32, dmin: f32, scales: &[u8; GROUPS], mins: &[u8; GROUPS]) -> Head {
        let mut packed = [0; 12];
        for g in 0..4 {
            packed[g] = scales[g] | (scales[g + 4] >> 4) << 6;
            packed[g + 4] = mins[g] | (mins[g + 4] >> 4) << 6;
            packed[g + 8] = (scales[g + 4] & 15) | (mins[g + 4] & 15) << 4;
        }
        Head { d: f32_to_f16_ggml(d), dmin: f32_to_f16_ggml(dmin), scales: packed }
    }

    /// The scales from the largest of each kind, without a matrix.
    fn from_largest(fits: &[Fit; GROUPS]) -> Head {
        let (mut max_scale, mut max_min) = (0.0, 0.0);
        for fit in fits {
            max_scale = if fit.scale > max_scale { fit.scale } else { max_scale };
            max_min = if fit.min > max_min { fit.min } else { max_min };
        }
        let inverse = |max: f32| if max > 0.0 { 63.0 / max } else { 0.0 };
        // A scale below zero, which odd groups get, wraps to the highest.
        let six_bits = |x: f32| (nearest_int(x) as u8).min(63);
        let (mut scales, mut mins) = ([0; GROUPS], [0; GROUPS]);
        for g in 0..GROUPS {
            scales[g] = six_bits(inverse(max_scale) * fits[g].scale);
            mins[g] = six_bits(inverse(max_min) * fits[g].min);
        }
        Head::new(max_scale / 63.0, max_min / 63.0, &scales, &mins)
    }
}

/// The scale and minimum of a group, 6 bits each (`get_scale_min_k4`).
#[inline(always)]
fn scale_and_min(scales: &[u8; 12], group: usize) -> (u8, u8) {
    if group < 4 {
        (scales[group] & 63, scales[group + 4] & 63)
    } else {
        let low = scales[group + 4];
        (low & 15 | (scales[group - 4] >> 6) << 4, low >> 4 | (scales[group] >> 6) << 4)
    }
}

/// The scales and minima of all groups, multiplied by `d` and `dmin`.
#[inline(always)]
fn products<L: Lanes>(lanes: L, head: &[u8; 16]) -> ([f32; GROUPS], [f32; GROUPS]) {
    let d = lanes.half(u16::from_le_bytes([head[0], head[1]]));
    let dmin = lanes.half(u16::from_le_bytes([head[2], head[3]]));
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (a, b, c) = (word(4), word(8), word(12));
    // Four 6-bit numbers in the bytes of each word.
    let halves = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let scales = halves(a & 0x3f3f_3f3f, c & 0x0f0f_0f0f | (a >> 6 & 0x0303_0303) << 4);
    let mins = halves(b & 0x3f3f_3f3f, c >> 4 & 0x0f0f_0f0f | (b >> 6 & 0x0303_0303) << 4);
    let (mut ds, mut ms) = ([0.0; GROUPS], [0.0; GROUPS]);
    if L::N <= GROUPS {
        // Of the other loop, compilers vectorize the operations above as well, which takes longer.
        for g in (0..GROUPS).step_by(L::N) {
            (lanes.splat(d) * lanes.load_u8(&scales[g..]).to_f()).store(&mut ds[g..]);
            (lanes.splat(dmin) * lanes.load_u8(&mins[g..]).to_f()).store(&mut ms[g..]);
        }
    } else {
        for g in 0..GROUPS {
            ds[g] = d * f32::from(scales[g]);
            ms[g] = dmin * f32::from(mins[g]);
        }
    }
    (ds, ms)
}

/// One super-block, scalar reference (`quantize_row_q4_K_ref`, `quantize_row_q4_K_impl` and the same for Q5_K).
#[inline(never)]
fn reference(search: MinSearch, x: &[f32; LEN], matrix: Option<&[f32; LEN]>) -> Plain {
    let mut levels = [0; LEN];
    let mut fits = [Fit { scale: 0.0, min: 0.0 }; GROUPS];
    let mut sum_w = [0.0; GROUPS];

    let mut sum_x2 = 0.0;
    for x in x {
        sum_x2 += x * x;
    }
    let sigma2 = 2.0 * sum_x2 / LEN as f32;

    for g in 0..GROUPS {
        let at = g * GROUP..(g + 1) * GROUP;
        let x = &x[at.clone()];
        let mut weights = [0.0; GROUP];
        match matrix {
            Some(matrix) => {
                for ((w, x), q) in weights.iter_mut().zip(x).zip(&matrix[at.clone()]) {
                    *w = q * (sigma2 + x * x).sqrt();
                }
            }
            None => {
                let mut sum_x2 = 0.0;
                for x in x {
                    sum_x2 += x * x;
                }
                let average = (sum_x2 / GROUP as f32).sqrt();
                for (w, x) in weights.iter_mut().zip(x) {
                    *w = average + x.abs();
                }
            }
        }
        for w in weights {
            sum_w[g] += w;
        }
        fits[g] = fit_min(search, x, &weights, &mut levels[at]);
    }

    let head = match matrix {
        Some(_) => {
            let (mut scales, mut mins) = ([0; GROUPS], [0; GROUPS]);
            let d = fit_positive(63, &fits.map(|f| f.scale), &sum_w, &mut scales);
            let dmin = fit_positive(63, &fits.map(|f| f.min), &sum_w, &mut mins);
            // A level that wrapped is capped in Q5_K only.
            let cap = if search.levels == 31 { 63 } else { 255 };
            Head::new(d, dmin, &scales.map(|l: u8| l.min(cap)), &mins.map(|l: u8| l.min(cap)))
        }
        None => Head::from_largest(&fits),
    };

    for g in 0..GROUPS {
        let (scale, min) = head.group(g);
        let d = f16_to_f32_ggml(head.d) * f32::from(scale);
        if d == 0.0 {
            continue;
        }
        let dmin = f16_to_f32_ggml(head.dmin) * f32::from(min);
        for i in g * GROUP..(g + 1) * GROUP {
            // The order matters: of two NaNs the first is kept, and its bits become the level.
            levels[i] = nearest_int((dmin + x[i]) / d).min(search.levels).max(0) as u8;
        }
    }
    Plain { head, levels }
}

/// The heads of a tile's super-blocks and, group by group, the levels.
struct Lane<L: Lanes> {
    heads: [Head; MAX_LANES],
    /// Lanes with a valid result; the others are left to [`reference`].
    valid: L::M,
    groups: [GroupFit<L>; GROUPS],
}

#[derive(Clone, Copy)]
struct GroupFit<L: Lanes> {
    iscale: L::F,
    level_min: L::F,
}

/// One super-block per lane: the heads.
struct Heads<'a> {
    search: MinSearch,
    tile: &'a Tile<'a, LEN>,
}

impl<L: Lanes> Part<L> for Heads<'_> {
    type Output = Lane<L>;

    #[inline(always)]
    fn run(self, lanes: L) -> Lane<L> {
        // None of these types compares magnitudes.
        heads(lanes, MinSearch { absolute: false, ..self.search }, self.tile)
    }
}

#[inline(always)]
fn heads<L: Lanes>(lanes: L, search: MinSearch, tile: &Tile<'_, LEN>) -> Lane<L> {
    let (values, matrix) = (tile.values(), tile.weights());
    let zero = lanes.splat(0.0);
    let mut groups = [GroupFit { iscale: zero, level_min: zero }; GROUPS];
    let (mut scales, mut mins, mut sum_w) = ([zero; GROUPS], [zero; GROUPS], [zero; GROUPS]);
    let mut valid = !lanes.mask(0);

    let mut sum_x2 = zero;
    if tile.has_weights() {
        for g in 0..GROUPS {
            let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
            for i in 0..GROUP {
                sum_x2 = sum_x2 + x[i] * x[i];
            }
        }
    }
    let sigma2 = lanes.splat(2.0) * sum_x2 / lanes.splat(LEN as f32);

    for g in 0..GROUPS {
        let x = lanes.columns_apart::<LEN, GROUP>(&values, g);
        let mut weights = [zero; GROUP];
        match &matrix {
            Some(matrix) => {
                let q = lanes.columns_apart::<LEN, GROUP>(matrix, g);
                for i in 0..GROUP {
                    weights[i] = q[i] * (sigma2 + x[i] * x[i]).sqrt();
                    sum_w[g] = sum_w[g] + weights[i];
                }
            }
            None => {
                let mut sum_x2 = zero;
                for i in 0..GROUP {
                    sum_x2 = sum_x2 + x[i] * x[i];
                }
                let average = (sum_x2 / lanes.splat(GROUP as f32)).sqrt();
                for i in 0..GROUP {
                    weights[i] = average + x[i].abs();
                }
            }
        }
        let fit = fit_min_lanes(lanes, search, &x, &weights);
        (scales[g], mins[g]) = (fit.scale, fit.min);
        groups[g] = GroupFit { iscale: fit.iscale, level_min: fit.level_min };
        valid = valid & fit.valid;
    }

    let mut heads = [Head::default(); MAX_LANES];
    let by_lane = |lane: usize, from: &[[f32; MAX_LANES]; GROUPS]| from.map(|g| g[lane]);
    let mut lane_scales = [[0.0; MAX_LANES]; GROUPS];
    let mut lane_mins = [[0.0; MAX_LANES]; GROUPS];
    if tile.has_weights() {
        let (mut scale_levels, mut min_levels) = ([zero; GROUPS], [zero; GROUPS]);
        let (d, valid_d) = fit_positive_lanes::<L, GROUPS, false>(lanes, 63, &scales, &sum_w, &mut scale_levels);
        let (dmin, valid_min) = fit_positive_lanes::<L, GROUPS, false>(lanes, 63, &mins, &sum_w, &mut min_levels);
        valid = valid & valid_d & valid_min;
        let (mut lane_d, mut lane_dmin) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
        d.store(&mut lane_d);
        dmin.store(&mut lane_dmin);
        for g in 0..GROUPS {
            scale_levels[g].store(&mut lane_scales[g]);
            min_levels[g].store(&mut lane_mins[g]);
        }
        for lane in 0..tile.len {
            let scales = by_lane(lane, &lane_scales).map(|l| l as u8);
            let mins = by_lane(lane, &lane_mins).map(|l| l as u8);
            heads[lane] = Head::new(lane_d[lane], lane_dmin[lane], &scales, &mins);
        }
    } else {
        for g in 0..GROUPS {
            scales[g].store(&mut lane_scales[g]);
            mins[g].store(&mut lane_mins[g]);
        }
        for lane in 0..tile.len {
            let mut fits = [Fit { scale: 0.0, min: 0.0 }; GROUPS];
            for g in 0..GROUPS {
                fits[g] = Fit { scale: lane_scales[g][lane], min: lane_mins[g][lane] };
            }
            heads[lane] = Head::from_largest(&fits);
        }
    }
    Lane { heads, valid, groups }
}

impl<L: Lanes> Lane<L> {
    /// The levels of one group, and the lanes where they are valid.
    #[inline(always)]
    fn levels(&self, lanes: L, top: i32, values: &[&[f32; LEN]; MAX_LANES], group: usize) -> ([L::I; GROUP], L::M) {
        let zero = lanes.splat(0.0);
        let top = top as f32;
        let (mut d, mut dmin) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
        for lane in 0..L::N {
            let head = &self.heads[lane];
            let (scale, min) = head.group(group);
            d[lane] = f16_to_f32_ggml(head.d) * f32::from(scale);
            dmin[lane] = f16_to_f32_ggml(head.dmin) * f32::from(min);
        }
        let (d, dmin) = (lanes.load(&d), lanes.load(&dmin));
        // Without a scale, the levels of the search are kept.
        let unscaled = d.equal(zero);
        let keep_search = unscaled.any();
        let fit = self.groups[group];
        let x = lanes.columns_apart::<LEN, GROUP>(values, group);
        let mut largest = zero;
        let mut levels = [lanes.splat_i(0); GROUP];
        for i in 0..GROUP {
            let wish = (x[i] + dmin) / d;
            largest = largest.max(wish.abs());
            let mut l = level(lanes, wish, 0.0, top);
            if keep_search {
                l = unscaled.select(level(lanes, fit.iscale * (x[i] - fit.level_min), 0.0, top), l);
            }
            levels[i] = l.trunc();
        }
        (levels, unscaled | largest.le(lanes.splat(4194303.0)))
    }
}
