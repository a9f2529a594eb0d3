#![cfg_attr(all(feature = "hf", feature = "legacy", feature = "quantize"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "hf", feature = "legacy", feature = "quantize")),
    doc = "The toolkit for GGUF model files."
)]
//!
//! # Overview
//!
//! | to | call | feature |
//! |---|---|---|
//! | open a model, with all its shards | [`Model::open`] | |
//! | read a model from memory or a custom source | [`Model::from_reader`] | |
//! | look up a key | [`model.gguf().get_as`](Gguf::get_as), [`get_for_arch`](Gguf::get_for_arch) | |
//! | summarize a model | [`summary`] | |
//! | report every problem of a model | [`check`](fn@check) | |
//! | write a model | [`write`](fn@write), [`Writer`] | |
//! | also look for NaN and infinity in its data | [`check_data`] | `edit` |
//! | decode a tensor, or some of its rows | [`Tensor::rows`], [`Tensor::to_f32`] | `values` |
//! | copy a model with other metadata | [`edit`](fn@edit) | `edit` |
//! | merge shards | [`merge`] | `edit` |
//! | split, compare, hash, reorder, extract | [`edit`](mod@edit) | `edit` |
//! | quantize a model | [`quantize_file`] | `quantize` |
//! | quantize values in memory | [`quants::quantize`], [`quants::dequantize`] | `quantize`, `values` |
//! | convert a Hugging Face checkpoint | [`convert`](fn@convert) | `hf` |
//! | migrate a legacy file | [`legacy::plan`](fn@legacy::plan) | `legacy` |
//!
//! Each call is a few lines over the crates of the toolkit, which are available as modules: [`format`](mod@format), [`io`], [`model`], [`quants`],
//! [`pipeline`], [`quantize`](mod@quantize), [`hf`] and [`legacy`]. The functions that write files take no options; their documentation shows the
//! steps for programs that need them.
//!
//! The libraries neither print nor read the environment. No file makes them panic, hang, or allocate memory out of
//! proportion.
#![forbid(unsafe_code)]
#![cfg_attr(not(all(feature = "hf", feature = "legacy", feature = "quantize")), allow(rustdoc::broken_intra_doc_links))]

mod check;
mod error;
mod files;

#[cfg(feature = "edit")]
pub use check::check_data;
pub use check::{Check, CheckOptions, check, check_stream, check_with};
pub use error::Error;
#[cfg(feature = "hf")]
pub use files::convert;
#[cfg(feature = "quantize")]
pub use files::quantize_file;
#[cfg(feature = "edit")]
pub use files::{Written, edit, merge};
pub use files::{summary, write};

#[cfg(feature = "edit")]
pub use gguf_edit as edit;
pub use gguf_format as format;
#[cfg(feature = "hf")]
pub use gguf_hf as hf;
pub use gguf_io as io;
#[cfg(feature = "legacy")]
pub use gguf_legacy as legacy;
pub use gguf_model as model;
#[cfg(feature = "edit")]
pub use gguf_pipeline as pipeline;
#[cfg(feature = "quantize")]
pub use gguf_quantize as quantize;
#[cfg(feature = "values")]
pub use gguf_quants as quants;

pub use gguf_format::check::{Finding, Severity};
pub use gguf_format::{
    Array, ByteOrder, GgmlType, Gguf, Head, KvRef, Str, TensorInfo, TensorInfoRef, Value, ValueRef, ValueType, Version,
    keys,
};
pub use gguf_io::{InMemory, Map, Model, ModelFile, Output, ReadAt, Tensor, Writer};
pub use gguf_model::summary::Summary;
#[cfg(feature = "edit")]
pub use gguf_pipeline::{Draft, Event, Plan, Progress, RunOptions};

/// The examples of the workspace's README and of the book, compiled as tests.
#[cfg(all(doctest, feature = "hf", feature = "quantize"))]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/tutorials/rust.md")]
struct Readme;
