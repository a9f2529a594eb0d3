//! ggml's number formats: the bytes of a tensor's rows to and from `f32`, bit for bit as ggml does it.
//!
//! ```
//! use gguf_format::GgmlType;
//!
//! let values: Vec<f32> = (0..512).map(|i| (i as f32 * 0.1).sin()).collect();
//! // Two rows of 256 values, on all threads.
//! let packed = gguf_quants::quantize(GgmlType::Q8_0, &values, 256, None, None)?;
//! assert_eq!(packed.len(), 512 / 32 * 34);
//! let back = gguf_quants::dequantize(GgmlType::Q8_0, &packed)?;
//! assert!(values.iter().zip(&back).all(|(x, y)| (x - y).abs() < 0.01));
//! # Ok::<(), gguf_quants::CodecError>(())
//! ```
//!
//! [`quantize`] and [`dequantize`] do a tensor in one call. A program that has its own threads or its own memory takes the [`codec`](codec())
//! of a type and gives it [`Rows`] or blocks, with memory for the result. [`measure`] says how far decoded values are from the originals.
//!
//! The results are those of the reference, as `ggml-quants.c` computes them on x86-64, on every CPU and with any number of threads.
//! Every conversion stands in the source as plain arithmetic, and once more over vectors for speed: see [`Isa`].
//!
//! # Features
//!
//! None of them changes a result. Without an encoder [`Codec::can_encode`](codec::Codec::can_encode) is false, and encoding is an error that names
//! the feature. Decoders for all types are always there.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `encode` | yes | the encoders, but for those of the IQ types |
//! | `iq` | yes | the encoders of the IQ types, which take more than half of the time to compile; includes `encode` |
//! | `sse41` | yes | [`Isa::Sse41`], a third of the time to compile; without it, an x86-64 CPU without AVX2 takes the plain arithmetic |
//! | `arrays` | no | [`Isa::Arrays`] on machines that have real vectors, for tests |
//!
//! # Debug builds
//!
//! Without optimization a codec takes about a hundred times as long, for every instruction set. All of its code is compiled in this crate, so a
//! program can have it optimized in its own debug builds:
//!
//! ```toml
//! [profile.dev.package.gguf-quants]
//! opt-level = 3
//! ```
//!
#![doc = include_str!("../TYPES.md")]
#![deny(unsafe_code)]
#![cfg_attr(
    not(all(feature = "encode", feature = "iq")),
    allow(dead_code, reason = "nothing calls encoders that are left out")
)]

#[allow(clippy::needless_range_loop, reason = "lanes, columns and blocks are counted, as in the drawings")]
pub mod codec;
mod dispatch;
pub mod float;
pub mod float8;
mod grids;
#[allow(clippy::needless_range_loop, reason = "lanes and columns are counted")]
mod lanes;
pub mod measure;
#[allow(clippy::needless_range_loop, reason = "lanes are counted")]
mod rows;
#[allow(clippy::needless_range_loop, reason = "several arrays are walked in step")]
mod search;
mod whole;

pub use codec::{Codec, CodecError, Matrix, codec, codecs};
pub use dispatch::{Isa, UnknownIsa};
pub use rows::{RowSquares, Rows, RowsError};
pub use whole::{dequantize, quantize};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
