//! What an architecture makes of a checkpoint, decided before a single weight is read.
//!
//! A [`ModelPlan`] is made from the hyperparameters and the list of source tensors (name, number format, shape). It lists the
//! output tensors in file order, each with its type, the reason for that type, and the operation that makes its data; and
//! the architecture's key-values in file order.

use core::fmt;
use gguf_format::{GgmlType, Value};
use gguf_pipeline::plan::{Input, Op, Place, Reason, TensorPlan};

use crate::config;
use crate::dtype::{Dtype, SourceTensor};
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
pub struct ModelPlan {
    /// GGUF's name of the architecture.
    pub architecture: &'static str,
    /// The type of ordinary matrices.
    pub ty: GgmlType,
    /// The architecture's key-values in file order; `general.file_type` is one of them.
    pub parameters: Vec<(String, Value)>,
    /// The output tensors in file order.
    pub tensors: Vec<TensorPlan>,
    /// The source tensors that are left out.
    pub skipped: Vec<Skipped>,
    /// What the user should know.
    pub warnings: Vec<ArchitectureWarning>,
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

impl ModelPlan {
    /// Adds an output tensor; `shape` is in GGUF's order.
    pub(crate) fn add(&mut self, name: String, shape: Vec<u64>, op: Op) {
        let (ty, reason) = tensor_type(&name, shape.len(), self.ty);
        let from = op.input().map_or(GgmlType::F32, |input| input.ty);
        let offset = self.tensors.len() as u64;
        let place = Place { file: 0, offset };
        self.tensors.push(TensorPlan { from, place, ..TensorPlan::new(name, shape, ty, reason, op) });
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &'static str) {
        self.skipped.push(Skipped { name: name.to_owned(), reason });
    }
}

/// A source as input of an operation on floats.
///
/// # Errors
/// When its number format is not a plain float.
pub(crate) fn float_input(index: usize, source: &SourceTensor) -> Result<Input, PlanError> {
    match source.dtype.ggml {
        Some(ty @ (GgmlType::F16 | GgmlType::BF16 | GgmlType::F32 | GgmlType::F64)) => {
            Ok(Input { index, name: source.name.clone(), ty })
        }
        _ => Err(PlanError::Dtype { tensor: source.name.clone(), dtype: source.dtype }),
    }
}

/// Why there is no plan for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The configuration cannot be used.
    Config(config::Error),
    /// No architecture is known for that class of checkpoints.
    UnsupportedArchitecture {
        /// The class.
        class: String,
        /// The classes that there are, in alphabetical order.
        supported: Vec<&'static str>,
    },
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
    /// A tensor whose number format is not a plain float.
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
            PlanError::UnsupportedArchitecture { class, supported } => {
                write!(f, "the architecture {class:?} is not supported; supported are {}", supported.join(", "))
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
