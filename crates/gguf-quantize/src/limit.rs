//! Sizes that must not be exceeded.

use std::fmt;

use gguf_format::check::grouped;

/// What must not be exceeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Bytes of the whole file, head and padding included; of all files together, where shards are kept.
    FileBytes(u64),
    /// Bits of tensor data for each weight, all tensors taken together.
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
