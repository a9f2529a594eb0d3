//! The errors of decoded values.
//!
//! With `x` the original values, `y` the decoded ones, `d = y - x` and `w` the importance of a column:
//!
//! | figure | formula | with an importance matrix |
//! |---|---|---|
//! | root mean square error | `sqrt(Σ d² / n)` | `sqrt(Σ w d² / Σ w)` |
//! | relative error | `sqrt(Σ d² / Σ x²)` | `sqrt(Σ w d² / Σ w x²)` |
//! | cosine similarity | `Σ x y / sqrt(Σ x² Σ y²)` | `Σ w x y / sqrt(Σ w x² Σ w y²)` |
//! | largest error | the largest `abs(d)` | the largest `sqrt(w d² n / Σ w)` |
//!
//! The first and the last have the unit of the values; the scale of the weights cancels out, so equal weights give the same figures as no
//! weights. The other two are dimensionless.
//!
//! A pair with an infinite or NaN value is excluded from the sums; such pairs are counted. A weight that is negative, infinite or NaN is
//! treated as zero. Where a formula would divide by zero: the relative error of zeros is 0 if the decoded values are zeros too, and
//! infinite otherwise; the cosine similarity of zeros with zeros is 1, with anything else 0.
//!
//! **The figures do not depend on the split.** A [`RowError`] adds up one row in double precision, in an order that depends only on its
//! length: value `i` goes to sum `i % 8`, for every vector width. A [`TensorError`] adds the sums of rows exactly, so rows may come in any
//! order, from any number of threads and parts; only the total is rounded.
//!
//! ```
//! use gguf_quants::measure::{RowError, TensorError};
//!
//! let mut tensor = TensorError::new();
//! tensor.add(0, &RowError::new(&[1.0, 2.0], &[1.0, 2.5], None));
//! tensor.add(1, &RowError::new(&[3.0, 4.0], &[3.0, 4.0], None));
//! let figures = tensor.figures();
//! assert_eq!(figures.rmse, 0.25);
//! let largest = figures.largest.unwrap();
//! assert_eq!((largest.error, largest.row, largest.column), (0.5, 0, 1));
//! ```

use crate::dispatch::{Isa, Kernel};
use crate::lanes::Lanes;

/// The error of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Root mean square of the errors, in the unit of the values.
    pub rmse: f64,
    /// The root mean square error over the root mean square of the originals.
    pub relative: f64,
    /// Cosine of the angle between originals and decoded values.
    pub cosine: f64,
    /// The largest error and its position; `None` if there is no error or no value.
    pub largest: Option<Largest>,
}

/// The largest error.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Largest {
    /// The magnitude, in the unit of the values.
    pub error: f64,
    /// The row; 0 in the figures of a single row.
    pub row: u64,
    /// The position in the row.
    pub column: u64,
}

/// The largest square so far; the first of equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Worst {
    square: f64,
    row: u64,
    column: u64,
}

impl Worst {
    fn or(self, other: Worst) -> Worst {
        let first = (self.row, self.column) <= (other.row, other.column);
        if self.square > other.square || (self.square == other.square && first) { self } else { other }
    }
}

/// The sums from which figures are computed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sums {
    /// `Σ w`.
    weight: f64,
    /// `Σ w d²`.
    error: f64,
    /// `Σ w x²`.
    original: f64,
    /// `Σ w y²`.
    decoded: f64,
    /// `Σ w x y`.
    product: f64,
    /// The largest `w d²`.
    worst: Worst,
}

impl Sums {
    fn figures(&self, n: u64) -> Figures {
        let over = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a / b };
        let cosine = match (self.original == 0.0, self.decoded == 0.0) {
            (true, true) => 1.0,
            (false, false) => (self.product / self.original.sqrt() / self.decoded.sqrt()).clamp(-1.0, 1.0),
            _ => 0.0,
        };
        let Worst { square, row, column } = self.worst;
        Figures {
            rmse: over(self.error, self.weight).sqrt(),
            relative: over(self.error, self.original).sqrt(),
            cosine,
            largest: (square > 0.0).then(|| Largest { error: (square * (n as f64 / self.weight)).sqrt(), row, column }),
        }
    }
}

/// The error of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowError {
    n: u64,
    not_finite: u64,
    plain: Sums,
    weighted: Option<Sums>,
}

impl RowError {
    /// Compares the values of one row; `weights` has one entry for each column.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn new(original: &[f32], decoded: &[f32], weights: Option<&[f32]>) -> RowError {
        RowError::with(Isa::best(), original, decoded, weights)
    }

    /// [`RowError::new`] with a chosen instruction set; the figures are the same.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn with(isa: Isa, original: &[f32], decoded: &[f32], weights: Option<&[f32]>) -> RowError {
        assert_eq!(original.len(), decoded.len(), "values compared with values of another length");
        match weights {
            None => {
                let (plain, not_finite) = isa.run(Add::<false> { original, decoded, weights: original });
                let [plain, _] = plain;
                RowError { n: original.len() as u64 - not_finite, not_finite, plain, weighted: None }
            }
            Some(weights) => {
                assert_eq!(original.len(), weights.len(), "one weight for each column");
                let ([plain, weighted], not_finite) = isa.run(Add::<true> { original, decoded, weights });
                RowError { n: original.len() as u64 - not_finite, not_finite, plain, weighted: Some(weighted) }
            }
        }
    }

    /// The number of compared pairs.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The number of pairs excluded because of an infinite or NaN value.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// The figures without weights.
    pub fn figures(&self) -> Figures {
        self.plain.figures(self.n)
    }

    /// The figures with weights, if any.
    pub fn weighted(&self) -> Option<Figures> {
        self.weighted.map(|s| s.figures(self.n))
    }
}

/// Sums side by side in a row.
const LANES: usize = 8;
/// Interval, in values, at which the largest error is located.
const RUN: usize = 256;

type Eight = [f64; LANES];

#[derive(Clone, Copy, Default)]
struct LaneSums {
    weight: Eight,
    error: Eight,
    original: Eight,
    decoded: Eight,
    product: Eight,
    /// The largest `w d²` of the run.
    worst: Eight,
}

impl LaneSums {
    #[inline(always)]
    fn add(&mut self, lane: usize, w: f64, x: f64, y: f64) {
        let d = y - x;
        let square = w * (d * d);
        self.weight[lane] += w;
        self.error[lane] += square;
        self.original[lane] += w * (x * x);
        self.decoded[lane] += w * (y * y);
        self.product[lane] += w * (x * y);
        self.worst[lane] = if square > self.worst[lane] { square } else { self.worst[lane] };
    }

    /// The sums, always added in the same order; the largest square is not included.
    fn fold(&self) -> Sums {
        let fold = |s: &Eight| ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
        Sums {
            weight: fold(&self.weight),
            error: fold(&self.error),
            original: fold(&self.original),
            decoded: fold(&self.decoded),
            product: fold(&self.product),
            worst: Worst::default(),
        }
    }
}

/// A pair, replaced by zeros if one of them is not finite, and whether that is the case.
#[inline(always)]
fn pair(x: f32, y: f32) -> (f64, f64, bool) {
    let finite = x.is_finite() & y.is_finite();
    (if finite { f64::from(x) } else { 0.0 }, if finite { f64::from(y) } else { 0.0 }, finite)
}

/// A weight, replaced by zero if it is invalid.
#[inline(always)]
fn weight(w: f32, finite: bool) -> f64 {
    if finite & (w > 0.0) & (w < f32::INFINITY) { f64::from(w) } else { 0.0 }
}

/// Adds eight pairs; zeros change nothing but the sum of the weight 1, which is not used.
#[inline(always)]
fn eight<const WEIGHTED: bool>(
    sums: &mut [LaneSums; 2],
    absent: &mut [u32; LANES],
    x: &[f32; LANES],
    y: &[f32; LANES],
    w: &[f32; LANES],
) {
    for i in 0..LANES {
        let (x, y, finite) = pair(x[i], y[i]);
        absent[i] += u32::from(!finite);
        sums[0].add(i, 1.0, x, y);
        if WEIGHTED {
            sums[1].add(i, weight(w[i], finite), x, y);
        }
    }
}

/// One row, without and (if `WEIGHTED`) with weights.
struct Add<'a, const WEIGHTED: bool> {
    original: &'a [f32],
    decoded: &'a [f32],
    weights: &'a [f32],
}

impl<const WEIGHTED: bool> Kernel for Add<'_, WEIGHTED> {
    type Output = ([Sums; 2], u64);

    fn plain(self) -> ([Sums; 2], u64) {
        self.sums()
    }

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> ([Sums; 2], u64) {
        self.sums()
    }
}

impl<const WEIGHTED: bool> Add<'_, WEIGHTED> {
    /// In the same order for every vector width.
    #[inline(always)]
    fn sums(self) -> ([Sums; 2], u64) {
        let mut sums = [LaneSums::default(); 2];
        let mut worst = [Worst::default(); 2];
        let mut not_finite = 0;
        let runs = self.original.chunks(RUN).zip(self.decoded.chunks(RUN)).zip(self.weights.chunks(RUN));
        for (run, ((original, decoded), weights)) in runs.enumerate() {
            let mut absent = [0u32; LANES];
            sums[0].worst = Eight::default();
            sums[1].worst = Eight::default();
            let ((xs, x_rest), (ys, y_rest)) = (original.as_chunks::<LANES>(), decoded.as_chunks::<LANES>());
            let (ws, w_rest) = weights.as_chunks::<LANES>();
            for ((x, y), w) in xs.iter().zip(ys).zip(ws) {
                eight::<WEIGHTED>(&mut sums, &mut absent, x, y, w);
            }
            if !x_rest.is_empty() {
                let (mut x, mut y, mut w) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
                x[..x_rest.len()].copy_from_slice(x_rest);
                y[..y_rest.len()].copy_from_slice(y_rest);
                w[..w_rest.len()].copy_from_slice(w_rest);
                eight::<WEIGHTED>(&mut sums, &mut absent, &x, &y, &w);
            }
            not_finite += absent.iter().map(|n| u64::from(*n)).sum::<u64>();
            for weighted in 0..2 {
                let most = sums[weighted].worst.iter().fold(0.0, |a: f64, b| a.max(*b));
                if most > worst[weighted].square {
                    let square = |i: &usize| {
                        let (x, y, finite) = pair(original[*i], decoded[*i]);
                        let w = if weighted == 1 { weight(weights[*i], finite) } else { 1.0 };
                        w * ((y - x) * (y - x))
                    };
                    let at = (0..original.len()).find(|i| square(i) == most).unwrap_or(0);
                    worst[weighted] = Worst { square: most, row: 0, column: (run * RUN + at) as u64 };
                }
            }
        }
        let [plain, weighted] = sums;
        let n = self.original.len() as u64 - not_finite;
        let plain = Sums { weight: n as f64, worst: worst[0], ..plain.fold() };
        ([plain, Sums { worst: worst[1], ..weighted.fold() }], not_finite)
    }
}

/// The error of a tensor, or of some of its rows.
#[derive(Debug, Clone, Default)]
pub struct TensorError {
    n: u64,
    not_finite: u64,
    plain: Total,
    /// The sums with weights, if every row had weights.
    weighted: Option<Total>,
}

/// [`Sums`] of many rows.
#[derive(Debug, Clone, Default)]
struct Total {
    /// Weight, error, original, decoded, product.
    sums: [Exact; 5],
    worst: Worst,
}

impl Total {
    fn add(&mut self, row: u64, first_column: u64, sums: &Sums) {
        let Sums { weight, error, original, decoded, product, worst } = *sums;
        for (total, sum) in self.sums.iter_mut().zip([weight, error, original, decoded, product]) {
            total.add(sum);
        }
        if worst.square > 0.0 {
            self.take(Worst { row, column: first_column + worst.column, ..worst });
        }
    }

    fn merge(&mut self, other: &Total) {
        for (total, sum) in self.sums.iter_mut().zip(&other.sums) {
            total.merge(sum);
        }
        if other.worst.square > 0.0 {
            self.take(other.worst);
        }
    }

    fn take(&mut self, worst: Worst) {
        self.worst = if self.worst.square > 0.0 { self.worst.or(worst) } else { worst };
    }

    fn sums(&self) -> Sums {
        let [weight, error, original, decoded, product] = self.sums.each_ref().map(Exact::nearest);
        Sums { weight, error, original, decoded, product, worst: self.worst }
    }

    fn write(&self, words: &mut Vec<u64>) {
        self.sums.iter().for_each(|sum| sum.write(words));
        words.extend([self.worst.square.to_bits(), self.worst.row, self.worst.column]);
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Total> {
        let mut total = Total::default();
        for sum in &mut total.sums {
            *sum = Exact::read(words)?;
        }
        let (square, row, column) = (f64::from_bits(words.next()?), words.next()?, words.next()?);
        total.worst = Worst { square, row, column };
        (square >= 0.0).then_some(total)
    }
}

impl TensorError {
    /// The error of no rows.
    pub fn new() -> TensorError {
        TensorError::default()
    }

    /// Adds the row with that index. Rows may come in any order, each once.
    pub fn add(&mut self, row: u64, error: &RowError) {
        self.add_part(row, 0, error);
    }

    /// Adds a part of the row with that index, starting at a column. Parts may come in any order, each once. A row in parts gives the
    /// figures of the whole row up to rounding, and the same parts always give the same figures.
    pub fn add_part(&mut self, row: u64, first_column: u64, error: &RowError) {
        let is_first = self.is_empty();
        self.plain.add(row, first_column, &error.plain);
        match &error.weighted {
            Some(sums) if is_first => self.weighted.insert(Total::default()).add(row, first_column, sums),
            Some(sums) => {
                if let Some(total) = &mut self.weighted {
                    total.add(row, first_column, sums);
                }
            }
            None => self.weighted = None,
        }
        self.n += error.n;
        self.not_finite += error.not_finite;
    }

    /// Adds other rows of the same tensor.
    pub fn merge(&mut self, other: &TensorError) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other.clone();
            return;
        }
        self.plain.merge(&other.plain);
        match (&mut self.weighted, &other.weighted) {
            (Some(total), Some(other)) => total.merge(other),
            _ => self.weighted = None,
        }
        self.n = self.n.saturating_add(other.n);
        self.not_finite = self.not_finite.saturating_add(other.not_finite);
    }

    fn is_empty(&self) -> bool {
        self.n + self.not_finite == 0
    }

    /// The error as numbers, from which [`from_words`](TensorError::from_words) makes it again, on any machine: nothing is rounded. Most have some
    /// fifty numbers.
    ///
    /// ```
    /// use gguf_quants::measure::{RowError, TensorError};
    ///
    /// let mut tensor = TensorError::new();
    /// tensor.add(0, &RowError::new(&[1.0, 2.0], &[1.0, 2.5], None));
    /// let other = TensorError::from_words(&tensor.to_words()).unwrap();
    /// assert_eq!(other.figures(), tensor.figures());
    /// assert!(TensorError::from_words(&[1, 2, 3]).is_none());
    /// ```
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![self.n, self.not_finite, u64::from(self.weighted.is_some())];
        self.plain.write(&mut words);
        if let Some(weighted) = &self.weighted {
            weighted.write(&mut words);
        }
        words
    }

    /// The error with these numbers, or `None` if they are not those of an error.
    pub fn from_words(words: &[u64]) -> Option<TensorError> {
        let mut words = words.iter().copied();
        let (n, not_finite, is_weighted) = (words.next()?, words.next()?, words.next()?);
        n.checked_add(not_finite)?;
        let plain = Total::read(&mut words)?;
        let weighted = match is_weighted {
            0 => None,
            _ => Some(Total::read(&mut words)?),
        };
        words.next().is_none().then_some(TensorError { n, not_finite, plain, weighted })
    }

    /// The number of compared pairs.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The number of pairs excluded because of an infinite or NaN value.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// The figures without weights.
    pub fn figures(&self) -> Figures {
        self.plain.sums().figures(self.n)
    }

    /// The figures with weights; `None` if a row had none, or there are no rows.
    pub fn weighted(&self) -> Option<Figures> {
        self.weighted.as_ref().map(|t| t.sums().figures(self.n))
    }
}

/// Words of an [`Exact`].
const WORDS: usize = 36;

/// An exact sum of doubles: an integer, in two's complement, in units of the smallest double, 2⁻¹⁰⁷⁴.
///
/// The largest double is below 2²⁰⁹⁸ units, so 2²⁰⁰ of them fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exact([u64; WORDS]);

impl Default for Exact {
    fn default() -> Exact {
        Exact([0; WORDS])
    }
}

impl Exact {
    /// Adds a finite number.
    fn add(&mut self, x: f64) {
        debug_assert!(x.is_finite());
        let bits = x.to_bits();
        let (exponent, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        let (shift, integer) = if exponent == 0 { (0, fraction) } else { (exponent - 1, fraction | 1 << 52) };
        let at = (shift / 64) as usize;
        let integer = u128::from(integer) << (shift % 64);
        let mut words = [0; WORDS];
        words[at] = integer as u64;
        words[at + 1] = (integer >> 64) as u64;
        let term = Exact(words);
        self.merge(&if x < 0.0 { term.negative() } else { term });
    }

    fn merge(&mut self, other: &Exact) {
        let mut carry = false;
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            let (sum, over) = word.overflowing_add(*other);
            let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over | over_carry);
        }
    }

    /// Writes the number of the first word that is not zero, the number of words, and the words up to the last one that the sign does not give.
    fn write(&self, words: &mut Vec<u64>) {
        let sign = if self.0[WORDS - 1] >> 63 == 1 { u64::MAX } else { 0 };
        let end = self.0.iter().rposition(|w| *w != sign).map_or(0, |last| last + 1);
        let start = self.0[..end].iter().position(|w| *w != 0).unwrap_or(end);
        words.extend([start as u64, (end - start) as u64, sign & 1]);
        words.extend(&self.0[start..end]);
    }

    fn read(words: &mut impl Iterator<Item = u64>) -> Option<Exact> {
        let (start, n, sign) = (words.next()?, words.next()?, words.next()?);
        let end = usize::try_from(start.checked_add(n)?).ok().filter(|end| *end <= WORDS && sign <= 1)?;
        let mut sum = Exact::default();
        let (low, high) = sum.0.split_at_mut(end);
        for word in &mut low[start as usize..] {
            *word = words.next()?;
        }
        high.fill(if sign == 1 { u64::MAX } else { 0 });
        Some(sum)
    }

    fn negative(&self) -> Exact {
        let mut one = Exact::default();
        one.0[0] = 1;
        let mut negative = Exact(self.0.map(|w| !w));
        negative.merge(&one);
        negative
    }

    /// The nearest double.
    fn nearest(&self) -> f64 {
        if self.0[WORDS - 1] >> 63 == 1 {
            return -self.negative().nearest();
        }
        let Some(top) = self.0.iter().rposition(|w| *w != 0) else { return 0.0 };
        // The highest two words have at least 65 bits; the lowest bit records whether any bit below them is set. That rounds once.
        let below = if top > 0 { self.0[top - 1] } else { 0 };
        let rest = self.0[..top.saturating_sub(1)].iter().any(|w| *w != 0);
        let rounded = (u128::from(self.0[top]) << 64 | u128::from(below) | u128::from(rest)) as f64;
        // In two steps, because the power may be too small for one.
        let exponent = 64 * (top as i32 - 1) - 1074;
        rounded * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(x: &[f32], y: &[f32], w: Option<&[f32]>) -> RowError {
        let [first, others @ ..] = &Isa::available().map(|isa| RowError::with(isa, x, y, w)).collect::<Vec<_>>()[..]
        else {
            panic!("no instruction set")
        };
        assert!(others.iter().all(|o| o == first));
        *first
    }

    #[test]
    fn figures_by_hand() {
        let (x, y) = ([3.0, 0.0, -4.0, 0.0], [3.0, 1.0, -2.0, 0.0]);
        let e = row(&x, &y, Some(&[1.0, 2.0, 0.5, 4.5]));
        let f = e.figures();
        assert_eq!((e.n(), e.not_finite()), (4, 0));
        assert_eq!(f.rmse, (5.0f64 / 4.0).sqrt());
        assert_eq!(f.relative, (5.0f64 / 25.0).sqrt());
        assert!((f.cosine - 17.0 / (25.0f64 * 14.0).sqrt()).abs() < 1e-15);
        assert_eq!(f.largest, Some(Largest { error: 2.0, row: 0, column: 2 }));
        let f = e.weighted().unwrap();
        assert_eq!(f.rmse, (4.0f64 / 8.0).sqrt());
        assert_eq!(f.relative, (4.0f64 / 17.0).sqrt());
        assert!((f.cosine - 13.0 / (17.0f64 * 13.0).sqrt()).abs() < 1e-15);
        // Two errors with a weighted square of 2; the first one wins. The weights' mean is 2.
        assert_eq!(f.largest, Some(Largest { error: 1.0, row: 0, column: 1 }));
        assert_eq!(row(&x, &y, None).weighted(), None);
    }

    #[test]
    fn equal_weights_change_nothing() {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.7).sin()).collect();
        let y: Vec<f32> = x.iter().map(|x| (x * 8.0).round() / 8.0).collect();
        let e = row(&x, &y, Some(&[4.0; 1000]));
        assert_eq!(e.weighted(), Some(e.figures()));
    }

    #[test]
    fn nothing_and_zeros() {
        let none = Figures { rmse: 0.0, relative: 0.0, cosine: 1.0, largest: None };
        assert_eq!(row(&[], &[], None).figures(), none);
        assert_eq!(TensorError::new().figures(), none);
        assert_eq!(row(&[0.0; 9], &[-0.0; 9], Some(&[1.0; 9])).weighted(), Some(none));
        assert_eq!(row(&[1.0; 9], &[2.0; 9], Some(&[0.0; 9])).weighted(), Some(none));
        let lost = row(&[2.0; 9], &[0.0; 9], None).figures();
        assert_eq!((lost.rmse, lost.relative, lost.cosine), (2.0, 1.0, 0.0));
        let made = row(&[0.0; 9], &[2.0; 9], None).figures();
        assert_eq!((made.rmse, made.relative, made.cosine), (2.0, f64::INFINITY, 0.0));
        let same = row(&[0.1; 300], &[0.1; 300], None).figures();
        assert_eq!((same.rmse, same.largest), (0.0, None));
        assert!((same.cosine - 1.0).abs() < 1e-15);
    }

    #[test]
    fn what_is_no_number_is_counted_and_left_out() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let e = row(
            &[1.0, nan, 2.0, inf, 1.0, 5.0],
            &[2.0, 1.0, nan, inf, 1.0, 5.0],
            Some(&[1.0, 1.0, 1.0, 1.0, nan, -1.0]),
        );
        assert_eq!((e.n(), e.not_finite()), (3, 3));
        assert_eq!(e.figures().rmse, (1.0f64 / 3.0).sqrt());
        assert_eq!(e.weighted().unwrap().rmse, 1.0);
        let e = row(&[nan; 20], &[0.0; 20], None);
        assert_eq!((e.n(), e.not_finite(), e.figures().rmse), (0, 20, 0.0));
        // The largest numbers do not overflow.
        let e = row(&[f32::MAX; 20], &[-f32::MAX; 20], Some(&[f32::MAX; 20]));
        let largest = 2.0 * f64::from(f32::MAX);
        assert!((e.figures().rmse / largest - 1.0).abs() < 1e-15);
        assert!((e.weighted().unwrap().rmse / largest - 1.0).abs() < 1e-15);
    }

    #[test]
    fn the_largest_error_is_found_where_it_first_is() {
        let x = [0.0f32; 1000];
        for at in [0, 7, 8, 255, 256, 511, 995, 999] {
            let mut y = [0.25f32; 1000];
            y[at] = -3.0;
            y[999] = 3.0;
            assert_eq!(row(&x, &y, None).figures().largest, Some(Largest { error: 3.0, row: 0, column: at as u64 }));
        }
    }

    #[test]
    fn rows_add_up_to_the_same_in_any_order_and_grouping() {
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            (seed >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let w: Vec<f32> = (0..100).map(|_| random().abs()).collect();
        let rows: Vec<RowError> = (0..60)
            .map(|i| {
                let scale = 10f32.powi(i % 30 - 15);
                let x: Vec<f32> = (0..100).map(|_| random() * scale).collect();
                let y: Vec<f32> = x.iter().map(|x| x + random() * scale * 0.1).collect();
                row(&x, &y, Some(&w))
            })
            .collect();
        let sum = |order: &mut dyn Iterator<Item = usize>| {
            let mut total = TensorError::new();
            order.for_each(|i| total.add(i as u64, &rows[i]));
            total
        };
        let expected = sum(&mut (0..60));
        let result = |t: &TensorError| (t.n(), t.figures(), t.weighted());
        assert_eq!(result(&sum(&mut (0..60).rev())), result(&expected));
        for parts in [2, 7, 60] {
            let mut total = TensorError::new();
            for part in (0..parts).rev() {
                total.merge(&sum(&mut (0..60).filter(|i| i % parts == part)));
            }
            total.merge(&TensorError::new());
            assert_eq!(result(&total), result(&expected));
            // Also by way of numbers.
            let mut total = TensorError::new();
            for part in 0..parts {
                let words = sum(&mut (0..60).filter(|i| i % parts == part)).to_words();
                total.merge(&TensorError::from_words(&words).unwrap());
                for n in 0..words.len() {
                    assert!(TensorError::from_words(&words[..n]).is_none());
                }
                assert!(TensorError::from_words(&[&words[..], &[0]].concat()).is_none());
            }
            assert_eq!(result(&total), result(&expected));
        }
        // The total equals the sum.
        let square: f64 = rows.iter().map(|r| r.figures().rmse.powi(2) * 100.0).sum();
        assert!((expected.figures().rmse / (square / 6000.0).sqrt() - 1.0).abs() < 1e-12);
        assert_eq!(expected.figures().largest.unwrap().row, {
            let most = |i: &usize| rows[*i].figures().largest.unwrap().error;
            (0..60).max_by(|a, b| most(a).total_cmp(&most(b))).unwrap() as u64
        });
    }

    #[test]
    fn rows_without_weights_leave_none_to_the_total() {
        let (with, without) = (row(&[1.0], &[2.0], Some(&[1.0])), row(&[1.0], &[2.0], None));
        for order in [[with, without, with], [without, with, with]] {
            let mut total = TensorError::new();
            order.iter().enumerate().for_each(|(i, r)| total.add(i as u64, r));
            assert_eq!(total.weighted(), None);
        }
    }

    #[test]
    fn exact_sums_round_once() {
        let sum = |terms: &[f64]| {
            let mut sum = Exact::default();
            terms.iter().for_each(|t| sum.add(*t));
            let mut words = Vec::new();
            sum.write(&mut words);
            assert_eq!(Exact::read(&mut words.iter().copied()), Some(sum));
            sum.nearest()
        };
        let tiny = f64::from_bits(1);
        for x in [0.0, 1.0, -1.5, tiny, -tiny, f64::MIN_POSITIVE, f64::MAX, -f64::MAX, 0.1, 1e-300, 1e300, 3e-310] {
            assert_eq!(sum(&[x]), x);
            assert_eq!(sum(&[x, 1e200, -7.0, 1e-200, 7.0, -1e200, -1e-200]), x);
        }
        let half = f64::EPSILON / 2.0;
        assert_eq!((sum(&[1.0, half]), sum(&[1.0, half, tiny])), (1.0, 1.0 + f64::EPSILON));
        assert_eq!((sum(&[-1.0, -half]), sum(&[-1.0, -half, -tiny])), (-1.0, -1.0 - f64::EPSILON));
        assert_eq!((sum(&[1.0, -1.0]), sum(&[tiny, tiny])), (0.0, 2.0 * tiny));
    }
}
