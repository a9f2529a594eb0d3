#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`recognise`] identifies a file by its bytes, even if it is truncated.
//! * [`Input`] is an open file with all of its parts.
//! * [`questions`] lists its missing metadata; [`Answers`] provides it.
//! * [`plan`](fn@plan) plans the migration; the [`plan`](Migration::plan) is run like any other.
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

mod arrange;
mod block;
mod bpe;
mod container;
mod cursor;
mod detect;
mod draft_version;
mod error;
mod file;
mod infer;
mod input;
mod keys;
mod known;
mod layout;
mod lora;
mod malformed;
mod migration;
mod names;
mod open;
mod plan;
mod question;
mod source;
mod upgrade;
mod vocab;
mod walk;

pub use block::{Generation, Rounding, Treatment};
pub use container::Container;
pub use detect::Recognition;
pub use error::Error;
pub use file::{Bytes, LegacyFile};
pub use input::Input;
pub use layout::Family;
pub use malformed::{Field, Malformed, Problem};
pub use migration::{Migrated, Migration, Options, Warning};
pub use open::{recognise, recognise_source};
pub use plan::{plan, questions};
pub use question::{Answers, Guess, Question, Topic};
pub use upgrade::GgufUpgrade;
