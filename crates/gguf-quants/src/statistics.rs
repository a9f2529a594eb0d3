//! Statistics of values, in two passes: [`Sums`], then what is counted and added up around them, [`Spread`].
//!
//! Infinite and NaN values are counted, and otherwise excluded. Sums are in double precision, in an order that depends only on the number of
//! values: value `i` goes to sum `i % 8`, for every vector width. The sums of several parts are added in the order of the parts.
//!
//! ```
//! use gguf_quants::statistics::{Spread, Sums};
//!
//! let values = [1.0, 2.0, 3.0, f32::NAN];
//! let sums = Sums::of(&values);
//! assert_eq!((sums.nan, sums.min, sums.max, sums.mean()), (1, Some(1.0), Some(3.0), Some(2.0)));
//! let spread = Spread::of(&values, &sums, 2);
//! assert_eq!((spread.squares, spread.bins.as_slice()), (2.0, &[1, 2][..]));
//! ```

use crate::dispatch::{Isa, Kernel};
use crate::lanes::{Floats, Ints, Lanes, Masks};

/// Sums side by side.
const LANES: usize = 8;
/// Tables of counts.
const TABLES: usize = 4;
/// Number of values whose counts fit 32 bits.
const RUN: usize = 1 << 16;
/// A value is an outlier if its magnitude is above this many times the root mean square.
const FAR: f64 = 6.0;

/// The result of the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    /// Number of values.
    pub n: u64,
    /// Number of NaN values.
    pub nan: u64,
    /// Number of infinite values, of either sign.
    pub infinite: u64,
    /// Number of zeros, of either sign.
    pub zeros: u64,
    /// The smallest finite value.
    pub min: Option<f32>,
    /// The largest finite value.
    pub max: Option<f32>,
    /// The sum of the finite values.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

impl Sums {
    /// The sums of some values.
    pub fn of(values: &[f32]) -> Sums {
        Sums::with(Isa::best(), values)
    }

    /// [`Sums::of`] with a chosen instruction set; the result is the same.
    pub fn with(isa: Isa, values: &[f32]) -> Sums {
        isa.run(First(values))
    }

    /// The sums of these values and of those that follow them.
    #[must_use]
    pub fn and(self, next: Sums) -> Sums {
        let either = |a: Option<f32>, b: Option<f32>, pick: fn(f32, f32) -> f32| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        Sums {
            n: self.n + next.n,
            nan: self.nan + next.nan,
            infinite: self.infinite + next.infinite,
            zeros: self.zeros + next.zeros,
            min: either(self.min, next.min, lesser),
            max: either(self.max, next.max, greater),
            sum: self.sum + next.sum,
            squares: self.squares + next.squares,
        }
    }

    /// Number of finite values.
    pub fn n_finite(&self) -> u64 {
        self.n - self.nan - self.infinite
    }

    /// The mean of the finite values.
    pub fn mean(&self) -> Option<f64> {
        self.over(self.sum)
    }

    /// The root mean square of the finite values.
    pub fn rms(&self) -> Option<f64> {
        self.over(self.squares).map(f64::sqrt)
    }

    fn over(&self, sum: f64) -> Option<f64> {
        (self.n_finite() > 0).then(|| sum / self.n_finite() as f64)
    }
}

/// The result of the second pass, around the sums of all values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spread {
    /// The sum of the squared differences from the mean.
    pub squares: f64,
    /// Number of finite values with a magnitude above six times the root mean square.
    pub outliers: u64,
    /// Number of values in each of several equal intervals from the smallest to the largest value, which is in the last one.
    pub bins: Vec<u64>,
}

impl Spread {
    /// No values yet, with a number of intervals.
    pub fn new(n_bins: usize) -> Spread {
        Spread { bins: vec![0; n_bins], ..Spread::default() }
    }

    /// The spread of some values around the sums of all of them.
    pub fn of(values: &[f32], all: &Sums, n_bins: usize) -> Spread {
        Spread::with(Isa::best(), values, all, n_bins)
    }

    /// [`Spread::of`] with a chosen instruction set; the result is the same.
    pub fn with(isa: Isa, values: &[f32], all: &Sums, n_bins: usize) -> Spread {
        let (Some(min), Some(max), Some(mean), Some(rms)) = (all.min, all.max, all.mean(), all.rms()) else {
            return Spread::new(n_bins);
        };
        let (min, width) = (f64::from(min), f64::from(max) - f64::from(min));
        // If the range is empty, all values are equal, and in the first interval.
        let width = if width > 0.0 { width } else { 1.0 };
        let far = (FAR * rms) as f32;
        let far = if f64::from(far) > FAR * rms { far.next_down() } else { far };
        let around = Around { min, mean, far, scale: n_bins as f64 / width, n_bins };
        isa.run(Second { values, around })
    }

    /// The spread of these values and of those that follow them.
    #[must_use]
    pub fn and(mut self, next: &Spread) -> Spread {
        self.squares += next.squares;
        self.outliers += next.outliers;
        self.bins.iter_mut().zip(&next.bins).for_each(|(a, b)| *a += b);
        self
    }
}

/// The first of equal numbers, so that the sign of a zero does not depend on the order of comparisons.
#[inline(always)]
fn lesser(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

#[inline(always)]
fn fold<T: Copy>(lanes: &[T; LANES], add: impl Fn(T, T) -> T) -> T {
    let [a, b, c, d, e, f, g, h] = *lanes;
    add(add(add(a, e), add(c, g)), add(add(b, f), add(d, h)))
}

/// Sums of a part of the values; value `i` is in lane `i % 8`.
struct FirstLanes {
    min: [f32; LANES],
    max: [f32; LANES],
    sum: [f64; LANES],
    squares: [f64; LANES],
}

impl FirstLanes {
    fn new() -> FirstLanes {
        let (min, max) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        FirstLanes { min, max, sum: [0.0; LANES], squares: [0.0; LANES] }
    }

    /// Adds one value.
    #[inline(always)]
    fn add(&mut self, lane: usize, value: f32, sums: &mut Sums) {
        sums.nan += u64::from(value.is_nan());
        sums.infinite += u64::from(value.is_infinite());
        sums.zeros += u64::from(value == 0.0);
        if value.is_finite() {
            self.min[lane] = lesser(self.min[lane], value);
            self.max[lane] = greater(self.max[lane], value);
            let value = f64::from(value);
            self.sum[lane] += value;
            self.squares[lane] += value * value;
        }
    }

    #[inline(always)]
    fn end(&self, sums: &mut Sums) {
        let (min, max) = (fold(&self.min, lesser), fold(&self.max, greater));
        if min <= max {
            (sums.min, sums.max) = (Some(min), Some(max));
        }
        sums.sum = fold(&self.sum, |a, b| a + b);
        sums.squares = fold(&self.squares, |a, b| a + b);
    }
}

struct First<'a>(&'a [f32]);

impl Kernel for First<'_> {
    type Output = Sums;

    fn plain(self) -> Sums {
        let mut sums = Sums { n: self.0.len() as u64, ..Sums::default() };
        let mut lanes = FirstLanes::new();
        for (i, value) in self.0.iter().enumerate() {
            lanes.add(i % LANES, *value, &mut sums);
        }
        lanes.end(&mut sums);
        sums
    }

    /// Groups with a value that is not finite are left to the reference.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Sums {
        let lanes = lanes.eight();
        let (zero, one) = (lanes.splat_i(0), lanes.splat_i(1));
        let mut sums = Sums { n: self.0.len() as u64, ..Sums::default() };
        let mut all = FirstLanes::new();
        for run in self.0.chunks(RUN) {
            let (mut min, mut max, mut zeros) = (lanes.load(&all.min), lanes.load(&all.max), zero);
            let (mut sum, mut squares) = (all.sum, all.squares);
            let (eights, rest) = run.as_chunks::<LANES>();
            for eight in eights {
                let values = lanes.load(eight);
                if is_finite(lanes, values) {
                    (min, max) = (values.min(min), values.max(max));
                    zeros = zeros + values.equal(lanes.splat(0.0)).select_i(one, zero);
                    lanes.add_doubles(values, &mut sum);
                    lanes.add_squares(values, 0.0, &mut squares);
                } else {
                    min.store(&mut all.min);
                    max.store(&mut all.max);
                    (all.sum, all.squares) = (sum, squares);
                    for lane in 0..LANES {
                        all.add(lane, eight[lane], &mut sums);
                    }
                    (sum, squares) = (all.sum, all.squares);
                    (min, max) = (lanes.load(&all.min), lanes.load(&all.max));
                }
            }
            min.store(&mut all.min);
            max.store(&mut all.max);
            (all.sum, all.squares) = (sum, squares);
            sums.zeros += total(zeros);
            for (lane, value) in rest.iter().enumerate() {
                all.add(lane, *value, &mut sums);
            }
        }
        all.end(&mut sums);
        sums
    }
}

/// The sum of the counts of a run.
#[inline(always)]
fn total(counts: impl Ints) -> u64 {
    let mut lanes = [0; LANES];
    counts.store(&mut lanes);
    let mut sum = 0;
    for n in lanes {
        sum += u64::from(n.cast_unsigned());
    }
    sum
}

/// Whether all eight values are finite.
#[inline(always)]
fn is_finite<L: Lanes>(lanes: L, values: L::F) -> bool {
    !(!values.abs().lt(lanes.splat(f32::INFINITY))).any()
}

/// What the second pass compares values with.
#[derive(Clone, Copy)]
struct Around {
    min: f64,
    mean: f64,
    /// Values with a larger magnitude are outliers.
    far: f32,
    /// Intervals in one unit.
    scale: f64,
    n_bins: usize,
}

impl Around {
    /// The last interval, of at most 2^31.
    #[inline(always)]
    fn last(&self) -> f64 {
        self.n_bins.saturating_sub(1).min(i32::MAX as usize) as f64
    }

    /// The interval of a finite value. The largest value is in the last one.
    #[inline(always)]
    fn place(&self, value: f64) -> usize {
        let at = (value - self.min) * self.scale;
        (if at < self.last() { at } else { self.last() }) as i32 as usize
    }
}

/// What the second pass has found.
struct Tally {
    squares: [f64; LANES],
    outliers: u64,
    /// Tables of counts, one after the other: neighbours are often in the same interval, so their counts are in different tables.
    counts: Vec<u64>,
    /// Places of a table.
    n_places: usize,
}

impl Tally {
    fn new(around: &Around) -> Tally {
        let n_places = around.n_bins.max(1);
        Tally { squares: [0.0; LANES], outliers: 0, counts: vec![0; TABLES * n_places], n_places }
    }

    /// Adds one value.
    #[inline(always)]
    fn add(&mut self, lane: usize, value: f32, around: &Around) {
        if value.is_finite() {
            self.outliers += u64::from(value.abs() > around.far);
            let value = f64::from(value);
            self.squares[lane] += (value - around.mean) * (value - around.mean);
            self.counts[around.place(value)] += 1;
        }
    }

    fn end(&self, n_bins: usize) -> Spread {
        let bins = (0..n_bins).map(|i| self.counts.iter().skip(i).step_by(self.n_places).sum());
        Spread { squares: fold(&self.squares, |a, b| a + b), outliers: self.outliers, bins: bins.collect() }
    }
}

struct Second<'a> {
    values: &'a [f32],
    around: Around,
}

impl Kernel for Second<'_> {
    type Output = Spread;

    fn plain(self) -> Spread {
        let mut tally = Tally::new(&self.around);
        for (i, value) in self.values.iter().enumerate() {
            tally.add(i % LANES, *value, &self.around);
        }
        tally.end(self.around.n_bins)
    }

    /// Groups with a value that is not finite are left to the reference.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Spread {
        let lanes = lanes.eight();
        let (zero, one, far) = (lanes.splat_i(0), lanes.splat_i(1), lanes.splat(self.around.far));
        let mut tally = Tally::new(&self.around);
        for run in self.values.chunks(RUN) {
            let (mut outliers, mut squares) = (zero, tally.squares);
            let (eights, rest) = run.as_chunks::<LANES>();
            for eight in eights {
                let values = lanes.load(eight);
                if is_finite(lanes, values) {
                    outliers = outliers + values.abs().gt(far).select_i(one, zero);
                    lanes.add_squares(values, self.around.mean, &mut squares);
                    let mut at = [0; LANES];
                    lanes.places(values, self.around.min, self.around.scale, self.around.last(), &mut at);
                    for lane in 0..LANES {
                        tally.counts[lane % TABLES * tally.n_places + at[lane] as usize] += 1;
                    }
                } else {
                    tally.squares = squares;
                    for lane in 0..LANES {
                        tally.add(lane, eight[lane], &self.around);
                    }
                    squares = tally.squares;
                }
            }
            tally.squares = squares;
            tally.outliers += total(outliers);
            for (lane, value) in rest.iter().enumerate() {
                tally.add(lane, *value, &self.around);
            }
        }
        tally.end(self.around.n_bins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of all instruction sets, which are those of the reference.
    fn both(values: &[f32], n_bins: usize) -> (Sums, Spread) {
        let sums = Sums::with(Isa::Scalar, values);
        let spread = Spread::with(Isa::Scalar, values, &sums, n_bins);
        for isa in Isa::available() {
            let other = Sums::with(isa, values);
            assert_eq!(other, sums, "{isa}, {} values", values.len());
            let bits = |sums: &Sums| (sums.min.map(f32::to_bits), sums.max.map(f32::to_bits));
            assert_eq!(bits(&other), bits(&sums), "{isa}");
            assert_eq!(
                Spread::with(isa, values, &sums, n_bins),
                spread,
                "{isa}, {} values, {n_bins} bins",
                values.len()
            );
        }
        (sums, spread)
    }

    fn random(n: usize) -> Vec<f32> {
        let mut seed = 1u32;
        let mut next = || {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            (seed >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next() * next() * next()).collect()
    }

    #[test]
    fn by_hand() {
        let (sums, spread) = both(&[1.0, -1.0, 0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 4.0], 5);
        assert_eq!((sums.n, sums.nan, sums.infinite, sums.zeros), (8, 1, 2, 2));
        assert_eq!((sums.min, sums.max, sums.sum, sums.squares), (Some(-1.0), Some(4.0), 4.0, 18.0));
        assert_eq!((sums.mean(), sums.rms()), (Some(0.8), Some((18.0f64 / 5.0).sqrt())));
        assert_eq!(spread.bins, [1, 2, 1, 0, 1]);
        assert!((spread.squares - 14.8).abs() < 1e-12);
    }

    #[test]
    fn nothing_constants_and_what_is_not_finite() {
        let (sums, spread) = both(&[], 3);
        assert_eq!((sums.min, sums.mean(), spread.bins), (None, None, vec![0; 3]));
        let (sums, spread) = both(&[f32::NAN; 9], 3);
        assert_eq!((sums.n, sums.nan, sums.n_finite(), sums.max, spread.bins), (9, 9, 0, None, vec![0; 3]));
        let (sums, spread) = both(&[0.1; 1000], 4);
        assert_eq!((sums.min, sums.max, spread.bins), (Some(0.1), Some(0.1), vec![1000, 0, 0, 0]));
        assert!(both(&[1.0, 2.0], 0).1.bins.is_empty());
        // The range of the largest numbers does not overflow.
        let (sums, spread) = both(&[f32::MAX, -f32::MAX, 0.0], 2);
        assert_eq!((sums.sum, spread.bins), (0.0, vec![1, 2]));
    }

    #[test]
    fn every_length_and_number_of_bins_is_alike() {
        let mut values = random(RUN * 2 + 77);
        for i in (0..values.len()).step_by(101) {
            values[i] = [f32::NAN, f32::INFINITY, 0.0, -0.0, 1e30, f32::MIN_POSITIVE / 8.0][i % 6];
        }
        for n in (0..40).chain([RUN - 1, RUN, RUN + 9, values.len()]) {
            for n_bins in [1, 2, 7, 256] {
                both(&values[..n], n_bins);
            }
        }
        // Values on the edges of intervals.
        let grid: Vec<f32> = (0..=1024).map(|i| i as f32 / 1024.0).collect();
        let (_, spread) = both(&grid, 1024);
        assert_eq!(spread.bins[..1023], [1; 1023]);
        assert_eq!(spread.bins[1023], 2);
        both(&grid, 1000);
    }

    #[test]
    fn outliers_are_far_from_zero() {
        let mut values = vec![1.0; 1000];
        (values[3], values[500]) = (7.0, -50.0);
        let (sums, spread) = both(&values, 10);
        assert!(sums.rms().unwrap() > 1.5);
        assert_eq!(spread.outliers, 1);
    }

    #[test]
    fn parts_add_up() {
        let values = random(10_000);
        let (sums, spread) = both(&values, 64);
        let parts = || values.chunks(3000);
        let joined = parts().map(Sums::of).fold(Sums::default(), Sums::and);
        assert_eq!((joined.n, joined.min, joined.max, joined.zeros), (sums.n, sums.min, sums.max, sums.zeros));
        assert!((joined.sum - sums.sum).abs() < 1e-9 && (joined.squares - sums.squares).abs() < 1e-9);
        let again = parts().fold(Spread::new(64), |all, part| all.and(&Spread::of(part, &sums, 64)));
        assert_eq!((again.bins, again.outliers), (spread.bins, spread.outliers));
    }
}
