//! Numbers for display: three digits and a unit.

use std::time::Duration;

/// Formats a number with three significant digits and a unit. Each unit is a thousand times the previous one; the first unit is 1.
fn scaled(n: f64, units: &[&str]) -> String {
    let mut value = n;
    let mut unit = 0;
    // A value that would be rounded to 1000 becomes 1 of the next unit.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let places = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}{}", units.get(unit).copied().unwrap_or_default())
}

/// `5.82 MB`; a MB is a million bytes.
pub fn size(bytes: u64) -> String {
    scaled(bytes as f64, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

/// `2.90 M`
pub fn count(n: u64) -> String {
    scaled(n as f64, &["", " K", " M", " B", " T", " Q"])
}

/// `512 MB/s`
pub fn rate(bytes: u64, time: Duration) -> String {
    let per_second = bytes as f64 / time.as_secs_f64().max(1e-9);
    scaled(per_second, &[" B/s", " kB/s", " MB/s", " GB/s", " TB/s", " PB/s", " EB/s"])
}

/// `99.7 %`
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0.0 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// `99.7 %` of a share of 1
pub fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Four significant digits: `0.04215`, `12.34`, `1234`; `1.23e-7` where that is shorter.
pub fn digits(x: f64) -> String {
    let magnitude = x.abs().log10().floor();
    match magnitude {
        _ if x == 0.0 => "0".to_owned(),
        -4.0..=6.0 => format!("{x:.*}", rounded(3.0 - magnitude)),
        _ => format!("{x:.2e}"),
    }
}

/// The whole number nearest to `x`, for a number of digits or columns; 0 if `x` is negative.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the number is whole, and one out of range becomes the nearest in range"
)]
pub fn rounded(x: f64) -> usize {
    x.round() as usize
}

/// `4.85`
pub fn bits_per_weight(bits: f64) -> String {
    format!("{bits:.2}")
}

/// `0.41 s`, `12 s`, `3 min 20 s`, `2 h 5 min`
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 9.95 {
        return format!("{seconds:.*} s", if seconds < 1.0 { 2 } else { 1 });
    }
    match time.saturating_add(Duration::from_millis(500)).as_secs() {
        s @ ..=119 => format!("{s} s"),
        s @ ..=7199 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

/// `1 entry`, `2,000 entries`
pub fn number(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", super::grouped(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (n, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (99_960, "100 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (5_821_120, "5.82 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(size(n), text);
        }
        assert_eq!(count(8_030_261_248), "8.03 B");
        assert_eq!(count(7), "7");
    }

    #[test]
    fn measures_have_four_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.042153, "0.04215"),
            (-12.344, "-12.34"),
            (1234.4, "1234"),
            (1234567.0, "1234567"),
            (1.234e-7, "1.23e-7"),
            (3.4e38, "3.40e38"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(digits(x), text);
        }
        assert_eq!(share(0.9764), "97.6 %");
    }

    #[test]
    fn times() {
        for (ms, text) in [
            (0, "0.00 s"),
            (410, "0.41 s"),
            (2_340, "2.3 s"),
            (12_400, "12 s"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
        assert_eq!(rate(1_000_000, Duration::from_secs(2)), "500 kB/s");
        assert_eq!(rate(1, Duration::ZERO), "1.00 GB/s");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }
}
