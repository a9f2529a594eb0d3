//! Parsing of sizes on the command line.

use std::num::NonZeroU64;

/// The units, in lower case.
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

/// Parses a size such as `4.2GiB`, `4.2 GB`, `700M` or `1234567` into bytes, rounded down.
///
/// # Errors
/// If the text is not a size, or if the size is zero or too large.
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
        #[allow(clippy::cast_possible_truncation, reason = "the number is whole, and less than `u64::MAX`")]
        Ok(bytes) if (1.0..9e18).contains(&bytes) => Ok(bytes as u64),
        Ok(_) => Err("not a valid file size".to_owned()),
        Err(_) => Err("expected a size such as 4.2GiB, 4.2GB, 700MiB or 1234567".to_owned()),
    }
}

/// Like [`parse_size`], but returns a nonzero integer.
///
/// # Errors
/// If the text is not a size, or is 0.
pub fn parse_limit(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?).ok_or_else(|| "expected a value greater than 0".to_owned())
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
    }
}
