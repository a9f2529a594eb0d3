//! The reason for the type of a tensor.

use core::fmt;

/// The reason why a tensor is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Everything is copied.
    Copy,
    /// It has fewer than two dimensions.
    Vector,
    /// Its name does not end in `weight`.
    NotAWeight,
    /// It is the output matrix, which is kept on request.
    LeaveOutput,
    /// Its kind loses too much precision or is too small to matter; a description of the kind.
    Kind(&'static &'static str),
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keep::Copy => "everything is copied",
            Keep::Vector => "not a matrix",
            Keep::NotAWeight => "not a weight",
            Keep::LeaveOutput => "the output matrix, on request",
            Keep::Kind(kind) => kind,
        })
    }
}

/// A row of the mixtures of types.
#[derive(Debug, PartialEq, Eq)]
pub struct MixtureRow {
    /// The index in the table.
    pub index: usize,
    /// The condition, in a few words.
    pub when: String,
}

/// The reason for the type of a tensor: the first rule that applies. `Display` is a short description.
///
/// A model may have very many tensors, so texts are thin pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Converted vectors are always single precision.
    Vector,
    /// Converted norms are always single precision.
    Norm,
    /// Converted tensors other than `.weight` are always single precision.
    NotAWeight,
    /// Converted matrices of this kind are always single precision.
    Precise,
    /// Converted tensors up to this size are always single precision.
    Small,
    /// The requested type does not suit the tensor, which is converted to half precision.
    Half,
    /// The requested type of a conversion.
    Asked,
    /// It is not quantized.
    Kept(Keep),
    /// The type given for token embeddings.
    TokenEmbeddingType,
    /// The type given for the output matrix.
    OutputTensorType,
    /// The index of a rule given for names.
    TensorType(usize),
    /// The file type is a plain float type.
    Float,
    /// All tensors get the default type of the file type, without a mixture.
    Pure,
    /// A row of the mixtures.
    Rule(&'static MixtureRow),
    /// Values of models with 70 billion parameters, which are small because many heads share them.
    Raised70B,
    /// No row of the mixtures applies: the default type of the file type.
    Own,
    /// The conversion of an outdated layout, in a few words.
    Layout(&'static &'static str),
    /// Chosen to fit a size. No mixture uses this reason.
    Budget {
        /// The measured relative error, in millionths.
        relative_ppm: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Vector => "vector",
            Reason::Norm => "norm",
            Reason::Precise => "always single precision",
            Reason::Small => "few elements",
            Reason::Half => "half precision instead of the requested type",
            Reason::NotAWeight => "not a weight",
            Reason::Asked => "requested type",
            Reason::Kept(keep) => return write!(f, "kept: {keep}"),
            Reason::TokenEmbeddingType => "chosen for token embeddings",
            Reason::OutputTensorType => "chosen for the output matrix",
            Reason::TensorType(i) => return write!(f, "rule number {} for names", i.saturating_add(1)),
            Reason::Float => "the file type, of plain floats",
            Reason::Pure => "no mixture",
            Reason::Rule(row) => &row.when,
            Reason::Raised70B => "values: model of 70B",
            Reason::Own => "the file type",
            Reason::Layout(treatment) => treatment,
            Reason::Budget { relative_ppm: 0 } => "budget: exact",
            Reason::Budget { relative_ppm } => {
                return write!(f, "budget: relative error {:.2} %", f64::from(*relative_ppm) / 1e4);
            }
        })
    }
}
