#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod adapter;
pub mod arch;
mod autoconfig;
pub mod checkpoint;
pub mod config;
mod config_error;
mod convert;
mod dense;
mod draft;
mod dtype;
mod error;
mod files;
mod folder;
mod folder_error;
mod formula;
mod fuse;
mod image;
mod json;
mod key_values;
mod location;
pub mod metadata;
mod model_plan;
mod packed;
mod pattern;
mod peek;
mod problem;
mod reranker;
pub mod safetensors;
mod templates;
pub mod tokenizer;
pub mod torch;
mod tower;
mod warning;

pub use adapter::AdapterProblem;
pub use convert::{Conversion, Options, OutputKind, convert, model_folder, plan, plan_folder};
pub use draft::DraftProblem;
pub use dtype::{Dtype, SourceTensor};
pub use error::{Error, IndexProblem, Names};
pub use folder::{Folder, FolderFile, MemoryFolder};
pub use folder_error::FolderError;
pub use image::is_image_model;
pub use model_plan::{ModelPlan, NextTokens, Origin, OutType, PlanError, Skipped};
pub use packed::Unpacked;
pub use problem::{FileProblem, UnsupportedFeature};
pub use warning::{AdapterWarning, ArchitectureWarning, Warning};
