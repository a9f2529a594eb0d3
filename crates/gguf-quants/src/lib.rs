//! ggml's number formats: the bytes of a tensor's rows to and from `f32`.
//!
//! Nothing here knows files, tensor names or threads: a caller brings rows of bytes and rows of floats. Every conversion
//! is written as the plain arithmetic of the reference, so the result is the same on every CPU.
//!
#![doc = include_str!("../TYPES.md")]
#![deny(unsafe_code)]

#[allow(clippy::needless_range_loop, reason = "lanes, columns and blocks are counted, as in the drawings")]
pub mod codec;
pub mod dispatch;
pub mod float;
mod grids;
#[allow(clippy::needless_range_loop, reason = "lanes and columns are counted")]
mod lanes;
pub mod measure;
mod rows;
#[allow(clippy::needless_range_loop, reason = "several arrays are walked in step")]
mod search;

pub use dispatch::Isa;
pub use rows::{Rows, RowsError};
