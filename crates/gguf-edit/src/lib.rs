#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod copy;
mod edit_error;
mod edits;
pub mod estimate;
mod in_place;
pub mod repair;
pub mod text;
pub mod tokens;
pub mod typed;

pub use edit_error::EditError;
pub use edits::{Change, Edit, apply, rename};
pub use in_place::{EditOptions, EditPlan, MAX_RESERVE, PAD_KEY, Way, reserve, room_of};
