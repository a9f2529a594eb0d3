//! A text in windows of equal length, evaluated in batches as llama.cpp's tools do (`compute_imatrix` in `tools/imatrix/imatrix.cpp`,
//! `perplexity` in `tools/perplexity/perplexity.cpp`).
//!
//! As many windows as fit a batch are evaluated together, each as a sequence of its own. The first token of each is replaced by the one that begins a text, if the
//! vocabulary has one. The second half of a window is scored: each token but the last predicts the next.

use std::ops::Range;

use crate::engine::{Context, Engine, Item, Loaded, Observe, Token};
use crate::{Error, ErrorKind};

/// The size of windows and batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowOptions {
    /// Tokens of a window.
    pub n_ctx: u32,
    /// Maximum number of tokens that are evaluated by one call.
    pub n_batch: u32,
    /// Maximum number of tokens that are computed at once.
    pub n_ubatch: u32,
    /// Number of windows that are skipped at the start.
    pub skip: usize,
    /// Maximum number of windows; `None` for all.
    pub chunks: Option<usize>,
    /// Number of threads, both of the library and of the scores.
    pub n_threads: u32,
}

impl Default for WindowOptions {
    /// The defaults of llama.cpp's tools.
    fn default() -> WindowOptions {
        WindowOptions { n_ctx: 512, n_batch: 2048, n_ubatch: 512, skip: 0, chunks: None, n_threads: 4 }
    }
}

/// The windows of a text.
#[derive(Debug, Clone)]
pub struct Windows {
    tokens: Vec<Token>,
    begin: Option<Token>,
    options: WindowOptions,
    n_windows: usize,
}

/// The scores of a group of windows that was evaluated last.
#[derive(Debug)]
pub enum Scores {
    /// They are in the engine.
    InEngine,
    /// Logits of the scored tokens of the only window.
    Held(Vec<f32>),
}

impl Windows {
    /// Cuts tokens into windows; a shorter rest is left out.
    ///
    /// # Errors
    /// If there are fewer than two windows.
    pub fn new(tokens: Vec<Token>, loaded: &Loaded, options: WindowOptions) -> Result<Windows, Error> {
        Windows::with_minimum(tokens, loaded, options, 2)
    }

    /// As [`new`](Windows::new), with another minimum number of windows.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn with_minimum(
        mut tokens: Vec<Token>,
        loaded: &Loaded,
        options: WindowOptions,
        minimum: usize,
    ) -> Result<Windows, Error> {
        let n_ctx = options.n_ctx as usize;
        let skipped = options.skip.saturating_mul(n_ctx);
        let left = tokens.len().saturating_sub(skipped);
        if n_ctx < 4 || left < n_ctx.saturating_mul(minimum.max(1)) {
            let after = if skipped > 0 { " after the skipped ones" } else { "" };
            let message =
                format!("the text has {left} tokens{after}; expected at least {minimum} windows of {n_ctx} tokens");
            return Err(Error::new(ErrorKind::Text, message));
        }
        tokens.drain(..skipped);
        let n_all = tokens.len() / n_ctx;
        let n_windows = options.chunks.map_or(n_all, |n| n.min(n_all));
        Ok(Windows { tokens, begin: loaded.begin, options, n_windows })
    }

    /// The number of windows to evaluate.
    pub fn len(&self) -> usize {
        self.n_windows
    }

    /// Whether there is nothing to evaluate.
    pub fn is_empty(&self) -> bool {
        self.n_windows == 0
    }

    /// The number of windows of the text, without the limit of the options.
    pub fn n_all(&self) -> usize {
        self.tokens.len() / self.n_ctx()
    }

    /// Tokens of a window.
    pub fn n_ctx(&self) -> usize {
        self.options.n_ctx as usize
    }

    /// The options.
    pub fn options(&self) -> &WindowOptions {
        &self.options
    }

    /// The tokens of all windows, before the first of each is replaced.
    pub fn tokens(&self) -> &[Token] {
        self.tokens.get(..self.n_windows * self.n_ctx()).unwrap_or_default()
    }

    /// Windows that are evaluated together.
    pub fn group_len(&self) -> usize {
        (self.options.n_batch / self.options.n_ctx).max(1) as usize
    }

    /// Groups of windows that are evaluated together, from the window `first` on.
    pub fn groups(&self, first: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (step, end) = (self.group_len(), self.n_windows);
        (first..end).step_by(step).map(move |start| start..(start + step).min(end))
    }

    /// The size of the evaluation.
    pub fn context(&self, observe: Observe) -> Context {
        let n_sequences = u32::try_from(self.group_len()).unwrap_or(1);
        let n_tokens = n_sequences.saturating_mul(self.options.n_ctx);
        Context {
            n_tokens,
            n_batch: self.options.n_batch.min(n_tokens),
            n_ubatch: self.options.n_ubatch,
            n_sequences,
            n_threads: self.options.n_threads,
            observe,
        }
    }

    /// The position of the first scored token.
    fn first(&self) -> usize {
        self.n_ctx() / 2
    }

    /// The number of scored tokens of a window.
    pub fn n_scored(&self) -> usize {
        self.n_ctx() - 1 - self.first()
    }

    /// The tokens that the scored ones of a window should predict.
    pub fn predicted(&self, window: usize) -> &[Token] {
        let start = window * self.n_ctx();
        self.tokens.get(start + self.first() + 1..start + self.n_ctx()).unwrap_or_default()
    }

    /// Evaluates a group. With `all_outputs`, logits of all tokens are computed, and thereby all inputs of the last block.
    ///
    /// # Errors
    /// If the engine cannot.
    pub fn evaluate(&self, engine: &mut dyn Engine, group: Range<usize>, all_outputs: bool) -> Result<Scores, Error> {
        engine.clear()?;
        let n_ctx = self.n_ctx();
        let scored = self.first()..n_ctx - 1;
        let step = (self.options.n_batch as usize).min(n_ctx);
        let mut held = Vec::new();
        for start in (0..n_ctx).step_by(step) {
            let positions = start..(start + step).min(n_ctx);
            let mut items = Vec::with_capacity(group.len() * positions.len());
            for (window, sequence) in group.clone().zip(0..) {
                let tokens = self.tokens.get(window * n_ctx..(window + 1) * n_ctx).unwrap_or_default();
                for (i, &token) in tokens.iter().enumerate().take(positions.end).skip(positions.start) {
                    items.push(Item {
                        token: self.begin.filter(|_| i == 0).unwrap_or(token),
                        position: u32::try_from(i).unwrap_or(u32::MAX),
                        sequence,
                        output: all_outputs || i >= self.first(),
                    });
                }
            }
            engine.evaluate(&items)?;
            if step < n_ctx {
                let (from, to) = (scored.start.max(positions.start), scored.end.min(positions.end));
                if from < to {
                    held.extend(engine.logits(from - positions.start..to - positions.start)?);
                }
            }
        }
        Ok(if step < n_ctx { Scores::Held(held) } else { Scores::InEngine })
    }

    /// The logits of the scored tokens of one window of the last group, by its number in the group.
    ///
    /// # Errors
    /// If the engine cannot return them.
    pub fn logits(&self, engine: &mut dyn Engine, scores: &mut Scores, in_group: usize) -> Result<Vec<f32>, Error> {
        match scores {
            Scores::Held(logits) => Ok(std::mem::take(logits)),
            Scores::InEngine => {
                let start = in_group * self.n_ctx() + self.first();
                engine.logits(start..start + self.n_scored())
            }
        }
    }
}

/// Applies a function to the rows of a window, on several threads, and returns the results in order.
pub(crate) fn for_rows<T: Send>(n_rows: usize, n_threads: u32, score: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let each = n_rows.div_ceil(n_threads.max(1) as usize).max(1);
    std::thread::scope(|scope| {
        let score = &score;
        let ranges = (0..n_rows).step_by(each).map(|start| start..(start + each).min(n_rows));
        let threads: Vec<_> = ranges.map(|rows| scope.spawn(move || rows.map(score).collect::<Vec<T>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_refused() {
        let refused = |skip: usize| {
            let options = WindowOptions { n_ctx: 8, n_batch: 8, skip, ..WindowOptions::default() };
            Windows::new(vec![1; 20], &Loaded::default(), options).unwrap_err().to_string()
        };
        assert_eq!(
            refused(1),
            "the text has 12 tokens after the skipped ones; expected at least 2 windows of 8 tokens"
        );
    }
}
