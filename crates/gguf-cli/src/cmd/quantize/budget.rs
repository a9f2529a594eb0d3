//! The options of `gguf quantize` that give a size in place of a file type.

use std::fmt;

use gguf_format::GgmlType;
use gguf_quantize::budget::{Budget, Limit};
use gguf_quantize::mix::parse_tensor_type;

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
    /// What they ask for, if anything.
    pub fn budget(&self) -> Option<Budget<'static>> {
        let size = self.target_size.map(Limit::FileBytes);
        let limit = size.or(self.target_bpw.map(Limit::BitsPerWeight))?;
        let candidates = (!self.candidates.is_empty()).then(|| self.candidates.clone());
        Some(Budget { candidates, ..Budget::new(limit) })
    }
}

/// `within 4,509,715,660 bytes`
pub struct Within(pub Limit);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Limit::FileBytes(n) => write!(f, "within {} bytes", grouped(n)),
            Limit::BitsPerWeight(bits) => write!(f, "within {bits} bits per weight"),
        }
    }
}

/// Units of sizes, in small letters.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1000),
    ("kb", 1000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// `4.2GiB`, `4.2 GB`, `700M`, `1234567`: bytes, rounded down.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let Some(&(_, unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err("expected a size such as 4.2GiB, 4.2GB, 700MiB or 1234567".to_owned());
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).filter(|&n| n > 0).ok_or_else(|| "not a valid file size".to_owned());
    }
    match number.parse::<f64>().map(|n| (n * unit as f64).floor()) {
        Ok(bytes) if (1.0..9e18).contains(&bytes) => Ok(bytes as u64),
        Ok(_) => Err("not a valid file size".to_owned()),
        Err(_) => Err("expected a size such as 4.2GiB, 4.2GB, 700MiB or 1234567".to_owned()),
    }
}

fn parse_bits(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bits) if bits > 0.0 && bits <= 64.0 => Ok(bits),
        _ => Err("expected bits per weight, above 0 and at most 64, such as 3.9".to_owned()),
    }
}

/// A type of a list, with or without spaces around it.
fn parse_candidate(text: &str) -> Result<GgmlType, String> {
    parse_tensor_type(text.trim()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1234567", Some(1_234_567)),
            ("4.2GiB", Some(4_509_715_660)),
            ("4.2 GB", Some(4_200_000_000)),
            ("4.2g", Some(4_200_000_000)),
            ("700MiB", Some(734_003_200)),
            ("1.5kb", Some(1500)),
            ("9B", Some(9)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999TB", None),
            ("0", None),
            ("0.1", None),
            ("-5", None),
            ("GiB", None),
            ("", None),
            ("1.2.3MB", None),
            ("1e9", None),
            ("5 apples", None),
        ] {
            assert_eq!(parse_size(text).ok(), bytes, "{text}");
        }
        assert_eq!(parse_bits("3.9"), Ok(3.9));
        for text in ["0", "-1", "NaN", "inf", "100", "x"] {
            assert!(parse_bits(text).is_err(), "{text}");
        }
    }
}
