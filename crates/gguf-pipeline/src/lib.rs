#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`Draft`] can be edited: a conversion makes one from a checkpoint, [`Draft::copy_of`] one that copies a GGUF. [`Plan`] is a
//!   draft that is laid out; [`Plan::run`] executes it, [`run_all`] several over one source.
//! * [`Sink`] is where a run writes: files by default; [`MemorySink`] keeps the outputs in memory, and a custom one takes four methods.
//! * [`Plan::reads`] lists the reads of a run; a [`ReadAhead`] gets those that are left, to fetch the data before it is read.
//! * [`Source`] provides tensor data, [`Importance`] the weights of columns; implement them for custom sources. A [`Stage`] makes a
//!   source of drafts, for a plan of their tensors.
//! * [`Progress`] receives [events](Event), and can cancel the work.
//! * [`scan_tensors`] searches for NaN, infinity and zeros, [`range`] for values that a plan's types cannot hold; [`report`] measures errors,
//!   [`workers`] is the worker loop.
//! * [`fleet`] divides the run of a plan among machines; [`fleet::MemoryPlace`] keeps the outputs in memory.
//! * [`verify`] compares the data that a draft makes with that of a file.
//! * [`range::check_range`] searches the source of a plan; [`moves::Move`], [`plan::Shape`] and [`plan::InputName`] are parts of tensors in a plan.
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

mod buffers;
mod cast;
mod chunk;
mod encode;
mod error;
mod execute;
pub mod fleet;
mod gguf;
mod importance;
mod journal;
mod limits;
pub mod moves;
mod op;
mod options;
mod parts;
pub mod plan;
mod progress;
pub mod range;
mod read;
mod reads;
pub mod report;
mod run;
mod scan;
mod shape;
mod sink;
mod source;
mod stage;
mod totals;
pub mod verify;
pub mod workers;
mod write;

pub use error::{Difference, Error};
pub use execute::Overflow;
pub use gguf::{GgufSource, UNSPLIT_HEAD, check_memory};
pub use importance::Importance;
pub use limits::MAX_TENSORS;
pub use options::{RunOptions, RunSummary};
pub use plan::{Draft, OtherFile, Plan, TensorPlan};
pub use progress::{Cancelled, Event, Progress};
pub use reads::ReadAhead;
pub use run::{check_outputs, check_paths, disk_space, run_all, run_all_to};
pub use scan::{Repeats, Runs, TensorScan, scan_tensors};
pub use sink::{Kept, MemorySink, NewOutput, Piece, Sink};
pub use source::{FilePlace, Source, SourceRead, SourceVersion, Stored};
pub use stage::Stage;
pub use write::OutputSink;
