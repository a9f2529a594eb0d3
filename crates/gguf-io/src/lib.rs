//! GGUF files on the operating system: opening, mapping, reading parts of them, and writing them so that nothing but a
//! whole file ever stands under the final name.
//!
//! * [`ModelFile`] is one file: its head on the heap, its payload read in pieces or mapped.
//! * [`Model`] is all shards of a model, opened from any of them.
//! * [`Output`] is a file in the making: temporary, positioned writes, synced, then renamed; [`open_locked`] keeps others away.
//! * [`Writer`] puts a head and its tensors onto any [`std::io::Write`], in either order.
#![deny(unsafe_code)]

mod buffer;
mod error;
mod lock;
mod map;
mod model;

mod open;
mod output;
mod writer;

pub use error::Error;
pub use lock::open_locked;
pub use map::Map;
pub use model::{Model, ModelTensor};

pub use open::{HeadRead, ModelFile, read_exact_at, read_head};
pub use output::Output;
pub use writer::{WriteError, Writer};
