//! The plan: what a converted file will hold, decided before a single weight is read.
//!
//! A plan is made from the hyperparameters and the list of source tensors (name, number format, shape). It lists the
//! output tensors in file order, each with its type, the reason for that type, and the operation that makes its data; and
//! the architecture's key-values in file order. It can be printed and compared; making one costs nothing.

use core::fmt;
use std::collections::{BTreeMap, HashSet};

use gguf_format::{GgmlType, Value, n_elements};

use crate::arch::{self, ARCHITECTURES, Architecture};
use crate::config::{self, Config};

/// A number format of a checkpoint, under the name that safetensors uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dtype {
    /// The name: `BF16`.
    pub name: &'static str,
    /// Bits of one element.
    pub bits: u32,
    /// The GGUF type with the same elements, where there is one.
    pub ggml: Option<GgmlType>,
}

impl Dtype {
    /// Every format that safetensors defines (`Dtype` in its `tensor.rs`).
    pub const ALL: &[Dtype] = &[
        Dtype::new("BOOL", 8, None),
        Dtype::new("F4", 4, None),
        Dtype::new("F6_E2M3", 6, None),
        Dtype::new("F6_E3M2", 6, None),
        Dtype::new("U8", 8, None),
        Dtype::new("I8", 8, Some(GgmlType::I8)),
        Dtype::new("F8_E5M2", 8, None),
        Dtype::new("F8_E4M3", 8, None),
        Dtype::new("F8_E8M0", 8, None),
        Dtype::new("F8_E4M3FNUZ", 8, None),
        Dtype::new("F8_E5M2FNUZ", 8, None),
        Dtype::new("I16", 16, Some(GgmlType::I16)),
        Dtype::new("U16", 16, None),
        Dtype::F16,
        Dtype::BF16,
        Dtype::new("I32", 32, Some(GgmlType::I32)),
        Dtype::new("U32", 32, None),
        Dtype::F32,
        Dtype::new("C64", 64, None),
        Dtype::F64,
        Dtype::new("I64", 64, Some(GgmlType::I64)),
        Dtype::new("U64", 64, None),
    ];
    /// Half precision.
    pub const F16: Dtype = Dtype::new("F16", 16, Some(GgmlType::F16));
    /// bfloat16.
    pub const BF16: Dtype = Dtype::new("BF16", 16, Some(GgmlType::BF16));
    /// Single precision.
    pub const F32: Dtype = Dtype::new("F32", 32, Some(GgmlType::F32));
    /// Double precision.
    pub const F64: Dtype = Dtype::new("F64", 64, Some(GgmlType::F64));

    const fn new(name: &'static str, bits: u32, ggml: Option<GgmlType>) -> Dtype {
        Dtype { name, bits, ggml }
    }

    /// The format of that name; `None` for a name that safetensors does not define.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.iter().copied().find(|d| d.name == name)
    }

    /// Bytes of a tensor of this format; `None` when that is no whole number or does not fit 63 bits.
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let bits = n_elements(shape.iter().copied())?.checked_mul(u64::from(self.bits))?;
        (bits % 8 == 0).then_some(bits / 8)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A tensor of the checkpoint, as far as deciding needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTensor {
    /// The checkpoint's name.
    pub name: String,
    /// Number format.
    pub dtype: Dtype,
    /// Dimensions in the checkpoint's order: the last is the contiguous one.
    pub shape: Vec<u64>,
}

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
    /// The 16-bit type that all matrices of the checkpoint have, single precision if they have no such type in common: nothing is
    /// rounded, but for double precision.
    Lossless,
}

impl OutType {
    /// The type of that name: `auto`, `f32`, `f16` or `bf16`.
    pub fn from_name(name: &str) -> Option<OutType> {
        Some(match name {
            "auto" => OutType::Auto,
            "f32" => OutType::F32,
            "f16" => OutType::F16,
            "bf16" => OutType::BF16,
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

/// How an output tensor's data comes about.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// The source's elements in their order.
    Copy(Input),
    /// The source's rows in another order, within each of `heads` equal groups: a group of `d` rows is two halves, and
    /// row `2i + j` of the output is row `j * d/2 + i` of the group.
    ///
    /// Checkpoints rotate element `i` of a head together with element `i + d/2`, llama.cpp rotates neighbours.
    PermuteRows {
        /// The source.
        input: Input,
        /// Number of groups.
        heads: u64,
    },
    /// Values that the plan computed itself.
    Computed(Vec<f32>),
}

impl Op {
    /// The source tensor that is read, if any.
    pub fn input(&self) -> Option<&Input> {
        match self {
            Op::Copy(input) | Op::PermuteRows { input, .. } => Some(input),
            Op::Computed(_) => None,
        }
    }
}

/// A source tensor that an operation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its index in the list the plan was made from.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its type: the GGUF type with the same elements.
    pub ty: GgmlType,
}

/// Why a tensor has the type it has; the first rule that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Vectors are always single precision.
    Vector,
    /// Norms are always single precision.
    Norm,
    /// Whatever is not a `.weight` is always single precision.
    NotAWeight,
    /// The type that was asked for.
    Asked,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::Vector => "vector",
            Reason::Norm => "norm",
            Reason::NotAWeight => "not a weight",
            Reason::Asked => "as asked",
        })
    }
}

/// An output tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTensor {
    /// GGUF name.
    pub name: String,
    /// Dimensions in GGUF's order: the first is the contiguous one.
    pub shape: Vec<u64>,
    /// Its type.
    pub ty: GgmlType,
    /// Why it has that type.
    pub reason: Reason,
    /// How its data comes about.
    pub op: Op,
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
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// GGUF's name of the architecture.
    pub architecture: &'static str,
    /// The type of ordinary matrices.
    pub ty: GgmlType,
    /// The architecture's key-values in file order; `general.file_type` is one of them.
    pub parameters: Vec<(String, Value)>,
    /// The output tensors in file order.
    pub tensors: Vec<PlannedTensor>,
    /// The source tensors that are left out.
    pub skipped: Vec<Skipped>,
    /// What the user should know, a sentence each.
    pub warnings: Vec<String>,
}

impl Plan {
    /// Number of elements of all output tensors; `None` when it does not fit 63 bits.
    pub fn n_parameters(&self) -> Option<u64> {
        self.tensors.iter().try_fold(0u64, |sum, t| sum.checked_add(n_elements(t.shape.iter().copied())?))
    }
}

/// Makes the plan of a conversion.
///
/// `sources` are the checkpoint's tensors in the order in which they are written.
///
/// # Errors
/// [`PlanError`], which names the field or tensor.
pub fn plan(config: &Config, sources: &[SourceTensor], ty: OutType) -> Result<Plan, PlanError> {
    let architecture = arch::of_checkpoint(config)?;
    if let Some(method) = quantization_of(config)? {
        return Err(PlanError::Quantized(method));
    }
    let ty = ty.resolve(sources);
    let mut plan = Plan {
        architecture: architecture.name,
        ty,
        parameters: Vec::new(),
        tensors: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
    };
    (architecture.plan)(config, sources, &mut plan)?;
    let mut names = HashSet::with_capacity(plan.tensors.len());
    for tensor in &plan.tensors {
        if !names.insert(tensor.name.as_str()) {
            return Err(PlanError::Duplicate { name: tensor.name.clone() });
        }
    }
    Ok(plan)
}

/// The method with which a checkpoint's weights are packed, where `config.json` says that they are.
fn quantization_of(config: &Config) -> Result<Option<String>, config::Error> {
    const FIELD: &str = "quantization_config";
    if config.fields().find(&[FIELD]).is_none() {
        return Ok(None);
    }
    let inner = config::Fields::inner(config.hparams().get(FIELD), FIELD)?;
    Ok(Some(inner.str(&["quant_method"])?.unwrap_or("unnamed").to_owned()))
}

/// The type of an output tensor and why (`ModelBase.prepare_tensors`; the first rule that holds decides).
pub(crate) fn tensor_type(name: &str, n_dims: usize, asked: GgmlType) -> (GgmlType, Reason) {
    if n_dims <= 1 {
        (GgmlType::F32, Reason::Vector)
    } else if name.ends_with("_norm.weight") {
        (GgmlType::F32, Reason::Norm)
    } else if !name.ends_with(".weight") {
        (GgmlType::F32, Reason::NotAWeight)
    } else {
        (asked, Reason::Asked)
    }
}

impl Plan {
    /// Adds an output tensor; `shape` is in GGUF's order.
    pub(crate) fn add(&mut self, name: String, shape: Vec<u64>, op: Op) {
        let (ty, reason) = tensor_type(&name, shape.len(), self.ty);
        self.tensors.push(PlannedTensor { name, shape, ty, reason, op });
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &'static str) {
        self.skipped.push(Skipped { name: name.to_owned(), reason });
    }
}

impl Input {
    /// The source as input of an operation on floats.
    ///
    /// # Errors
    /// When its number format is no plain float.
    pub(crate) fn float(index: usize, source: &SourceTensor) -> Result<Input, PlanError> {
        match source.dtype.ggml {
            Some(ty @ (GgmlType::F16 | GgmlType::BF16 | GgmlType::F32 | GgmlType::F64)) => {
                Ok(Input { index, name: source.name.clone(), ty })
            }
            _ => Err(PlanError::Dtype { tensor: source.name.clone(), dtype: source.dtype }),
        }
    }
}

/// Why there is no plan for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// The configuration cannot be used.
    Config(config::Error),
    /// No architecture here goes by that name.
    UnsupportedArchitecture(String),
    /// The weights are packed in a way that is not read here.
    Quantized(String),
    /// A tensor that the architecture does not know.
    Unmapped {
        /// The checkpoint's name.
        tensor: String,
        /// GGUF's name of the architecture.
        architecture: &'static str,
        /// Number of blocks that the configuration says there are.
        n_blocks: u32,
    },
    /// A tensor whose number format is no plain float.
    Dtype {
        /// The checkpoint's name.
        tensor: String,
        /// Its format.
        dtype: Dtype,
    },
    /// Rows that cannot be shared out among the attention heads.
    Heads {
        /// The checkpoint's name.
        tensor: String,
        /// Number of rows found.
        rows: u64,
        /// Number of heads.
        heads: u64,
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

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Config(e) => write!(f, "config.json: {e}"),
            PlanError::UnsupportedArchitecture(name) => {
                let supported: BTreeMap<&str, ()> =
                    ARCHITECTURES.iter().flat_map(|a: &Architecture| a.classes).map(|c| (*c, ())).collect();
                let supported: Vec<&str> = supported.into_keys().collect();
                write!(f, "the architecture {name:?} is not supported; supported are {}", supported.join(", "))
            }
            PlanError::Quantized(method) => write!(
                f,
                "config.json: the weights are quantized (quant_method {method:?}), and only plain float weights are read; \
                 convert the original checkpoint"
            ),
            PlanError::Unmapped { tensor, architecture, n_blocks } => write!(
                f,
                "the tensor {tensor:?} has no place in the architecture {architecture} with {n_blocks} blocks; is \
                 config.json that of this checkpoint?"
            ),
            PlanError::Dtype { tensor, dtype } => {
                write!(f, "the tensor {tensor:?} has the format {dtype}, expected F16, BF16, F32 or F64")
            }
            PlanError::Heads { tensor, rows, heads } => write!(
                f,
                "the tensor {tensor:?} has {rows} rows, which {heads} attention heads cannot share in even numbers; is \
                 config.json that of this checkpoint?"
            ),
            PlanError::Duplicate { name } => write!(f, "two tensors of the checkpoint both become {name}"),
        }
    }
}

impl core::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            PlanError::Config(e) => Some(e),
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
        ];
        for (name, n_dims, ty, reason) in cases {
            assert_eq!(tensor_type(name, n_dims, GgmlType::BF16), (ty, reason), "{name}");
        }
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
