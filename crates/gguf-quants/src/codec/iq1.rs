//! Shared code of IQ1_S and IQ1_M: values are -1, 0 or 1, shifted by a delta, times a scale; eight of them are a point of a codebook of
//! 2048.
//!
//! ```text
//! value = scale * (level - 1 + delta)      level: 0, 1 or 2, see grids
//!                                          delta: 1/8 or -1/8
//! ```
//!
//! An encoder sorts a group: with the values in order, the best levels are two cuts, and every pair of cuts is tried. Then each eight
//! levels become a point of the codebook, or a neighbour of it if the codebook lacks the point (`iq1_find_best_neighbour2` in
//! `ggml-quants.c`).

use std::sync::OnceLock;

use super::block::Lost;
use crate::grids::{self, IQ1_CODES, PointPlace};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// Values in a point.
pub(super) const POINT: usize = 8;
/// The shift of the values (`IQ1S_DELTA`, `IQ1M_DELTA`).
pub(super) const DELTA: f32 = 0.125;
/// The number of the point whose levels are all 2.
const LAST_POINT: i32 = 6560;

/// Twice the mean square of a super-block.
pub(super) fn sigma2(x: &[f32; LEN]) -> f32 {
    let mut sum = 0.0;
    for x in x {
        sum += x * x;
    }
    2.0 * sum / LEN as f32
}

/// The importance of each value.
#[inline(always)]
pub(super) fn weights<const N: usize>(x: &[f32; N], matrix: Option<&[f32; N]>, sigma2: f32) -> [f32; N] {
    let mut weights = [0.0; N];
    match matrix {
        Some(matrix) => {
            for i in 0..N {
                weights[i] = matrix[i] * (sigma2 + x[i] * x[i]).sqrt();
            }
        }
        None => {
            for i in 0..N {
                weights[i] = x[i] * x[i];
            }
        }
    }
    weights
}

/// The positions of the values in ascending order; equal values keep their order. (ggml's `qsort` is a merge sort, which is stable. The
/// position of NaNs does not matter: no cuts are found then.)
pub(super) fn sorted<const N: usize>(x: &[f32; N]) -> [usize; N] {
    let mut order = [0; N];
    for i in 0..N {
        let mut at = i;
        while at > 0 && x[order[at - 1]] > x[i] {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = i;
    }
    order
}

/// The value of a level, without the scale; exact.
#[inline(always)]
pub(super) fn value(level: u8, delta: f32) -> f32 {
    f32::from(level) - 1.0 + delta
}

/// A level from a packed code.
#[inline(always)]
pub(super) fn level(code: u16, element: usize) -> u8 {
    (code >> (2 * element) & 3) as u8
}

/// The levels of every point of the codebook, eight times, a byte each.
static EIGHTFOLD: [u64; 2048] = {
    let mut points = [0; 2048];
    let mut index = 0;
    while index < 2048 {
        let mut i = 0;
        while i < POINT {
            points[index] |= ((IQ1_CODES[index] >> (2 * i) & 3) as u64 * 8) << (8 * i);
            i += 1;
        }
        index += 1;
    }
    points
};

/// For a point, the bytes from which [`decode_values`] computes its values.
#[inline(always)]
pub(super) fn decode_point(index: usize, down: bool) -> [u8; POINT] {
    let up = if down { 0 } else { 0x0202_0202_0202_0202 };
    (EIGHTFOLD[index % 2048] + up).to_le_bytes()
}

/// Values from the bytes of their points: an eighth of the scale times eight times a shifted level, which is exactly the product of the
/// scale and the level.
#[inline(always)]
pub(super) fn decode_values<L: Lanes, const N: usize>(lanes: L, scale: f32, bytes: &[u8; N], values: &mut [f32; N]) {
    let (scale, nine) = (lanes.splat(scale * 0.125), lanes.splat(9.0));
    for i in (0..N).step_by(L::N) {
        (scale * (lanes.load_u8(&bytes[i..]).to_f() - nine)).store(&mut values[i..]);
    }
}

/// The index of the point for eight levels, and whether its levels are exactly these.
pub(super) fn place(
    levels: &[u8; POINT],
    x: &[f32; POINT],
    weights: &[f32; POINT],
    scale: f32,
    delta: f32,
) -> Result<(u16, bool), Lost> {
    let grid = grids::iq1();
    let point = levels.iter().rev().fold(0, |point, &l| point * 3 + usize::from(l));
    let near = match grid.place(point) {
        PointPlace::On(index) => return Ok((index, true)),
        PointPlace::Near(near) => near,
    };
    let mut best = f32::MAX;
    let mut found = None;
    for &index in near {
        let code = grid.codes()[usize::from(index)];
        let mut error = 0.0;
        for i in 0..POINT {
            let d = scale * value(level(code, i), delta) - x[i];
            error += weights[i] * d * d;
        }
        if error < best {
            best = error;
            found = Some(index);
        }
    }
    // ggml then searches the whole codebook, but reads past the values there.
    found.map(|index| (index, false)).ok_or(Lost)
}

/// The codebook as the kernels use it.
pub(super) struct Neighbours {
    /// For each point its index, or `!k` if it is not in the codebook and has the `k`th list of neighbours.
    map: &'static [i32],
    /// The code of each index.
    codes: Vec<i32>,
    starts: Vec<u32>,
    /// The codes of each list of neighbours, one list after the other.
    lists: Vec<u16>,
    /// The number of half a point, from its packed code.
    halves: [u8; 256],
}

/// Lists are padded to a multiple of this length, so that vectors can be loaded.
const MULTIPLE: usize = 16;

impl Neighbours {
    pub fn get() -> &'static Neighbours {
        static NEIGHBOURS: OnceLock<Neighbours> = OnceLock::new();
        NEIGHBOURS.get_or_init(|| {
            let grid = grids::iq1();
            let codes = grid.codes();
            let mut all = Neighbours {
                map: grid.map(),
                codes: codes.iter().map(|&code| i32::from(code)).collect(),
                starts: vec![0],
                lists: Vec::new(),
                halves: [0; 256],
            };
            for k in 0..grid.n_lists() {
                all.lists.extend(grid.list(k).iter().map(|&index| codes[usize::from(index)]));
                // Padding repeats the last code: it is not nearer than itself.
                let last = all.lists[all.lists.len() - 1];
                all.lists.resize(all.lists.len().next_multiple_of(MULTIPLE), last);
                all.starts.push(all.lists.len() as u32);
            }
            for (code, half) in all.halves.iter_mut().enumerate() {
                *half = (0..4).rev().fold(0, |point, i| point * 3 + (code >> (2 * i) & 3) as u16) as u8;
            }
            all
        })
    }

    /// The index of a packed code that is in the codebook.
    #[inline(always)]
    fn index(&self, code: u16) -> i32 {
        let [low, high] = code.to_le_bytes().map(|half| usize::from(self.halves[usize::from(half)]));
        self.map[low + 81 * high]
    }

    /// [`place`], one point per lane, with weights that are not negative; `near` provides the inputs for a lane whose point is not in the
    /// codebook. Only for the lanes in `of`.
    #[inline(always)]
    pub fn place<'a, L: Lanes>(
        &self,
        lanes: L,
        points: L::I,
        of: u32,
        near: impl Fn(usize) -> Near<'a>,
        placed: &mut NearPoints,
    ) {
        let index = lanes.gather_i(self.map, points);
        index.store(&mut placed.index);
        lanes.gather_i(&self.codes, index).store(&mut placed.code);
        placed.replaced = lanes.splat_i(0).gt(index).to_bits() & of;
        placed.lost = 0;
        let mut rest = placed.replaced;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize % MAX_LANES;
            rest &= rest - 1;
            let list = !placed.index[lane] as usize;
            let list = &self.lists[self.starts[list] as usize..self.starts[list + 1] as usize];
            match nearest(lanes, list, &near(lane)) {
                Some(code) => {
                    placed.index[lane] = self.index(code);
                    placed.code[lane] = i32::from(code);
                }
                None => placed.lost |= 1 << lane,
            }
        }
    }
}

/// Points of the codebook for eight levels, one per lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearPoints {
    pub index: Columns<i32>,
    /// The packed levels.
    pub code: Columns<i32>,
    /// Lanes whose levels differ from the requested ones.
    pub replaced: u32,
    /// Lanes without a near point.
    pub lost: u32,
}

impl NearPoints {
    pub const NONE: NearPoints = NearPoints { index: [0; MAX_LANES], code: [0; MAX_LANES], replaced: 0, lost: 0 };
}

/// The inputs of the choice between neighbours.
pub(super) struct Near<'a> {
    pub x: &'a [f32; POINT],
    pub matrix: Option<&'a [f32; POINT]>,
    pub sigma2: f32,
    pub scale: f32,
    pub delta: f32,
}

/// The first of the nearest points of a list, `N` of them at a time: an element has three levels, so its errors are computed once for each
/// level and then looked up.
#[inline(always)]
fn nearest<L: Lanes>(lanes: L, list: &[u16], near: &Near<'_>) -> Option<u16> {
    let weights = weights(near.x, near.matrix, near.sigma2);
    let mut values = [0.0; 4];
    for l in 0..3 {
        values[l] = near.scale * value(l as u8, near.delta);
    }
    let mut tables = [lanes.table4(&values); POINT];
    for i in 0..POINT {
        let mut errors = [0.0; 4];
        for l in 0..4 {
            let d = values[l] - near.x[i];
            errors[l] = weights[i] * d * d;
        }
        tables[i] = lanes.table4(&errors);
    }
    let mut best = lanes.splat(f32::MAX);
    let mut step_of_best = lanes.splat_i(0);
    for (step, codes) in list.chunks_exact(L::N).enumerate() {
        let code = lanes.load_u16(codes);
        let mut error = lanes.lookup4(tables[0], code);
        error = error + lanes.lookup4(tables[1], code.shr::<2>());
        error = error + lanes.lookup4(tables[2], code.shr::<4>());
        error = error + lanes.lookup4(tables[3], code.shr::<6>());
        error = error + lanes.lookup4(tables[4], code.shr::<8>());
        error = error + lanes.lookup4(tables[5], code.shr::<10>());
        error = error + lanes.lookup4(tables[6], code.shr::<12>());
        error = error + lanes.lookup4(tables[7], code.shr::<14>());
        let nearer = error.lt(best);
        best = nearer.select(error, best);
        step_of_best = nearer.select_i(lanes.splat_i(step as i32), step_of_best);
    }
    // Errors are not negative, so their bits have the same order; the first of equal errors takes precedence.
    let (mut errors, mut steps) = ([0; MAX_LANES], [0; MAX_LANES]);
    best.bits().store(&mut errors);
    step_of_best.store(&mut steps);
    let mut first = u64::MAX;
    for i in 0..L::N {
        first = first.min((errors[i] as u64) << 32 | (steps[i] as u64 * L::N as u64 + i as u64));
    }
    (first >> 32 != u64::from(f32::MAX.to_bits())).then(|| list[first as u32 as usize])
}

/// One value per lane for each of several positions, in memory.
pub(super) type Columns<T> = [T; MAX_LANES];

/// A sorted group, one per lane.
pub(super) struct Sorted<L: Lanes, const N: usize> {
    pub x: [L::F; N],
    pub weights: [L::F; N],
    /// The original positions of the values.
    pub order: [L::I; N],
}

/// The comparisons of Batcher's odd-even merge sort.
const fn network<const N: usize, const COMPARISONS: usize>() -> [[u8; 2]; COMPARISONS] {
    let mut pairs = [[0; 2]; COMPARISONS];
    let mut n = 0;
    let mut run = 1;
    while run < N {
        let mut distance = run;
        while distance > 0 {
            let mut first = distance % run;
            while first + distance < N {
                let mut i = first;
                while i < first + distance && i + distance < N {
                    if i / (2 * run) == (i + distance) / (2 * run) {
                        pairs[n] = [i as u8, (i + distance) as u8];
                        n += 1;
                    }
                    i += 1;
                }
                first += 2 * distance;
            }
            distance /= 2;
        }
        run *= 2;
    }
    assert!(n == COMPARISONS);
    pairs
}

const NETWORK_16: [[u8; 2]; 63] = network::<16, 63>();
const NETWORK_32: [[u8; 2]; 191] = network::<32, 191>();

/// [`sorted`], one group per lane.
#[inline(always)]
pub(super) fn sorted_lanes<L: Lanes, const N: usize>(lanes: L, x: &[L::F; N], weights: &[L::F; N]) -> Sorted<L, N> {
    let mut s = Sorted::<L, N> { x: *x, weights: *weights, order: [lanes.splat_i(0); N] };
    for i in 0..N {
        s.order[i] = lanes.splat_i(i as i32);
    }
    let network: &[[u8; 2]] = if N == 32 { &NETWORK_32 } else { &NETWORK_16 };
    for pair in network {
        let (a, b) = (usize::from(pair[0]) % N, usize::from(pair[1]) % N);
        let (xa, xb, ia, ib) = (s.x[a], s.x[b], s.order[a], s.order[b]);
        let swap = xb.lt(xa) | (xb.equal(xa) & ia.gt(ib));
        s.x[a] = swap.select(xb, xa);
        s.x[b] = swap.select(xa, xb);
        s.order[a] = swap.select_i(ib, ia);
        s.order[b] = swap.select_i(ia, ib);
        let (wa, wb) = (s.weights[a], s.weights[b]);
        s.weights[a] = swap.select(wb, wa);
        s.weights[b] = swap.select(wa, wb);
    }
    s
}

/// A score from which a search for cuts may start, one per lane, if known cuts reach `reached.0² / reached.1`; the lowest number where that
/// is not safe.
///
/// A search iterates over the cuts and keeps those better than the best so far; rounding decides between nearly equal ones, so the order
/// matters. But it tries fewer than 1123 cuts, and rounding reaches across 2.4e-7 of a score. However the scores lie in the last 0.002
/// below the highest, two of them have a gap between them that is wider than that: scores above the gap replace all scores below it, and no
/// score below it replaces them. So the scores below do not matter, and a search that starts there finds the same cuts as one that starts
/// from nothing. The products of the numbers must not be denormal or infinite.
#[inline(always)]
pub(super) fn start<L: Lanes>(lanes: L, reached: (L::F, L::F), sum_w: L::F, max: L::F) -> L::F {
    let score = reached.0 * reached.0 / reached.1;
    let small = lanes.splat(1e-30);
    let safe = score.ge(small)
        & (score * sum_w).ge(small)
        & sum_w.ge(small)
        & sum_w.le(lanes.splat(1e10))
        & max.le(lanes.splat(1e6));
    safe.select(score * lanes.splat(0.998), lanes.splat(f32::MIN))
}

/// Two cuts through a sorted group, as one number; -1 for none.
pub(super) const fn cuts(first: usize, second: usize, kind: usize) -> i32 {
    (first | second << 8 | kind << 16) as i32
}

/// The numbers of the points for two cuts, for `P` points of a group of `N`; reversed where `flip` is set.
#[inline(always)]
pub(super) fn points<L: Lanes, const N: usize, const P: usize>(
    lanes: L,
    x: &[L::F; N],
    sorted: &Sorted<L, N>,
    cuts: L::I,
    flip: L::M,
) -> [L::I; P] {
    let mut numbers = [0; MAX_LANES];
    for i in 0..L::N {
        numbers[i] = i as i32;
    }
    let lane = lanes.load_i(&numbers);
    // The values at the cuts; after the last value, infinity.
    let mut values = [f32::INFINITY; 33 * MAX_LANES];
    let mut order = [i32::MAX; 33 * MAX_LANES];
    for i in 0..N {
        sorted.x[i].store(&mut values[i * L::N..]);
        sorted.order[i].store(&mut order[i * L::N..]);
    }
    let byte = lanes.splat_i(0xff);
    let width = lanes.splat_i(L::N as i32);
    let first = (cuts & byte) * width + lane;
    let second = (cuts.shr::<8>() & byte) * width + lane;
    let (x1, i1) = (lanes.gather(&values, first), lanes.gather_i(&order, first));
    let (x2, i2) = (lanes.gather(&values, second), lanes.gather_i(&order, second));

    let zero = lanes.splat_i(0);
    let mut points = [zero; P];
    for p in 0..P {
        let mut digit = 1;
        for i in POINT * p..POINT * (p + 1) {
            let (this, digits) = (lanes.splat_i(i as i32), lanes.splat_i(digit));
            let past_first = x[i].gt(x1) | (x[i].equal(x1) & !i1.gt(this));
            let past_second = x[i].gt(x2) | (x[i].equal(x2) & !i2.gt(this));
            points[p] = points[p] + past_first.select_i(digits, zero) + past_second.select_i(digits, zero);
            digit *= 3;
        }
        points[p] = flip.select_i(lanes.splat_i(LAST_POINT) - points[p], points[p]);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network that sorts all rows of zeros and ones sorts everything.
    #[test]
    fn networks_sort() {
        let sorts = |network: &[[u8; 2]], ones: u32, n: usize| {
            let mut bits = ones;
            for [a, b] in network {
                let (x, y) = (bits >> a & 1, bits >> b & 1);
                if x > y {
                    bits ^= 1 << a | 1 << b;
                }
            }
            bits == ((((1u64 << n) - 1) << (n as u32 - ones.count_ones())) as u32) & ((1u64 << n) - 1) as u32
        };
        for ones in 0..1 << 16 {
            assert!(sorts(&NETWORK_16, ones, 16), "{ones:#b}");
        }
        // The merges are the same at every size; for the longest, each pair of sorted halves.
        for low in 0..=16 {
            for high in 0..=16 {
                let halves = (0xffff_0000u32 >> low & 0xffff) | (0xffff_0000u32 >> high & 0xffff) << 16;
                assert!(sorts(&NETWORK_32[126..], halves, 32), "{halves:#b}");
            }
        }
    }
}
