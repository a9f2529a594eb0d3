//! ggml's number formats: converts the bytes of a tensor's rows to and from `f32`, with the same bits as ggml.
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
//! [`quantize`] and [`dequantize`] convert a tensor in one call. A program with its own threads or memory uses the [`codec`](codec())
//! of a type with [`Rows`] or blocks and a buffer for the result. [`measure`] computes the errors of decoded values,
//! [`statistics`] their mean, deviation and histogram. [`transpose`](elements::transpose) moves their bytes between layouts.
//!
//! On every CPU and with any number of threads, the results are those of `ggml-quants.c` on x86-64.
//! Every conversion is implemented in plain arithmetic, and with vectors for speed: see [`Isa`].
//!
//! # Features
//!
//! Features do not change results. Without an encoder, [`Codec::can_encode`](codec::Codec::can_encode) is false, and encoding returns an
//! error that names the feature. Decoders for all types are always included.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `encode` | yes | the encoders, except those of the IQ types |
//! | `iq` | yes | the encoders of the IQ types, more than half of the compile time; includes `encode` |
//! | `sse41` | yes | [`Isa::Sse41`], a third of the compile time; without it, an x86-64 CPU without AVX2 uses the plain arithmetic |
//! | `arrays` | no | [`Isa::Arrays`] on machines with vector instructions, for tests |
//!
//! # Debug builds
//!
//! Without optimization, a codec takes about a hundred times as long, for every instruction set. All of its code is compiled in this crate, so a
//! program can optimize it in debug builds:
//!
//! ```toml
//! [profile.dev.package.gguf-quants]
//! opt-level = 3
//! ```
//!
#![doc = include_str!("../TYPES.md")]
#![deny(unsafe_code)]
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
#![cfg_attr(
    not(all(feature = "encode", feature = "iq")),
    allow(dead_code, reason = "nothing calls encoders that are left out")
)]

#[allow(clippy::needless_range_loop, reason = "lanes, columns and blocks are counted, as in the drawings")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "blocks, tiles and vectors have fixed sizes; levels and scales fit the bits that store them"
)]
pub mod codec;
mod dispatch;
pub mod elements;
#[expect(clippy::cast_possible_truncation, reason = "numbers keep their upper bits, or are rounded")]
pub mod float;
#[expect(clippy::cast_possible_truncation, clippy::indexing_slicing, reason = "tables have a value for each byte")]
pub mod float8;
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "codebooks and grids have fixed sizes, of less than 65536 points"
)]
mod grids;
#[allow(clippy::needless_range_loop, reason = "lanes and columns are counted")]
#[expect(clippy::cast_possible_truncation, clippy::indexing_slicing, reason = "vectors have fixed sizes")]
mod lanes;
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "sums have fixed numbers of lanes and words; rows are as long as the original"
)]
pub mod measure;
#[allow(clippy::needless_range_loop, reason = "lanes are counted")]
#[expect(clippy::indexing_slicing, reason = "rows are checked to be whole blocks when they are made")]
mod rows;
#[allow(clippy::needless_range_loop, reason = "several arrays are walked in step")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "blocks and vectors have fixed sizes; levels fit the bits that store them"
)]
mod search;
#[allow(clippy::needless_range_loop, reason = "lanes are counted")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "lanes have fixed numbers; places are below the number of intervals"
)]
pub mod statistics;
mod whole;

pub use codec::{Codec, CodecError, Matrix, codec, codecs};
pub use dispatch::{Isa, UnknownIsa};
pub use rows::{RowSquares, Rows, RowsError};
pub use whole::{dequantize, dequantize_into, quantize};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
