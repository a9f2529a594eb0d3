//! What evaluates a model: a trait, and the values that it takes and returns.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::Error;

/// The id of a token.
pub type Token = i32;

/// A library that evaluates models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Its name, such as `libllama`.
    pub name: String,
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// Its file.
    pub path: PathBuf,
    /// The devices that it can compute on: name and description.
    pub devices: Vec<(String, String)>,
    /// What the process that evaluates cannot do: `network`, `files`.
    pub denied: Vec<String>,
}

/// A loaded model, as the library describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Number of tokens of the vocabulary.
    pub n_vocab: usize,
    /// The token that begins a text, if the vocabulary adds one.
    pub begin: Option<Token>,
    /// A description, such as `llama 8B Q4_K - Medium`.
    pub description: String,
}

/// How a text becomes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Specials {
    /// Whether tokens that the model expects around a text are added, such as the one that begins it.
    pub add: bool,
    /// Whether the names of special tokens in the text stand for these tokens.
    pub parse: bool,
}

/// What is collected from the inputs of matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Observe {
    /// Nothing.
    #[default]
    Nothing,
    /// Sums of squares of each column, for the weights of blocks.
    Blocks,
    /// Sums of squares of each column, for the weights of blocks and of the output, also if it is the token embedding.
    BlocksAndOutput,
}

/// The size of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Tokens of all sequences together.
    pub n_tokens: u32,
    /// Maximum number of tokens that are evaluated by one call.
    pub n_batch: u32,
    /// Maximum number of tokens that are computed at once.
    pub n_ubatch: u32,
    /// Number of sequences.
    pub n_sequences: u32,
    /// Number of threads.
    pub n_threads: u32,
    /// What is collected.
    pub observe: Observe,
}

/// A token to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The token.
    pub token: Token,
    /// Its position in the sequence.
    pub position: u32,
    /// The sequence.
    pub sequence: u32,
    /// Whether the logits after this token are computed.
    pub output: bool,
}

/// Sums of the squared inputs of a weight's columns, and the number of tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sums {
    /// One number for each column, expert after expert.
    pub values: Vec<f32>,
    /// One number for each expert, or one for all.
    pub counts: Vec<i64>,
}

/// The sums of all observed weights, by name.
pub type Observed = BTreeMap<Vec<u8>, Sums>;

/// The numbers of tokens of all observed weights, by name: one number for each expert, or one for all.
pub type Counts = BTreeMap<Vec<u8>, Vec<i64>>;

/// Evaluates models. Errors of a library end the use of the engine only if [`ErrorKind::Died`](crate::ErrorKind::Died).
pub trait Engine {
    /// The library.
    fn about(&self) -> &About;

    /// Loads a model, in place of the previous one. It must have been checked: libraries do not expect invalid files.
    ///
    /// # Errors
    /// If the library refuses it.
    fn load(&mut self, model: &Path) -> Result<Loaded, Error>;

    /// The tokens of a text.
    ///
    /// # Errors
    /// If no model is loaded, or the text is too long.
    fn tokenize(&mut self, text: &[u8], specials: Specials) -> Result<Vec<Token>, Error>;

    /// The text of a token, and whether it ends a generation. Names of special tokens are empty unless `special` is set.
    ///
    /// # Errors
    /// If no model is loaded, or there is no such token.
    fn piece(&mut self, token: Token, special: bool) -> Result<(Vec<u8>, bool), Error>;

    /// Prepares evaluations of this size; sums of earlier observations are dropped.
    ///
    /// # Errors
    /// If no model is loaded, or the library refuses the size.
    fn prepare(&mut self, context: &Context) -> Result<(), Error>;

    /// Forgets all sequences. If a later evaluation is cancelled, sums are those of now.
    ///
    /// # Errors
    /// If nothing is prepared.
    fn clear(&mut self) -> Result<(), Error>;

    /// Evaluates tokens, after those of earlier calls.
    ///
    /// # Errors
    /// If the library cannot.
    fn evaluate(&mut self, items: &[Item]) -> Result<(), Error>;

    /// The logits after items of the last evaluation, row after row. All of them must be outputs.
    ///
    /// # Errors
    /// If the library has not computed them.
    fn logits(&mut self, items: Range<usize>) -> Result<Vec<f32>, Error>;

    /// The numbers of tokens of the sums so far: a few numbers, while the sums of a large mixture of experts take a gigabyte.
    ///
    /// # Errors
    /// If nothing is prepared.
    fn counts(&mut self) -> Result<Counts, Error>;

    /// The sums of all inputs observed so far.
    ///
    /// # Errors
    /// If nothing is prepared.
    fn observed(&mut self) -> Result<Observed, Error>;

    /// Sets the sums to which inputs are added from now on.
    ///
    /// # Errors
    /// If nothing is prepared.
    fn observe_from(&mut self, sums: Observed) -> Result<(), Error>;
}
