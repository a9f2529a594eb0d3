//! Statistics of an entry's values: whether the activations of a layer are large, even or idle.
//!
//! The statistics are those of `llama-imatrix --show-statistics` (`compute_statistics` and `compute_cossim` in
//! `tools/imatrix/imatrix.cpp`), but in double precision, so the last digits are more accurate.

use super::read::pieces;
use super::{EntryInfo, Error, Format, ImatrixFile};

/// Columns with mean squares up to this are idle.
const IDLE: f64 = 1e-5;

/// Statistics of the mean squared activations of an entry's columns, without experts that were never used.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Number of columns of all used experts.
    pub n_columns: u64,
    /// The sum over the columns.
    pub sum: f64,
    /// The smallest mean square.
    pub min: f64,
    /// The largest mean square.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The population standard deviation.
    pub deviation: f64,
    /// Share of columns above 0.00001.
    pub active: f64,
    /// Entropy of the columns' shares of the sum, in bits: the logarithm of the effective number of active columns.
    pub entropy: f64,
    /// Share of columns more than one standard deviation above the mean (the ZD score of "Layer-Wise Quantization", arXiv 2406.17415).
    pub zd: f64,
}

impl Statistics {
    /// The entropy as a fraction of its maximum, reached when all columns are equal; 1 for a single column.
    pub fn evenness(&self) -> f64 {
        let most = (self.n_columns as f64).log2();
        if most > 0.0 { self.entropy / most } else { 1.0 }
    }
}

/// Sums over columns.
struct Sums {
    n: u64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
    n_active: u64,
    /// Sum of each value times its logarithm.
    logs: f64,
    /// Sum of the positive values.
    positive: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.n += 1;
        self.sum += value;
        self.squares += value * value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.n_active += u64::from(value.abs() > IDLE);
        if value > 0.0 {
            self.logs += value * value.log2();
            self.positive += value;
        }
    }
}

impl ImatrixFile {
    /// Computes the statistics of an entry, in pieces. `None` if there is no such entry, or it has no measurements.
    ///
    /// # Errors
    /// If the values cannot be read, or one of them is not finite.
    pub fn statistics(&self, name: &[u8]) -> Result<Option<Statistics>, Error> {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut sums = Sums { n: 0, sum: 0.0, squares: 0.0, min, max, n_active: 0, logs: 0.0, positive: 0.0 };
        self.each_mean(name, |value| sums.add(value))?;
        if sums.n == 0 {
            return Ok(None);
        }
        let n = sums.n as f64;
        let mean = sums.sum / n;
        let deviation = (sums.squares / n - mean * mean).max(0.0).sqrt();
        let mut n_high = 0u64;
        if deviation > 0.0 {
            self.each_mean(name, |value| n_high += u64::from(value - mean > deviation))?;
        }
        // With the shares p of the values v in their sum s: -Σ p log p = (s log s - Σ v log v) / s.
        let entropy = if sums.sum > 0.0 { (sums.positive * sums.sum.log2() - sums.logs) / sums.sum } else { 0.0 };
        Ok(Some(Statistics {
            n_columns: sums.n,
            sum: sums.sum,
            min: sums.min,
            max: sums.max,
            mean,
            deviation,
            active: sums.n_active as f64 / n,
            entropy: entropy.max(0.0),
            zd: n_high as f64 / n,
        }))
    }

    /// The cosine of the angle between the sums of two entries: 1 if their activations differ only by a factor. `None` if one of them is
    /// missing, all zero or not measured, or if their sizes differ.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub fn similarity(&self, a: &[u8], b: &[u8]) -> Result<Option<f64>, Error> {
        let (Some(x), Some(y)) = (self.entry(a), self.entry(b)) else { return Ok(None) };
        let is_measured = |e: &EntryInfo<'_>| e.max_count() > 0 || self.format() == Format::Legacy;
        if x.n_values != y.n_values || !is_measured(&x) || !is_measured(&y) {
            return Ok(None);
        }
        let (mut both, mut a_squares, mut b_squares) = (0.0, 0.0, 0.0);
        for columns in pieces(0, x.n_values) {
            let (Some(x), Some(y)) = (self.stored(a, columns.clone())?, self.stored(b, columns)?) else {
                return Ok(None);
            };
            for (x, y) in x.into_iter().zip(y) {
                let (x, y) = (f64::from(x), f64::from(y));
                both += x * y;
                a_squares += x * x;
                b_squares += y * y;
            }
        }
        let cosine = both / (a_squares.sqrt() * b_squares.sqrt());
        Ok(cosine.is_finite().then_some(cosine))
    }

    /// Calls `each` with the mean square of every column of the used experts.
    fn each_mean(&self, name: &[u8], mut each: impl FnMut(f64)) -> Result<(), Error> {
        let Some(entry) = self.entry(name) else { return Ok(()) };
        let columns = entry.n_columns();
        let mut start = 0u64;
        for &count in entry.counts {
            let end = start.saturating_add(columns);
            // In the old format a count of 0 means that the values are the means.
            if count > 0 || self.format() == Format::Legacy {
                for piece in pieces(start, end) {
                    let means = self.weights_of(name, piece)?.unwrap_or_default();
                    means.into_iter().for_each(|mean| each(f64::from(mean)));
                }
            }
            start = end;
        }
        Ok(())
    }
}

/// The name of the same weight in the previous block; `None` if the name has no block, or the first.
pub fn in_previous_block(name: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(name).ok()?;
    let (before, rest) = text.split_once("blk.")?;
    let (block, rest) = rest.split_once('.')?;
    let block = block.parse::<u32>().ok()?.checked_sub(1)?;
    Some(format!("{before}blk.{block}.{rest}").into_bytes())
}
