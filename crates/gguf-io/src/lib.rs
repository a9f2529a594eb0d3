#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`ModelFile`] is one file, [`Model`] all shards of a model. Their heads are in memory; their
//!   [tensors](Tensor) are read, borrowed or decoded on demand. A [`TensorHandle`] keeps its model open.
//! * [`ReadAt`] is a source of bytes. [`File`](std::fs::File), memory and [`Map`] implement it; a custom
//!   source, such as ranges of a remote object, needs two methods. [`read_head`] reads a head from a stream.
//! * [`Writer`] writes a head and its tensors to any [`Write`](std::io::Write), in three orders and always with the same
//!   bytes.
//! * [`Output`] is a file under construction: temporary, with positioned writes, synced, then renamed. [`open_locked`]
//!   opens a file for one process at a time, [`open_regular`] opens only regular files.
//! * [`in_place::replace_start`] replaces the start of a file atomically: it is always the old one or the new one. An [`EditLock`](in_place::EditLock)
//!   excludes other edits of a file.
#![deny(unsafe_code)]
#![cfg_attr(not(feature = "fs"), allow(rustdoc::broken_intra_doc_links))]
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

mod buffer;
#[cfg(feature = "fs")]
mod copy;
#[cfg(feature = "fs")]
mod disk;
#[cfg(feature = "fs")]
mod disk_space;
mod error;
mod file;
mod head;
#[cfg(feature = "fs")]
pub mod in_place;
#[cfg(feature = "fs")]
mod lock;
#[cfg(feature = "fs")]
mod map;
mod model;
#[cfg(feature = "fs")]
mod output;
mod pieces;
mod plain;
mod read_at;
#[cfg(feature = "fs")]
mod stale;
mod tensor;
mod writer;

#[cfg(feature = "fs")]
pub use disk_space::{DiskSpace, check_disk_space, disk_space};
pub use error::{Error, ShardsProblem, TensorProblem, shown_path};
#[cfg(feature = "fs")]
pub use file::open_regular;
pub use file::{FileState, MODEL_LIMITS, ModelFile};
pub use head::{HeadRead, read_head, read_head_with};
#[cfg(feature = "fs")]
pub use lock::{create_locked, open_locked};
#[cfg(feature = "fs")]
pub use map::Map;
pub use model::{IntoModel, Model, TensorHandle, TensorPlace};
#[cfg(feature = "fs")]
pub use output::{Output, commit_all};
pub use plain::Plain;
pub use read_at::{InMemory, NoData, ReadAt};
pub use tensor::{Tensor, nearest};
pub use writer::{TensorWriter, WriteError, Writer};
