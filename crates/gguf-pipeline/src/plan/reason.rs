//! Why a tensor has the type it has.

use core::fmt;

/// Why a tensor stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Everything is copied.
    Copy,
    /// It has fewer than two dimensions.
    Vector,
    /// Its name does not end in `weight`.
    NotAWeight,
    /// It is the output matrix, which was to be left as it is.
    LeaveOutput,
    /// It is of a kind that loses too much, or is too small to matter: which one, in a few words.
    Kind(&'static str),
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keep::Copy => "everything is copied",
            Keep::Vector => "not a matrix",
            Keep::NotAWeight => "not a weight",
            Keep::LeaveOutput => "the output matrix is left as it is",
            Keep::Kind(kind) => kind,
        })
    }
}

/// Why a tensor has the type it has: the first rule that holds. `Display` says it in a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Converted vectors are always single precision.
    Vector,
    /// Converted norms are always single precision.
    Norm,
    /// Whatever is not a `.weight` is converted to single precision.
    NotAWeight,
    /// Converted matrices of this kind are always single precision.
    Precise,
    /// Converted tensors of so few elements are always single precision.
    Small,
    /// The type that a conversion was asked for does not suit the tensor, which is converted to half precision.
    Half,
    /// The type that a conversion was asked for.
    Asked,
    /// It is not quantized.
    Kept(Keep),
    /// The type that was chosen for token embeddings.
    TokenEmbeddingType,
    /// The type that was chosen for the output matrix.
    OutputTensorType,
    /// The rule of that number, from 0, among those that were given for names.
    TensorType(usize),
    /// The file type is one of plain floats.
    Float,
    /// All tensors get the file type's own type, without a mixture.
    Pure,
    /// A row of the mixtures.
    Rule {
        /// Its number in the table.
        row: usize,
        /// When it applies, in a few words.
        when: &'static str,
    },
    /// Values of models with 70 billion parameters, which are small because many heads share them.
    Raised70B,
    /// No row of the mixtures applies: the file type's own type.
    Own,
    /// What becomes of a layout that is not today's, in a few words.
    Layout(&'static str),
    /// Chosen to fit a size. No mixture gives this reason.
    Budget {
        /// The relative error that was measured, in millionths.
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
            Reason::Asked => "as asked",
            Reason::Kept(keep) => return write!(f, "kept: {keep}"),
            Reason::TokenEmbeddingType => "chosen for token embeddings",
            Reason::OutputTensorType => "chosen for the output matrix",
            Reason::TensorType(i) => return write!(f, "rule number {} for names", i.saturating_add(1)),
            Reason::Float => "the file type, of plain floats",
            Reason::Pure => "no mixture",
            Reason::Rule { when, .. } => when,
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
