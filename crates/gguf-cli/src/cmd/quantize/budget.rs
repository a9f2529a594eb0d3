//! The options of `gguf quantize` for a target size instead of a file type.

use std::fmt;

use gguf_format::GgmlType;
use gguf_quantize::budget::{Budget, Limit};
use gguf_quantize::mix::parse_tensor_type;

use crate::cmd::size::parse_size;
use crate::ui::grouped;

/// A size to stay within.
#[derive(Debug, clap::Args)]
pub struct BudgetOptions {
    /// Choose the type of each tensor for the lowest total error within this file size, such as 4.2GiB, 700MB or a
    /// number of bytes; replaces TYPE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_negative_numbers = true, group = "limit", conflicts_with = "pure")]
    target_size: Option<u64>,

    /// Likewise, with at most this many bits per weight, such as 3.9; replaces TYPE
    #[arg(long, value_name = "BITS", value_parser = parse_bits, allow_negative_numbers = true, group = "limit", conflicts_with = "pure")]
    target_bpw: Option<f64>,

    /// Types to choose from, such as q4_K,q5_K,q6_K
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = parse_candidate, requires = "limit")]
    candidates: Vec<GgmlType>,
}

impl BudgetOptions {
    /// The requested size and candidate types, if any.
    pub fn budget(&self) -> Option<Budget<'static>> {
        let size = self.target_size.map(Limit::FileBytes);
        let limit = size.or(self.target_bpw.map(Limit::BitsPerWeight))?;
        let candidates = (!self.candidates.is_empty()).then(|| self.candidates.clone());
        Some(Budget { candidates, ..Budget::new(limit) })
    }
}

/// Displays a limit as `within 4,509,715,660 bytes`.
pub struct Within(pub Limit);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Limit::FileBytes(n) => write!(f, "within {} bytes", grouped(n)),
            Limit::BitsPerWeight(bits) => write!(f, "within {bits} bits per weight"),
        }
    }
}

fn parse_bits(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bits) if bits > 0.0 && bits <= 64.0 => Ok(bits),
        _ => Err("expected bits per weight, above 0 and at most 64, such as 3.9".to_owned()),
    }
}

/// Parses a tensor type, ignoring spaces around it.
fn parse_candidate(text: &str) -> Result<GgmlType, String> {
    parse_tensor_type(text.trim()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_above_0_and_at_most_64() {
        assert_eq!(parse_bits("3.9"), Ok(3.9));
        for text in ["0", "-1", "NaN", "inf", "100", "x"] {
            assert!(parse_bits(text).is_err(), "{text}");
        }
    }
}
