#![doc = include_str!("../README.md")]
//!
//! # Overview
//!
//! * [`plan`] and [`plan_folder`] plan a conversion, [`Options`] has its options.
//! * [`export::plan`] plans the way back, from a GGUF file to a checkpoint.
//! * [`checkpoint::TensorFiles`] is the folder, [`config::Config`] its configuration; [`arch::of_checkpoint`] finds its architecture.
//! * [`lora::merge`] merges adapters into their base model.
//! * [`safetensors::parse_header`] and [`metadata::front_matter_fields`] read single files.
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

mod adapter;
pub mod arch;
#[allow(clippy::cast_possible_truncation, reason = "numbers of configurations are rounded as in Python")]
mod autoconfig;
pub mod checkpoint;
#[allow(clippy::cast_possible_truncation, reason = "numbers of configurations are rounded as in Python")]
pub mod config;
mod config_error;
mod config_file;
mod conversion;
mod convert;
mod dense;
mod documents;
mod draft_model;
mod dtype;
mod error;
pub mod export;
mod facts;
mod files;
mod folder;
mod folder_error;
#[allow(clippy::cast_possible_truncation, reason = "numbers of configurations are rounded as in Python")]
mod formula;
mod fuse;
mod image;
mod json;
mod key_values;
mod location;
pub mod lora;
pub mod metadata;
mod model_plan;
mod number;
mod options;
mod output;
mod packed;
mod pattern;
mod peek;
mod problem;
mod request;
mod reranker;
pub mod safetensors;
mod strategy;
mod templates;
mod text;
pub mod tokenizer;
pub mod torch;
mod tower;
mod warning;

pub use adapter::problem::AdapterProblem;
pub use checkpoint::index::IndexProblem;
pub use conversion::{Conversion, OutputKind};
pub use convert::{convert, model_folder, plan, plan_folder};
pub use draft_model::problem::DraftModelProblem;
pub use dtype::{Dtype, SourceTensor};
pub use error::{Error, Names};
pub use folder::{Folder, FolderFile, MemoryFolder};
pub use folder_error::FolderError;
pub use image::{is_image_model, is_image_model_folder};
pub use model_plan::{ModelPlan, Mtp, Origin, OutType, PlanError, Skipped};
pub use options::Options;
pub use packed::Unpacked;
pub use problem::{FileProblem, UnsupportedFeature};
pub use warning::{AdapterWarning, ArchitectureWarning, Warning};
