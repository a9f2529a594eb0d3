//! Importance matrices: the importance of each column of a weight, measured by `llama-imatrix` on some text.
//!
//! There are two formats. The current one is a GGUF file with two tensors for each weight: the sums of the squared activations
//! (`NAME.in_sum2`, a row for each expert) and the number of tokens (`NAME.counts`). The old one, `.dat`, contains mean squares, multiplied
//! by the number of chunks, and one count for all experts.
//!
//! [`ImatrixFile`] opens both. It reads names, sizes and counts; values are read on demand, because the matrices of models with many
//! experts take a gigabyte. [`ImatrixFile::weights`] returns the weights used by a quantizer. [`Imatrix`] holds everything in memory, for
//! [merging](Merge), converting and writing. [`check`](fn@check) reports the coverage of a model, before any work is done with the matrix.
//!
//! The rules are those of `tools/imatrix/imatrix.cpp`, `common/imatrix-loader.cpp` and `tools/quantize/quantize.cpp` in llama.cpp,
//! including the order of float operations.

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

/// The default chunk size of `llama-imatrix` (its context size).
pub const DEFAULT_CHUNK_SIZE: u32 = 512;

/// The file format of a matrix, which determines the meaning of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A GGUF file: sums of squares, and tokens for each expert.
    Gguf,
    /// A `.dat` file: mean squares times the number of chunks, and the number of chunks.
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

/// The stored numbers of one weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// One number for each column, expert after expert.
    pub sums: Vec<f32>,
    /// One number for each expert, or one for all; never empty, and a divisor of the number of sums.
    pub counts: Vec<i64>,
}

/// An importance matrix in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Imatrix {
    /// The meaning of the numbers.
    pub format: Format,
    /// The entries, by name of the weight.
    pub entries: BTreeMap<Vec<u8>, Entry>,
    /// The names of the calibration texts.
    pub datasets: Vec<Vec<u8>>,
    /// Number of calibration chunks.
    pub chunk_count: u32,
    /// Tokens per chunk; 0 in the old format, which does not store it.
    pub chunk_size: u32,
}

/// Converts sums to the weights used by a quantizer, in place; the first value is number `first` of an entry (`load_imatrix` in
/// `tools/quantize/quantize.cpp`).
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
            // An expert that was never used: all columns have equal weights.
            Format::Gguf => *value = 1.0,
            Format::Legacy => {}
        }
    }
}

/// The keys that `llama-quantize` writes about its matrix (`prepare_imatrix` and `main` in `tools/quantize/quantize.cpp`): the matrix,
/// the first text, the number of used entries, and the number of chunks if known. As there, texts are truncated to 127 bytes. Of paths, only
/// the file names are written, because folders are private and the output is often published.
pub fn provenance(path: &str, matrix: &ImatrixFile) -> Vec<(&'static str, Value)> {
    const LONGEST: usize = 127;
    // llama.cpp writes C strings, which end at the first NUL.
    let cut = |text: &[u8]| {
        let text = text.split(|&b| b == 0).next().unwrap_or_default();
        let text = text.rsplit(|b| matches!(b, b'/' | b'\\')).next().unwrap_or_default();
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

/// An error of reading, merging or writing a matrix. A message includes that of its cause.
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// The file, if any.
    pub path: Option<PathBuf>,
    /// The entry, if any; safe to print.
    pub entry: Option<String>,
    /// The problem.
    pub problem: Problem,
}

/// A problem with a matrix.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A system error.
    Io(io::Error),
    /// The head of a GGUF file cannot be read.
    Head(Box<gguf_format::Error>),
    /// The file is of another kind, for this reason.
    NotAMatrix(&'static str),
    /// The file is truncated.
    Truncated {
        /// Minimum number of bytes.
        need: u64,
        /// Actual number of bytes.
        have: u64,
    },
    /// A length or number in the old format is negative or zero.
    Number {
        /// The quantity.
        what: &'static str,
        /// The byte offset.
        at: u64,
        /// The number.
        found: i32,
    },
    /// Duplicate entry.
    Twice,
    /// One of the two tensors of an entry is missing.
    Missing(&'static str),
    /// A tensor of the entry is not of type F32.
    Type {
        /// The tensor; safe to print.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// The size of a tensor of the entry is unknown.
    Size {
        /// The tensor; safe to print.
        tensor: String,
        /// The cause.
        source: SizeError,
    },
    /// Tensors overlap.
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
    /// A key whose value is not an unsigned number.
    Key(&'static str),
    /// An infinite or NaN value.
    NotFinite {
        /// The index of the value.
        index: u64,
        /// The value.
        value: f32,
    },
    /// A negative value, which is not a sum of squares.
    Negative {
        /// The index of the value.
        index: u64,
        /// The value.
        value: f32,
    },
    /// There are no entries to write, or none with measurements.
    Nothing,
    /// Merged files have entries of different sizes.
    Mismatch {
        /// The difference: `sums` or `counts`.
        what: &'static str,
        /// The number in the previous files.
        before: usize,
        /// The number in this file.
        now: usize,
    },
    /// The matrix exceeds a limit.
    TooMany {
        /// The quantity, in plural.
        what: &'static str,
        /// The actual number.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// Insufficient memory.
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
    },
    /// A number is too large for the format.
    TooLarge,
    /// A chunk size of 0.
    NoChunkSize,
    /// The file cannot be laid out.
    Layout(LayoutError),
}

impl Error {
    /// Whether the matrix is the cause, not the system.
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
                write!(f, "not an importance matrix: {why}; pass the file that llama-imatrix wrote")
            }
            Problem::Truncated { need, have } => {
                write!(f, "the file has {have} bytes; expected at least {need}; fetch it or create it again")
            }
            Problem::Number { what, at, found } => {
                write!(f, "byte {at}: the {what} is {found}; expected a positive number")
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
                "{now} {what} in this file, but {before} in the earlier files; only matrices of the same model can be \
                 merged"
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
