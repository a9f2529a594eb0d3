//! Kullback–Leibler divergence of models from a base model, and the other statistics of `llama-perplexity --kl-divergence`, with the float operations of
//! `tools/perplexity/perplexity.cpp`.

use crate::Error;
use crate::engine::Token;
use crate::perplexity::{Estimate, logit_of, not_finite, softmax_sum};
use crate::windows::{Windows, for_rows};

/// Probabilities of the base model after one token.
#[derive(Debug, Clone, Copy)]
pub enum BaseRow<'a> {
    /// Its logits.
    Logits(&'a [f32]),
    /// Logarithms of probabilities in 16 bits: `scale * q + least`, of a [`BaseFile`](crate::base::BaseFile). Those that are more than 16 below the
    /// largest are raised to that.
    Stored {
        /// The step.
        scale: f32,
        /// The least logarithm.
        least: f32,
        /// The steps of each token.
        steps: &'a [u16],
    },
}

/// The comparison after one token.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    nll: f32,
    nll_base: f32,
    kld: f64,
    p_diff: f32,
    same_top: bool,
}

impl Position {
    fn of(logits: &[f32], base: BaseRow<'_>, token: Token) -> Position {
        let (max, sum) = softmax_sum(logits);
        #[allow(clippy::cast_possible_truncation, reason = "single precision, as there")]
        let log_sum = sum.ln() as f32;
        let nll = max + log_sum - logit_of(logits, token);
        let normalizer = max + log_sum;
        let top = first_max(logits.iter().copied());
        let (nll_base, kld, top_base) = match base {
            BaseRow::Stored { scale, least, steps } => {
                let log_p = |step: &u16| scale * f32::from(*step) + least;
                let chosen = usize::try_from(token).ok().and_then(|token| steps.get(token));
                let mut kld = 0.0_f64;
                for (step, logit) in steps.iter().zip(logits) {
                    let log_p = log_p(step);
                    if log_p > -16.0 {
                        kld += f64::from(log_p.exp() * (log_p - logit + normalizer));
                    }
                }
                (-chosen.map_or(f32::NAN, log_p), kld, first_max(steps.iter().map(log_p)))
            }
            BaseRow::Logits(base) => {
                let (max_base, sum_base) = softmax_sum(base);
                let normalizer_base = f64::from(max_base) + sum_base.ln();
                let normalizer = f64::from(max) + sum.ln();
                let mut kld = 0.0_f64;
                for (base, logit) in base.iter().zip(logits) {
                    let log_p = f64::from(*base) - normalizer_base;
                    let p = log_p.exp();
                    // A token that is excluded adds nothing.
                    if p > 0.0 {
                        kld += p * (log_p - (f64::from(*logit) - normalizer));
                    }
                }
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "that of the other model is of single precision, too"
                )]
                let nll_base = (normalizer_base - f64::from(logit_of(base, token))) as f32;
                (nll_base, kld, first_max(base.iter().copied()))
            }
        };
        let p_diff = (-nll).exp() - (-nll_base).exp();
        Position { nll, nll_base, kld, p_diff, same_top: top == top_base }
    }

    fn is_finite(&self) -> bool {
        self.nll.is_finite() && self.nll_base.is_finite() && self.kld.is_finite()
    }
}

/// The index of the largest value, the first of equal ones.
fn first_max(values: impl Iterator<Item = f32>) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, value) in values.enumerate() {
        if i == 0 || value > best.1 {
            best = (i, value);
        }
    }
    best.0
}

/// Comparisons of one model with the base model.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    count: usize,
    nll: [f64; 2],
    nll_base: [f64; 2],
    nll_nll_base: f64,
    kld: [f64; 2],
    p_diff: [f64; 2],
    p_diff4: f64,
    same_top: usize,
    klds: Vec<f32>,
    p_diffs: Vec<f32>,
}

impl Comparison {
    /// Adds the scored tokens of a window: the logits of the model, row after row, and the probabilities of the base model.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn add<'a>(
        &mut self,
        windows: &Windows,
        window: usize,
        logits: &[f32],
        base: impl Fn(usize) -> BaseRow<'a> + Sync,
    ) -> Result<(), Error> {
        let predicted = windows.predicted(window);
        let n_vocab = logits.len() / predicted.len().max(1);
        let of = |i: usize| {
            let row = logits.get(i * n_vocab..(i + 1) * n_vocab).unwrap_or_default();
            Position::of(row, base(i), predicted.get(i).copied().unwrap_or(-1))
        };
        for position in for_rows(predicted.len(), windows.options().n_threads, of) {
            if !position.is_finite() {
                return Err(not_finite(window));
            }
            self.add_position(&position);
        }
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation, reason = "values are kept in single precision, as there")]
    fn add_position(&mut self, at: &Position) {
        let add = |sums: &mut [f64; 2], value: f64, square: f64| {
            let [sum, sum2] = sums;
            *sum += value;
            *sum2 += square;
        };
        self.count += 1;
        add(&mut self.nll, at.nll.into(), (at.nll * at.nll).into());
        add(&mut self.nll_base, at.nll_base.into(), (at.nll_base * at.nll_base).into());
        self.nll_nll_base += f64::from(at.nll * at.nll_base);
        add(&mut self.kld, at.kld, at.kld * at.kld);
        let square = f64::from(at.p_diff * at.p_diff);
        add(&mut self.p_diff, at.p_diff.into(), square);
        self.p_diff4 += square * square;
        self.same_top += usize::from(at.same_top);
        self.klds.push(at.kld as f32);
        self.p_diffs.push(at.p_diff);
    }

    /// The number of compared tokens.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The mean divergence so far.
    pub fn mean(&self) -> f64 {
        self.kld[0] / self.count as f64
    }

    /// All statistics of the tokens so far.
    pub fn statistics(&self) -> Statistics {
        let n = self.count as f64;
        let estimate = |[sum, sum2]: [f64; 2]| {
            let value = sum / n;
            let variance = sum2 / n - value * value;
            let error = if variance > 0.0 && self.count > 10 { (variance / (n - 1.0)).sqrt() } else { 0.0 };
            Estimate { value, error }
        };
        let exponential = |log: Estimate| Estimate { value: log.value.exp(), error: log.value.exp() * log.error };
        let (log, log_base) = (estimate(self.nll), estimate(self.nll_base));
        let covariance = match self.count {
            0..10 => 0.0,
            _ => (self.nll_nll_base / n - (self.nll[0] / n) * (self.nll_base[0] / n)) / (n - 1.0),
        };
        let difference_error = |a: f64, b: f64, covariance: f64| (a * a + b * b - 2.0 * covariance).max(0.0).sqrt();
        let (perplexity, base_perplexity) = (exponential(log), exponential(log_base));
        let log_ratio = Estimate {
            value: log.value - log_base.value,
            error: difference_error(log.error, log_base.error, covariance),
        };
        let mean_square = estimate([self.p_diff[1], self.p_diff4]);
        let rms = mean_square.value.sqrt();
        let same_top = self.same_top as f64 / n;
        let sorted = |values: &[f32]| {
            let mut values = values.to_vec();
            values.sort_by(f32::total_cmp);
            values
        };
        Statistics {
            count: self.count,
            perplexity,
            base_perplexity,
            correlation: covariance / (log.error * log_base.error),
            log_ratio,
            ratio: exponential(log_ratio),
            difference: Estimate {
                value: perplexity.value - base_perplexity.value,
                error: difference_error(
                    perplexity.error,
                    base_perplexity.error,
                    perplexity.value * base_perplexity.value * covariance,
                ),
            },
            kld: estimate(self.kld),
            klds: sorted(&self.klds),
            p_diff: estimate(self.p_diff),
            p_diffs: sorted(&self.p_diffs),
            p_diff_rms: Estimate { value: rms, error: if rms > 0.0 { 0.5 / rms * mean_square.error } else { 0.0 } },
            same_top: Estimate { value: same_top, error: (same_top * (1.0 - same_top) / (n - 1.0)).sqrt() },
        }
    }
}

/// Statistics of a comparison.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Number of compared tokens.
    pub count: usize,
    /// Perplexity of the model.
    pub perplexity: Estimate,
    /// Perplexity of the base model.
    pub base_perplexity: Estimate,
    /// Correlation of the logarithms of both perplexities.
    pub correlation: f64,
    /// Logarithm of the ratio of the perplexities.
    pub log_ratio: Estimate,
    /// Ratio of the perplexities.
    pub ratio: Estimate,
    /// Difference of the perplexities.
    pub difference: Estimate,
    /// Mean divergence, in nats.
    pub kld: Estimate,
    /// The divergence after each token, in ascending order.
    pub klds: Vec<f32>,
    /// Mean difference of the probabilities of the right token.
    pub p_diff: Estimate,
    /// The differences, in ascending order.
    pub p_diffs: Vec<f32>,
    /// Root mean square of the differences.
    pub p_diff_rms: Estimate,
    /// Share of tokens after which both models prefer the same token.
    pub same_top: Estimate,
}

/// A percentile of sorted values, by linear interpolation.
pub fn percentile(sorted: &[f32], fraction: f32) -> f32 {
    let Some(last) = sorted.len().checked_sub(1) else { return f32::NAN };
    let place = (fraction * last as f32).clamp(0.0, last as f32);
    #[allow(clippy::cast_possible_truncation, reason = "between 0 and the last index")]
    let index = place as usize;
    let rest = place - index as f32;
    let at = |i: usize| sorted.get(i.min(last)).copied().unwrap_or(f32::NAN);
    match fraction {
        ..=0.0 => at(0),
        1.0.. => at(last),
        _ => (1.0 - rest) * at(index) + rest * at(index + 1),
    }
}

/// The median of sorted values.
pub fn median(sorted: &[f32]) -> f32 {
    let half = sorted.len() / 2;
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f32::NAN);
    if sorted.len().is_multiple_of(2) { 0.5 * (at(half) + at(half.wrapping_sub(1))) } else { at(half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate() {
        let values = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(percentile(&values, 0.5), 3.0);
        assert_eq!(percentile(&values, 0.0), 1.0);
        assert_eq!(percentile(&values, 1.0), 8.0);
        assert_eq!(median(&values), 3.0);
        assert_eq!(median(&values[..3]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_model_does_not_diverge_from_itself() {
        let logits = [1.0, 2.0, -40.0, 0.5];
        let position = Position::of(&logits, BaseRow::Logits(&logits), 1);
        assert!(position.same_top && position.kld.abs() < 1e-7 && position.p_diff.abs() < 1e-7);
        // By hand: p = (1/2, 1/4, 1/4) against q = (1/4, 1/2, 1/4).
        let [base, other] = [[2.0_f32.ln(), 0.0, 0.0], [0.0, 2.0_f32.ln(), 0.0]];
        let position = Position::of(&other, BaseRow::Logits(&base), 0);
        assert!((position.kld - 0.25 * 2.0_f64.ln()).abs() < 1e-7, "{position:?}");
        assert!(!position.same_top && (position.p_diff + 0.25).abs() < 1e-6);
    }
}
