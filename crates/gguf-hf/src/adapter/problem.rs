//! Errors of LoRA adapters.

use std::fmt;

use gguf_format::GgmlType;

/// Why a LoRA adapter cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdapterProblem {
    /// The folder of the base model is not given, and the adapter's folder has no `config.json`.
    NoBase {
        /// The base model that `adapter_config.json` names.
        named: Option<String>,
    },
    /// A base model is given, but the folder is not an adapter.
    NotAnAdapter,
    /// The folder has neither `adapter_model.safetensors` nor `adapter_model.bin`.
    NoWeights {
        /// A file of weights in another format, if there is one.
        found: Option<String>,
    },
    /// A field of `adapter_config.json` has a value that cannot be used.
    Field {
        /// The field.
        field: String,
        /// The value found, shortened.
        found: String,
        /// The expected values.
        expected: &'static str,
    },
    /// The adapter has a feature that GGUF adapters do not support.
    Unsupported {
        /// The feature.
        what: &'static str,
    },
    /// One of the two factors of a matrix is missing.
    Unpaired {
        /// The tensor that is present.
        tensor: String,
        /// The name suffix of the missing one.
        missing: &'static str,
    },
    /// The shapes of the two factors do not match, or they are not matrices.
    Factors {
        /// The tensor of the first factor.
        tensor: String,
        /// Its shape.
        first: Vec<u64>,
        /// The shape of the second factor.
        second: Vec<u64>,
    },
    /// The adapter has a tensor that is neither a factor nor a norm.
    Unexpected {
        /// The tensor.
        tensor: String,
    },
    /// The adapter changes a tensor that the base model does not have in llama.cpp's layout.
    Unused {
        /// The tensor.
        tensor: String,
        /// Why.
        reason: &'static str,
    },
    /// The conversion of the base model changes the tensor in a way that is not possible on its two factors.
    NotAProduct {
        /// Name of the output tensor.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The output type is not supported for adapters.
    Type(GgmlType),
}

impl fmt::Display for AdapterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdapterProblem::NoBase { named: Some(named) } => write!(
                f,
                "the adapter's base model is {named:?}, and the conversion needs the config.json of that model"
            ),
            AdapterProblem::NoBase { named: None } => {
                f.write_str("the conversion needs the config.json of the adapter's base model")
            }
            AdapterProblem::NotAnAdapter => {
                f.write_str("a base model is given, but the folder has no adapter_config.json")
            }
            AdapterProblem::NoWeights { found: None } => {
                f.write_str("neither adapter_model.safetensors nor adapter_model.bin in the folder")
            }
            AdapterProblem::NoWeights { found: Some(found) } => {
                write!(f, "neither adapter_model.safetensors nor adapter_model.bin in the folder, but {found:?}")
            }
            AdapterProblem::Field { field, found, expected } => {
                write!(f, "the field {field} is {found}, expected {expected}")
            }
            AdapterProblem::Unsupported { what } => {
                write!(
                    f,
                    "the adapter has {what}, which a GGUF adapter cannot hold; merge it into its base model instead"
                )
            }
            AdapterProblem::Unpaired { tensor, missing } => {
                write!(f, "the tensor {tensor:?} has no counterpart {missing:?}; is the file complete?")
            }
            AdapterProblem::Factors { tensor, first, second } => write!(
                f,
                "the tensor {tensor:?} has the shape {first:?} and its counterpart {second:?}, expected [rank, columns] and [rows, rank]"
            ),
            AdapterProblem::Unexpected { tensor } => write!(
                f,
                "the tensor {tensor:?} is neither a factor (lora_A, lora_B) nor a norm, and a GGUF adapter holds nothing else; merge the \
                 adapter into its base model instead"
            ),
            AdapterProblem::Unused { tensor, reason } => {
                write!(f, "the adapter changes {tensor:?}, which the base model does not have in llama.cpp: {reason}")
            }
            AdapterProblem::NotAProduct { name, why } => {
                write!(f, "no adapter for {name}: {why}; merge the adapter into its base model instead")
            }
            AdapterProblem::Type(ty) => {
                write!(f, "adapters cannot be written as {ty}, expected f32, f16, bf16 or q8_0")
            }
        }
    }
}

impl std::error::Error for AdapterProblem {}
