#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`arch::of`] is the table of an architecture, [`arch::of_class`] that of a class of transformers; [`arch::required_keys`] lists the keys
//!   that a model needs, [`image::recognize`] the architecture of an image model.
//! * [`role::match_template`] and [`role::TensorName`] read names of tensors; [`naming::file_name`], [`naming::new_name`] and [`naming::with_prefix`] make
//!   names of files.
//! * [`formula::check`] checks an expression of the tables.
//! * [`tokenizer::Vocab`] and [`tokenizer::Encoder`] are the tokenizer; [`check::model`] reports findings, [`summary::summary`] summarizes.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        clippy::print_stdout,
        clippy::too_many_lines,
        clippy::unwrap_used
    )
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
