//! Importance matrices, computed like `llama-imatrix`.

use gguf_quantize::imatrix::{Entry, Format, Imatrix};

use crate::Error;
use crate::engine::{Counts, Engine, Observe, Observed, Sums};
use crate::perplexity::{Perplexity, scores_of};
use crate::windows::Windows;

/// The measurement of a text, group of windows after group.
pub struct Measurement<'a> {
    engine: &'a mut dyn Engine,
    windows: &'a Windows,
    done: usize,
    perplexity: Perplexity,
}

impl<'a> Measurement<'a> {
    /// Begins at the window `done`, with the sums and the perplexity before it: those of earlier texts, or of an interrupted run.
    ///
    /// # Errors
    /// If the engine refuses the size.
    pub fn new(
        engine: &'a mut dyn Engine,
        windows: &'a Windows,
        observe: Observe,
        done: usize,
        sums: Observed,
        perplexity: Perplexity,
    ) -> Result<Measurement<'a>, Error> {
        engine.prepare(&windows.context(observe))?;
        engine.observe_from(sums)?;
        Ok(Measurement { engine, windows, done, perplexity })
    }

    /// Evaluates the next group of windows, and returns `false` if all are evaluated. `each` gets the number of windows and the perplexity after
    /// each of them.
    ///
    /// # Errors
    /// If the engine fails, or an input or a score is not finite.
    pub fn next_group(&mut self, mut each: impl FnMut(usize, &Perplexity)) -> Result<bool, Error> {
        let Some(group) = self.windows.groups(self.done).next() else { return Ok(false) };
        // All outputs, because otherwise the last block would see the inputs of some tokens only.
        let mut scores = self.windows.evaluate(self.engine, group.clone(), true)?;
        for (i, window) in group.enumerate() {
            let logits = self.windows.logits(self.engine, &mut scores, i)?;
            scores_of(self.windows, window, &logits)?.into_iter().for_each(|nll| self.perplexity.add(nll));
            self.done = window + 1;
            each(self.done, &self.perplexity);
        }
        Ok(true)
    }

    /// The number of finished windows.
    pub fn done(&self) -> usize {
        self.done
    }

    /// The perplexity of the text so far.
    pub fn perplexity(&self) -> &Perplexity {
        &self.perplexity
    }

    /// The numbers of tokens so far.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn counts(&mut self) -> Result<Counts, Error> {
        self.engine.counts()
    }

    /// The sums so far.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn sums(&mut self) -> Result<Observed, Error> {
        self.engine.observed()
    }
}

impl std::fmt::Debug for Measurement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measurement")
            .field("done", &self.done)
            .field("perplexity", &self.perplexity)
            .finish_non_exhaustive()
    }
}

/// The matrix of sums. `chunk_size` are the tokens of a window.
pub fn matrix_of(observed: &Observed, datasets: Vec<Vec<u8>>, chunk_size: u32) -> Imatrix {
    let most = observed.values().flat_map(|sums| &sums.counts).copied().max().unwrap_or(0);
    let chunk_count = u32::try_from(most / i64::from(chunk_size.max(1))).unwrap_or(u32::MAX);
    let entry = |sums: &Sums| Entry { sums: sums.values.clone(), counts: sums.counts.clone() };
    let entries = observed.iter().map(|(name, sums)| (name.clone(), entry(sums))).collect();
    Imatrix { format: Format::Gguf, entries, datasets, chunk_count, chunk_size }
}

/// The sums of a matrix in the current format.
pub fn observed_of(matrix: &Imatrix) -> Observed {
    let sums = |entry: &Entry| Sums { values: entry.sums.clone(), counts: entry.counts.clone() };
    matrix.entries.iter().map(|(name, entry)| (name.clone(), sums(entry))).collect()
}

/// An expert and its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertTokens {
    /// The weight.
    pub name: Vec<u8>,
    /// The expert.
    pub expert: usize,
    /// Its tokens.
    pub tokens: i64,
}

/// The numbers of tokens of sums.
pub fn counts_of(observed: &Observed) -> Counts {
    observed.iter().map(|(name, sums)| (name.clone(), sums.counts.clone())).collect()
}

/// The experts with fewer tokens than `minimum`, of all weights of experts.
pub fn experts_below(counts: &Counts, minimum: i64) -> Vec<ExpertTokens> {
    let of_experts = counts.iter().filter(|(_, counts)| counts.len() > 1);
    let each = of_experts.flat_map(|(name, counts)| {
        let below = counts.iter().enumerate().filter(move |(_, tokens)| **tokens < minimum);
        below.map(|(expert, &tokens)| ExpertTokens { name: name.clone(), expert, tokens })
    });
    each.collect()
}
