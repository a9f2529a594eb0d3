//! Importance matrices: how much each column of a weight matters, measured by `llama-imatrix` on some text.
//!
//! There are two formats. The present one is a GGUF file with two tensors for each weight: the sums of the squared
//! activations (`NAME.in_sum2`, a row for each expert) and how many tokens were seen (`NAME.counts`). The old one, `.dat`,
//! holds mean squares, times the number of chunks, and one count for all experts.
//!
//! [`ImatrixFile`] opens either. It reads names, sizes and counts; values stay in the file until they are asked for, as the
//! matrices of models with many experts take a gigabyte. [`ImatrixFile::weights`] gives the numbers that a quantizer works
//! with. [`Imatrix`] holds everything in memory, for [merging](Merge), converting and writing. [`check`](fn@check) says what
//! a matrix covers of a model, before any work is done with it.
//!
//! The rules are those of `tools/imatrix/imatrix.cpp`, `common/imatrix-loader.cpp` and `tools/quantize/quantize.cpp` in
//! llama.cpp, down to the order of float operations.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use gguf_format::keys;
use gguf_format::{GgmlType, LayoutError, SizeError, Str, Value};

mod check;
mod merge;
mod read;
mod statistics;
mod write;

pub use check::{RULES, Use, check};
pub use merge::Merge;
pub use read::{EntryInfo, ImatrixFile, MAX_COUNTS, MAX_ENTRIES, MAX_NAME, MAX_TEXTS, MAX_VALUES, Values};
pub use statistics::{Statistics, in_previous_block};

/// The chunk size that `llama-imatrix` assumes when none is given (its context size).
pub const DEFAULT_CHUNK_SIZE: u32 = 512;

/// How a matrix is stored, and with it what its numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A GGUF file: sums of squares, and tokens for each expert.
    Gguf,
    /// A `.dat` file: mean squares times the number of chunks, and that number.
    Legacy,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Gguf => "gguf",
            Format::Legacy => "dat",
        })
    }
}

/// What is stored for one weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// One number for each column, expert after expert.
    pub sums: Vec<f32>,
    /// One number for each expert, or one for all; never empty, and the number of sums is a multiple of their number.
    pub counts: Vec<i64>,
}

/// An importance matrix in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Imatrix {
    /// What the numbers are.
    pub format: Format,
    /// The entries, by name of the weight.
    pub entries: BTreeMap<Vec<u8>, Entry>,
    /// The texts it was measured on.
    pub datasets: Vec<Vec<u8>>,
    /// Chunks of text it was measured on.
    pub chunk_count: u32,
    /// Tokens of a chunk; 0 in the old format, which does not say.
    pub chunk_size: u32,
}

/// The weights that a quantizer gives the columns, for values from number `first` of an entry on; `sums` comes in and
/// weights go out (`load_imatrix` in `tools/quantize/quantize.cpp`).
fn normalise(format: Format, counts: &[i64], n_values: u64, first: u64, sums: &mut [f32]) {
    let per_count = n_values.checked_div(counts.len() as u64).unwrap_or(0).max(1);
    for (i, value) in (first..).zip(sums) {
        let count = match format {
            Format::Gguf => usize::try_from(i / per_count).ok().and_then(|j| counts.get(j)),
            Format::Legacy => counts.first(),
        };
        let count = count.copied().unwrap_or(0);
        match format {
            _ if count > 0 => *value /= count as f32,
            // An expert that was never used: all columns count the same.
            Format::Gguf => *value = 1.0,
            Format::Legacy => {}
        }
    }
}

/// What `llama-quantize` notes in the file about the matrix it used (`prepare_imatrix` and `main` in
/// `tools/quantize/quantize.cpp`): the path as it was given, the first text, how many entries were used, and the number of
/// chunks when it is known. Texts are cut at 127 bytes, as there.
pub fn provenance(path: &str, matrix: &ImatrixFile) -> Vec<(&'static str, Value)> {
    const LONGEST: usize = 127;
    // A text ends at its first NUL there.
    let cut = |text: &[u8]| {
        let text = text.split(|&b| b == 0).next().unwrap_or_default();
        Value::String(text.get(..LONGEST).unwrap_or(text).to_vec())
    };
    let n_entries = u32::try_from(matrix.n_entries()).unwrap_or(u32::MAX);
    let mut kvs = vec![(keys::QUANTIZE_IMATRIX_FILE, cut(path.as_bytes()))];
    kvs.extend(matrix.datasets().first().map(|text| (keys::QUANTIZE_IMATRIX_DATASET, cut(text))));
    kvs.push((keys::QUANTIZE_IMATRIX_ENTRIES_COUNT, n_entries.into()));
    if matrix.chunk_count() > 0 {
        kvs.push((keys::QUANTIZE_IMATRIX_CHUNKS_COUNT, matrix.chunk_count().into()));
    }
    kvs
}

impl gguf_pipeline::Importance for ImatrixFile {
    fn weights(&self, entry: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, gguf_pipeline::Error> {
        self.weights_of(entry, columns).map_err(|e| match (e.problem, e.path) {
            (Problem::Io(source), Some(path)) => gguf_pipeline::Error::Io { action: "read", path, source },
            (problem, path) => gguf_pipeline::Error::Importance(Box::new(Error { problem, path, entry: e.entry })),
        })
    }
}

/// Why a matrix cannot be read, merged or written. A message includes that of its cause.
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// The file, if it is one.
    pub path: Option<PathBuf>,
    /// The entry, if it is about one; safe to print.
    pub entry: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a matrix.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refused.
    Io(io::Error),
    /// The head of a GGUF file cannot be read.
    Head(Box<gguf_format::Error>),
    /// It is a file of another kind, of which this is the reason to believe so.
    NotAMatrix(&'static str),
    /// The file ends too early.
    Truncated {
        /// Bytes it should have at least.
        need: u64,
        /// Bytes it has.
        have: u64,
    },
    /// A length or number of the old format is negative or zero.
    Number {
        /// What it is the number of.
        what: &'static str,
        /// The byte at which it stands.
        at: u64,
        /// The number.
        found: i32,
    },
    /// Duplicate entry.
    Twice,
    /// One of the two tensors of an entry is missing; this one.
    Missing(&'static str),
    /// A tensor of the entry is not of type F32.
    Type {
        /// The tensor; safe to print.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// The size of a tensor of the entry is not known.
    Size {
        /// The tensor; safe to print.
        tensor: String,
        /// Why.
        source: SizeError,
    },
    /// Tensors lie on top of each other.
    Shared,
    /// The number of sums is not a multiple of the number of counts.
    Sizes {
        /// Number of sums.
        sums: u64,
        /// Number of counts.
        counts: u64,
    },
    /// An invalid count.
    Count(f32),
    /// A key that should hold an unsigned number.
    Key(&'static str),
    /// A value that is infinite or not a number.
    NotFinite {
        /// The number of the value, from 0.
        index: u64,
        /// The value.
        value: f32,
    },
    /// A value below zero, which sums of squares never are.
    Negative {
        /// The number of the value, from 0.
        index: u64,
        /// The value.
        value: f32,
    },
    /// There are no entries to write, or none for which anything was measured.
    Nothing,
    /// Files that are merged have entries of different sizes.
    Mismatch {
        /// What differs: `sums` or `counts`.
        what: &'static str,
        /// How many there were before.
        before: usize,
        /// How many there are in this file.
        now: usize,
    },
    /// There is more of something than a matrix has.
    TooMany {
        /// Of what, in plural.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// The most that are read.
        max: u64,
    },
    /// It does not fit into memory.
    OutOfMemory {
        /// Bytes of the part that does not.
        bytes: u64,
    },
    /// A number is too large for the format.
    TooLarge,
    /// A chunk size of 0.
    NoChunkSize,
    /// The file cannot be written like that.
    Layout(LayoutError),
}

impl Error {
    /// Whether the matrix is the cause, as opposed to the system.
    pub fn is_bad_file(&self) -> bool {
        !matches!(self.problem, Problem::Io(_) | Problem::OutOfMemory { .. })
    }

    fn new(problem: Problem) -> Error {
        Error { path: None, entry: None, problem }
    }

    fn at(mut self, path: Option<&Path>) -> Error {
        self.path = path.map(Path::to_owned);
        self
    }

    fn of(mut self, name: &[u8]) -> Error {
        self.entry = Some(gguf_format::check::shown(Str(name)));
        self
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::new(problem)
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::new(Problem::Io(e))
    }
}

impl From<LayoutError> for Error {
    fn from(e: LayoutError) -> Error {
        Error::new(Problem::Layout(e))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(entry) = &self.entry {
            write!(f, "the entry {entry}: ")?;
        }
        fmt::Display::fmt(&self.problem, f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(e) => write!(f, "{e}"),
            Problem::Head(e) => write!(f, "{e}"),
            Problem::NotAMatrix(why) => {
                write!(f, "not an importance matrix: {why}; give the file that llama-imatrix wrote")
            }
            Problem::Truncated { need, have } => {
                write!(f, "the file has {have} bytes and should have at least {need}; fetch or make it again")
            }
            Problem::Number { what, at, found } => {
                write!(f, "byte {at}: the {what} is {found}; it can only be a positive number")
            }
            Problem::Twice => f.write_str("duplicate entry"),
            Problem::Missing(what) => write!(f, "its {what} are missing; each weight has a .in_sum2 and a .counts"),
            Problem::Type { tensor, ty } => write!(f, "the tensor {tensor} is of type {ty}, expected f32"),
            Problem::Size { tensor, source } => write!(f, "the tensor {tensor}: {source}"),
            Problem::Shared => f.write_str("its tensor shares data with earlier tensors"),
            Problem::Sizes { sums, counts } => {
                write!(f, "{sums} sums cannot be divided evenly among {counts} experts")
            }
            Problem::Count(count) => write!(f, "{count} is not a number of tokens"),
            Problem::Key(key) => write!(f, "the key {key} is not an unsigned number of 32 bits"),
            Problem::NotFinite { index, value } => {
                write!(f, "value {index} is {value}; expected a finite number; measure the matrix again")
            }
            Problem::Negative { index, value } => write!(
                f,
                "value {index} is {value}; sums of squares are never negative; fetch the matrix or measure it again"
            ),
            Problem::Nothing => f.write_str(
                "none of its entries has measurements, so there is nothing to write; measure the matrix again",
            ),
            Problem::Mismatch { what, before, now } => write!(
                f,
                "{now} {what} in this file, but {before} in the files before; only matrices of the same model can be merged"
            ),
            Problem::TooMany { what, found, max } => write!(f, "{found} {what}; at most {max} are read"),
            Problem::OutOfMemory { bytes } => write!(f, "no memory for {bytes} bytes of it"),
            Problem::TooLarge => f.write_str("a number is too large for the format"),
            Problem::NoChunkSize => f.write_str("a chunk has at least one token"),
            Problem::Layout(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(e) => e.source(),
            Problem::Head(e) => e.source(),
            Problem::Size { source, .. } => source.source(),
            Problem::Layout(e) => e.source(),
            _ => None,
        }
    }
}
