//! What IQ1_S and IQ1_M have in common: values are -1, 0 or 1, all moved a little to one side, times a scale; eight of them are a
//! point of a codebook of 2048.
//!
//! ```text
//! value = scale * (level - 1 + delta)      level: 0, 1 or 2, see grids
//!                                          delta: 1/8 or -1/8
//! ```
//!
//! An encoder sorts a group: with the values in order, the best levels are two cuts, and every pair of cuts is tried. Then each
//! eight levels become a point of the codebook, a near one where it lacks theirs (`iq1_find_best_neighbour2` in `ggml-quants.c`).

use std::sync::OnceLock;

use crate::grids::{self, Grid, Place};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};

/// Values in a super-block (`QK_K`).
pub(super) const LEN: usize = 256;
/// Values in a point.
pub(super) const POINT: usize = 8;
/// How far values are moved (`IQ1S_DELTA`, `IQ1M_DELTA`).
pub(super) const DELTA: f32 = 0.125;
/// The number of the point whose levels are all 2.
const LAST_POINT: i32 = 6560;

/// ggml gives up on the block.
#[derive(Debug)]
pub(super) struct Lost;

/// Twice the mean square of a super-block.
pub(super) fn sigma2(x: &[f32; LEN]) -> f32 {
    let mut sum = 0.0;
    for x in x {
        sum += x * x;
    }
    2.0 * sum / LEN as f32
}

/// How much each of some values matters.
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

/// The places of the values, the smallest first, equal ones in their order. (ggml's `qsort` is a merge sort, which keeps it. Where NaN
/// stands does not matter: no cuts are found then.)
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

/// What a level stands for, without the scale; exact.
#[inline(always)]
pub(super) fn value(level: u8, delta: f32) -> f32 {
    f32::from(level) - 1.0 + delta
}

/// A level from a packed code.
#[inline(always)]
pub(super) fn level(code: u16, element: usize) -> u8 {
    (code >> (2 * element) & 3) as u8
}

/// The index of the point that stands for eight levels, and whether it is just theirs.
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
        Place::On(index) => return Ok((index, true)),
        Place::Near(near) => near,
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
    // ggml goes on to look at the whole codebook, but reads past the values there.
    found.map(|index| (index, false)).ok_or(Lost)
}

/// The codebook as the kernels use it: the codes of each list of neighbours, one after the other.
pub(super) struct Neighbours {
    grid: &'static Grid,
    starts: Vec<u32>,
    codes: Vec<u16>,
}

/// Lists are filled up to a multiple of this, so that vectors can be loaded.
const MULTIPLE: usize = 16;

impl Neighbours {
    pub fn get() -> &'static Neighbours {
        static NEIGHBOURS: OnceLock<Neighbours> = OnceLock::new();
        NEIGHBOURS.get_or_init(|| {
            let grid = grids::iq1();
            let mut all = Neighbours { grid, starts: vec![0], codes: Vec::new() };
            for k in 0..grid.n_lists() {
                let list = grid.list(k);
                let codes = list.iter().map(|&index| grid.codes()[usize::from(index)]);
                all.codes.extend(codes);
                // The last one again: it is not nearer than itself.
                let last = all.codes[all.codes.len() - 1];
                all.codes.resize(all.codes.len().next_multiple_of(MULTIPLE), last);
                all.starts.push(all.codes.len() as u32);
            }
            all
        })
    }

    /// [`place`] for the number of a point whose weights are not negative; gives the code besides.
    #[inline(always)]
    pub fn place<L: Lanes>(
        &self,
        lanes: L,
        point: i32,
        x: &[f32; POINT],
        weights: impl Fn() -> [f32; POINT],
        scale: f32,
        delta: f32,
    ) -> Option<Placed> {
        let index = self.grid.map()[point as usize];
        if index >= 0 {
            return Some(Placed { index: index as u16, code: self.grid.codes()[index as usize], on_grid: true });
        }
        let list = !index as usize;
        let codes = &self.codes[self.starts[list] as usize..self.starts[list + 1] as usize];
        let scaled = [scale * (delta - 1.0), scale * delta, scale * (delta + 1.0), 0.0];
        let weights = weights();
        let mut tables = [lanes.table4(&[0.0; 4]); POINT];
        for i in 0..POINT {
            let mut errors = [0.0; 4];
            for l in 0..4 {
                let d = scaled[l] - x[i];
                errors[l] = weights[i] * d * d;
            }
            tables[i] = lanes.table4(&errors);
        }
        let mut best = lanes.splat(f32::MAX);
        let mut step_of_best = lanes.splat_i(-1);
        for (step, codes) in codes.chunks_exact(L::N).enumerate() {
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
        // Errors are not negative, so their bits rise with them; of equal ones the first counts.
        let (mut errors, mut steps) = ([0; MAX_LANES], [0; MAX_LANES]);
        best.bits().store(&mut errors);
        step_of_best.store(&mut steps);
        let mut first = u64::MAX;
        for i in 0..L::N {
            let key = (errors[i] as u64) << 32 | (steps[i] as u32 as u64 * L::N as u64 + i as u64) & 0xffff_ffff;
            first = first.min(key);
        }
        if first >> 32 == u64::from(f32::MAX.to_bits()) {
            return None;
        }
        let at = first as u32 as usize;
        Some(Placed { index: self.grid.list(list)[at], code: codes[at], on_grid: false })
    }
}

/// A point of the codebook that stands for eight levels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub index: u16,
    pub code: u16,
    /// Whether it has just those levels.
    pub on_grid: bool,
}

/// One value per lane for each of some places, in memory.
pub(super) type Columns<T> = [T; MAX_LANES];

/// A group in order, one per lane.
pub(super) struct Sorted<L: Lanes, const N: usize> {
    pub x: [L::F; N],
    pub weights: [L::F; N],
    /// Where the values came from.
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

/// Two cuts through a sorted group, as one number; -1 for none.
pub(super) const fn cuts(first: usize, second: usize, kind: usize) -> i32 {
    (first | second << 8 | kind << 16) as i32
}

/// The numbers of the points that two cuts make, for `P` points of a group of `N`; turned around where `flip` says so.
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
    // What stands at the cuts; after the last value, what no value reaches.
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

    /// A network sorts everything when it sorts all rows of zeros and ones.
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
        // The merges are the same at every size; of the longest, each pair of sorted halves.
        for low in 0..=16 {
            for high in 0..=16 {
                let halves = (0xffff_0000u32 >> low & 0xffff) | (0xffff_0000u32 >> high & 0xffff) << 16;
                assert!(sorts(&NETWORK_32[126..], halves, 32), "{halves:#b}");
            }
        }
    }
}
