//! Conversions of numbers that are exact or say what they lose.

/// The nearest `f32`.
#[expect(clippy::cast_possible_truncation, reason = "the value is rounded, or becomes infinite, as in C")]
pub(crate) fn to_f32(value: f64) -> f32 {
    value as f32
}

/// An index or a length in memory. A number that does not fit is beyond the end of everything in memory.
#[inline]
pub(crate) fn to_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A count or an id in 32 bits. All counts for which this is used have lower limits.
#[inline]
pub(crate) fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
