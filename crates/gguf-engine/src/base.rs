//! Files of a base model's probabilities, which `llama-perplexity --kl-divergence-base` writes: `_logits_`, the numbers of tokens in a window, in the
//! vocabulary, and of windows, the tokens, and for each scored token a step, a least logarithm and 16 bits for each token of the vocabulary.
//!
//! Probabilities whose logarithm is more than 16 below the largest one are raised to that, so perplexities computed from such a file are too low.

use std::io::{BufReader, Read, Write};

use crate::divergence::BaseRow;
use crate::engine::{Loaded, Token};
use crate::perplexity::{logit_of, softmax_sum};
use crate::windows::{Windows, for_rows};
use crate::{Error, ErrorKind, WindowOptions};

/// The start of a file.
const MAGIC: &[u8; 8] = b"_logits_";

/// The most tokens in all windows: more than 2 GiB of them are a mistake.
const MOST_TOKENS: u64 = 1 << 29;

/// Logarithms further below the largest than this are raised.
const RANGE: f32 = 16.0;

/// The numbers of a row: a step and a least logarithm, which take the place of four, and an even number for the vocabulary.
fn row_len(n_vocab: usize) -> usize {
    4 + n_vocab.next_multiple_of(2)
}

fn base_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Base, message)
}

/// Writes a file.
#[derive(Debug)]
pub struct BaseWriter<W> {
    out: W,
    n_vocab: usize,
}

impl<W: Write> BaseWriter<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// If a number does not fit the format, or `out` fails.
    pub fn new(mut out: W, windows: &Windows, n_vocab: usize) -> Result<BaseWriter<W>, Error> {
        out.write_all(MAGIC)?;
        for n in [windows.n_ctx(), n_vocab, windows.len()] {
            let n = i32::try_from(n).map_err(|_| base_error("a number is too large for the format"))?;
            out.write_all(&n.to_le_bytes())?;
        }
        for token in windows.tokens() {
            out.write_all(&token.to_le_bytes())?;
        }
        Ok(BaseWriter { out, n_vocab })
    }

    /// Writes the rows of a window, and returns the negative logarithms of the probabilities of its tokens.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn window(&mut self, windows: &Windows, window: usize, logits: &[f32]) -> Result<Vec<f64>, Error> {
        let predicted = windows.predicted(window);
        let n_vocab = self.n_vocab;
        let row = |i: usize| {
            let row = logits.get(i * n_vocab..(i + 1) * n_vocab).unwrap_or_default();
            encode(row, predicted.get(i).copied().unwrap_or(-1))
        };
        let rows = for_rows(predicted.len(), windows.options().n_threads, row);
        for (bytes, _) in &rows {
            self.out.write_all(bytes)?;
        }
        Ok(rows.into_iter().map(|(_, nll)| nll).collect())
    }

    /// Returns the output.
    pub fn finish(self) -> W {
        self.out
    }
}

/// The bytes of a row, and the negative logarithm of a token's probability.
fn encode(logits: &[f32], token: Token) -> (Vec<u8>, f64) {
    let (max, sum) = softmax_sum(logits);
    let least = logits.iter().copied().fold(f32::INFINITY, |a, b| if b < a { b } else { a });
    let least = if least < max - RANGE { max - RANGE } else { least };
    #[allow(clippy::cast_possible_truncation, reason = "single precision, as there")]
    let log_sum = sum.ln() as f32;
    let scale = (max - least) / 65535.0;
    let mut bytes = Vec::with_capacity(2 * row_len(logits.len()));
    bytes.extend(scale.to_le_bytes());
    bytes.extend((least - max - log_sum).to_le_bytes());
    let inverse = 1.0 / scale;
    for &logit in logits {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 65535")]
        let step = if scale != 0.0 && logit > least { (inverse * (logit - least)).round_ties_even() as u16 } else { 0 };
        bytes.extend(step.to_le_bytes());
    }
    bytes.resize(2 * row_len(logits.len()), 0);
    (bytes, f64::from(max + log_sum - logit_of(logits, token)))
}

/// Reads a file, window after window.
#[derive(Debug)]
pub struct BaseFile<R> {
    from: BufReader<R>,
    n_ctx: u32,
    n_vocab: usize,
    n_windows: usize,
    tokens: Vec<Token>,
    /// The last window that was read.
    rows: Vec<u8>,
}

impl<R: Read> BaseFile<R> {
    /// Reads the head of a file of `bytes` bytes.
    ///
    /// # Errors
    /// If it is another kind of file, or truncated.
    pub fn new(from: R, bytes: u64) -> Result<BaseFile<R>, Error> {
        let mut from = BufReader::with_capacity(1 << 16, from);
        let mut magic = [0; 8];
        let read = from.read_exact(&mut magic);
        if read.is_err() || magic != *MAGIC {
            return Err(base_error("not a file of base probabilities: it does not start with _logits_"));
        }
        let mut number = |what: &str| -> Result<u64, Error> {
            let mut n = [0; 4];
            from.read_exact(&mut n).map_err(|_| base_error("the file ends in its head"))?;
            match i32::from_le_bytes(n) {
                n @ 1.. => Ok(u64::from(n.unsigned_abs())),
                n => Err(base_error(format!("the number of {what} is {n}; expected a positive number"))),
            }
        };
        let (n_ctx, n_vocab, n_windows) =
            (number("tokens in a window")?, number("tokens of the vocabulary")?, number("windows")?);
        let n_tokens = n_ctx.checked_mul(n_windows).filter(|&n| n <= MOST_TOKENS);
        let n_scored = (n_ctx - 1).saturating_sub(n_ctx / 2);
        let row = 2 * (4 + n_vocab.next_multiple_of(2));
        let need = n_tokens.and_then(|n| {
            let rows = n_windows.checked_mul(n_scored)?.checked_mul(row)?;
            rows.checked_add(4 * n + 20)
        });
        match need {
            Some(need) if need <= bytes && n_scored > 0 => {}
            Some(need) if n_scored > 0 => {
                return Err(base_error(format!("the file has {bytes} bytes; expected {need} for its numbers")));
            }
            _ => return Err(base_error(format!("{n_windows} windows of {n_ctx} tokens cannot be scored"))),
        }
        let mut tokens = vec![0_u8; usize::try_from(4 * n_tokens.unwrap_or(0)).unwrap_or(0)];
        from.read_exact(&mut tokens).map_err(|_| base_error("the file ends in its tokens"))?;
        let tokens: Vec<Token> = tokens.as_chunks::<4>().0.iter().map(|word| Token::from_le_bytes(*word)).collect();
        let [n_vocab, n_windows] = [n_vocab, n_windows].map(|n| usize::try_from(n).unwrap_or(0));
        if let Some(token) = tokens.iter().find(|token| !usize::try_from(**token).is_ok_and(|token| token < n_vocab)) {
            return Err(base_error(format!("it has the token {token}, but a vocabulary of {n_vocab} tokens")));
        }
        Ok(BaseFile { from, n_ctx: u32::try_from(n_ctx).unwrap_or(0), n_vocab, n_windows, tokens, rows: Vec::new() })
    }

    /// The number of tokens of the vocabulary.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// The number of windows.
    pub fn n_windows(&self) -> usize {
        self.n_windows
    }

    /// Tokens of a window.
    pub fn n_ctx(&self) -> u32 {
        self.n_ctx
    }

    /// Its windows, for a model. The number of tokens of a window is that of the file.
    ///
    /// # Errors
    /// If the model has another vocabulary.
    pub fn windows(&self, loaded: &Loaded, options: WindowOptions) -> Result<Windows, Error> {
        if loaded.n_vocab != self.n_vocab {
            let (found, expected) = (loaded.n_vocab, self.n_vocab);
            let message = format!(
                "the model has a vocabulary of {found} tokens, but the base probabilities are those of {expected}"
            );
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
        let options = WindowOptions { n_ctx: self.n_ctx, ..options };
        Windows::with_minimum(self.tokens.clone(), loaded, options, 1)
    }

    /// Reads the next window.
    ///
    /// # Errors
    /// If the file ends early.
    pub fn read_window(&mut self, windows: &Windows) -> Result<(), Error> {
        self.rows.resize(windows.n_scored() * 2 * row_len(self.n_vocab), 0);
        self.from.read_exact(&mut self.rows).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => base_error("the file ends in its probabilities"),
            _ => e.into(),
        })
    }

    /// The steps of the window that was read, as numbers.
    pub fn rows(&self) -> StoredRows {
        let words = self.rows.as_chunks::<2>().0.iter().map(|word| u16::from_le_bytes(*word)).collect();
        StoredRows { words, n_vocab: self.n_vocab }
    }
}

/// The rows of a window of a file.
#[derive(Debug)]
pub struct StoredRows {
    words: Vec<u16>,
    n_vocab: usize,
}

impl StoredRows {
    /// The probabilities after a scored token.
    pub fn row(&self, i: usize) -> BaseRow<'_> {
        let length = row_len(self.n_vocab);
        let row = self.words.get(i * length..(i + 1) * length).unwrap_or_default();
        let float = |at: usize| match row.get(at..at + 2) {
            Some([low, high]) => f32::from_bits(u32::from(*low) | u32::from(*high) << 16),
            _ => f32::NAN,
        };
        BaseRow::Stored { scale: float(0), least: float(2), steps: row.get(4..4 + self.n_vocab).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_that_were_written() {
        let loaded = Loaded { n_vocab: 3, ..Loaded::default() };
        let options = WindowOptions { n_ctx: 4, ..WindowOptions::default() };
        let windows = Windows::new(vec![0, 1, 2, 0, 2, 2, 1, 0], &loaded, options).unwrap();
        let mut writer = BaseWriter::new(Vec::new(), &windows, 3).unwrap();
        let nll = writer.window(&windows, 0, &[0.0, 3.0, -60.0]).unwrap();
        writer.window(&windows, 1, &[1.0, 1.0, 1.0]).unwrap();
        let bytes = writer.finish();
        assert_eq!(bytes.len(), 20 + 32 + 2 * 2 * (4 + 4));
        let mut file = BaseFile::new(bytes.as_slice(), bytes.len() as u64).unwrap();
        assert_eq!(file.windows(&loaded, options).unwrap().tokens(), windows.tokens());
        file.read_window(&windows).unwrap();
        let rows = file.rows();
        let BaseRow::Stored { scale, least, steps } = rows.row(0) else { panic!() };
        // The last token is raised to 16 below the first.
        assert_eq!(steps, [53247, 65535, 0]);
        assert!((scale * 65535.0 - 16.0).abs() < 1e-4 && (f64::from(-(scale * 53247.0 + least)) - nll[0]).abs() < 1e-3);
        file.read_window(&windows).unwrap();
        let rows = file.rows();
        let BaseRow::Stored { scale, steps, .. } = rows.row(0) else { panic!() };
        assert!(scale == 0.0 && steps == [0, 0, 0]);

        // Every prefix is refused, or its end is noticed.
        for length in 0..bytes.len() {
            assert!(BaseFile::new(&bytes[..length], length as u64).is_err(), "{length}");
        }
        let mut other = bytes.clone();
        other[12] = 2;
        let e = BaseFile::new(other.as_slice(), bytes.len() as u64).unwrap_err();
        assert!(e.message().contains("vocabulary of 2"), "{e}");
        let e = file.windows(&Loaded { n_vocab: 4, ..loaded }, options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Mismatch);
    }
}
