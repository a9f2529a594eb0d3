//! Warnings about the input or the output of an operation.

use std::fmt;

/// A warning for the user: its message is complete. Feature `edit`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Warning {
    /// Values became infinite, because their new type has a smaller range.
    Overflow(gguf_pipeline::Overflow),
    /// A tensor exceeds the limit of a file on its own.
    TooLarge {
        /// The tensor's name, safe to print.
        tensor: String,
    },
    /// About a checkpoint and its conversion. Feature `hf`.
    #[cfg(feature = "hf")]
    Convert(gguf_hf::Warning),
    /// About a quantization. Feature `quantize`.
    #[cfg(feature = "quantize")]
    Quantize(gguf_quantize::Warning),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Overflow(overflow) => write!(f, "{overflow}"),
            Warning::TooLarge { tensor } => {
                write!(f, "{tensor}: larger than the limit of a file, and in a file of its own")
            }
            #[cfg(feature = "hf")]
            Warning::Convert(warning) => write!(f, "{warning}"),
            #[cfg(feature = "quantize")]
            Warning::Quantize(warning) => write!(f, "{warning}"),
        }
    }
}

#[cfg(feature = "hf")]
impl From<gguf_hf::Warning> for Warning {
    fn from(warning: gguf_hf::Warning) -> Warning {
        Warning::Convert(warning)
    }
}

#[cfg(feature = "quantize")]
impl From<gguf_quantize::Warning> for Warning {
    fn from(warning: gguf_quantize::Warning) -> Warning {
        Warning::Quantize(warning)
    }
}
