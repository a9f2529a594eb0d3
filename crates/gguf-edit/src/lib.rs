#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod compose;
pub mod diff;
mod equal;
mod error;
pub mod extract;
pub mod hash;
pub mod join;
pub mod manifest;
pub mod merge;
mod npy;
mod pieces;
pub mod rewrite;
pub mod split;
pub mod stats;

pub use diff::{Diff, DiffOptions, diff};
pub use error::{Error, PiecesProblem};
pub use extract::{Extraction, extract};
pub use hash::{Algorithm, HashOptions, Hashes, hash};
pub use join::{Join, join};
pub use manifest::Manifest;
pub use merge::{Merge, merge};
pub use split::{Limit, Split, SplitOptions, split};
pub use stats::{Stats, stats};
