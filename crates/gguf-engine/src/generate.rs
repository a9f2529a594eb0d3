//! Generation of text, token by token.

use crate::engine::{Context, Engine, Item, Observe, Token};
use crate::perplexity::softmax_sum;
use crate::{Error, ErrorKind};

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choose {
    /// The most probable token, the first of equal ones.
    Greedy,
    /// A random token by its probability at a temperature. A seed determines the choices.
    Sample {
        /// Logits are divided by it.
        temperature: f32,
        /// The seed.
        seed: u64,
    },
}

/// Options of a generation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerateOptions {
    /// Maximum number of generated tokens.
    pub n_tokens: usize,
    /// How tokens are chosen.
    pub choose: Choose,
    /// Number of threads.
    pub n_threads: u32,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The model ended it.
    ByModel,
    /// The maximum number of tokens is reached.
    AtMaximum,
}

/// Generates text after the tokens of a prompt. `each` gets the bytes of each token, which may be a part of a character, and returns whether to go on.
///
/// # Errors
/// If the prompt is empty, the engine fails, scores are not finite, or the work is cancelled.
pub fn generate(
    engine: &mut dyn Engine,
    prompt: &[Token],
    options: &GenerateOptions,
    mut each: impl FnMut(Token, &[u8]) -> bool,
) -> Result<Ended, Error> {
    const BATCH: usize = 512;
    if prompt.is_empty() {
        return Err(Error::new(ErrorKind::Text, "the prompt is empty, and the model has no token that begins a text"));
    }
    let n_tokens = u32::try_from(prompt.len() + options.n_tokens);
    let n_tokens = n_tokens.map_err(|_| Error::new(ErrorKind::Text, "the prompt is too long"))?;
    engine.prepare(&Context {
        n_tokens: n_tokens.max(256),
        n_batch: u32::try_from(BATCH).unwrap_or(512).min(n_tokens.max(256)),
        n_ubatch: 512,
        n_sequences: 1,
        n_threads: options.n_threads,
        observe: Observe::Nothing,
    })?;
    engine.clear()?;
    let mut position = 0;
    let step = BATCH.min(n_tokens.max(256) as usize);
    let mut last = 0;
    for part in prompt.chunks(step) {
        let is_end = position as usize + part.len() == prompt.len();
        let items: Vec<Item> = part
            .iter()
            .zip(position..)
            .enumerate()
            .map(|(i, (&token, position))| Item { token, position, sequence: 0, output: is_end && i + 1 == part.len() })
            .collect();
        engine.evaluate(&items)?;
        position += u32::try_from(part.len()).unwrap_or(0);
        last = part.len() - 1;
    }
    let mut random = Random(match options.choose {
        Choose::Greedy => 0,
        Choose::Sample { seed, .. } => seed,
    });
    for n in 0..options.n_tokens {
        let logits = engine.logits(last..last + 1)?;
        let token = choose(&logits, options.choose, &mut random)?;
        let (bytes, ends) = engine.piece(token, false)?;
        if ends {
            return Ok(Ended::ByModel);
        }
        if !each(token, &bytes) {
            return Err(Error::new(ErrorKind::Cancelled, "cancelled"));
        }
        if n + 1 < options.n_tokens {
            engine.evaluate(&[Item { token, position, sequence: 0, output: true }])?;
            position += 1;
            last = 0;
        }
    }
    Ok(Ended::AtMaximum)
}

fn choose(logits: &[f32], how: Choose, random: &mut Random) -> Result<Token, Error> {
    let token = |i: usize| Token::try_from(i).unwrap_or(0);
    let best = logits.iter().enumerate().fold(None, |best: Option<(usize, f32)>, (i, &logit)| match best {
        Some((_, most)) if logit <= most || logit.is_nan() => best,
        None if logit.is_nan() => best,
        _ => Some((i, logit)),
    });
    let Some((best, _)) = best.filter(|(_, most)| most.is_finite()) else {
        return Err(Error::new(ErrorKind::NotFinite, "the model's scores are not finite numbers"));
    };
    let Choose::Sample { temperature, .. } = how else { return Ok(token(best)) };
    let scaled: Vec<f32> = logits.iter().map(|logit| logit / temperature).collect();
    let (max, sum) = softmax_sum(&scaled);
    let mut left = random.fraction() * sum;
    for (i, logit) in scaled.iter().enumerate() {
        left -= f64::from((logit - max).exp());
        if left < 0.0 {
            return Ok(token(i));
        }
    }
    Ok(token(best))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// A number from 0 to 1, without 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_best_tokens_is_chosen() {
        let mut random = Random(1);
        let mut greedy = |logits: &[f32]| choose(logits, Choose::Greedy, &mut random);
        assert_eq!(greedy(&[0.0, 3.0, f32::NEG_INFINITY, 3.0]).unwrap(), 1);
        assert_eq!(greedy(&[f32::NAN, -1.0]).unwrap(), 1);
        assert!(greedy(&[f32::NAN]).is_err());
        assert!(greedy(&[f32::INFINITY, 1.0]).is_err());
    }

    #[test]
    fn samples_have_the_given_probabilities() {
        let how = Choose::Sample { temperature: 0.5, seed: 7 };
        let mut random = Random(7);
        let logits = [0.0, 0.5 * 3_f32.ln(), f32::NEG_INFINITY];
        let mut counts = [0_i32; 3];
        for _ in 0..10_000 {
            counts[choose(&logits, how, &mut random).unwrap() as usize] += 1;
        }
        assert!((counts[0] - 2500).abs() < 150 && counts[2] == 0, "{counts:?}");
    }
}
