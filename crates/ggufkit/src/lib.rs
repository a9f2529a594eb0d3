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
//! | open a model, with all its shards | [`Model::open`] | `fs` |
//! | read a model from memory or a custom source | [`Model::from_source`] | |
//! | look up a key | [`model.gguf().get_as`](Gguf::get_as), [`get_for_arch`](Gguf::get_for_arch) | |
//! | find the end of a head while its bytes arrive | [`HeadScan`] | |
//! | summarize a model | [`summary`] | |
//! | report every problem of a model | [`check`](fn@check); [`check_model`] of an open one, [`check_by`] of one elsewhere | `fs` |
//! | view a tokenizer; encode text to token ids | [`model::tokenizer`] | |
//! | write a model | [`write`](fn@write); [`Writer`] to any stream | `fs` |
//! | also look for NaN and infinity in its data | [`check_data`] | `edit` |
//! | decode a tensor, or some of its rows | [`Tensor::rows`], [`Tensor::to_f32`] | `values` |
//! | copy a model with other metadata | [`edit_metadata`] | `edit` |
//! | change the metadata of a file in place | [`EditPlan`] | `edit` |
//! | rename, reorder or remove tensors; plan any others | [`Draft::copy_of`], [`pipeline::plan`] | `edit` |
//! | merge shards | [`merge`] | `edit` |
//! | split a model | [`split`], then [`run`](Plan::run) of its plan | `edit` |
//! | compare two models | [`diff`]; [`Diff::values`] for the values of a key | `edit` |
//! | hash, join, extract, repair, estimate memory | [`edit`] | `edit` |
//! | read or set chat templates | [`edit::templates`] | `edit` |
//! | write to memory or a custom sink | [`Plan::run_to`], [`MemorySink`] | `edit` |
//! | write several files in one read, such as two types of a model | [`pipeline::run_all`]; of a checkpoint, see [`Conversion::plan`] | `edit` |
//! | show progress, or cancel | [`Progress`] | `edit` |
//! | quantize a model | [`quantize_file`] | `quantize` |
//! | choose the types of tensors, or use an importance matrix | [`quantize::plan`](fn@quantize::plan) with [`MixOptions`](quantize::mix::MixOptions) | `quantize` |
//! | quantize values in memory | [`quants::quantize`], [`quants::dequantize`] | `quantize`, `values` |
//! | convert a Hugging Face checkpoint | [`convert`], [`Conversion`] | `hf` |
//! | convert one in memory or in a custom folder | [`Conversion::from_folder`], [`hf::Folder`] | `hf` |
//! | read models and checkpoints of web servers and the Hub | `remote::Client` | `http` |
//! | read and write objects of stores | `remote::StoreFile`, `remote::StoreSink` | `cloud` |
//! | verify a file against its checkpoint | [`verify::verify`] | `hf`, `quantize` |
//! | migrate a legacy file | [`legacy::plan`](fn@legacy::plan) | `legacy` |
//!
//! Each call is a few lines over the crates of the toolkit, which are available as modules: [`format`](mod@format), [`io`], [`model`], [`quants`],
//! [`pipeline`], [`quantize`](mod@quantize), [`edit`], [`hf`] and [`legacy`]. The functions that write files take no options; their documentation
//! shows the steps for programs that need them. Examples of the modules, and of the names that come from them, use the crates themselves: for
//! `gguf_io::Model`, write `ggufkit::Model` or `ggufkit::io::Model`.
//!
//! The libraries neither print nor read the environment. No file makes them panic, hang, or allocate memory out of
//! proportion.
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
#![cfg_attr(not(all(feature = "hf", feature = "legacy", feature = "quantize")), allow(rustdoc::broken_intra_doc_links))]

mod check;
#[cfg(feature = "hf")]
mod conversion;
mod error;
mod files;
#[cfg(all(feature = "hf", feature = "quantize"))]
pub mod verify;
#[cfg(feature = "edit")]
mod warning;

pub use check::{Check, CheckOptions, HeadOf, OpenSource, check_by, check_heads, check_model, check_stream};
#[cfg(feature = "fs")]
pub use check::{check, check_with};
#[cfg(feature = "edit")]
pub use check::{check_data, check_data_by};
#[cfg(feature = "hf")]
pub use conversion::{Conversion, PlannedConversion};
pub use error::Error;
#[cfg(feature = "hf")]
pub use files::convert;
#[cfg(feature = "quantize")]
pub use files::quantize_file;
pub use files::summary;
#[cfg(feature = "fs")]
pub use files::write;
#[cfg(feature = "edit")]
pub use files::{Written, edit_metadata, merge};
#[cfg(feature = "edit")]
pub use warning::Warning;

#[cfg(feature = "edit")]
/// Operations on GGUF files: edits in place, splitting, merging, comparing, hashing, extracting and repairing.
#[doc(inline)]
pub use gguf_edit as edit;
#[doc(inline)]
pub use gguf_format as format;
#[cfg(feature = "hf")]
/// Converts Hugging Face checkpoints to GGUF.
#[doc(inline)]
pub use gguf_hf as hf;
/// Bytes of models: opens files and their shards from any source, reads tensors, and writes files.
#[doc(inline)]
pub use gguf_io as io;
#[cfg(feature = "legacy")]
/// Migrates model files older than GGUF version 3.
#[doc(inline)]
pub use gguf_legacy as legacy;
/// The content of models: tables of architectures, checks, summaries, file names and tokenizers.
#[doc(inline)]
pub use gguf_model as model;
#[cfg(feature = "edit")]
/// Drafts, plans and runs: writes planned files with several threads.
#[doc(inline)]
pub use gguf_pipeline as pipeline;
#[cfg(feature = "quantize")]
/// Quantizes models: mixtures of types, importance matrices, recipes, and types for a size.
#[doc(inline)]
pub use gguf_quantize as quantize;
#[cfg(feature = "values")]
#[doc(inline)]
pub use gguf_quants as quants;
#[cfg(feature = "http")]
/// Files of web servers, of the Hugging Face Hub and of object stores.
#[doc(inline)]
pub use gguf_remote as remote;

#[cfg(feature = "edit")]
pub use gguf_edit::diff::{DataDiff, Diff, DiffOptions, KeyDiff, TensorDiff, diff};
#[cfg(feature = "edit")]
pub use gguf_edit::split::{Limit, Split, SplitOptions, split};
#[cfg(feature = "edit")]
pub use gguf_edit::{Edit, EditOptions, EditPlan};
pub use gguf_format::check::{Finding, Severity};
pub use gguf_format::{
    Array, ByteOrder, GgmlType, Gguf, Head, HeadScan, KvRef, ScanState, Str, TensorInfo, TensorInfoRef, Value,
    ValueRef, ValueType, Version, keys,
};
pub use gguf_io::{InMemory, IntoModel, Model, ModelFile, ReadAt, Tensor, Writer};
#[cfg(feature = "fs")]
pub use gguf_io::{Map, Output};
pub use gguf_model::summary::Summary;
#[cfg(feature = "edit")]
pub use gguf_pipeline::{Draft, Event, MemorySink, Plan, Progress, RunOptions, Sink};

#[cfg(feature = "hf")]
pub use gguf_hf::OutType;
#[cfg(feature = "quantize")]
pub use gguf_quantize::{QuantizeOptions, mix::Target};

/// The examples of the workspace's README and of the book, compiled as tests.
#[cfg(all(doctest, feature = "hf", feature = "quantize"))]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/tutorials/rust.md")]
struct Readme;
