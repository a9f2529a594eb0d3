//! Shared code of the benchmarks and comparisons with ggml: the real library, rows to encode, and the comparison itself.

pub mod compare;
mod isolated;
pub mod options;
mod peer;
mod program;
mod real;

pub use isolated::{Isolated, serve};
pub use peer::{Ggml, GgmlFile, folder};
pub use program::{Outcome, median, program, timed};
pub use real::real_rows;
