//! The float types of outputs that are not GGUF.

use gguf_format::GgmlType;

/// A float type, as an option's value.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum FloatType {
    F32,
    F16,
    Bf16,
}

impl FloatType {
    pub fn ggml(self) -> GgmlType {
        match self {
            FloatType::F32 => GgmlType::F32,
            FloatType::F16 => GgmlType::F16,
            FloatType::Bf16 => GgmlType::BF16,
        }
    }
}
