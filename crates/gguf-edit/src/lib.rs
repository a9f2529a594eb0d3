#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod diff;
mod equal;
mod error;
pub mod hash;
pub mod join;
pub mod manifest;
pub mod merge;
pub mod split;

pub use diff::{Diff, DiffOptions, diff};
pub use error::{Error, PiecesProblem};
pub use hash::{Algorithm, HashOptions, Hashes, hash};
pub use join::{Join, join};
pub use manifest::Manifest;
pub use merge::{Merge, merge};
pub use split::{Limit, Split, SplitOptions, split};
