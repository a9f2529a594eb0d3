#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`plan`] plans a quantization to a [`mix::Target`] or by a [`budget::Budget`]; [`offers`] lists the results of all file types.
//! * [`mix::decide`] selects the types for a list of tensors, in [`mix::processing_order`]; [`mix::recipe::Recipe`] has those of another model.
//! * [`sensitivity::Scratch`] measures sensitivities of tensors with a program that evaluates models; a budget weighs errors by them.
//! * [`imatrix::ImatrixFile`] is an importance matrix; [`imatrix::Merge`] merges several.
//!
//! # Exactness
//!
//! The tensor data and their types are those of `llama_model_quantize` of llama.cpp, to the byte. The head differs where
//! llama.cpp is wrong: data is aligned according to `general.alignment`, which llama.cpp copies but ignores; and if blocks are
//! pruned, so are the values for each block.
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

pub mod budget;
mod error;
pub mod imatrix;
mod limit;
pub mod mix;
mod plan;
mod prune;
pub mod sensitivity;
mod warning;

pub use error::{Error, NothingToQuantize};
pub use plan::{ChooseTypes, Chosen, Offer, Quantization, QuantizeOptions, Undecided, offers, plan};
pub use prune::PruneError;
pub use warning::Warning;
