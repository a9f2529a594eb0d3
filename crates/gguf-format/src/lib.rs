//! The GGUF file format, independent of an operating system: parse, view, check, lay out and encode the heads of model files.
//!
//! A GGUF file consists of a head (header, key-value pairs, tensor infos) and a data section. This crate handles the head; it neither opens
//! files nor reads tensor data. It reads the draft of version 1, versions 1, 2 and 3, in both byte orders, and re-encodes each to the same
//! bytes. No input makes it panic or allocate more than a small multiple of the given bytes.
//!
//! # Reading
//!
//! [`Gguf::parse`] views a head in place: the bytes may be a whole file, a memory map or the first few megabytes.
//!
//! ```
//! # let file = {
//! #     use gguf_format::{GgmlType, Head, TensorInfo};
//! #     let mut head = Head::default();
//! #     head.set("general.architecture", "llama");
//! #     head.set("llama.block_count", 2u32);
//! #     head.set("tokenizer.ggml.tokens", ["<s>", "</s>", "a"]);
//! #     head.tensors = ["a", "b"].map(|name| TensorInfo::new(name, [32], GgmlType::F32)).into();
//! #     let layout = head.layout().unwrap();
//! #     let mut file = layout.padded_head().unwrap();
//! #     file.resize(layout.file_bytes() as usize, 0);
//! #     file
//! # };
//! use gguf_format::Gguf;
//!
//! let gguf = Gguf::parse(&file)?;
//!
//! // Keys: required, optional, and arrays.
//! let arch: &str = gguf.get_as("general.architecture")?;
//! let layers: u32 = gguf.get_as(&format!("{arch}.block_count"))?;
//! let experts: Option<u32> = gguf.get_as(&format!("{arch}.expert_count"))?;
//! let tokens: Vec<&str> = gguf.get_as("tokenizer.ggml.tokens")?;
//! assert_eq!((arch, layers, experts, tokens.len()), ("llama", 2, None, 3));
//!
//! // Tensors: name, type, shape, and the range of the data in the file.
//! for tensor in gguf.tensors() {
//!     let range = gguf.tensor_range(&tensor)?;
//!     println!("{} {} {:?} {range:?}", tensor.name, tensor.ty, tensor.dims.collect::<Vec<_>>());
//! }
//! # assert_eq!(gguf.n_tensors(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading while bytes arrive
//!
//! [`HeadScan`] finds the end of a head in a growing buffer, and returns the number of bytes it needs to continue.
//!
//! ```
//! # let file = {
//! #     use gguf_format::{GgmlType, Head, TensorInfo};
//! #     let mut head = Head::default();
//! #     head.set("general.architecture", "llama");
//! #     head.set("llama.block_count", 2u32);
//! #     head.set("tokenizer.ggml.tokens", ["<s>", "</s>", "a"]);
//! #     head.tensors = ["a", "b"].map(|name| TensorInfo::new(name, [32], GgmlType::F32)).into();
//! #     let layout = head.layout().unwrap();
//! #     let mut file = layout.padded_head().unwrap();
//! #     file.resize(layout.file_bytes() as usize, 0);
//! #     file
//! # };
//! # let mut read = |buffer: &mut Vec<u8>, to: u64| buffer.extend_from_slice(&file[buffer.len()..to as usize]);
//! use gguf_format::{Gguf, HeadScan, ScanState};
//!
//! let mut scan = HeadScan::new(None);
//! let mut buffer = Vec::new();
//! while let ScanState::Need(bytes) = scan.advance(&buffer)? {
//!     // From a socket, a file, a request for a range of bytes.
//!     read(&mut buffer, bytes);
//! }
//! let gguf = Gguf::from_scan(buffer, &scan)?;
//! assert_eq!(gguf.n_tensors(), 2);
//! # Ok::<(), gguf_format::Error>(())
//! ```
//!
//! # Writing
//!
//! [`Head`] is a head to write. Its [`Layout`] has every offset and the length of the file before the first byte is written, and owns the
//! encoded head.
//!
//! ```
//! use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
//!
//! let mut head = Head::default();
//! head.set("general.architecture", "llama");
//! head.set("llama.block_count", 1u32);
//! head.set("tokenizer.ggml.tokens", ["<s>", "</s>"]);
//! head.tensors.push(TensorInfo::new("token_embd.weight", [64, 2], GgmlType::Q8_0));
//!
//! let layout = head.layout()?;
//! let mut file = layout.padded_head()?;
//! file.resize(layout.file_bytes() as usize, 0);
//! let range = layout.tensor_range(0).ok_or("there is one tensor")?;
//! assert_eq!(range.end - range.start, 2 * 2 * 34);
//! // The tensor's data goes to that range of the file.
//! # let gguf = Gguf::parse(&file)?;
//! # assert_eq!(gguf.tensor_range(&gguf.tensors().next().unwrap())?, range);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Checking
//!
//! Parsing stops at the first problem that makes a head unreadable. [`check`] reports all problems:
//!
//! ```
//! use gguf_format::check;
//!
//! # let file = {
//! #     use gguf_format::{GgmlType, Head, TensorInfo};
//! #     let mut head = Head::default();
//! #     head.set("general.architecture", "llama");
//! #     head.set("llama.block_count", 2u32);
//! #     head.set("tokenizer.ggml.tokens", ["<s>", "</s>", "a"]);
//! #     head.tensors = ["a", "b"].map(|name| TensorInfo::new(name, [32], GgmlType::F32)).into();
//! #     let layout = head.layout().unwrap();
//! #     let mut file = layout.padded_head().unwrap();
//! #     file.resize(layout.file_bytes() as usize, 0);
//! #     file
//! # };
//! let report = check::format(&file, file.len() as u64);
//! for finding in report.findings() {
//!     println!("{finding}; expected {}; {}", finding.expected, finding.hint);
//! }
//! assert!(report.is_safe());
//! ```
//!
//! # Further parts
//!
//! * [`keys`] is the table of well-known keys; [`name`] and [`shard`] handle file names.
//! * [`GgmlType`] is the table of tensor types; every size comes from it.
//! * [`scan_data`] searches for NaN and infinity in tensor data, [`swap_blocks`] changes its byte order.
//!
//! # Errors
//!
//! The message of an error is complete: it includes the messages of its parts, and `source()` is `None`. Messages are in lower case and
//! without a final period. Fields and variants are public, so that programs need not parse messages. Extensible types are
//! `#[non_exhaustive]`; [`Value`], [`Head`], [`Kv`] and [`TensorInfo`] are as closed as the format is.
//!
//! # Features
//!
//! None is on by default, and without them the crate has no dependencies. It is always `no_std` and needs `alloc`.
//!
//! * `serde`: `Serialize` for values, types, tensor infos, heads and findings. Text that is not UTF-8 is serialized as
//!   bytes.
//! * `bytemuck`: `cast_elements`, tensor data as a slice of `f32` and other plain numbers, without a copy.
//! * `half`: the same for `half::f16` and `half::bf16`; turns on `bytemuck`.
//!
//! The rules are those of the specification (`docs/gguf.md` of the ggml repository) and, where it is silent, of `gguf.cpp` in ggml.
#![no_std]
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

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(feature = "bytemuck")]
mod cast;
pub mod check;
mod cursor;
mod data;
mod encode;
mod error;
mod file;
mod header;
pub mod keys;
mod layout;
mod likely;
mod limits;
pub mod name;
mod scan;
#[cfg(feature = "serde")]
mod serialize;
pub mod shard;
mod sniff;
#[doc(hidden)]
pub mod sort;
mod spelling;
mod swap;
mod tensor;
mod types;
mod value;

#[cfg(feature = "bytemuck")]
pub use cast::{CastError, PlainElement, cast_elements};
pub use data::{DataScan, NotScannable, scan_data};
pub use encode::TooWide;
pub use error::{AlignmentError, Error, Field, Problem};
pub use file::{GetError, Gguf, HeadBytes, KvRef, Kvs, Tensors};
pub use header::{
    ALIGNMENT_KEY, ByteOrder, DEFAULT_ALIGNMENT, DRAFT_ALIGNMENT, Dialect, DraftVersionReading, MAGIC, REVERSED_MAGIC,
    Version, align_up,
};
pub use layout::{Head, Kv, Layout, LayoutError, Places};
pub use limits::{MAX_DIMS, MAX_IMAGE_TENSOR_NAME, MAX_KEY, MAX_TENSOR_NAME};
pub use scan::{HeadScan, Limits, ScanState};
pub use sniff::FileKind;
pub use swap::{SwapError, swap_blocks};
pub use tensor::{Dims, NewTensor, TensorInfo, TensorInfoRef};
pub use types::{BlockField, FieldKind, GgmlType, SizeError, TYPES, TypeInfo, UnknownTypeName, n_elements};
pub use value::{
    Array, ArrayElement, ArrayIter, ArrayRef, FromValue, MAX_NESTING, Str, StringIndex, Strings, Value, ValueError,
    ValueRef, ValueType,
};
