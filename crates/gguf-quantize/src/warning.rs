//! Warnings about a plan that can still be run.

use std::fmt;

use gguf_format::GgmlType;
use gguf_format::check::{Finding, Place, grouped};

/// A warning about a plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// A rule for names that matches no tensor, as given.
    IdleRule(String),
    /// A finding about the importance matrix, or its match with the model.
    Imatrix(Finding),
    /// Tensors whose rows are not whole blocks of the chosen type.
    Fallback {
        /// The first tensor.
        first: String,
        /// The number of further tensors.
        n_more: u64,
        /// The chosen type.
        wanted: GgmlType,
        /// The fallback type.
        ty: GgmlType,
        /// Elements of a row.
        row: u64,
    },
    /// Tensors of the model share data, but not in the output.
    Shared {
        /// Length of the model's files.
        input_bytes: u64,
        /// Bytes of the tensors' data without sharing.
        tensor_bytes: u64,
        /// Length of the output.
        file_bytes: u64,
    },
    /// Every tensor gets the best of its candidate types, and the size limit is not reached.
    BestTypes {
        /// Length of the output.
        file_bytes: u64,
        /// Bits of tensor data per weight.
        bits_per_weight: f64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::IdleRule(rule) => write!(f, "no tensor matches the rule {rule}"),
            Warning::Imatrix(finding) => {
                f.write_str("importance matrix: ")?;
                if finding.place != Place::File {
                    write!(f, "{}: ", finding.place)?;
                }
                write!(f, "{} ({}); expected {}", finding.message, finding.code, finding.expected)
            }
            Warning::Fallback { first, n_more, wanted, ty, row } => {
                f.write_str(first)?;
                if *n_more > 0 {
                    write!(f, " and {n_more} more")?;
                }
                write!(f, ": {ty} instead of {wanted}, whose blocks do not divide rows of {row}")
            }
            Warning::Shared { input_bytes, tensor_bytes, file_bytes } => write!(
                f,
                "tensors share data: {} bytes in a model of {}; the output stores each tensor separately, in a file of \
                 {} bytes",
                grouped(*tensor_bytes),
                grouped(*input_bytes),
                grouped(*file_bytes)
            ),
            Warning::BestTypes { file_bytes, bits_per_weight } => write!(
                f,
                "every tensor has the best candidate type: the file has {} bytes, {bits_per_weight:.2} bits per weight",
                grouped(*file_bytes)
            ),
        }
    }
}
