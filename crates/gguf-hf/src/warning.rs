//! Conversion warnings, which do not prevent the conversion.

use std::fmt;

use gguf_format::check::Finding;

use crate::metadata::MetadataWarning;
use crate::tokenizer::TokenizerWarning;

/// A conversion warning.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Warning {
    /// About the configuration as interpreted by the architecture.
    Architecture(ArchitectureWarning),
    /// About the model card and other metadata.
    Metadata(MetadataWarning),
    /// About the tokenizer.
    Tokenizer(TokenizerWarning),
    /// About an adapter.
    Adapter(AdapterWarning),
    /// A finding of the model check about the output header. The reference also writes such files, but they may not load.
    Output(Finding),
    /// The number of further such findings.
    MoreOutput(usize),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Architecture(warning) => write!(f, "{warning}"),
            Warning::Metadata(warning) => write!(f, "{warning}"),
            Warning::Tokenizer(warning) => write!(f, "{warning}"),
            Warning::Adapter(warning) => write!(f, "{warning}"),
            Warning::Output(Finding { place, message, code, expected, .. }) => {
                write!(f, "the output will be invalid: {place}: {message} ({code}); expected {expected}")
            }
            Warning::MoreOutput(n) => {
                write!(f, "the output will be invalid: {n} more problems; check it to see all of them")
            }
        }
    }
}

/// A warning about an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdapterWarning {
    /// The adapter replaces a norm.
    Norm {
        /// Name of the output tensor.
        name: String,
    },
    /// The adapter changes the output matrix, which the base model ties to its embeddings.
    TiedHead,
}

impl fmt::Display for AdapterWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdapterWarning::Norm { name } => {
                write!(f, "the adapter replaces {name}; it is written, but llama.cpp ignores norms in adapters")
            }
            AdapterWarning::TiedHead => f.write_str(
                "the adapter changes the output matrix, but the base model uses its embeddings in place of one; llama.cpp loads the \
                 adapter only with a base file that has output.weight",
            ),
        }
    }
}

/// A warning about a configuration as interpreted by the architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchitectureWarning {
    /// A rotary scaling type is omitted, because the architecture has no counterpart.
    RopeScaling {
        /// The architecture name in GGUF.
        architecture: &'static str,
        /// The scaling type.
        kind: String,
    },
    /// Fusion was requested, but no tensors are fused.
    NothingToFuse {
        /// The architecture name in GGUF.
        architecture: &'static str,
        /// The tensors.
        what: &'static str,
        /// Whether llama.cpp supports the fused tensor.
        is_supported: bool,
    },
    /// No tensor is decoded from FP8 with scales.
    NoFp8,
    /// Only the multi-token prediction blocks are written, which llama.cpp does not load without the main blocks.
    OnlyMtp {
        /// The architecture name in GGUF.
        architecture: &'static str,
    },
    /// Tensors are stored as FP8 and have no scales.
    BareFp8 {
        /// Their names in the checkpoint; not empty.
        tensors: Vec<String>,
    },
    /// The checkpoint has no dense layers after the pooling, or the architecture does not support them.
    NoDenseModules,
    /// An option for Mistral's native layout is set, but the checkpoint has another layout.
    NotMistralLayout,
}

impl fmt::Display for ArchitectureWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchitectureWarning::RopeScaling { architecture, kind } => write!(
                f,
                "config.json asks for rotary scaling of the type {kind:?}, which has no counterpart in the architecture \
                 {architecture}; it is left out, so long contexts will not work as in the original"
            ),
            ArchitectureWarning::NothingToFuse { architecture, what, is_supported: false } => write!(
                f,
                "the {what} are not fused, because llama.cpp has no fused tensor for them in the architecture {architecture}"
            ),
            ArchitectureWarning::NoFp8 => f.write_str("the checkpoint has no FP8 tensors with scales to write as Q8_0"),
            ArchitectureWarning::OnlyMtp { architecture } => write!(
                f,
                "llama.cpp does not load the multi-token prediction blocks of the architecture {architecture} without its main blocks"
            ),
            ArchitectureWarning::BareFp8 { tensors } => {
                write!(f, "no scales for the FP8 data of ")?;
                match tensors.as_slice() {
                    [tensor] => write!(f, "the tensor {tensor:?}")?,
                    tensors => {
                        write!(f, "{} tensors, the first {:?}", tensors.len(), tensors.first().map_or("", String::as_str))?
                    }
                }
                f.write_str("; the values are taken unscaled, which is wrong if the scales have been lost")
            }
            ArchitectureWarning::NoDenseModules => f.write_str(
                "no dense modules are written: modules.json lists none, or llama.cpp has no place for them in the architecture",
            ),
            ArchitectureWarning::NotMistralLayout => f.write_str(
                "the checkpoint is not in Mistral's own layout (params.json and consolidated*.safetensors); its chat template is unaffected",
            ),
            ArchitectureWarning::NothingToFuse { what, .. } => {
                write!(f, "nothing is fused: no block of the checkpoint has separate {what}")
            }
        }
    }
}
