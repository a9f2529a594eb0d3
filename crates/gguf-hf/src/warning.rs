//! What the user of a conversion should know, though it can be run.

use std::fmt;

use gguf_format::check::Finding;

use crate::metadata::MetadataWarning;
use crate::tokenizer::TokenizerWarning;

/// Something odd about a conversion.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Warning {
    /// About the configuration, as the architecture takes it.
    Architecture(ArchitectureWarning),
    /// About the model card and other metadata.
    Metadata(MetadataWarning),
    /// About the tokenizer.
    Tokenizer(TokenizerWarning),
    /// About an adapter.
    Adapter(AdapterWarning),
    /// What the check of models finds in the head of the output. The reference writes such files too, but they may not load.
    Output(Finding),
    /// How many more such findings there are.
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

/// Something odd about an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdapterWarning {
    /// The adapter replaces a norm.
    Norm {
        /// Name of the output tensor.
        name: String,
    },
    /// The adapter changes the output matrix, and the base model uses its embeddings for it.
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

/// Something odd about a configuration, as the architecture takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchitectureWarning {
    /// A type of rotary scaling is left out, because the architecture has no counterpart.
    RopeScaling {
        /// GGUF's name of the architecture.
        architecture: &'static str,
        /// The type of scaling.
        kind: String,
    },
    /// Tensors are to be fused, and none are.
    NothingToFuse {
        /// GGUF's name of the architecture.
        architecture: &'static str,
        /// The tensors.
        what: &'static str,
        /// Whether llama.cpp loads the fused tensor.
        is_supported: bool,
    },
    /// No tensor is decoded from floats of eight bits with scales.
    NoFp8,
    /// The checkpoint has no dense layers after the pooling, or the architecture has no place for them.
    NoDenseModules,
    /// A choice for Mistral's own layout, and a checkpoint in another.
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
