//! The steps of a conversion that depend on the kind of checkpoint, and their results.

use std::path::PathBuf;
use std::sync::Arc;

use gguf_format::GgmlType;
use gguf_model::arch::Checkpoint;
use gguf_pipeline::Source;
use gguf_pipeline::plan::TensorPlan;

use crate::checkpoint::TensorFiles;
use crate::conversion::OutputKind;
use crate::error::Error;
use crate::formula::Fields;
use crate::key_values::KeyValues;
use crate::metadata::ModelMetadata;
use crate::model_plan::Skipped;
use crate::packed::Unpacked;
use crate::request::Request;
use crate::warning::Warning;

/// A kind of checkpoint: how each step of its conversion is done. The steps are called in this order.
pub(crate) trait Strategy: Sized {
    /// The kind of output.
    const KIND: OutputKind;

    /// What the key-values depend on, besides the planned tensors.
    type Planned;

    /// Reads the configuration and the heads of the tensor files. `checkpoint` has the heads if they determined the kind.
    fn read(request: &Request<'_>, checkpoint: Option<TensorFiles>) -> Result<Self, Error>;

    /// Adds the facts that formulas and patterns read besides the configuration.
    fn add_facts(&mut self, request: &Request<'_>) -> Result<(), Error>;

    /// Plans the output tensors.
    fn plan_tensors(self, request: &Request<'_>) -> Result<(TensorPlans, Self::Planned), Error>;

    /// Makes the key-values, in file order.
    fn keys(request: &Request<'_>, tensors: &TensorPlans, planned: Self::Planned) -> Result<Keys, Error>;
}

/// The planned tensors.
#[derive(Debug)]
pub(crate) struct TensorPlans {
    /// The architecture name in GGUF.
    pub(crate) architecture: &'static str,
    /// The type of the matrices.
    pub(crate) ty: GgmlType,
    /// The output tensors, in file order.
    pub(crate) tensors: Vec<TensorPlan>,
    /// The checkpoint tensors that are not written.
    pub(crate) skipped: Vec<Skipped>,
    /// The checkpoint tensors that are stored in packed formats.
    pub(crate) unpacked: Vec<Unpacked>,
    /// Warnings about the tensors.
    pub(crate) warnings: Vec<Warning>,
    /// The source of the data.
    pub(crate) source: Arc<dyn Source>,
    /// The paths of the files on the disk that hold the data.
    pub(crate) paths: Vec<PathBuf>,
}

/// The planned key-values.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The key-values, in file order.
    pub(crate) kvs: KeyValues,
    /// The metadata, for the name of the output.
    pub(crate) metadata: ModelMetadata,
    /// Warnings about the metadata and the tokenizer.
    pub(crate) warnings: Vec<Warning>,
    /// The table that the architecture's keys come from, and its fields, to name the field of a missing key.
    pub(crate) table: Option<(&'static Checkpoint, Fields)>,
}
