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

mod cuts;

use std::sync::OnceLock;

use super::block::Lost;
use super::least::Least;
use crate::grids::{self, IQ1_CODES, Lists, PointPlace};
use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks, Part};

pub(super) use cuts::Contest;

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
    /// For each point its index, or a negative number if it is not in the codebook.
    map: &'static [i32],
    /// The code of each index.
    codes: Vec<i32>,
    /// All neighbours of each point, and those that can be the nearest to values which are nearest to the point's levels.
    all: &'static Lists,
    short: &'static Lists,
    /// The packed code of each point.
    points: Vec<u16>,
    /// The number of half a point, from its packed code.
    halves: [u8; 256],
}

impl Neighbours {
    pub fn get() -> &'static Neighbours {
        static NEIGHBOURS: OnceLock<Neighbours> = OnceLock::new();
        NEIGHBOURS.get_or_init(|| {
            let grid = grids::iq1();
            let mut neighbours = Neighbours {
                map: grid.map(),
                codes: grid.codes().iter().map(|&code| i32::from(code)).collect(),
                all: grid.lists(),
                short: grid.short_lists(),
                points: vec![0; grid.map().len()],
                halves: [0; 256],
            };
            for (point, code) in neighbours.points.iter_mut().enumerate() {
                let mut rest = point;
                for i in 0..POINT {
                    *code |= (rest as u16 % 3) << (2 * i);
                    rest /= 3;
                }
            }
            for (code, half) in neighbours.halves.iter_mut().enumerate() {
                *half = (0..4).rev().fold(0, |point, i| point * 3 + (code >> (2 * i) & 3) as u16) as u8;
            }
            neighbours
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
        let mut lane_point = [0; MAX_LANES];
        points.store(&mut lane_point);
        let mut rest = placed.replaced;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize % MAX_LANES;
            rest &= rest - 1;
            let nearest = Nearest { neighbours: self, point: lane_point[lane] as usize, near: near(lane) };
            match lanes.call_wide(nearest) {
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

/// The choice between the neighbours of a point that is not in the codebook.
struct Nearest<'a> {
    neighbours: &'a Neighbours,
    point: usize,
    near: Near<'a>,
}

/// The code of the first of the nearest neighbours, eight of them at a time: an element has three levels, so its errors are computed once for
/// each level and then looked up.
///
/// The short list of neighbours is enough if in no element the error falls with the distance from the level of the point. For each neighbour that
/// [`Grid::short_lists`](grids::Grid::short_lists) leaves out, one that comes before it has in no element a larger error, and so no larger sum:
/// each addition is monotone, also with rounding. The errors themselves are compared, so their rounding does not matter, either. Nearly all points
/// meet the condition, because the cuts are the best ones for their scale.
impl<L: Lanes> Part<L> for Nearest<'_> {
    type Output = Option<u16>;

    #[inline(always)]
    fn run(self, lanes: L) -> Option<u16> {
        let Nearest { neighbours, point, near } = self;
        let eight = lanes.eight();
        let x = eight.load(near.x);
        let weights = match near.matrix {
            Some(matrix) => eight.load(matrix) * (eight.splat(near.sigma2) + x * x).sqrt(),
            None => x * x,
        };
        let mut errors = [x; 3];
        let mut by_level = [[0.0; POINT]; 3];
        for l in 0..3 {
            let d = eight.splat(near.scale * value(l as u8, near.delta)) - x;
            errors[l] = weights * d * d;
            errors[l].store(&mut by_level[l]);
        }
        // Level `i` of the code, in lane `i`.
        let shifts = eight.load_i(&[1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1]);
        let level = (eight.splat_i(neighbours.points[point].into()) * shifts).shr::<14>() & eight.splat_i(3);
        let (low, high) = (level.equal(eight.splat_i(0)), level.equal(eight.splat_i(2)));
        let [e0, e1, e2] = errors;
        let in_order = (low | e1.le(e0)) & (high | e1.le(e2)) & (!low | e0.le(e1)) & (!high | e2.le(e1));
        // A branch, not a choice of lists: as it is nearly always the short one, that can be read before this is known.
        let list = if (!in_order).any() { all_neighbours(neighbours, point) } else { neighbours.short.padded(point) };
        first_of_least(lanes, &by_level, list)
    }
}

#[cold]
#[inline(never)]
fn all_neighbours(neighbours: &Neighbours, point: usize) -> &[u16] {
    neighbours.all.padded(point)
}

/// The code in a padded list with the least sum of errors, of equal ones the first, from the errors of each element at each level.
#[inline(always)]
fn first_of_least<L: Lanes>(lanes: L, errors: &[[f32; POINT]; 3], list: &[u16]) -> Option<u16> {
    debug_assert!(Lists::MULTIPLE.is_multiple_of(L::N));
    let mut tables = [lanes.table4(&[0.0; 4]); POINT];
    for i in 0..POINT {
        tables[i] = lanes.table4(&[errors[0][i], errors[1][i], errors[2][i], 0.0]);
    }
    let mut least = Least::none(lanes);
    for codes in list.as_chunks::<{ Lists::MULTIPLE }>().0 {
        for part in 0..Lists::MULTIPLE / L::N {
            let code = lanes.load_u16(&codes[part * L::N..]);
            let mut error = lanes.lookup4(tables[0], code);
            error = error + lanes.lookup4(tables[1], code.shr::<2>());
            error = error + lanes.lookup4(tables[2], code.shr::<4>());
            error = error + lanes.lookup4(tables[3], code.shr::<6>());
            error = error + lanes.lookup4(tables[4], code.shr::<8>());
            error = error + lanes.lookup4(tables[5], code.shr::<10>());
            error = error + lanes.lookup4(tables[6], code.shr::<12>());
            error = error + lanes.lookup4(tables[7], code.shr::<14>());
            least.add(code, error);
        }
    }
    least.code()
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

/// Two cuts through a sorted group, as one number; -1 for none.
pub(super) const fn cuts(first: usize, second: usize, kind: usize) -> i32 {
    (first | second << 8 | kind << 16) as i32
}

/// The sorted values and their positions in rows of `L::N`, and after them infinity.
pub(super) struct SortedRows {
    values: [f32; 33 * MAX_LANES],
    order: [i32; 33 * MAX_LANES],
}

impl SortedRows {
    pub(super) fn new() -> SortedRows {
        SortedRows { values: [f32::INFINITY; 33 * MAX_LANES], order: [i32::MAX; 33 * MAX_LANES] }
    }
}

/// The numbers of the points for two cuts, for `P` points of a group of `N`; reversed where `flip` is set. The rows are for groups of this `N`.
#[inline(always)]
pub(super) fn points<L: Lanes, const N: usize, const P: usize>(
    lanes: L,
    SortedRows { values, order }: &mut SortedRows,
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
    for i in 0..N {
        sorted.x[i].store(&mut values[i * L::N..]);
        sorted.order[i].store(&mut order[i * L::N..]);
    }
    let byte = lanes.splat_i(0xff);
    let width = lanes.splat_i(L::N as i32);
    let first = (cuts & byte) * width + lane;
    let second = (cuts.shr::<8>() & byte) * width + lane;
    let (x1, i1) = (lanes.gather(values, first), lanes.gather_i(order, first));
    let (x2, i2) = (lanes.gather(values, second), lanes.gather_i(order, second));

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
    use crate::Isa;
    use crate::dispatch::Kernel;
    use gguf_test::random::Random;

    /// The neighbour for levels that are not in the codebook.
    struct Choice<'a> {
        levels: [u8; POINT],
        near: Near<'a>,
    }

    impl Kernel for Choice<'_> {
        type Output = Option<u16>;

        fn plain(self) -> Option<u16> {
            let Near { x, matrix, sigma2, scale, delta } = self.near;
            let index = place(&self.levels, x, &weights(x, matrix, sigma2), scale, delta).ok()?.0;
            Some(IQ1_CODES[usize::from(index)])
        }

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Option<u16> {
            let point = self.levels.iter().rev().fold(0, |point, &l| point * 3 + usize::from(l));
            lanes.call_wide(Nearest { neighbours: Neighbours::get(), point, near: self.near })
        }
    }

    /// Every kernel finds the neighbour that the reference finds among all of them: for values that are nearest to their levels, for values next
    /// to the middle of two levels, and for any others.
    #[test]
    fn kernels_choose_the_nearest() {
        let mut random = Random::new("neighbours of IQ1", 0);
        let mut searched = 0;
        for turn in 0..40_000 {
            let scale = [1e-30, 0.01 + random.unit(), 1e15][turn % 16 / 7];
            let delta = if random.below(2) == 0 { DELTA } else { -DELTA };
            let (mut levels, mut x, mut matrix) = ([0; POINT], [0.0f32; POINT], [0.0; POINT]);
            for i in 0..POINT {
                levels[i] = random.below(3) as u8;
                let middle = value(levels[i], delta) + [0.5, -0.5][random.below(2)];
                let middle = middle.clamp(value(0, delta) + 0.5, value(2, delta) - 0.5) * scale;
                x[i] = match (turn / 16 % 4, random.below(3)) {
                    (1, 0) => middle,
                    (1, 1) => [middle.next_up(), middle.next_down()][random.below(2)],
                    (2, 0) => scale * (4.0 * random.unit() - 2.0),
                    (3, 0) => scale * value(levels[i], delta) * 8.0,
                    _ => scale * (value(levels[i], delta) + 0.98 * random.unit() - 0.49),
                };
                matrix[i] = [0.0, 1.0, random.unit(), random.unit() * 1e6][random.below(4)];
            }
            let choice = |sigma2| Choice {
                levels,
                near: Near { x: &x, matrix: (turn % 5 != 0).then_some(&matrix), sigma2, scale, delta },
            };
            let point = levels.iter().rev().fold(0, |point, &l| point * 3 + usize::from(l));
            if matches!(grids::iq1().place(point), PointPlace::Near(_)) {
                searched += 1;
                let sigma2 = scale * scale * random.unit();
                let expected = choice(sigma2).plain();
                for isa in Isa::available() {
                    assert_eq!(isa.run(choice(sigma2)), expected, "{isa}: {levels:?} {x:?} {matrix:?} {scale} {delta}");
                }
            }
        }
        assert!(searched > 20_000, "only {searched} points were not in the codebook");
    }

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
