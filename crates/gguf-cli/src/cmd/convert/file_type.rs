//! The values of `gguf convert --type`.

use std::fmt;

use gguf_hf::OutType;
use gguf_quantize::mix::Target;

use crate::cmd::quantize::Goal;

/// Values of `--type` in addition to the file types.
pub const AUTO: &[(&str, &str)] = &[("auto", "the 16-bit type of the checkpoint, or f16")];

/// A value of `--type`.
#[derive(Debug, Clone, PartialEq)]
pub enum FileType {
    /// A file as written by llama.cpp's converter.
    Converted(OutType),
    /// A type that llama.cpp's converter also writes; quantized only if quantization options are given.
    Either(OutType, Target),
    /// The converted file is then quantized to this file type.
    Quantized(Goal),
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileType::Converted(ty) => write!(f, "{ty:?}"),
            FileType::Either(_, target) => write!(f, "{target}"),
            FileType::Quantized(goal) => write!(f, "{goal}"),
        }
    }
}

impl FileType {
    pub fn parse(text: &str) -> Result<FileType, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(FileType::Converted(OutType::Auto));
        }
        let goal = Goal::parse_option(text)?;
        Ok(match OutType::from_name(&goal.to_string().to_ascii_lowercase()) {
            None => FileType::Quantized(goal),
            Some(ty @ (OutType::Q8_0 | OutType::TQ1_0 | OutType::TQ2_0)) => FileType::Either(ty, goal.target),
            Some(ty) => FileType::Converted(ty),
        })
    }
}
