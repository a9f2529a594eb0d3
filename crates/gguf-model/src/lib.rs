#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::print_stdout, clippy::unwrap_used)
)]

pub mod arch;
pub mod check;
pub mod formula;
mod hparams;
pub mod image;
pub mod naming;
pub mod role;
mod stack;
pub mod summary;
pub mod tokenizer;

pub use hparams::{Hparams, PerBlock};
