#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`Engine`]: what evaluates a model. [`Llama`] is the library in this process, which is `unsafe`; [`Child`] is one in another process, which
//!   runs [`serve`].
//! * [`Windows`]: a text in windows, as llama.cpp's tools evaluate it. On them: [`perplexity`](fn@perplexity),
//!   [`matrix`], [`Comparison`], and [`base`] for files of a base model's probabilities.
//! * [`Original`]: the model that others diverge from, for sensitivities of tensors.
//! * [`generate`](fn@generate): text after a prompt.
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

use std::path::Path;

pub mod base;
mod child;
mod divergence;
mod engine;
mod error;
mod find;
mod generate;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod llama;
pub mod matrix;
mod perplexity;
pub mod sandbox;
mod sensitivity;
mod serve;
mod windows;
mod wire;

pub use child::{Canceller, Child};
pub use divergence::{BaseRow, Comparison, Statistics, median, percentile};
pub use engine::{About, Context, Counts, Engine, Item, Loaded, Observe, Observed, Specials, Sums, Token};
pub use error::{Error, ErrorKind};
pub use generate::{Choose, Ended, GenerateOptions, generate};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use llama::Llama;
pub use perplexity::{Estimate, Perplexity, perplexity, perplexity_by};
pub use sensitivity::Original;
pub use serve::{answer_all, serve};
pub use windows::{Scores, WindowOptions, Windows};

/// Opens the library of a folder, or the first that is found, in this process, which does nothing else.
///
/// # Errors
/// If no library is found, or it cannot be used, or the calling convention of this processor is not known.
fn open(folder: Option<&Path>) -> Result<Box<dyn Engine>, Error> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: what the user has installed under this name is trusted to be libllama. Nothing else in this process depends on what it does.
    return unsafe { Llama::open(folder) }.map(|llama| Box::new(llama) as Box<dyn Engine>);
    #[allow(unreachable_code, reason = "other processors")]
    {
        let _ = folder;
        Err(Error::new(ErrorKind::Library, "libllama can be used on x86-64 and AArch64 only"))
    }
}
