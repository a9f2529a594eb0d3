//! Size limits.

use std::fmt;

use gguf_format::check::grouped;

/// A size limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Bytes of the whole file, including head and padding; of all files, if shards are kept.
    FileBytes(u64),
    /// Bits of tensor data per weight, on average over all tensors.
    BitsPerWeight(f64),
}

impl fmt::Display for Limit {
    /// `4,509,715,660 bytes`, `3.9 bits per weight`; bits are rounded up to four decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::FileBytes(n) => write!(f, "{} bytes", grouped(*n)),
            Limit::BitsPerWeight(bits) => write!(f, "{} bits per weight", (bits * 1e4).ceil() / 1e4),
        }
    }
}
