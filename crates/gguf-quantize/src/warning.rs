//! What the user of a plan should know, though it can be run.

use std::fmt;

use gguf_format::GgmlType;
use gguf_format::check::{Finding, Place, grouped};

/// Something odd about a plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// A rule for names that matches no tensor, as it was written.
    IdleRule(String),
    /// Something odd about the importance matrix, or how it fits the model.
    Imatrix(Finding),
    /// Tensors whose rows are not whole blocks of the type that they should get.
    Fallback {
        /// The first of them.
        first: String,
        /// How many more there are.
        n_more: u64,
        /// The type that they should get.
        wanted: GgmlType,
        /// The type that they get.
        ty: GgmlType,
        /// Elements of a row.
        row: u64,
    },
    /// Tensors of the model share their data, and in the output each has its own.
    Shared {
        /// Length of the model's files.
        input_bytes: u64,
        /// Bytes of the tensors' data when each is counted.
        tensor_bytes: u64,
        /// Length of the output.
        file_bytes: u64,
    },
    /// Every tensor gets the best of its candidate types, and the size is not used up.
    BestTypes {
        /// Length of the output.
        file_bytes: u64,
        /// Bits of tensor data for each weight.
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
                "tensors share data: {} bytes in a model of {}; the output stores each tensor separately, in a file of {} bytes",
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
