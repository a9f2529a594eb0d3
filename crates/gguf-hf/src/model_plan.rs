//! What an architecture makes of a checkpoint, decided before a single weight is read.
//!
//! A [`ModelPlan`] is made from the hyperparameters and the list of source tensors (name, number format, shape). It lists the
//! output tensors in file order, each with its type, the reason for that type, and the operation that makes its data; and
//! the architecture's key-values in file order.

use core::fmt;
use std::collections::HashMap;

use gguf_format::{GgmlType, Value};
use gguf_model::arch::Checkpoint;
use gguf_pipeline::plan::{Input, Keep, Op, Place, Reason, TensorPlan};

use crate::arch::names::matches;
use crate::config;
use crate::dtype::{Dtype, SourceTensor};
use crate::formula::Fields;
use crate::warning::ArchitectureWarning;

/// The float type that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutType {
    /// The 16-bit type of the first matrix of the checkpoint, half precision when that has no 16-bit type.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    BF16,
    /// Blocks of 32 values of 8 bits.
    Q8_0,
    /// Ternary values, 1.69 bits each.
    TQ1_0,
    /// Ternary values, 2.06 bits each.
    TQ2_0,
    /// The 16-bit type that all matrices of the checkpoint have, single precision if they have no such type in common: nothing is
    /// rounded, but for double precision.
    Lossless,
}

impl OutType {
    /// The type of that name: `auto`, `f32`, `f16`, `bf16`, `q8_0`, `tq1_0` or `tq2_0`.
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

    /// The tensor type this asks for, given the checkpoint's tensors in order (`ModelBase.__init__`: the first tensor
    /// with two dimensions or more that is bfloat16 or half precision decides).
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

/// What becomes of the blocks that predict further tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NextTokens {
    /// They stand behind the model's own blocks.
    #[default]
    Included,
    /// They are left out.
    LeftOut,
    /// Only they are written, with the embeddings, the last norm and the output matrix.
    Only,
}

impl NextTokens {
    /// The field of the configuration that formulas ask for.
    pub(crate) const FIELD: &str = "next_tokens";

    /// The field's value.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            NextTokens::Included => None,
            NextTokens::LeftOut => Some("left_out"),
            NextTokens::Only => Some("only"),
        }
    }

    /// What the field says.
    pub(crate) fn of(fields: &Fields) -> NextTokens {
        let name = fields.fields.get(NextTokens::FIELD).and_then(|value| value.as_str());
        [NextTokens::LeftOut, NextTokens::Only].into_iter().find(|n| n.name() == name).unwrap_or_default()
    }
}

/// A source tensor that has no place in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The checkpoint's name.
    pub name: String,
    /// Why it is left out.
    pub reason: &'static str,
}

/// Everything that is decided about a conversion by the architecture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelPlan {
    /// GGUF's name of the architecture.
    pub architecture: &'static str,
    /// The type of ordinary matrices.
    pub ty: GgmlType,
    /// Sources that are left out because they are zero, by number; the one who has the data makes sure of it.
    pub zero: Vec<usize>,
    /// Key-values of the architecture that come before those of the model's name and origin.
    pub early: Vec<(String, Value)>,
    /// The architecture's key-values in file order; `general.file_type` is one of them.
    pub parameters: Vec<(String, Value)>,
    /// The output tensors in file order.
    pub tensors: Vec<TensorPlan>,
    /// The source tensors that are left out.
    pub skipped: Vec<Skipped>,
    /// What the user should know.
    pub warnings: Vec<ArchitectureWarning>,
    /// Sources, by number in ascending order, whose matrices become Q8_0.
    pub(crate) as_q8: Vec<usize>,
    /// The fields of the configuration, with what formulas set.
    pub(crate) fields: Fields,
    /// The class of checkpoints.
    pub(crate) checkpoint: &'static Checkpoint,
}

/// Matrices that are always in single precision (`ModelBase.prepare_tensors`), by their names without `blk.N.` and suffix.
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

/// Convolutions over patches of images, which are in half precision if that is asked for, otherwise in single precision
/// (`MmprojModel.tensor_force_quant`).
const CONVOLUTIONS: &[&str] = &["v.patch_embd.weight", "mm.patch_merger.weight"];

/// Matrices that ternary file types leave in half precision.
const NEVER_TERNARY: &[&str] =
    &["altup_router", "laurel_l", "laurel_r", "output", "per_layer_token_embd", "token_embd"];

/// The type of an output tensor and why (`ModelBase.prepare_tensors`; the first rule that holds decides).
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

/// The type of a convolution over patches of images.
fn convolution(asked: GgmlType) -> (GgmlType, Reason) {
    if asked == GgmlType::F16 { (asked, Reason::Asked) } else { (GgmlType::F32, Reason::Precise) }
}

/// The type that is asked for, or half precision where the rows are not whole blocks of it.
pub(crate) fn asked_type(shape: &[u64], asked: GgmlType) -> (GgmlType, Reason) {
    match asked.tensor_bytes(shape.iter().copied()) {
        Ok(_) => (asked, Reason::Asked),
        Err(_) => (GgmlType::F16, Reason::Half),
    }
}

/// Why matrices of a class that keeps types are not of the type that is asked for.
const STORED: Keep = Keep::Kind("the type in the checkpoint");

impl ModelPlan {
    /// Adds an output tensor; `shape` is in GGUF's order.
    pub(crate) fn add(&mut self, name: String, shape: Vec<u64>, op: Op) {
        let from = op.value_type();
        // Of a tensor with several sources the last decides, as in the reference.
        let last = op.inputs().iter().map(|input| input.index).max();
        let is_q8 = last.is_some_and(|last| self.as_q8.binary_search(&last).is_ok());
        let (ty, reason) = match tensor_type(&name, &shape, self.ty) {
            _ if from == GgmlType::I32 => (from, Reason::Kept(Keep::Kind("whole numbers"))),
            // Blocks are written as they are.
            _ if from.is_quantized() => (from, Reason::Kept(Keep::Kind("the blocks of the checkpoint"))),
            (_, Reason::NotAWeight | Reason::Precise | Reason::Half) if self.checkpoint.forces_type => {
                asked_type(&shape, self.ty)
            }
            (ty, _) if ty != GgmlType::F32 && self.checkpoint.precise.iter().any(|p| matches(p, &name)) => {
                (GgmlType::F32, Reason::Precise)
            }
            (_, reason @ (Reason::Vector | Reason::Norm)) if is_q8 => (GgmlType::F32, reason),
            _ if is_q8 => asked_type(&shape, GgmlType::Q8_0),
            (_, Reason::Vector) => (GgmlType::F32, Reason::Vector),
            _ if self.checkpoint.half.iter().any(|p| matches(p, &name)) => (GgmlType::F16, Reason::Half),
            _ if self.checkpoint.convolutions.iter().any(|p| matches(p, &name)) => convolution(self.ty),
            found => found,
        };
        self.push(name, shape, op, (ty, reason));
    }

    /// Adds an output tensor of a class whose matrices keep the type that they are stored in.
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
        let (from, place) = (op.value_type(), Place { file: 0, offset: self.tensors.len() as u64 });
        self.tensors.push(TensorPlan { from, place, ..TensorPlan::new(name, shape, ty, reason, op) });
    }

    /// Adds a tensor of whole numbers, as they are in the source.
    pub(crate) fn add_ids(&mut self, name: &str, index: usize, source: &SourceTensor) {
        let input = Input { index, name: source.name.clone(), ty: GgmlType::I64 };
        let place = Place { file: 0, offset: self.tensors.len() as u64 };
        let reason = Reason::Kept(Keep::Kind("token ids"));
        let shape = source.shape.iter().rev().copied().collect();
        let plan = TensorPlan::new(name.to_owned(), shape, GgmlType::I64, reason, Op::Copy(input));
        self.tensors.push(TensorPlan { from: GgmlType::I64, place, ..plan });
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &'static str) {
        self.skipped.push(Skipped { name: name.to_owned(), reason });
    }
}

/// A source as input of an operation on floats, or on blocks that are moved whole.
///
/// # Errors
/// When its number format is not a plain float.
pub(crate) fn float_input(index: usize, source: &SourceTensor) -> Result<Input, PlanError> {
    match source.dtype.ggml {
        Some(
            ty @ (GgmlType::F16 | GgmlType::BF16 | GgmlType::F32 | GgmlType::F64 | GgmlType::MXFP4 | GgmlType::NVFP4),
        ) => Ok(Input { index, name: source.name.clone(), ty }),
        _ => Err(PlanError::Dtype { tensor: source.name.clone(), dtype: source.dtype }),
    }
}

/// An error in planning the conversion of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The configuration cannot be used.
    Config(config::Error),
    /// No architecture is known for that class of checkpoints.
    UnsupportedArchitecture {
        /// The class.
        class: String,
        /// Supported classes with the most similar names.
        supported: Vec<&'static str>,
    },
    /// No encoder of images or sound is known for that class of checkpoints.
    UnsupportedTower {
        /// The class.
        class: String,
        /// Supported classes with the most similar names.
        supported: Vec<&'static str>,
    },
    /// The checkpoint has no tensors of the encoder of images or sound.
    NoTower,
    /// Tensors without a configuration, and of no image model that is known.
    UnsupportedImages {
        /// What the known ones are called.
        supported: Vec<&'static str>,
    },
    /// An image model in the layout of diffusers, which no loader of GGUF reads for this model.
    DiffusersLayout {
        /// A tensor that only that layout has.
        tensor: String,
        /// What the model is called.
        model: &'static str,
    },
    /// A type that an image model is not converted to.
    ImageType {
        /// The type.
        ty: GgmlType,
    },
    /// A dimension of a tensor that is stored with another shape, too long for the key of its own.
    LongDimension {
        /// The checkpoint's name.
        tensor: String,
        /// Its shape in the checkpoint, the contiguous dimension last.
        shape: Vec<u64>,
    },
    /// The weights are packed in a way that is not read here.
    Quantized {
        /// The method.
        method: String,
        /// The methods that are read.
        supported: &'static [&'static str],
    },
    /// A tensor of packed weights that does not fit the others.
    Packed {
        /// The checkpoint's name.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Tensors that the architecture does not know.
    Unmapped {
        /// All of them by their names in the checkpoint, in its order.
        tensors: Vec<String>,
        /// GGUF's name of the architecture.
        architecture: &'static str,
        /// Number of blocks that the configuration says there are.
        n_blocks: u64,
    },
    /// A tensor whose number format is not a plain float.
    Dtype {
        /// The checkpoint's name.
        tensor: String,
        /// Its format.
        dtype: Dtype,
    },
    /// A tensor with a dimension that does not agree with the configuration.
    Shape {
        /// The checkpoint's name.
        tensor: String,
        /// Its shape in the checkpoint, the contiguous dimension last.
        shape: Vec<u64>,
        /// The dimension in the output, counted from the contiguous one, from 0.
        axis: usize,
        /// The length found.
        found: u64,
        /// The length that the configuration asks for.
        expected: u64,
        /// The GGUF keys, without the name of the architecture, that say so.
        keys: &'static str,
    },
    /// A tensor whose shape cannot be taken apart as the architecture asks.
    Pattern {
        /// The checkpoint's name.
        tensor: String,
        /// Its shape in the checkpoint, the contiguous dimension last.
        shape: Vec<u64>,
        /// What does not fit.
        problem: String,
    },
    /// Tensors that become one have different shapes.
    Shapes {
        /// Name of the output tensor.
        name: String,
        /// The checkpoint's name of one that differs from those before it.
        tensor: String,
        /// Its shape.
        found: Vec<u64>,
    },
    /// Tensors that become one have different number formats.
    Mixed {
        /// Name of the output tensor.
        name: String,
        /// The checkpoint's name of one that differs from those before it.
        tensor: String,
    },
    /// Some of the tensors that become one are missing.
    Incomplete {
        /// Name of the output tensor.
        name: String,
        /// How many there are.
        found: u64,
        /// How many there have to be.
        expected: u64,
        /// The GGUF key, without the name of the architecture, that says so; empty where no key does.
        keys: &'static str,
        /// The checkpoint's name of the first that is missing, or of one too many.
        tensor: String,
    },
    /// A tensor that the architecture has no place for, and that could be left out only if it were zero.
    NotZero {
        /// The checkpoint's name.
        tensor: String,
        /// GGUF's name of the architecture.
        architecture: &'static str,
    },
    /// The configuration requires an unsupported conversion.
    Refused {
        /// GGUF's name of the architecture.
        architecture: &'static str,
        /// What it asks for.
        what: &'static str,
    },
    /// A tensor that the architecture needs is missing.
    Missing {
        /// The name that it usually has in a checkpoint.
        tensor: String,
        /// Name of the output tensor.
        name: String,
    },
    /// The tables of the architecture are wrong; tests rule that out.
    Table {
        /// The row.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// llama.cpp does not load fused tensors of that kind for the architecture.
    NotFused {
        /// GGUF's name of the architecture.
        architecture: &'static str,
        /// The tensors that would be fused.
        what: &'static str,
    },
    /// A tensor that cannot be fused with others.
    Unfusable {
        /// Name of the fused tensor.
        name: String,
        /// The checkpoint's name of the tensor.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Two source tensors become the same output tensor.
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
    /// The checkpoint's name of the tensor that the error is about, if the checkpoint has it.
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
                "no config.json of a language model, and the tensors are of none of the supported image models: {}",
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
            PlanError::Shape { tensor, shape, axis, found, expected, keys } => write!(
                f,
                "the tensor {tensor:?} has the shape {shape:?}, which makes dimension {axis} of the output {found}, expected {expected} \
                 ({keys}); does config.json belong to this checkpoint?"
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
            PlanError::Incomplete { name, found, expected, keys, tensor } => {
                write!(f, "{name} is made of {expected} tensors")?;
                if !keys.is_empty() {
                    write!(f, " ({keys})")?;
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

/// Names of tensors for a message: those that differ only in numbers are shown as one, with `*` in place of the numbers.
struct Patterns<'a>(&'a [String]);

impl fmt::Display for Patterns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let pattern = |name: &str| {
            let parts: Vec<&str> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
            parts.join(".")
        };
        // In the order of the checkpoint.
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
