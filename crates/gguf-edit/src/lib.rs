#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod equal;
mod error;
pub mod join;
pub mod merge;
pub mod split;

pub use error::{Error, PiecesProblem};
pub use join::{Join, join};
pub use merge::{Merge, merge};
pub use split::{Limit, Split, SplitOptions, split};
