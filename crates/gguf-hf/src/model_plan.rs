//! The output plan for a checkpoint and its architecture, made before any weights are read.
//!
//! A [`ModelPlan`] is made from the hyperparameters and the list of source tensors (name, number format, shape). It lists the output
//! tensors in file order, each with its type, the reason for that type, and the operation that computes its data, and the architecture's
//! key-values in file order.

use core::fmt;
use std::collections::HashMap;

use gguf_format::{GgmlType, Value};
use gguf_model::arch::{Checkpoint, Dim};
use gguf_pipeline::plan::{Input, Keep, Op, Reason, Shape, SourcePlace, TensorPlan};

use crate::arch::names::matches;
use crate::config;
use crate::dtype::{Dtype, SourceTensor};
use crate::facts::Fact;
use crate::formula::Fields;
use crate::warning::ArchitectureWarning;

/// The requested float type.
///
/// ```
/// use gguf_hf::OutType;
///
/// assert_eq!(OutType::from_name("bf16"), Some(OutType::BF16));
/// assert_eq!(OutType::from_name("q4_k_m"), None);
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutType {
    /// The type of the model's first matrix in a 16-bit type; half precision if it has none.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    BF16,
    /// Blocks of 32 8-bit values.
    Q8_0,
    /// Ternary values, 1.69 bits each.
    TQ1_0,
    /// Ternary values, 2.06 bits each.
    TQ2_0,
    /// The 16-bit type shared by all matrices of the checkpoint; single precision if they share none. Only double precision is rounded.
    Lossless,
}

impl OutType {
    /// Parses a type name: `auto`, `f32`, `f16`, `bf16`, `q8_0`, `tq1_0` or `tq2_0`.
    pub fn from_name(name: &str) -> Option<OutType> {
        Some(match name {
            "auto" => OutType::Auto,
            "f32" => OutType::F32,
            "f16" => OutType::F16,
            "bf16" => OutType::BF16,
            "q8_0" => OutType::Q8_0,
            "tq1_0" => OutType::TQ1_0,
            "tq2_0" => OutType::TQ2_0,
            _ => return None,
        })
    }

    /// The requested tensor type, given the tensors of the model in checkpoint order (`ModelBase.__init__`: determined by the first tensor with two or
    /// more dimensions that is bfloat16 or half precision).
    pub fn resolve(self, sources: &[SourceTensor]) -> GgmlType {
        match self {
            OutType::F32 => GgmlType::F32,
            OutType::F16 => GgmlType::F16,
            OutType::BF16 => GgmlType::BF16,
            OutType::Q8_0 => GgmlType::Q8_0,
            OutType::TQ1_0 => GgmlType::TQ1_0,
            OutType::TQ2_0 => GgmlType::TQ2_0,
            OutType::Auto => {
                let matrices = sources.iter().filter(|s| s.shape.len() >= 2);
                let mut dtypes = matrices.map(|s| s.dtype).filter(|d| *d == Dtype::BF16 || *d == Dtype::F16);
                if dtypes.next() == Some(Dtype::BF16) { GgmlType::BF16 } else { GgmlType::F16 }
            }
            OutType::Lossless => {
                let mut dtypes = sources.iter().filter(|s| s.shape.len() >= 2).map(|s| s.dtype);
                let first = dtypes.next().filter(|d| *d == Dtype::BF16 || *d == Dtype::F16);
                let common = first.filter(|first| dtypes.all(|d| d == *first));
                common.and_then(|d| d.ggml).unwrap_or(GgmlType::F32)
            }
        }
    }
}

/// How to handle the multi-token prediction blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mtp {
    /// The MTP blocks follow the model's main blocks.
    #[default]
    Included,
    /// The MTP blocks are omitted.
    LeftOut,
    /// Only these blocks are written, with the embeddings, the last norm and the output matrix.
    Only,
}

impl Mtp {
    /// The value of [`Fact::Mtp`].
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Mtp::Included => None,
            Mtp::LeftOut => Some("left_out"),
            Mtp::Only => Some("only"),
        }
    }

    /// Parses [`Fact::Mtp`].
    pub(crate) fn of(fields: &Fields) -> Mtp {
        let name = fields.facts.get(Fact::Mtp).and_then(|value| value.as_str());
        [Mtp::LeftOut, Mtp::Only].into_iter().find(|n| n.name() == name).unwrap_or_default()
    }
}

/// A source tensor that is not written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The name in the checkpoint.
    pub name: String,
    /// Why it is omitted.
    pub reason: &'static str,
}

/// The part of a conversion plan that depends on the architecture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelPlan {
    /// The architecture name in GGUF.
    pub architecture: &'static str,
    /// The type of ordinary matrices.
    pub ty: GgmlType,
    /// Indices of the sources that are omitted on condition that they are zero; the caller verifies their data.
    pub zero: Vec<usize>,
    /// Key-values of the architecture that precede the model's name and origin.
    pub early: Vec<(String, Value)>,
    /// The architecture's key-values in file order, including `general.file_type`.
    pub parameters: Vec<(String, Value)>,
    /// The output tensors in file order.
    pub tensors: Vec<TensorPlan>,
    /// The source tensors that are omitted.
    pub skipped: Vec<Skipped>,
    /// Warnings for the user.
    pub warnings: Vec<ArchitectureWarning>,
    /// Sources whose matrices become Q8_0, as ascending indices.
    pub(crate) as_q8: Vec<usize>,
    /// The fields of the configuration, and the fields that formulas set.
    pub(crate) fields: Fields,
    /// The checkpoint class.
    pub(crate) checkpoint: &'static Checkpoint,
}

/// Matrices that are always single precision (`ModelBase.prepare_tensors`), by name without `blk.N.` and suffix.
const ALWAYS_F32: &[&str] = &[
    "altup_correct_coef",
    "altup_predict_coef",
    "a.position_embd",
    "enc.position_embd",
    "ffn_gate_inp",
    "ffn_gate_inp_shexp",
    "indexer.proj",
    "position_embd",
    "posnet.attn_norm",
    "shortconv.conv",
    "ssm_conv1d",
    "ssm_conv1d_k",
    "ssm_conv1d_q",
    "ssm_conv1d_v",
    "time_mix_decay_w1",
    "time_mix_decay_w2",
    "time_mix_first",
    "time_mix_lerp_fused",
    "time_mix_w1",
    "time_mix_w2",
    "token_types",
    "v.position_embd",
];

/// Convolutions over image patches, which are half precision if that type is requested, otherwise single precision
/// (`MmprojModel.tensor_force_quant`).
const CONVOLUTIONS: &[&str] = &["v.patch_embd.weight", "mm.patch_merger.weight"];

/// Matrices that ternary file types store in half precision.
const NEVER_TERNARY: &[&str] =
    &["altup_router", "laurel_l", "laurel_r", "output", "per_layer_token_embd", "token_embd"];

/// The type of an output tensor and its reason (`ModelBase.prepare_tensors`; the first matching rule applies).
pub(crate) fn tensor_type(name: &str, shape: &[u64], asked: GgmlType) -> (GgmlType, Reason) {
    let stem = name.strip_suffix(".weight").unwrap_or(name);
    let in_block = || stem.strip_prefix("blk.")?.split_once('.').map(|(_, rest)| rest);
    let kind = in_block().unwrap_or(stem);
    let is_ternary = asked == GgmlType::TQ1_0 || asked == GgmlType::TQ2_0;
    if shape.len() <= 1 {
        (GgmlType::F32, Reason::Vector)
    } else if name.ends_with("_norm.weight") {
        (GgmlType::F32, Reason::Norm)
    } else if CONVOLUTIONS.iter().any(|convolution| name.starts_with(convolution)) {
        convolution(asked)
    } else if ![".weight", ".lora_a", ".lora_b"].iter().any(|suffix| name.ends_with(suffix)) {
        (GgmlType::F32, Reason::NotAWeight)
    } else if ALWAYS_F32.contains(&kind) {
        (GgmlType::F32, Reason::Precise)
    } else if is_ternary && NEVER_TERNARY.contains(&kind) {
        (GgmlType::F16, Reason::Half)
    } else {
        asked_type(shape, asked)
    }
}

/// The type of a convolution over image patches.
fn convolution(asked: GgmlType) -> (GgmlType, Reason) {
    if asked == GgmlType::F16 { (asked, Reason::Asked) } else { (GgmlType::F32, Reason::Precise) }
}

/// The requested type, or half precision if the row length is not a multiple of its block size.
pub(crate) fn asked_type(shape: &[u64], asked: GgmlType) -> (GgmlType, Reason) {
    match asked.tensor_bytes(shape.iter().copied()) {
        Ok(_) => (asked, Reason::Asked),
        Err(_) => (GgmlType::F16, Reason::Half),
    }
}

/// The reason for a type that is kept from the checkpoint instead of the requested type.
const STORED: Keep = Keep::Kind(&"the type in the checkpoint");

impl ModelPlan {
    /// Adds an output tensor; `shape` is in GGUF's order.
    pub(crate) fn add(&mut self, name: String, shape: Vec<u64>, op: Op) {
        let from = op.value_type();
        // If a tensor has several sources, the last determines the type, as in the reference.
        let last = op.inputs().iter().map(Input::index).max();
        let is_q8 = last.is_some_and(|last| self.as_q8.binary_search(&last).is_ok());
        let (ty, reason) = match tensor_type(&name, &shape, self.ty) {
            _ if from == GgmlType::I32 => (from, Reason::Kept(Keep::Kind(&"whole numbers"))),
            // Blocks are copied unchanged.
            _ if from.is_quantized() => (from, Reason::Kept(Keep::Kind(&"the blocks of the checkpoint"))),
            (_, Reason::NotAWeight | Reason::Precise | Reason::Half) if self.checkpoint.types.forces_type => {
                asked_type(&shape, self.ty)
            }
            (ty, _) if ty != GgmlType::F32 && self.checkpoint.types.precise.iter().any(|p| matches(p, &name)) => {
                (GgmlType::F32, Reason::Precise)
            }
            (_, reason @ (Reason::Vector | Reason::Norm)) if is_q8 => (GgmlType::F32, reason),
            _ if is_q8 => asked_type(&shape, GgmlType::Q8_0),
            (_, Reason::Vector) => (GgmlType::F32, Reason::Vector),
            _ if self.checkpoint.types.half.iter().any(|p| matches(p, &name)) => (GgmlType::F16, Reason::Half),
            _ if self.checkpoint.types.convolutions.iter().any(|p| matches(p, &name)) => convolution(self.ty),
            found => found,
        };
        self.push(name, shape, op, (ty, reason));
    }

    /// Adds an output tensor of a class whose matrices keep their stored type.
    pub(crate) fn add_as_stored(&mut self, name: String, shape: Vec<u64>, op: Op, stored: Option<Dtype>) {
        let decided = tensor_type(&name, &shape, self.ty);
        let is_single = matches!(decided.1, Reason::Vector | Reason::Norm);
        match stored {
            _ if is_single || op.value_type().is_quantized() || op.value_type() == GgmlType::I32 => {
                self.add(name, shape, op)
            }
            Some(Dtype::F32) => self.push(name, shape, op, (GgmlType::F32, Reason::Kept(STORED))),
            Some(Dtype::BF16) => self.push(name, shape, op, (GgmlType::BF16, Reason::Kept(STORED))),
            Some(Dtype::SCALED_F8) => {
                let (ty, _) = asked_type(&shape, GgmlType::Q8_0);
                self.push(name, shape, op, (ty, Reason::Kept(STORED)));
            }
            _ => self.add(name, shape, op),
        }
    }

    fn push(&mut self, name: String, shape: Vec<u64>, op: Op, (ty, reason): (GgmlType, Reason)) {
        let place = SourcePlace { file: 0, offset: self.tensors.len() as u64 };
        self.tensors.push(TensorPlan::new(name, shape, ty, reason, op).at(place));
    }

    /// Adds an integer tensor, unchanged from the source.
    pub(crate) fn add_ids(&mut self, name: &str, index: usize, source: &SourceTensor) {
        let input = Input::new(index, &source.name, GgmlType::I64);
        let place = SourcePlace { file: 0, offset: self.tensors.len() as u64 };
        let reason = Reason::Kept(Keep::Kind(&"token ids"));
        let shape: Shape = source.shape.iter().rev().copied().collect();
        let plan = TensorPlan::new(name, shape, GgmlType::I64, reason, Op::Copy(input));
        self.tensors.push(plan.at(place));
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &'static str) {
        self.skipped.push(Skipped { name: name.to_owned(), reason });
    }
}

/// The source as input of an operation on floats, or on blocks that are moved as units.
///
/// # Errors
/// If its number format is not a plain float.
pub(crate) fn float_input(index: usize, source: &SourceTensor) -> Result<Input, PlanError> {
    match source.dtype.ggml {
        Some(
            ty @ (GgmlType::F16 | GgmlType::BF16 | GgmlType::F32 | GgmlType::F64 | GgmlType::MXFP4 | GgmlType::NVFP4),
        ) => Ok(Input::new(index, &source.name, ty)),
        _ => Err(PlanError::Dtype { tensor: source.name.clone(), dtype: source.dtype }),
    }
}

/// An error in planning a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The configuration is invalid.
    Config(config::Error),
    /// The class of checkpoints is not supported.
    UnsupportedArchitecture {
        /// The class.
        class: String,
        /// The supported classes with the most similar names.
        supported: Vec<&'static str>,
    },
    /// No image or audio encoder is supported for the class of checkpoints.
    UnsupportedTower {
        /// The class.
        class: String,
        /// The supported classes with the most similar names.
        supported: Vec<&'static str>,
    },
    /// The checkpoint has no tensors of an image or audio encoder.
    NoTower,
    /// Tensors without a configuration that match no known image model.
    UnsupportedImages {
        /// The titles of the supported models.
        supported: Vec<&'static str>,
    },
    /// An image model in the diffusers layout, which no GGUF loader supports for this model.
    DiffusersLayout {
        /// A tensor that occurs only in that layout.
        tensor: String,
        /// The title of the model.
        model: &'static str,
    },
    /// A type that is not supported for image models.
    ImageType {
        /// The type.
        ty: GgmlType,
    },
    /// The original shape of a reshaped tensor has a dimension that is too large for its key.
    LongDimension {
        /// The name in the checkpoint.
        tensor: String,
        /// The shape in the checkpoint; the last dimension is contiguous.
        shape: Vec<u64>,
    },
    /// The packing method of the weights is not supported.
    Quantized {
        /// The method.
        method: String,
        /// The supported methods.
        supported: &'static [&'static str],
    },
    /// A tensor of packed weights that is inconsistent with the others.
    Packed {
        /// The name in the checkpoint.
        tensor: String,
        /// The error.
        problem: String,
    },
    /// Tensors that are unknown to the architecture.
    Unmapped {
        /// Their names, in checkpoint order.
        tensors: Vec<String>,
        /// The architecture name in GGUF.
        architecture: &'static str,
        /// Number of blocks according to the configuration.
        n_blocks: u64,
    },
    /// A tensor whose number format is not a plain float.
    Dtype {
        /// The name in the checkpoint.
        tensor: String,
        /// Its number format.
        dtype: Dtype,
    },
    /// A tensor with a dimension that contradicts the configuration.
    Shape {
        /// The name in the checkpoint.
        tensor: String,
        /// The shape in the checkpoint; the last dimension is contiguous.
        shape: Vec<u64>,
        /// The index of the dimension in the output; 0 is contiguous.
        axis: usize,
        /// The actual length.
        found: u64,
        /// The length according to the configuration.
        expected: u64,
        /// What determines the length.
        origin: Box<Origin>,
    },
    /// A tensor whose shape does not match the architecture's pattern.
    Pattern {
        /// The name in the checkpoint.
        tensor: String,
        /// The shape in the checkpoint; the last dimension is contiguous.
        shape: Vec<u64>,
        /// The mismatch.
        problem: String,
    },
    /// Tensors to be merged have different shapes.
    Shapes {
        /// Name of the output tensor.
        name: String,
        /// The checkpoint name of the first tensor that differs.
        tensor: String,
        /// Its shape.
        found: Vec<u64>,
    },
    /// Tensors to be merged have different number formats, one of which has blocks.
    Mixed {
        /// Name of the output tensor.
        name: String,
        /// The checkpoint name of the first tensor that differs.
        tensor: String,
    },
    /// Some of the tensors to be merged are missing.
    Incomplete {
        /// Name of the output tensor.
        name: String,
        /// The actual number.
        found: u64,
        /// The expected number.
        expected: u64,
        /// What determines the number.
        origin: Box<Origin>,
        /// The checkpoint name of the first missing or superfluous tensor.
        tensor: String,
    },
    /// A tensor that the architecture does not use, and that may be omitted only if it is zero.
    NotZero {
        /// The name in the checkpoint.
        tensor: String,
        /// The architecture name in GGUF.
        architecture: &'static str,
    },
    /// The configuration requires an unsupported conversion.
    Refused {
        /// The architecture name in GGUF.
        architecture: &'static str,
        /// The unsupported requirement.
        what: &'static str,
    },
    /// The multi-token prediction blocks of the architecture are not written separately.
    NotSeparate {
        /// The architecture name in GGUF.
        architecture: &'static str,
        /// The requested handling.
        asked: Mtp,
    },
    /// Only the multi-token prediction blocks were requested, and the checkpoint has none.
    NoMtp {
        /// The architecture name in GGUF.
        architecture: &'static str,
    },
    /// A tensor that the architecture needs is missing.
    Missing {
        /// Its usual name in a checkpoint.
        tensor: String,
        /// Name of the output tensor.
        name: String,
    },
    /// An error in the tables of the architecture; tests exclude it.
    Table {
        /// The row.
        key: &'static str,
        /// The error.
        problem: String,
    },
    /// llama.cpp does not support these fused tensors for the architecture.
    NotFused {
        /// The architecture name in GGUF.
        architecture: &'static str,
        /// The tensors to be fused.
        what: &'static str,
    },
    /// A tensor that cannot be fused with the others.
    Unfusable {
        /// Name of the fused tensor.
        name: String,
        /// The tensor's name in the checkpoint.
        tensor: String,
        /// The error.
        problem: String,
    },
    /// Two source tensors map to the same output tensor.
    Duplicate {
        /// Name of the output tensor.
        name: String,
    },
}

impl From<config::Error> for PlanError {
    fn from(e: config::Error) -> PlanError {
        PlanError::Config(e)
    }
}

impl PlanError {
    /// Adds the fields of the configuration that determine an expected length or number; `find` returns those of GGUF keys.
    pub(crate) fn with_fields(mut self, find: impl Fn(&str) -> Vec<String>) -> PlanError {
        if let PlanError::Shape { origin, .. } | PlanError::Incomplete { origin, .. } = &mut self {
            for field in origin.keys.iter().flat_map(|key| find(key)) {
                if !origin.fields.contains(&field) {
                    origin.fields.push(field);
                }
            }
        }
        self
    }

    /// The checkpoint name of the affected tensor, if the checkpoint contains it.
    pub fn tensor(&self) -> Option<&str> {
        match self {
            PlanError::Unmapped { tensors, .. } => tensors.first().map(String::as_str),
            PlanError::Dtype { tensor, .. }
            | PlanError::Shape { tensor, .. }
            | PlanError::Pattern { tensor, .. }
            | PlanError::Packed { tensor, .. }
            | PlanError::Shapes { tensor, .. }
            | PlanError::Mixed { tensor, .. }
            | PlanError::Incomplete { tensor, .. }
            | PlanError::LongDimension { tensor, .. }
            | PlanError::Unfusable { tensor, .. }
            | PlanError::DiffusersLayout { tensor, .. }
            | PlanError::NotZero { tensor, .. } => Some(tensor),
            _ => None,
        }
    }
}

impl fmt::Display for PlanError {
    #[allow(clippy::too_many_lines, reason = "one match over all errors")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Config(e) => write!(f, "config.json: {e}"),
            PlanError::UnsupportedArchitecture { class, supported } => {
                write!(
                    f,
                    "the architecture {class:?} is not supported; the nearest supported are {}",
                    supported.join(", ")
                )
            }
            PlanError::UnsupportedTower { class, supported } => write!(
                f,
                "no encoder of images or sound is supported for the architecture {class:?}; the nearest supported are {}",
                supported.join(", ")
            ),
            PlanError::NoTower => f.write_str("the checkpoint has no tensors of an encoder of images or sound"),
            PlanError::UnsupportedImages { supported } => write!(
                f,
                "no config.json of a language model, and the tensors match none of the supported image models: {}",
                supported.join(", ")
            ),
            PlanError::DiffusersLayout { tensor, model } => write!(
                f,
                "the tensor {tensor:?} has the diffusers layout of {model}, which GGUF loaders do not support; convert the original \
                 checkpoint instead"
            ),
            PlanError::ImageType { ty } => {
                write!(f, "an image model is converted to f32, f16 or bf16; quantize the result to {ty}")
            }
            PlanError::LongDimension { tensor, shape } => {
                write!(
                    f,
                    "the tensor {tensor:?} has the shape {shape:?}; dimensions of a reshaped tensor are below 2^31"
                )
            }
            PlanError::Quantized { method, supported } => write!(
                f,
                "config.json: the weights are packed with the method {method:?}, which is not supported; supported are {}",
                supported.join(", ")
            ),
            PlanError::Packed { tensor, problem } => write!(f, "the tensor {tensor:?} of packed weights {problem}"),
            PlanError::Unmapped { tensors, architecture, n_blocks } => {
                match tensors.as_slice() {
                    [tensor] => write!(f, "the tensor {tensor:?} has")?,
                    _ => write!(f, "{} tensors have", tensors.len())?,
                }
                write!(f, " no place in the architecture {architecture} with {n_blocks} blocks")?;
                if tensors.len() > 1 {
                    write!(f, ": {}", Patterns(tensors))?;
                }
                f.write_str("; does config.json belong to this checkpoint?")
            }
            PlanError::Dtype { tensor, dtype } => {
                write!(f, "the tensor {tensor:?} has the format {dtype}, expected F16, BF16, F32 or F64")
            }
            PlanError::Shape { tensor, shape, axis, found, expected, origin } => write!(
                f,
                "the tensor {tensor:?} has the shape {shape:?}, which makes dimension {axis} of the output {found}, expected {expected} \
                 ({origin}); does config.json belong to this checkpoint?"
            ),
            PlanError::Pattern { tensor, shape, problem } => write!(
                f,
                "the tensor {tensor:?} has the shape {shape:?}: {problem}; does config.json belong to this checkpoint?"
            ),
            PlanError::Shapes { name, tensor, found } => write!(
                f,
                "the tensor {tensor:?} has the shape {found:?}, but the preceding parts of {name} have a different shape"
            ),
            PlanError::Mixed { name, tensor } => {
                write!(f, "the tensor {tensor:?} has a different number format than the preceding parts of {name}")
            }
            PlanError::Incomplete { name, found, expected, origin, tensor } => {
                write!(f, "{name} is made of {expected} tensors")?;
                if !origin.expression.is_empty() {
                    write!(f, " ({origin})")?;
                }
                let what = if found < expected { "is missing" } else { "is one too many" };
                write!(
                    f,
                    ", and the checkpoint has {found}: {tensor:?} {what}; does config.json belong to this checkpoint?"
                )
            }
            PlanError::NotZero { tensor, architecture } => {
                write!(f, "the tensor {tensor:?} is not zero, and the architecture {architecture} has no place for it")
            }
            PlanError::Refused { architecture, what } => {
                write!(f, "config.json: the conversion to {architecture} does not support {what}")
            }
            PlanError::NotSeparate { architecture, asked } => {
                let what = if *asked == Mtp::Only { "written alone" } else { "omitted" };
                write!(f, "multi-token prediction blocks of the architecture {architecture} cannot be {what}")
            }
            PlanError::NoMtp { architecture } => {
                write!(f, "the checkpoint has no multi-token prediction blocks of the architecture {architecture}")
            }
            PlanError::Missing { tensor, name } => {
                write!(f, "the tensor {tensor:?}, which becomes {name}, is missing; is the checkpoint complete?")
            }
            PlanError::Table { key, problem } => {
                write!(f, "the tables of the architecture are wrong at {key}: {problem}")
            }
            PlanError::NotFused { architecture, what } => {
                write!(f, "llama.cpp does not load fused {what} of the architecture {architecture}")
            }
            PlanError::Unfusable { name, tensor, problem } => {
                write!(f, "the tensor {tensor:?} cannot become a part of {name}: it {problem}")
            }
            PlanError::Duplicate { name } => write!(f, "two tensors of the checkpoint both become {name}"),
        }
    }
}

/// What determines an expected length or number.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// An expression over keys, such as `2 × feed_forward_length`; empty for a number that no key determines.
    pub expression: String,
    /// The GGUF keys in it, without the architecture prefix.
    pub keys: Vec<&'static str>,
    /// The fields of `config.json` that these keys come from.
    pub fields: Vec<String>,
}

impl Origin {
    pub(crate) fn of_size(size: Dim) -> Origin {
        let expr = size.expr();
        Origin { expression: expr.to_string(), keys: expr.keys().collect(), fields: Vec::new() }
    }

    pub(crate) fn of_fewer_dimensions() -> Origin {
        Origin { expression: "one dimension less".to_owned(), ..Origin::default() }
    }

    pub(crate) fn of_key(key: &'static str) -> Origin {
        Origin { expression: key.to_owned(), keys: vec![key], fields: Vec::new() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expression)?;
        match self.fields.as_slice() {
            [] => Ok(()),
            fields => write!(f, ", from {} of config.json", fields.join(", ")),
        }
    }
}

/// Formats tensor names for a message: names that differ only in numbers are merged, with `*` in place of the numbers.
struct Patterns<'a>(&'a [String]);

impl fmt::Display for Patterns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let pattern = |name: &str| {
            let parts: Vec<&str> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
            parts.join(".")
        };
        // In checkpoint order.
        let mut patterns: Vec<(String, &str, usize)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for name in self.0 {
            let place = *places.entry(pattern(name)).or_insert(patterns.len());
            match patterns.get_mut(place) {
                Some((.., n)) => *n += 1,
                None => patterns.push((pattern(name), name, 1)),
            }
        }
        for (i, (pattern, name, n)) in patterns.iter().take(SHOWN).enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match n {
                1 => write!(f, "{name:?}")?,
                n => write!(f, "{pattern:?} ({n} tensors)")?,
            }
        }
        match patterns.iter().skip(SHOWN).map(|(.., n)| n).sum::<usize>() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl core::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            PlanError::Config(e) => e.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(dtype: Dtype, shape: &[u64]) -> SourceTensor {
        SourceTensor { name: "x".to_owned(), dtype, shape: shape.to_vec() }
    }

    #[test]
    fn auto_takes_the_first_matrix_of_16_bits() {
        let (f32, f16, bf16) = (Dtype::F32, Dtype::F16, Dtype::BF16);
        type Tensors<'a> = &'a [(Dtype, &'a [u64])];
        let cases: &[(Tensors<'_>, GgmlType)] = &[
            (&[], GgmlType::F16),
            (&[(f32, &[2, 2])], GgmlType::F16),
            (&[(bf16, &[2]), (f16, &[2, 2]), (bf16, &[2, 2])], GgmlType::F16),
            (&[(f32, &[2, 2]), (f16, &[4]), (bf16, &[2, 2]), (f16, &[2, 2])], GgmlType::BF16),
        ];
        for (sources, expected) in cases {
            let sources: Vec<_> = sources.iter().map(|(d, s)| source(*d, s)).collect();
            assert_eq!(OutType::Auto.resolve(&sources), *expected, "{sources:?}");
            assert_eq!(OutType::F32.resolve(&sources), GgmlType::F32);
        }
    }

    #[test]
    fn the_first_rule_decides_the_type() {
        let cases = [
            ("blk.0.attn_q.weight", 2, GgmlType::BF16, Reason::Asked),
            ("blk.0.attn_q.weight", 1, GgmlType::F32, Reason::Vector),
            ("blk.0.attn_norm.weight", 2, GgmlType::F32, Reason::Norm),
            ("output_norm.weight", 1, GgmlType::F32, Reason::Vector),
            ("blk.0.attn_q.bias", 2, GgmlType::F32, Reason::NotAWeight),
            ("token_embd", 2, GgmlType::F32, Reason::NotAWeight),
            ("blk.0.attn_q.lora_a", 3, GgmlType::BF16, Reason::Asked),
            ("blk.3.ffn_gate_inp.weight", 2, GgmlType::F32, Reason::Precise),
            ("position_embd.weight", 2, GgmlType::F32, Reason::Precise),
        ];
        for (name, n_dims, ty, reason) in cases {
            assert_eq!(tensor_type(name, &[32; 4][..n_dims], GgmlType::BF16), (ty, reason), "{name}");
        }
        let ternary = |name, row| tensor_type(name, &[row, 4], GgmlType::TQ2_0);
        assert_eq!(ternary("blk.0.ffn_up.weight", 256), (GgmlType::TQ2_0, Reason::Asked));
        assert_eq!(ternary("blk.0.ffn_up.weight", 128), (GgmlType::F16, Reason::Half));
        assert_eq!(ternary("output.weight", 256), (GgmlType::F16, Reason::Half));
    }

    #[test]
    fn sizes_of_source_tensors() {
        assert_eq!(Dtype::BF16.tensor_bytes(&[3, 5]), Some(30));
        assert_eq!(Dtype::F64.tensor_bytes(&[]), Some(8));
        assert_eq!(Dtype::F32.tensor_bytes(&[0, 5]), Some(0));
        assert_eq!(Dtype::F32.tensor_bytes(&[1 << 62, 4]), None);
        assert_eq!(Dtype::F32.tensor_bytes(&[1 << 32, 1 << 32]), None);
        assert_eq!(Dtype::from_name("F4").unwrap().tensor_bytes(&[3]), None);
        assert_eq!(Dtype::from_name("f32"), None);
    }
}
