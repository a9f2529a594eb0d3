#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arch;
pub mod check;
mod hparams;
pub mod image;
pub mod naming;
pub mod role;
mod stack;
pub mod summary;
pub mod tokenizer;

pub use hparams::{Hparams, PerBlock};
