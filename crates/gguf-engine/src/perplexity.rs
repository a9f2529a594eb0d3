//! Perplexity, with the float operations of `tools/perplexity/perplexity.cpp`.

use crate::engine::{Engine, Observe, Token};
use crate::windows::{Windows, for_rows};
use crate::{Error, ErrorKind};

/// A mean and its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Its uncertainty: one standard error.
    pub error: f64,
}

/// Sums over the scored tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Perplexity {
    /// Number of scored tokens.
    pub count: u64,
    /// Sum of the negative logarithms of their probabilities.
    pub nll: f64,
    /// Sum of the squares.
    pub nll2: f64,
}

impl Perplexity {
    /// Adds a negative logarithm of a probability.
    pub fn add(&mut self, nll: f64) {
        self.count += 1;
        self.nll += nll;
        self.nll2 += nll * nll;
    }

    /// The perplexity so far: the exponential of the mean.
    pub fn value(&self) -> f64 {
        (self.nll / self.count as f64).exp()
    }

    /// The perplexity with its uncertainty.
    pub fn estimate(&self) -> Estimate {
        let count = self.count as f64;
        let (mean, square) = (self.nll / count, self.nll2 / count);
        let variance = square - mean * mean;
        let value = mean.exp();
        let error = if variance > 0.0 { (variance / (count - 1.0)).sqrt() * value } else { 0.0 };
        Estimate { value, error }
    }
}

/// The largest of a row of logits, and the sum of the exponentials relative to it. Exponentials are of single precision, sums of double precision.
pub(crate) fn softmax_sum(logits: &[f32]) -> (f32, f64) {
    let mut max = f32::NEG_INFINITY;
    for &logit in logits {
        max = if logit > max { logit } else { max };
    }
    let mut sum = 0.0_f64;
    for &logit in logits {
        sum += f64::from((logit - max).exp());
    }
    (max, sum)
}

/// The negative logarithm of a token's probability.
fn nll(logits: &[f32], token: Token) -> f64 {
    let (max, sum) = softmax_sum(logits);
    -(f64::from(logit_of(logits, token) - max) - sum.ln())
}

pub(crate) fn logit_of(logits: &[f32], token: Token) -> f32 {
    usize::try_from(token).ok().and_then(|token| logits.get(token)).copied().unwrap_or(f32::NAN)
}

/// The scores of a window's tokens.
pub(crate) fn scores_of(windows: &Windows, window: usize, logits: &[f32]) -> Result<Vec<f64>, Error> {
    let predicted = windows.predicted(window);
    let n_vocab = logits.len() / predicted.len().max(1);
    let score = |i: usize| {
        let row = logits.get(i * n_vocab..(i + 1) * n_vocab).unwrap_or_default();
        nll(row, predicted.get(i).copied().unwrap_or(-1))
    };
    let scores = for_rows(predicted.len(), windows.options().n_threads, score);
    match scores.iter().all(|score| score.is_finite()) {
        true => Ok(scores),
        false => Err(not_finite(window)),
    }
}

pub(crate) fn not_finite(window: usize) -> Error {
    Error::new(ErrorKind::NotFinite, format!("window {window}: the model's scores are not finite numbers"))
}

/// The perplexity of a text. `progress` is called after each window with the number of windows and the result so far, and
/// returns whether to go on.
///
/// # Errors
/// If the engine fails, a score is not finite, or the work is cancelled.
pub fn perplexity(
    engine: &mut dyn Engine,
    windows: &Windows,
    progress: impl FnMut(usize, &Perplexity) -> bool,
) -> Result<Perplexity, Error> {
    perplexity_by(engine, windows, |window, logits| scores_of(windows, window, logits), progress)
}

/// As [`perplexity`](fn@perplexity), with the scores that a function makes of the logits of each window's scored tokens.
///
/// # Errors
/// As there, and those of the function.
pub fn perplexity_by(
    engine: &mut dyn Engine,
    windows: &Windows,
    mut score: impl FnMut(usize, &[f32]) -> Result<Vec<f64>, Error>,
    mut progress: impl FnMut(usize, &Perplexity) -> bool,
) -> Result<Perplexity, Error> {
    engine.prepare(&windows.context(Observe::Nothing))?;
    let mut sum = Perplexity::default();
    for group in windows.groups(0) {
        let mut scores = windows.evaluate(engine, group.clone(), false)?;
        for (i, window) in group.enumerate() {
            let logits = windows.logits(engine, &mut scores, i)?;
            score(window, &logits)?.into_iter().for_each(|nll| sum.add(nll));
            if !progress(window + 1, &sum) {
                return Err(Error::new(ErrorKind::Cancelled, "cancelled"));
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_give_the_size_of_the_vocabulary() {
        let mut sum = Perplexity::default();
        for token in 0..4 {
            sum.add(nll(&[2.5; 4], token));
        }
        assert!((sum.value() - 4.0).abs() < 1e-12);
        assert!(sum.estimate().error < 1e-6);
        // A token outside of the vocabulary has no score.
        assert!(nll(&[2.5; 4], 4).is_nan());
    }
}
