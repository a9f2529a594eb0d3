#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * Edits: [`EditPlan`] in place; [`typed::Assignment`] and [`typed::parse_kind`] for values as text, [`text::edits_of`] for edited text,
//!   [`tokens::special_token`] for the ids of special tokens.
//! * Copies: [`split`](fn@split), [`merge`](fn@merge), [`rewrite::reorder`], [`extract`](fn@extract).
//! * Comparisons: [`diff`](fn@diff), [`hash`](fn@hash), [`manifest::Manifest`] with its [`line`](manifest::line)s, and [`stats`](fn@stats).
//! * Damaged files: [`repair::Diagnosis`]. Memory: [`estimate::estimate`].
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

pub mod card;
mod compose;
mod copy;
pub mod diff;
mod edit_error;
mod edits;
mod equal;
mod error;
pub mod estimate;
pub mod extract;
mod file_hash;
pub mod hash;
mod in_place;
pub mod join;
pub mod manifest;
pub mod merge;
mod npy;
mod pieces;
pub mod repair;
pub mod rewrite;
pub mod split;
pub mod stats;
pub mod templates;
pub mod text;
pub mod tokens;
pub mod typed;

pub use diff::{DataDiff, Diff, DiffOptions, KeyDiff, TensorDiff, diff};
pub use edit_error::{EditError, NotEstimated};
pub use edits::{Change, Edit, ElementChange, apply, key_bytes, rename};
pub use error::{Error, PiecesProblem};
pub use extract::{Extraction, extract};
pub use file_hash::file_hashes;
pub use hash::{Algorithm, HashOptions, Hashes, hash};
pub use in_place::{EditMethod, EditOptions, EditPlan, MAX_RESERVE, PAD_KEY, reserve, reserved_bytes};
pub use join::{Join, join};
pub use manifest::Manifest;
pub use merge::{Merge, merge};
pub use split::{Limit, Split, SplitOptions, split, split_converted, split_plan};
pub use stats::{Stats, stats};
