//! The GGUF file format, without an operating system: parse, view, check, lay out and encode the heads of model files.
//!
//! The crate opens nothing, starts nothing and depends on nothing; bytes come in, views and bytes go out. It reads the
//! draft of version 1, versions 1, 2 and 3, in both byte orders, and re-encodes each to the bytes it came from.
//!
//! * [`Gguf`] is a head, viewed in place: key-values as [`ValueRef`], tensors as [`TensorInfoRef`].
//! * [`HeadScan`] finds the end of a head in bytes that are still arriving.
//! * [`Head`] and [`Layout`] are a head to write and where everything in it lands.
//! * [`check`] finds everything that is wrong with a head, not just the first thing.
//! * [`keys`] is the table of well-known keys, [`name`] and [`shard`] know how files are called.
//! * [`GgmlType`] is the table of tensor types; every size comes from it.
//!
//! The rules are those of the specification (`docs/gguf.md` of the ggml repository) and, where it is silent, of
//! `gguf.cpp` in ggml.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod check;
mod cursor;
mod data;
mod encode;
mod error;
mod file;
mod header;
pub mod keys;
mod layout;
pub mod name;
mod scan;
pub mod shard;
mod sniff;
mod swap;
mod tensor;
mod types;
mod value;

pub use data::{DataScan, NotScannable, scan_data};
pub use encode::TooWide;
pub use error::{AlignmentError, Error, Field, Problem};
pub use file::{GetError, Gguf, HeadBytes, KvRef};
pub use header::{
    ALIGNMENT_KEY, ByteOrder, DEFAULT_ALIGNMENT, DRAFT_ALIGNMENT, Dialect, DraftReading, MAGIC, REVERSED_MAGIC,
    Version, align_up,
};
pub use layout::{Head, Kv, Layout, LayoutError, MAX_DIMS, MAX_KEY, MAX_TENSOR_NAME};
pub use scan::{HeadScan, Progress};
pub use sniff::Kind;
pub use swap::{SwapError, swap_blocks};
pub use tensor::{Dims, TensorInfo, TensorInfoRef};
pub use types::{BlockField, FieldKind, GgmlType, SizeError, TYPES, TypeInfo, n_elements};
pub use value::{
    Array, ArrayIter, ArrayRef, FromValue, MAX_NESTING, Str, Strings, Value, ValueError, ValueRef, ValueType,
};
